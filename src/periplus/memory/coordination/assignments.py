"""Assignments: the steps that agents do for a dispatch, one agent a step.

An assignment goes ``offered → running ↔ waiting → submitted → verified → (reviewed) → integrated``; it fails, is cancelled or
runs out of time, and may then be offered again. Each change is one mutation with all its consequences (see
``memory.entities.types``): an assignment that ends lets its claim go, one that is integrated brings its step to ``done``.

Offering is decided under the journal's lock, on its newest records: the step must be ready, nothing that others claim may
overlap with it, and no other assignment may be at work on it. So of two supervisors that offer the same step at once one is
refused. The step goes to ``doing`` and the claim is written in the same batch.
"""

from __future__ import annotations

__all__ = [
    "OPEN_STATES",
    "Offer",
    "assignments_of",
    "change_assignment",
    "find_assignment",
    "is_at_work",
    "offer_again",
    "offer_step",
    "question_beside",
]

from collections.abc import Mapping, Sequence
from typing import Final

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import ConflictError, NotFoundError, RefusedError
from periplus.base.ids import derived_id, new_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal import ABSENT, Entity, Journal, Transaction, Writer
from periplus.memory.claim_status import is_live
from periplus.memory.coordination.claims import TTL_S, Asked, claimed_error, expire, in_the_way, put_claim
from periplus.memory.coordination.dispatches import NewQuestion, question_value
from periplus.memory.coordination.plans import begin_step, is_ready, scopes_of_step
from periplus.memory.entities.types import MEMORY_TYPES
from periplus.memory.fulltext.links import linked
from periplus.memory.writing.lifecycle import bring

OPEN_STATES: Final = frozenset(MEMORY_TYPES["assignment"].transitions) - MEMORY_TYPES["assignment"].ended_states
_ORDER: Final = "created"


class Offer(NamedTuple):
    """An offer of a step to an agent. ``holder`` is the writer under whose name the agent works: it holds the claim."""

    dispatch: Entity
    step: str
    agent: str
    holder: Writer
    kind: str = "implementer"
    branch: str = ""
    base: str = ""
    worktree: str = ""
    ttl_s: int = TTL_S


def assignment_id(dispatch: str, step: str) -> str:
    """Return the id of the assignment of a step: a dispatch has one for each."""
    return derived_id("asg", dispatch, step)


def offer_step(journal: Journal, writer: Writer, offer: Offer) -> Entity:
    """Offer a ready step: the assignment, its claim and the step's state in one batch. Idempotent.

    Raises RefusedError where the step is not ready or somebody is at work on it, ClaimedError where its paths are claimed.
    """
    item_id = assignment_id(offer.dispatch.item_id, offer.step)
    journal.refresh()

    def write(transaction: Transaction) -> None:
        now_ms = journal.clock.now_ms()
        held = transaction.get("assignment", item_id)
        if held is not None and not held.deleted:
            if held.value.get("state") != "offered":
                raise RefusedError(f"{offer.step} has an assignment already: {item_id}", safe="Nothing was written.",
                                   mend=f"See `periplus dispatch show {item_id}`.")  # fmt: skip
            return
        step, claim_id = _taken(journal, transaction, offer, now_ms)
        now = format_ms(now_ms)
        value: dict[str, JSONValue] = {
            "v": 1, "text": str(step.value.get("text", "")), "author": writer.name, "created": now, "updated": now,
            "provenance": {"kind": "person", "name": writer.name}, "state": "offered", "dispatch": offer.dispatch.item_id,
            "plan": str(step.value.get("plan", "")), "step": offer.step, "agent": offer.agent, "kind": offer.kind, "claim": claim_id,
            "branch": offer.branch, "base": offer.base, "worktree": offer.worktree, "attempt": 1,
        }  # fmt: skip
        transaction.put("assignment", item_id, value, expect=ABSENT, summary=f"{offer.agent} is offered {offer.step}")

    journal.mutate(write, writer)
    return _assignment(journal, item_id)


def offer_again(journal: Journal, writer: Writer, assignment: Entity, offer: Offer) -> Entity:
    """Offer the step of an assignment that ended without result once more, perhaps to another agent, which learns how the
    attempt before it ended. Raises as ``offer_step``.
    """

    def write(transaction: Transaction) -> None:
        now_ms = journal.clock.now_ms()
        held = transaction.get("assignment", assignment.item_id)
        if held is None or held.version != assignment.version:
            raise ConflictError(f"{assignment.item_id} changed meanwhile", safe="Nothing was written.")
        _, claim_id = _taken(journal, transaction, offer, now_ms)
        attempt = held.value.get("attempt", 0)
        returns = held.value.get("returns")
        ended: JSONValue = {"why": "attempt", "text": str(held.value.get("reason", "")), "at": format_ms(now_ms)}
        fields: dict[str, JSONValue] = {
            "returns": [*(returns if isinstance(returns, list) else []), ended], "agent": offer.agent, "claim": claim_id, "base": offer.base, "branch": offer.branch, "worktree": offer.worktree,
            "attempt": (attempt if isinstance(attempt, int) else 0) + 1, "run": "",
        }  # fmt: skip
        bring(journal, transaction, [held], "offered", fields=fields)

    journal.mutate(write, writer)
    return _assignment(journal, assignment.item_id)


