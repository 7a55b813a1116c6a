"""The page of a dispatch: its lanes as they are now, the questions of its agents, its events, and one step with all its runs."""

from __future__ import annotations

__all__ = ["dispatch"]

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from periplus.base.errors import NotFoundError, PeriplusError
from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.model import Asked, View
from periplus.web.pages.work.entity_fields import one_line
from periplus.web.pages.work.inbox_rows import QuestionRow, question_row

if TYPE_CHECKING:
    from periplus.dispatch.adapters import Adapter
    from periplus.dispatch.reports.board import Board, Row
    from periplus.dispatch.reports.events import Event
    from periplus.dispatch.reports.live_spending import LiveSpending
    from periplus.memory.entities.schemas import Assignment, Attempt, Return
    from periplus.memory.entities.schemas import Finding as ReviewFinding
    from periplus.project import Project

EVENTS_SHOWN: Final = 60
OUTPUT_BYTES: Final = 32 * 1024
_ROWS_SHOWN: Final = 200
_RUNS_SHOWN: Final = 100
_TEXT_CHARACTERS: Final = 20_000
_LIVE_S: Final = 2


class EventRow(NamedTuple):
    """An event as it is shown: ``kind`` is the colour of ``what``."""

    ts: str
    number: int
    step: str
    what: str
    kind: str
    who: str
    text: str
    trail: str


class StepRuns(NamedTuple):
    """One step of the dispatch with its assignment, of which each run is a line. ``output`` is the end of what its agent has printed."""

    row: Row
    one: Assignment
    runs: tuple[Attempt, ...]
    returns: tuple[Return, ...]
    findings: tuple[ReviewFinding, ...]
    remarks: tuple[str, ...]
    output: str
    is_output_of_now: bool
    drop: str


class Lanes(NamedTuple):
    """All values of the page. ``state`` is that of the dispatch in words; ``carrier`` says who goes on with it."""

    board: Board
    rows: tuple[Row, ...]
    rows_left_out: int
    questions: tuple[QuestionRow, ...]
    events: tuple[EventRow, ...]
    chosen: StepRuns | None
    state: str
    is_carried: bool
    can_stop: bool
    can_retry: bool
    resume: str
    done: int
    counts: tuple[tuple[str, int], ...]


def dispatch(asked: Asked) -> View:
    """Return the page of a dispatch. Query: ``step`` is a step whose runs are shown. Raises NotFoundError."""
    from periplus.dispatch.reports.board import board_of
    from periplus.dispatch.reports.events import newest_events
    from periplus.memory.coordination.dispatches import find_dispatch

    project = asked.project
    held = find_dispatch(project.journal, asked.path["id"])
    board = _with_spending(asked, board_of(project.journal, held))
    heading, states = board.heading, {row.state for row in board.rows}
    wanted = asked.query.text("step")
    questions = {one.item_id: one for one in project.work.dispatched.questions()}
    lanes = Lanes(
        board,
        board.rows[:_ROWS_SHOWN],
        max(0, len(board.rows) - _ROWS_SHOWN),
        tuple(question_row(questions[one.question]) for one in board.questions if one.question in questions),
        tuple(map(_event_row, reversed(newest_events(project.journal, held.item_id, EVENTS_SHOWN)))),
        _chosen(asked, board, wanted) if wanted else None,
        _state(heading.state, is_carried=heading.is_carried),
        heading.is_carried is not False,
        heading.state == "open",
        heading.state != "done" and bool(states & {"failed", "timed_out", "cancelled"}),
        f"periplus dispatch start --resume {heading.dispatch}" if heading.state != "done" and heading.is_carried is False else "",
        heading.sums.states.get("integrated", 0) + heading.sums.states.get("done", 0),
        tuple(sorted((name.replace("_", " "), count) for name, count in heading.sums.states.items())),
    )  # fmt: skip
    seconds = _LIVE_S if heading.is_carried is not False and any(row.is_going for row in board.rows) else 0
    return View(
        "work/dispatch.html", one_line(heading.text, 60) or heading.dispatch, {"lanes": lanes, "seconds": seconds},
        f"periplus dispatch watch {heading.dispatch}",
    )  # fmt: skip


# -- inside ------------------------------------------------------------------------------------------------------------


def _state(state: str, *, is_carried: bool | None) -> str:
    if state != "open":
        return state
    return {True: "running", False: "open, no supervisor", None: "open"}[is_carried]


