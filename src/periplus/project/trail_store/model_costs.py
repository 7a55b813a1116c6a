"""Tokens and money of a trail, summed over its model calls."""

from __future__ import annotations

__all__ = ["TrailCosts", "trail_costs"]

from typing import TYPE_CHECKING

from periplus.project.trail_store.lookup import trail_bytes
from periplus.trail.listings.model_costs import ModelCosts as TrailCosts
from periplus.trail.listings.model_costs import plus_call

if TYPE_CHECKING:
    from periplus.project.store import ProjectStore


def trail_costs(project: ProjectStore, trail_id: str) -> TrailCosts:
    """Return the sums of a trail, which is read once; a call without a known cost adds none. Calls of other agents that
    it started are in trails of their own. Raises NotFoundError, DamageError.
    """
    from periplus.trail.format.reader import TrailReader

    costs = TrailCosts()
    for step in TrailReader(trail_bytes(project, trail_id, remains=False).data).steps():
        costs = plus_call(costs, step)
    return costs
