"""Candidates: knowledge of another project, or proposals of reflection, that nobody has accepted yet.

A candidate of another project holds the foreign entity unchanged, with its origin. A candidate of reflection
(``memory.reflection.proposal_records``) holds an entity that is not written yet, with the reason. Mail of another
project becomes a candidate where its recipient writes here. Candidates are not searched and appear in no brief or
file, for unjudged text must not reach an agent as our own knowledge. Accepting one writes an entity with an id of its
own, whose provenance says where it came from; references that mean something only in the other store are left out.
"""

from __future__ import annotations

__all__ = [
    "CANDIDATE",
    "Accepted",
    "Recorded",
    "Skipped",
    "accept",
    "find_candidate",
    "inbox",
    "is_of_reflection",
    "record_candidates",
    "refuse",
]

from collections.abc import Iterable
from typing import Final

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import ConflictError, PeriplusError, UsageError
from periplus.base.ids import derived_id, new_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal import ABSENT, Entity, Journal, Transaction, Writer
from periplus.memory.code_anchors.anchor_creation import anchored
from periplus.memory.coordination.mail import taken_over, waits, writes_here
from periplus.memory.entities.types import CANDIDATE, MEMORY_TYPES, state_of
from periplus.memory.fulltext.index_rows import text_digest

_TYPES: Final = frozenset({"constraint", "decision", "lesson", "note", "trap"})
_MESSAGE: Final = "message"
_BATCH: Final = 200
CANDIDATES_MAX: Final = 100_000


class Skipped(NamedTuple):
    """A foreign entity that could not become a candidate, and why."""

    item_type: str
    item_id: str
    reason: str


class Recorded(NamedTuple):
    """Ids of candidates that are new or have a later version; the number of known ones; what was skipped."""

    written: tuple[str, ...]
    known: int
    skipped: tuple[Skipped, ...]


class Accepted(NamedTuple):
    """``entity`` is ours now; ``is_new`` is False where the same memory was known already."""

    entity: Entity
    is_new: bool


def record_candidates(
    journal: Journal, store: str, found: Iterable[Entity], writer: Writer, *, dry_run: bool = False
) -> Recorded:
    """Record the live memory of store ``store``, and its mail to people who write here, as candidates; idempotent.

    A candidate that was decided on is opened again only by a later version. Entities that hold a secret, or are no
    memory by our table, are skipped.
    """
    waiting: list[tuple[str, dict[str, JSONValue]]] = []
    known = 0
    skipped: list[Skipped] = []
    for entity in found:
        if entity.deleted or not (entity.item_type in _TYPES or _is_for_us(journal, entity, writer)):
            continue
        item_id = derived_id("cnd", store, entity.item_type, entity.item_id)
        held = journal.get(CANDIDATE, item_id)
        if held is not None and not _is_later(entity, held.value):
            known += 1
            continue
        payload = _payload(journal, store, entity)
        try:
            journal.types[entity.item_type].admit(entity.value)
            journal.types[CANDIDATE].admit(payload)
        except PeriplusError as error:
            skipped.append(Skipped(entity.item_type, entity.item_id, str(error)))
            continue
        if len(waiting) >= CANDIDATES_MAX:
            raise UsageError(f"over {CANDIDATES_MAX:,} candidates at once", safe="Nothing was written.")
        waiting.append((item_id, payload))
    if not dry_run:
        for start in range(0, len(waiting), _BATCH):
            part = waiting[start : start + _BATCH]

            def write(transaction: Transaction, part: list[tuple[str, dict[str, JSONValue]]] = part) -> None:
                for item_id, payload in part:
                    summary = f"candidate: {payload['item_type']} of {store}"
                    transaction.put(CANDIDATE, item_id, payload, action="import", summary=summary)

            journal.mutate(write, writer)
    return Recorded(tuple(item_id for item_id, _ in waiting), known, tuple(skipped))


def inbox(journal: Journal, *, with_decided: bool = False) -> list[Entity]:
    """Return the open candidates, the oldest first; with ``with_decided`` all of them."""
    journal.refresh()
    found = [one for one in journal.entities(CANDIDATE) if with_decided or state_of(CANDIDATE, one.value) == "pending"]
    return sorted(found, key=lambda one: (str(one.value.get("created")), one.item_id))


