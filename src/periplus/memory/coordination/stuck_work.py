"""Stuck work: plans and steps that nobody can start, because of changes that separate clones made, each allowed where
it was made.

* an open step whose plan has ended: one clone ended the plan, which ends its steps, another one added a step;
* steps and plans that wait for each other in a circle: each clone added a part of it. A step waits for what its plan waits for;
* a step or plan that waits for something that was dropped or deleted.

All of it is derived from the entities, and appears in no list of what can be done. It is settled by ending or opening
one of them, or removing the dependency.
"""

from __future__ import annotations

__all__ = ["Idle", "Stuck", "idle_work", "stuck_work"]

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from periplus.base.named_tuple import NamedTuple
from periplus.journal import Entity, Journal
from periplus.journal.state.version_cycles import circles_of
from periplus.memory.entities.types import MEMORY_TYPES, is_ended
from periplus.memory.fulltext.links import open_entities

Why: TypeAlias = Literal["ended", "circle", "never"]
_STARTS: Final = frozenset({"todo", "doing"})
_SAID: Final = (
    ("doing", "{} being done", "is", "are"),
    ("waiting", "{} for others", "waits", "wait"),
    ("blocked", "{} blocked", "is", "are"),
    ("review", "{} in review", "is", "are"),
    ("plan", "{} to a plan that is blocked or in review", "belongs", "belong"),
)


class Stuck(NamedTuple):
    """Work that cannot go on. ``why`` is ``ended``: the plan ``entity`` has ended, or is not there (then it is the
    first of the steps) and ``members`` are its open steps; ``circle``: ``members`` wait for each other, ``entity``
    is one of them; ``never``: ``entity`` waits for ``members``, which were dropped or deleted. ``command`` settles
    it, ``otherwise`` is another way, empty where there is none.
    """

    entity: Entity
    why: Why
    members: tuple[str, ...]
    command: str
    otherwise: str

    def words(self) -> str:
        """Return what is stuck as text for people, with its ids."""
        named = ", ".join(self.members)
        if self.why == "circle":
            return f"{named} wait for each other" if len(self.members) > 1 else f"{named} waits for itself"
        if self.why == "never":
            return f"{self.entity.item_id} waits for {named}, which {'was' if len(self.members) == 1 else 'were'} dropped or deleted"
        plan = self.entity.value.get("plan") if self.entity.item_type == "step" else self.entity.item_id
        state = "deleted" if self.entity.item_type == "step" else self.entity.value.get("state")
        return f"{named} {'is' if len(self.members) == 1 else 'are'} open, and the plan {plan} is {state}"


class Idle(NamedTuple):
    """The reasons why nothing can be started: the number of open steps of each kind (``doing``, ``waiting``,
    ``blocked``, ``review``, and ``plan`` where their plan is), and stuck work.
    """

    counts: dict[str, int]
    stuck: tuple[Stuck, ...]

    def words(self) -> str:
        """Return the counts as text; empty where there are none."""
        return ", ".join(
            f"{self.counts[name]:,} {text.format(one if self.counts[name] == 1 else many)}"
            for name, text, one, many in _SAID
            if self.counts.get(name)
        )


def stuck_work(journal: Journal) -> list[Stuck]:
    """Return stuck work by kind: plans that ended, circles, dependencies that never end; each by id."""
    steps, plans = open_entities(journal, "step"), open_entities(journal, "plan")
    return [*_stranded(journal, steps), *_circles(steps, plans), *_never(journal, [*plans, *steps])]


def idle_work(journal: Journal, plan_id: str = "") -> Idle:
    """Return why none of the open steps, of ``plan_id`` or of all, can be started, as the journal was last read."""
    steps = [step for step in open_entities(journal, "step") if not plan_id or step.value.get("plan") == plan_id]
    ids = {plan_id, *(step.item_id for step in steps)}
    found = stuck_work(journal)
    stuck = [one for one in found if not plan_id or ids & {one.entity.item_id, *one.members}]
    told = {item_id for one in stuck for item_id in (one.members if one.why != "never" else (one.entity.item_id,))}
    counts: dict[str, int] = {}
    for step in steps:
        if step.item_id not in told:
            kind = _kind(journal, step)
            counts[kind] = counts.get(kind, 0) + 1
    return Idle(counts, tuple(stuck))


