"""Write a memory: one checked entity with its provenance; an exact duplicate is returned instead of written again."""

from __future__ import annotations

__all__ = ["Memory", "Remembered", "remember"]

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue, canonical
from periplus.base.errors import ConflictError, EnvironmentFailure, LockTimeoutError, UsageError, refuse_text
from periplus.base.ids import new_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal import ABSENT, Entity, Journal, Receipt, Transaction, Writer
from periplus.memory.code_anchors.anchor_creation import Anchored, anchored
from periplus.memory.entities.schemas import Common
from periplus.memory.entities.types import MemoryType, check_tags, initial_states, remembered_row
from periplus.memory.entities.validity import expiry_notes
from periplus.memory.retrieval.duplicates import duplicate_of, near_memories
from periplus.memory.succession.successors import in_place_of
from periplus.memory.writing.lifecycle import supersede, typed_fields
from periplus.memory.writing.write_keys import as_written, check_repeated, texts_of

_BESIDE: Final = frozenset(
    {"v", "text", "author", "created", "updated", "provenance", "confidence", "state", "session"}
)


class Memory(NamedTuple):
    """A memory to write. ``about`` are paths of the project (with ``:10-20`` or ``:symbol`` behind) or ids;
    ``evidence`` pairs of kind and reference.
    """

    item_type: str
    text: str
    tags: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    evidence: tuple[tuple[str, str], ...] = ()
    confidence: int = 100
    extra: Mapping[str, JSONValue] | None = None  # the fields of the type: rationale, severity, remedy, …
    provenance: tuple[str, str] = ("person", "")
    supersedes: tuple[str, ...] = ()


class Remembered(NamedTuple):
    """``is_new`` is False for an exact duplicate. ``notes`` say where an anchor is weaker than what was asked for,
    and which given fields an existing duplicate lacks.
    """

    entity: Entity
    receipt: Receipt | None
    is_new: bool
    notes: tuple[str, ...] = ()
    find_near: Callable[[], tuple[str, ...]] = tuple

    @property
    def near(self) -> tuple[str, ...]:
        """Ids of memories with almost the same text: searched when it is read, while the journal is open."""
        return self.find_near()


def remember(journal: Journal, memory: Memory, writer: Writer, *, root: str, key: str = "") -> Remembered:
    """Write ``memory``. Raises SecretFoundError, UsageError for what no entity may hold."""
    refuse_text(tags=memory.tags, about=memory.about, evidence=memory.evidence, supersedes=memory.supersedes)
    row = remembered_row(journal.types, memory.item_type)
    check_tags(memory.tags)
    memory = memory._replace(extra=typed_fields(row, memory.extra or {}))
    journal.refresh()
    anchors = [anchored(ref, root, with_digest=bool(row.stale_when)) for ref in memory.about]
    payload = _payload(journal, row, memory, writer, anchors)
    journal.types[row.name].admit(payload)
    canonical(payload)  # whole characters, no floats: refuse what no record can hold before any lookup
    replaced = {journal.find(old).item_id for old in memory.supersedes}
    beside = tuple(
        f"{old} was replaced already, by {', '.join(ids)}: this is another replacement"
        for old in sorted(replaced)
        if (ids := [one.item_id for one in in_place_of(journal, old) if one.item_id not in replaced])
    )
    item_id = new_id(row.prefix)

    def write(transaction: Transaction) -> None:
        if duplicate_of(journal, memory.item_type, memory.text) is None:  # now under the lock
            summary = f"{row.name}: {memory.text}"
            transaction.put(row.name, item_id, payload, expect=ABSENT, summary=summary, is_admitted=True)
            for old in memory.supersedes:
                supersede(journal, transaction, journal.find(old))

    try:
        receipt = journal.mutate(write, writer, key=key, project=bool(memory.supersedes))
    except (EnvironmentFailure, LockTimeoutError):  # where nothing can be written, a duplicate is still found
        known = None if key else duplicate_of(journal, memory.item_type, memory.text)
        if known is None or (known.lineage == journal.lineage and known.seq > journal.durable_end()):
            raise
        return Remembered(known, None, is_new=False, notes=_not_taken(known, payload))
    if receipt.record_count == 1 and not receipt.repeated:
        journal.index_later(row.name, item_id)
    entity = journal.get(row.name, item_id)
    if entity is not None:
        notes = (*beside, *(one.note for one in anchors if one.note), *_unknown_records(journal, memory))
        if row.may_expire:
            notes += expiry_notes(payload.get("expires"), journal.clock.now_ms())
        near = partial(near_memories, journal, memory.text, (memory.item_type,), {*replaced, item_id})
        return Remembered(entity, receipt, is_new=True, notes=notes, find_near=near)
    check_repeated(journal, receipt, lambda written: texts_of(written[:1], row.name) == [payload["text"]])
    if receipt.repeated:
        entity = as_written(journal, receipt, *journal.written_by(receipt)[0])
    else:
        entity = duplicate_of(journal, memory.item_type, memory.text)
    if entity is None:
        raise ConflictError(
            "the memory that already said that has ended meanwhile",
            safe="Nothing was written.",
            mend="Repeat the command.",
        )
    return Remembered(entity, receipt if receipt.repeated else None, is_new=False, notes=_not_taken(entity, payload))


