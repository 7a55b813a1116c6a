"""A screen that is drawn again while something changes: the whole terminal, keys without Enter, and only lines that differ are written.

Within ``with`` the terminal shows its other screen, without cursor and without line wrap, and gives keys one by one; afterwards it is as
before, also after an error, Ctrl-C or a stop by Ctrl-Z. The size is asked for at each drawing, which costs one call of the system.
"""

from __future__ import annotations

__all__ = ["LiveScreen", "Size", "keys_in"]

import os
import select
import signal
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, Final, NamedTuple, Self

_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
_LEAVE: Final = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_READ_BYTES: Final = 1_024
_NAMES: Final = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"k": "up", b"\x1b[B": "down", b"\x1bOB": "down", b"j": "down", b"\r": "enter", b"\n": "enter",
    b"\x1b[5~": "page up", b"b": "page up", b"\x1b[6~": "page down", b" ": "page down", b"\x1b[H": "home", b"\x1b[1~": "home",
    b"g": "home", b"\x1b[F": "end", b"\x1b[4~": "end", b"G": "end", b"q": "quit", b"Q": "quit", b"\x1b": "escape",
    b"\x1b[D": "escape", b"\x1bOD": "escape", b"\x1b[C": "enter", b"\x1bOC": "enter", b"\x04": "quit",
}  # fmt: skip
_LONGEST: Final = max(map(len, _NAMES))


class Size(NamedTuple):
    columns: int
    rows: int


class LiveScreen:
    """The terminal of this process: keys come from ``fd``, drawings go to ``write``. ``is_over`` once the terminal is gone.
    ``decode`` names the keys in what the terminal sent.
    """

    def __init__(
        self, fd: int, out_fd: int, write: Callable[[str], None], decode: Callable[[bytes], Iterator[str]] | None = None
    ) -> None:
        self._fd, self._out_fd, self._write = fd, out_fd, write
        self._decode = decode or keys_in
        self._shown: list[str] = []
        self._size = Size(0, 0)
        self._before: list[Any] = []
        self._on_stop: Any = None
        self.is_over = False

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._fd)
        self._begin()
        self._on_stop = signal.signal(signal.SIGTSTP, self._stopped)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGTSTP, self._on_stop)
        self._end()

    @property
    def size(self) -> Size:
        try:
            found = os.get_terminal_size(self._out_fd)
        except OSError:
            return Size(80, 24)
        return Size(max(1, found.columns), max(1, found.lines))

    def draw(self, lines: Sequence[str], size: Size) -> int:
        """Show ``lines`` from the top; return how many were written because they differ from what is shown."""
        if size != self._size:
            self._size, self._shown = size, []
            self._write("\x1b[2J")
        lines = lines[: size.rows]
        changed = [at for at, line in enumerate(lines) if at >= len(self._shown) or self._shown[at] != line]
        parts = [f"\x1b[{at + 1};1H{lines[at]}\x1b[K" for at in changed]
        if len(lines) < len(self._shown):
            parts.append(f"\x1b[{len(lines) + 1};1H\x1b[J")
        if parts:
            self._write("".join(parts))
        self._shown = list(lines)
        return len(changed)

    def keys(self, seconds: float) -> list[str]:
        """Wait for keys, at most so long; return their names, or the characters where they have none."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        if not poll.poll(max(0.0, 1000 * seconds)):
            return []
        try:
            data = os.read(self._fd, _READ_BYTES)
        except OSError:
            data = b""
        self.is_over = not data
        return list(self._decode(data))

    def _begin(self) -> None:
        tty.setcbreak(self._fd)
        self._shown, self._size = [], Size(0, 0)
        self._write(_ENTER)

    def _end(self) -> None:
        try:
            self._write(_LEAVE)
        except OSError:
            self.is_over = True
        try:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)
        except termios.error:
            self.is_over = True  # the terminal was closed

    def _stopped(self, _number: int, _frame: FrameType | None) -> None:
        """Give the terminal back while the process is stopped, and take it again after that."""
        self._end()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._stopped)
        self._begin()


def keys_in(data: bytes) -> Iterator[str]:
    """Yield the names of the keys in what a terminal sent; unknown sequences are passed over."""
    at = 0
    while at < len(data):
        found = next((data[at : at + size] for size in range(_LONGEST, 0, -1) if data[at : at + size] in _NAMES), b"")
        if not found:
            at += 1
            continue
        if found == b"\x1b" and data[at + 1 : at + 2] in (b"[", b"O"):  # a key that means nothing here
            at += 2
            while at < len(data) and not data[at : at + 1].isalpha() and data[at : at + 1] != b"~":
                at += 1
            at += 1
            continue
        yield _NAMES[found]
        at += len(found)
