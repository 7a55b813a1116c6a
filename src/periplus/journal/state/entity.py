"""Entities, each with the heads of its version graph: the state that the records stand for. Pure.

The state depends only on the *set* of records held: a version is a head if no record held names it as a parent, in
whatever order the records came. ``merge`` says how an entity with several heads is shown.
"""

from __future__ import annotations

__all__ = [
    "Ancestor",
    "Change",
    "Conflict",
    "ConflictValue",
    "Entity",
    "EntityType",
    "Head",
    "MergeRules",
    "change_of",
    "check_payload",
    "entity_of_head",
    "head_of",
    "is_sound_change",
    "packing_of",
]

import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

import msgspec
from msgspec import UnsetType

from periplus.base.encoding.canonical import DEPTH_MAX, JSONValue, check
from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import DamageError, UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.journal.records.record import (
    Record,
    action_class,
    version_id,
)
from periplus.journal.records.segment import Entry
from periplus.objects.object_forms import Packing

_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")


class MergeRules(NamedTuple):
    """Rules for top-level fields that do not merge in the usual way. A field is in at most one of the first four.

    * ``sets``: arrays that merge by element; other arrays merge as one value.
    * ``latest``: texts that state a last time; the greatest wins, and they are never in conflict.
    * ``groups``: the fields of each group are one value, shown from one head; fields of ``latest`` in a group are the exception
      if the heads agree on the others.
    * ``ranks``: the value that comes first in the field's order wins.
    * ``withheld``: an array, in a group, that lists what was removed. The group is shown from the head that removed most. If
      all heads that changed the group have the array, none removed what that one kept, and they agree on the rest of the group
      except ``incidental`` fields, then they said the same: none of these fields is in conflict.
    * ``incidental``: fields that may differ each time the same thing is made. Outside the group they are shown from that head
      where they would be in conflict otherwise.
    * ``stamp``: the field with the time of the last write; a difference in it alone is no change.
    """

    sets: frozenset[str] = frozenset()
    latest: frozenset[str] = frozenset()
    groups: tuple[frozenset[str], ...] = ()
    ranks: tuple[tuple[str, tuple[str, ...]], ...] = ()
    incidental: frozenset[str] = frozenset()
    withheld: str = ""
    stamp: str = ""


class EntityType(NamedTuple):
    """A type of entity: its id prefix, whether it has files, how a payload is checked, and how it merges.

    ``reads_through``: never served stale; each read looks at the journal's tail first. ``declared`` belongs to the layer above
    and is not read here. ``packing`` is the form in which objects of this type are stored, if it has one of its own.
    ``lengths`` limits lists that a writer makes; a merge may exceed it, and later writes may keep that length.
    """

    name: str
    prefix: str
    is_projected: bool
    check: Callable[[dict[str, JSONValue]], None]
    rules: MergeRules = MergeRules()
    reads_through: bool = False
    declared: object = None
    packing: Packing | None = None
    lengths: Mapping[str, int] = {}

    def admit(
        self, payload: dict[str, JSONValue], before: Callable[[], Entity | None] = lambda: None,
        carried: Collection[str] = (),
    ) -> None:  # fmt: skip
        """Raise what ``check`` raises, and UsageError if a list is over its limit and longer than ``before`` this write.

        Lists in ``carried`` come whole from other entities and may have the length that they had there.
        """
        self.check(payload)
        for name, longest in self.lengths.items():
            count = _count(payload.get(name))
            if count <= longest or name in carried:
                continue
            entity = before()
            if entity is None or count > _count(entity.value.get(name)):
                raise UsageError(
                    f"{count:,} {name}: the limit is {longest:,}", safe="Nothing was written.",
                    mend=f"Give fewer. To replace the existing list: `periplus set ID {name}=…`.",
                )  # fmt: skip


def _count(value: JSONValue) -> int:
    return len(value) if isinstance(value, list | tuple) else 0


def packing_of(types: Mapping[str, EntityType]) -> Packing | None:
    """Return the object form of the types; at most one type has one."""
    return next((kind.packing for kind in types.values() if kind.packing is not None), None)


class Head(NamedTuple):
    """A version that no other version descends from. ``payload`` is canonical JSON, empty for a tombstone and for a stub."""

    item_type: str
    item_id: str
    version: str
    parents: tuple[str, ...]
    rev: int
    deleted: bool
    payload: bytes
    ts: str
    writer: str
    session: str
    lineage: str
    seq: int
    is_stub: bool = False


class ConflictValue(NamedTuple):
    """The value that one head has at a place: canonical JSON, empty if it has none (or is deleted, for the whole entity)."""

    version: str
    writer: str
    ts: str
    value: bytes


class Conflict(NamedTuple):
    """A place in an entity where heads disagree: the keys that lead to it, none for the whole entity.

    The first of ``values`` is the one that is shown.
    """

    path: tuple[str, ...]
    values: tuple[ConflictValue, ...]


