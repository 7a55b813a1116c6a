"""A child made by ``fork`` does not go on with what its parent had open in SQLite's files.

SQLite notes in memory which of a file's locks its process holds, and a forked child inherits the note but not the locks: what
it reads may be overwritten under it, what it writes may go to a log that was removed meanwhile and be brought into the file over what others
wrote. A connection of its own, made later, shares that note, and is no better. So at a fork the child closes its copies of
the connections that the forking thread had: to close takes and gives up nothing of the parent's, and the note ends with the last of
them. Those of other threads, which do not exist in the child, cannot be closed there: their files are not opened by it at all.
"""

from __future__ import annotations

__all__ = ["close_in_children", "fork_count", "is_open_in_parent"]

import os
from _thread import get_ident
from _weakref import ref  # what ``weakref`` hands on; that is a module more for each short command
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import sqlite3

_Place: TypeAlias = tuple[int, int]  # device and inode
_ours: dict[ref[sqlite3.Connection], tuple[_Place, int]] = {}  # the file, the thread
_parents: set[_Place] = set()  # files that inherited connections are open on which cannot be closed
_kept: list[sqlite3.Connection] = []  # these: whoever drops one closes it, too
_forks = 0


def fork_count() -> int:
    """How many forks lie between the first process and this one: another number says that this is a child of who asked before."""
    return _forks


def close_in_children(db: sqlite3.Connection, path: str) -> None:
    """Have a forked child close its copy of ``db``, which this thread has just opened on the file ``path``."""
    _ours[ref(db, _forget)] = (_place_of(path), get_ident())


def is_open_in_parent(path: str) -> bool:
    """Whether this process inherited a connection to the file that it cannot close: no other to that file works here."""
    return bool(_parents) and _place_of(path) in _parents


def _forget(gone: ref[sqlite3.Connection]) -> None:
    _ours.pop(gone, None)


def _place_of(path: str) -> _Place:
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0)
    return (status.st_dev, status.st_ino)


def _leave_in_child() -> None:
    global _forks  # noqa: PLW0603 - it is the process that has one
    _forks += 1
    me, inherited = get_ident(), [(found(), *said) for found, said in _ours.items()]
    _ours.clear()
    for db, place, thread in inherited:
        if db is not None and thread == me:
            db.close()
        elif db is not None:
            _parents.add(place)
            _kept.append(db)


os.register_at_fork(after_in_child=_leave_in_child)