def accept(
    journal: Journal, reference: str, writer: Writer, *, text: str = "", item_type: str = "", root: str = ""
) -> Accepted:
    """Write the entity of a candidate, with other words or another type where ``text`` or ``item_type`` are given.
    Paths of the project in ``root`` that reflection named are anchored as they are now.

    Raises NotFoundError, ConflictError for a candidate that was decided on, UsageError and SecretFoundError for what
    no entity may hold.
    """
    candidate = _open_candidate(journal, reference)
    value = candidate.value
    if not isinstance(value.get("payload"), dict):  # another clone may have written it
        raise UsageError(f"{candidate.item_id} has no content that could be accepted", safe="Nothing was written.",
                         mend=f"Reject it: periplus inbox refuse {candidate.item_id}")  # fmt: skip
    kind = item_type or str(value.get("item_type", ""))
    if value.get("item_type") == _MESSAGE:
        if text or kind != _MESSAGE:
            raise UsageError("a message is accepted unchanged", safe="Nothing was written.",
                             mend="Leave out --text and --type; write what it teaches with `periplus remember`.")  # fmt: skip
        return _delivered(journal, candidate, writer)
    if kind not in _TYPES:
        raise UsageError(f"a candidate does not become a {kind}", safe="Nothing was written.",
                         mend=f"It can become a {', '.join(sorted(_TYPES))}.")  # fmt: skip
    is_ours = is_of_reflection(candidate)
    payload = _written(journal, candidate, writer, root) if is_ours else _adopted(journal, value, writer)
    payload = _edited(payload, kind, text)
    journal.types[kind].admit(payload)
    held = _same_text(journal, kind, str(payload.get("text", "")))
    item_id = held.item_id if held is not None else new_id(MEMORY_TYPES[kind].prefix)

    def write(transaction: Transaction) -> None:
        if held is None:
            transaction.put(
                kind, item_id, payload, expect=ABSENT, action="" if is_ours else "import",
                summary=f"{kind}: {payload['text']}",
            )  # fmt: skip
        decided = {**value, "state": "accepted", "accepted_as": item_id}
        transaction.put(CANDIDATE, candidate.item_id, decided, action="transition", expect=candidate.version,
                        summary=f"candidate accepted as {item_id}")  # fmt: skip

    journal.mutate(write, writer)
    entity = journal.get(kind, item_id)
    assert entity is not None
    return Accepted(entity, held is None)


def _is_for_us(journal: Journal, entity: Entity, writer: Writer) -> bool:
    """Return True for unread mail to somebody who writes here; mail between others is not for our inbox."""
    if entity.item_type != _MESSAGE or not waits(entity.value):
        return False
    recipient = str(entity.value.get("recipient", ""))
    return recipient == writer.name or writes_here(journal, recipient)


def _delivered(journal: Journal, candidate: Entity, writer: Writer) -> Accepted:
    """Put the message of another project into its recipient's mail here."""
    foreign = candidate.value["payload"]
    assert isinstance(foreign, dict)
    item_id = new_id(MEMORY_TYPES[_MESSAGE].prefix)
    payload = taken_over(foreign, str(candidate.value.get("source_store", "")), item_id, journal.clock.now_ms())
    journal.types[_MESSAGE].admit(payload)

    def write(transaction: Transaction) -> None:
        transaction.put(_MESSAGE, item_id, payload, expect=ABSENT, action="import",
                        summary=f"message to {payload['recipient']}")  # fmt: skip
        decided = {**candidate.value, "state": "accepted", "accepted_as": item_id}
        transaction.put(CANDIDATE, candidate.item_id, decided, action="transition", expect=candidate.version,
                        summary=f"candidate accepted as {item_id}")  # fmt: skip

    journal.mutate(write, writer)
    entity = journal.get(_MESSAGE, item_id)
    assert entity is not None
    return Accepted(entity, is_new=True)


def refuse(journal: Journal, reference: str, writer: Writer, *, reason: str = "") -> Entity:
    """Reject a candidate. A later version of another project's entity is not rejected with it; what reflection
    proposed, or nearly the same, is not proposed again. Raises as ``accept``.
    """
    candidate = _open_candidate(journal, reference)
    decided: dict[str, JSONValue] = {**candidate.value, "state": "rejected"}
    if reason.strip():
        decided["reason"] = reason.strip()
    journal.mutate(
        lambda transaction: transaction.put(CANDIDATE, candidate.item_id, decided, action="transition",
                                            expect=candidate.version, summary="candidate rejected"),
        writer,
    )  # fmt: skip
    entity = journal.get(CANDIDATE, candidate.item_id)
    assert entity is not None
    return entity