def _not_taken(held: Entity, payload: dict[str, JSONValue]) -> tuple[str, ...]:
    """Return a note with the fields of ``payload`` that ``held``, which has the same text, lacks."""
    value = held.value
    missing = []
    for name, said in payload.items():
        if name in _BESIDE:
            continue
        now = value.get(name)
        if isinstance(said, list):
            names = {_ref_of(one) for one in now} if isinstance(now, list) else set()
            missing += [f"{name} {ref}" for one in said if (ref := _ref_of(one)) not in names]
        elif said != now:
            missing.append(name)
    if not missing:
        return ()
    return (f"The existing memory lacks {', '.join(missing)}: nothing was added",)


def _ref_of(item: JSONValue) -> str:
    """Return the key of an item of a list: the target of an anchor or relation, or the word itself."""
    return str(item.get("ref") or item.get("target") or item) if isinstance(item, dict) else str(item)


def _unknown_records(journal: Journal, memory: Memory) -> list[str]:
    """Return notes about evidence that names records which do not exist yet."""
    end = journal.end().next_seq
    seqs = [ref for kind, ref in memory.evidence if kind == "record" and ref.isascii() and ref.isdigit()]
    return [f"there is no record {seq} here: it is kept as evidence all the same" for seq in seqs if int(seq) >= end]


def _payload(
    journal: Journal, row: MemoryType, memory: Memory, writer: Writer, anchors: Sequence[Anchored]
) -> dict[str, JSONValue]:
    now = format_ms(journal.clock.now_ms())
    payload: dict[str, JSONValue] = {
        "v": 1,
        "text": memory.text.strip(),
        "author": writer.name,
        "created": now,
        "updated": now,
        "provenance": {"kind": memory.provenance[0], "name": memory.provenance[1] or writer.name},
        "confidence": memory.confidence,
    }
    if row.default_state:
        payload["state"] = row.default_state
    if writer.session:
        payload["session"] = writer.session
    if memory.tags:
        payload["tags"] = list(memory.tags)
    if anchors:
        payload["about"] = [one.about for one in anchors]
    if memory.evidence:
        payload["evidence"] = [{"kind": kind, "ref": ref} for kind, ref in memory.evidence]
    if memory.supersedes:
        payload["relations"] = [
            {"kind": "supersedes", "target": journal.find(old).item_id} for old in memory.supersedes
        ]
    own = row.fields - frozenset(Common.__struct_fields__)
    unknown = set(memory.extra or {}) - own
    if unknown:
        beside = sorted(unknown & {"text", "tags", "about", "evidence", "confidence"})
        wrong = f"a {row.name} has no {', '.join(sorted(unknown))}"
        if beside:
            wrong = f"{', '.join(beside)} of a {row.name} is given separately, not among the fields of its type"
        mend = f"Its own fields are: {', '.join(sorted(own)) or 'none'}."
        raise UsageError(wrong, safe="Nothing was written.", mend=mend)
    payload |= memory.extra or {}
    _refuse_state(row, payload)
    return payload


def _refuse_state(row: MemoryType, payload: Mapping[str, JSONValue]) -> None:
    """Raise UsageError for a state that only a replacement leads to: the entity would be superseded by nothing."""
    state, known = payload.get("state"), initial_states(row)
    if state in row.transitions and state not in known:
        raise UsageError(
            f"a {row.name} cannot be {state} from the start: it becomes so when something replaces it", safe="Nothing was written.",
            mend=f"Write the replacement: periplus remember 'TEXT' --type {row.name} --supersedes ID. "
            f"Or remember this as one of: {', '.join(sorted(known))}.",
        )  # fmt: skip
