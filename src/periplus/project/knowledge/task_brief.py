"""Briefs and related work for a task, seen from the project's folder."""

from __future__ import annotations

__all__ = ["brief_for", "filters_in", "names_in", "related_to"]

import os
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from periplus.base.errors import refuse_text
from periplus.project.declared_types import check_type
from periplus.project.knowledge.grounds import ground_of

if TYPE_CHECKING:
    from periplus.memory.briefing.brief import Brief
    from periplus.memory.retrieval.related import Related
    from periplus.memory.retrieval.search import Filters
    from periplus.project.store import ProjectStore

_NAMES_MAX: Final = 4_000
_TESTED_MAX: Final = 3  # likely files whose tests are named
_LEFT_OUT: Final = frozenset({"node_modules", "__pycache__", "venv", "target", "build", "dist"})


def filters_in(project: ProjectStore, filters: Filters) -> Filters:
    """Return ``filters`` with a path that leads from somewhere (``./src``, ``/home/ada/shop/src``) as the project
    names it.

    Any other path is the end of a path, and stays. Raises UsageError for a path outside of the project, and for an
    unknown type.
    """
    refuse_text(types=filters.types, kinds=filters.kinds)
    for name in filters.types:
        check_type(project, name)
    if not filters.path or filters.path.partition("/")[0] not in ("", ".", ".."):
        return filters
    named = project.path(filters.path)
    return filters._replace(path="" if named == "." else named)


def brief_for(project: ProjectStore, task: str, *, budget_tokens: int) -> Brief:
    """See ``memory.briefing.brief``."""
    from periplus.memory.briefing.brief import brief
    from periplus.project.knowledge.code_signals import code_knowledge

    project.look_to_answer()
    with code_knowledge(project) if task.strip() else nullcontext() as code:
        return brief(
            project.journal, task, now_ms=project.journal.clock.now_ms(), ground=ground_of(project), budget_tokens=budget_tokens,
            writer=project.writer, names=names_in(project.top), more=code.signals((), task) if code is not None else (),
            tests_of=(lambda paths: [str(test) for test in code.tests(paths)]) if code is not None else None,
        )  # fmt: skip


def names_in(folder: str) -> list[str]:
    """Return the files of a folder, those nearest to its top first, some thousands at most; nothing hidden, nothing
    built, no link followed.
    """
    found: list[str] = []
    seen = 0
    level = [""]
    while level and seen < _NAMES_MAX:
        deeper: list[str] = []
        for inside in level:
            try:
                entries = sorted(os.scandir(os.path.join(folder, inside)), key=lambda entry: entry.name)
            except OSError:
                continue  # gone, or not readable: its files are not proposed
            seen += len(entries)
            for entry in entries:
                if entry.name.startswith(".") or entry.name in _LEFT_OUT:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    deeper.append(f"{inside}{entry.name}/")
                elif entry.is_file(follow_symlinks=False):
                    found.append(inside + entry.name)
        level = deeper
    return found[:_NAMES_MAX]


def related_to(
    project: ProjectStore, paths: Sequence[str], task: str, *, limit: int = 10, budget_tokens: int | None = None
) -> Related:
    """See ``memory.retrieval.related``. ``paths`` are as the project names them; files that are not in the worktree
    are not proposed.
    """
    from periplus.memory.retrieval.related import related
    from periplus.project.knowledge.code_signals import code_knowledge

    refuse_text(paths=paths)
    project.look_to_answer()
    top = project.top
    with code_knowledge(project) as code:
        found = related(
            project.journal, paths, task, now_ms=project.journal.clock.now_ms(), ground=ground_of(project), limit=limit,
            budget_tokens=budget_tokens, names=names_in(project.top),
            is_there=lambda path: os.path.lexists(os.path.join(top, path.replace("\0", ""))),
            more=code.signals(paths, task) if code is not None else (),
        )  # fmt: skip
        if code is None:
            return found
        tests = code.tests(paths or [one.path for one in found.files[:_TESTED_MAX]])
        return found._replace(tests=tuple(map(str, tests)), commands=tuple(code.commands(tests)))
