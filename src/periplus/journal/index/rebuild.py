"""Rebuild of the index while other processes keep using the old one.

Operations that change the journal's files other than by appending rebuild the index, because it states where records lie and what they say.
In a large store that takes a minute or more, and without an index every other process would read the whole journal meanwhile. Therefore:

* the new index grows in a file beside the old one, which stays in use; records written meanwhile are read from the journal;
* the lock of the projections is held throughout: nobody writes to the old index, nobody else builds one, and no writer waits for that lock;
* the complete new index takes the old one's name while nobody opens either. Processes that have the old one open keep it, and open the new
  one at their next look.

If the old index contains content that is to leave the store, it is marked (``PAST``) before the first file changes. An interrupted
operation leaves the mark, and the next process that updates the index rebuilds it. The unfinished new file is ignored.

If this is not possible (the lock is not released, the disk has no room for two indexes), the index is removed first and then rebuilt. But
an old index that may be used stays if only the room is missing: the journal needs the remaining room more.
"""

from __future__ import annotations

__all__ = ["RENEWAL_PATIENCE_S", "discard", "renew", "renew_past", "renewing"]

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Final

from periplus.base.errors import EnvironmentFailure, LockTimeoutError, environment_failure
from periplus.base.process.locks import LOCK_PATIENCE_S
from periplus.journal.index.index_file import NEXT_SUFFIX, PAST, discard_index, other_indexes, put_in_place

if TYPE_CHECKING:
    from periplus.journal.index.indexed_journal import IndexedJournal

RENEWAL_PATIENCE_S: Final = 30.0  # updating a large index holds the lock for long
_CATCHING_UP_MAX: Final = 8  # records after the last round are taken in by the next writer
_ROOM_SHARE: Final = 2  # times the old index's size: the new file and its log


class _Outcome(Enum):
    BUILT = 1
    CRAMPED = 2  # the disk has no room for two
    FAILED = 3


def discard(journal: IndexedJournal, *, also_next: bool = False) -> None:
    """Remove the index and those of other versions; an empty one replaces it. With ``also_next`` an unfinished new one is removed too.

    Raises EnvironmentFailure.
    """
    path = journal.index_path
    journal.index.close()
    try:
        discard_index(path)
        if also_next:
            discard_index(path + NEXT_SUFFIX)
    except OSError as error:
        raise environment_failure(error, "remove the index", path) from error
    _discard_others(journal)
    journal.serve_by(path)


def _discard_others(journal: IndexedJournal) -> None:
    """Remove indexes of other versions, which also hold positions and content of records. Raises EnvironmentFailure."""
    path = journal.index_path
    try:
        for one in other_indexes(path):
            discard_index(one)
    except OSError as error:
        raise environment_failure(error, "remove the index of another version", error.filename or path) from error


def renew(journal: IndexedJournal, *, is_beside: bool) -> bool:
    """Rebuild the index from the journal's files; ``is_beside``: the old one may be used meanwhile.

    Return False if the old one stays because the disk has no room for two.
    """
    if is_beside and _can_be_beside(journal):
        try:
            with journal.projecting_alone(RENEWAL_PATIENCE_S):
                _discard_others(journal)
                outcome = _built_beside(journal)
                if outcome is _Outcome.CRAMPED:
                    journal.refresh()
                if outcome is not _Outcome.FAILED:
                    return outcome is _Outcome.BUILT
        except LockTimeoutError:
            pass
    discard(journal, also_next=is_beside)
    journal.fill_index()
    return True


@contextmanager
def renewing(journal: IndexedJournal) -> Iterator[None]:
    """Wrap an operation that removes content from the journal's files; afterwards the index holds none of that content.

    If the block raises, the index stays marked.
    """
    is_marked = False
    if _can_be_beside(journal):
        try:
            with journal.projecting_alone(RENEWAL_PATIENCE_S):
                is_marked = _is_marked(journal)
                if is_marked:
                    _discard_others(journal)
                    yield
                    _discard_others(journal)  # those made meanwhile
                    if _built_beside(journal) is _Outcome.BUILT:
                        return
        except LockTimeoutError:
            if is_marked:  # raised by the block
                raise
    if not is_marked:
        discard(journal, also_next=True)
        yield
    discard(journal, also_next=True)
    journal.fill_index()


