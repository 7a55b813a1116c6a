"""SQLite connection to the index that reports a damaged file as ``IndexDamageError`` from any statement, and misuse by thread or process."""

from __future__ import annotations

__all__ = [
    "AtWorkError",
    "ClosedError",
    "Connection",
    "ForkedError",
    "IndexDamageError",
    "Owner",
    "WrongThreadError",
    "abandon",
    "connect",
    "index_failure",
]

import sqlite3
from _thread import get_ident
from collections.abc import Callable, Sequence
from typing import Any, Final

from periplus.base.errors import DamageError, EnvironmentFailure, UsageError
from periplus.base.process.fork_safety import fork_count

_BUSY_S: Final = 5.0
_NO_CHECKPOINT_ON_CLOSE: Final = 1006  # SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE
# SQLite's messages for a changed schema, a changed text and a changed full-text declaration.
_SAID_OF_DAMAGE: Final = (
    "no such", "Could not decode", "error in tokenizer", "unknown tokenizer", "parse error in", "unrecognized ", "malformed ",
    "reserved fts5", "multiple ", "duplicate column name", "vtable constructor failed", "invalid fts5 file format",
)  # fmt: skip


class IndexDamageError(DamageError, sqlite3.DatabaseError):
    """The index is damaged. Everything in it is derived: the next look at the journal rebuilds it."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


class WrongThreadError(UsageError, sqlite3.ProgrammingError):
    """An open store was used in a thread other than the one that opened it."""

    def __init__(self) -> None:
        super().__init__(
            "a journal can only be used by the thread that opened it",
            safe="Nothing was changed.",
            mend="Open the store in each thread: any number of them may write at once.",
        )


class ForkedError(UsageError, sqlite3.ProgrammingError):
    """An open store was used in a child of the process that opened it."""

    def __init__(self) -> None:
        super().__init__(
            "a journal can only be used by the process that opened it, not by a fork",
            safe="Nothing was changed by this process.",
            mend="Open the store in each process: any number of them may write at once.",
        )


class Owner:
    """The process and thread that opened a journal, until it is closed."""

    __slots__ = ("_forks", "_thread")

    def __init__(self) -> None:
        self._thread, self._forks = get_ident(), fork_count()

    def check(self) -> None:
        """Raise ForkedError, WrongThreadError or ClosedError. Two threads at once would end one's view while the other uses it."""
        if self._forks != fork_count():
            raise ForkedError
        if get_ident() != self._thread:
            raise WrongThreadError if self._thread else ClosedError

    def check_closing(self) -> None:
        """Check as ``check`` does, but allow closing twice, and closing of an inherited journal in a child."""
        if self._thread and self._forks == fork_count():
            self.check()

    def close(self) -> None:
        self._thread = 0


class ClosedError(UsageError, sqlite3.ProgrammingError):
    """An open store was used after it was closed."""

    def __init__(self) -> None:
        super().__init__("the journal was closed", safe="Nothing was changed.", mend="Open the store again.")


class AtWorkError(UsageError):
    """A store was closed within a call that writes to it."""

    def __init__(self) -> None:
        super().__init__(
            "a journal cannot be closed within a call that writes to it",
            safe="It stays open.",
            mend="Close it after that call; in a signal handler, raise an exception or set a flag.",
        )


class _Cursor(sqlite3.Cursor):
    """A cursor that reports damage as ``IndexDamageError`` and marks its connection as damaged."""

    connection: Connection

    def fetchone(self) -> Any:
        try:
            return super().fetchone()
        except sqlite3.DatabaseError as error:
            raise self.connection.told(error) from error

    def fetchall(self) -> list[Any]:
        try:
            return super().fetchall()
        except sqlite3.DatabaseError as error:
            raise self.connection.told(error) from error

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except sqlite3.DatabaseError as error:
            raise self.connection.told(error) from error


