"""Knowledge of the code map for ``related`` and ``brief``: files that a task or given files concern by what they name, and the tests of files."""

from __future__ import annotations

__all__ = ["CodeKnowledge", "code_knowledge"]

import contextlib
import os
import shlex
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from periplus.journal import Layout
from periplus.memory.retrieval.file_votes import Signal
from periplus.project.knowledge.code import fresh_view

if TYPE_CHECKING:
    from periplus.code.queries.view import CodeView, SymbolId
    from periplus.project.store import ProjectStore

# Measured by the files of this repository's later commits: see ``uses_of_file`` and ``rank_files``.
_USERS_WEIGHT: Final = 1.0
_USED_WEIGHT: Final = 0.5
_TASK_WEIGHT: Final = 1.0
_RANKED_MAX: Final = 60
_PATHS_MAX: Final = 10
_TESTS_MAX: Final = 200


class CodeKnowledge:
    """Answers of the code map of the worktree ``top``. They take half a second at most."""

    def __init__(self, view: CodeView, top: str) -> None:
        from periplus.code.code_map import HOOK_BUDGET_S

        self._view = view
        self._top = top
        self._until = time.monotonic() + HOOK_BUDGET_S

    def signals(self, paths: Sequence[str], task: str) -> list[Signal]:
        """Return votes for files: those that use what ``paths`` define, those that define what these use, and those ranked for ``task``."""
        view, files = self._view, self._files(paths)
        from periplus.code.queries.file_uses import uses_of_file

        found: list[Signal] = []
        for path in files:
            uses = uses_of_file(view, path, self._until)
            found.append(Signal(f"uses what {path} defines", _USERS_WEIGHT / len(files), uses.users))
            found.append(Signal(f"defines what {path} uses", _USED_WEIGHT / len(files), uses.used))
        if task.strip() and view.graph is not None:  # without the graph a ranking takes too long
            from periplus.code.ranking.repository_map import rank_files

            ranked = rank_files(view, task, {})[:_RANKED_MAX]
            found.append(Signal("the code map ranks it for the task", _TASK_WEIGHT, dict(ranked)))
        return [one for one in found if any(one.votes.values())]

    def tests(self, paths: Sequence[str]) -> list[SymbolId]:
        """Return the tests that name what the files ``paths`` define, by path and name."""
        from periplus.code.queries.file_uses import uses_of_file

        found = {test for path in self._files(paths) for test in uses_of_file(self._view, path, self._until).tests}
        return sorted(found)[:_TESTS_MAX]

    def commands(self, tests: Sequence[SymbolId]) -> list[str]:
        """Return the commands that run ``tests``."""
        from periplus.code.queries.runner_commands import commands_for

        return [shlex.join(one.words) for one in commands_for(self._view, tests)]

    def _files(self, paths: Sequence[str]) -> list[str]:
        return [path for path in paths if os.path.isfile(os.path.join(self._top, path))][:_PATHS_MAX]


@contextlib.contextmanager
def code_knowledge(project: ProjectStore) -> Iterator[CodeKnowledge | None]:
    """Open the code map for answers in a hurry; None where it is not at hand."""
    with fresh_view(Layout(project.root).code, project.top, with_graph=True) as view:
        yield CodeKnowledge(view, project.top) if view is not None else None
