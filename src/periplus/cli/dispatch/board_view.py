"""The screen of `watch`, as a function of the board, the keys that were typed and the size of the terminal."""

from __future__ import annotations

__all__ = ["BoardView"]

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Palette, visible
from periplus.cli.dispatch.event_lines import event_line
from periplus.cli.dispatch.table import column_line, heading_lines, question_lines, row_lines

if TYPE_CHECKING:
    from periplus.dispatch.reports.board import Board, Row
    from periplus.dispatch.reports.events import Event
    from periplus.tui.live_screen import Size

_EVENTS_KEPT: Final = 20
_EVENTS_SHOWN: Final = 5
_BODY_MIN: Final = 4
_MARK: Final = "> "
_NO_MARK: Final = "  "
_HELP: Final = "arrows or j k: choose, Enter: what it does, q: leave"
_HELP_INSIDE: Final = "arrows or j k: scroll, Enter or Esc: back, q: leave"
_WIDTH_MIN: Final = 20


class BoardView:
    """The view of one dispatch. ``inside`` returns lines about a row for a width: its trail, or the end of its output."""

    def __init__(self, board: Board, palette: Palette, inside: Callable[[Row, int], Sequence[str]]) -> None:
        self.board, self.palette = board, palette
        self._inside = inside
        self._chosen = self._scrolled = 0
        self._first = 0  # the first row that is shown
        self._is_inside = False
        self._is_at_end = True
        self._events: deque[Event] = deque(maxlen=_EVENTS_KEPT)
        self.is_over = False

    @property
    def is_inside(self) -> bool:
        """True while one row is looked at; its output may grow without a record."""
        return self._is_inside

    def take(self, events: Sequence[Event]) -> None:
        self._events.extend(events)

    def key(self, name: str, screen: Size) -> None:
        if name == "quit":
            self.is_over = True
        elif self._is_inside:
            self._key_inside(name, screen)
        elif name == "enter" and self.board.rows:
            self._is_inside, self._is_at_end, self._scrolled = True, True, 0
        else:
            page = max(1, screen.rows // 2)
            moves = {
                "up": -1,
                "down": 1,
                "page up": -page,
                "page down": page,
                "home": -len(self.board.rows),
                "end": len(self.board.rows),
            }
            self._chosen = min(max(0, self._chosen + moves.get(name, 0)), max(0, len(self.board.rows) - 1))

    def lines(self, screen: Size, now_ms: int) -> list[str]:
        """Return the whole screen, none of its lines wider than it."""
        width = max(_WIDTH_MIN, screen.columns)
        self._chosen = min(self._chosen, max(0, len(self.board.rows) - 1))
        lines = self._lines_inside(width, screen.rows) if self._is_inside else self._table(width, screen.rows, now_ms)
        return lines[: screen.rows]

    # -- the table -----------------------------------------------------------------------------------------------------

    def _table(self, width: int, rows: int, now_ms: int) -> list[str]:
        board, paint = self.board, self.palette
        head = [*heading_lines(board.heading, paint, width), _NO_MARK + column_line(paint, width - 2)]
        asked = list(question_lines(board.questions, paint, width))
        room = rows - len(head) - 1
        asked = asked[: max(0, room - _BODY_MIN)]
        recent = [event_line(one, paint, width) for one in list(self._events)[-_EVENTS_SHOWN:]]
        blocks = [
            list(row_lines(row, paint, width - 2, elapsed_ms=max(0, now_ms - board.now_ms))) for row in board.rows
        ]
        needed = sum(map(len, blocks))
        spare = room - len(asked) - min(needed, max(_BODY_MIN, room - len(asked) - len(recent) - 1))
        recent = recent[-max(0, spare - 1) :] if spare > 1 else []
        body = self._body(blocks, room - len(asked) - (len(recent) + 1 if recent else 0))
        help_line = f"{paint.dim}{visible(_HELP, width)}{paint.end}"
        return [*head, *body, *asked, *([""] if recent else []), *recent, help_line]

    def _body(self, blocks: list[list[str]], room: int) -> list[str]:
        """Return the rows around the chosen one that fit into ``room`` lines."""
        self._first = min(self._first, self._chosen)
        while self._first < self._chosen and sum(map(len, blocks[self._first : self._chosen + 1])) > room:
            self._first += 1
        found: list[str] = []
        for at, block in enumerate(blocks[self._first :], self._first):
            if len(found) + len(block) > room:
                break
            found += [
                (_MARK if at == self._chosen and place == 0 else _NO_MARK) + line for place, line in enumerate(block)
            ]
        return found or ["  no steps"][: max(0, room)]

    # -- one row -------------------------------------------------------------------------------------------------------

    def _lines_inside(self, width: int, rows: int) -> list[str]:
        row, paint = self.board.rows[self._chosen], self.palette
        head = list(row_lines(row, paint, width))
        told = list(self._inside(row, width))
        room = max(1, rows - len(head) - 1)
        last = max(0, len(told) - room)
        self._scrolled = last if self._is_at_end else min(self._scrolled, last)
        self._is_at_end = self._scrolled >= last
        return [
            *head,
            *told[self._scrolled : self._scrolled + room],
            f"{paint.dim}{visible(_HELP_INSIDE, width)}{paint.end}",
        ]

    def _key_inside(self, name: str, screen: Size) -> None:
        if name in ("enter", "escape"):
            self._is_inside = False
            return
        page = max(1, screen.rows - 4)
        if name == "end":
            self._is_at_end = True
            return
        if name == "home":
            self._is_at_end, self._scrolled = False, 0
            return
        moves = {"up": -1, "down": 1, "page up": -page, "page down": page}
        if name in moves:
            self._is_at_end = False
            self._scrolled = max(0, self._scrolled + moves[name])
