"""Plans: work in steps, each taken by one agent once the steps that it depends on are done.

Readiness is computed from the steps, never stored: a step is ready when it is to do, all its dependencies are done,
and its plan is open and waits for nothing itself. Taking the next step is a single mutation, so of many agents that
ask at once each gets another: the step goes to ``doing`` and a claim for it is written, over the paths that the step
is about. Finishing a step releases the claim; where the claim expires first, the step can be taken again.
"""

from __future__ import annotations

__all__ = [
    "STEPS_MAX",
    "Made",
    "NewStep",
    "Taken",
    "add_steps",
    "begin_step",
    "is_ready",
    "make_plan",
    "open_plans",
    "ready_steps",
    "scopes_of_step",
    "steps_of",
    "take_step",
    "waits_for",
]

from collections.abc import Sequence
from typing import Final

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import NotFoundError, RefusedError, UsageError
from periplus.base.ids import new_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal import ABSENT, Entity, Journal, Receipt, Transaction, Writer
from periplus.memory.claim_status import is_live
from periplus.memory.coordination.claims import (
    TTL_S,
    Asked,
    Blocked,
    claimed_error,
    expire,
    in_the_way,
    put_claim,
    renew,
)
from periplus.memory.entities.types import check_tags
from periplus.memory.fulltext.links import linked, open_entities
from periplus.memory.scopes import Scope, escaped, parse_scope, parse_scopes
from periplus.memory.writing.lifecycle import bring
from periplus.memory.writing.write_keys import Written, check_repeated, texts_of

STEPS_MAX: Final = 1_000
_OPEN_PLAN: Final = frozenset({"todo", "doing"})


class NewStep(NamedTuple):
    """A step to write. ``after`` are numbers of steps of the same call (from 1) or ids of existing work."""

    text: str
    after: tuple[int | str, ...] = ()
    priority: int = 50
    about: tuple[str, ...] = ()  # scopes


class Made(NamedTuple):
    """``receipt`` is None where the key shows that all of it was written before."""

    plan: Entity
    steps: tuple[Entity, ...]
    receipt: Receipt


class Taken(NamedTuple):
    step: Entity
    claim: Entity
    receipt: Receipt


def make_plan(
    journal: Journal, writer: Writer, text: str, steps: Sequence[NewStep] = (), *, rationale: str = "", priority: int = 50,
    after: Sequence[str] = (), tags: Sequence[str] = (), key: str = "",
) -> Made:  # fmt: skip
    """Write a plan with its steps, all or nothing. Raises UsageError for steps that would wait for each other."""
    check_tags(tuple(tags))
    journal.refresh()
    plan_id = new_id("pln")
    depends = [_work(journal, one) for one in after]
    drafts = _drafts(journal, steps)

    def write(transaction: Transaction) -> None:
        value = _common(journal, writer, text, priority)
        more: dict[str, JSONValue] = {"rationale": rationale, "tags": list(tags), "depends_on": list(depends)}
        value |= {name: held for name, held in more.items() if held}
        transaction.put("plan", plan_id, value, expect=ABSENT, summary=f"plan: {text}")
        _put_steps(journal, transaction, writer, plan_id, drafts, 0)

    receipt = journal.mutate(write, writer, key=key)
    said = [step.text.strip() for step in steps]
    check_repeated(
        journal, receipt, lambda one: texts_of(one, "plan") == [text.strip()] and texts_of(one, "step") == said
    )
    if receipt.repeated:
        plan_id = _of_receipt(journal, receipt, "plan")[0]
    plan = _entity(journal, "plan", plan_id)
    return Made(plan, tuple(steps_of(journal, plan_id)), receipt)


def add_steps(journal: Journal, writer: Writer, plan: str, steps: Sequence[NewStep], *, key: str = "") -> Made:
    """Append steps to a plan. Raises NotFoundError, UsageError, RefusedError for a closed plan."""
    journal.refresh()
    plan_id = _plan(journal, plan)
    drafts = _drafts(journal, steps)

    def write(transaction: Transaction) -> None:
        held = transaction.get("plan", plan_id)
        if held is None or held.deleted or held.value.get("state") in ("done", "dropped"):
            state = "gone" if held is None or held.deleted else str(held.value.get("state"))
            again = "review" if state == "done" else "todo"
            raise RefusedError(f"the plan {plan_id} is {state}", safe="Nothing was written.",
                               mend="Make another." if state == "gone" else
                               f"Open it again with `periplus state {plan_id} {again}`, or make another.")  # fmt: skip
        last = max((_number(step, "place", 0) for step in steps_of(journal, plan_id)), default=0)
        _put_steps(journal, transaction, writer, plan_id, drafts, last)

    receipt = journal.mutate(write, writer, key=key)
    said = [step.text.strip() for step in steps]
    check_repeated(
        journal, receipt, lambda written: texts_of(written, "step") == said and written[0].value.get("plan") == plan_id
    )
    made = set(_of_receipt(journal, receipt, "step") if receipt.repeated else [one[0] for one in drafts])
    found = [step for step in steps_of(journal, plan_id) if step.item_id in made]
    return Made(_entity(journal, "plan", plan_id), tuple(found), receipt)


