"""Building the index anew while others go on with the one that is there.

Whoever changes the journal's files otherwise than by appending makes the index anew: it says where records lie, and what they said. In a large
store that takes a minute or more, and without an index everybody else would have to read the whole journal meanwhile. So

* the new index grows in a file of its own, beside the one in use, which everybody reads on; what is written meanwhile each finds in the journal;
* the lock of the projections is held for that long: nobody writes to the old index, nobody else builds, and no writer waits for that lock;
* when the new one is whole it takes the old one's name, while nobody opens either. Who has the old one open goes on with what he has, and opens
  the new one when he looks next.

Where the old index says what is to be in the store no more, it is marked before the first file changes (``PAST``): whoever was stopped on the way
leaves the mark, and the next who brings the index up to date builds it anew instead. What a stop leaves of the new file counts for nothing.
Where this cannot be had (nobody gives the lock back, the disk has no room for two), the index is thrown away first and built then; but where the old one
is fit to be served and only the room is missing, it stays: what room there is the journal needs more.
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

RENEWAL_PATIENCE_S: Final = 30.0  # who brings an index up to date has it for long where that is large
_CATCHING_UP_MAX: Final = 8  # what comes behind the last look is taken in by the next who writes
_ROOM_SHARE: Final = 2  # of the old one's size: the new one's file, and its log


class _Outcome(Enum):
    BUILT = 1
    CRAMPED = 2  # the disk has no room for two
    FAILED = 3


def discard(journal: IndexedJournal, *, also_next: bool = False) -> None:
    """Throw the index away, and those of other versions; an empty one takes its place. ``also_next``: that which somebody may be building, too.

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
    """Indexes of other versions say where records lay too, and what they said. Raises EnvironmentFailure."""
    path = journal.index_path
    try:
        for one in other_indexes(path):
            discard_index(one)
    except OSError as error:
        raise environment_failure(error, "remove the index of another version", error.filename or path) from error


def renew(journal: IndexedJournal, *, is_beside: bool) -> bool:
    """Build the index from the journal's files; ``is_beside``: what the one there is says is fit to be served meanwhile.

    False where that stays, for the disk has no room for two.
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
    """Around what takes content out of the journal's files: nothing of it is in the index behind the block.

    A block that raises leaves the index marked.
    """
    is_marked = False
    if _can_be_beside(journal):
        try:
            with journal.projecting_alone(RENEWAL_PATIENCE_S):
                is_marked = _is_marked(journal)
                if is_marked:
                    _discard_others(journal)
                    yield
                    _discard_others(journal)  # made meanwhile
                    if _built_beside(journal) is _Outcome.BUILT:
                        return
        except LockTimeoutError:
            if is_marked:  # it is the block's own
                raise
    if not is_marked:
        discard(journal, also_next=True)
        yield
    discard(journal, also_next=True)
    journal.fill_index()


def renew_past(journal: IndexedJournal) -> bool:
    """Build an index anew that a stop left marked; False where whoever marked it is at it still, or somebody else."""
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
    """Mark the index as one of the past; False where that could not be written. A power cut does not take the mark back: what it speaks
    of is gone from the segments then.
    """
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
    """Under the lock of the projections: build the new one and put it in the place of the old one."""
    path = journal.index_path
    is_built = is_whole = is_cramped = False
    _forget_next(path)  # what somebody was stopped at takes room
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
    """Whether a second index is likely to find room: one that fails for want of it keeps everybody from writing until it has failed."""
    try:
        disk = os.statvfs(os.path.dirname(path))
        return disk.f_bavail * disk.f_frsize >= _ROOM_SHARE * os.path.getsize(path)
    except OSError:
        return True  # nobody can tell


def _is_for_room(error: BaseException) -> bool:
    cause = error.__cause__ if isinstance(error, EnvironmentFailure) else error
    if isinstance(cause, sqlite3.Error):
        return (getattr(cause, "sqlite_errorcode", 0) or 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
    return isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)


def _forget_next(path: str) -> None:
    try:
        discard_index(path + NEXT_SUFFIX)
    except OSError:
        pass  # whoever builds one next removes it
