"""Skill candidates in the store: proposed by sessions, then accepted as a file or rejected by a person.

Accepting writes a ``SKILL.md``: into the project, where it is versioned and reviewed with the code, or into the user's own folder. There is
no other way from a candidate to a skill.
"""

from __future__ import annotations

__all__ = [
    "Proposed",
    "accept_skill",
    "candidate_id",
    "find_skill_candidate",
    "propose",
    "reject_skill",
    "skill_candidates",
    "turns_seen",
]

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from periplus.agent.skills.skill import SKILL_FILE, check_name, skill_text
from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import ConflictError, UsageError
from periplus.base.filesystem.confined_folder import Confined
from periplus.base.ids import derived_id
from periplus.memory.entities.types import SKILL_CANDIDATE, state_of

if TYPE_CHECKING:
    from periplus.agent.skills.command_mining import Draft
    from periplus.journal import Entity, Journal, Transaction, Writer

_SEEN_MAX: Final = 50


class Proposed(NamedTuple):
    """Ids of new candidates, ids that were seen again, and names that a person rejected before and that stay rejected."""

    new: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()


def propose(journal: Journal, writer: Writer, drafts: Sequence[tuple[Draft, str]]) -> Proposed:
    """Record drafts as candidates, each with the author of its words; idempotent. Raises what the journal raises."""
    journal.refresh()
    new: list[tuple[str, dict[str, Any]]] = []
    again: list[tuple[Entity, dict[str, Any]]] = []
    rejected = []
    for draft, wording in drafts:
        item_id = candidate_id(draft)
        held = journal.get(SKILL_CANDIDATE, item_id)
        if held is None:
            new.append((item_id, _payload(draft, wording, format_ms(journal.clock.now_ms()))))
        elif state_of(SKILL_CANDIDATE, held.value) == "rejected":
            rejected.append(draft.name)
        elif set(draft.seen) - set(turns_seen(held)):
            again.append((held, {**held.value, "turns": [*turns_seen(held), *(one for one in draft.seen if one not in turns_seen(held))][-_SEEN_MAX:],
                                 "failed": draft.failed}))  # fmt: skip

    def write(transaction: Transaction) -> None:
        for item_id, payload in new:
            transaction.put(SKILL_CANDIDATE, item_id, payload, summary=f"skill proposed: {payload['name']}")
        for held, payload in again:
            transaction.put(
                SKILL_CANDIDATE,
                held.item_id,
                payload,
                expect=held.version,
                summary=f"skill seen again: {payload['name']}",
            )

    if new or again:
        journal.mutate(write, writer)
    return Proposed(tuple(item_id for item_id, _ in new), tuple(held.item_id for held, _ in again), tuple(rejected))


def candidate_id(draft: Draft) -> str:
    """The id of a candidate: the same commands found by the same rule are the same candidate, whatever its name."""
    return derived_id("skc", draft.rule, *draft.commands)


def skill_candidates(journal: Journal, *, with_decided: bool = False) -> list[Entity]:
    """The pending candidates, or all, oldest first."""
    journal.refresh()
    found = [
        one
        for one in journal.entities(SKILL_CANDIDATE)
        if with_decided or state_of(SKILL_CANDIDATE, one.value) == "pending"
    ]
    return sorted(found, key=lambda one: (str(one.value.get("created")), one.item_id))


def find_skill_candidate(journal: Journal, reference: str) -> Entity:
    """Find a candidate by its id, a prefix of it, or its name. Raises NotFoundError, UsageError if it is not a candidate."""
    named = [one for one in skill_candidates(journal, with_decided=True) if one.value.get("name") == reference]
    waiting = [one for one in named if state_of(SKILL_CANDIDATE, one.value) == "pending"]
    if len(waiting or named) == 1:
        return (waiting or named)[0]
    if named:
        raise UsageError(
            f"{len(named)} candidates are named {reference!r}",
            mend=f"Choose one: {', '.join(one.item_id for one in named)}.",
        )
    found = journal.find(reference)
    if found.item_type != SKILL_CANDIDATE:
        raise UsageError(f"{found.item_id} is a {found.item_type}, not a skill candidate", safe="Nothing was changed.",
                         mend="See `periplus skills list`.")  # fmt: skip
    return found


def accept_skill(
    journal: Journal, writer: Writer, candidate: Entity, confined: Confined, folder: str, *, name: str = ""
) -> str:
    """Write a candidate as a file below ``folder`` of ``confined`` and return its path there. Raises ConflictError if it was decided
    before, or if a skill of that name exists.

    The decision is recorded first and the file written then. If that was interrupted, accepting it again under the same name writes the
    file.
    """
    value = candidate.value
    name = check_name(name or _text(value, "name"), "--name" if name else _text(value, "name"))
    path = f"{folder}/{name}/{SKILL_FILE}"
    metadata = {"origin": f"periplus {candidate.item_id}", "seen": ", ".join(turns_seen(candidate)[-5:])}
    text = skill_text(name, _text(value, "description"), _text(value, "body"), metadata).encode()
    held = confined.stat(path)
    if held is not None and confined.read(path) != text:
        raise ConflictError(
            f"there is a skill {name!r} in {folder} already",
            safe="Nothing was changed.",
            mend="Give another name with --name.",
        )
    is_unfinished = state_of(SKILL_CANDIDATE, value) == "accepted" and value.get("accepted_as") == path and held is None
    if not is_unfinished:
        _check_open(candidate)
        _decide(journal, writer, candidate, {"state": "accepted", "accepted_as": path}, f"skill accepted: {name}")
    confined.write(path, text, mode=0o644)
    return path


def reject_skill(journal: Journal, writer: Writer, candidate: Entity, reason: str = "") -> None:
    """Reject a candidate, so that it is not proposed again. Raises ConflictError if it was decided before."""
    _check_open(candidate)
    more = {"reason": reason.strip()} if reason.strip() else {}
    _decide(
        journal, writer, candidate, {"state": "rejected", **more}, f"skill rejected: {_text(candidate.value, 'name')}"
    )


def _text(value: Mapping[str, JSONValue], name: str) -> str:
    """A field of a candidate, which another clone may have written without checks."""
    return said if isinstance(said := value.get(name), str) else ""


def _decide(journal: Journal, writer: Writer, candidate: Entity, change: dict[str, Any], summary: str) -> None:
    journal.mutate(
        lambda transaction: transaction.put(SKILL_CANDIDATE, candidate.item_id, {**candidate.value, **change}, action="transition",
                                            expect=candidate.version, summary=summary),
        writer,
    )  # fmt: skip


def _check_open(candidate: Entity) -> None:
    state = state_of(SKILL_CANDIDATE, candidate.value)
    if state != "pending":
        raise ConflictError(
            f"{candidate.item_id} was {state} already",
            safe="Nothing was changed.",
            mend="See `periplus skills list --all`.",
        )


def _payload(draft: Draft, wording: str, now: str) -> dict[str, Any]:
    return {
        "v": 1, "state": "pending", "name": draft.name, "description": draft.description, "body": draft.body, "rule": draft.rule,
        "commands": list(draft.commands), "turns": list(draft.seen), "failed": draft.failed, "wording": wording, "created": now,
        "provenance": {"kind": "reflection", "name": draft.rule},
    }  # fmt: skip


def turns_seen(candidate: Entity) -> list[str]:
    """The turns in which it worked, each as ``session#turn``."""
    seen = candidate.value.get("turns")
    return [str(one) for one in seen] if isinstance(seen, Iterable) and not isinstance(seen, str) else []
