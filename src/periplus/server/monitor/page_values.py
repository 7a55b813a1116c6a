"""What the page is told, as JSON. Texts stand in it as they are; the page shows them as text and never as anything else."""

from __future__ import annotations

__all__ = [
    "CallRow",
    "MessageOut",
    "OutcomeOut",
    "PartOut",
    "SessionOut",
    "StepOut",
    "StepRow",
    "ThenOut",
    "ToolOut",
    "TurnRow",
]

import msgspec

from periplus.agent.observation import CallMetrics, Totals


class StepRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step in the list. ``tools`` are the names of what it called; ``says`` is how its answer begins."""

    metrics: CallMetrics
    tools: tuple[str, ...] = ()
    failed: int = 0
    says: str = ""


class TurnRow(msgspec.Struct, frozen=True, kw_only=True):
    turn: int
    request: str
    reason: str
    totals: Totals
    cost: str
    steps: int


class SessionOut(msgspec.Struct, frozen=True, kw_only=True):
    """``version`` grows with every change; ``steps`` are those from number ``first`` on (counted from 0), ``left`` there are more."""

    version: int
    session: str
    title: str
    model: str
    is_live: bool
    phase: str
    pending: tuple[int, int] | None
    growing: str
    totals: Totals
    cost: str
    survival: int | None
    survival_at_folds: int | None
    folds: int
    turns: list[TurnRow]
    turns_left_out: int
    first: int
    steps: list[StepRow]
    left: int
    problem: str = ""


class CallRow(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    args: str
    left: int


class MessageOut(msgspec.Struct, frozen=True, kw_only=True):
    """``kept`` characters stood in the request before; -1: the whole message. ``left`` characters are not in ``text``."""

    place: int
    role: str
    outcome: str
    answers: str
    text: str
    left: int
    kept: int
    calls: list[CallRow]
    images: list[str]
    reasoning: int


class OutcomeOut(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a call; ``outcome`` is empty while it runs."""

    call: CallRow
    outcome: str
    text: str
    left: int
    handle: str
    duration_ms: int
    decided: str
    effects: list[str]


class ToolOut(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    parameters: str


class ThenOut(msgspec.Struct, frozen=True, kw_only=True):
    """What came behind the step: something said to the model, a hook that failed, the end of the turn."""

    what: str
    text: str


class StepOut(msgspec.Struct, frozen=True, kw_only=True):
    turn: int
    step: int
    metrics: CallMetrics | None
    tools: list[ToolOut] | None
    tools_kept: bool
    as_sent: bool | None
    messages: list[MessageOut]
    answer: str
    answer_left: int
    reasoning: int
    outcomes: list[OutcomeOut]
    then: list[ThenOut]


class PartOut(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a long text: ``left`` characters behind it."""

    text: str
    left: int
