"""Claims of assignments at work, moved on as long as a supervisor sees them.

A claim ends at its time, and anybody may note that. For a supervised assignment that is never the truth: the machine slept, its
clock was set, or no supervisor was there for a while. So the claim of such an assignment begins anew, unless a person released it
or somebody else has claimed the same meanwhile.
"""

from __future__ import annotations

__all__ = ["keep_claims"]

from typing import TYPE_CHECKING, Final

from periplus.base.clock import format_ms
from periplus.base.ids import new_id
from periplus.memory.claim_status import holds, is_held, live_claims, scopes_of
from periplus.memory.coordination.assignments import is_at_work
from periplus.memory.coordination.claims import Asked, in_the_way, put_claim
from periplus.memory.coordination.plans import begin_step, scopes_of_step

if TYPE_CHECKING:
    from periplus.dispatch.supervision.workplace import Workplace
    from periplus.journal import Entity, Transaction

CLAIM_TTL_S: Final = 3_600
_RENEW_S: Final = CLAIM_TTL_S * 7 // 8  # a claim with less time left is moved on


def keep_claims(at: Workplace) -> dict[str, str]:
    """Move on the claims of assignments at work; return the assignments whose claim is gone, with the reason."""
    now_ms = at.journal.clock.now_ms()
    lost: dict[str, str] = {}
    wanted = []
    for assignment in filter(is_at_work, at.assignments()):
        claim = at.journal.get("claim", str(assignment.value.get("claim", "")))
        if claim is None or claim.value.get("state") not in ("held", "expired"):
            lost[assignment.item_id] = "its claim was released"
        elif claim.value.get("state") == "expired" or _is_short(claim, now_ms):
            wanted.append(assignment)

    def write(transaction: Transaction) -> None:
        for assignment in wanted:
            why = _keep(at, transaction, assignment)
            if why:
                lost[assignment.item_id] = why

    if wanted:
        at.journal.mutate(write, at.writer)
    return lost


def _is_short(claim: Entity, now_ms: int) -> bool:
    return str(claim.value.get("expires", "")) < format_ms(now_ms + 1_000 * _RENEW_S)


def _keep(at: Workplace, transaction: Transaction, assignment: Entity) -> str:
    """Within a mutation: move on the claim of an assignment, or take it again; return why that cannot be."""
    now_ms = at.journal.clock.now_ms()
    held = transaction.get("assignment", assignment.item_id)
    if held is None or not is_at_work(held):
        return ""
    claim = transaction.get("claim", str(held.value.get("claim", "")))
    step = transaction.get("step", str(held.value.get("step", "")))
    if claim is None or claim.value.get("state") not in ("held", "expired") or step is None:
        return "its claim was released"
    holder = at.holder(step.item_id, str(held.value.get("agent", "")))
    if not is_held(claim, now_ms):
        others = in_the_way(at.journal, holder, scopes_of(claim), "exclusive", now_ms)
        taken = [one for one in live_claims(at.journal, now_ms) if one.value.get("step") == step.item_id and not holds(holder, one)]  # fmt: skip
        by = taken[0] if taken else others[0].claim if others else None
        if by is not None:
            return f"its claim ran out while nobody kept it, and {by.value.get('holder')} has claimed that meanwhile"
    if claim.value.get("state") == "held":
        value = {**claim.value, "expires": format_ms(now_ms + 1_000 * CLAIM_TTL_S), "updated": format_ms(now_ms)}
        transaction.put("claim", claim.item_id, value, expect=claim.version, summary="claim renewed")
        return ""
    if step.value.get("state") not in ("todo", "doing"):
        return ""  # the step was ended, which is told as that
    scopes = scopes_of_step(step)
    if step.value.get("state") == "todo":
        begin_step(at.journal, transaction, holder, step, now_ms)
    claim_id = new_id("clm")
    asked = Asked(
        tuple(scope.text for scope in scopes),
        text=str(claim.value.get("text", "")),
        ttl_s=CLAIM_TTL_S,
        step=step.item_id,
    )
    put_claim(at.journal, transaction, holder, claim_id, asked, scopes, now_ms)
    value = {**held.value, "claim": claim_id, "updated": format_ms(now_ms)}
    transaction.put("assignment", held.item_id, value, action="update", expect=held.version, summary="claimed again")
    return ""
