"""Pages of a project's memory, with the staleness of their rows in the worktree that is worked in."""

from __future__ import annotations

__all__ = ["list_memory"]

from typing import TYPE_CHECKING

from periplus.memory.retrieval.listing import MemoryFilter, MemoryPage, MemorySort, memory_page
from periplus.project.knowledge.grounds import ground_of

if TYPE_CHECKING:
    from periplus.project.store import ProjectStore


def list_memory(
    project: ProjectStore, wanted: MemoryFilter | None, *, sort: MemorySort, number: int, size: int, with_facets: bool
) -> MemoryPage:
    """See ``Project.memory_page``. Git is not asked for the commits that made a memory stale: a page may have many."""
    project.look_to_answer()
    project.refresh_index()
    ground = ground_of(project, with_commits=False)
    return memory_page(
        project.journal,
        wanted or MemoryFilter(),
        ground.told,
        sort=sort,
        number=number,
        size=size,
        with_facets=with_facets,
    )
