"""Ctrl-C while a command is loaded.

Half of a short command's time are imports, so that is where an impatient person's Ctrl-C meets it, and the least of places for an
exception: msgspec 0.22 ends the process by SIGSEGV where one comes out of Python in the middle of its looking at a type. So an
interrupt that comes during an import waits until the import is over. Any other is a ``KeyboardInterrupt`` at once, as ever.
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
INTERRUPTED_DOCUMENT: Final = (  # a `schemas.ErrorOut`, for which nothing is loaded any more
    '{"schema":"periplus.error/1","error":"interrupted","wrong":"interrupted","safe":"Acknowledged writes are kept.",'
    f'"next":"","exit_code":{EXIT_INTERRUPTED}}}\n'
)

_AGAIN_S: Final = 0.02
_TRIES_MAX: Final = 250  # some 5 s: an import that lasts longer hangs, and is interrupted all the same


def hold_while_loading() -> None:
    """Have SIGINT wait for the end of an import, in the main thread, unless who started the process set what it does."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _Interrupts())


class _Interrupts:
    def __init__(self) -> None:
        self._tries = 0
        self._is_waiting = False

    def __call__(self, _number: int, frame: FrameType | None) -> None:
        """The handler of SIGINT. Raises KeyboardInterrupt."""
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