def renew_past(journal: IndexedJournal) -> bool:
    """Rebuild an index that an interrupted operation left marked; return False if another process still holds the lock, or the rebuild
    failed.
    """
    try:
        with journal.projecting_alone(0.0):
            if not journal.index.is_replaced():
                _discard_others(journal)
                outcome = _built_beside(journal)
                if outcome is _Outcome.CRAMPED:
                    discard(journal, also_next=True)
                    journal.fill_index()
                elif outcome is _Outcome.FAILED:
                    return False
    except LockTimeoutError:
        return False
    journal.refresh()
    return True


def _can_be_beside(journal: IndexedJournal) -> bool:
    index = journal.index
    is_in_use = index.is_writable and not index.is_memory and not index.is_damaged and not index.is_cramped()
    return is_in_use and not index.is_replaced() and os.path.exists(journal.index_path)


def _is_marked(journal: IndexedJournal) -> bool:
    """Mark the index as outdated; return False if that failed. The mark survives a power cut, which removed content does too."""
    index = journal.index
    index.end()
    try:
        index.db.execute("PRAGMA synchronous=FULL")
        index.begin_write()
        index.set_meta(PAST, "1")
        index.commit()
    except sqlite3.Error:
        index.end()
        return False
    finally:
        index.db.execute("PRAGMA synchronous=NORMAL")
        index.begin()  # as the view has it
    return True


def _built_beside(journal: IndexedJournal) -> _Outcome:
    """Build the new index and put it in place of the old one. Call under the lock of the projections."""
    path = journal.index_path
    is_built = is_whole = is_cramped = False
    _forget_next(path)  # an unfinished index of an interrupted rebuild takes room
    if not _has_room(path):
        return _Outcome.CRAMPED
    try:
        journal.index.close()
        discard_index(path + NEXT_SUFFIX)
        try:
            journal.serve_by(path + NEXT_SUFFIX)
            journal.index.gives_way = False
            journal.fill_index(is_beside=True)
            for _ in range(_CATCHING_UP_MAX):
                if journal.damage is not None or not journal.unindexed():
                    break
                journal.project(LOCK_PATIENCE_S)
            is_whole = not journal.index.is_memory and bool(journal.index.watermarks()) and journal.damage is None
        finally:
            journal.index.close()
        is_built = is_whole and put_in_place(path + NEXT_SUFFIX, path, journal.files)
    except (OSError, EnvironmentFailure, sqlite3.Error) as error:
        is_cramped = _is_for_room(error)
    finally:
        if not is_built:
            _forget_next(path)
        journal.serve_by(path)
    if is_built:
        journal.refresh()
        return _Outcome.BUILT
    return _Outcome.CRAMPED if is_cramped else _Outcome.FAILED


def _has_room(path: str) -> bool:
    """Return True if a second index probably fits on the disk; a rebuild that runs out of space blocks all writers until it fails."""
    try:
        disk = os.statvfs(os.path.dirname(path))
        return disk.f_bavail * disk.f_frsize >= _ROOM_SHARE * os.path.getsize(path)
    except OSError:
        return True  # unknown


def _is_for_room(error: BaseException) -> bool:
    cause = error.__cause__ if isinstance(error, EnvironmentFailure) else error
    if isinstance(cause, sqlite3.Error):
        return (getattr(cause, "sqlite_errorcode", 0) or 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
    return isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)


def _forget_next(path: str) -> None:
    try:
        discard_index(path + NEXT_SUFFIX)
    except OSError:
        pass  # the next rebuild removes it
