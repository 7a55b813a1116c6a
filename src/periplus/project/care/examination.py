"""The examination of ``doctor``: the journal and its contents, then what the layers above know of it."""

from __future__ import annotations

__all__ = ["examine"]

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.journal.care.doctor import Examination
    from periplus.journal.storage.progress import Progress
    from periplus.project.store import ProjectStore


def examine(
    project: ProjectStore, progress: Progress, *, derived: bool = True, tell: Callable[[str], None] = lambda _: None
) -> Examination:
    """Check the whole store, trails included; see ``Project.examine``."""
    from periplus.journal.care.stable_examination import examine_stable

    return examine_stable(project.journal, lambda: _examined(project, progress, derived=derived, tell=tell))


def _examined(project: ProjectStore, progress: Progress, *, derived: bool, tell: Callable[[str], None]) -> Examination:
    from periplus.journal.care import doctor
    from periplus.project.agent_hooks.hooks import ProjectHooks
    from periplus.project.care.unjoined_lineages import stray_journal_problems, unjoined_lineage_problems
    from periplus.project.context_store.objects import RefObjects, context_problems
    from periplus.project.declared_types import declared_problems
    from periplus.project.knowledge.word_vectors import meaning_problems
    from periplus.project.trail_store.examination import TrailReadings, trail_problems
    from periplus.project.v1_folder.migration_archive import check_backups

    contexts, trails = RefObjects(project.journal), TrailReadings(project)

    def references(entity: Entity) -> set[bytes]:
        return contexts(entity) or trails.references(entity)

    found = doctor.examine(
        project.journal, references=references, read=trails.read, derived=derived, tell=tell, progress=progress
    )
    for more in (
        trail_problems(project, trails.reports), context_problems(project), check_backups(project.root), ProjectHooks(project).problems(),
        declared_problems(project), meaning_problems(project), unjoined_lineage_problems(project), stray_journal_problems(project),
    ):  # fmt: skip
        found.problems.extend(more)
    return found
