"""A supervisor in the foreground: it prints events as they come, and Ctrl-C ends it in two steps."""

from __future__ import annotations

__all__ = ["EventPrinter", "carry", "ends_of"]

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, visible
from periplus.cli.common.interrupts import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from periplus.dispatch.reports.events import Event
    from periplus.dispatch.supervision import Outcome, Supervisor, SupervisorOptions
    from periplus.journal import Entity
    from periplus.project import Project

_EXIT: Final[dict[Outcome, int]] = {"done": 0, "stopped": 1, "interrupted": EXIT_INTERRUPTED}
_PIPE_COLUMNS: Final = 160  # of a line that no terminal cuts: what a check printed may be long
_CHOICE: Final = "\nperiplus: finishing what runs; nothing more is started. Ctrl-C again stops it now: the work stays in its worktrees.\n"
_NOW: Final = "\nperiplus: stopping the agents; their work stays in its worktrees.\n"


def carry(
    face: Face, project: Project, dispatch: Entity, options: SupervisorOptions, seen: Mapping[str, int], *, with_spans: bool
) -> int:  # fmt: skip
    """Carry a dispatch to its end, tell what happens after ``seen``, and return the exit code."""
    from periplus.dispatch.reports.events import EventReader
    from periplus.dispatch.supervision import Supervisor

    reader = EventReader(project.journal, dispatch.item_id, seen)
    printer = EventPrinter(face)
    with _sinks(printer, dispatch.item_id, with_spans=with_spans) as told:
        supervisor = Supervisor(project, dispatch.item_id, options, lambda _: told(reader.read()))
        at = supervisor.workplace
        for remark in at.repository.remarks():
            face.stderr.write(f"periplus: {visible(remark)}\n")
        if at.order.oracle and at.sandbox.layer == "none":
            face.stderr.write(f"periplus: the check runs without a sandbox: {visible(at.sandbox.about)}\n")
        face.tell_terminal("Ctrl-C finishes what runs, a second one stops it; the work stays")
        with _interruptible(face, supervisor):
            outcome = supervisor.run()
        told(reader.read_rest(at.writer))
        for remark in at.notes:
            told([_note(project, dispatch.item_id, remark)])
    _show_end(face, project, dispatch.item_id, supervisor)
    return _EXIT[outcome]


def ends_of(project: Project) -> dict[str, int]:
    """Return the last seq of each lineage, to tell only what comes after them."""
    return {lineage: project.journal.end(lineage).next_seq - 1 for lineage in project.journal.lineages()}


class EventPrinter:
    """Prints events: documents a line with --json, else lines of text."""

    def __init__(self, face: Face) -> None:
        self._face = face

    def __call__(self, events: Sequence[Event]) -> None:
        from periplus.cli.dispatch.event_lines import event_line, how_to_answer, is_told

        for event in events:
            if self._face.as_json:
                self._face.emit(event, list)
            elif is_told(event):
                self.say(event_line(event, self._face.palette, self._face.width or _PIPE_COLUMNS))
                if event.event == "question" and event.state == "open":
                    self.say(how_to_answer(event))
        self._face.flush()

    def say(self, line: str) -> None:
        self._face.out(line)
        self._face.flush()


@contextmanager
def _sinks(printer: EventPrinter, dispatch: str, *, with_spans: bool) -> Iterator[Callable[[Sequence[Event]], None]]:
    """Yield what takes events: the printer, and with ``with_spans`` the exporter of spans."""
    if not with_spans:
        yield printer
        return
    from periplus.dispatch.reports.spans import open_dispatch_spans

    spans = open_dispatch_spans(dispatch)

    def told(events: Sequence[Event]) -> None:
        printer(events)
        for event in events:
            spans(event)

    try:
        yield told
    finally:
        lost = spans.close()
        if lost:
            printer.say(f"{lost:,} spans could not be sent.")


@contextmanager
def _interruptible(face: Face, supervisor: Supervisor) -> Iterator[None]:
    """Let the first Ctrl-C finish what runs, and the second stop it."""
    asked = 0

    def interrupt(_number: int, _frame: object) -> None:
        nonlocal asked
        asked += 1
        # Not through the stream: a second Ctrl-C may come while this handler writes.
        os.write(face.stderr.fileno(), (_CHOICE if asked == 1 else _NOW).encode())
        if asked == 1:
            supervisor.stop_softly()
        else:
            supervisor.stop_now()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _note(project: Project, dispatch: str, text: str) -> Event:
    from periplus.dispatch.reports.events import note

    return note(project.journal.clock.now_ms(), dispatch, text)


def _show_end(face: Face, project: Project, dispatch: str, supervisor: Supervisor) -> None:
    """Print the board as it is at the end, and what a person can do now."""
    if face.as_json:
        return
    from periplus.cli.dispatch.show import next_lines
    from periplus.cli.dispatch.table import board_lines
    from periplus.dispatch.reports.board import board_of
    from periplus.memory.coordination.dispatches import find_dispatch

    board = board_of(project.journal, find_dispatch(project.journal, dispatch))
    board = board._replace(heading=board.heading._replace(is_carried=False))  # this process ends now
    for line in (*board_lines(board, face.palette, face.width), *next_lines(board)):
        face.out(line)
    for step, why in supervisor.blocked.items():
        face.out(f"{step} could not be offered: {why}")
    heading = board.heading
    if heading.branch != heading.target and any(row.state == "integrated" for row in board.rows):
        face.out(f"The work is on the branch {heading.branch}. To take it over: git merge {heading.branch}")
