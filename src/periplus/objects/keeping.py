"""Who keeps objects that may just be redacted, and who waits until none is kept any more that was thought to be wanted.

Whoever looks whether an object was redacted, and puts it, does both in a block (``Keeping.block``); any number of processes are in
theirs at once. Whoever redacts says first what goes, then waits (``Keeping.wait``) until everybody has left who came in before, and then removes:
who comes in later sees what was said. A process that ends in its block has left it.

Two files, for a wait must come to its end while others come and go: each takes the door first, shared, then the room, and leaves the door;
who waits holds the door. Both are ``flock``s and are never unlinked. Where a file system has none, all is as without this.
"""

from __future__ import annotations

__all__ = ["KEEPING_PATIENCE_S", "Keeping"]

import fcntl
import os
import time
from _thread import get_ident
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from periplus.base.errors import LockTimeoutError, environment_failure
from periplus.base.files import Files

KEEPING_PATIENCE_S: Final = 60.0
_DOOR: Final = "door.lock"
_ROOM: Final = "room.lock"
_PAUSE_S: Final = 0.002


class Keeping:
    """The blocks of a folder of objects, ``root``. Within itself a block is entered once; each thread has its own."""

    def __init__(self, root: str, files: Files) -> None:
        self._root = root
        self._files = files
        self._depths: dict[int, int] = {}  # by the threads that are in one

    @contextmanager
    def block(self) -> Iterator[None]:
        """Raises EnvironmentFailure where the folder cannot be written to."""
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
            _lock(door, fcntl.LOCK_SH)
            room = self._open(_ROOM)
            _lock(room, fcntl.LOCK_SH)
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
        until = time.monotonic() + patience_s
        door = self._open(_DOOR)
        room = -1
        try:
            self._lock_until(door, until, patience_s)
            room = self._open(_ROOM)
            self._lock_until(room, until, patience_s)
        finally:
            for fd in (room, door):
                if fd >= 0:
                    os.close(fd)

    def _lock_until(self, fd: int, until: float, patience_s: float) -> None:
        while not _lock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB):
            if time.monotonic() >= until:
                raise LockTimeoutError(
                    f"a process that keeps objects, as an import does, did not get on within {patience_s:g} s",
                    safe="What was to be taken out is named in the journal; not all of it is gone.",
                    mend="Repeat the command when that process is done.",
                )
            time.sleep(_PAUSE_S)  # flock knows no patience but for ever

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


def _lock(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system that knows no locks
    return True
