"""Records behind the index's watermark: versions and keys kept in memory until the index takes the records in."""

from __future__ import annotations

__all__ = ["Added", "Overlay", "UnmergedError", "may_say", "names_in"]

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from periplus.base.errors import DamageError
from periplus.base.named_tuple import NamedTuple
from periplus.journal.index.tables import SEVERAL_MAX, Index, node_of, payload_of
from periplus.journal.records.segment import Entry
from periplus.journal.state.entity import Change, Entity, Head, MergeRules, change_of, entity_of_head, is_sound_change
from periplus.journal.state.index_values import HistoryNeededError, IndexedRecord

if TYPE_CHECKING:
    from periplus.journal.state.merge import Node
    from periplus.journal.state.version_graph import EntityGraph, VersionGraph

_NAMES: Final = re.compile(rb'"item_id":"([^"]*)"')
_KEPT_MAX: Final = 256
_KEPT_BYTES_MAX: Final = 65_536


class UnmergedError(DamageError):
    """A merge base of concurrent versions lies in a segment that is not here: see ``checkpoints.merge_bases``."""


class Added(NamedTuple):
    """Records of our own lineage that other processes wrote: whole lines with valid checksums, not yet decoded."""

    segment: int
    offset: int
    first_seq: int
    record_count: int
    data: bytes


def names_in(data: bytes) -> list[bytes] | None:
    """Return the ids of the entities in the lines ``data``, perhaps with others; None if the lines must be decoded to tell."""
    if b"\\" in data and b"\\u" in data:
        return None  # an id may be written with escapes
    found = _NAMES.findall(data)
    return found if len(found) == data.count(b'"item_id"') else None


def may_say(data: bytes, words: Sequence[bytes]) -> bool:
    """Return False if no record in the lines ``data`` can contain all of ``words`` (ASCII letters and digits)."""
    return all(word in data for word in words) or not _is_as_said(data) or b'"payload_ref"' in data


def _is_as_said(data: bytes) -> bool:
    """Return True if this JSON spells letters without escapes."""
    return b"\\" not in data or b"\\u" not in data


class _Waiting(NamedTuple):
    """A record; ``version`` is empty if it is still to be computed, None if the record makes none."""

    entry: Entry
    lineage: str
    segment: int
    version: str | None


