"""What taking back records may not make of claims: two that are held and in each other's way.

A claim is had by asking for it, under the rules of ``memory.claims``; that it was held once is no reason to hold it again where somebody
else holds it now.
"""

from __future__ import annotations

__all__ = ["claims_in_the_way"]

from collections.abc import Mapping

from periplus.base.canonical import JSONValue, canonical
from periplus.journal import Entity, Journal, Writer
from periplus.memory.claims import claimed_error, in_the_way, is_live, live_claims, scopes_of

_AS_BEFORE = ("scopes", "mode", "holder_id", "session")


def claims_in_the_way(
    journal: Journal, would: Mapping[tuple[str, str], Mapping[str, JSONValue] | None]
) -> dict[tuple[str, str], str]:
    """Of what entities would become (by type and id) the claims that would be held beside others', and who has those."""
    wanted = {key[1]: content for key, content in would.items() if key[0] == "claim"}
    if not wanted:
        return {}
    now_ms = journal.clock.now_ms()
    live = {claim.item_id: claim for claim in live_claims(journal, now_ms)}
    standing = [claim for item_id, claim in live.items() if item_id not in wanted]
    found: dict[tuple[str, str], str] = {}
    for item_id, content in sorted(wanted.items()):
        if content is None:
            continue
        claim = Entity("claim", item_id, "", (), (), 0, False, canonical(dict(content)), "", "", "", "", 0)
        if not is_live(claim, now_ms):
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