class Entity(NamedTuple):
    """An entity as it is shown: the content of its head, or of its heads merged; the parents of a write are all ``heads``.

    Several heads are shown as a version that no record holds: ``version``, ``parents`` and ``rev`` are those that a write of
    this content would have; writer and time are those of the head with the highest rank.
    """

    item_type: str
    item_id: str
    version: str
    parents: tuple[str, ...]
    heads: tuple[str, ...]
    rev: int
    deleted: bool
    payload: bytes
    ts: str
    writer: str
    session: str
    lineage: str
    seq: int
    conflicts: tuple[Conflict, ...] = ()

    @property
    def is_in_conflict(self) -> bool:
        """Return True if heads disagree; several heads that merge without a conflict do not."""
        return bool(self.conflicts)

    @property
    def conflict_names(self) -> tuple[str, ...]:
        """Return the places in conflict for people: keys joined by dots, ``deleted`` for the whole entity."""
        return tuple(".".join(conflict.path) or "deleted" for conflict in self.conflicts)

    @property
    def value(self) -> dict[str, JSONValue]:
        """Return the decoded payload; empty for a tombstone."""
        if not self.payload:
            return {}
        value: dict[str, JSONValue]
        if _LONG_NUMBER.search(self.payload):  # perhaps foreign: orjson checked its numbers
            import orjson

            value = orjson.loads(self.payload)
        else:  # imported in every process already, and equal for all other payloads
            value = msgspec.json.decode(self.payload)
        return value


class Change(NamedTuple):
    """A record of class state or tombstone as a version; heads are computed from these."""

    entry: Entry
    lineage: str
    segment: int
    version: str
    parents: tuple[str, ...]
    payload: bytes

    @property
    def before(self) -> tuple[str, ...]:
        """Return the versions that it descends from: its parents and those in ``after``, never itself."""
        after = self.entry.record.after
        if not after and self.version not in self.parents:
            return self.parents
        return tuple([version for version in (*self.parents, *after) if version != self.version])


def change_of(
    entry: Entry, lineage: str, segment: int, load: Callable[[str], bytes], version: str = ""
) -> Change | None:
    """Return the version that a record makes, or None if it makes none; ``load`` reads a payload from the objects.

    ``version`` is passed if this process has just computed it. Raises DamageError if the payload's object is missing or damaged.
    """
    record = entry.record
    kind = action_class(record.action)
    if kind not in ("state", "tombstone") or not record.item_type or not record.item_id:
        return None
    if not all(map(is_digest_text, record.parents)):
        raise DamageError("a parent that is not a version id", seq=record.seq)
    if record.is_stub:  # its content is gone, its place among the versions is not
        return Change(entry, lineage, segment, record.version, tuple(record.parents), b"") if record.version else None
    payload = b""
    if kind == "state":
        payload = _inline(record) if record.payload_ref is None else load(record.payload_ref.sha256)
        if not version:  # otherwise this process made it
            check_payload(payload, record)
    version = version or version_id(
        record.item_type,
        record.item_id,
        deleted=kind == "tombstone",
        payload=payload or None,
        parents=record.parents,
    )
    return Change(entry, lineage, segment, version, tuple(record.parents), payload)


def is_sound_change(record: Record, load: Callable[[str], bytes]) -> bool:
    """Return True if a record makes a version. Raises DamageError where ``change_of`` would."""
    kind = action_class(record.action)
    if kind not in ("state", "tombstone") or not record.item_type or not record.item_id:
        return False
    if not all(map(is_digest_text, record.parents)):
        raise DamageError("a parent that is not a version id", seq=record.seq)
    if record.is_stub:
        return bool(record.version)
    if kind == "state":
        check_payload(_inline(record) if record.payload_ref is None else load(record.payload_ref.sha256), record)
    return True


def check_payload(payload: bytes, record: Record) -> None:
    """Raise DamageError if a reader cannot decode the payload: a foreign record may come from another program."""
    import orjson

    if not payload.startswith(b"{"):
        raise DamageError("an entity record without a payload", seq=record.seq)
    if record.payload_ref is not None and record.payload_ref.bytes != len(payload):
        raise DamageError("the payload's object does not have the size that the record states", seq=record.seq)
    try:
        value = orjson.loads(payload)
        if payload.count(b"{") + payload.count(b"[") > DEPTH_MAX:
            check(value)  # perhaps nested too deep
    except (orjson.JSONDecodeError, UsageError, RecursionError) as error:
        raise DamageError(f"the payload cannot be read: {error}", seq=record.seq) from error


def _inline(record: Record) -> bytes:
    return b"" if isinstance(record.payload, UnsetType) else bytes(record.payload)


def head_of(change: Change, rev: int) -> Head:
    record = change.entry.record
    return Head(
        record.item_type, record.item_id, change.version, change.parents, rev, not change.payload, change.payload,
        record.ts, record.writer, record.session, change.lineage, record.seq, record.is_stub,
    )  # fmt: skip


def entity_of_head(head: Head) -> Entity:
    """Return the entity whose only head is ``head``."""
    return Entity(
        head.item_type, head.item_id, head.version, head.parents, (head.version,), head.rev, head.deleted, head.payload,
        head.ts, head.writer, head.session, head.lineage, head.seq,
    )  # fmt: skip


class Ancestor(NamedTuple):
    """A superseded version that the heads of an entity are merged over, or one between; its content is kept as for a head.

    ``below``: versions that it descends from through versions that are not kept.
    """

    version: Head
    below: tuple[str, ...] = ()
