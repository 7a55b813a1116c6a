"""The state that records stand for: entities, each with the heads of its version graph. Pure.

State is a function of the *set* of records held: a version is a head when no record held names it as a parent, in
whatever order the records came. How an entity with several heads is shown says ``journal.merge``.
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
    """Top-level fields that do not merge as any other: ``sets`` are arrays that merge by element, other arrays merge as one
    value; of ``latest``, texts that say when something was last so, the greatest holds, and is never in conflict. The fields of
    each of ``groups`` are one value: all that is shown of them is of one head, but for those of ``latest`` where heads agree on the others. Of a field
    with an order in ``ranks`` the value that stands first there holds. A field is in at most one of all these, but for that.

    ``withheld`` names an array, in a group, of what was taken out: the head with the most of it is the one of which the group is shown. Where all
    heads that changed the group have it, none took out what that one left in, and they agree on the rest of the group but for the fields of
    ``incidental``, which may be another each time that the same is made, they said the same: none of these fields is in conflict, and what is
    shown of them is of that head. Fields of ``incidental`` outside the group are so where they would else be in conflict, whoever changed them.

    ``stamp`` names the field that says when the entity was last written: that it alone is another is no change.
    """

    sets: frozenset[str] = frozenset()
    latest: frozenset[str] = frozenset()
    groups: tuple[frozenset[str], ...] = ()
    ranks: tuple[tuple[str, tuple[str, ...]], ...] = ()
    incidental: frozenset[str] = frozenset()
    withheld: str = ""
    stamp: str = ""


class EntityType(NamedTuple):
    """What the journal must know of a type: its id prefix, whether it has files, how a payload is checked, how it merges.

    What ``reads_through`` is never served stale: each read looks at the journal's tail first, as for who works on what.
    ``declared`` is whatever the layer above knows of the type; nobody here looks at it. ``packing`` is the form in which
    the objects of this type are kept, where they have one of their own. ``lengths`` says how long a writer may make a list: what
    clones wrote apart may be merged to a longer one, which every write takes that makes it no longer.
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
        """Raises what ``check`` raises, and UsageError where a list is too long and longer than it was ``before`` this write.

        Lists that are ``carried`` were said of other entities before, and are as long as these had them.
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
                    mend=f"Give fewer; what is there already is given anew with `periplus set ID {name}=…`.",
                )  # fmt: skip


def _count(value: JSONValue) -> int:
    return len(value) if isinstance(value, list | tuple) else 0


def packing_of(types: Mapping[str, EntityType]) -> Packing | None:
    """The form that one of the types has for its objects; at most one has."""
    return next((kind.packing for kind in types.values() if kind.packing is not None), None)


class Head(NamedTuple):
    """A version that no other descends from. ``payload`` is canonical JSON, empty for a tombstone and for a stub."""

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
    """What a head has in a place: canonical JSON, empty where it has nothing there (or is deleted, for the whole)."""

    version: str
    writer: str
    ts: str
    value: bytes


class Conflict(NamedTuple):
    """A place in an entity where heads do not agree: the keys that lead to it, none for the whole entity.

    The first of ``values`` is the one that is shown.
    """

    path: tuple[str, ...]
    values: tuple[ConflictValue, ...]


class Entity(NamedTuple):
    """An entity as it is shown: its head's content, or that of its heads merged; a write's parents are all ``heads``.

    Several heads are a version of their own that no record holds: ``version``, ``parents`` and ``rev`` are those that
    a write of this very content would have; who and when are of the head that counts most.
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
        """Whether heads disagree; several that merge without a conflict do not."""
        return bool(self.conflicts)

    @property
    def conflict_names(self) -> tuple[str, ...]:
        """Where it is in conflict, for people: keys joined by dots, ``deleted`` for the whole entity."""
        return tuple(".".join(conflict.path) or "deleted" for conflict in self.conflicts)

    @property
    def value(self) -> dict[str, JSONValue]:
        """The payload decoded; empty for a tombstone."""
        if not self.payload:
            return {}
        value: dict[str, JSONValue]
        if _LONG_NUMBER.search(self.payload):  # a foreign one, perhaps: what it is was judged by orjson
            import orjson

            value = orjson.loads(self.payload)
        else:  # loaded in every process already, and the same to all that is left
            value = msgspec.json.decode(self.payload)
        return value


