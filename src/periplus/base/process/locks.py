"""The writers' lock: ``flock`` on a file that is never unlinked; it ends with its process.

Rules:

* ``flock``, not ``lockf``: the latter is dropped when any descriptor of the file is closed;
* after locking, the inode is compared with that of the path, so that a replaced lock file never allows two writers;
* threads of one process go through a mutex; a forked child closes its copy of the descriptor;
* a signal handler may raise between any two calls: in every case the lock is released;
* the text in the file (pid, host, since, command) informs people and never decides anything. It is written when the
  holder changes, and again when it is older than a second;
* a waiter sleeps until the holder wakes it (``bell``, where there is one), or polls. The longer it has waited, the more
  often it polls, so that none starves; when the holder stays the same for long, all poll less often. A process that has
  waited for HUNGRY_S signals it through the bell, and newcomers then wait a moment. A wake-up only saves time: the lock of a
  dead holder is taken within _POLL_MAX_S, at first within _RING_S;
* patience counts the time in which the waiter ran: while a container is paused or a terminal suspended, the holder
  stands still too and must not be reported as hanging.
"""

from __future__ import annotations

__all__ = ["HUNGRY_S", "LOCK_PATIENCE_S", "Holder", "Holding", "Lock", "holder_of", "sign"]

import fcntl
import functools
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from periplus.base.clock import format_ms
from periplus.base.errors import EnvironmentFailure, LockTimeoutError, environment_failure
from periplus.base.files import user_of
from periplus.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    import threading
    import weakref

LOCK_PATIENCE_S: Final = 5.0
_POLL_FIRST_S: Final = 0.0004
_POLL_MIN_S: Final = 0.0001
_POLL_MAX_S: Final = 0.02
_TURN_S: Final = 0.1  # a waiter without a wake-up by then polls
_RING_S: Final = 0.003  # the lock of a dead or silent holder is taken within this time
_AGED_S: Final = 0.02  # from this waiting time on, polls at the highest rate
_WORK_S: Final = 0.001
HUNGRY_S: Final = 0.004
_YIELD_S: Final = 0.0001
_STILL_S: Final = 0.05  # after this time under the same holder, waiters poll less often
_SIGNED_S: Final = 1.0
_ABSENT_S: Final = 1.0  # a longer delay than this means that the waiter itself was stopped
_TEXT_BYTES: Final = 200


@functools.cache
def _held() -> weakref.WeakSet[Lock]:
    import weakref  # imported here, and threading below: readers take no lock

    return weakref.WeakSet()


class Holder(NamedTuple):
    """Holder of a lock according to the text in its file: ``text`` for people, and the time of locking (0 if
    unknown).
    """

    text: str
    since_ms: int


