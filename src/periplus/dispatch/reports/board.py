"""The board of a dispatch: each step of its plan with its assignment, as they are now.

Everything here is read from records. Two things are seen although no record says them: a question whose time is over is not open, and
an assignment at work is ``left`` once its claim is over and the process of its supervisor has ended, because nobody changes it any more.
"""

from __future__ import annotations

__all__ = ["LEFT", "Board", "Heading", "OpenQuestion", "Row", "Sums", "board_of", "headings", "questions_of"]

from collections.abc import Sequence
from typing import Final

from periplus.base.clock import parse_ms
from periplus.base.named_tuple import NamedTuple
from periplus.base.process.process_marks import is_gone
from periplus.dispatch.reports.stored import assignment_of, dispatch_of, mark_of, numbered, question_of, total_tokens
from periplus.journal import Entity, Journal
from periplus.memory.claim_status import is_live, live_claims
from periplus.memory.coordination.assignments import assignments_of, is_at_work
from periplus.memory.coordination.dispatches import open_questions
from periplus.memory.coordination.plans import is_ready, steps_of, waits_for
from periplus.memory.entities.schemas import Assignment, Attempt, Dispatch

LEFT: Final = "left"
_READY: Final = "ready"
_WAITS: Final = "waits"
_TAKEN: Final = "taken"
_NO_ROUND: Final = frozenset({"answer", "attempt"})  # returns that are no fault of the work
_ACT_MAX: Final = 300
_PURPOSES: Final = {
    "work": "works", "review": "is reviewed", "oracle": "is tested", "setup": "is prepared", "queue": "is merged",
}  # fmt: skip


class Row(NamedTuple):
    """A step and its assignment. ``number`` is the step's place in the plan.

    ``state`` is the assignment's, or ``left``. Of a step that has none it is ``ready``, ``waits`` (for the steps ``waits_for``), ``taken``
    (somebody else works on it) or the step's own state. ``rounds`` counts returns to the author, ``wall_ms`` includes the run that goes
    on (``is_going``), ``cost`` is in millionths of a dollar. ``run`` and ``trail`` are those of the last run of an agent.
    """

    number: int
    step: str
    text: str
    state: str
    assignment: str = ""
    agent: str = ""
    kind: str = ""
    act: str = ""
    acted: str = ""
    waits_for: tuple[str, ...] = ()
    attempt: int = 0
    rounds: int = 0
    tokens: int = 0
    cost: int = 0
    wall_ms: int = 0
    run: str = ""
    trail: str = ""
    merged: str = ""
    is_going: bool = False


class OpenQuestion(NamedTuple):
    question: str
    assignment: str
    asker: str
    text: str
    options: tuple[str, ...]
    asked: str
    expires: str


class Sums(NamedTuple):
    """Sums over the assignments; ``states`` counts the rows by state."""

    states: dict[str, int]
    tokens_in: int = 0
    cached: int = 0
    out: int = 0
    cost: int = 0
    wall_ms: int = 0

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.cached + self.out


class Heading(NamedTuple):
    """A dispatch without its rows. ``is_carried`` is False where its supervisor has ended, None where that cannot be told."""

    dispatch: str
    state: str
    text: str
    plan: str
    agents: tuple[str, ...]
    reviewers: tuple[str, ...]
    lanes: int
    target: str
    branch: str
    base: str
    oracle: tuple[str, ...]
    created: str
    ended: str
    reason: str
    is_carried: bool | None
    sums: Sums


class Board(NamedTuple):
    heading: Heading
    rows: tuple[Row, ...]
    questions: tuple[OpenQuestion, ...]
    now_ms: int


def board_of(journal: Journal, dispatch: Entity) -> Board:
    """Return the board of a dispatch as it is now."""
    journal.refresh()
    now_ms = journal.clock.now_ms()
    order = dispatch_of(dispatch.value)
    is_carried = _is_carried(journal, order)
    by_step = {str(one.value.get("step", "")): one for one in assignments_of(journal, dispatch.item_id)}
    live = live_claims(journal, now_ms)
    rows = []
    for step in steps_of(journal, order.plan) if order.plan else []:
        held = by_step.pop(step.item_id, None)
        rows.append(
            _row(journal, step, held, now_ms, is_carried=is_carried)
            if held is not None
            else _row_without(journal, step, now_ms, live)
        )
    rows += [_row(journal, None, one, now_ms, is_carried=is_carried) for one in by_step.values()]
    questions = tuple(questions_of(journal, dispatch.item_id))
    heading = _heading(dispatch, order, _sums(journal, dispatch, [row.state for row in rows]), is_carried=is_carried)
    return Board(heading, tuple(rows), questions, now_ms)


def headings(journal: Journal, *, with_ended: bool = True) -> list[Heading]:
    """Return all dispatches, the newest first."""
    journal.refresh()
    held = [one for one in journal.entities("dispatch") if with_ended or one.value.get("state") == "open"]
    held.sort(key=lambda one: (str(one.value.get("created", "")), one.item_id), reverse=True)
    found = []
    for one in held:
        order = dispatch_of(one.value)
        states = _states(journal, one, order)
        found.append(_heading(one, order, _sums(journal, one, states), is_carried=_is_carried(journal, order)))
    return found


