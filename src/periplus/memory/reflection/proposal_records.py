"""Record proposals of reflection as candidates: which of them are new, and what is written of each.

A candidate's id comes from its subject, so that reflecting twice writes nothing, and a decision stays, whatever later
sessions say. An open candidate takes in a surer proposal about the same subject. A proposal that says nearly the same
as a memory, or as a candidate that is open or was rejected, is skipped.
"""

from __future__ import annotations

__all__ = ["Near", "ProposedCandidate", "RecordedProposals", "record_proposals"]

from collections.abc import Iterable
from typing import Final

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import PeriplusError
from periplus.base.ids import derived_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal import Entity, Journal, Transaction, Writer
from periplus.memory.entities.types import CANDIDATE, MEMORY_TYPES, state_of
from periplus.memory.reflection.candidates import Skipped
from periplus.memory.reflection.proposal import Proposal
from periplus.memory.retrieval.duplicates import near_memories, says_nearly_the_same

_COMPARED: Final = ("constraint", "decision", "lesson", "trap")
_BATCH: Final = 200


class ProposedCandidate(NamedTuple):
    """A candidate that was written; ``is_new`` is False where an open one became surer."""

    item_id: str
    proposal: Proposal
    is_new: bool


class Near(NamedTuple):
    """A proposal that was skipped because ``item_id`` says nearly the same."""

    proposal: Proposal
    item_id: str


class RecordedProposals(NamedTuple):
    """``known`` counts proposals about subjects that are open, or were decided on."""

    written: tuple[ProposedCandidate, ...]
    known: int
    near: tuple[Near, ...]
    skipped: tuple[Skipped, ...]


def record_proposals(
    journal: Journal, found: Iterable[Proposal], writer: Writer, *, dry_run: bool = False
) -> RecordedProposals:
    """Record proposals, the surest first, as candidates; idempotent."""
    journal.refresh()
    beside = {one.item_id: str(_payload_of(one).get("text", "")) for one in _undecided(journal)}
    waiting: list[tuple[ProposedCandidate, dict[str, JSONValue]]] = []
    known = 0
    near: list[Near] = []
    skipped: list[Skipped] = []
    for one in found:
        item_id = derived_id("cnd", "reflection", *one.subject)
        held = journal.get(CANDIDATE, item_id)
        if held is not None and not _is_surer(one, held):
            known += 1
            continue
        like = _near(journal, one, item_id, beside) if held is None else ""
        if like:
            near.append(Near(one, like))
            continue
        payload = _payload(journal, one)
        try:
            draft = payload["payload"]
            assert isinstance(draft, dict)
            journal.types[one.item_type].admit(draft)
            journal.types[CANDIDATE].admit(payload)
        except PeriplusError as error:
            skipped.append(Skipped(one.item_type, item_id, str(error)))
            continue
        beside[item_id] = one.text
        waiting.append((ProposedCandidate(item_id, one, held is None), payload))
    written = [made for made, _ in waiting]
    if not dry_run:
        written = [
            made for at in range(0, len(waiting), _BATCH) for made in _write(journal, waiting[at : at + _BATCH], writer)
        ]
    return RecordedProposals(tuple(written), known + len(waiting) - len(written), tuple(near), tuple(skipped))


def _write(
    journal: Journal, part: list[tuple[ProposedCandidate, dict[str, JSONValue]]], writer: Writer
) -> list[ProposedCandidate]:
    written: list[ProposedCandidate] = []

    def write(transaction: Transaction) -> None:
        written.clear()
        for made, payload in part:
            held = transaction.get(CANDIDATE, made.item_id)  # again, now under the lock
            if held is None or _is_surer(made.proposal, held):
                summary = f"candidate: {made.proposal.item_type} by {made.proposal.rule}"
                value = (
                    payload if held is None else {**payload, "created": held.value.get("created", payload["created"])}
                )
                transaction.put(CANDIDATE, made.item_id, value, summary=summary)
                written.append(made._replace(is_new=held is None))

    journal.mutate(write, writer)
    return written


def _undecided(journal: Journal) -> list[Entity]:
    """Return the candidates of reflection that are open or were rejected; accepted ones are memory."""
    return [
        one for one in journal.entities(CANDIDATE)
        if one.value.get("subject") and state_of(CANDIDATE, one.value) in ("pending", "rejected")
    ]  # fmt: skip


def _is_surer(one: Proposal, held: Entity) -> bool:
    confidence = _payload_of(held).get("confidence")
    return state_of(CANDIDATE, held.value) == "pending" and one.confidence > (
        confidence if isinstance(confidence, int) else 0
    )


def _near(journal: Journal, one: Proposal, item_id: str, beside: dict[str, str]) -> str:
    memories = near_memories(journal, one.text, _COMPARED)
    if memories:
        return memories[0]
    return next((held for held, text in beside.items() if held != item_id and says_nearly_the_same(one.text, text)), "")


def _payload_of(candidate: Entity) -> dict[str, JSONValue]:
    payload = candidate.value.get("payload")
    return payload if isinstance(payload, dict) else {}


def _payload(journal: Journal, one: Proposal) -> dict[str, JSONValue]:
    now = format_ms(journal.clock.now_ms())
    evidence: list[JSONValue] = [
        {"kind": "step", "ref": f"{seen.trail}#{seen.step}", **({"quote": seen.quote} if seen.quote else {})}
        for seen in one.seen
    ]
    evidence += [{"kind": "commit", "ref": commit, "quote": place} for commit, place in one.commits]
    draft: dict[str, JSONValue] = {
        "v": 1,
        "text": one.text,
        "evidence": evidence,
        "confidence": one.confidence,
    }
    if MEMORY_TYPES[one.item_type].default_state:
        draft["state"] = MEMORY_TYPES[one.item_type].default_state
    if one.about:
        draft["about"] = [{"kind": "path", "ref": path} for path in one.about]
    if one.remedy:
        draft["remedy"] = one.remedy
    return {
        "v": 1,
        "state": "pending",
        "item_type": one.item_type,
        "payload": draft,
        "why": one.why,
        "subject": list(one.subject),
        "created": now,
        "provenance": {"kind": "reflection", "name": one.rule, "source": one.seen[0].trail if one.seen else ""},
    }
