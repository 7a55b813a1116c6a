"""Who keeps objects that may just be redacted, and who waits until none is kept any more that was thought to be wanted.

Whoever looks whether an object was redacted, and puts it, does both in a block (``Keeping.block``); any number of processes are in
theirs at once. Whoever redacts says first what goes, then waits (``Keeping.wait``) until everybody has left who came in before, and then removes:
who comes in later sees what was said. A process that ends in its block has left it.

Two files, for a wait must come to its end while others come and go: each takes the door first, shared, then the room, and leaves the door;
who waits holds the door, and says in it who he is. Both are ``flock``s and are never unlinked. Where a file system has none, all is as without this.
Nobody waits for ever: a process that waits may be stopped, and everybody would stand before its door.
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
DOOR_PATIENCE_S: Final = 90.0  # longer than who waits holds the door
_DOOR: Final = "door.lock"
_ROOM: Final = "room.lock"
_PAUSE_S: Final = 0.002
_PAUSE_S_MAX: Final = 0.05
_ABSENT_S: Final = 1.0


class Keeping:
    """The blocks of a folder of objects, ``root``. Within itself a block is entered once; each thread has its own. ``patience_s`` is how long one is
    waited for.
    """

    def __init__(self, root: str, files: Files) -> None:
        self.patience_s = DOOR_PATIENCE_S
        self._root = root
        self._files = files
        self._depths: dict[int, int] = {}  # by the threads that are in one

    @contextmanager
    def block(self) -> Iterator[None]:
        """Raises EnvironmentFailure where the folder cannot be written to, LockTimeoutError where who waits does not get on."""
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
        """Until everybody has left who is in a block now. Raises LockTimeoutError; where nobody ever kept anything there is nobody."""
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
        """Gives what is left of the patience, as ``_wait_out``."""
        left_s = _lock_within(fd, fcntl.LOCK_SH, left_s)
        if left_s < 0:
            holder = holder_of(door_of(self._root))
            raise LockTimeoutError(
                f"objects are being taken out by {holder.text if holder is not None else 'another process'}, which did not get on within {self.patience_s:g} s",
                safe="What was written before is kept.",
                mend="See what that process does: the lock ends with it. Then repeat the command.",
            )
        return left_s

    def _wait_out(self, fd: int, left_s: float, patience_s: float) -> float:
        left_s = _lock_within(fd, fcntl.LOCK_EX, left_s)
        if left_s < 0:
            raise LockTimeoutError(
                f"a process that keeps objects, as an import does, did not get on within {patience_s:g} s",
                safe="What was to be taken out is named in the journal; not all of it is gone.",
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
    """The path of the lock that is held, in the folder of objects ``root``, by who waits for those who keep some."""
    return os.path.join(root, _DOOR)


def _lock_within(fd: int, how: int, left_s: float) -> float:
    """What is left of ``left_s`` seconds when the lock is had; below 0 where it is not. Time in which this process was stopped does not count."""
    left_s, pause_s = max(0.0, left_s), _PAUSE_S
    while not _lock(fd, how | fcntl.LOCK_NB):
        if left_s <= 0:
            return -1.0
        before = time.monotonic()
        time.sleep(pause_s)  # flock knows no patience but for ever
        left_s -= min(time.monotonic() - before, _ABSENT_S)
        if how == fcntl.LOCK_SH:  # who waits for others to leave has to be quick, for others come
            pause_s = min(pause_s * 2, _PAUSE_S_MAX)
    return max(0.0, left_s)


def _lock(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system that knows no locks
    return True
