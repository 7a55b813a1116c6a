"""A project's store in one file: examined, trails included, before it is written."""

from __future__ import annotations

__all__ = ["export", "import_from"]

import os
from typing import TYPE_CHECKING

from periplus.base.clock import SystemClock
from periplus.base.files import Files, PassingFiles
from periplus.journal.package import Flaw, export_store, limit_of
from periplus.journal.progress import no_progress
from periplus.journal.transaction import Writer
from periplus.journal.unpacking import import_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from periplus.base.clock import Clock
    from periplus.journal.package import Packed
    from periplus.journal.problem import Problem
    from periplus.journal.progress import Progress
    from periplus.project.project import Project


def export(project: Project, path: str, *, damaged: bool, progress: Progress | None) -> Packed:
    """See ``Project.export``. What keeps a store from being whole are errors; of a rest also what of its files is not sound."""
    doubts: list[Flaw] = []

    def check() -> list[Flaw]:
        problems = project.examine(progress, derived=False).problems
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
    """What is wrong with files that an export carries and that no record needs; each file once."""
    found = (_flaw(one, root) for one in problems if one.severity == "warning" and one.path)
    return list({one.path: one for one in found if limit_of(one.path)}.values())


def import_from(
    kind: type[Project],
    path: str,
    folder: str,
    *,
    dry_run: bool,
    damaged: bool,
    clock: Clock | None,
    progress: Progress | None,
) -> Packed:
    """See ``Project.import_from``: what was unpacked is opened as a project and examined before it takes the name of a store. For a dry
    run no files of entities are made: all of it is removed again.
    """
    doubts: list[Flaw] = []

    def check(root: str) -> list[str]:
        files = PassingFiles() if dry_run else Files()
        with kind(root, Writer("import", ""), clock=clock, files=files, has_files=not dry_run) as project:
            found = project.examine(progress, derived=False)
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