class Connection(sqlite3.Connection):
    """A connection that remembers damage in ``is_damaged``. ``path`` is for errors; ``common`` and ``counts`` are caches of
    ``memory.search`` and of ``memory.listing``, with the index state they belong to.
    """

    is_damaged = False
    path = ""
    common: tuple[object, dict[tuple[str, str, str], int]] | None = None
    counts: tuple[object, dict[object, dict[Any, int] | None]] | None = None

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._forks = fork_count()
        self._spare: list[sqlite3.Cursor] = []  # cursors of ``has_row``, one for each nested call

    @property
    def is_inherited(self) -> bool:
        """True if this process is a child of the one that opened it; the connection is then unusable here."""
        return self._forks != fork_count()

    def has_row(self, query: str, values: Sequence[object]) -> bool:
        """Return True if ``query`` finds a row. Costs half of ``execute``, which makes a cursor and two calls."""
        try:
            cursor = self._spare.pop() if self._spare else super().cursor()
            found = cursor.execute(query, values).fetchall()  # all rows: an unread row would hold the snapshot
        except sqlite3.DatabaseError as error:
            raise self.told(error) from error
        self._spare.append(cursor)
        return bool(found)

    def execute(self, *given: Any) -> _Cursor:
        try:
            return super().cursor(_Cursor).execute(*given)
        except sqlite3.DatabaseError as error:
            raise self.told(error) from error
        except UnicodeDecodeError as error:  # the schema is not valid text
            raise self.damaged(f"its schema is not valid text: {error}") from error

    def told(self, error: sqlite3.DatabaseError) -> sqlite3.DatabaseError:
        """Return ``error``, or the error that it stands for: damage, another thread, a fork, a closed connection. Damage is remembered."""
        code, said = getattr(error, "sqlite_errorcode", 0) or 0, str(error)
        if said.startswith("SQLite objects created in a thread"):
            return WrongThreadError()
        if said.startswith("Cannot operate on a closed database"):
            return ForkedError() if self.is_inherited else ClosedError()
        is_damage = (
            code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
            or code == sqlite3.SQLITE_IOERR_SHORT_READ
            or said.startswith(_SAID_OF_DAMAGE)
        )
        return self.damaged(said) if is_damage else error

    def damaged(self, what: str) -> IndexDamageError:
        self.is_damaged = True
        return IndexDamageError(
            f"the index is damaged: {what}",
            path=self.path or None,
            safe="The journal is untouched, and everything in the index is derived from it.",
            mend="Repeat the command: the index is rebuilt.",
        )


def connect(path: str, *, uri: bool = False) -> Connection:
    """Open a connection in autocommit mode. Raises sqlite3.Error."""
    return sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, uri=uri, factory=Connection)


def index_failure(error: sqlite3.Error, again: str) -> EnvironmentFailure:
    """Return the error for a failure of SQLite on an undamaged index; ``again`` is the advice to give.

    SQLite sorts, and keeps an index without a file, in temporary files in its own folder. It reports an exhausted quota and a file size
    limit as it does a failing disk.
    """
    code = (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
    where = "where the store is and in the folder for temporary files (TMPDIR, else /var/tmp)"
    mend = again
    if code == sqlite3.SQLITE_FULL:
        mend = f"Free some space, {where}. {again}"
    elif code == sqlite3.SQLITE_IOERR:
        mend = f"Check for a full or failing disk, a quota, or a file size limit (ulimit -f), {where}. {again}"
    return EnvironmentFailure(f"the index cannot be used: {error}", safe="The journal is untouched.", mend=mend)


def abandon(db: sqlite3.Connection) -> None:
    """Close ``db`` without copying its log into the file, for which there is no room: see ``base.disks``. The next process to open it
    copies it.

    Python can tell SQLite so from 3.12 on. Before that the connection is never closed: the end of the process releases it and its locks.
    """
    set_config: Callable[[int, bool], None] | None = getattr(db, "setconfig", None)
    if set_config is not None:
        set_config(_NO_CHECKPOINT_ON_CLOSE, True)
        db.close()
        return
    if db.in_transaction:
        db.execute("ROLLBACK")
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))
