"""The working tree against which memory is compared: the worktree that is worked in, beside the others of its
repository.
"""

from __future__ import annotations

__all__ = ["ground_of"]

from typing import TYPE_CHECKING

from periplus.memory.code_anchors.anchors import QUICK, TOLD_MAX, Ground
from periplus.project.knowledge.code import parse_of

if TYPE_CHECKING:
    from periplus.memory.code_anchors.anchors import Anchor, Reach
    from periplus.project.knowledge.anchor_commits import CommitsOfGit
    from periplus.project.store import ProjectStore


def ground_of(
    project: ProjectStore, *, reach: Reach = QUICK, told_max: int = TOLD_MAX, with_commits: bool = True
) -> Ground:
    """Return the worktree where ``project`` was opened for work; ``with_commits`` git is asked for commits once
    something is stale.
    """
    top = project.top
    made: list[CommitsOfGit] = []

    def changed_in(anchor: Anchor) -> str | None:
        if not made:
            from periplus.project.knowledge.anchor_commits import CommitsOfGit

            made.append(CommitsOfGit(top))
        return made[0].changed_in(anchor)

    def others() -> list[str]:
        from periplus.journal.projections.git_state import project_folders

        return [folder for folder in project_folders(project.root) if folder != top]

    return Ground(
        top,
        changed_in=changed_in if with_commits else None,
        others=others,
        reach=reach,
        told_max=told_max,
        parse=parse_of(project),
    )
