"""``trail import | list | show | verify``: the records of agent runs."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.face import Face, counted, number, plain, visible

if TYPE_CHECKING:
    from periplus.cli.schemas import FileOut, TrailOut
    from periplus.project import ImportedTrail, TrailFile
    from periplus.trail import Form, ObjectReader, TrailReader

_FOUND_MAX: Final = 100
_NARROW: Final = 80
_AROUND: Final = 3


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "trail"
    commands = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, text: str) -> argparse.ArgumentParser:
        description = text[0].upper() + text[1:] + "."
        return commands.add_parser(name, help=text, description=description, allow_abbrev=False)

    add = action("import", "make trails of agents' session files, or of git history").add_argument
    add("files", nargs="*", metavar="FILE", help="a session file of Claude Code or Codex")
    add("--git", nargs="?", const=".", metavar="REPOSITORY", help="the history of a repository (default: this one)")
    add("--found", action="store_true", help="every session of this project that is found on this machine")
    add("--format", choices=("claude-code", "codex"), help="what the files are (default: told from their content)")
    add(
        "--max-commits", type=number(1), default=10_000, metavar="N", help="of a history, the newest N (default: 10000)"
    )
    action("list", "the trails of this store")
    add = action("show", "the listing of a trail").add_argument
    add("trail", metavar="TRAIL", help="an id, a digest (or the beginning of either), or a file")
    forms = "how much of each step, json being one document a line (default: text)"
    add("--form", choices=("text", "verbose", "compact", "json"), default="text", help=forms)
    add("--at", type=number(0), metavar="N", help=f"only step N and the {_AROUND} before and behind it")
    add("--limit", type=number(1), metavar="N", help="at most N lines")
    add = action("verify", "check trails, byte by byte").add_argument
    add("trails", nargs="*", metavar="TRAIL", help="ids, digests or files (default: every trail of the store)")
    add("--key", metavar="HEX|FILE", help="the Ed25519 public key that must have signed it")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    return {"import": _import, "list": _list, "show": _show, "verify": _verify}[arguments.action](face, arguments)


def _import(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import NotFoundError, PeriplusError, UsageError
    from periplus.cli.convert import trail_out
    from periplus.cli.inputs import check_file, sessions_of
    from periplus.cli.schemas import FailureOut, TrailImportOut

    done: list[ImportedTrail] = []
    failed: list[tuple[str, PeriplusError]] = []
    with face.open() as project:
        paths = [os.path.join(face.cwd, path) for path in arguments.files]
        found = [one.path for one in sessions_of(project.folder, face.home)] if arguments.found else []
        paths += found[:_FOUND_MAX]
        if not paths and arguments.git is None:
            if arguments.found:
                raise NotFoundError(
                    f"no session of {project.folder} was found on this machine", mend="Name a session file."
                )
            raise UsageError("nothing to import", mend="Name a session FILE, or give --git or --found.")
        if arguments.git is not None:
            repository = os.path.join(face.cwd, arguments.git)
            done.append(
                project.import_git(repository, commits_max=arguments.max_commits, progress=face.progress("git history"))
            )
        for path in paths:
            try:
                check_file(path)
                progress = face.progress(os.path.basename(path))
                done.append(project.import_transcript(path, source_format=arguments.format, progress=progress))
            except PeriplusError as error:
                if len(paths) == 1 and not done:
                    raise
                failed.append((path, error))
                if not isinstance(error, UsageError):
                    break  # the store or the machine, not the file: the next one would fare no better
            finally:
                face.clear_progress()
    for _, trouble in failed:
        rest = f"{trouble.safe} {trouble.mend}".strip()
        face.stderr.write(f"periplus: {visible(str(trouble))}\n{visible(rest)}\n")
    left_out = max(0, len(found) - _FOUND_MAX)
    if left_out:
        face.stderr.write(f"periplus: {left_out} older sessions were found and not imported; name their files.\n")
    failures = [FailureOut(path, str(trouble), trouble.mend) for path, trouble in failed]
    result = TrailImportOut([trail_out(imported) for imported in done], failures, left_out)
    face.emit(result, lambda: (line for trail in result.trails for line in _import_lines(face, trail, "")))
    return failed[0][1].exit_code if failed else 0


def _import_lines(face: Face, trail: TrailOut, indent: str) -> Iterator[str]:
    value, paint = trail.value, face.palette
    counts: dict[str, int] = value.get("counts", {})
    state = "imported" if trail.changed else "known already, nothing changed"
    yield f"{indent}{paint.name}{trail.id}{paint.end}  {state}  {visible(value.get('title', ''), 70)}".rstrip()
    yield f"{indent}  {value['format']}: " + ", ".join(counted(count, name) for name, count in counts.items())
    for label in ("skipped", "unknown"):
        if value.get(label):
            kinds = ", ".join(f"{visible(kind, 40)} {count:,}" for kind, count in list(value[label].items())[:8])
            yield f"{indent}  {label}: {kinds}"
    if value.get("masked"):
        yield f"{indent}  {paint.warn}{value['masked']} secrets masked{paint.end}"
    for child in trail.children:
        yield from _import_lines(face, child, indent + "  ")


def _list(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.convert import entity_out
    from periplus.cli.schemas import TrailListOut

    del arguments
    with face.open() as project:
        trails = list(project.trails())
        face.warn(project.journal.damage)
    result = TrailListOut([entity_out(trail) for trail in trails])

    def lines() -> Iterator[str]:
        paint, width = face.palette, face.width
        for trail in trails:
            value = trail.value
            counts = value.get("counts")
            steps = counts.get("steps", 0) if isinstance(counts, dict) else 0
            started, source = visible(str(value.get("started", ""))[:16]), visible(str(value.get("format")))
            title = str(value.get("title", ""))
            if width is not None and width < _NARROW:
                yield f"{paint.name}{trail.item_id}{paint.end}  {steps:>7,} steps"
                yield f"  {started:16}  {visible(title, width - 20)}"
                continue
            rest = f"  {started:16}  {source:11} {steps:>7,} steps  "
            room = width - len(trail.item_id) - len(rest) if width else None
            yield f"{paint.name}{trail.item_id}{paint.end}{rest}{visible(title, room)}"
        if not trails:
            yield "No trails yet. Next: periplus trail import FILE, or --git, or --found"

    face.emit(result, lines)
    return 0


def _show(face: Face, arguments: argparse.Namespace) -> int:
    from itertools import islice

    from periplus.base.errors import NotFoundError, PeriplusError
    from periplus.trail import listing

    found, store = _trail(face, arguments.trail)
    reader = _reader(found)

    def read(digest: bytes) -> bytes | None:
        try:
            return store.get(digest) if store is not None else None
        except PeriplusError:
            return None  # the listing shows the reference; doctor says what is wrong with the object

    at: int | None = arguments.at
    if at is not None and at >= reader.step_count:
        steps = f"steps 0 to {reader.step_count - 1:,}" if reader.step_count else "no steps"
        raise NotFoundError(f"there is no step {at:,} in {found.name}: it has {steps}", mend="Give another --at.")
    form: Form = "json" if face.as_json else arguments.form
    lines = listing(reader, form, width=face.width, colour=bool(face.palette.bold) and form != "json", read_text=read)
    if at is not None:
        lines = _around(lines, form, at)
    for line in islice(_guarded(lines, found), arguments.limit):
        face.out(line)
    return 0


def _around(lines: Iterator[str], form: Form, at: int) -> Iterator[str]:
    """The lines of the steps near step ``at``: a step begins with a line that begins with its number."""
    import re

    number = re.compile(r'^\{"kind":"step","index":(\d+)' if form == "json" else r"^(?:\x1b\[[0-9;]*m)*\s{0,3}(\d+)\b")
    is_near = False
    for line in lines:
        match = number.match(line)
        if match:
            is_near = abs(int(match[1]) - at) <= _AROUND
        elif form != "verbose" or line.lstrip("\x1b[0123456789m").startswith(";"):
            is_near = False
        if is_near:
            yield line


def _trail(face: Face, name: str) -> tuple[TrailFile, ObjectReader | None]:
    """The trail, and the objects of the store at hand; a file is read whatever the state of the store may be."""
    from periplus.base.errors import PeriplusError
    from periplus.cli.inputs import read_file
    from periplus.project import TrailFile
    from periplus.project.project import TRAIL_FILE_BYTES_MAX

    if not os.path.isfile(name):
        plain(name, "TRAIL")
        with face.open() as project:
            return project.trail_bytes(name), project.journal.objects
    found = TrailFile(name, read_file(name, TRAIL_FILE_BYTES_MAX))
    try:
        with face.open() as project:
            return found, project.journal.objects
    except PeriplusError:
        if face.store_option is not None:
            raise
        return found, None  # long texts are shown by their digests


def _reader(found: TrailFile) -> TrailReader:
    """A reader whose errors name the file."""
    from periplus.base.container import KIND_TRAIL, MAGIC
    from periplus.base.errors import DamageError, FormatError, NewerFormatError
    from periplus.trail import TrailReader

    try:
        return TrailReader(found.data)
    except NewerFormatError as error:
        error.path = found.name
        raise
    except FormatError as error:
        safe = "The file was only read."
        if found.data[:4] != MAGIC or found.data[5:6] != bytes((KIND_TRAIL,)):
            mend = "Make a trail of a session with `periplus trail import`."
            raise FormatError("not a trail of Periplus", path=found.name, safe=safe, mend=mend) from error
        raise DamageError(error.wrong, path=found.name, offset=error.offset, safe=safe,
                          mend="`periplus trail verify` says more.") from error  # fmt: skip


def _guarded(lines: Iterator[str], found: TrailFile) -> Iterator[str]:
    """The lines up to where the trail turns out to be damaged."""
    from periplus.base.errors import DamageError, FormatError

    try:
        yield from lines
    except FormatError as error:
        raise DamageError(error.wrong, path=found.name, offset=error.offset, safe="What was listed before it is sound.",
                          mend="`periplus trail verify` says more.") from error  # fmt: skip


def _verify(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.schemas import TrailVerifyOut

    key = _key(arguments.key)
    files = [_verified(*found, key) for found in _to_verify(face, arguments.trails)]
    is_ok = all(file.ok for file in files)

    def lines() -> Iterator[str]:
        paint = face.palette
        for file in files:
            mark = f"{paint.good}verified{paint.end}" if file.ok else f"{paint.bad}WRONG{paint.end}"
            yield f"{mark}  {visible(file.name)}  {visible(file.summary)}"
            if file.ok and len(files) > 1:
                continue
            reached = [check for check in file.checks if check.detail != "not reached"]
            for check in reached:
                yield f"  {check.verdict:8} {check.name:10} {visible(check.detail)}"
            if len(reached) < len(file.checks):
                yield f"  {len(file.checks) - len(reached)} more checks were not reached"
        if not files:
            yield "No trails to verify."

    face.emit(TrailVerifyOut(is_ok, files), lines)
    return 0 if is_ok else 3


def _verified(found: TrailFile, store: ObjectReader | None, trouble: str, key: bytes | None) -> FileOut:
    from periplus.cli.schemas import FileOut, TrailCheckOut
    from periplus.trail import verify

    if trouble:
        return FileOut(found.name, "", False, trouble, None, [TrailCheckOut("object", "error", trouble)])
    report = verify(found.data, store=store, key=key)
    checks = [TrailCheckOut(check.name, check.verdict, check.detail) for check in report.checks]
    return FileOut(found.name, report.digest.hex(), report.ok, report.summary, report.offset, checks)


def _to_verify(face: Face, names: list[str]) -> Iterator[tuple[TrailFile, ObjectReader | None, str]]:
    """Each trail with the store of its objects; or the reason why its bytes cannot be had."""
    from periplus.base.errors import DamageError, NotFoundError
    from periplus.project import TrailFile

    if names:
        for name in names:
            try:
                yield (*_trail(face, name), "")
            except DamageError as error:
                yield TrailFile(name, b""), None, str(error)
        return
    with face.open() as project:
        for trail in project.trails():
            try:
                yield project.trail_bytes(trail.item_id), project.journal.objects, ""
            except (DamageError, NotFoundError) as error:
                yield TrailFile(trail.item_id, b""), None, str(error)


def _key(text: str | None) -> bytes | None:
    from periplus.cli.inputs import read_public_key

    return None if text is None else read_public_key(text)
