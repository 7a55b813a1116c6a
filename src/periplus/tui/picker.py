"""A list at the terminal to choose from: by arrows, by number, or by typing a part of what is looked for.

``Picker`` is the list without a terminal: keys go in, lines come out. ``pick`` shows it on the other screen of the terminal until
the person chooses or leaves.
"""

from __future__ import annotations

__all__ = ["Picker", "pick", "typed_keys"]

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from periplus.tui.live_screen import LiveScreen, Size

Cut = Callable[[str, int], str]
_TITLE: Final = "Type to search, arrows or a number to choose, Enter; Esc leaves"
_AROUND: Final = 3  # lines that are no rows of the list
_SECONDS: Final = 0.5
_QUERY_CHARACTERS_MAX: Final = 200
_KEYS: Final = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"\x1b[B": "down", b"\x1bOB": "down", b"\x1b[5~": "page up", b"\x1b[6~": "page down",
    b"\x1b[H": "home", b"\x1bOH": "home", b"\x1b[1~": "home", b"\x1b[F": "end", b"\x1bOF": "end", b"\x1b[4~": "end",
    b"\x10": "up", b"\x0e": "down", b"\r": "enter", b"\n": "enter", b"\x7f": "backspace", b"\x08": "backspace", b"\x15": "clear",
    b"\x04": "escape", b"\x1b": "escape",
}  # fmt: skip
_LONGEST: Final = max(map(len, _KEYS))


class Picker:
    """A list of ``rows``, which are safe for a terminal. ``is_over`` once the person chose ``chosen``, the place of a row, or left
    with None.
    """

    def __init__(self, rows: Sequence[str], selected: int = 0) -> None:
        self._rows = rows
        self._selected = selected  # a place in ``_rows``
        self._query = ""
        self.chosen: int | None = None
        self.is_over = False

    @property
    def _found(self) -> list[int]:
        """The places of the rows to show: all for a number of a row, else those that contain every word that was typed."""
        query = self._query
        if self._numbered() is not None:
            return list(range(len(self._rows)))
        words = query.casefold().split()
        return [at for at, row in enumerate(self._rows) if all(word in row.casefold() for word in words)]

    def _numbered(self) -> int | None:
        query = self._query.strip()
        is_number = query.isascii() and query.isdigit() and len(query) <= len(str(len(self._rows)))
        return int(query) - 1 if is_number and 1 <= int(query) <= len(self._rows) else None

    def take(self, key: str, page: int = 10) -> None:
        """Take a key: the name of one, or a character. ``page`` is the number of rows that are shown at once."""
        if key == "escape":
            self.is_over = True
        elif key == "enter":
            if self._found:
                self.chosen, self.is_over = self._selected, True
        elif key == "backspace":
            self._search(self._query[:-1])
        elif key == "clear":
            self._search("")
        elif len(key) == 1:
            self._search(self._query + key)
        else:
            self._move(key, page)

    def _search(self, query: str) -> None:
        self._query = query[:_QUERY_CHARACTERS_MAX]
        number, found = self._numbered(), self._found
        if number is not None:
            self._selected = number
        elif found and self._selected not in found:
            self._selected = found[0]

    def _move(self, key: str, page: int) -> None:
        found = self._found
        if not found:
            return
        last = len(found) - 1
        at = found.index(self._selected)
        to = {"up": at - 1, "down": at + 1, "page up": at - page, "page down": at + page, "home": 0, "end": last}.get(
            key, at
        )
        self._selected = found[min(max(0, to), last)]

    def lines(self, size: Size, cut: Cut, mark: tuple[str, str] = ("", "")) -> list[str]:
        """Return the lines to draw, at most as many as the terminal has. ``cut`` cuts a text at a number of columns; ``mark`` is put
        around the chosen row.
        """
        found = self._found
        room = max(1, size.rows - _AROUND)
        at = found.index(self._selected) if self._selected in found else 0
        first = max(0, min(at - room // 2, len(found) - room))
        digits = len(str(len(self._rows)))
        drawn = [cut(_TITLE, size.columns), cut(f"Search: {self._query}", size.columns)]
        for place in found[first : first + room]:
            is_chosen = place == self._selected
            text = cut(f"{'>' if is_chosen else ' '} {place + 1:>{digits}}. {self._rows[place]}", size.columns)
            drawn.append(f"{mark[0]}{text}{mark[1]}" if is_chosen else text)
        told = (
            f"{len(found):,} of {len(self._rows):,}"
            if found
            else "nothing matches; Backspace takes back what was typed"
        )
        return [*drawn, cut(told, size.columns)][: max(1, size.rows)]


def pick(
    rows: Sequence[str], write: Callable[[str], None], cut: Cut, *, selected: int = 0, is_coloured: bool = True,
    fd: int = 0, out_fd: int = 1,
) -> int | None:  # fmt: skip
    """Let the person choose one of ``rows``; return its place, or None if the person or the terminal left."""
    picker = Picker(rows, selected)
    mark = ("\x1b[7m", "\x1b[0m") if is_coloured else ("", "")
    with LiveScreen(fd, out_fd, write, typed_keys) as screen:
        while not (picker.is_over or screen.is_over):
            size = screen.size
            screen.draw(picker.lines(size, cut, mark), size)
            for key in screen.keys(_SECONDS):
                if not picker.is_over:
                    picker.take(key, max(1, size.rows - _AROUND))
    return picker.chosen


def typed_keys(data: bytes) -> Iterator[str]:
    """Yield the names of the keys in what a terminal sent, and the characters that were typed; other sequences are passed over."""
    at = 0
    while at < len(data):
        found = next((data[at : at + size] for size in range(_LONGEST, 0, -1) if data[at : at + size] in _KEYS), b"")
        if found == b"\x1b" and data[at + 1 : at + 2] in (b"[", b"O"):  # a key that means nothing here
            at += 2
            while at < len(data) and not data[at : at + 1].isalpha() and data[at : at + 1] != b"~":
                at += 1
            at += 1
        elif found:
            yield _KEYS[found]
            at += len(found)
        else:
            end = at + 1
            while end < len(data) and data[end] >= 0x80:
                end += 1
            yield from (letter for letter in data[at:end].decode(errors="ignore") if letter.isprintable())
            at = end