class _Spending:
    """What agents at work have spent, read by one thread at a time."""

    def __init__(self, spending: LiveSpending) -> None:
        self._lock = threading.Lock()
        self._spending = spending

    def added(self, project: Project, board: Board) -> Board:
        with self._lock:
            return self._spending.added(project.journal, board)


def _with_spending(asked: Asked, board: Board) -> Board:
    """Add the tokens of agents at work; their output is read on from where it was read before."""
    if not any(row.is_going for row in board.rows):
        return board
    context = asked.context
    spending = context.cache.get(("live spending", board.heading.dispatch), lambda: _Spending(_spending(asked)))
    return spending.added(asked.project, board)


def _spending(asked: Asked) -> LiveSpending:
    from periplus.dispatch.places import Places, state_folder_of
    from periplus.dispatch.reports.live_spending import LiveSpending

    state = state_folder_of(asked.context.environment, asked.context.home)
    return LiveSpending(Places.of(state, asked.project.root), _adapters(asked))


def _adapters(asked: Asked) -> Mapping[str, Adapter]:
    """Return the agents that are known. Settings that cannot be read are the business of `dispatch start`."""
    from periplus.agent.settings import load_settings, settings_folder
    from periplus.dispatch.adapters import ADAPTERS, adapters_with

    context = asked.context
    folder = settings_folder(context.environment, context.home)
    try:
        settings = load_settings(folder, asked.project.folder, trusted=False, environment=context.environment, flags={})
        return adapters_with(settings.agents)
    except PeriplusError:
        return {one.name: one for one in ADAPTERS}


def _chosen(asked: Asked, board: Board, wanted: str) -> StepRuns:
    from periplus.dispatch.reports.stored import assignment_of

    project = asked.project
    row = next((one for one in board.rows if wanted in (one.step, one.assignment)), None)
    held = project.journal.get("assignment", row.assignment) if row is not None and row.assignment else None
    if row is None:
        raise NotFoundError(f"{board.heading.dispatch} has no step {wanted[:80]!r}")
    one = assignment_of(held.value if held is not None else {"dispatch": board.heading.dispatch})
    is_ended = row.state in ("failed", "timed_out", "cancelled")
    return StepRuns(
        row, one, one.runs[-_RUNS_SHOWN:], one.returns[-_RUNS_SHOWN:], one.findings[:_RUNS_SHOWN],
        tuple(text[:_TEXT_CHARACTERS] for text in one.remarks[:_RUNS_SHOWN]), _output(asked, row.run) if row.run else "",
        row.is_going, f"periplus dispatch drop {row.assignment}" if is_ended else "",
    )  # fmt: skip


def _output(asked: Asked, run: str) -> str:
    """Return the end of what the agent of a run has printed, where that is kept."""
    from periplus.dispatch.places import Places, is_run_name, state_folder_of
    from periplus.dispatch.processes import RunFolder

    if not is_run_name(run):
        return ""
    state = state_folder_of(asked.context.environment, asked.context.home)
    folder = RunFolder(Places.of(state, asked.project.root).run(run), asked.project.journal.files)
    try:
        return folder.tail(OUTPUT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


_GOOD: Final = frozenset({"integrated", "done", "verified", "reviewed", "passed", "answered"})
_BAD: Final = frozenset({"failed", "timed_out", "stopped", "cancelled"})
_VERBS: Final = {"open": "asks", "answered": "was answered"}


def _event_row(event: Event) -> EventRow:
    state = event.state.replace("_", " ")
    what = {
        "dispatch": f"dispatch {state}", "run": f"{event.purpose} {state}", "note": "note",
        "question": _VERBS.get(event.state, "was not answered"), "integrated": f"merged {event.commit[:12]}",
    }.get(event.event, f"{state}, attempt {event.attempt}" if event.attempt > 1 and event.state == "offered" else state)  # fmt: skip
    kind = (
        "good"
        if event.state in _GOOD
        else "bad"
        if event.state in _BAD
        else "warn"
        if event.event == "question"
        else ""
    )
    who = event.agent or {"run": "periplus", "question": "the merge queue"}.get(event.event, "")
    text = "" if event.event == "run" else one_line(event.text)
    return EventRow(event.ts, event.number, event.step, what, kind, who, text, event.trail)
