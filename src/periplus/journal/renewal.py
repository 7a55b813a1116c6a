"""Building the index anew while others go on with the one that is there.

Whoever changes the journal's files otherwise than by appending makes the index anew: it says where records lie, and what they said. In a large
store that takes a minute or more, and without an index everybody else would have to read the whole journal meanwhile. So

* the new index grows in a file of its own, beside the one in use, which everybody reads on; what is written meanwhile each finds in the journal;
* the lock of the projections is held for that long: nobody writes to the old index, nobody else builds, and no writer waits for that lock;
* when the new one is whole it takes the old one's name, while nobody opens either. Who has the old one open goes on with what he has, and opens
  the new one when he looks next.

Where the old index says what is to be in the store no more, it is marked before the first file changes (``PAST``): whoever was stopped on the way
leaves the mark, and the next who brings the index up to date builds it anew instead. What a stop leaves of the new file counts for nothing.
Where this cannot be had (nobody gives the lock back, the disk has no room for two), the index is thrown away first and built then.
"""

from __future__ import annotations

__all__ = ["RENEWAL_PATIENCE_S", "discard", "renew", "renew_past", "renewing"]

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from periplus.base.errors import EnvironmentFailure, LockTimeoutError, environment_failure
from periplus.base.locks import LOCK_PATIENCE_S
from periplus.journal.index_file import NEXT_SUFFIX, PAST, discard_index, put_in_place

if TYPE_CHECKING:
    from periplus.journal.reader import JournalReader

RENEWAL_PATIENCE_S: Final = 30.0  # who brings an index up to date has it for long where that is large
_CATCHING_UP_MAX: Final = 8  # what comes behind the last look is taken in by the next who writes


def discard(journal: JournalReader, *, also_next: bool = False) -> None:
    """Throw the index away; an empty one takes its place. ``also_next``: that which somebody may be building, too.

    Raises EnvironmentFailure.
    """
    path = journal.layout.index
    journal.index.close()
    try:
        discard_index(path)
        if also_next:
            discard_index(path + NEXT_SUFFIX)
    except OSError as error:
        raise environment_failure(error, "remove the index", path) from error
    journal.serve_by(path)


def renew(journal: JournalReader, *, is_beside: bool) -> None:
    """Build the index from the journal's files; ``is_beside``: what the one there is says is fit to be served meanwhile."""
    if is_beside and _can_be_beside(journal):
        try:
            with journal.projecting_alone(RENEWAL_PATIENCE_S):
                if _built_beside(journal):
                    return
        except LockTimeoutError:
            pass
    discard(journal, also_next=is_beside)
    journal.fill_index()


@contextmanager
def renewing(journal: JournalReader) -> Iterator[None]:
    """Around what takes content out of the journal's files: nothing of it is in the index behind the block.

    A block that raises leaves the index marked.
    """
    is_marked = False
    if _can_be_beside(journal):
        try:
            with journal.projecting_alone(RENEWAL_PATIENCE_S):
                is_marked = _is_marked(journal)
                if is_marked:
                    yield
                    if _built_beside(journal):
                        return
        except LockTimeoutError:
            if is_marked:  # it is the block's own
                raise
    if not is_marked:
        discard(journal, also_next=True)
        yield
    discard(journal, also_next=True)
    journal.fill_index()


def renew_past(journal: JournalReader) -> bool:
    """Build an index anew that a stop left marked; False where whoever marked it is at it still, or somebody else."""
    try:
        with journal.projecting_alone(0.0):
            if not journal.index.is_replaced() and not _built_beside(journal):
                return False
    except LockTimeoutError:
        return False
    journal.refresh()
    return True


def _can_be_beside(journal: JournalReader) -> bool:
    index = journal.index
    is_in_use = index.is_writable and not index.is_memory and not index.is_damaged and not index.is_cramped()
    return is_in_use and not index.is_replaced() and os.path.exists(journal.layout.index)


def _is_marked(journal: JournalReader) -> bool:
    """Mark the index as one of the past; False where that could not be written."""
    index = journal.index
    try:
        index.begin_write()
        index.set_meta(PAST, "1")
        index.commit()
    except sqlite3.Error:
        index.end()
        return False
    finally:
        index.begin()  # as the view has it
    return True


def _built_beside(journal: JournalReader) -> bool:
    """Under the lock of the projections: build the new one and put it in the place of the old one; False where that did not come off."""
    path = journal.layout.index
    is_built = is_whole = False
    try:
        discard_index(path + NEXT_SUFFIX)  # what somebody was stopped at
        journal.index.close()
        try:
            journal.serve_by(path + NEXT_SUFFIX)
            journal.fill_index()
            for _ in range(_CATCHING_UP_MAX):
                if journal.damage is not None or not journal.unindexed():
                    break
                journal.project(LOCK_PATIENCE_S)
            is_whole = not journal.index.is_memory and bool(journal.index.watermarks()) and journal.damage is None
        finally:
            journal.index.close()
        is_built = is_whole and put_in_place(path + NEXT_SUFFIX, path, journal.files)
    except (OSError, EnvironmentFailure, sqlite3.Error):
        pass  # the index is thrown away then, and built in the room that it leaves
    finally:
        if not is_built:
            _forget_next(path)
        journal.serve_by(path)
    if is_built:
        journal.refresh()
    return is_built


def _forget_next(path: str) -> None:
    try:
        discard_index(path + NEXT_SUFFIX)
    except OSError:
        pass  # whoever builds one next removes it
