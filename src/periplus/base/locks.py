"""The writers' lock: ``flock`` on a file that is never unlinked; it dies with its process.

Rules kept here:

* ``flock``, not ``lockf``: the latter is dropped when any descriptor of the file is closed;
* after taking it the inode is compared with the path's, so that a swapped lock file never makes two writers;
* threads of one process go through a mutex; a forked child gives its copy of the descriptor up;
* the text in the file (pid, host, since, command) is advice for people and never decides anything.
"""

from __future__ import annotations

__all__ = ["LOCK_PATIENCE_S", "Lock"]

import fcntl
import functools
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from periplus.base.clock import format_ms
from periplus.base.errors import LockTimeoutError, environment_failure

LOCK_PATIENCE_S: Final = 5.0
_POLL_MIN_S: Final = 0.0005
_POLL_MAX_S: Final = 0.02

_held: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """An exclusive advisory lock on the file ``path``; re-usable, not re-entrant."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._mutex = threading.Lock()
        self._fd = -1
        _held.add(self)

    @contextmanager
    def holding(self, patience_s: float = LOCK_PATIENCE_S) -> Iterator[None]:
        """Hold the lock. Raises LockTimeoutError, naming the holder, when it is not had in ``patience_s``."""
        deadline = time.monotonic() + patience_s
        mutex = self._mutex  # a forked child that leaves this block releases what it entered with
        if not mutex.acquire(timeout=max(patience_s, 0.0)):
            raise self._timeout(patience_s)
        try:
            self._take(deadline, patience_s)
            try:
                yield
            finally:
                self._release()
        finally:
            mutex.release()

    def close(self) -> None:
        with self._mutex:
            self._drop()

    def _take(self, deadline: float, patience_s: float) -> None:
        pause_s = _POLL_MIN_S
        while True:
            if self._fd < 0:
                self._open()
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise self._timeout(patience_s) from None
                time.sleep(pause_s)
                pause_s = min(pause_s * 2, _POLL_MAX_S)
                continue
            except OSError as error:
                raise environment_failure(error, "lock", self._path) from error
            if self._is_current():
                self._sign()
                return
            self._drop()  # the file was replaced under us: the lock that we hold guards nothing

    def _release(self) -> None:
        if self._fd >= 0:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
            except OSError:
                self._drop()  # a lock ends with its descriptor, whatever the system says of the unlocking

    def _open(self) -> None:
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise environment_failure(error, "open the lock", self._path) from error

    def _drop(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _is_current(self) -> bool:
        mine = os.fstat(self._fd)
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return False
        return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)

    def _sign(self) -> None:
        since = format_ms(time.time_ns() // 1_000_000)
        text = f"{os.getpid()} {os.uname().nodename} {since} {_command()}".ljust(199) + "\n"
        try:
            os.pwrite(self._fd, text.encode(errors="replace"), 0)
        except OSError:
            pass  # advice only: a full disk must not keep a writer from its lock

    def _timeout(self, patience_s: float) -> LockTimeoutError:
        try:
            with open(self._path, encoding="utf-8", errors="replace") as file:
                holder = file.read(400).strip() or "a process that left no name"
        except OSError:
            holder = "a process that cannot be named"
        return LockTimeoutError(
            f"the store is being written by {holder}; not free within {patience_s:g} s",
            safe="Nothing was changed; reading needs no lock.",
            mend="Repeat the command when that process is done.",
        )


@functools.cache
def _command() -> str:
    return " ".join([os.path.basename(sys.argv[0] or "python"), *sys.argv[1:2]])[:80].replace("\n", " ")


def _forget_in_child() -> None:
    for lock in _held:
        lock._mutex = threading.Lock()  # noqa: SLF001 - the same module; the parent's thread may have held it
        lock._drop()  # noqa: SLF001 - closing a copy leaves the parent's lock in place


os.register_at_fork(after_in_child=_forget_in_child)
