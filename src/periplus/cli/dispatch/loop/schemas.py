"""JSON documents of loops."""

from __future__ import annotations

__all__ = [
    "LOOP_SCHEMAS",
    "ArtifactOut",
    "CheckOut",
    "LoopListOut",
    "LoopOut",
    "LoopShowOut",
    "LoopTrialOut",
    "LoopTurnOut",
    "PhaseOut",
]

from typing import Final

import msgspec


class LoopOut(msgspec.Struct):
    """``missing`` is what the gate of ``phase`` lacks; ``tries`` counts tries at phases. The work is on ``branch``, which began at ``head``;
    the change under discussion counts from ``base``. ``dispatch`` does the present try, empty between two.
    """

    id: str
    kind: str
    state: str
    phase: str
    text: str
    agents: list[str]
    branch: str
    base: str
    head: str
    tries: int
    dispatch: str
    command: list[str]
    missing: list[str]
    created: str
    reason: str


class ArtifactOut(msgspec.Struct):
    """``by`` is the name within the loop, ``agent`` the program; one that is ``refused`` opened no gate."""

    phase: str
    by: str
    agent: str
    assignment: str
    text: str
    at: str
    refused: bool


class CheckOut(msgspec.Struct):
    """A command that was run for a gate on the commit ``tip``; ``code`` is null where it was stopped at its limit."""

    phase: str
    argv: list[str]
    tip: str
    code: int | None
    output: str


class LoopListOut(msgspec.Struct, tag_field="schema", tag="periplus.loop.list/1"):
    """The oldest first."""

    loops: list[LoopOut]


class LoopShowOut(msgspec.Struct, tag_field="schema", tag="periplus.loop.show/1"):
    loop: LoopOut
    artifacts: list[ArtifactOut]
    checks: list[CheckOut]


class PhaseOut(msgspec.Struct):
    phase: str
    outcome: str


class LoopTurnOut(msgspec.Struct, tag_field="schema", tag="periplus.loop.next/1"):
    """``phases`` are those that were tried, with how that ended: opened, shut, closed, exhausted or interrupted."""

    loop: LoopOut
    phases: list[PhaseOut]


class LoopTrialOut(msgspec.Struct, tag_field="schema", tag="periplus.loop.next.trial/1"):
    """``orders`` are what agents would be told, one for each agent apart."""

    loop: LoopOut
    orders: list[str]


LOOP_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {
    "loop open": LoopShowOut,
    "loop next": LoopTurnOut,
    "loop next --dry-run": LoopTrialOut,
    "loop list": LoopListOut,
    "loop show": LoopShowOut,
    "loop close": LoopShowOut,
}
