"""Dispatched work as others see it: in plans, the inbox, who, status, briefs, undo, sync, and the trails that it costs."""

from __future__ import annotations

import pytest

from periplus.base.errors import NotFoundError
from periplus.project.trail_store.model_costs import TrailCosts, trail_costs

pytestmark = pytest.mark.quick


def recorded(project, *calls):
    """The id of the trail of a run with these model calls: (fresh, cached, written, cost)."""
    with project.record(title="t", checkpoints=False) as run:
        for fresh, cached, out, cost in calls:
            run.step("PROMPT", text="go on")
            run.step("MODEL_CALL", model="m", tokens_in=fresh, cached=cached, out=out, cost=cost)
    (trail,) = [one.item_id for one in project.trails() if one.value["session_id"] == run.id] or [""]
    return trail


# -- trails -------------------------------------------------------------------------------------------------------------


def test_the_costs_of_a_trail_are_the_sums_of_its_model_calls(ada):
    trail = recorded(ada, (10, 100, 3, 700), (20, 0, 4, None), (1, 2, 3, 4))
    assert trail_costs(ada, trail) == TrailCosts(31, 102, 10, 704)
    assert trail_costs(ada, recorded(ada)) == TrailCosts()
    with pytest.raises(NotFoundError):
        trail_costs(ada, "trl_0000000000000000")
