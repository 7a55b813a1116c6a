"""Guard claims when records are undone: two held claims must not conflict.

A claim is taken by asking for it, under the rules of ``memory.coordination.claims``; a former claim is not held again
where somebody else holds the paths now.
"""

from __future__ import annotations

__all__ = ["claims_in_the_way"]

from collections.abc import Mapping

from periplus.base.encoding.canonical import JSONValue, canonical
from periplus.journal import Entity, Journal, Writer
from periplus.memory.claim_status import is_held, is_let_go_in, is_live, scopes_of
from periplus.memory.coordination.claims import claimed_error, in_the_way
from periplus.memory.entities.types import state_of
from periplus.memory.fulltext.links import linked

_AS_BEFORE = ("scopes", "mode", "holder_id", "session")


def claims_in_the_way(
    journal: Journal, would: Mapping[tuple[str, str], Mapping[str, JSONValue] | None]
) -> dict[tuple[str, str], str]:
    """Return the claims, by type and id, that would be held beside conflicting claims of others, and their holders.
    ``would`` has the entities as they would become.
    """
    wanted = {key[1]: content for key, content in would.items() if key[0] == "claim"}
    if not wanted:
        return {}
    now_ms = journal.clock.now_ms()
    held = linked(journal, "claim", "state", "held")
    live = {claim.item_id: claim for claim in held if is_live(journal, claim, now_ms)}
    standing = [claim for claim in held if claim.item_id not in wanted and _would_hold(journal, claim, now_ms, would)]
    found: dict[tuple[str, str], str] = {}
    for item_id, content in sorted(wanted.items()):
        if content is None:
            continue
        claim = Entity("claim", item_id, "", (), (), 0, False, canonical(dict(content)), "", "", "", "", 0)
        if not _would_hold(journal, claim, now_ms, would):
            continue
        before = live.get(item_id)
        if before is None or any(before.value.get(name) != content.get(name) for name in _AS_BEFORE):
            holder = Writer(str(content.get("holder")), str(content.get("holder_id")), str(content.get("session", "")))
            mode = str(content.get("mode", "exclusive"))
            blocked = in_the_way(journal, holder, scopes_of(claim), mode, now_ms, claims=standing)
            if blocked:
                found["claim", item_id] = claimed_error(blocked, now_ms).wrong
                continue
        standing.append(claim)
    return found


def _would_hold(
    journal: Journal, claim: Entity, now_ms: int, would: Mapping[tuple[str, str], Mapping[str, JSONValue] | None]
) -> bool:
    """Return True where a claim would hold once its step is what it would become."""
    key = "step", str(claim.value.get("step", ""))
    if key not in would:
        return is_live(journal, claim, now_ms)
    step = would[key]
    return step is not None and is_held(claim, now_ms) and not is_let_go_in(state_of("step", step))