def steps_of(journal: Journal, plan_id: str) -> list[Entity]:
    """Return the steps of a plan in their order."""
    return sorted(linked(journal, "step", "plan", plan_id), key=lambda step: (_number(step, "place", 0), step.item_id))


def waits_for(journal: Journal, work: Entity) -> list[str]:
    """Return the ids of unfinished work that ``work`` depends on, as the journal was last read."""
    depends = work.value.get("depends_on")
    found = []
    for one in depends if isinstance(depends, list) else []:
        held = journal.as_read("plan" if str(one).startswith("pln_") else "step", str(one))
        if held is None or held.value.get("state") != "done":
            found.append(str(one))
    return found


def ready_steps(journal: Journal, plan: str = "") -> list[Entity]:
    """Return the ready steps, of ``plan`` (the beginning of its id) or of all: the most urgent first, then by place."""
    journal.refresh()
    return _ready(journal, _plan(journal, plan) if plan else "", journal.clock.now_ms())


def take_step(
    journal: Journal, writer: Writer, *, plan: str = "", step: str = "", ttl_s: int = TTL_S, key: str = ""
) -> Taken | None:  # fmt: skip
    """Take the next ready step, or ``step``: the writer does it from now on, and claims what it is about. None where
    nothing is ready.

    Raises ClaimedError where all ready steps lie under others' claims, RefusedError for a step that cannot be
    started.
    """
    journal.refresh()
    plan_id = _plan(journal, plan) if plan else ""
    step_id = _step(journal, step) if step else ""
    claim_id = new_id("clm")
    taken: list[tuple[str, str]] = []

    def write(transaction: Transaction) -> None:
        now_ms = journal.clock.now_ms()
        held = linked(journal, "claim", "state", "held")
        live = [claim for claim in held if is_live(journal, claim, now_ms)]
        renew(journal, transaction, writer, now_ms)
        expire(journal, transaction, now_ms, held)
        blocked: list[Blocked] = []
        for one in _ready(journal, plan_id, now_ms, live):
            if step_id and one.item_id != step_id:
                continue
            scopes = scopes_of_step(one)
            others = in_the_way(journal, writer, scopes, "exclusive", now_ms, claims=live)
            blocked += others
            if not others:
                begin_step(journal, transaction, writer, one, now_ms)
                asked = Asked(tuple(scope.text for scope in scopes), text=str(one.value.get("text", ""))[:500], ttl_s=ttl_s,
                              step=one.item_id)  # fmt: skip
                put_claim(journal, transaction, writer, claim_id, asked, scopes, now_ms)
                taken[:] = [(one.item_id, claim_id)]
                return
        if blocked:
            raise claimed_error(blocked, now_ms)
        if step_id:
            raise _cannot_start(journal, step_id, live)

    receipt = journal.mutate(write, writer, key=key)
    check_repeated(journal, receipt, lambda written: _was_taken(written, plan_id, step_id))
    if receipt.repeated:
        taken = list(
            zip(_of_receipt(journal, receipt, "step")[-1:], _of_receipt(journal, receipt, "claim")[-1:], strict=False)
        )
    if not taken:
        return None
    return Taken(_entity(journal, "step", taken[0][0]), _entity(journal, "claim", taken[0][1]), receipt)


# -- inside -----------------------------------------------------------------------------------------------------------


def _ready(journal: Journal, plan_id: str, now_ms: int, live: Sequence[Entity] | None = None) -> list[Entity]:
    working = _worked_on(journal, now_ms, live)
    plans: dict[str, bool] = {}
    found = []
    for step in linked(journal, "step", "state", "todo", "doing"):
        of_plan = str(step.value.get("plan", ""))
        if (plan_id and of_plan != plan_id) or step.item_id in working:
            continue
        if of_plan not in plans:
            plans[of_plan] = _is_plan_open(journal, of_plan)
        if plans[of_plan] and _may_start(journal, step):
            found.append(step)
    return sorted(found, key=lambda step: (-_number(step, "priority", 50), _number(step, "place", 0), step.item_id))


