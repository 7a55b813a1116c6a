"""Plans and steps as values: progress, and all that is known of one step."""

from __future__ import annotations

__all__ = ["COLUMNS", "AssignmentRow", "EvidenceRow", "PlanRow", "StepCard", "plan_row", "step_cards"]

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.work.claim_tree import ClaimRow, claim_row
from periplus.web.pages.work.entity_fields import number_of, objects_of, one_line, text_of, texts_of

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.project import Project
    from periplus.project.knowledge.dispatched_work import StepWork

# Columns of the board, in their order, with the states in each; a step to do that waits for others stands in `waiting`.
COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("todo", "To do"), ("doing", "Doing"), ("waiting", "Waiting or blocked"), ("review", "Review"), ("ended", "Done or dropped"),
)  # fmt: skip
_EVIDENCE_SHOWN: Final = 20
_SCOPES_SHOWN: Final = 20


class PlanRow(NamedTuple):
    """A plan with its progress: ``counts`` are pairs of a state and the number of steps in it."""

    id: str
    state: str
    text: str
    priority: int
    author: str
    created: str
    updated: str
    done: int
    steps: int
    counts: tuple[tuple[str, int], ...]
    spent: str

    @property
    def open_steps(self) -> int:
        return sum(count for state, count in self.counts if state not in ("done", "dropped"))


class EvidenceRow(NamedTuple):
    kind: str
    ref: str
    quote: str
    address: str


class AssignmentRow(NamedTuple):
    """The assignment of a step that is at work, else the newest."""

    id: str
    dispatch: str
    words: str
    spent: str


class StepCard(NamedTuple):
    """A step. ``column`` is its place on the board; ``waits_for`` are ids of unfinished work, ``after`` all that it depends on."""

    id: str
    number: int
    state: str
    column: str
    text: str
    priority: int
    assignee: str
    reason: str
    after: tuple[str, ...]
    waits_for: tuple[str, ...]
    is_ready: bool
    about: tuple[str, ...]
    claims: tuple[ClaimRow, ...]
    evidence: tuple[EvidenceRow, ...]
    assignment: AssignmentRow | None
    updated: str


def plan_row(plan: Entity, steps: Sequence[Entity], dispatched: Mapping[str, StepWork]) -> PlanRow:
    from periplus.memory.coordination.dispatch_overview import Spent

    counts: dict[str, int] = {}
    for step in steps:
        state = text_of(step.value, "state")
        counts[state] = counts.get(state, 0) + 1
    spent = Spent()
    for work in dispatched.values():
        spent = spent.plus(work.spent)
    value = plan.value
    return PlanRow(
        plan.item_id, text_of(value, "state"), text_of(value, "text"), number_of(value, "priority", 50), text_of(value, "author"),
        text_of(value, "created"), text_of(value, "updated") or plan.ts, counts.get("done", 0), len(steps),
        tuple(sorted(counts.items())), spent.words(),
    )  # fmt: skip


def step_cards(
    project: Project, steps: Sequence[Entity], dispatched: Mapping[str, StepWork], now_ms: int
) -> tuple[StepCard, ...]:
    """Return the steps of a plan with what is known of each, in their order."""
    from periplus.memory.claim_status import live_claims

    live = live_claims(project.journal, now_ms)
    by_step: dict[str, list[ClaimRow]] = {}
    for claim in live:
        step = text_of(claim.value, "step")
        if step:
            by_step.setdefault(step, []).append(claim_row(project, claim, now_ms))
    return tuple(_card(project, step, by_step, dispatched.get(step.item_id), live, now_ms) for step in steps)


def _card(
    project: Project, step: Entity, claims: Mapping[str, Sequence[ClaimRow]], work: StepWork | None, live: Sequence[Entity],
    now_ms: int,
) -> StepCard:  # fmt: skip
    from periplus.memory.coordination.plans import is_ready

    value, state = step.value, text_of(step.value, "state")
    is_open = state not in ("done", "dropped")
    waits = tuple(project.work.waits_for(step)) if is_open else ()
    is_free = state in ("todo", "doing") and is_ready(project.journal, step, now_ms, live)
    return StepCard(
        step.item_id, number_of(value, "place"), state, _column(state, is_waiting=bool(waits)), text_of(value, "text"),
        number_of(value, "priority", 50), text_of(value, "assignee"), text_of(value, "reason"), texts_of(value, "depends_on"), waits,
        is_free, tuple(text_of(one, "ref") for one in objects_of(value, "about")[:_SCOPES_SHOWN]), tuple(claims.get(step.item_id, ())),
        tuple(_evidence(text_of(one, "kind"), text_of(one, "ref"), text_of(one, "quote")) for one in objects_of(value, "evidence")[:_EVIDENCE_SHOWN]),
        _assignment(project, work) if work is not None else None, text_of(value, "updated") or step.ts,
    )  # fmt: skip


def _column(state: str, *, is_waiting: bool) -> str:
    if state in ("done", "dropped"):
        return "ended"
    if state == "blocked" or (state == "todo" and is_waiting):
        return "waiting"
    return state if state in ("doing", "review") else "todo"


def _evidence(kind: str, ref: str, quote: str) -> EvidenceRow:
    import urllib.parse

    address = ""
    if kind == "record" and ref.isascii() and ref.isdigit():
        address = f"/journal/{ref}"
    elif kind == "step":
        trail, _, step = ref.partition("#")
        address = f"/sessions/{urllib.parse.quote(trail, safe='')}" + (f"/step/{step}" if step.isdigit() else "")
    return EvidenceRow(kind, ref, one_line(quote), address)


def _assignment(project: Project, work: StepWork) -> AssignmentRow:
    one = work.assignment
    words = project.work.dispatched.words(one)
    return AssignmentRow(one.item_id, text_of(one.value, "dispatch"), words, work.spent.words())
