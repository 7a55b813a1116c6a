"""``export`` and ``import``: a store in one file, and back."""

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
            help="default: NAME-periplus.zip in this folder, NAME the project's folder's; - is standard output",
        )
        add(
            "--markdown",
            metavar="DIR",
            help="what the project knows as a folder of Markdown instead, for people; the same call renews it",
        )
        add("--force", action="store_true", help="with --markdown: over its files that somebody changed, too")
        add(
            "--damaged",
            action="store_true",
            help="of a damaged store, write what is left; the file says what is missing (exit code 3 where anything is)",
        )
        return
    add("file", metavar="FILE", help="a file that `periplus export` wrote; - is standard input")
    add(
        "folder",
        nargs="?",
        metavar="FOLDER",
        help="the folder of the project that gets the store, made where there is none (default: this one)",
    )
    add("--dry-run", action="store_true", help="verify the file, make nothing of it")
    add(
        "--damaged",
        action="store_true",
        help="take what was left of a damaged store, too: what is made of it misses the same until "
        "`doctor --repair --from` brings it (exit code 3)",
    )


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
    return _export(face, arguments.file, damaged=arguments.damaged)


def _markdown(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.common.schemas import MarkdownOut

    if arguments.damaged:
        raise UsageError(
            "--damaged is for a file, not for --markdown",
            safe="Nothing was written.",
            mend="Leave it out: pages are made of what can be read.",
        )
    if arguments.file is not None or not arguments.markdown:
        wrong = "a file and --markdown exclude each other" if arguments.file is not None else "--markdown is empty"
        raise UsageError(wrong, safe="Nothing was written.", mend="Write: periplus export --markdown DIR")
    if arguments.markdown == "-":
        raise UsageError(
            "--markdown writes a folder of pages, which standard output cannot take", safe="Nothing was written.",
            mend="Name a folder: periplus export --markdown DIR. To read on, see `periplus brief TASK` and `periplus recall QUESTION`.",
        )  # fmt: skip
    with face.open() as project:
        folder = face.path(plain(arguments.markdown, "--markdown"))
        done = project.export_markdown(folder, force=arguments.force, progress=face.progress("writing pages"))
    face.clear_progress()
    result = MarkdownOut(done.folder, done.entities, done.written, done.unchanged, done.removed)

    def lines() -> Iterator[str]:
        count = "1 entity" if done.entities == 1 else f"{done.entities:,} entities"
        yield f"{visible(done.folder)}: {count}; {done.written:,} file{'s' * (done.written != 1)} written, {done.unchanged:,} as they were, {done.removed:,} removed"
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
        how = verified if packed.is_whole else "as far as they are left"
        yield f"Wrote {visible(path)} ({size:,} bytes): {_told(packed)}, {how}"
        yield from _lost(face, packed)
        yield from _doubtful(face, packed)
        file = visible(shlex.quote(os.path.basename(path)))
        if not packed.is_whole:
            yield f"With another copy: periplus doctor --repair --from {file}, there"
        yield f"Elsewhere: periplus import{'' if packed.is_whole else ' --damaged'} {file} FOLDER"
        yield "  Private keys stay here: whoever imports it writes a lineage of their own."

    return face.emit(result, lines, 0 if packed.is_whole else 3)


def _export_out(face: Face, *, damaged: bool) -> int:
    """The file on standard output, whole before its first byte is written: who takes it up could not take half of it back."""
    import shutil
    import sys
    import tempfile

    from periplus.base.errors import EnvironmentFailure, UsageError, environment_failure
    from periplus.cli.common.face import give_up_output

    if face.as_json or face.stdout.isatty():
        raise UsageError(
            "--json says there what was written" if face.as_json else "the file is bytes, which no terminal shows",
            safe="Nothing was written.", mend="Name a FILE, or a pipe or a file behind: periplus export - > FILE",
        )  # fmt: skip
    with face.open() as project, tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "store.zip")
        packed = project.export(path, damaged=damaged, progress=face.progress("exporting"))
        face.clear_progress()
        try:
            with open(path, "rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        except BrokenPipeError as error:  # no end like that of `| head`: half of the file is none
            give_up_output()
            raise EnvironmentFailure(
                "whoever read standard output went away before the whole file was written",
                safe="The store is as it was; what was read cannot be imported.", mend="See why, and repeat it, or name a FILE.",
            ) from error  # fmt: skip
        except OSError as error:
            raise environment_failure(error, "write", "standard output") from error
    for line in (*_lost(face, packed), *_doubtful(face, packed)):
        face.stderr.write(line + "\n")
    return 0 if packed.is_whole else 3


def _document(path: str, packed: Packed, named: str = "") -> PackageOut:
    """``named`` - is the standard input or output."""
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
    """What in it is not sound though every record is."""
    for one in packed.doubts[:_SHOWN_MAX]:
        yield f"{face.palette.bad}unsound{face.palette.end}  {visible(one.path)}, which no record needs: {visible(one.what)}"
    if len(packed.doubts) > _SHOWN_MAX:
        yield f"         and {len(packed.doubts) - _SHOWN_MAX:,} more files: --json"


def _lost(face: Face, packed: Packed) -> Iterator[str]:
    """What a file that holds the rest of a damaged store has not got."""
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
        raise UsageError("standard input is a terminal, and the file is bytes", safe="Nothing was changed.",
                         mend="Name the FILE, or write: periplus import - FOLDER < FILE")  # fmt: skip
    with tempfile.TemporaryDirectory() as kept:
        path = os.path.join(kept, "store.zip")
        with open(path, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            return _import_file(face, arguments, path)
        except PeriplusError as error:
            if path in f"{error} {error.mend}":  # a name that is gone by then
                if isinstance(error, FormatError | DamageError):
                    error.path = "standard input"
                error.wrong = error.wrong.replace(path, "standard input")
                error.mend = "Save it to a file, and import that: what is said then names what can be done with it."
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
            yield f"what is left: {count}; nothing was made of it"
            yield from _lost(face, packed)
        elif arguments.dry_run:
            yield f"{face.palette.good}sound{face.palette.end}: {count}; nothing was made of it"
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
    """Make ``folder`` with those that it is to lie in; gives those that were made, the outermost first. Raises UsageError where
    something else is in the way, RefusedError within a store.
    """
    from periplus.base.errors import RefusedError, UsageError, environment_failure
    from periplus.base.filesystem.store_location import STORE_FOLDER

    if STORE_FOLDER in os.path.realpath(folder).split(os.sep):
        raise RefusedError(f"{folder} is a store, or lies in one", safe="It was not touched.",
                           mend="Import into another folder, then in this one: periplus sync --with THAT_FOLDER")  # fmt: skip
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
            return  # somebody put something in it


def _told(packed: Packed) -> str:
    return f"{counted(packed.records, 'records')}, {counted(packed.objects, 'objects')}"
