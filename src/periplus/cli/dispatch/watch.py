"""``periplus dispatch watch``: the board of a dispatch while it changes, or its events as lines of JSON."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, visible

if TYPE_CHECKING:
    from periplus.cli.dispatch.board_view import BoardView
    from periplus.dispatch.reports.board import Board, Row
    from periplus.dispatch.reports.events import Event
    from periplus.dispatch.reports.live_spending import LiveSpending
    from periplus.journal import Entity
    from periplus.project import Project
    from periplus.tui.live_screen import LiveScreen

_DRAW_S: Final = 0.1  # at most ten drawings a second
_TICK_S: Final = 1.0  # times move on
_LOOK_S: Final = 0.25  # at least so long between two looks at the journal
_AGAIN_S: Final = 5.0  # a claim may end, and steps may change, without a record of the dispatch
_OUTPUT_BYTES: Final = 64 * 1024
_LINES_MAX: Final = 5_000
_NOT_OPEN: Final = {"done": 0, "stopped": 1}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", default="", metavar="ID",
                        help="the dispatch, or a unique prefix of its id (default: the open one, else the newest)")  # fmt: skip
    parser.add_argument(
        "--once", action="store_true", help="print the table once (default: when the output is no terminal)"
    )


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.common.changes import check_typed
    from periplus.memory.coordination.dispatches import find_dispatch

    check_typed(arguments)
    with face.open() as project:
        held = find_dispatch(project.journal, arguments.id)
        if arguments.once or not (face.as_json or _is_live(face)):
            from periplus.cli.dispatch.show import show_board
            from periplus.dispatch.reports.board import board_of

            board = board_of(project.journal, held)
            return show_board(face, _spending(face, project).added(project.journal, board))
        try:
            return _print_events(face, project, held) if face.as_json else _live(face, project, held)
        except KeyboardInterrupt:
            return 0  # the normal way to stop


def _is_live(face: Face) -> bool:
    """Return whether there is a terminal that can be drawn on, and keys."""
    return (
        face.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty() and face.environment.get("TERM") != "dumb"
    )


def _print_events(face: Face, project: Project, held: Entity) -> int:
    """Print the events of the dispatch from its beginning, until it has ended."""
    from periplus.cli.dispatch.foreground import EventPrinter
    from periplus.dispatch.reports.events import EventReader

    printer = EventPrinter(face)
    for events in EventReader(project.journal, held.item_id).follow(face.wait):
        printer(events)
        now = project.journal.get("dispatch", held.item_id)
        state = str(now.value.get("state")) if now is not None else "stopped"
        if state in _NOT_OPEN:
            return _NOT_OPEN[state]
    return 0


def _live(face: Face, project: Project, held: Entity) -> int:
    from periplus.cli.dispatch.board_view import BoardView
    from periplus.cli.dispatch.foreground import ends_of
    from periplus.dispatch.reports.board import board_of
    from periplus.dispatch.reports.events import EventReader
    from periplus.tui.live_screen import LiveScreen

    inside = _Inside(face, project)
    seen = ends_of(project)
    board, spending = board_of(project.journal, held), _spending(face, project)
    view = BoardView(spending.added(project.journal, board), face.palette, inside)

    def write(text: str) -> None:
        face.out(text, end="")
        face.flush()

    with LiveScreen(sys.stdin.fileno(), face.stdout.fileno(), write) as screen:
        watching = _Watching(project, board, spending, view, screen)
        for events in EventReader(project.journal, held.item_id, seen).follow(watching.wait):
            watching.take(events)
    return 0


def _spending(face: Face, project: Project) -> LiveSpending:
    """Return what adds the tokens of agents at work. Settings that cannot be read are the business of `start`."""
    from periplus.base.errors import PeriplusError
    from periplus.cli.dispatch.surroundings import state_folder, surroundings_of
    from periplus.dispatch.adapters import ADAPTERS
    from periplus.dispatch.places import Places
    from periplus.dispatch.reports.live_spending import LiveSpending

    try:
        adapters = surroundings_of(face, project).options.adapters
    except PeriplusError:
        adapters = {one.name: one for one in ADAPTERS}
    return LiveSpending(Places.of(state_folder(face), project.root), adapters)


class _Watching:
    """Draws the view while the journal is followed: ``wait`` is called between two looks at the journal."""

    def __init__(
        self, project: Project, board: Board, spending: LiveSpending, view: BoardView, screen: LiveScreen
    ) -> None:
        self._project, self._board, self._spending = project, board, spending
        self._view, self._screen = view, screen
        self.is_changed = True
        self._drawn_s, self._read_s = float("-inf"), time.monotonic()

    def take(self, events: Sequence[Event]) -> None:
        """Show events. The board is read here, while the journal is open for the look that found them."""
        if events:
            self._view.take(events)
            self._read(time.monotonic())
            self.is_changed = True

    def wait(self, seconds: float) -> bool:
        """Take keys and draw for a while; return True to end."""
        until = time.monotonic() + max(seconds, _LOOK_S)
        while True:
            now_s = time.monotonic()
            if self._draw_is_due(now_s):
                self._draw(now_s)
            next_s = self._drawn_s + (_DRAW_S if self.is_changed else _TICK_S)
            for key in self._screen.keys(min(until, next_s) - now_s):
                self._view.key(key, self._screen.size)
                self.is_changed = True
            if self._view.is_over or self._screen.is_over:
                return True
            if time.monotonic() >= until:
                return False

    def _draw_is_due(self, now_s: float) -> bool:
        return now_s - self._drawn_s >= (_DRAW_S if self.is_changed else _TICK_S)

    def _draw(self, now_s: float) -> None:
        if now_s - self._read_s >= _AGAIN_S:
            self._read(now_s)
        self._view.board = self._spending.added(self._project.journal, self._board)
        size = self._screen.size
        self._screen.draw(self._view.lines(size, self._project.journal.clock.now_ms()), size)
        self._drawn_s, self.is_changed = now_s, False

    def _read(self, now_s: float) -> None:
        from periplus.dispatch.reports.board import board_of
        from periplus.memory.coordination.dispatches import find_dispatch

        journal = self._project.journal
        self._board = board_of(journal, find_dispatch(journal, self._board.heading.dispatch))
        self._read_s = now_s


class _Inside:
    """Lines about one row: the listing of its trail once there is one, else the end of what its agent has printed."""

    def __init__(self, face: Face, project: Project) -> None:
        from periplus.cli.dispatch.surroundings import state_folder
        from periplus.dispatch.places import Places

        self._project = project
        self._places = Places.of(state_folder(face), project.root)
        self._listed: tuple[str, int, list[str]] = ("", 0, [])

    def __call__(self, row: Row, width: int) -> Sequence[str]:
        if not row.run:
            return ["", "  No agent has worked on it yet."]
        if row.trail and not row.is_going:
            return self._listing(row.trail, width)
        return self._output(row.run, width)

    def _listing(self, trail: str, width: int) -> list[str]:
        if self._listed[:2] != (trail, width):
            from itertools import islice

            from periplus.base.errors import PeriplusError
            from periplus.trail import listing, open_parts

            try:
                readers = open_parts(self._project.trail_bytes(trail).data)
                lines = [line for reader in readers for line in islice(listing(reader, width=width), _LINES_MAX)]
            except PeriplusError as error:
                lines = [visible(f"  {trail} cannot be shown: {error}", width)]
            self._listed = (trail, width, lines[:_LINES_MAX])
        return self._listed[2]

    def _output(self, run: str, width: int) -> list[str]:
        from periplus.dispatch.processes import RunFolder

        said = RunFolder(self._places.run(run), self._project.journal.files).tail(_OUTPUT_BYTES)
        lines = [visible(line, width) for line in said.decode("utf-8", "replace").splitlines()]
        return lines or ["  Nothing was printed yet."]
