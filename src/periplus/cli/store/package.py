"""``export`` and ``import``: write a store to one file, and read it back."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.cli.common.face import Face, counted, plain, visible

if TYPE_CHECKING:
    from periplus.cli.common.schemas import PackageOut
    from periplus.journal.exchange.package import Packed

_SHOWN_MAX = 20


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    add = parser.add_argument
    if command == "export":
        add(
            "file",
            nargs="?",
            metavar="FILE",
            help="the file to write, or - for standard output (default: PROJECT-periplus.zip in this folder)",
        )
        add(
            "--markdown",
            metavar="DIR",
            help="write the memory as a folder of Markdown pages instead; repeat to update it",
        )
        add("--force", action="store_true", help="with --markdown: also overwrite pages that somebody changed")
        add(
            "--damaged",
            action="store_true",
            help="export what is left of a damaged store; the file lists what is missing (exit code 3 if anything is)",
        )
        return
    add("file", metavar="FILE", help="a file that `periplus export` wrote; - is standard input")
    add(
        "folder",
        nargs="?",
        metavar="FOLDER",
        help="the project folder for the store, created if missing (default: this one)",
    )
    add("--dry-run", action="store_true", help="verify the file, create nothing")
    add(
        "--damaged",
        action="store_true",
        help="also import what was left of a damaged store; `doctor --repair --from` can restore the rest later (exit code 3)",
    )


def execute(face: Face, arguments: argparse.Namespace) -> int:
    if arguments.command == "import":
        return _import(face, arguments)
    if arguments.markdown is not None:
        return _markdown(face, arguments)
    if arguments.force:
        from periplus.base.errors import UsageError

        raise UsageError(
            "--force is for --markdown", safe="Nothing was written.", mend="An existing file is never replaced."
        )
    return _export(face, arguments.file, damaged=arguments.damaged)


def _markdown(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.common.schemas import MarkdownOut

    if arguments.damaged:
        raise UsageError(
            "--damaged is for a file, not for --markdown",
            safe="Nothing was written.",
            mend="Omit it: the pages contain what can be read.",
        )
    if arguments.file is not None or not arguments.markdown:
        wrong = "FILE and --markdown cannot be combined" if arguments.file is not None else "--markdown is empty"
        raise UsageError(wrong, safe="Nothing was written.", mend="Write: periplus export --markdown DIR")
    if arguments.markdown == "-":
        raise UsageError(
            "--markdown writes a folder of pages, which standard output cannot take", safe="Nothing was written.",
            mend="Name a folder: periplus export --markdown DIR. To read memory, use `periplus brief TASK` or `periplus recall QUESTION`.",
        )  # fmt: skip
    with face.open() as project:
        folder = face.path(plain(arguments.markdown, "--markdown"))
        done = project.export_markdown(folder, force=arguments.force, progress=face.progress("writing pages"))
    face.clear_progress()
    result = MarkdownOut(done.folder, done.entities, done.written, done.unchanged, done.removed)

    def lines() -> Iterator[str]:
        count = "1 entity" if done.entities == 1 else f"{done.entities:,} entities"
        yield f"{visible(done.folder)}: {count}; {done.written:,} file{'s' * (done.written != 1)} written, {done.unchanged:,} unchanged, {done.removed:,} removed"
        yield f"Begin with {visible(os.path.join(done.folder, 'README.md'))}"

    face.emit(result, lines)
    return 0


def _export(face: Face, name: str | None, *, damaged: bool) -> int:
    from periplus.cli.common.inputs import check_target

    if name == "-":
        return _export_out(face, damaged=damaged)
    if name and not os.path.lexists(os.path.join(face.cwd, name)):
        check_target(os.path.join(face.cwd, name))
    with face.open() as project:
        path = face.path(name or f"{os.path.basename(project.folder) or 'project'}-periplus.zip")
        packed = project.export(path, damaged=damaged, progress=face.progress("exporting"))
    face.clear_progress()
    size = os.path.getsize(path)
    result = _document(path, packed)

    def lines() -> Iterator[str]:
        import shlex

        verified = "every record verified" if packed.doubts else "verified"
        how = verified if packed.is_whole else "as far as they exist"
        yield f"Wrote {visible(path)} ({size:,} bytes): {_told(packed)}, {how}"
        yield from _lost(face, packed)
        yield from _doubtful(face, packed)
        file = visible(shlex.quote(os.path.basename(path)))
        if not packed.is_whole:
            yield f"With another copy: periplus doctor --repair --from {file}, there"
        yield f"Elsewhere: periplus import{'' if packed.is_whole else ' --damaged'} {file} FOLDER"
        yield "  Private keys are not included; an import starts a lineage of its own."

    return face.emit(result, lines, 0 if packed.is_whole else 3)


def _export_out(face: Face, *, damaged: bool) -> int:
    """Write the export to standard output. The file is complete before its first byte is written, because the reader could not undo half of it."""
    import shutil
    import sys
    import tempfile

    from periplus.base.errors import EnvironmentFailure, UsageError, environment_failure
    from periplus.cli.common.face import give_up_output

    if face.as_json or face.stdout.isatty():
        raise UsageError(
            "--json also writes to standard output" if face.as_json else "the file is binary and cannot be shown on a terminal",
            safe="Nothing was written.", mend="Name a FILE, or redirect: periplus export - > FILE",
        )  # fmt: skip
    with face.open() as project, tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "store.zip")
        packed = project.export(path, damaged=damaged, progress=face.progress("exporting"))
        face.clear_progress()
        try:
            with open(path, "rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        except BrokenPipeError as error:  # unlike `| head`: half a file is useless
            give_up_output()
            raise EnvironmentFailure(
                "the reader of standard output closed it before the whole file was written",
                safe="The store is unchanged; the partial file cannot be imported.", mend="Check the reader and repeat, or name a FILE.",
            ) from error  # fmt: skip
        except OSError as error:
            raise environment_failure(error, "write", "standard output") from error
    for line in (*_lost(face, packed), *_doubtful(face, packed)):
        face.stderr.write(line + "\n")
    return 0 if packed.is_whole else 3


def _document(path: str, packed: Packed, named: str = "") -> PackageOut:
    """Build the document. The name - stands for standard input or output."""
    from periplus.cli.common.schemas import FlawOut, MissingOut, PackageOut

    missing = [
        MissingOut(one.lineage, one.first_seq, one.last_seq, one.path, one.offset, one.why) for one in packed.missing
    ]
    flaws = [FlawOut(one.what, one.path, one.offset) for one in packed.flaws]
    return PackageOut(
        named if named == "-" else path,
        packed.store_id,
        packed.files,
        packed.records,
        packed.objects,
        packed.bytes,
        os.path.getsize(path),
        missing,
        flaws,
        [FlawOut(one.what, one.path, one.offset) for one in packed.doubts],
    )


def _doubtful(face: Face, packed: Packed) -> Iterator[str]:
    """Yield lines about damaged files that no record uses."""
    for one in packed.doubts[:_SHOWN_MAX]:
        yield f"{face.palette.bad}unsound{face.palette.end}  {visible(one.path)}, which no record uses: {visible(one.what)}"
    if len(packed.doubts) > _SHOWN_MAX:
        yield f"         and {len(packed.doubts) - _SHOWN_MAX:,} more files: --json"


def _lost(face: Face, packed: Packed) -> Iterator[str]:
    """Yield lines about what is missing in the export of a damaged store."""
    paint = face.palette
    for one in packed.missing[:_SHOWN_MAX]:
        yield f"{paint.bad}missing{paint.end}  {visible(str(one))}: {visible(one.why)} ({visible(one.path)}, byte {one.offset:,})"
    if len(packed.missing) > _SHOWN_MAX:
        yield f"         and {len(packed.missing) - _SHOWN_MAX:,} more ranges: --json"
    from periplus.journal.exchange.package import DAMAGED_MEMBER

    damaged = [one for one in packed.flaws if one.what.startswith(DAMAGED_MEMBER)]
    for flaw in damaged[:_SHOWN_MAX]:
        yield f"{paint.bad}damaged{paint.end}  {visible(flaw.path)}:{visible(flaw.what.removeprefix(DAMAGED_MEMBER).removeprefix(':') or ' not as it was written')}"
    if len(damaged) > _SHOWN_MAX:
        yield f"         and {len(damaged) - _SHOWN_MAX:,} more files: --json"
    if count := len(packed.flaws) - len(damaged):
        yield f"         {count:,} thing{'s' * (count != 1)} that `periplus doctor` found {'is' if count == 1 else 'are'} named in the file"


def _import(face: Face, arguments: argparse.Namespace) -> int:
    if arguments.file != "-":
        return _import_file(face, arguments, face.path(arguments.file))
    import shutil
    import sys
    import tempfile

    from periplus.base.errors import DamageError, FormatError, PeriplusError, UsageError

    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("standard input is a terminal, and the file is binary", safe="Nothing was changed.",
                         mend="Name the FILE, or write: periplus import - FOLDER < FILE")  # fmt: skip
    with tempfile.TemporaryDirectory() as kept:
        path = os.path.join(kept, "store.zip")
        with open(path, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            return _import_file(face, arguments, path)
        except PeriplusError as error:
            if path in f"{error} {error.mend}":  # a temporary name
                if isinstance(error, FormatError | DamageError):
                    error.path = "standard input"
                error.wrong = error.wrong.replace(path, "standard input")
                error.mend = "Save it to a file and import that, to get a more precise message."
            raise


def _import_file(face: Face, arguments: argparse.Namespace, path: str) -> int:
    from periplus.cli.common.inputs import check_file
    from periplus.project import Project

    folder = os.path.normpath(os.path.join(face.cwd, plain(arguments.folder or ".", "FOLDER")))
    check_file(path)
    made = _make_folder(folder)
    is_kept = False
    try:
        packed = Project.import_from(
            path, folder, dry_run=arguments.dry_run, damaged=arguments.damaged, progress=face.progress("importing")
        )
        is_kept = not arguments.dry_run
    finally:
        if not is_kept:
            _remove_folders(made)
    face.clear_progress()
    result = _document(path, packed, arguments.file)

    def lines() -> Iterator[str]:
        import shlex

        count = _told(packed)
        if arguments.dry_run and not packed.is_whole:
            yield f"incomplete: {count}; nothing was created"
            yield from _lost(face, packed)
        elif arguments.dry_run:
            yield f"{face.palette.good}intact{face.palette.end}: {count}; nothing was created"
            yield from _doubtful(face, packed)
        else:
            if made:
                yield f"Made the folder {visible(folder)}"
            yield f"Made the store {visible(os.path.join(folder, '.periplus'))}: {count}, every {'record' if packed.doubts else 'one'} verified"
            yield from _lost(face, packed)
            yield from _doubtful(face, packed)
            where = os.path.relpath(folder, face.cwd)
            go = "" if where == os.curdir else f"cd {visible(shlex.quote(where))} && "
            yield f"Next: {go}periplus {'status' if packed.is_whole else 'doctor --repair --from COPY'}"

    return face.emit(result, lines, 0 if packed.is_whole else 3)


def _make_folder(folder: str) -> list[str]:
    """Create ``folder`` and its parents; return the created ones, the outermost first. Raises UsageError if something else is in
    the way, RefusedError within a store.
    """
    from periplus.base.errors import RefusedError, UsageError, environment_failure
    from periplus.base.filesystem.store_location import STORE_FOLDER

    if STORE_FOLDER in os.path.realpath(folder).split(os.sep):
        raise RefusedError(f"{folder} is a store, or is inside one", safe="It was not changed.",
                           mend="Import into another folder, then sync here: periplus sync --with THAT_FOLDER")  # fmt: skip
    missing: list[str] = []
    above = folder
    while not os.path.lexists(above):
        missing.insert(0, above)
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise UsageError(f"{above} is not a folder", safe="Nothing was changed.", mend="Name another FOLDER.")
    made: list[str] = []
    for one in missing:
        try:
            os.mkdir(one)
        except OSError as error:
            _remove_folders(made)
            raise environment_failure(error, "make", one) from error
        made.append(one)
    return made


def _remove_folders(made: list[str]) -> None:
    for one in reversed(made):
        try:
            os.rmdir(one)
        except OSError:
            return  # no longer empty


def _told(packed: Packed) -> str:
    return f"{counted(packed.records, 'records')}, {counted(packed.objects, 'objects')}"
