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
    "QuestionOut",
    "RetriedOut",
    "RetryOut",
    "ReturnOut",
    "ReviewFindingOut",
    "RowOut",
    "StopOut",
    "SumsOut",
]

from typing import Final

import msgspec

from periplus.dispatch.reports.events import Event


class SumsOut(msgspec.Struct):
    """Sums over a dispatch. ``states`` counts steps by state; ``tokens_in`` came from no cache; ``cost`` is in millionths of a dollar."""

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


class ReviewFindingOut(msgspec.Struct):
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
    findings: list[ReviewFindingOut]
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
    """``granted`` is the number of attempts that are allowed now."""

    assignment: str
    step: str
    granted: int


class RetryOut(msgspec.Struct, tag_field="schema", tag="periplus.dispatch.retry/1"):
    """``reopened``: the dispatch was stopped, and is open again. ``carried``: a supervisor runs and offers the steps now."""

    id: str
    retried: list[RetriedOut]
    reopened: bool
    carried: bool | None


class ReadyOut(msgspec.Struct):
    """A step that can be started now; ``step`` is empty where it would be made of a task."""

    step: str
    text: str


class TrialAgentOut(msgspec.Struct):
    """An agent that was named. ``program`` is its path, or ``wrong`` says why there is none."""

    name: str
    reviews: bool
    program: str
    wrong: str


class TrialOut(msgspec.Struct, tag_field="schema", tag="periplus.dispatch.trial/1"):
    """``waiting`` counts steps that cannot be started yet; ``base`` is the commit of the target branch, empty where there is no such branch."""

    text: str
    ready: list[ReadyOut]
    waiting: int
    agents: list[TrialAgentOut]
    lanes: int
    oracle: list[str]
    setup: list[str]
    target: str
    base: str
    worktrees: str
    remarks: list[str]


class DetachedOut(msgspec.Struct, tag_field="schema", tag="periplus.dispatch.detached/1"):
    """A supervisor in the background: its process, and the file that has its output."""

    id: str
    pid: int
    log: str


class TrialFindingOut(msgspec.Struct):
    """A check of an agent: ``wrong`` is empty where it works, ``mend`` says what to do."""

    what: str
    says: str
    wrong: str
    mend: str


class DispatchAgentOut(msgspec.Struct):
    """An agent that can do steps. ``programs`` are its names on the PATH, ``path`` the one that was found, ``versions`` those it was tried with.

    ``own``: it is from the user's agent.toml. ``resumes``: it can go on with its session. ``findings`` are present with --check.
    """

    name: str
    title: str
    programs: list[str]
    path: str
    versions: str
    own: bool
    resumes: bool
    findings: list[TrialFindingOut]


class AgentsOut(msgspec.Struct, tag_field="schema", tag="periplus.dispatch.agents/1"):
    agents: list[DispatchAgentOut]
    checked: bool


class DroppedOut(msgspec.Struct, tag_field="schema", tag="periplus.dispatch.drop/1"):
    """``tip`` was the last commit of the branch; ``commits`` counts those that no other branch had, ``uncommitted`` are files."""

    assignment: str
    worktree: str
    branch: str
    tip: str
    commits: int
    uncommitted: list[str]


class StandingOut(msgspec.Struct):
    """Work of one agent on steps of one kind. ``at_first`` passed the oracle at the first submission, ``rounds`` are returns to the author.

    ``undone`` were reverted or redone within 14 days. ``cost`` is in millionths of a dollar.
    """

    agent: str
    kind: str
    steps: int
    at_first: int
    verified: int
    rounds: int
    integrated: int
    undone: int
    failed: int
    runs: int
    tokens: int
    cost: int
    wall_ms: int


class StandingsOut(msgspec.Struct, tag_field="schema", tag="periplus.dispatch.standing/1"):
    standings: list[StandingOut]


DISPATCH_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {
    "dispatch start": Event,
    "dispatch start --detach": DetachedOut,
    "dispatch start --dry-run": TrialOut,
    "dispatch watch": Event,
    "dispatch list": DispatchListOut,
    "dispatch show": DispatchShowOut,
    "dispatch answer": AnsweredOut,
    "dispatch retry": RetryOut,
    "dispatch stop": StopOut,
    "dispatch drop": DroppedOut,
    "dispatch agents": AgentsOut,
    "dispatch standing": StandingsOut,
}
