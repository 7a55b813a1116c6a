"""The repository of a project as a dispatch changes it: worktrees for agents, their leftovers, merges, and what agents may not touch."""

from typing import TYPE_CHECKING

from periplus.base.lazy_package import lazily

if TYPE_CHECKING:
    from periplus.dispatch.repository.model import (
        BRANCH_PREFIX,
        RESULT_FILE,
        Changes,
        Conflict,
        FoundSecret,
        Identity,
        Marks,
        Merged,
        Uncommitted,
    )
    from periplus.dispatch.repository.project_repository import GIT_MIN, Repository
else:
    __getattr__ = lazily(
        __name__,
        {
            **dict.fromkeys(
                (
                    "BRANCH_PREFIX",
                    "RESULT_FILE",
                    "Changes",
                    "Conflict",
                    "FoundSecret",
                    "Identity",
                    "Marks",
                    "Merged",
                    "Uncommitted",
                ),
                "model",
            ),
            **dict.fromkeys(("GIT_MIN", "Repository"), "project_repository"),
        },
    )

__all__ = [
    "BRANCH_PREFIX",
    "GIT_MIN",
    "RESULT_FILE",
    "Changes",
    "Conflict",
    "FoundSecret",
    "Identity",
    "Marks",
    "Merged",
    "Repository",
    "Uncommitted",
]
