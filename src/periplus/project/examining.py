"""What ``doctor`` looks at: the journal and what lies in it, then what the layers above know of it."""

from __future__ import annotations

__all__ = ["examine"]

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.journal.doctor import Examination
    from periplus.journal.progress import Progress
    from periplus.project.project import Project


def examine(project: Project, progress: Progress, *, derived: bool, tell: Callable[[str], None]) -> Examination:
    """One look at everything; as ``Project.examine`` says."""
    from periplus.journal import doctor
    from periplus.project.archive import check_backups
    from periplus.project.context_objects import RefObjects, context_problems
    from periplus.project.meanings import meaning_problems
    from periplus.project.trails import TrailReadings, trail_problems
    from periplus.project.types import declared_problems
    from periplus.project.waiting import astray_problems, waiting_problems

    contexts, trails = RefObjects(project.journal), TrailReadings(project)

    def references(entity: Entity) -> set[bytes]:
        return contexts(entity) or trails.references(entity)

    found = doctor.examine(
        project.journal, references=references, read=trails.read, derived=derived, tell=tell, progress=progress
    )
    for more in (
        trail_problems(project, trails.reports), context_problems(project), check_backups(project.root), project.hooks.problems(),
        declared_problems(project), meaning_problems(project), waiting_problems(project), astray_problems(project),
    ):  # fmt: skip
        found.problems.extend(more)
    return found
