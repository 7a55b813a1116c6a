"""The store of a project's contexts, as ``context.Store`` has it: for the project itself, and for servers that show it to others."""

from __future__ import annotations

__all__ = ["ProjectLibrary"]

import os
from typing import TYPE_CHECKING

from periplus.context.ancestry import is_ancestor
from periplus.context.disk import FolderObjects
from periplus.context.library import ContextLibrary
from periplus.context.snapshots import FolderCache
from periplus.project.context_refs import JournalRefs

if TYPE_CHECKING:
    from periplus.project.project import Project


class ProjectLibrary(ContextLibrary):
    """The store of ``project``'s contexts. With ``owns`` the project ends with it, for servers, each of whose threads has its own."""

    def __init__(self, project: Project, *, owns: bool = False) -> None:
        journal = project.journal
        objects = FolderObjects(journal.objects, project.root, journal.files)
        cache = FolderCache(os.path.join(project.root, "cache", "contexts"), journal.files)
        super().__init__(objects, JournalRefs(journal, project.writer, self.descends), cache)
        self._owned = project if owns else None

    def descends(self, new: bytes, old: bytes) -> bool:
        """Whether context ``new`` is ``old`` or stands on it."""
        return is_ancestor(self, old, new)

    def close(self) -> None:
        super().close()
        if self._owned is not None:
            self._owned.close()
