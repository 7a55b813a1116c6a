"""Choice of the steps that are offered next.

Ready steps come by priority and place (``memory.coordination.plans``). A step whose paths are claimed waits. Of the others those
come first that do not touch what assignments at work touch, or, with a code map, what a change there reaches: such steps rarely
conflict. Where there are no others they are offered all the same, because waiting is not safer than merging.
"""

from __future__ import annotations

__all__ = ["Candidate", "agent_for", "in_order", "may_retry"]

from collections.abc import Iterable, Sequence

from periplus.base.named_tuple import NamedTuple
from periplus.journal import Entity
from periplus.memory.coordination.assignments import is_at_work
from periplus.memory.entities.schemas import Assignment, Limits


class Candidate(NamedTuple):
    """A ready step. ``touches`` are the files that it is about, with those that a change of them reaches."""

    step: Entity
    touches: frozenset[str] = frozenset()


def in_order(candidates: Sequence[Candidate], at_work: Iterable[frozenset[str]]) -> list[Candidate]:
    """Return the candidates in the order in which they are offered; ``at_work`` are the files that running work touches.

    The order among equals is kept. A step that touches what an earlier candidate touches comes after those that touch
    nothing of it, too.
    """
    taken: set[str] = set().union(*at_work)
    apart: list[Candidate] = []
    beside: list[Candidate] = []
    for one in candidates:
        if taken.isdisjoint(one.touches):
            apart.append(one)
            taken |= one.touches
        else:
            beside.append(one)
    return [*apart, *beside]


def may_retry(assignment: Assignment, limits: Limits) -> bool:
    """Return True where an assignment that ended without result is offered again. ``granted`` is the number of attempts that a
    person allowed; one that a person cancelled is offered again only by such a grant.
    """
    allowed = assignment.granted
    if assignment.state in ("failed", "timed_out"):
        allowed = max(allowed, 1 + limits.retries)
    return assignment.state in ("failed", "timed_out", "cancelled") and assignment.attempt < allowed


def agent_for(agents: Sequence[str], assignments: Sequence[Entity], earlier: Sequence[str] = ()) -> str:
    """Return the agent for a step: the one with the least work at present, of equals the first named. ``earlier`` are those
    that did not succeed with this step: they come after others.
    """
    work = dict.fromkeys(agents, 0)
    for one in assignments:
        name = str(one.value.get("agent", ""))
        if name in work and is_at_work(one):
            work[name] += 1
    return min(agents, key=lambda name: (earlier.count(name), work[name], agents.index(name)))
