"""The SQLite file of the index. It is derived: a file that is damaged or of another version is removed and made anew.

| table | rows |
|---|---|
| ``blob`` | facts of one content in one language; ``extractor`` says by which version |
| ``name`` | names of definitions, references, packages |
| ``definition`` | where a name is defined: blob, number in its facts, flags |
| ``mention`` | blobs that refer to a name which they do not define |
| ``package`` | blobs of a package or namespace |
| ``searchable`` | blobs whose symbols are in the search table; it is filled when somebody searches (`code.search`) |
| ``view`` | a worktree, and the state of its repository when it was last looked at |
| ``folder``, ``entry`` | the files of a view, their state and their blob |
| ``touched`` | files of a view that changed since its graph was brought up to date, with whether they were there |
| ``graph_file`` | files of the graph of a view: symbols, edges, and what the edges depend on (`code.graph`) |
| ``graph_use`` | files with edges to a node, or (below 0) with references of which only the name is known |
"""

from __future__ import annotations

__all__ = ["SCHEMA_VERSION", "Database", "discard", "joined_path", "shown_path", "stored_path"]

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from typing import Final

from periplus.code.model import FACTS_VERSION

SCHEMA_VERSION: Final = 7
_APPLICATION_ID: Final = 0x50436F64  # "PCod"
_BUSY_MS: Final = 5_000
_CACHE_KIB: Final = 16_384
_SCHEMA: Final = """
CREATE TABLE blob (
    id INTEGER PRIMARY KEY, oid BLOB NOT NULL, language TEXT NOT NULL, extractor TEXT NOT NULL, state TEXT NOT NULL, why TEXT NOT NULL,
    size INTEGER NOT NULL, lines INTEGER NOT NULL, symbols INTEGER NOT NULL, facts BLOB, UNIQUE (oid, language, extractor)
);
CREATE TABLE searchable (blob INTEGER PRIMARY KEY);
CREATE TABLE definition (
    name INTEGER NOT NULL, blob INTEGER NOT NULL, number INTEGER NOT NULL, flags INTEGER NOT NULL, PRIMARY KEY (name, blob, number)
) WITHOUT ROWID;
CREATE TABLE mention (name INTEGER NOT NULL, blob INTEGER NOT NULL, PRIMARY KEY (name, blob)) WITHOUT ROWID;
CREATE TABLE package (name INTEGER NOT NULL, blob INTEGER NOT NULL, PRIMARY KEY (name, blob)) WITHOUT ROWID;
CREATE TABLE view (
    id INTEGER PRIMARY KEY, root TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, stamp TEXT NOT NULL, generation INTEGER NOT NULL,
    looked_ms INTEGER NOT NULL, why TEXT NOT NULL, graph TEXT NOT NULL DEFAULT ''
);
CREATE TABLE folder (id INTEGER PRIMARY KEY, view INTEGER NOT NULL, path NOT NULL, base NOT NULL, UNIQUE (view, path));
CREATE INDEX folder_base ON folder (view, base);
CREATE TABLE entry (
    view INTEGER NOT NULL, folder INTEGER NOT NULL, name NOT NULL, oid BLOB, stamp TEXT, state TEXT NOT NULL, blob INTEGER,
    PRIMARY KEY (view, folder, name)
) WITHOUT ROWID;
CREATE INDEX entry_name ON entry (view, name);
CREATE INDEX entry_blob ON entry (blob, view);
CREATE INDEX entry_state ON entry (view, state) WHERE state != 'known';
CREATE INDEX entry_stamp ON entry (view) WHERE stamp IS NOT NULL;
CREATE TABLE touched (
    view INTEGER NOT NULL, folder INTEGER NOT NULL, name NOT NULL, existed INTEGER NOT NULL, PRIMARY KEY (view, folder, name)
) WITHOUT ROWID;
CREATE TABLE graph_file (
    id INTEGER PRIMARY KEY, view INTEGER NOT NULL, folder INTEGER NOT NULL, name NOT NULL, blob INTEGER NOT NULL,
    is_stale INTEGER NOT NULL, symbols BLOB, asked BLOB, edges BLOB, links BLOB, proven INTEGER NOT NULL DEFAULT 0, likely INTEGER NOT NULL DEFAULT 0,
    named INTEGER NOT NULL DEFAULT 0, external INTEGER NOT NULL DEFAULT 0, unknown INTEGER NOT NULL DEFAULT 0, UNIQUE (view, folder, name)
);
CREATE INDEX graph_file_stale ON graph_file (view) WHERE is_stale;
CREATE INDEX graph_file_blob ON graph_file (blob);
CREATE TABLE graph_use (target INTEGER NOT NULL, source INTEGER NOT NULL, PRIMARY KEY (target, source)) WITHOUT ROWID;
"""