def is_ready(journal: Journal, step: Entity, now_ms: int, live: Sequence[Entity] | None = None) -> bool:
    """Return True where a step can be started now, as the journal was last read; ``live`` are the claims that hold."""
    is_free = step.item_id not in _worked_on(journal, now_ms, live)
    return is_free and _is_plan_open(journal, str(step.value.get("plan", ""))) and _may_start(journal, step)


def _worked_on(journal: Journal, now_ms: int, live: Sequence[Entity] | None) -> set[str]:
    """Return the ids of the steps under a claim that holds."""
    held = linked(journal, "claim", "state", "held") if live is None else live
    return {str(claim.value.get("step", "")) for claim in held if is_live(journal, claim, now_ms)}


def _is_plan_open(journal: Journal, plan_id: str) -> bool:
    plan = journal.as_read("plan", plan_id) if plan_id else None
    is_open = plan is not None and plan.value.get("state") in _OPEN_PLAN and not waits_for(journal, plan)
    return is_open or not plan_id


def _may_start(journal: Journal, step: Entity) -> bool:
    """Return True where a step is to do, or was left in progress, and waits for no other."""
    state = step.value.get("state")
    return (state == "todo" or (state == "doing" and _is_left(journal, step))) and not waits_for(journal, step)


def _is_left(journal: Journal, step: Entity) -> bool:
    """Return True where a step in progress was taken under a claim that nobody ended, and whose time is over."""
    return any(claim.value.get("state") == "held" for claim in linked(journal, "claim", "step", step.item_id))


def begin_step(journal: Journal, transaction: Transaction, writer: Writer, step: Entity, now_ms: int) -> None:
    """Within a mutation: bring a step to ``doing``, done by ``writer``, and with it a plan that is to do."""
    now = transaction.get("step", step.item_id)
    assert now is not None
    value = {**now.value, "state": "doing", "assignee": writer.name, "updated": format_ms(now_ms)}
    transaction.put(
        "step", now.item_id, value, action="transition", expect=now.version, summary=f"{writer.name} takes the step"
    )
    plan = transaction.get("plan", str(now.value.get("plan", "")))
    if plan is not None and not plan.deleted and plan.value.get("state") == "todo":
        bring(journal, transaction, [plan], "doing")


def _was_taken(written: Sequence[Written], plan_id: str, step_id: str) -> bool:
    """Return True where earlier records take a step, of this plan, and this step if one is named."""
    of = {one.item_id: one.value for one in written if one.item_type == "step"}
    taken = str(written[-1].value.get("step", "")) if written[-1].item_type == "claim" else ""
    return taken in of and step_id in ("", taken) and plan_id in ("", of[taken].get("plan"))


def _cannot_start(journal: Journal, step_id: str, live: Sequence[Entity]) -> RefusedError:
    step = _entity(journal, "step", step_id)
    state = step.value.get("state")
    by = next((claim for claim in live if claim.value.get("step") == step_id), None)
    why = f"is {state}" if state != "todo" else "is not ready"
    if by is not None:
        why = f"is being done by {by.value.get('holder')} [{by.item_id}]"
    elif waiting := waits_for(journal, step):
        why = f"waits for {', '.join(waiting)}"
    return RefusedError(f"the step {step_id} {why}", safe="Nothing was written.", mend="See `periplus plan ready`.")


def scopes_of_step(step: Entity) -> tuple[Scope, ...]:
    """Return the scopes of a step; items that are not scopes are left out."""
    about = step.value.get("about")
    found: list[Scope] = []
    for item in about if isinstance(about, list) else []:
        if isinstance(item, dict) and item.get("kind") in ("path", "symbol"):
            ref = str(item.get("ref", ""))
            try:
                found.append(parse_scope(ref))
            except UsageError:
                try:
                    found.append(parse_scope(escaped(ref)))
                except UsageError:
                    continue
    return tuple(found)


