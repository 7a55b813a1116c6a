"""Full text in the store's index: SQLite FTS5 (Porter stemming) over the documents of ``memory.fulltext.documents``.

The tables lie beside the journal's in ``index.sqlite`` and share its watermark: a document is searchable in the same
transaction as its entity. A trail whose object cannot be read is listed in ``search_faults`` until it can.

Whole sessions have a table of words of their own: they are a hundred times longer than a step, and in one table the
average length would make every session look worthless and every step alike. Beside its words a document has the token
of its kind, so that a search among few kinds stays a search in the index. A document's row number begins with its
time: rows are in the order of time, and the newest can be read first without sorting.
"""

from __future__ import annotations

__all__ = ["TOKENIZER", "MemoryIndexer"]

import sqlite3
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.encoding import hashing
from periplus.base.errors import PeriplusError
from periplus.journal import Entity, Layout
from periplus.memory.entities.types import UNSEARCHED
from periplus.memory.fulltext.index_rows import (
    NAMES,
    REWRITTEN,
    TABLES,
    Pending,
    Rows,
    document_row,
    links_of,
    names_of,
    superseded_in,
    text_digest,
    touched_rows,
    words_row,
)
from periplus.memory.fulltext.index_version import INDEX_VERSION
from periplus.memory.fulltext.list_rows import LISTED_SCHEMA, LISTED_TABLES, listed_row, session_row

if TYPE_CHECKING:
    from periplus.memory.fulltext.documents import Document
    from periplus.trail.model import Step

TOKENIZER: Final = "porter unicode61 remove_diacritics 2 categories 'L* N* M* Co'"
_WORDS: Final = f'USING fts5(body, title, path, context, day, kind, sense, tokenize="{TOKENIZER}")'
_SCHEMA: Final = f"""
DROP TABLE IF EXISTS documents;
DROP TABLE IF EXISTS passages;
DROP TABLE IF EXISTS words;
DROP TABLE IF EXISTS session_words;
DROP TABLE IF EXISTS texts;
DROP TABLE IF EXISTS touched;
DROP TABLE IF EXISTS replaced;
DROP TABLE IF EXISTS links;
DROP TABLE IF EXISTS search_faults;
DROP TABLE IF EXISTS vectors;
CREATE TABLE documents (
    id INTEGER PRIMARY KEY, item_type TEXT NOT NULL, item_id TEXT NOT NULL, kind TEXT NOT NULL, part INTEGER NOT NULL,
    ts TEXT NOT NULL, state TEXT NOT NULL, confidence INTEGER NOT NULL, anchored INTEGER NOT NULL,
    label TEXT NOT NULL
);
CREATE TABLE passages (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE INDEX documents_by_item ON documents (item_type, item_id, state);
CREATE VIRTUAL TABLE words {_WORDS};
CREATE VIRTUAL TABLE session_words {_WORDS};
CREATE TABLE texts (digest BLOB NOT NULL, item_type TEXT NOT NULL, item_id TEXT NOT NULL, PRIMARY KEY (item_type, item_id));
CREATE INDEX texts_by_digest ON texts (digest);
CREATE TABLE touched (path TEXT NOT NULL, item_type TEXT NOT NULL, item_id TEXT NOT NULL, part INTEGER NOT NULL,
    ts TEXT NOT NULL, PRIMARY KEY (path, item_type, item_id, part)) WITHOUT ROWID;
CREATE INDEX touched_by_item ON touched (item_type, item_id, part);
CREATE INDEX touched_by_time ON touched (ts);
CREATE TABLE replaced (target TEXT NOT NULL, item_type TEXT NOT NULL, item_id TEXT NOT NULL,
    PRIMARY KEY (target, item_type, item_id)) WITHOUT ROWID;
CREATE INDEX replaced_by_item ON replaced (item_type, item_id);
CREATE TABLE links (field TEXT NOT NULL, value TEXT NOT NULL, item_type TEXT NOT NULL, item_id TEXT NOT NULL,
    PRIMARY KEY (item_type, field, value, item_id)) WITHOUT ROWID;
CREATE INDEX links_by_item ON links (item_type, item_id);
CREATE INDEX links_by_value ON links (field, value);
CREATE TABLE search_faults (item_type TEXT NOT NULL, item_id TEXT NOT NULL, what TEXT NOT NULL,
    PRIMARY KEY (item_type, item_id));
{LISTED_SCHEMA.strip()}
"""
_VERSION: Final = INDEX_VERSION
_NAMED_MAX: Final = 10
_MERGED_FROM: Final = 4_000
_MERGED_SHARE: Final = 4
_PENDING_CHARACTERS_MAX: Final = 8 << 20
_TIME_SHIFT: Final = 15
_PLACE_MASK: Final = (1 << _TIME_SHIFT) - 1