def find_candidate(journal: Journal, reference: str) -> Entity:
    """Return a candidate by its id or the beginning of it. Raises NotFoundError, UsageError for other entities."""
    journal.refresh()
    found = journal.find(reference)
    if found.item_type != CANDIDATE:
        raise UsageError(
            f"{found.item_id} is a {found.item_type}, not a candidate", mend="See `periplus candidates list`."
        )
    return found


def is_of_reflection(candidate: Entity) -> bool:
    provenance = candidate.value.get("provenance")
    return isinstance(provenance, dict) and provenance.get("kind") == "reflection"


def _open_candidate(journal: Journal, reference: str) -> Entity:
    found = find_candidate(journal, reference)
    state = state_of(CANDIDATE, found.value)
    if state != "pending":
        raise ConflictError(f"{found.item_id} was {state} already", safe="Nothing was written.",
                            mend="See `periplus candidates list --all`.")  # fmt: skip
    return found


def _payload(journal: Journal, store: str, entity: Entity) -> dict[str, JSONValue]:
    return {
        "v": 1,
        "state": "pending",
        "source_store": store,
        "source_lineage": entity.lineage,
        "item_type": entity.item_type,
        "item_id": entity.item_id,
        "version": entity.version,
        "rev": entity.rev,
        "payload": entity.value,
        "created": format_ms(journal.clock.now_ms()),
        "provenance": {"kind": "other_project", "name": store, "source": entity.item_id},
    }


def _is_later(entity: Entity, held: dict[str, JSONValue]) -> bool:
    rev = held.get("rev")
    return entity.version != held.get("version") and entity.rev > (rev if isinstance(rev, int) else 0)


def _adopted(journal: Journal, value: dict[str, JSONValue], writer: Writer) -> dict[str, JSONValue]:
    foreign = value["payload"]
    assert isinstance(foreign, dict)
    payload = {name: part for name, part in foreign.items() if name not in ("relations", "session", "evidence")}
    evidence, about = foreign.get("evidence"), foreign.get("about")
    commits = (
        [one for one in evidence if isinstance(one, dict) and one.get("kind") == "commit"]
        if isinstance(evidence, list)
        else []
    )
    if commits:
        payload["evidence"] = list[JSONValue](commits)
    if isinstance(about, list):  # the digest is that of their file, not of ours
        payload["about"] = [
            {name: part for name, part in one.items() if name != "sha256"} for one in about if isinstance(one, dict)
        ]
    payload["updated"] = format_ms(journal.clock.now_ms())
    payload["provenance"] = {
        "kind": "other_project",
        "name": str(value.get("source_store", "")),
        "source": f"{value.get('source_lineage', '')} {value.get('item_id', '')}",
    }
    payload.setdefault("author", writer.name)
    return payload


def _written(journal: Journal, candidate: Entity, writer: Writer, root: str) -> dict[str, JSONValue]:
    """Return the entity that reflection proposed as it is written: with author and time, and with its paths as they
    are now.
    """
    draft = candidate.value["payload"]
    assert isinstance(draft, dict)
    now = format_ms(journal.clock.now_ms())
    payload: dict[str, JSONValue] = {**draft, "author": writer.name, "created": now, "updated": now}
    about = draft.get("about")
    if isinstance(about, list):
        payload["about"] = [anchored(str(one.get("ref", "")), root).about for one in about if isinstance(one, dict)]
    if writer.session:
        payload["session"] = writer.session
    provenance = candidate.value.get("provenance")
    rule = str(provenance.get("name", "")) if isinstance(provenance, dict) else ""
    payload["provenance"] = {"kind": "reflection", "name": rule, "source": candidate.item_id}
    return payload


def _edited(payload: dict[str, JSONValue], kind: str, text: str) -> dict[str, JSONValue]:
    """Return the payload with other words, or as another type with only the fields of that type."""
    row = MEMORY_TYPES[kind]
    fields = set(row.schema.__struct_fields__)
    dropped = {name for other in _TYPES for name in MEMORY_TYPES[other].schema.__struct_fields__} - fields
    payload = {name: part for name, part in payload.items() if name not in dropped}
    if payload.get("state") not in row.transitions:
        payload.pop("state", None)
        if row.default_state:
            payload["state"] = row.default_state
    if text.strip():
        payload["text"] = text.strip()
    return payload


def _same_text(journal: Journal, kind: str, text: str) -> Entity | None:
    digest = text_digest(kind, text)
    for entity in journal.entities(kind):
        if text_digest(kind, str(entity.value.get("text", ""))) == digest:
            return entity
    return None
