"""Compare the memory's part of the index with the entities: every row that there should be, and no other."""

from __future__ import annotations

__all__ = ["check_rows"]

import sqlite3
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from periplus.memory.fulltext.index_rows import TABLES, document_row, links_of, touched_rows, words_row
from periplus.memory.fulltext.list_rows import LISTED_TABLES, listed_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from periplus.journal import Entity
    from periplus.memory.fulltext.index_rows import Rows

_NAMED_MAX: Final = 3
_BESIDE: Final = ("texts", "touched", "replaced", "links", "search_faults", *LISTED_TABLES)
_WORDS: Final = "body, title, path, context, day, kind, sense"
_ID_SHIFT: Final = 15
Row: TypeAlias = tuple[object, ...]


def check_rows(
    rows_of: Callable[[Entity], Rows],
    db: sqlite3.Connection,
    live: Iterable[Entity],
    left_out: Container[tuple[str, str]],
) -> Iterator[str]:
    """See ``journal.index.index_file.Indexer``; ``live`` is sorted by type and id. SQLite compares the words of a table with its
    texts.
    """
    known: set[tuple[str, str]] = set()
    for item_type, entities in groupby(live, attrgetter("item_type")):
        beside = {table: _Rows(db, table, item_type) for table in _BESIDE}
        wrong: dict[str, list[str]] = {}
        for entity in entities:
            key = (entity.item_type, entity.item_id)
            known.add(key)
            if key not in left_out:
                for table in _differing(rows_of, db, entity, beside):
                    wrong.setdefault(table, []).append(entity.item_id)
        for table, ids in sorted(wrong.items()):
            yield f"{table} of {_named(item_type, ids)} differ from the journal"
    for table in ("documents", *_BESIDE):
        held = db.execute(f"SELECT DISTINCT item_type, item_id FROM {table} ORDER BY 1, 2")  # noqa: S608 - constants
        strange = [item_id for key in held if (item_id := key[1]) and key not in known and key not in left_out]
        if strange:
            yield f"{table} has rows of {_named('', strange)}, which no longer exist"
    for table in TABLES:
        lone = db.execute(
            f"SELECT COUNT(*) FROM {table}_content WHERE id NOT IN (SELECT id FROM documents WHERE (kind = 'session') = ?)",  # noqa: S608 - constants
            (table != TABLES[0],),
        ).fetchone()[0]
        if lone:
            yield f"{table} has {lone:,} rows without a document"
    lone = db.execute("SELECT COUNT(*) FROM passages WHERE id NOT IN (SELECT id FROM documents)").fetchone()[0]
    if lone:
        yield f"passages has {lone:,} rows without a document"


def _named(item_type: str, ids: list[str]) -> str:
    listed = ", ".join(ids[:_NAMED_MAX])
    return f"{item_type} {listed}".strip() + (f" and {len(ids) - _NAMED_MAX:,} more" if len(ids) > _NAMED_MAX else "")


class _Rows:
    """The rows of a table that belong to entities of one type, read in the order of their ids."""

    def __init__(self, db: sqlite3.Connection, table: str, item_type: str) -> None:
        rows = db.execute(
            f"SELECT item_id, t.* FROM {table} t WHERE item_type = ? AND typeof(item_id) = 'text' ORDER BY item_id",  # noqa: S608 - a constant
            (item_type,),
        )
        self._groups = groupby(rows, itemgetter(0))
        self._next: tuple[str, set[Row]] | None = ("", set())

    def of(self, item_id: str) -> set[Row]:
        """Return the rows of an entity; entities are asked for in the order of their ids."""
        while self._next is not None and self._next[0] < item_id:
            found = next(self._groups, None)
            self._next = None if found is None else (found[0], {tuple(row[1:]) for row in found[1]})
        return self._next[1] if self._next is not None and self._next[0] == item_id else set()


def _differing(
    rows_of: Callable[[Entity], Rows], db: sqlite3.Connection, entity: Entity, beside: dict[str, _Rows]
) -> Iterator[str]:
    """Yield the tables in which the entity's rows differ from what they should be."""
    key = (entity.item_type, entity.item_id)
    rows = rows_of(entity)
    held = db.execute(
        "SELECT item_type, item_id, kind, part, ts, state, confidence, anchored, label, text, id FROM documents LEFT JOIN passages USING (id)"
        " WHERE item_type = ? AND item_id = ?", key,
    ).fetchall()  # fmt: skip
    wanted: list[Row] = [(item.id >> _ID_SHIFT, *document_row(item)) for item in rows.documents]
    if not _are_same(wanted, [(row[-1] >> _ID_SHIFT, *row[:-1]) for row in held]):
        yield "documents"
    if not _are_same(
        [(table, *row) for table, row in map(words_row, rows.documents)], [_words_at(db, row) for row in held]
    ):
        yield "words"
    expected: dict[str, set[Row]] = {
        "texts": {(rows.digest, *key)} if rows.digest else set(),
        "touched": {row for item in rows.documents for row in touched_rows(item)},
        "replaced": {(target, *key) for target in rows.replaced},
        "links": {(*pair, *key) for pair in links_of(entity)},
        "listed": {listed_row(entity)} if entity.item_type != "trail" else set(),
        "sessions": {rows.session} if rows.session else set(),
    }
    for table, there in expected.items():
        if there != beside[table].of(entity.item_id):
            yield table
    if bool(beside["search_faults"].of(entity.item_id)) != bool(rows.fault):
        yield "search_faults"


def _are_same(ours: list[Row], theirs: list[Row]) -> bool:
    """Return True where both have the same rows, in any order."""
    return ours == theirs or Counter(ours) == Counter(theirs)


def _words_at(db: sqlite3.Connection, document: Row) -> Row:
    """Return the table that has a document's words, and the words."""
    table = TABLES[document[2] == "session"]
    found = db.execute(f"SELECT {_WORDS} FROM {table} WHERE rowid = ?", (document[-1],)).fetchone()  # noqa: S608 - constants
    return (table, *(found or ()))