def holder_of(path: str) -> Holder | None:
    """Return the holder of the lock ``path``, None where it is free or cannot be read. Does not wait."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(fd, _TEXT_BYTES, 0).decode("utf-8", "replace").strip() or "an unnamed process"
        return Holder(text, _since_ms(text))
    except OSError:
        return None
    finally:
        os.close(fd)
    return None


def _since_ms(text: str) -> int:
    from datetime import datetime

    try:
        return int(datetime.fromisoformat(text.split()[2]).timestamp() * 1000)
    except (IndexError, ValueError):
        return 0


def sign(fd: int) -> bytes:
    """Write pid, host, time and command of this process into a lock that it holds, for people; return the text."""
    since = format_ms(time.time_ns() // 1_000_000)
    text = b"%b %b %b" % (_who(os.getpid()), since.encode(), _command())
    text = text[: _TEXT_BYTES - 1].ljust(_TEXT_BYTES - 1) + b"\n"
    try:
        os.pwrite(fd, text, 0)
    except OSError:
        pass  # advice only: a full disk must not prevent locking
    return text


class LockBell(Protocol):
    """Wake-ups as in ``base.process.futex_wakeup.FutexBell``, on memory that may be absent: ``listen`` returns None then.

    A process that has waited for HUNGRY_S calls ``say_hungry`` now and then; newcomers that find
    ``is_anybody_hungry`` wait a moment.
    """

    def listen(self) -> int | None: ...

    def sleep(self, heard: int, seconds: float) -> None: ...

    def ring(self) -> None: ...

    def say_hungry(self) -> None: ...

    def is_anybody_hungry(self) -> bool: ...


class Lock:
    """An exclusive advisory lock on the file ``path``; re-usable, not re-entrant."""

    _fd = -1  # class attribute: an interrupted ``__init__`` leaves nothing to drop

    def __init__(self, path: str, *, is_guard: bool = True) -> None:
        """``is_guard=False`` is for a lock that saves work and protects nothing: without text, and a replaced file
        does not matter.
        """
        self._path = path
        self._is_guard = is_guard
        import threading

        self._mutex = threading.Lock()
        self._place = (0, 0)
        self._text = b""
        self._text_s = 0.0
        self._was_in_place = False
        self.bell: LockBell | None = None  # wakes waiters
        _held().add(self)

    @property
    def path(self) -> str:
        return self._path

    @property
    def is_held(self) -> bool:
        """True while a block of this process holds the lock or waits for it."""
        return self._mutex.locked()

    @property
    def is_open(self) -> bool:
        """True where the lock's file existed when it was last taken."""
        return self._fd >= 0

    def holding(
        self,
        patience_s: float = LOCK_PATIENCE_S,
        meanwhile: Callable[[], object] | None = None,
        is_in_place: Callable[[], bool] | None = None,
    ) -> Holding:
        """Return a context manager that holds the lock and yields the answer of ``is_in_place``. Raises
        LockTimeoutError, naming the holder, when the lock is not free within ``patience_s``.

        ``meanwhile`` is work to do now and then while waiting. ``is_in_place`` is asked once the lock is held: where
        it confirms that the path leads to the lock's file, no other check is made.
        """
        return Holding(self, patience_s, meanwhile, is_in_place)

    def take(
        self, patience_s: float, meanwhile: Callable[[], object] | None, is_in_place: Callable[[], bool] | None = None
    ) -> tuple[threading.Lock, bool]:
        """Take the lock for ``Holding``. Return the mutex to pass to ``give``, and the answer of ``is_in_place``."""
        deadline = time.monotonic() + patience_s
        mutex = self._mutex
        had: list[bool] = []
        try:
            had.extend(
                map(mutex.acquire, (False,))
            )  # acquired and noted in one call: no signal handler runs between them
            if had == [False]:
                had.extend(map(mutex.acquire, (True,), (max(patience_s, 0.0),)))
            if True in had:
                if self.bell is not None and self.bell.is_anybody_hungry():
                    time.sleep(
                        _YIELD_S
                    )  # gives hungry waiters time: a flock goes to the first who asks when it is free
                if not self._try(is_in_place):
                    self._wait(deadline, patience_s, meanwhile, is_in_place)
        except BaseException:  # release lock and mutex after any exception
            self._give_up(mutex, had)
            raise
        if True not in had:
            raise self._timeout(patience_s)
        return mutex, self._was_in_place

    def give(self, mutex: threading.Lock) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        except (OSError, ValueError):
            self._drop()  # closing the descriptor releases the lock, even if unlocking failed
        finally:
            mutex.release()  # a forked child that leaves the block releases its mutex
        if self.bell is not None:
            self.bell.ring()

    def _give_up(self, mutex: threading.Lock, had: list[bool]) -> None:
        if True in had:
            try:
                self._release()  # it may have been taken already
            finally:
                mutex.release()

    def try_take(self) -> bool:
        """Take the lock if it is free; call ``release`` afterwards. Raises EnvironmentFailure."""
        mutex, had, is_taken = self._mutex, list[bool](), False
        try:
            had.extend(map(mutex.acquire, (False,)))
            is_taken = had == [True] and self._try()
        except BaseException:  # as in ``take``
            self._give_up(mutex, had)
            raise
        if had == [True] and not is_taken:
            mutex.release()
        return is_taken

    def release(self) -> None:
        """Release the lock that ``try_take`` took."""
        try:
            self._release()
        finally:
            if self._mutex.locked():  # not locked in a forked child, which never took it
                self._mutex.release()

    def close(self) -> None:
        if not self._is_guard:  # not a guard: do not wait, in particular not for a thread that failed to release it
            import threading

            self._mutex = threading.Lock()
            self._drop()
            return
        with self._mutex:
            self._drop()

    def __del__(self) -> None:
        self._drop()  # a forgotten lock leaves no descriptor open

    def _wait(
        self, deadline: float, patience_s: float, meanwhile: Callable[[], object] | None,
        is_in_place: Callable[[], bool] | None,
    ) -> None:  # fmt: skip
        begun_s = moved_s = work_s = time.monotonic()
        looked_s, pause_s, holder = deadline - patience_s, 0.0, b""
        while True:
            if meanwhile is not None and time.monotonic() >= work_s:
                meanwhile()
                work_s = time.monotonic() + _WORK_S
            bell = self.bell
            heard = bell.listen() if bell is not None else None
            if self._try(is_in_place):
                return
            now_s = time.monotonic()
            if now_s - looked_s - pause_s >= _ABSENT_S:
                deadline += now_s - looked_s - pause_s
            looked_s = now_s
            if now_s >= deadline:
                raise self._timeout(patience_s)
            if bell is not None and now_s - begun_s >= HUNGRY_S:
                bell.say_hungry()
            if bell is not None and heard is not None and now_s - begun_s < _TURN_S:
                pause_s = min(_RING_S, deadline - now_s)
            else:
                found = self._read_text()
                if found != holder:
                    holder, moved_s = found, now_s
                pause_s = min(_pause_s(now_s - begun_s, now_s - moved_s), deadline - now_s)
            if bell is None or heard is None:
                time.sleep(pause_s)
            else:
                bell.sleep(heard, pause_s)

    def _try(self, is_in_place: Callable[[], bool] | None = None) -> bool:
        while True:
            if self._fd < 0:
                self._open()
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            except OSError as error:
                raise environment_failure(error, "lock", self._path) from error
            if not self._is_guard:
                return True
            self._was_in_place = is_in_place is not None and is_in_place()
            try:
                is_held = self._was_in_place or self.is_current()
            except EnvironmentFailure:
                self._drop()
                raise
            if is_held:
                if time.monotonic() - self._text_s >= _SIGNED_S or self._read_text() != self._text:
                    self._sign()
                return True
            self._drop()  # the file was replaced: the lock on the old one guards nothing

    def _release(self) -> None:
        if self._fd >= 0:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
            except OSError:
                self._drop()  # as in ``give``

    def _open(self) -> None:
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            status = os.fstat(self._fd)
        except OSError as error:
            self._drop()
            failure = environment_failure(error, "open the lock", self._path)
            if isinstance(error, PermissionError) and (
                user := user_of(self._path) or user_of(os.path.dirname(self._path))
            ):
                failure.mend = (
                    f"It belongs to {user}, and only one user can write a store: work in a clone of your own; `periplus sync` "
                    "exchanges the records."
                )
            raise failure from error
        self._place = (status.st_dev, status.st_ino)
        self._text_s = 0.0

    def _drop(self) -> None:
        if self._fd >= 0:
            fd, self._fd = (
                self._fd,
                -1,
            )  # before closing: a signal handler may raise after the call, and the number may be reused
            os.close(fd)

    def is_current(self) -> bool:
        """Test that the path leads to the locked file. Raises EnvironmentFailure where that cannot be found out."""
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise environment_failure(error, "look at the lock", self._path) from error
        return self._place == (there.st_dev, there.st_ino)

    def _sign(self) -> None:
        now_s = time.monotonic()
        self._text, self._text_s = sign(self._fd), now_s

    def _read_text(self) -> bytes:
        try:
            return os.pread(self._fd, _TEXT_BYTES, 0)
        except OSError:
            return b""

    def _timeout(self, patience_s: float) -> LockTimeoutError:
        try:
            with open(self._path, encoding="utf-8", errors="replace") as file:
                holder = file.read(400).strip() or "an unnamed process"
        except OSError:
            holder = "an unknown process"
        mend = "Repeat the command when that process is done."
        if holder.startswith(_who(os.getpid()).decode(errors="replace") + " "):
            mend = "This process holds it: in another thread, or in a call that made this one."
        return LockTimeoutError(
            f"the store is being written by {holder}; not free within {patience_s:g} s",
            safe="Nothing was changed; reading needs no lock.",
            mend=mend,
        )


