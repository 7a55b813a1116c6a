"""A connection to the index that tells of a damaged file as such, to whoever reads from it and in any statement."""

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
# Of a changed schema, of a changed text, of a changed declaration of the full text.
_SAID_OF_DAMAGE: Final = (
    "no such", "Could not decode", "error in tokenizer", "unknown tokenizer", "parse error in", "unrecognized ", "malformed ",
    "reserved fts5", "multiple ", "duplicate column name", "vtable constructor failed", "invalid fts5 file format",
)  # fmt: skip


class IndexDamageError(DamageError, sqlite3.DatabaseError):
    """The index is not what was written. All in it is derived: the next look at the journal builds it anew."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


class WrongThreadError(UsageError, sqlite3.ProgrammingError):
    """A store that was opened is used by another thread than that which opened it."""

    def __init__(self) -> None:
        super().__init__(
            "a journal is used by the thread that opened it, and this is another",
            safe="Nothing was changed.",
            mend="Open the store once more in each thread: any number of them may write to it at once.",
        )


class ForkedError(UsageError, sqlite3.ProgrammingError):
    """A store that was opened is used by a child of the process that opened it."""

    def __init__(self) -> None:
        super().__init__(
            "a journal is used by the process that opened it, and this is a fork of that",
            safe="Nothing was changed by this process.",
            mend="Open the store once more in each process: any number of them may write to it at once.",
        )


class Owner:
    """The thread of a process that opened a journal, and has not closed it."""

    __slots__ = ("_forks", "_thread")

    def __init__(self) -> None:
        self._thread, self._forks = get_ident(), fork_count()

    def check(self) -> None:
        """Raises ForkedError, WrongThreadError, ClosedError. What two threads did at once would end one's view in the middle of the
        other's.
        """
        if self._forks != fork_count():
            raise ForkedError
        if get_ident() != self._thread:
            raise WrongThreadError if self._thread else ClosedError

    def check_closing(self) -> None:
        """As ``check``, but what is closed may be closed again, and a child may close what it inherited."""
        if self._thread and self._forks == fork_count():
            self.check()

    def close(self) -> None:
        self._thread = 0


class ClosedError(UsageError, sqlite3.ProgrammingError):
    """A store that was opened is used after it was closed."""

    def __init__(self) -> None:
        super().__init__("the journal was closed", safe="Nothing was changed.", mend="Open the store anew.")


class AtWorkError(UsageError):
    """A store is closed within a call that writes to it."""

    def __init__(self) -> None:
        super().__init__(
            "a journal cannot be closed within a call that writes to it",
            safe="It is open as before.",
            mend="Close it when that call has ended; let a signal's handler raise, or say that it is time.",
        )


class _Cursor(sqlite3.Cursor):
    """Tells what SQLite says of a damaged file as ``IndexDamageError``, and its connection of it."""

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
    """``is_damaged`` once something read was not what was written; ``path`` is for errors; ``common`` is ``memory.search``'s, with
    the state of the index that it is of.
    """

    is_damaged = False
    path = ""
    common: tuple[object, dict[tuple[str, str, str], int]] | None = None

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._forks = fork_count()
        self._spare: list[sqlite3.Cursor] = []  # of ``has_row``, one for each that runs at once

    @property
    def is_inherited(self) -> bool:
        """Whether this process is a child of the one that opened it: then it is of no use here, and closed if that can be."""
        return self._forks != fork_count()

    def has_row(self, query: str, values: Sequence[object]) -> bool:
        """Whether ``query`` finds anything: for half the price of ``execute``, of which a cursor and two calls are the half."""
        try:
            cursor = self._spare.pop() if self._spare else super().cursor()
            found = cursor.execute(query, values).fetchall()  # all, for a row that is left would hold the snapshot
        except sqlite3.DatabaseError as error:
            raise self.told(error) from error
        self._spare.append(cursor)
        return bool(found)

    def execute(self, *given: Any) -> _Cursor:
        try:
            return super().cursor(_Cursor).execute(*given)
        except sqlite3.DatabaseError as error:
            raise self.told(error) from error
        except UnicodeDecodeError as error:  # what SQLite says of a schema whose text is none any more
            raise self.damaged(f"its declarations are no text: {error}") from error

    def told(self, error: sqlite3.DatabaseError) -> sqlite3.DatabaseError:
        """``error`` itself, or what it means where the file is damaged: then nothing more is believed of it."""
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
            mend="Repeat it: the index is built anew.",
        )


def connect(path: str, *, uri: bool = False) -> Connection:
    """A connection whose statements are transactions of their own unless one is begun. Raises sqlite3.Error."""
    return sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, uri=uri, factory=Connection)


def index_failure(error: sqlite3.Error, again: str) -> EnvironmentFailure:
    """The error of the field for what SQLite could not do with an index that is not damaged; ``again`` says what to do then.

    What it sorts, and an index that can be none on the disk, lie in files in its folder for temporary ones. Of a quota that is used up and
    of a file that may not be as large it says the same as of a disk that fails.
    """
    code = (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
    where = "where the store is and in the folder for temporary files (TMPDIR, else /var/tmp)"
    mend = again
    if code == sqlite3.SQLITE_FULL:
        mend = f"Free some space, {where}. {again}"
    elif code == sqlite3.SQLITE_IOERR:
        mend = f"Look for a disk that is full or fails, a quota, a limit of a file's size (ulimit -f), {where}. {again}"
    return EnvironmentFailure(f"the index cannot be used: {error}", safe="The journal is untouched.", mend=mend)


def abandon(db: sqlite3.Connection) -> None:
    """Close ``db`` without bringing its log into the file, for which there is no room: see ``base.disks``. The next who opens it does.

    Python tells SQLite so from 3.12 on. Before, all that helps is that nobody ever closes it: the process that ends
    lets go of it, and of its locks.
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
