"""Ctrl-C while a command is loading.

Imports take half the time of a short command, so an early Ctrl-C usually arrives during one. msgspec 0.22 crashes with SIGSEGV if
an exception leaves Python code while it inspects a type. An interrupt during an import is therefore delayed until the import
ends; any other raises ``KeyboardInterrupt`` at once.
"""

from __future__ import annotations

__all__ = ["EXIT_INTERRUPTED", "INTERRUPTED", "INTERRUPTED_DOCUMENT", "hold_while_loading"]

import _signal  # type: ignore[import-not-found]  # what `signal` is made of: that takes a millisecond, and no short command needs it
import _thread
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import FrameType

EXIT_INTERRUPTED: Final = 130
INTERRUPTED: Final = "\nperiplus: interrupted; acknowledged writes are kept\n"
INTERRUPTED_DOCUMENT: Final = (  # a `schemas.ErrorOut` as text, so that nothing has to be loaded
    '{"schema":"periplus.error/1","error":"interrupted","wrong":"interrupted","safe":"Acknowledged writes are kept.",'
    f'"next":"","exit_code":{EXIT_INTERRUPTED}}}\n'
)

_AGAIN_S: Final = 0.02
_TRIES_MAX: Final = 250  # about 5 s: a longer import hangs, and is interrupted anyway


def hold_while_loading() -> None:
    """Delay SIGINT until the end of an import in the main thread, unless the parent process set a handler."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _Interrupts())


class _Interrupts:
    def __init__(self) -> None:
        self._tries = 0
        self._is_waiting = False

    def __call__(self, _number: int, frame: FrameType | None) -> None:
        """Handle SIGINT. Raises KeyboardInterrupt."""
        self._tries += 1
        if self._tries > _TRIES_MAX or not _is_loading(frame):
            self._tries = 0
            raise KeyboardInterrupt
        if not self._is_waiting:
            self._is_waiting = True
            _thread.start_new_thread(self._again, (_thread.get_ident(),))

    def _again(self, main_thread: int) -> None:
        time.sleep(_AGAIN_S)
        self._is_waiting = False
        _signal.pthread_kill(main_thread, _signal.SIGINT)


def _is_loading(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