class Change(NamedTuple):
    """A record of class state or tombstone as a version: what ``heads`` are computed from."""

    entry: Entry
    lineage: str
    segment: int
    version: str
    parents: tuple[str, ...]
    payload: bytes

    @property
    def before(self) -> tuple[str, ...]:
        """The versions that it descends from: its parents, and those that it is known to come after; never itself."""
        after = self.entry.record.after
        if not after and self.version not in self.parents:
            return self.parents
        return tuple([version for version in (*self.parents, *after) if version != self.version])


def change_of(
    entry: Entry, lineage: str, segment: int, load: Callable[[str], bytes], version: str = ""
) -> Change | None:
    """The version that a record makes, or None where it makes none; ``load`` fetches a payload from the objects.

    ``version`` is given where this process made it just now.

    Raises DamageError where the payload's object is missing or damaged.
    """
    record = entry.record
    kind = action_class(record.action)
    if kind not in ("state", "tombstone") or not record.item_type or not record.item_id:
        return None
    if not all(map(is_digest_text, record.parents)):
        raise DamageError("a parent that is no version id", seq=record.seq)
    if record.is_stub:  # what it said is gone; where it stands among the versions is not
        return Change(entry, lineage, segment, record.version, tuple(record.parents), b"") if record.version else None
    payload = b""
    if kind == "state":
        payload = _inline(record) if record.payload_ref is None else load(record.payload_ref.sha256)
        if not version:  # else it was made in this process
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
    """Whether a record makes a version.

    Raises DamageError where ``change_of`` would.
    """
    kind = action_class(record.action)
    if kind not in ("state", "tombstone") or not record.item_type or not record.item_id:
        return False
    if not all(map(is_digest_text, record.parents)):
        raise DamageError("a parent that is no version id", seq=record.seq)
    if record.is_stub:
        return bool(record.version)
    if kind == "state":
        check_payload(_inline(record) if record.payload_ref is None else load(record.payload_ref.sha256), record)
    return True


def check_payload(payload: bytes, record: Record) -> None:
    """Whether everybody who gets the payload can decode it: foreign records need not have been written by us."""
    import orjson

    if not payload.startswith(b"{"):
        raise DamageError("a record of state without a payload", seq=record.seq)
    if record.payload_ref is not None and record.payload_ref.bytes != len(payload):
        raise DamageError("the payload's object is not of the size that the record states", seq=record.seq)
    try:
        value = orjson.loads(payload)
        if payload.count(b"{") + payload.count(b"[") > DEPTH_MAX:
            check(value)  # nested too deep, perhaps
    except (orjson.JSONDecodeError, UsageError, RecursionError) as error:
        raise DamageError(f"a payload that cannot be read: {error}", seq=record.seq) from error


def _inline(record: Record) -> bytes:
    return b"" if isinstance(record.payload, UnsetType) else bytes(record.payload)


def head_of(change: Change, rev: int) -> Head:
    record = change.entry.record
    return Head(
        record.item_type, record.item_id, change.version, change.parents, rev, not change.payload, change.payload,
        record.ts, record.writer, record.session, change.lineage, record.seq, record.is_stub,
    )  # fmt: skip


def entity_of_head(head: Head) -> Entity:
    """The entity whose only head is ``head``."""
    return Entity(
        head.item_type, head.item_id, head.version, head.parents, (head.version,), head.rev, head.deleted, head.payload,
        head.ts, head.writer, head.session, head.lineage, head.seq,
    )  # fmt: skip


class Ancestor(NamedTuple):
    """A version that is no head any more, which the heads of an entity that has several are merged over, or which lies between; of it
    the content is held as of a head. ``below``: versions that it descends from by others that are not kept.
    """

    version: Head
    below: tuple[str, ...] = ()
