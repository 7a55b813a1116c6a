"""The index file: schema, opening with validation, and removal.

The file is `index.sqlite`, made by the newest version of Periplus that uses the store. An older version that finds it, such as a server
started before an upgrade, leaves it alone and uses its own file, with its version appended to the name. In a shared file each version would
discard the other's work.
"""

from __future__ import annotations

__all__ = [
    "INDEX_VERSION",
    "NEXT_SUFFIX",
    "PAST",
    "Indexer",
    "NullIndexer",
    "discard_index",
    "discard_indexes",
    "discard_unused",
    "forget_turns",
    "inode_of",
    "is_filled",
    "make_tables",
    "open_index",
    "other_indexes",
    "put_in_place",
]

import os
import re
import sqlite3
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from typing import Final, Protocol

from periplus.base.files import Files
from periplus.base.filesystem.file_systems import is_room_for_maps
from periplus.base.process.fork_safety import close_in_children, is_open_in_parent
from periplus.journal.index.connection import Connection, connect
from periplus.journal.state.entity import Entity

INDEX_VERSION: Final = 6
NEXT_SUFFIX: Final = ".next"  # of an index that is being built to replace this one: see index.rebuild
_UNUSED_S: Final = 30 * 86_400  # without a write; its version is then no longer in use
_VERSION_BITS: Final = 8  # low bits of an indexer's version; the bits above describe its settings
_IDENTITY: Final = re.compile(r"(\d{1,9})\.(\d{1,18}) (.*)")
_OF_A_VERSION: Final = re.compile(r"\.\d{1,9}\.\d{1,3}")  # appended to the name
_SUFFIXES: Final = ("", "-wal", "-shm")  # the main file first: without its log it would look complete
_LOG_BYTES: Final = 16 << 20  # 4000 pages
PAST: Final = "past"  # a name in ``meta``: the index contains content that was removed from the store
_TRIES: Final = 200
_TRY_S: Final = 0.005
_SCHEMA: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE watermarks (
    lineage TEXT PRIMARY KEY, segment INTEGER NOT NULL, offset INTEGER NOT NULL, next_seq INTEGER NOT NULL,
    sum TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE records (
    lineage TEXT NOT NULL, seq INTEGER NOT NULL, segment INTEGER NOT NULL, offset INTEGER NOT NULL,
    length INTEGER NOT NULL, leaf BLOB NOT NULL, ts TEXT NOT NULL, writer TEXT NOT NULL, session TEXT NOT NULL,
    action TEXT NOT NULL, item_type TEXT NOT NULL, item_id TEXT NOT NULL, version TEXT NOT NULL, rev INTEGER NOT NULL,
    key TEXT NOT NULL, summary TEXT NOT NULL, parents TEXT NOT NULL, PRIMARY KEY (lineage, seq)
) WITHOUT ROWID;
CREATE INDEX records_by_item ON records (item_type, item_id);
CREATE INDEX records_by_key ON records (key) WHERE key <> '';
CREATE INDEX records_by_version ON records (version) WHERE version <> '';
CREATE TABLE edges (parent TEXT NOT NULL, child TEXT NOT NULL, PRIMARY KEY (parent, child)) WITHOUT ROWID;
CREATE TABLE heads (
    item_type TEXT NOT NULL, item_id TEXT NOT NULL, version TEXT NOT NULL, parents TEXT NOT NULL, rev INTEGER NOT NULL,
    deleted INTEGER NOT NULL, payload BLOB NOT NULL, ts TEXT NOT NULL, writer TEXT NOT NULL, session TEXT NOT NULL,
    lineage TEXT NOT NULL, seq INTEGER NOT NULL, stub INTEGER NOT NULL, PRIMARY KEY (item_type, item_id, version)
);
CREATE INDEX heads_live ON heads (item_type, item_id) WHERE deleted = 0;
CREATE TABLE ancestors (
    item_type TEXT NOT NULL, item_id TEXT NOT NULL, version TEXT NOT NULL, parents TEXT NOT NULL, rev INTEGER NOT NULL,
    deleted INTEGER NOT NULL, payload BLOB NOT NULL, ts TEXT NOT NULL, writer TEXT NOT NULL, session TEXT NOT NULL,
    lineage TEXT NOT NULL, seq INTEGER NOT NULL, stub INTEGER NOT NULL, below TEXT NOT NULL,
    PRIMARY KEY (item_type, item_id, version)
) WITHOUT ROWID;
CREATE TABLE files (
    item_type TEXT NOT NULL, item_id TEXT NOT NULL, sha256 BLOB NOT NULL, stamp BLOB NOT NULL, boot TEXT NOT NULL,
    PRIMARY KEY (item_type, item_id)
) WITHOUT ROWID;
CREATE TABLE floors (lineage TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE kept_keys (
    key TEXT NOT NULL, lineage TEXT NOT NULL, seq INTEGER NOT NULL, version TEXT NOT NULL, ts TEXT NOT NULL,
    PRIMARY KEY (key, lineage, seq)
) WITHOUT ROWID;
CREATE TABLE looked (path TEXT PRIMARY KEY, stamp BLOB NOT NULL) WITHOUT ROWID;
"""


class Indexer(Protocol):
    """Tables that the layer above keeps in the index file.

    ``apply`` runs in the transaction that moves the watermark. The low eight bits of ``version`` count the table layouts; the bits above
    may describe how the tables are filled. ``check`` yields the differences from what ``apply`` makes of ``live``, all live entities,
    except for entities in ``left_out``. ``names_of`` returns an entity's names beside its id; ``named`` finds type and id of the entities
    with a name.
    """

    version: int

    def create(self, db: sqlite3.Connection) -> None: ...

    def apply(self, db: sqlite3.Connection, changed: Sequence[Entity]) -> None: ...

    def check(
        self, db: sqlite3.Connection, live: Iterable[Entity], left_out: Container[tuple[str, str]]
    ) -> Iterator[str]: ...

    def names_of(self, entity: Entity) -> list[str]: ...

    def named(self, db: sqlite3.Connection, name: str) -> list[tuple[str, str]]: ...


class NullIndexer:
    """An indexer that keeps nothing, for a journal without a layer above, as in tests."""

    version = 0

    def create(self, db: sqlite3.Connection) -> None:
        """Create no tables."""

    def apply(self, db: sqlite3.Connection, changed: Sequence[Entity]) -> None:
        """Keep nothing."""

    def names_of(self, entity: Entity) -> list[str]:  # noqa: ARG002 - nobody knows of any
        return []

    def named(self, db: sqlite3.Connection, name: str) -> list[tuple[str, str]]:  # noqa: ARG002 - nothing is kept in it
        return []

    def check(
        self,
        db: sqlite3.Connection,  # noqa: ARG002 - nothing is kept in it
        live: Iterable[Entity],  # noqa: ARG002 - nothing is made of them
        left_out: Container[tuple[str, str]],  # noqa: ARG002 - nothing is said of any
    ) -> Iterator[str]:
        """Compare nothing."""
        return iter(())


def open_index(path: str, identity: str, indexer: Indexer, *, is_writable: bool) -> Connection | None:
    """Open the index ``identity`` at ``path``, creating it if it is missing or unsound; beside ``path`` if a newer version's index is
    there.

    The connection's ``path`` is the actual file. Return None if there can be no index: it is being rebuilt, nothing may be written, or a
    thread of the process from which this one was forked has it open.
    """
    own = _beside(path, identity)
    if os.path.exists(own):
        path = own
    attempt = 0
    while not is_open_in_parent(path):
        try:
            with _undisturbed(path, LOCK_SH):
                db = _connect(path, identity, indexer, is_writable=is_writable)
            if db is not None:
                return db
        except _NewerError:
            if path != own:
                path = own
                continue
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                break  # it is being rebuilt; an index in memory is used meanwhile
        except sqlite3.DatabaseError:
            pass  # damaged; it is derived, so it is removed below
        if attempt or not is_writable:
            break
        try:
            discard_index(path)
        except OSError:
            break  # a folder, or another user's file: an index in memory is used
        attempt += 1
    return None


def is_filled(path: str, version: int) -> bool:
    """Return True if ``path`` has an index of this version, with records in it, or if that cannot be determined. For callers that have no
    time to build one.
    """
    mine = f"{INDEX_VERSION}.{version} "
    own = _beside(path, mine)
    path = own if os.path.exists(own) else path
    if not os.path.exists(path):
        return False
    try:
        with _undisturbed(path, LOCK_SH):
            db = connect(path)
        try:
            found = db.execute("SELECT value FROM meta WHERE name = 'identity'").fetchone()
            has_records = db.execute("SELECT 1 FROM watermarks LIMIT 1").fetchone() is not None
        finally:
            db.close()
    except sqlite3.Error:
        return True  # opening it will report the error
    return found is not None and _version(str(found[0])) == _version(mine) and has_records


class _NewerError(Exception):
    """An index of a newer version exists. Never leaves this module."""


def _beside(path: str, identity: str) -> str:
    """Return the path of the index ``identity`` while a newer version's index occupies ``path``."""
    suffix = "".join(f".{number}" for number in _version(identity) or ())
    return path if path.endswith(suffix) else path + suffix


def _version(identity: str) -> tuple[int, int] | None:
    """Return the version by which two indexes of one store are compared."""
    found = _IDENTITY.fullmatch(identity)
    return (int(found[1]), int(found[2]) & ((1 << _VERSION_BITS) - 1)) if found is not None else None


def _is_newer(found: str, identity: str) -> bool:
    """Return True if ``found`` is of the same store and of a newer version."""
    versions = _version(found), _version(identity)
    is_same_store = found.partition(" ")[2] == identity.partition(" ")[2]
    return is_same_store and versions[0] is not None and versions[1] is not None and versions[0] > versions[1]


def make_tables(db: Connection, identity: str, indexer: Indexer) -> Connection:
    """Create the tables of the index ``identity`` if they are missing; return ``db``."""
    db.execute("BEGIN IMMEDIATE")
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
        for statement in _SCHEMA.split(";"):
            db.execute(statement)
        indexer.create(db)
        db.execute("INSERT INTO meta VALUES ('identity', ?)", (identity,))
    db.execute("COMMIT")
    return db


def discard_index(path: str) -> None:
    """Remove the index at ``path``. Raises OSError."""
    with _undisturbed(path, LOCK_EX):
        for suffix in _SUFFIXES:
            _remove(path + suffix, os.unlink)


def other_indexes(path: str) -> list[str]:
    """Return the indexes of other versions beside ``path``, and unfinished ones. Raises OSError."""
    folder, name = os.path.split(path)
    base = _OF_A_VERSION.sub("", name)
    found = set[str]()
    for other in os.listdir(folder):
        if other.startswith(base):
            index = other.removesuffix("-wal").removesuffix(
                "-shm"
            )  # one that is there alone belongs to a file that is gone
            whose = index.removesuffix(NEXT_SUFFIX)
            if whose != name and (whose == base or _OF_A_VERSION.fullmatch(whose[len(base) :])):
                found.add(index)
    return [os.path.join(folder, other) for other in sorted(found)]


def discard_indexes(path: str) -> None:
    """Remove the index at ``path`` and those of other versions; processes that have one open notice. Raises OSError."""
    for one in (path, *other_indexes(path)):
        discard_index(one)


def discard_unused(path: str) -> None:
    """Remove indexes of other versions that were not written for 30 days, to free space. Ignores failures."""
    try:
        for one in other_indexes(path):
            if time.time() - max(_written_s(one + suffix) for suffix in _SUFFIXES) > _UNUSED_S:
                discard_index(one)
    except OSError:
        pass  # the next call tries again


def _written_s(path: str) -> float:
    """Return when a file was last written, in seconds since 1970; 0.0 if it is missing."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def put_in_place(new: str, path: str, files: Files) -> bool:
    """Move the index ``new``, which nobody has open, to ``path``; return False if it is missing or still has a log. Raises OSError."""
    with _undisturbed(path, LOCK_EX):
        if not os.path.exists(new) or os.path.exists(new + "-wal"):
            return False
        for suffix in _SUFFIXES:
            _remove(path + suffix, files.unlink)
        files.replace(new, path)
    return True


def _remove(path: str, unlink: Callable[[str], None]) -> None:
    try:
        unlink(path)
    except FileNotFoundError:
        pass  # SQLite itself removes log and shared memory when the last connection closes


def forget_turns(path: str, files: Files) -> None:
    """Remove the search file of session turns at ``path``, which is rebuilt from the journal."""
    for suffix in _SUFFIXES:
        try:
            files.unlink(path + suffix)
        except FileNotFoundError:
            pass  # no turn was searched for yet


def inode_of(path: str) -> int:
    """Return the inode, which tells a replaced index from the one that was opened; 0 if there is none."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def _connect(path: str, identity: str, indexer: Indexer, *, is_writable: bool) -> Connection | None:
    """Connect to a sound index of our version, creating it if it is missing; return None if it is another store's. Raises _NewerError."""
    if not is_writable:
        from urllib.parse import quote

        # Without a log the file is complete and can be read without a shared-memory file.
        is_complete = not os.path.exists(path + "-wal")
        if not is_complete and not is_room_for_maps(os.path.dirname(path)):
            return None
        how = "&immutable=1" if is_complete else ""
        db = connect(f"file:{quote(path)}?mode=ro{how}", uri=True)
    else:
        db = connect(path)
    db.path = path
    close_in_children(db, path)
    try:
        if is_writable:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            db.execute("PRAGMA wal_autocheckpoint=4000")
            db.execute(f"PRAGMA journal_size_limit={_LOG_BYTES}")  # give back the log space that a long reader caused
            db.execute("PRAGMA cache_size=-16384")  # keys are digests, so inserts are spread over the tables
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
            if not is_writable:
                db.close()
                return None
            return make_tables(db, identity, indexer)
        if db.execute("SELECT 1 FROM sqlite_master WHERE type IN ('view', 'trigger')").fetchone():
            db.close()
            return None  # we create neither; a foreign view might never end
        found = db.execute("SELECT value FROM meta WHERE name = 'identity'").fetchone()
    except sqlite3.Error:
        db.close()
        raise
    if found and found[0] == identity:
        return db
    db.close()
    if found and _is_newer(str(found[0]), identity):
        raise _NewerError
    return None


@contextmanager
def _undisturbed(path: str, how: int) -> Iterator[None]:
    """Keep others from removing the index while it is opened (LOCK_SH), or from opening it while it is removed (LOCK_EX).

    SQLite finds a file's log and shared memory by name, so it could combine a removed file with those of its successor. The wait is
    bounded, since the index is derived.
    """
    fd = -1
    try:
        fd = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for _ in range(_TRIES):
            try:
                flock(fd, how | LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(_TRY_S)  # flock has no timeout
    except OSError:
        pass  # a folder or a file system that cannot be locked
    try:
        yield
    finally:
        if fd >= 0:
            os.close(fd)