def _kind(journal: Journal, step: Entity) -> str:
    state = str(step.value.get("state"))
    if state != "todo":
        return state
    if _unmet(journal, step):
        return "waiting"
    plan = _plan_of(journal, step)
    if plan is None:
        return "doing"  # a claim holds it
    return "waiting" if _unmet(journal, plan) else "doing" if plan.value.get("state") in _STARTS else "plan"


def _stranded(journal: Journal, steps: Sequence[Entity]) -> list[Stuck]:
    by_plan: dict[str, list[Entity]] = {}
    for step in steps:
        if step.value.get("plan"):
            by_plan.setdefault(str(step.value["plan"]), []).append(step)
    found = []
    for plan_id, of_it in sorted(by_plan.items()):
        plan = journal.as_read("plan", plan_id)
        if plan is not None and not is_ended("plan", plan.value.get("state")):
            continue
        ids = tuple(step.item_id for step in of_it)
        reopen = ""
        if plan is not None:
            is_done = plan.value.get("state") == "done"  # from there it continues by way of a review
            states = ("review", "doing") if is_done else ("todo",)
            reopen = " && ".join(f"periplus state {plan_id} {state}" for state in states)
        found.append(Stuck(plan or of_it[0], "ended", ids, f"periplus plan drop {' '.join(ids)}", reopen))
    return found


def _circles(steps: Sequence[Entity], plans: Sequence[Entity]) -> list[Stuck]:
    work = {one.item_id: one for one in (*plans, *steps)}
    names = {item_id: ({*_depends(one), str(one.value.get("plan", ""))} & work.keys()) for item_id, one in work.items()}
    members: dict[int, list[str]] = {}
    for item_id, number in circles_of(names).items():
        members.setdefault(number, []).append(item_id)
    found = []
    for ids in members.values():
        inside = sorted(item_id for item_id in ids if len(ids) > 1 or item_id in names[item_id])
        free = [item_id for item_id in inside if set(_depends(work[item_id])) & set(inside)]
        if not free:
            continue
        last = max(free, key=lambda item_id: (str(work[item_id].value.get("updated", "")), item_id))
        found.append(Stuck(work[last], "circle", tuple(inside), _without(work[last], inside), ""))
    return sorted(found, key=lambda one: one.members)


def _never(journal: Journal, work: Sequence[Entity]) -> list[Stuck]:
    found = []
    for one in work:
        lost = [item_id for item_id in _depends(one) if _is_given_up(journal, item_id)]
        if lost:
            there = [item_id for item_id in lost if journal.as_read(_type(item_id), item_id) is not None]
            reopen = f"periplus state {' '.join(there)} todo" if there else ""
            found.append(Stuck(one, "never", tuple(lost), _without(one, lost), reopen))
    return found


def _without(entity: Entity, ids: Sequence[str]) -> str:
    left = ",".join(item_id for item_id in _depends(entity) if item_id not in ids)
    return f"periplus set {entity.item_id} depends_on={left}"


def _is_given_up(journal: Journal, item_id: str) -> bool:
    held = journal.as_read(_type(item_id), item_id)
    return held is None or held.value.get("state") == "dropped"


def _unmet(journal: Journal, work: Entity) -> bool:
    from periplus.memory.coordination.plans import waits_for

    return bool(waits_for(journal, work))


def _plan_of(journal: Journal, step: Entity) -> Entity | None:
    return journal.as_read("plan", str(step.value.get("plan"))) if step.value.get("plan") else None


def _depends(entity: Entity) -> list[str]:
    depends = entity.value.get("depends_on")
    return [str(one) for one in depends] if isinstance(depends, list) else []


def _type(item_id: str) -> str:
    return "plan" if item_id.startswith(f"{MEMORY_TYPES['plan'].prefix}_") else "step"
