"""Orders of a loop's phase: who works in it, what each agent is told and given, and the dispatch that does it."""

from __future__ import annotations

__all__ = [
    "AUTHOR",
    "agents_apart",
    "by_of",
    "dispatch_order",
    "kind_of",
    "plan_text",
    "present_phase",
    "slots",
    "step_texts",
    "waiting_slots",
]

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

import msgspec

from periplus.dispatch.loops.table import AGENTS_MAX, LoopKind, Phase, phase_of
from periplus.dispatch.supervision import Order
from periplus.memory.coordination.plans import NewStep

if TYPE_CHECKING:
    from periplus.memory.entities.schemas import Loop

AUTHOR: Final = "author"
_CHECKED: Final = ("answer", "fix")  # phases whose work has to pass the check; others may commit a test that fails
_TITLE_MAX: Final = 200


def kind_of(loop: Loop) -> LoopKind:
    """Return the kind of a loop. Raises UsageError for one that there is not."""
    phase_of(cast("LoopKind", loop.kind), loop.phase)
    return cast("LoopKind", loop.kind)


def present_phase(loop: Loop) -> Phase:
    return phase_of(kind_of(loop), loop.phase)


def agents_apart(loop: Loop) -> int:
    """Return the number of agents that work apart where a phase has several: those that were named, else that of the table."""
    return min(len(loop.agents), AGENTS_MAX) if len(loop.agents) > 1 else 0


def slots(loop: Loop) -> int:
    phase = present_phase(loop)
    return agents_apart(loop) or phase.agents if phase.agents > 1 else 1


def by_of(loop: Loop, slot: int) -> str:
    """Return the name under which an agent of the loop is known: it keeps it through all phases, whichever program it is."""
    if loop.kind != "review":
        return f"agent {slot}"
    return AUTHOR if loop.phase == "answer" else f"reviewer {slot}"


def waiting_slots(loop: Loop) -> list[int]:
    """Return the slots of the present phase that have handed in nothing yet; of a phase with one agent that one."""
    count = slots(loop)
    if count == 1:
        return [1]
    kept = {one.by for one in loop.artifacts if one.phase == loop.phase and not one.refused}
    return [slot for slot in range(1, count + 1) if by_of(loop, slot) not in kept]


def plan_text(loop: Loop) -> str:
    return f"Loop {loop.kind}, {loop.phase}: {' '.join(loop.text.split())[:_TITLE_MAX]}"


def step_texts(loop: Loop) -> list[NewStep]:
    """Return the steps of the present try, one for each agent apart."""
    phase, count = present_phase(loop), slots(loop)
    return [
        NewStep(f"{loop.text}\n\nPhase {phase.name}, agent {slot} of {count}: {phase.order}")
        for slot in waiting_slots(loop)
    ]


def dispatch_order(loop: Loop, loop_id: str, plan: str, materials: Sequence[tuple[str, str]]) -> Order:
    """Return the order for the present try. The author of a review takes no part as its reviewer, where others are named."""
    phase = present_phase(loop)
    agents = loop.agents
    if loop.kind == "review":
        agents = loop.agents[:1] if phase.name == "answer" else loop.agents[1:] or loop.agents
    return Order(
        tuple(dict.fromkeys(agents)), plan, lanes=len(waiting_slots(loop)), oracle=loop.command if phase.name in _CHECKED else (),
        setup=loop.setup, links=loop.links, target=loop.branch, role=phase.role, model=loop.model,
        limits=msgspec.structs.asdict(loop.limits), answer=phase.answer, artifact=phase.schema, read_only=phase.is_read_only, loop=loop_id,
        materials=tuple(materials),
    )  # fmt: skip
