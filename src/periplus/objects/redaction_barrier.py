"""Barrier between writers of objects and redaction.

A writer checks that an object is not redacted and stores it within one block (``Keeping.block``); any number of
processes may be in blocks at once. A redaction first records what it will remove, then waits (``Keeping.wait``) until
every process that entered a block before has left it, and then removes: a process that enters later sees the record. A
process that ends within a block has left it.

There are two lock files, so that a wait ends although others come and go: a writer takes the door, shared, then the
room, and releases the door; the waiting redaction holds the door, and its name stands in it. Both are ``flock``s on files
that are never unlinked. On a file system without locks the barrier has no effect. No wait is endless, because the
redaction may be stopped while writers wait at its door.
"""

from __future__ import annotations

__all__ = ["DOOR_PATIENCE_S", "KEEPING_PATIENCE_S", "Keeping", "door_of"]

import fcntl
import os
import time
from _thread import get_ident
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from periplus.base.errors import LockTimeoutError, environment_failure
from periplus.base.files import Files
from periplus.base.process.locks import holder_of, sign

KEEPING_PATIENCE_S: Final = 60.0
DOOR_PATIENCE_S: Final = 90.0  # longer than a wait holds the door
_DOOR: Final = "door.lock"
_ROOM: Final = "room.lock"
_PAUSE_S: Final = 0.002
_PAUSE_S_MAX: Final = 0.05
_ABSENT_S: Final = 1.0


class Keeping:
    """Blocks over the folder of objects ``root``. A block may be nested within itself; each thread has its own.
    ``patience_s`` limits the wait for others.
    """

    def __init__(self, root: str, files: Files) -> None:
        self.patience_s = DOOR_PATIENCE_S
        self._root = root
        self._files = files
        self._depths: dict[int, int] = {}  # of the threads in a block

    @contextmanager
    def block(self) -> Iterator[None]:
        """Enter a block. Raises EnvironmentFailure where the folder is not writable, LockTimeoutError where the
        waiting redaction makes no progress.
        """
        me = get_ident()
        if me in self._depths:
            self._depths[me] += 1
            try:
                yield
            finally:
                self._depths[me] -= 1
            return
        door = self._open(_DOOR)
        room = -1
        try:
            left_s = self._enter(door, self.patience_s)
            room = self._open(_ROOM)
            self._enter(room, left_s)
            os.close(door)
            door, self._depths[me] = -1, 1
            yield
        finally:
            self._depths.pop(me, None)
            for fd in (room, door):
                if fd >= 0:
                    os.close(fd)

    def wait(self, patience_s: float = KEEPING_PATIENCE_S) -> None:
        """Wait until every process that is in a block now has left it. Raises LockTimeoutError. Returns at once where
        nothing was ever stored.
        """
        if not os.path.isdir(self._root):
            return
        assert get_ident() not in self._depths, "who waits for himself waits in vain"
        door = self._open(_DOOR)
        room = -1
        try:
            left_s = self._wait_out(door, patience_s, patience_s)
            sign(door)
            room = self._open(_ROOM)
            self._wait_out(room, left_s, patience_s)
        finally:
            for fd in (room, door):
                if fd >= 0:
                    os.close(fd)

    def _enter(self, fd: int, left_s: float) -> float:
        """Take the shared lock; return the rest of the patience, like ``_wait_out``."""
        left_s = _lock_within(fd, fcntl.LOCK_SH, left_s)
        if left_s < 0:
            holder = holder_of(door_of(self._root))
            raise LockTimeoutError(
                f"objects are being redacted by {holder.text if holder is not None else 'another process'}, which made no progress within {self.patience_s:g} s",
                safe="What was written before is kept.",
                mend="Check that process: its lock ends with it. Then repeat the command.",
            )
        return left_s

    def _wait_out(self, fd: int, left_s: float, patience_s: float) -> float:
        left_s = _lock_within(fd, fcntl.LOCK_EX, left_s)
        if left_s < 0:
            raise LockTimeoutError(
                f"a process that stores objects, such as an import, made no progress within {patience_s:g} s",
                safe="The redaction is recorded in the journal; some of the objects still exist.",
                mend="Repeat the command when that process is done.",
            )
        return left_s

    def _open(self, name: str) -> int:
        path = os.path.join(self._root, name)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            try:
                return os.open(path, flags, 0o644)
            except FileNotFoundError:
                self._files.make_folder(self._root)
                return os.open(path, flags, 0o644)
        except OSError as error:
            raise environment_failure(error, "open the lock", path) from error


def door_of(root: str) -> str:
    """Return the path of the lock that a waiting redaction holds in the folder of objects ``root``."""
    return os.path.join(root, _DOOR)


def _lock_within(fd: int, how: int, left_s: float) -> float:
    """Take the lock and return what is left of ``left_s`` seconds, below 0 on failure. Time in which this process was
    stopped does not count.
    """
    left_s, pause_s = max(0.0, left_s), _PAUSE_S
    while not _lock(fd, how | fcntl.LOCK_NB):
        if left_s <= 0:
            return -1.0
        before = time.monotonic()
        time.sleep(pause_s)  # flock has no timeout
        left_s -= min(time.monotonic() - before, _ABSENT_S)
        if how == fcntl.LOCK_SH:  # an exclusive lock is tried more often, because other writers come
            pause_s = min(pause_s * 2, _PAUSE_S_MAX)
    return max(0.0, left_s)


def _lock(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True
