"""Tokens and money of a trail, summed over its model calls."""

from __future__ import annotations

__all__ = ["TrailCosts", "trail_costs"]

from typing import TYPE_CHECKING

from periplus.base.named_tuple import NamedTuple
from periplus.project.trail_store.lookup import trail_bytes

if TYPE_CHECKING:
    from periplus.project.store import ProjectStore


class TrailCosts(NamedTuple):
    """Sums over the model calls of a trail: fresh, cached and written tokens, and cost in millionths of a dollar."""

    tokens_in: int = 0
    cached: int = 0
    out: int = 0
    cost: int = 0


def trail_costs(project: ProjectStore, trail_id: str) -> TrailCosts:
    """Return the sums of a trail, which is read once; a call without a known cost adds none. Calls of other agents that
    it started are in trails of their own. Raises NotFoundError, DamageError.
    """
    from periplus.trail.format.reader import TrailReader
    from periplus.trail.opcodes import BY_NAME

    code = BY_NAME["MODEL_CALL"].code
    fresh = cached = out = cost = 0
    for step in TrailReader(trail_bytes(project, trail_id, remains=False).data).steps():
        if step.code == code:
            counts = [operand if isinstance(operand, int) else 0 for operand in step.operands[1:5]]
            fresh, cached, out, cost = fresh + counts[0], cached + counts[1], out + counts[2], cost + counts[3]
    return TrailCosts(fresh, cached, out, cost)