def stored_path(path: str) -> str | bytes:
    """Return ``path`` as SQLite can hold it: bytes where it is no UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return os.fsencode(path)
    return path


def shown_path(stored: str | bytes) -> str:
    return stored if isinstance(stored, str) else os.fsdecode(stored)


def joined_path(folder: str | bytes, name: str | bytes) -> str:
    """Return the path of ``name`` in ``folder``, as the index holds them."""
    return f"{shown_path(folder)}/{shown_path(name)}" if folder else shown_path(name)


class Database:
    """One connection. ``read`` and ``write`` are transactions."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._db = self._open()

    def close(self) -> None:
        self._db.close()

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection itself, for the search tables."""
        return self._db

    def execute(self, query: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        return self._db.execute(query, values)

    def executemany(self, query: str, rows: Iterator[tuple[object, ...]] | list[tuple[object, ...]]) -> None:
        self._db.executemany(query, rows)

    @contextlib.contextmanager
    def write(self) -> Iterator[None]:
        """Everything within is written, or nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:  # also an interrupt: nothing half done is left
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextlib.contextmanager
    def read(self) -> Iterator[None]:
        """Everything within sees one state."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("COMMIT")

    def _open(self) -> sqlite3.Connection:
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        try:
            return self._connected()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                raise
            discard(self.path)
            return self._connected()

    def _connected(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=_BUSY_MS / 1000, isolation_level=None, check_same_thread=False)
        try:
            db.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
            db.execute("PRAGMA temp_store=MEMORY")
            if not _is_current(db):
                self._create(db)
            db.execute("PRAGMA synchronous=NORMAL")
        except BaseException:  # also an interrupt: nothing half done is left
            db.close()
            raise
        return db

    @staticmethod
    def _create(db: sqlite3.Connection) -> None:
        from periplus.code.search.name_index import NAMES
        from periplus.code.search.name_index import SCHEMA as NAME_TABLES
        from periplus.code.search.symbol_index import SCHEMA as SYMBOL_TABLES

        db.execute("PRAGMA page_size=8192")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("BEGIN IMMEDIATE")
        if db.execute("PRAGMA user_version").fetchone()[0] == 0:  # else another process made it meanwhile
            for statement in (*NAMES, *NAME_TABLES, *SYMBOL_TABLES, *_SCHEMA.split(";\n")):
                if statement.strip():
                    db.execute(statement)
            db.execute(f"PRAGMA application_id={_APPLICATION_ID}")
            db.execute(f"PRAGMA user_version={_version()}")
        db.execute("COMMIT")


def _is_current(db: sqlite3.Connection) -> bool:
    """Return False for a new file. Raises sqlite3.DatabaseError for one of another version, or of somebody else."""
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version == _version() and db.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION_ID:
        return True
    if version or db.execute("SELECT 1 FROM sqlite_master").fetchone() is not None:
        raise sqlite3.DatabaseError("an index of another version")
    return False


def _version() -> int:
    return SCHEMA_VERSION * 1000 + FACTS_VERSION


def discard(path: str) -> None:
    """Remove the file of an index and its side files; the next opening makes it anew."""
    for ending in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + ending)