def change_assignment(
    journal: Journal, writer: Writer, assignment: Entity, *, state: str = "", reason: str = "",
    fields: Mapping[str, JSONValue] | None = None, question: NewQuestion | None = None,
) -> Entity:  # fmt: skip
    """Set ``fields`` and, with all consequences, the state; a ``question`` to a person is written in the same batch.

    ``assignment`` is as the caller read it: raises ConflictError where it changed since.
    """

    def write(transaction: Transaction) -> None:
        held = transaction.get("assignment", assignment.item_id)
        if held is None or held.deleted or held.version != assignment.version:
            raise ConflictError(f"{assignment.item_id} changed meanwhile", safe="Nothing was written.")
        if state and state != held.value.get("state"):
            bring(journal, transaction, [held], state, reason, fields)
        elif fields:
            value = {**held.value, **fields, "updated": format_ms(journal.clock.now_ms())}
            transaction.put(
                "assignment", held.item_id, value, action="update", expect=held.version, summary="assignment updated"
            )
        if question is not None:
            question_beside(journal, transaction, writer, question)

    journal.mutate(write, writer)
    return _assignment(journal, assignment.item_id)


def question_beside(journal: Journal, transaction: Transaction, writer: Writer, question: NewQuestion) -> str:
    """Within a mutation: write a question, and return its id."""
    item_id = new_id("qst")
    transaction.put(
        "question", item_id, question_value(journal, writer, question), expect=ABSENT, summary=f"{question.asker} asks"
    )
    return item_id


def assignments_of(journal: Journal, dispatch: str) -> list[Entity]:
    """Return the assignments of a dispatch in the order in which they were made."""
    journal.refresh()
    found = linked(journal, "assignment", "dispatch", dispatch)
    return sorted(found, key=lambda one: (str(one.value.get(_ORDER, "")), one.item_id))


def is_at_work(assignment: Entity) -> bool:
    """Return True where an assignment has neither been integrated nor ended otherwise."""
    return assignment.value.get("state") in OPEN_STATES


def find_assignment(journal: Journal, reference: str) -> Entity:
    """Return the assignment whose id, or whose step's id, begins with ``reference``; of a step the newest. Raises
    NotFoundError.
    """
    journal.refresh()
    found = journal.find(reference)
    if found.item_type == "step":
        of_step = linked(journal, "assignment", "step", found.item_id)
        if of_step:
            return max(of_step, key=lambda one: (is_at_work(one), str(one.value.get(_ORDER, ""))))
        raise NotFoundError(f"no dispatch has done {found.item_id}", mend="See `periplus dispatch list`.")
    if found.item_type != "assignment":
        raise NotFoundError(
            f"{found.item_id} is a {found.item_type}, not an assignment", mend="See `periplus dispatch show`."
        )
    return found


# -- inside -------------------------------------------------------------------------------------------------------------


def _taken(journal: Journal, transaction: Transaction, offer: Offer, now_ms: int) -> tuple[Entity, str]:
    """Within a mutation: take the step for ``offer.holder`` and claim what it is about."""
    dispatch = transaction.get("dispatch", offer.dispatch.item_id)
    if dispatch is None or dispatch.value.get("state") != "open":
        raise RefusedError(f"the dispatch {offer.dispatch.item_id} is not open", safe="Nothing was written.")
    others = [one for one in linked(journal, "assignment", "step", offer.step) if is_at_work(one)]
    if others:
        raise RefusedError(f"{offer.step} is being done: {others[0].item_id}", safe="Nothing was written.")
    held: Sequence[Entity] = linked(journal, "claim", "state", "held")
    live = [claim for claim in held if is_live(journal, claim, now_ms)]
    expire(journal, transaction, now_ms, held)
    step = transaction.get("step", offer.step)
    if step is None or step.deleted or not is_ready(journal, step, now_ms, live):
        raise RefusedError(
            f"the step {offer.step} is not ready", safe="Nothing was written.", mend="See `periplus plan ready`."
        )
    scopes = scopes_of_step(step)
    blocked = in_the_way(journal, offer.holder, scopes, "exclusive", now_ms, claims=live)
    if blocked:
        raise claimed_error(blocked, now_ms)
    begin_step(journal, transaction, offer.holder, step, now_ms)
    claim_id = new_id("clm")
    asked = Asked(
        tuple(scope.text for scope in scopes),
        text=str(step.value.get("text", ""))[:500],
        ttl_s=offer.ttl_s,
        step=offer.step,
    )
    put_claim(journal, transaction, offer.holder, claim_id, asked, scopes, now_ms)
    return step, claim_id


def _assignment(journal: Journal, item_id: str) -> Entity:
    found = journal.get("assignment", item_id)
    if found is None:
        raise NotFoundError(f"there is no assignment {item_id}")
    return found
