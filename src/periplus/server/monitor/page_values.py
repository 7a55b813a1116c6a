"""JSON values for the page. Texts are unescaped; the page inserts them as text only."""

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
    """A step in the list. ``tools`` are the names of its calls; ``says`` is the beginning of its answer."""

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
    """``version`` grows with every change; ``steps`` are those from number ``first`` on (counted from 0), ``left`` is the number of further ones."""

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
    """``kept`` characters were in the previous request already; -1: the whole message. ``left`` characters are not in ``text``."""

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
    """The result of a call; ``outcome`` is empty while it runs."""

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
    """An event after the step: a message to the model, a failed hook, the end of the turn."""

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
    """A piece of a long text, with ``left`` characters after it."""

    text: str
    left: int