def questions_of(journal: Journal, dispatch: str = "") -> list[OpenQuestion]:
    """Return the questions that wait for an answer now, the oldest first; of one dispatch, or of all."""
    return [_question(one) for one in open_questions(journal, dispatch)]


# -- inside ------------------------------------------------------------------------------------------------------------


def _states(journal: Journal, dispatch: Entity, order: Dispatch) -> list[str]:
    """Return the states of the assignments, and ``""`` for each step that has none."""
    by_step = {str(one.value.get("step", "")): one for one in assignments_of(journal, dispatch.item_id)}
    steps = [step.item_id for step in steps_of(journal, order.plan)] if order.plan else []
    return [
        *(str(one.value.get("state", "")) for one in by_step.values()),
        *("todo" for one in steps if one not in by_step),
    ]


def _is_carried(journal: Journal, order: Dispatch) -> bool | None:
    mark = mark_of(order.process)
    if order.state != "open" or mark is None:
        return False
    return False if is_gone(mark, journal.files) else (True if mark.started else None)


def _heading(dispatch: Entity, order: Dispatch, sums: Sums, *, is_carried: bool | None) -> Heading:
    return Heading(
        dispatch.item_id, order.state, order.text, order.plan, order.agents, order.reviewers, order.lanes, order.target, order.branch,
        order.base, order.oracle, order.created, order.ended, order.reason, is_carried, sums,
    )  # fmt: skip


def _sums(journal: Journal, dispatch: Entity, states: Sequence[str]) -> Sums:
    counts: dict[str, int] = {}
    for state in states:
        counts[state] = counts.get(state, 0) + 1
    held = [assignment_of(one.value) for one in assignments_of(journal, dispatch.item_id)]
    return Sums(
        counts, sum(one.tokens_in for one in held), sum(one.cached for one in held), sum(one.out for one in held),
        sum(one.cost for one in held), sum(one.wall_ms for one in held),
    )  # fmt: skip


def _row(journal: Journal, step: Entity | None, held: Entity, now_ms: int, *, is_carried: bool | None) -> Row:
    one = assignment_of(held.value)
    place = numbered(step.value, "place") if step is not None else 0
    text = str((step or held).value.get("text", ""))
    is_left = is_at_work(held) and is_carried is False and not _has_claim(journal, one, now_ms)
    last = one.runs[-1] if one.runs else None
    is_going = last is not None and not last.ended and is_at_work(held) and not is_left
    begun_ms = parse_ms(last.started) if last is not None and is_going and last.started else None
    by_agent = [run for run in one.runs if run.purpose in ("work", "review")]
    return Row(
        place, one.step, text, LEFT if is_left else one.state, held.item_id, one.agent, one.kind,
        _act(one, last if is_going else None, is_left=is_left), one.updated or held.ts, (), one.attempt, sum(back.why not in _NO_ROUND for back in one.returns),
        total_tokens(one), one.cost, one.wall_ms + (max(0, now_ms - begun_ms) if begun_ms is not None else 0),
        by_agent[-1].id if by_agent else one.run, by_agent[-1].trail if by_agent else "", one.merged,
        begun_ms is not None,
    )  # fmt: skip


def _has_claim(journal: Journal, one: Assignment, now_ms: int) -> bool:
    claim = journal.as_read("claim", one.claim) if one.claim else None
    return claim is not None and is_live(journal, claim, now_ms)


def _act(one: Assignment, running: Attempt | None, *, is_left: bool) -> str:
    """Return in words what happened last."""
    returned = one.returns[-1] if one.returns else None
    if is_left:
        said = "its supervisor ended; the work is in its worktree"
    elif one.state in ("failed", "cancelled", "timed_out"):
        said = one.reason
    elif running is not None:
        said = _PURPOSES[running.purpose]
        if returned is not None and running.purpose == "work":
            said += f", after {returned.why}: {returned.text}"
    elif one.state == "integrated":
        said = f"merged as {one.merged[:12]}" if one.merged else "merged"
    elif one.state in ("submitted", "verified", "reviewed"):
        said = one.summary or one.verdict
    else:
        said = one.reason
    return " ".join(said.split())[:_ACT_MAX]


def _row_without(journal: Journal, step: Entity, now_ms: int, live: Sequence[Entity]) -> Row:
    state = str(step.value.get("state", ""))
    waits: tuple[str, ...] = ()
    if state in ("todo", "doing"):
        waits = tuple(waits_for(journal, step))
        state = _READY if is_ready(journal, step, now_ms, live) else _WAITS if waits or state == "todo" else _TAKEN
    return Row(
        numbered(step.value, "place"), step.item_id, str(step.value.get("text", "")), state, waits_for=waits,
        act=" ".join(str(step.value.get("reason", "")).split())[:_ACT_MAX], acted=step.ts,
    )  # fmt: skip


def _question(held: Entity) -> OpenQuestion:
    one = question_of(held.value)
    return OpenQuestion(held.item_id, one.assignment, one.asker, one.text, one.options, one.created, one.expires)
