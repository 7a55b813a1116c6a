"""Full text in the store's index: SQLite FTS5 (Porter stemming) over the documents of ``memory.documents``.

The tables live beside the journal's in ``index.sqlite`` and move with its watermark: a document is searchable in the
same transaction in which its entity is. A trail whose object cannot be read stands in ``search_faults`` until it can.
"""

from __future__ import annotations

__all__ = ["MemoryIndexer"]

import hashlib
import sqlite3
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError
from periplus.journal import Entity

if TYPE_CHECKING:
    from periplus.memory.documents import Document

_SCHEMA: Final = """
DROP TABLE IF EXISTS documents;
DROP TABLE IF EXISTS words;
DROP TABLE IF EXISTS texts;
DROP TABLE IF EXISTS touched;
DROP TABLE IF EXISTS search_faults;
CREATE TABLE documents (
    id INTEGER PRIMARY KEY, item_type TEXT NOT NULL, item_id TEXT NOT NULL, kind TEXT NOT NULL, part INTEGER NOT NULL,
    ts TEXT NOT NULL, title TEXT NOT NULL, preview TEXT NOT NULL
);
CREATE INDEX documents_by_item ON documents (item_type, item_id);
CREATE VIRTUAL TABLE words USING fts5(body, title, path, context, day, tokenize='porter unicode61 remove_diacritics 2');
CREATE TABLE texts (digest BLOB NOT NULL, item_type TEXT NOT NULL, item_id TEXT NOT NULL, PRIMARY KEY (item_type, item_id));
CREATE INDEX texts_by_digest ON texts (digest);
CREATE TABLE touched (path TEXT NOT NULL, item_type TEXT NOT NULL, item_id TEXT NOT NULL, part INTEGER NOT NULL,
    PRIMARY KEY (path, item_type, item_id, part)) WITHOUT ROWID;
CREATE INDEX touched_by_item ON touched (item_type, item_id);
CREATE TABLE search_faults (item_type TEXT NOT NULL, item_id TEXT NOT NULL, what TEXT NOT NULL,
    PRIMARY KEY (item_type, item_id));
"""
PREVIEW_CHARACTERS: Final = 400


def text_digest(item_type: str, text: str) -> bytes:
    """By which an exact duplicate is found: the type and the text, white space aside."""
    return hashlib.sha256(f"{item_type}\0{' '.join(text.split())}".encode()).digest()


class MemoryIndexer:
    """The memory's part of the index; ``read`` fetches objects by digest."""

    version = 1

    def __init__(self, read: Callable[[bytes], bytes]) -> None:
        self._read = read

    def create(self, db: sqlite3.Connection) -> None:
        for statement in _SCHEMA.split(";\n"):
            if statement.strip():
                db.execute(statement)

    def apply(self, db: sqlite3.Connection, changed: Sequence[Entity]) -> None:
        for entity in changed:
            self._forget(db, entity)
            if not entity.deleted:
                self._add(db, entity)

    def _forget(self, db: sqlite3.Connection, entity: Entity) -> None:
        key = (entity.item_type, entity.item_id)
        db.execute(
            "DELETE FROM words WHERE rowid IN (SELECT id FROM documents WHERE item_type = ? AND item_id = ?)", key
        )
        for table in ("documents", "texts", "touched", "search_faults"):
            db.execute(f"DELETE FROM {table} WHERE item_type = ? AND item_id = ?", key)  # noqa: S608 - constants

    def _add(self, db: sqlite3.Connection, entity: Entity) -> None:
        from periplus.memory.documents import documents_of_memory, documents_of_trail  # it brings all of periplus.trail

        key = (entity.item_type, entity.item_id)
        try:
            documents = (
                documents_of_trail(entity, self._read) if entity.item_type == "trail" else documents_of_memory(entity)
            )
        except PeriplusError as error:
            db.execute("INSERT OR REPLACE INTO search_faults VALUES (?, ?, ?)", (*key, str(error)))
            return
        if entity.item_type != "trail":
            digest = text_digest(entity.item_type, str(entity.value.get("text", "")))
            db.execute("INSERT OR REPLACE INTO texts VALUES (?, ?, ?)", (digest, *key))
        for document in documents:
            self._insert(db, key, document)

    def _insert(self, db: sqlite3.Connection, key: tuple[str, str], document: Document) -> None:
        from periplus.memory.analysis import expand

        row = db.execute(
            "INSERT INTO documents (item_type, item_id, kind, part, ts, title, preview) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*key, document.kind, document.part, document.ts, document.title, document.body[:PREVIEW_CHARACTERS]),
        )
        paths = " ".join(document.paths)
        db.execute(
            "INSERT INTO words (rowid, body, title, path, context, day) VALUES (?, ?, ?, ?, ?, ?)",
            (row.lastrowid, expand(document.body), expand(document.title), expand(paths), expand(document.context),
             expand(document.ts[:10])),
        )  # fmt: skip
        if document.kind in ("session", "commit") or document.part < 0:
            db.executemany(
                "INSERT OR IGNORE INTO touched VALUES (?, ?, ?, ?)",
                [(path, *key, document.part) for path in document.paths],
            )
