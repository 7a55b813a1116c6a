"""Cross-process wake-ups through a shared futex word.

Rules:

* a wake-up decides nothing. A process that woke up, or whose time is over, checks its condition itself. A lost wake-up
  (from a killed process or an older version) costs the waiting time and nothing else;
* a waiter reads the word with ``listen`` *before* it checks its condition, and sleeps only while the word is unchanged.
  So a wake-up between the two is not missed;
* where the system has no futex (Linux has one) or refuses the call, ``sleep`` is an ordinary sleep.

A ``FutexBell`` takes 16 bytes of shared memory: a word that changes with each ring, and the time of the last ``listen`` in ns
of the monotonic clock that all processes share. ``ring`` makes no system call when nobody has listened for _HEARD_NS.
"""

from __future__ import annotations

__all__ = ["BELL_BYTES", "WAKE_ALL", "FutexBell"]

import errno
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mmap import mmap

BELL_BYTES: Final = 16
WAKE_ALL: Final = 0x7FFF_FFFF
_HEARD_NS: Final = 100_000_000
_WORD: Final = 0xFFFF_FFFF  # futex compares the lower 32 bits
_NUMBERS: Final = {
    "x86_64": 202,
    "aarch64": 98,
    "riscv64": 98,
    "loongarch64": 98,
}  # of the call; 64 bits, low end first
_WAIT: Final = 0
_WAKE: Final = 1
_EXPECTED: Final = frozenset({errno.EAGAIN, errno.ETIMEDOUT, errno.EINTR})


class FutexBell:
    """Futex word at ``offset`` of ``memory``. The memory must stay mapped, and its file must keep its size, until
    ``close``.
    """

    def __init__(self, memory: mmap, offset: int) -> None:
        self._memory = memory
        self._offset = offset
        self._words = memoryview(memory)[offset : offset + BELL_BYTES].cast("Q")
        self._call: Callable[[int, int, float], bool] | None = None

    def close(self) -> None:
        self._call = None
        self._words.release()

    def listen(self) -> int:
        """Return the value to pass to ``sleep``. Call it before checking the condition."""
        words = self._words
        words[1] = time.monotonic_ns()
        found: int = words[0]
        return found & _WORD

    def sleep(self, heard: int, seconds: float) -> None:
        """Sleep until the next ring, for ``seconds`` at most. Return at once when there was a ring since ``heard``."""
        if not self._system()(_WAIT, heard, seconds):
            self._call = _no_futex
            time.sleep(seconds)

    def ring(self, count: int = 1) -> None:
        """Wake up to ``count`` waiters."""
        words, now_ns = self._words, time.monotonic_ns()
        if now_ns - words[1] < _HEARD_NS:
            words[0] = now_ns
            self._system()(_WAKE, count, 0.0)

    def _system(self) -> Callable[[int, int, float], bool]:
        call = self._call
        if call is None:
            call = self._call = _futex(self._memory, self._offset) or _no_futex
        return call


def _no_futex(_operation: int, _value: int, _seconds: float) -> bool:
    return False


def _futex(memory: mmap, offset: int) -> Callable[[int, int, float], bool] | None:
    """Return a function that makes the futex call on the word at ``offset``, and returns False when the call was
    refused. None where the system has none.
    """
    number = _NUMBERS.get(os.uname().machine) if sys.platform == "linux" and sys.maxsize > _WORD else None
    if number is None:
        return None
    try:
        import ctypes

        call = ctypes.CDLL(None, use_errno=True).syscall
        anchor: Any = ctypes.c_char.from_buffer(memory, offset)  # keeps the mapping alive
    except (ImportError, OSError, AttributeError, ValueError):
        return None  # no ctypes, an unreadable disk, or a mapping that another thread has closed
    call.argtypes = [ctypes.c_long, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p]
    call.restype = ctypes.c_long
    address, get_errno, time_type = ctypes.addressof(anchor), ctypes.get_errno, ctypes.c_long * 2

    def futex(operation: int, value: int, seconds: float) -> bool:
        until = None
        if operation == _WAIT:
            until = time_type(int(seconds), int(seconds % 1 * 1e9))
        return bool(
            (anchor is not None and call(number, address, operation, value, until) >= 0) or get_errno() in _EXPECTED
        )

    return futex
