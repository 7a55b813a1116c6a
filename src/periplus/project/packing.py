"""A project's store in one file: examined, trails included, before it is written."""

from __future__ import annotations

__all__ = ["export", "import_from"]

import os
from typing import TYPE_CHECKING

from periplus.base.clock import SystemClock
from periplus.base.files import Files, PassingFiles
from periplus.journal.package import Flaw, export_store
from periplus.journal.reading import no_progress
from periplus.journal.transaction import Writer
from periplus.journal.unpacking import import_store

if TYPE_CHECKING:
    from periplus.base.clock import Clock
    from periplus.journal.package import Packed
    from periplus.journal.reading import Progress
    from periplus.project.project import Project


def export(project: Project, path: str, *, damaged: bool, progress: Progress | None) -> Packed:
    """See ``Project.export``. What keeps a store from being whole are errors; of a rest also what of its files is not sound."""

    def check() -> list[Flaw]:
        layout = project.journal.layout
        kept = (layout.objects + os.sep, layout.checkpoints + os.sep)
        return [
            Flaw(one.what, os.path.relpath(one.path or project.root, project.root), one.offset)
            for one in project.examine(progress, derived=False).problems
            if one.severity == "error" or (damaged and one.severity == "warning" and one.path.startswith(kept))
        ]

    return export_store(project.journal, path, damaged=damaged, check=check, progress=progress or no_progress)


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

    def check(root: str) -> list[str]:
        files = PassingFiles() if dry_run else Files()
        with kind(root, Writer("import", ""), clock=clock, files=files, has_files=not dry_run) as project:
            found = project.examine(progress, derived=False)
        return [f"{one.path}: {one.what}" for one in found.problems if one.severity == "error"]

    return import_store(
        path,
        folder,
        check=check,
        clock=clock or SystemClock(),
        dry_run=dry_run,
        damaged=damaged,
        progress=progress or no_progress,
    )