class Overlay:
    """Versions and keys of the records behind the index's watermark, on top of those in the index.

    Records of other writers are checked when they arrive, and turned into versions when their entity is asked for: a writer takes in all
    records of the others under the lock, but needs few of them.
    """

    def __init__(self, index: Index, load: Callable[[str], bytes]) -> None:
        self._index = index
        self._load = load
        self._grown: Mapping[tuple[str, str], EntityGraph] = {}  # the entities of ``_growth``, once it exists
        self._records: dict[tuple[str, str, str], list[IndexedRecord]] = {}
        self._below: dict[tuple[str, str], list[Head]] = {}  # heads in the index's snapshot, of touched entities
        self._waiting: dict[tuple[str, str], list[_Waiting]] = {}
        self._keys: dict[str, list[_Waiting]] = {}
        self._entities: dict[tuple[str, str], Entity | None] = {}  # recently returned
        self._said: list[
            tuple[tuple[str, str], bytes]
        ] = []  # the payload of each change, as JSON; empty if it has escapes
        self._has_before = index.has_floors
        self.has_floors = self._has_before and not index.is_rest
        self.record_count = 0

    @property
    def touched(self) -> Collection[tuple[str, str]]:
        """Type and id of the entities that the records touch."""
        return self._grown.keys() | self._waiting.keys()

    @cached_property
    def _growth(self) -> VersionGraph:
        from periplus.journal.state.version_graph import (
            VersionGraph,  # lazy: without records behind the index no graph is needed
        )

        growth = VersionGraph(self._index)
        self._grown = growth.entities
        return growth

    def add(self, entry: Entry, lineage: str, segment: int, *, salvage: bool = False, version: str = "") -> None:
        """Take a record in; a known ``version`` is not computed again.

        Raises DamageError if the payload's object is not sound; with ``salvage`` the version is skipped instead.
        """
        record = entry.record
        self.record_count += 1
        found = _Waiting(entry, lineage, segment, version)
        try:
            is_change = version != "" or is_sound_change(record, self._load)
        except DamageError:
            if not salvage:
                raise
            is_change = False
        if record.key:
            self._keys.setdefault(record.key, []).append(found if is_change else found._replace(version=None))
        if is_change:
            key = (record.item_type, record.item_id)
            said = b"" if record.payload is UNSET else bytes(record.payload)
            self._said.append((key, said if _is_as_said(said) else b""))
            self._waiting.setdefault(key, []).append(found)
            self._entities.pop(key, None)
            if record.payload_ref is not None or self.has_floors:
                # Fold now: the object just found sound may be gone later, and a need of the full history must be raised here.
                self._fold((record.item_type, record.item_id))
                if self.has_floors:
                    self._index.check_heads(self.heads_of(record.item_type, record.item_id), self)

    def saying(self, item_type: str, words: Sequence[bytes]) -> list[tuple[str, str]]:
        """Return type and id of the entities of a type whose records contain all of ``words``, perhaps with some others."""
        first = words[0] if words else b""
        found = {key for key, said in self._said if not said or (first in said and all(word in said for word in words))}
        return sorted(key for key in found if key[0] == item_type)

    def live_entities(self, item_type: str | None) -> Iterator[Entity]:
        """Yield every live entity (of one type), by type and id."""
        mine = {key for key in self.touched if item_type in (None, key[0])}
        held = (
            entity
            for entity in self._index.entities(item_type)
            if (entity.item_type, entity.item_id) not in mine and not entity.deleted
        )
        newer = (entity for key in sorted(mine) if (entity := self.entity(*key)) is not None and not entity.deleted)
        from heapq import merge

        return merge(held, newer, key=lambda entity: (entity.item_type, entity.item_id))

    def ids_with_prefix(self, prefix: str) -> list[tuple[str, str]]:
        """Return type and id of entities, deleted ones too, whose id begins with ``prefix``; not all if there are many."""
        found = {key for key in self.touched if key[1].startswith(prefix)}
        try:
            found.update(self._index.ids_with_prefix(prefix))
        except UnicodeEncodeError:
            pass  # a lone surrogate, which no id contains
        return sorted(found)

    def heads_of(self, item_type: str, item_id: str) -> list[Head]:
        key = (item_type, item_id)
        if key in self._waiting:
            self._fold(key)
        if key not in self._grown:
            return self._index.heads(item_type, item_id)
        below = self._below.get(key)
        if below is None:
            below = self._below[key] = self._index.heads(item_type, item_id)
        return self._growth.heads(key, below)

    def entity(self, item_type: str, item_id: str) -> Entity | None:
        """Return the entity as shown, a tombstone too. It is cached until a record touches it."""
        key = (item_type, item_id)
        if key in self._entities:
            return self._entities[key]
        found = self.shown(item_type, self.heads_of(item_type, item_id))
        if found is None or len(found.payload) <= _KEPT_BYTES_MAX:
            if len(self._entities) >= _KEPT_MAX:
                self._entities.clear()
            self._entities[key] = found
        return found

    def have_ready(self, keys: Iterable[tuple[str, str]]) -> None:
        """Cache several entities with one query before they are asked for, as far as only the index has them."""
        touched = self.touched
        wanted = [key for key in dict.fromkeys(keys) if key not in self._entities and key not in touched]
        if not wanted:
            return
        held = self._index.heads_of_several(wanted[:SEVERAL_MAX])
        if len(self._entities) + len(held) >= _KEPT_MAX:
            self._entities.clear()
        for key, heads in held.items():
            found = self.shown(key[0], heads)
            if found is None or len(found.payload) <= _KEPT_BYTES_MAX:
                self._entities[key] = found

    def holds(self, item_type: str, item_id: str, version: str) -> bool:
        self._fold((item_type, item_id))
        found = self._grown.get((item_type, item_id))
        is_new = found is not None and version in found.revs
        return is_new or self._index.rev_of(item_type, item_id, version) is not None

    def is_superseded(self, item_type: str, item_id: str, version: str) -> bool:
        """Return True if a held version names this one, held or not, as a parent."""
        self._fold((item_type, item_id))
        found = self._grown.get((item_type, item_id))
        is_new = found is not None and version in found.children
        return is_new or bool(self._index.children_of(item_type, item_id, version))

    def shown(self, item_type: str, heads: list[Head]) -> Entity | None:
        """Return the entity that ``heads`` show; see ``state.merge``."""
        if len(heads) == 1:
            return entity_of_head(heads[0])
        from periplus.journal.state.merge import entity_of

        return entity_of(heads, self._index.view.rules.get(item_type, MergeRules()), self)

    def node(self, item_type: str, item_id: str, version: str) -> Node | None:
        found = node_of(self._versions(item_type, item_id, version))
        if self._has_before:
            found = self._index.node_before(item_type, item_id, version, found)
        if found is None:
            return None
        grown = self._grown.get((item_type, item_id))
        return found._replace(rev=grown.revs.get(version, found.rev)) if grown is not None else found

    def payload(self, item_type: str, item_id: str, version: str) -> bytes:
        found = payload_of(self._versions(item_type, item_id, version), self._index.view)
        return found or (self._index.payload_before(item_type, item_id, version) if self._has_before else b"")

    def written_with(self, key: str) -> list[tuple[str, int, str]]:
        """Return ``(lineage, seq, version or empty)`` of the records of the mutation with this key."""
        found = []
        for one in self._keys.get(key, ()):
            change = None if one.version is None else self._change(one)
            found.append((one.lineage, one.entry.record.seq, change.version if change is not None else ""))
        return found

    def named_with(self, key: str) -> list[tuple[str, int, str, str]]:
        """Return ``(lineage, seq, item_type, item_id)`` of the records of the mutation with this key."""
        found = self._keys.get(key, ())
        return [
            (one.lineage, one.entry.record.seq, one.entry.record.item_type, one.entry.record.item_id) for one in found
        ]

    def _fold(self, key: tuple[str, str]) -> None:
        waiting = self._waiting.get(key)
        is_touched = bool(waiting)
        while waiting:
            change = self._change(waiting[0])
            if change is not None:
                if self.has_floors:
                    self._index.check_reach(change, self._growth)
                self._growth.add(change)
                self._records.setdefault((*key, change.version), []).append(_indexed(change))
            del waiting[0]  # last: if interrupted before, the change is added again, which has no effect
        if is_touched and (
            key in self._circular or ((found := self._grown.get(key)) is not None and found.is_unsettled)
        ):
            self._settle(key)
        self._waiting.pop(key, None)

    @cached_property
    def _circular(self) -> set[tuple[str, str]]:
        return self._index.circular()

    def _settle(self, key: tuple[str, str]) -> None:
        from periplus.journal.state.version_cycles import settle

        if self.has_floors:
            raise HistoryNeededError
        found = self._grown[key]
        added = [record for (*of, _), records in self._records.items() if tuple(of) == key for record in records]
        found.is_circular = settle(
            found,
            [*self._index.versions_of(*key), *added],
            lambda version: [*self._index.child_versions(*key, version), *found.children.get(version, ())],
            self._index.view.payload_at,
        )

    def _change(self, one: _Waiting) -> Change | None:
        return change_of(one.entry, one.lineage, one.segment, self._load, one.version or "")

    def _versions(self, item_type: str, item_id: str, version: str) -> list[IndexedRecord]:
        self._fold((item_type, item_id))
        found = [
            *self._index.versions(item_type, item_id, version),
            *self._records.get((item_type, item_id, version), ()),
        ]
        return sorted(found, key=lambda record: (record.lineage, record.seq))


def _indexed(change: Change) -> IndexedRecord:
    """Return the position of the record, so that its payload can be read after a later version has replaced it."""
    entry, record = change.entry, change.entry.record
    return IndexedRecord(
        change.lineage, record.seq, change.segment, entry.offset, entry.length, entry.leaf, record.ts, record.writer,
        record.session, record.action, record.item_type, record.item_id, change.version, 0, record.key, record.summary,
        change.parents,
    )  # fmt: skip
