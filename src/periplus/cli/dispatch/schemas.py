"""JSON documents of dispatches."""

from __future__ import annotations

__all__ = [
    "DISPATCH_SCHEMAS",
    "AnsweredOut",
    "AssignmentOut",
    "AttemptOut",
    "DispatchListOut",
    "DispatchOut",
    "DispatchShowOut",
    "FindingOut",
    "QuestionOut",
    "RetriedOut",
    "RetryOut",
    "ReturnOut",
    "RowOut",
    "StopOut",
    "SumsOut",
]

from typing import Final

import msgspec


class SumsOut(msgspec.Struct):
    """Sums over a dispatch. ``states`` counts steps by state; ``tokens_in`` includes ``cached``; ``cost`` is in millionths of a dollar."""

    states: dict[str, int]
    tokens_in: int
    cached: int
    out: int
    cost: int
    wall_ms: int


class DispatchOut(msgspec.Struct):
    """``target`` is the branch that the work is for, ``branch`` the one that it is integrated on, ``base`` the target's commit at the start.

    ``carried``: its supervisor runs; null where that cannot be told from this machine.
    """

    id: str
    state: str
    text: str
    plan: str
    agents: list[str]
    reviewers: list[str]
    lanes: int
    target: str
    branch: str
    base: str
    oracle: list[str]
    created: str
    ended: str
    reason: str
    carried: bool | None
    sums: SumsOut


class RowOut(msgspec.Struct):
    """A step of the plan and its assignment, empty where it has none.

    ``state`` is that of the assignment, or `left` where its supervisor ended and its claim is over; without an assignment it is `ready`,
    `waits` (for the steps in ``waits_for``), `taken` by somebody else, or the step's own state. ``act`` is what happened last, at ``acted``.
    ``rounds`` counts returns to the author, ``cost`` is in millionths of a dollar, ``merged`` is the commit of the target branch.
    """

    number: int
    step: str
    text: str
    state: str
    assignment: str
    agent: str
    kind: str
    act: str
    acted: str
    waits_for: list[str]
    attempt: int
    rounds: int
    tokens: int
    cost: int
    wall_ms: int
    run: str
    trail: str
    merged: str


class QuestionOut(msgspec.Struct):
    """An open question. ``asker`` is the agent, or the merge queue; nobody waits for an answer after ``expires``."""

    id: str
    assignment: str
    asker: str
    text: str
    options: list[str]
    asked: str
    expires: str


class DispatchListOut(msgspec.Struct, tag_field="schema", tag="periplus.dispatch.list/1"):
    """The newest first. ``questions`` are those that wait for an answer, of all dispatches."""

    dispatches: list[DispatchOut]
    questions: list[QuestionOut]


class AttemptOut(msgspec.Struct):
    """One run for an assignment. ``ending`` is how it ended, ``session`` the agent's own, ``cost`` in millionths of a dollar."""

    id: str
    agent: str
    purpose: str
    started: str
    ended: str
    ending: str
    session: str
    trail: str
    tokens_in: int
    cached: int
    out: int
    cost: int
    wall_ms: int


class ReturnOut(msgspec.Struct):
    """A return of work to its author; ``why`` is the check that it did not pass."""

    why: str
    text: str
    at: str


class FindingOut(msgspec.Struct):
    """A finding of a review."""

    severity: str
    path: str
    line: int
    text: str


class AssignmentOut(msgspec.Struct):
    """``tip`` is the commit that was submitted, ``verified`` the one that passed the oracle, ``worktree`` the name of its folder."""

    row: RowOut
    reason: str
    summary: str
    branch: str
    worktree: str
    base: str
    tip: str
    verified: str
    verdict: str
    runs: list[AttemptOut]
    returns: list[ReturnOut]
    findings: list[FindingOut]
    remarks: list[str]


class DispatchShowOut(msgspec.Struct, tag_field="schema", tag="periplus.dispatch.show/1"):
    """``assignment`` is present where one was asked for; ``rows`` and ``questions`` are then only its own."""

    dispatch: DispatchOut
    rows: list[RowOut]
    questions: list[QuestionOut]
    assignment: AssignmentOut | None


class StopOut(msgspec.Struct, tag_field="schema", tag="periplus.dispatch.stop/1"):
    """``cancelled`` are the assignments that were cancelled with it; ``carried``: a supervisor runs and ends its agents now."""

    id: str
    state: str
    cancelled: list[str]
    carried: bool | None


class AnsweredOut(msgspec.Struct, tag_field="schema", tag="periplus.dispatch.answer/1"):
    question: str
    assignment: str
    answer: str
    answered_by: str


class RetriedOut(msgspec.Struct):
    """``granted`` are the attempts that persons allowed so far, beside those of the limits."""

    assignment: str
    step: str
    granted: int


class RetryOut(msgspec.Struct, tag_field="schema", tag="periplus.dispatch.retry/1"):
    """``reopened``: the dispatch was stopped, and is open again. ``carried``: a supervisor runs and offers the steps now."""

    id: str
    retried: list[RetriedOut]
    reopened: bool
    carried: bool | None


DISPATCH_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {
    "dispatch list": DispatchListOut,
    "dispatch show": DispatchShowOut,
    "dispatch answer": AnsweredOut,
    "dispatch retry": RetryOut,
    "dispatch stop": StopOut,
}
