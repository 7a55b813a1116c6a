"""What has been read of the journal beyond the index: kept in memory until the index takes it in."""

from __future__ import annotations

__all__ = ["Overlay"]

from collections.abc import Callable, Collection

from periplus.base.errors import DamageError
from periplus.journal.graph import Growth
from periplus.journal.index import Index, IndexedRecord, node_of, payload_of
from periplus.journal.merge import Node, entity_of
from periplus.journal.segment import Entry
from periplus.journal.state import Change, Entity, Head, change_of


class Overlay:
    """The versions and keys of the records behind the index's watermark, over those that the index holds."""

    def __init__(self, index: Index, load: Callable[[str], bytes]) -> None:
        self._index = index
        self._load = load
        self._growth = Growth(index)
        self._records: dict[tuple[str, str, str], list[IndexedRecord]] = {}
        self._below: dict[tuple[str, str], list[Head]] = {}  # what the index's snapshot holds of those that we touch
        self.keys: dict[str, list[tuple[str, int, str]]] = {}
        self.record_count = 0

    @property
    def touched(self) -> Collection[tuple[str, str]]:
        """Type and id of the entities that the records touch."""
        return self._growth.entities.keys()

    def add(self, entry: Entry, lineage: str, segment: int, *, salvage: bool = False, version: str = "") -> None:
        """Take a record in; ``version`` saves computing it where it is known.

        Raises DamageError where the payload's object is not sound; with ``salvage`` the version is left out.
        """
        record = entry.record
        self.record_count += 1
        try:
            change = change_of(entry, lineage, segment, self._load, version)
        except DamageError:
            if not salvage:
                raise
            change = None
        if record.key:
            version = change.version if change is not None else ""
            self.keys.setdefault(record.key, []).append((lineage, record.seq, version))
        if change is not None:
            self._growth.add(change)
            key = (record.item_type, record.item_id, change.version)
            self._records.setdefault(key, []).append(_indexed(change))

    def heads_of(self, item_type: str, item_id: str) -> list[Head]:
        key = (item_type, item_id)
        if key not in self._growth.entities:
            return self._index.heads(item_type, item_id)
        below = self._below.get(key)
        if below is None:
            below = self._below[key] = self._index.heads(item_type, item_id)
        return self._growth.heads(key, below)

    def holds(self, item_type: str, item_id: str, version: str) -> bool:
        found = self._growth.entities.get((item_type, item_id))
        is_new = found is not None and version in found.revs
        return is_new or self._index.rev_of(item_type, item_id, version) is not None

    def is_superseded(self, item_type: str, item_id: str, version: str) -> bool:
        """Whether a version that is held names this one, held or not, as a parent."""
        found = self._growth.entities.get((item_type, item_id))
        is_new = found is not None and version in found.gone
        return is_new or bool(self._index.children_of(item_type, item_id, version))

    def shown(self, item_type: str, heads: list[Head]) -> Entity | None:
        """The entity that ``heads`` show; see ``journal.merge``."""
        return entity_of(heads, self._index.view.sets.get(item_type, frozenset()), self)

    def node(self, item_type: str, item_id: str, version: str) -> Node | None:
        found = node_of(self._versions(item_type, item_id, version))
        if found is None:
            return None
        grown = self._growth.entities.get((item_type, item_id))
        return found._replace(rev=grown.revs.get(version, found.rev)) if grown is not None else found

    def payload(self, item_type: str, item_id: str, version: str) -> bytes:
        return payload_of(self._versions(item_type, item_id, version), self._index.view)

    def _versions(self, item_type: str, item_id: str, version: str) -> list[IndexedRecord]:
        found = [
            *self._index.versions(item_type, item_id, version),
            *self._records.get((item_type, item_id, version), ()),
        ]
        return sorted(found, key=lambda record: (record.lineage, record.seq))


def _indexed(change: Change) -> IndexedRecord:
    """Where the record lies, for what it says to be read again once a later version stands in its place."""
    entry, record = change.entry, change.entry.record
    return IndexedRecord(
        change.lineage, record.seq, change.segment, entry.offset, entry.length, entry.leaf, record.ts, record.writer,
        record.session, record.action, record.item_type, record.item_id, change.version, 0, record.key, record.summary,
        change.parents,
    )  # fmt: skip