class MemoryIndexer:
    """The memory's part of the index; ``read`` fetches objects by digest."""

    version = _VERSION

    @staticmethod
    def is_ready(root: str) -> bool:
        """Return True where the store ``root`` has an index that may be asked at once; False where it would have to
        be built first.
        """
        from periplus.journal.index.index_file import is_filled

        return is_filled(Layout(root).index, _VERSION)

    def __init__(self, read: Callable[[bytes], bytes], hidden: frozenset[str] = frozenset()) -> None:
        """``hidden`` are declared types that are not found by their words."""
        self._read = read
        self._hidden = UNSEARCHED | hidden
        self._added = 0  # documents since the full text was merged
        self._due = _MERGED_FROM
        if hidden:  # an index that was built with other types is rebuilt
            import zlib

            self.version = _VERSION + (zlib.crc32("\0".join(sorted(hidden)).encode()) << 8)

    def create(self, db: sqlite3.Connection) -> None:
        for statement in _SCHEMA.split(";\n"):
            db.execute(statement)

    def apply(self, db: sqlite3.Connection, changed: Sequence[Entity]) -> None:
        self._forget(db, changed)
        pending: list[Pending] = []
        size = 0
        for entity in changed:
            if entity.deleted:
                continue
            key = (entity.item_type, entity.item_id)
            db.executemany("INSERT INTO links VALUES (?, ?, ?, ?)", [(*pair, *key) for pair in links_of(entity)])
            rows = self.rows_of(entity)
            if entity.item_type != "trail":
                db.execute(f"INSERT INTO listed VALUES ({'?, ' * 9}?)", listed_row(entity))  # noqa: S608 - a constant
            if rows.session:
                db.execute(f"INSERT INTO sessions VALUES ({'?, ' * 17}?)", rows.session)  # noqa: S608 - a constant
            if rows.fault:
                db.execute("INSERT OR REPLACE INTO search_faults VALUES (?, ?, ?)", (*key, rows.fault))
            if rows.digest:
                db.execute("INSERT OR REPLACE INTO texts VALUES (?, ?, ?)", (rows.digest, *key))
            db.executemany("INSERT OR IGNORE INTO replaced VALUES (?, ?, ?)",
                           [(target, *key) for target in rows.replaced])  # fmt: skip
            for item in rows.documents:
                pending.append(item)
                size += len(item.document.body) + len(item.document.context)
            if size > _PENDING_CHARACTERS_MAX:
                self._insert_all(db, pending)
                pending, size = [], 0
        self._insert_all(db, pending)

    def names_of(self, entity: Entity) -> list[str]:
        return names_of(entity)

    def named(self, db: sqlite3.Connection, name: str) -> list[tuple[str, str]]:
        """See ``journal.index.index_file.Indexer``."""
        rows = db.execute(
            "SELECT item_type, item_id FROM links WHERE field = ? AND value = ? ORDER BY 1, 2 LIMIT ?",
            (NAMES, name, _NAMED_MAX),
        )
        return [(str(item_type), str(item_id)) for item_type, item_id in rows]

    def check(
        self, db: sqlite3.Connection, live: Iterable[Entity], left_out: Container[tuple[str, str]]
    ) -> Iterator[str]:
        """See ``journal.index.index_file.Indexer``."""
        from periplus.memory.fulltext.index_check import check_rows

        return check_rows(self.rows_of, db, live, left_out)

    def _forget(self, db: sqlite3.Connection, changed: Sequence[Entity]) -> None:
        has_vectors = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'vectors'").fetchone() is not None
        for entity in changed:
            key = (entity.item_type, entity.item_id)
            ids = db.execute("SELECT id FROM documents WHERE item_type = ? AND item_id = ? ORDER BY id", key).fetchall()
            for table in (*TABLES, "passages") if ids else ():
                db.executemany(f"DELETE FROM {table} WHERE rowid = ?", ids)  # noqa: S608 - constants
            if has_vectors:
                db.executemany("DELETE FROM vectors WHERE id = ?", ids)
            listed = LISTED_TABLES[entity.item_type == "trail"]
            for table in ("documents", "texts", "touched", "replaced", "links", "search_faults", listed):
                db.execute(f"DELETE FROM {table} WHERE item_type = ? AND item_id = ?", key)  # noqa: S608 - constants

    def _insert_all(self, db: sqlite3.Connection, pending: list[Pending]) -> None:
        """Insert in the order of the row numbers, which the full text takes in one run.

        After many insertions the parts of the full text are merged, for a search reads each of them: at a growth of a
        quarter, so that it costs a few percent of filling a store, and nothing for a single memory.
        """
        for item in sorted(pending, key=lambda item: (item.id, item.key, item.document.part)):
            _insert(db, item)
        self._added += len(pending)
        if self._added < self._due:
            return
        self._due = max(_MERGED_FROM, db.execute("SELECT COUNT(*) FROM documents").fetchone()[0] // _MERGED_SHARE)
        if self._added >= self._due:
            self._added = 0
            for table in TABLES:
                db.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")  # noqa: S608 - constants

    def rows_of(self, entity: Entity) -> Rows:
        """Return the rows of a live entity, without links. An error in reading a trail becomes the fault of the rows."""
        if entity.item_type in self._hidden:
            return Rows()  # among them candidates: nobody finds them before they are accepted
        if entity.item_type == "trail":
            return self._rows_of_trail(entity)
        from periplus.memory.fulltext.documents import documents_of_memory

        value = entity.value
        digest = text_digest(entity.item_type, str(value.get("text", "")))
        return Rows(_pending(entity, documents_of_memory(entity)), digest, tuple(superseded_in(value.get("relations"))))

    def _rows_of_trail(self, entity: Entity) -> Rows:
        from periplus.memory.fulltext.documents import documents_of_rewritten, documents_of_trail
        from periplus.trail.listings.model_costs import ModelCosts, plus_call

        costs, fault = ModelCosts(), ""
        documents: list[Document] = []

        def count(step: Step) -> None:
            nonlocal costs
            costs = plus_call(costs, step)

        try:
            documents = documents_of_trail(entity, self._read, count)
            documents += documents_of_rewritten(entity)
        except PeriplusError as error:
            fault, documents, costs = str(error), [], ModelCosts()
        session = () if entity.value.get("format") == "git" else session_row(entity, costs)
        return Rows(_pending(entity, documents), fault=fault, session=session)


def _pending(entity: Entity, documents: Sequence[Document]) -> list[Pending]:
    """Return the documents of an entity with the columns that they share."""
    key, value = (entity.item_type, entity.item_id), entity.value
    state = value.get("state", "")
    confidence = value.get("confidence", 100)
    about = value.get("about")
    anchored = isinstance(about, list) and any(isinstance(item, dict) and item.get("sha256") for item in about)
    place = int.from_bytes(hashing.sha256("\0".join(key).encode()).digest()[:2], "big")
    return [
        Pending(
            _row_id(document.ts, place + document.part),
            key,
            document,
            REWRITTEN if document.part < -1 else state if isinstance(state, str) else "",
            min(100, max(0, confidence)) if isinstance(confidence, int) else 100,
            anchored,
        )
        for document in documents
    ]


def _row_id(ts: str, place: int) -> int:
    from periplus.base.clock import parse_ms

    return max(0, parse_ms(ts) or 0) << _TIME_SHIFT | place & _PLACE_MASK


def _insert(db: sqlite3.Connection, item: Pending) -> None:
    row_id = item.id
    while db.execute("SELECT 1 FROM documents WHERE id = ?", (row_id,)).fetchone():
        row_id += 1  # two documents of the same millisecond and place
    *row, text = document_row(item)
    db.execute("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (row_id, *row))
    db.execute("INSERT INTO passages VALUES (?, ?)", (row_id, text))
    table, words = words_row(item)
    db.execute(
        f"INSERT INTO {table} (rowid, body, title, path, context, day, kind, sense) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - a constant
        (row_id, *words),
    )
    db.executemany("INSERT OR IGNORE INTO touched VALUES (?, ?, ?, ?, ?)", touched_rows(item))
