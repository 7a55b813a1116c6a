"""What has been read of the journal beyond the index: kept in memory until the index takes it in."""

from __future__ import annotations

__all__ = ["Overlay"]

from collections.abc import Callable

from periplus.base.errors import DamageError
from periplus.journal.segment import Entry
from periplus.journal.state import Change, Head, change_of, head_of


class Overlay:
    """The versions and keys of the records behind the index's watermark, over the heads that the index holds."""

    def __init__(self, base_heads: Callable[[str, str], list[Head]], base_rev: Callable[[str], int | None],
                 base_superseded: Callable[[str], bool], load: Callable[[str], bytes]) -> None:  # fmt: skip
        self._base_heads = base_heads
        self._base_rev = base_rev
        self._base_superseded = base_superseded
        self._load = load
        self.heads: dict[tuple[str, str], list[Head]] = {}
        self.keys: dict[str, list[tuple[str, int, str]]] = {}
        self._revs: dict[str, int] = {}
        self._superseded: set[str] = set()
        self.record_count = 0

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
            self._add_change(change)

    def heads_of(self, item_type: str, item_id: str) -> list[Head]:
        found = self.heads.get((item_type, item_id))
        return self._base_heads(item_type, item_id) if found is None else found

    def rev_of(self, version: str) -> int:
        found = self._revs.get(version)
        return found if found is not None else self._base_rev(version) or 0

    def _add_change(self, change: Change) -> None:
        record = change.entry.record
        rev = 1 + max((self.rev_of(parent) for parent in change.parents), default=0)
        self._revs[change.version] = rev
        self._superseded.update(change.parents)
        gone = {*change.parents, change.version}
        heads = [head for head in self.heads_of(record.item_type, record.item_id) if head.version not in gone]
        if change.version not in self._superseded and not self._base_superseded(change.version):
            heads.append(head_of(change, rev))
        self.heads[(record.item_type, record.item_id)] = heads
