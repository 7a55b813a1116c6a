"""What is related to files or a task, seen from the project's folder."""

from __future__ import annotations

__all__ = ["related_to"]

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from periplus.memory.related import Related
    from periplus.project.project import Project


def related_to(
    project: Project, paths: Sequence[str], task: str, *, limit: int = 10, budget_tokens: int | None = None
) -> Related:
    """See ``memory.related``. ``paths`` are as the project names them; files that are gone from its folder are not proposed."""
    from periplus.memory.related import related

    project.look_if_due()
    return related(
        project.journal, paths, task, now_ms=project.journal.clock.now_ms(), ground=project.ground(), limit=limit,
        budget_tokens=budget_tokens,
        is_there=lambda path: os.path.lexists(os.path.join(project.folder, path.replace("\0", ""))),
    )  # fmt: skip
