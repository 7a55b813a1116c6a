"""The store of a project's contexts, as ``context.Store`` defines it: for the project itself, and for servers."""

from __future__ import annotations

__all__ = ["ProjectLibrary"]

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import environment_failure
from periplus.base.process.locks import Lock
from periplus.context.deltas.ancestry import is_ancestor
from periplus.context.stores.library import ContextLibrary
from periplus.context.stores.object_folder import FolderObjects
from periplus.context.stores.snapshots import FolderCache
from periplus.journal.storage.layout import PARKED_FOLDER, Layout
from periplus.objects.store import ObjectStore
from periplus.project.context_store.refs import JournalRefs
from periplus.project.redaction_mark import file_mark, redaction_mark

if TYPE_CHECKING:
    from periplus.context.stores.garbage_collection import GcReport
    from periplus.project.store import ProjectStore


class ProjectLibrary(ContextLibrary):
    """The store of ``project``'s contexts. With ``owns`` it closes the project, too: for servers, whose threads have
    one each.
    """

    def __init__(self, project: ProjectStore, *, owns: bool = False) -> None:
        journal = project.journal
        parked = ObjectStore(os.path.join(project.root, PARKED_FOLDER, "contexts"), journal.files)
        from periplus.project.trail_store.withholding import Withholding

        withholding = Withholding(project)
        self.shelf = FolderObjects(journal.objects, project.root, journal.files, parked, withholding.is_out)
        self.table = JournalRefs(journal, project.writer, self.descends)
        self._cache_files = FolderCache(os.path.join(project.root, "cache", "contexts"), journal.files)
        super().__init__(self.shelf, self.table, self._cache_files, journal.clock)
        self._project = project
        self._owns = owns
        self._redacted = redaction_mark(project.root)
        self._settings = file_mark(Layout(project.root).config)

    def descends(self, new: bytes, old: bytes) -> bool:
        """Return True where context ``new`` is ``old`` or descends from it."""
        return is_ancestor(self, old, new)

    def gc(self, *, grace_ms: int | None = None, prune_after_ms: int | None = None) -> GcReport:
        """Park what no ref reaches; with ``prune_after_ms`` remove what was parked for so long. See ``context.stores.garbage_collection``."""
        from periplus.context.stores.garbage_collection import GRACE_MS, collect

        journal = self._project.journal
        folder = os.path.join(self._project.root, "cache")
        lock = Lock(os.path.join(folder, "lock"))
        try:
            journal.files.make_folder(folder)
        except OSError as error:
            raise environment_failure(error, "make the folder", folder) from error
        try:
            with lock.holding():
                report = collect(
                    self.shelf, self.table, self._cache_files, journal.clock, needed=self._needed,
                    grace_ms=GRACE_MS if grace_ms is None else grace_ms, prune_after_ms=prune_after_ms,
                )  # fmt: skip
        finally:
            lock.close()
        self.forget_known()
        return report

    def _needed(self) -> Iterator[bytes]:
        """Yield the other objects that the store names: payloads of records, trails, and places where clones left a
        ref.
        """
        from periplus.project.trail_store.objects import trail_objects

        journal = self._project.journal
        journal.refresh()
        for lineage in journal.lineages():
            for _, entry in journal.entries(lineage, salvage=True):
                ref = entry.record.payload_ref
                if ref is not None and is_digest_text(ref.sha256):
                    yield bytes.fromhex(ref.sha256)
        for entity in journal.entities("trail"):
            yield from trail_objects(entity, journal.objects.get)
        for name in self.table.all():
            yield from self.table.standing(name)

    def renew(self) -> bool:
        mark = redaction_mark(self._project.root)
        if mark == self._redacted:
            return False
        self._redacted = mark
        self.forget_held()
        return True

    def is_in_place(self) -> bool:
        """Compare the settings: every store has some, and another one has others."""
        return file_mark(Layout(self._project.root).config) == self._settings

    def forget_cache(self) -> None:
        """Remove derived files; they are made again when they are needed."""
        for digest in self._cache_files.digests():
            self._cache_files.drop(digest)

    def close(self) -> None:
        super().close()
        if self._owns:
            self._project.close()
