"""SQLite connections across ``fork``: close in the child what the parent had open.

SQLite remembers in memory which locks its process holds on a file. A forked child inherits this memory but not the locks:
its reads may be overwritten meanwhile, and its writes may go to a removed log and be merged over the writes of others.
A new connection in the child shares that memory and is no better. So the child closes its copies of the connections of
the forking thread: closing does not touch the parent's locks, and the last close clears the memory. Connections of other
threads, which do not exist in the child, cannot be closed there, so the child does not open their files.
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
_ours: dict[ref[sqlite3.Connection], tuple[_Place, int]] = {}  # file, thread
_parents: set[_Place] = set()  # files with inherited connections that cannot be closed
_kept: list[sqlite3.Connection] = []  # keeps these connections alive, because dropping one closes it
_forks = 0


def fork_count() -> int:
    """Return the number of forks between the first process and this one. A changed number means a forked child."""
    return _forks


def close_in_children(db: sqlite3.Connection, path: str) -> None:
    """Close the copy of ``db`` in forked children. The calling thread has just opened it on the file ``path``."""
    _ours[ref(db, _forget)] = (_place_of(path), get_ident())


def is_open_in_parent(path: str) -> bool:
    """Return True where this process inherited a connection to ``path`` that it cannot close: the file cannot be
    opened here.
    """
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
