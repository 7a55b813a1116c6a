"""Export a project's store to one file, and import it: the store, trails included, is examined before it is written."""

from __future__ import annotations

__all__ = ["export", "import_from"]

import os
from typing import TYPE_CHECKING

from periplus.base.clock import SystemClock
from periplus.base.files import Files, PassingFiles
from periplus.journal.exchange.package import Flaw, export_store, limit_of
from periplus.journal.exchange.package_import import import_store
from periplus.journal.storage.progress import no_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from periplus.base.clock import Clock
    from periplus.journal.care.doctor import Examination
    from periplus.journal.care.problem import Problem
    from periplus.journal.exchange.package import Packed
    from periplus.journal.storage.progress import Progress
    from periplus.project.store import ProjectStore


def export(
    project: ProjectStore, path: str, *, examine: Callable[[], Examination], damaged: bool, progress: Progress | None
) -> Packed:
    """See ``Project.export``; ``examine`` checks the store. Errors keep the export from being whole; in the rest of a
    damaged store unsound files count, too.
    """
    doubts: list[Flaw] = []

    def check() -> list[Flaw]:
        problems = examine().problems
        found = _doubts(problems, project.root)
        if not damaged:
            doubts.extend(found)
        kept = ("objects" + os.sep, os.path.join("journal", "checkpoints") + os.sep)
        flaws = [one for one in found if one.path.startswith(kept)] if damaged else []
        return [_flaw(one, project.root) for one in problems if one.severity == "error"] + flaws

    packed = export_store(project.journal, path, damaged=damaged, check=check, progress=progress or no_progress)
    return packed._replace(doubts=tuple(doubts))


def _flaw(problem: Problem, root: str) -> Flaw:
    return Flaw(problem.what.replace(root + os.sep, ""), os.path.relpath(problem.path or root, root), problem.offset)


def _doubts(problems: Iterable[Problem], root: str) -> list[Flaw]:
    """Return the problems of files that an export carries and that no record needs; each file once."""
    found = (_flaw(one, root) for one in problems if one.severity == "warning" and one.path)
    return list({one.path: one for one in found if limit_of(one.path)}.values())


def import_from(
    path: str,
    folder: str,
    *,
    examine: Callable[[str, Files], Examination],
    dry_run: bool,
    damaged: bool,
    clock: Clock | None,
    progress: Progress | None,
) -> Packed:
    """See ``Project.import_from``: ``examine`` opens and checks what was unpacked before it takes the name of a store. For a dry
    run no files of entities are made: all of it is removed again.
    """
    doubts: list[Flaw] = []

    def check(root: str) -> list[str]:
        files = PassingFiles() if dry_run else Files()
        found = examine(root, files)
        doubts.extend(_doubts(found.problems, root))
        return [f"{one.path}: {one.what}" for one in found.problems if one.severity == "error"]

    packed = import_store(
        path,
        folder,
        check=check,
        clock=clock or SystemClock(),
        dry_run=dry_run,
        damaged=damaged,
        progress=progress or no_progress,
    )
    return packed._replace(doubts=tuple(doubts))