class Holding:
    """Context manager that holds a lock."""

    __slots__ = ("_asked", "_lock", "_mutex")

    def __init__(
        self, lock: Lock, patience_s: float, meanwhile: Callable[[], object] | None,
        is_in_place: Callable[[], bool] | None,
    ) -> None:  # fmt: skip
        self._lock, self._asked = lock, (patience_s, meanwhile, is_in_place)
        self._mutex: threading.Lock | None = None

    def __enter__(self) -> bool:
        patience_s, meanwhile, is_in_place = self._asked
        # Without *, Python does not check for signals before both are assigned.
        self._mutex, was_in_place = self._lock.take(patience_s, meanwhile, is_in_place)
        return was_in_place

    def __exit__(self, *_: object) -> None:
        lock, mutex = self._lock, self._mutex
        assert mutex is not None
        try:
            fcntl.flock(lock._fd, fcntl.LOCK_UN)  # noqa: SLF001 - the same module, here and below
        except (OSError, ValueError):
            lock._drop()  # noqa: SLF001 - a lock ends with its descriptor, whatever the system says of the unlocking
        finally:
            self._mutex = None  # no call between the two: an exception of a signal handler comes before or after both
            mutex.release()  # a forked child that leaves the block releases its mutex
        if lock.bell is not None:
            lock.bell.ring()

    def __del__(self) -> None:
        if getattr(self, "_mutex", None) is not None:  # a signal handler raised just before the block was left
            self.__exit__()


def _pause_s(waited_s: float, still_s: float) -> float:
    """Return the pause before the next try, after ``waited_s`` in all and ``still_s`` under the same holder."""
    if still_s > _STILL_S:
        return min(still_s / 10, _POLL_MAX_S)
    return max(_POLL_FIRST_S * (1 - waited_s / _AGED_S), _POLL_MIN_S)


@functools.lru_cache(maxsize=1)
def _who(pid: int) -> bytes:
    return f"{pid} {os.uname().nodename}".encode(errors="replace")


@functools.cache
def _command() -> bytes:
    words = [os.path.basename(sys.argv[0] or "python"), *sys.argv[1:2]]
    return " ".join(words)[:80].replace("\n", " ").encode(errors="replace")


def _forget_in_child() -> None:
    if not _held.cache_info().currsize:
        return
    import threading

    for lock in _held():
        lock._mutex = threading.Lock()  # noqa: SLF001 - a thread of the parent may have held it
        lock._drop()  # noqa: SLF001 - closing a copy leaves the parent's lock in place


os.register_at_fork(after_in_child=_forget_in_child)
