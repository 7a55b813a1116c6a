"""What has been read of the journal beyond the index: kept in memory until the index takes it in."""

from __future__ import annotations

__all__ = ["Overlay"]

from collections.abc import Callable, Collection
from typing import Protocol

from periplus.base.errors import DamageError
from periplus.journal.graph import Base, Growth
from periplus.journal.segment import Entry
from periplus.journal.state import Head, change_of


class _Held(Base, Protocol):
    def heads(self, item_type: str, item_id: str) -> list[Head]: ...


class Overlay:
    """The versions and keys of the records behind the index's watermark, over the heads that the index holds."""

    def __init__(self, held: _Held, load: Callable[[str], bytes]) -> None:
        self._held = held
        self._load = load
        self._growth = Growth(held)
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

    def heads_of(self, item_type: str, item_id: str) -> list[Head]:
        key = (item_type, item_id)
        if key not in self._growth.entities:
            return self._held.heads(item_type, item_id)
        below = self._below.get(key)
        if below is None:
            below = self._below[key] = self._held.heads(item_type, item_id)
        return self._growth.heads(key, below)

    def holds(self, item_type: str, item_id: str, version: str) -> bool:
        found = self._growth.entities.get((item_type, item_id))
        is_new = found is not None and version in found.revs
        return is_new or self._held.rev_of(item_type, item_id, version) is not None

    def is_superseded(self, item_type: str, item_id: str, version: str) -> bool:
        """Whether a version that is held names this one, held or not, as a parent."""
        found = self._growth.entities.get((item_type, item_id))
        is_new = found is not None and version in found.gone
        return is_new or bool(self._held.children_of(item_type, item_id, version))
