"""The working tree of a project as memory looks at it."""

from __future__ import annotations

__all__ = ["ground_of"]

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from periplus.memory.anchors import Anchor, Ground
    from periplus.project.reviewing import CommitsOfGit


def ground_of(folder: str) -> Ground:
    """What is stale in ``folder``, with the commits that made it so: git is asked once something is."""
    from periplus.memory.anchors import Ground

    made: list[CommitsOfGit] = []

    def changed_in(anchor: Anchor) -> str | None:
        if not made:
            from periplus.project.reviewing import CommitsOfGit

            made.append(CommitsOfGit(folder))
        return made[0].changed_in(anchor)

    return Ground(folder, changed_in=changed_in)
