"""The lineage that this clone writes, and the store that its records name: a base of ``JournalReader``."""

from __future__ import annotations

__all__ = ["OwnLineage"]

from typing import TYPE_CHECKING

from periplus.base.errors import DamageError
from periplus.journal.storage.settings import is_written_here, read_lineage

if TYPE_CHECKING:
    from periplus.journal.storage.layout import Layout
    from periplus.journal.storage.settings import LineageFile, Settings


class OwnLineage:
    """Reads ``lineage.json`` of an open store and answers who writes here."""

    layout: Layout
    settings: Settings
    damage: DamageError | None
    copied_from: str
    _own: LineageFile | None

    @property
    def own(self) -> LineageFile | None:
        """The content of ``lineage.json``; None before this clone's first write."""
        return self._own

    @property
    def lineage(self) -> str:
        """The id of our own lineage; empty before this clone's first write."""
        return self._own.lineage if self._own is not None else ""

    @property
    def syncs(self) -> bool:
        """True if a mutation is on disk when it is acknowledged; under the policy ``never`` it need not be."""
        return self.settings.journal.sync == "mutation"

    @property
    def store_id(self) -> str:
        return self.settings.store.id

    def store_of(self, lineage: str) -> str:
        """Return the store id that the records of ``lineage`` name; another than ``store_id`` if its store was joined to this one."""
        if self._own is not None and lineage == self._own.lineage:
            return self._own.store
        if not self.settings.store.joined:
            return self.store_id
        from periplus.journal.storage.store_joining import stated_store

        return stated_store(self.layout, lineage) or self.store_id

    def _find_own(self) -> LineageFile | None:
        """Return the lineage that is written here; None in a fresh clone and in a copy of a store, which begins its own.

        Also None if ``lineage.json`` cannot be read; the error is kept in ``damage``.
        """
        try:
            found = read_lineage(self.layout)
        except DamageError as error:  # the rest can still be read; writes are refused
            self.damage = self.damage or error
            found = None
        is_own = found is None or is_written_here(self.layout, found)
        self.copied_from = "" if found is None or is_own else found.lineage
        return found if is_own else None
