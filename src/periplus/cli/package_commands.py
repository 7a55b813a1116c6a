"""``export`` and ``import``: a store in one file, and back."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.cli.face import Face, counted, plain, visible

if TYPE_CHECKING:
    from periplus.journal.package import Packed


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    add = parser.add_argument
    if command == "export":
        add(
            "file",
            nargs="?",
            metavar="FILE",
            help="default: NAME-periplus.zip in this folder, NAME the project's folder's",
        )
        add(
            "--markdown",
            metavar="DIR",
            help="what the project knows as a folder of Markdown instead, for people; the same call renews it",
        )
        add("--force", action="store_true", help="with --markdown: over its files that somebody changed, too")
        return
    add("file", metavar="FILE", help="a file that `periplus export` wrote")
    add("folder", nargs="?", metavar="FOLDER", help="the folder of the project that gets the store (default: this one)")
    add("--dry-run", action="store_true", help="verify the file, make nothing of it")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    if arguments.command == "import":
        return _import(face, arguments)
    if arguments.markdown is not None:
        return _markdown(face, arguments)
    if arguments.force:
        from periplus.base.errors import UsageError

        raise UsageError(
            "--force is for --markdown", safe="Nothing was written.", mend="A file that is there is never replaced."
        )
    return _export(face, arguments.file)


def _markdown(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.schemas import MarkdownOut

    if arguments.file is not None or not arguments.markdown:
        wrong = "a file and --markdown exclude each other" if arguments.file is not None else "--markdown is empty"
        raise UsageError(wrong, safe="Nothing was written.", mend="Write: periplus export --markdown DIR")
    with face.open() as project:
        folder = os.path.join(face.cwd, plain(arguments.markdown, "--markdown"))
        done = project.export_markdown(folder, force=arguments.force, progress=face.progress("writing pages"))
    face.clear_progress()
    result = MarkdownOut(done.folder, done.entities, done.written, done.unchanged, done.removed)

    def lines() -> Iterator[str]:
        count = "1 entity" if done.entities == 1 else f"{done.entities:,} entities"
        yield f"{visible(done.folder)}: {count}; {done.written:,} file{'s' * (done.written != 1)} written, {done.unchanged:,} as they were, {done.removed:,} removed"
        yield f"Begin with {visible(os.path.join(done.folder, 'README.md'))}"

    face.emit(result, lines)
    return 0


def _export(face: Face, name: str | None) -> int:
    from periplus.cli.inputs import check_target
    from periplus.cli.schemas import PackageOut

    if name and not os.path.lexists(os.path.join(face.cwd, name)):
        check_target(os.path.join(face.cwd, name))
    with face.open() as project:
        path = os.path.join(face.cwd, name or f"{os.path.basename(project.folder) or 'project'}-periplus.zip")
        packed = project.export(path, progress=face.progress("exporting"))
    face.clear_progress()
    size = os.path.getsize(path)
    result = PackageOut(path, packed.store_id, packed.files, packed.records, packed.objects, packed.bytes, size)

    def lines() -> Iterator[str]:
        import shlex

        yield f"Wrote {visible(path)} ({size:,} bytes): {_told(packed)}, verified"
        yield f"Elsewhere: periplus import {visible(shlex.quote(os.path.basename(path)))} FOLDER"
        yield "  Private keys stay here: whoever imports it writes a lineage of his own."

    face.emit(result, lines)
    return 0


def _import(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.schemas import PackageOut
    from periplus.project import Project

    folder = os.path.normpath(os.path.join(face.cwd, arguments.folder or "."))
    if not os.path.isdir(folder):
        raise UsageError(
            f"{folder} is not a folder", safe="Nothing was changed.", mend="Make it first: mkdir -p FOLDER"
        )
    path = os.path.join(face.cwd, arguments.file)
    packed = Project.import_from(path, folder, dry_run=arguments.dry_run, progress=face.progress("importing"))
    face.clear_progress()
    result = PackageOut(
        path, packed.store_id, packed.files, packed.records, packed.objects, packed.bytes, os.path.getsize(path)
    )

    def lines() -> Iterator[str]:
        count = _told(packed)
        if arguments.dry_run:
            yield f"{face.palette.good}sound{face.palette.end}: {count}; nothing was made of it"
        else:
            yield f"Made the store {visible(os.path.join(folder, '.periplus'))}: {count}, every one verified"
            yield "Next: periplus status"

    face.emit(result, lines)
    return 0


def _told(packed: Packed) -> str:
    return f"{counted(packed.records, 'records')}, {counted(packed.objects, 'objects')}"