def _drafts(journal: Journal, steps: Sequence[NewStep]) -> list[tuple[str, NewStep, list[str]]]:
    """Return each new step with its id and its dependencies. Raises UsageError for a circle."""
    if len(steps) > STEPS_MAX:
        raise UsageError(f"{len(steps):,} steps; the limit is {STEPS_MAX:,}", safe="Nothing was written.")
    ids = [new_id("stp") for _ in steps]
    drafts = []
    for number, step in enumerate(steps, 1):
        depends: list[str] = []
        for one in step.after:
            if isinstance(one, int):
                if not 1 <= one <= len(steps) or one == number:
                    raise UsageError(f"step {number} cannot wait for step {one}", safe="Nothing was written.",
                                     mend=f"There are steps 1 to {len(steps)}.")  # fmt: skip
                depends.append(ids[one - 1])
            else:
                depends.append(_work(journal, one))
        parse_scopes(step.about)
        drafts.append((ids[number - 1], step, list(dict.fromkeys(depends))))
    _refuse_circle(ids, {item_id: depends for item_id, _, depends in drafts})
    return drafts


def _refuse_circle(ids: Sequence[str], depends: dict[str, list[str]]) -> None:
    """Raise UsageError where new steps wait for each other, naming them by their numbers."""
    left = {item_id: {one for one in depends[item_id] if one in depends} for item_id in ids}
    while left:
        free = [item_id for item_id, waiting in left.items() if not waiting & left.keys()]
        if not free:
            numbers = ", ".join(str(number) for number, item_id in enumerate(ids, 1) if item_id in left)
            raise UsageError(f"steps {numbers} wait for each other, or for those that do", safe="Nothing was written.",
                             mend="Take one of these dependencies away.")  # fmt: skip
        for item_id in free:
            del left[item_id]


def _put_steps(
    journal: Journal, transaction: Transaction, writer: Writer, plan_id: str,
    drafts: Sequence[tuple[str, NewStep, list[str]]], last: int,
) -> None:  # fmt: skip
    for place, (item_id, step, depends) in enumerate(drafts, last + 1):
        value = _common(journal, writer, step.text, step.priority) | {"plan": plan_id, "place": place}
        if depends:
            value["depends_on"] = list(depends)
        if step.about:
            value["about"] = [_about(scope) for scope in parse_scopes(step.about)]
        transaction.put("step", item_id, value, expect=ABSENT, summary=f"step {place}: {step.text}")


def _about(scope: Scope) -> JSONValue:
    return {"kind": "symbol" if scope.symbol else "path", "ref": scope.text}


def _common(journal: Journal, writer: Writer, text: str, priority: int) -> dict[str, JSONValue]:
    now = format_ms(journal.clock.now_ms())
    value: dict[str, JSONValue] = {
        "v": 1, "text": text.strip(), "author": writer.name, "created": now, "updated": now, "state": "todo",
        "provenance": {"kind": "person", "name": writer.name}, "priority": priority,
    }  # fmt: skip
    if writer.session:
        value["session"] = writer.session
    return value


def _number(entity: Entity, name: str, default: int) -> int:
    value = entity.value.get(name, default)
    return value if isinstance(value, int) else default


def _plan(journal: Journal, reference: str) -> str:
    found = journal.find(reference)
    if found.item_type != "plan":
        raise NotFoundError(f"{found.item_id} is a {found.item_type}, not a plan", mend="See `periplus plan list`.")
    return found.item_id


def _step(journal: Journal, reference: str) -> str:
    found = journal.find(reference)
    if found.item_type != "step":
        raise NotFoundError(f"{found.item_id} is a {found.item_type}, not a step", mend="See `periplus plan ready`.")
    return found.item_id


def _work(journal: Journal, reference: str) -> str:
    found = journal.find(reference)
    if found.item_type not in ("plan", "step"):
        raise UsageError(
            f"{found.item_id} is a {found.item_type}, which no step can wait for", safe="Nothing was written."
        )
    return found.item_id


def _entity(journal: Journal, item_type: str, item_id: str) -> Entity:
    found = journal.get(item_type, item_id)
    if found is None:
        raise NotFoundError(f"there is no {item_type} {item_id}")
    return found


def _of_receipt(journal: Journal, receipt: Receipt, item_type: str) -> list[str]:
    """Return the ids of a type that a mutation wrote, in its order."""
    return [item_id for written, item_id in journal.written_by(receipt) if written == item_type]


def open_plans(journal: Journal) -> list[Entity]:
    """Return the plans that are not done or dropped, the most urgent first."""
    journal.refresh()
    return sorted(open_entities(journal, "plan"), key=lambda plan: (-_number(plan, "priority", 50), plan.item_id))
