"""``trail import | list | show | verify``: the records of agent runs."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.face import Face, visible

if TYPE_CHECKING:
    from periplus.cli.schemas import TrailOut
    from periplus.project import ImportedTrail, Project
    from periplus.trail import Form, ObjectReader

_FOUND_MAX: Final = 100


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "trail"
    commands = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = commands.add_parser("import", help="make trails of agents' session files, or of git history").add_argument
    add("files", nargs="*", metavar="FILE", help="a session file of Claude Code or Codex")
    add("--git", nargs="?", const=".", metavar="REPOSITORY", help="the history of a repository (default: this one)")
    add("--found", action="store_true", help="every session of this project that is found on this machine")
    add("--format", choices=("claude-code", "codex"), help="default: told from the content")
    add("--max-commits", type=int, default=10_000, metavar="N", help="of a history, the newest N (default: 10000)")
    commands.add_parser("list", help="the trails of this store")
    add = commands.add_parser("show", help="the listing of a trail").add_argument
    add("trail", metavar="TRAIL", help="an id, a digest (or the beginning of either), or a file")
    add("--form", choices=("text", "verbose", "compact", "json"), default="text", help="default: text")
    add("--at", type=int, metavar="N", help="around step N only")
    add("--limit", type=int, metavar="N", help="at most N lines")
    add = commands.add_parser("verify", help="check trails, byte by byte").add_argument
    add("trails", nargs="*", metavar="TRAIL", help="ids, digests or files (default: every trail of the store)")
    add("--key", metavar="HEX|FILE", help="the Ed25519 public key that must have signed it")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    return {"import": _import, "list": _list, "show": _show, "verify": _verify}[arguments.action](face, arguments)


def _import(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import PeriplusError, UsageError
    from periplus.cli.convert import trail_out
    from periplus.cli.schemas import TrailImportOut

    done: list[ImportedTrail] = []
    failed: list[tuple[str, PeriplusError]] = []
    with face.open() as project:
        paths = [os.path.join(face.cwd, path) for path in arguments.files]
        if arguments.found:
            paths += _found(face, project)
        if not paths and arguments.git is None:
            raise UsageError("nothing to import", mend="Name a session FILE, or give --git or --found.")
        if arguments.git is not None:
            if arguments.max_commits < 1:
                raise UsageError("--max-commits is at least 1")
            repository = os.path.join(face.cwd, arguments.git)
            done.append(
                project.import_git(repository, commits_max=arguments.max_commits, progress=face.progress("git history"))
            )
        for path in paths:
            try:
                progress = face.progress(os.path.basename(path))
                done.append(project.import_transcript(path, source_format=arguments.format, progress=progress))
            except PeriplusError as error:
                if len(paths) == 1 and not done:
                    raise
                failed.append((path, error))
            face.clear_progress()
    for _, trouble in failed:
        rest = f"{trouble.safe} {trouble.mend}".strip()
        face.stderr.write(f"periplus: {visible(str(trouble))}\n{visible(rest)}\n")
    result = TrailImportOut([trail_out(imported) for imported in done])
    face.emit(result, lambda: (line for trail in result.trails for line in _import_lines(face, trail, "")))
    return failed[0][1].exit_code if failed else 0


def _found(face: Face, project: Project) -> list[str]:
    from periplus.base.errors import NotFoundError
    from periplus.interop import find_sessions

    here = os.path.realpath(project.folder)
    mine = [
        session.path for session in find_sessions(face.home)
        if session.cwd is not None and (os.path.realpath(session.cwd) + os.sep).startswith(here + os.sep)
    ]  # fmt: skip
    if not mine:
        raise NotFoundError(f"no session of {here} was found on this machine", mend="Name a session file.")
    return mine[:_FOUND_MAX]


def _import_lines(face: Face, trail: TrailOut, indent: str) -> Iterator[str]:
    value, paint = trail.value, face.palette
    counts: dict[str, int] = value.get("counts", {})
    state = "imported" if trail.changed else "known already, nothing changed"
    yield f"{indent}{paint.name}{trail.id}{paint.end}  {state}  {visible(value.get('title', ''), 70)}"
    yield f"{indent}  {value['format']}: " + ", ".join(
        f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items()
    )
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
    result = TrailListOut([entity_out(trail) for trail in trails])

    def lines() -> Iterator[str]:
        paint, width = face.palette, face.width
        for trail in trails:
            value = trail.value
            counts = value.get("counts")
            steps = counts.get("steps", 0) if isinstance(counts, dict) else 0
            started, source = str(value.get("started", ""))[:16], str(value.get("format"))
            head = f"{trail.item_id}  {started:16}  {source:11} {steps:>7,} steps  "
            room = max(10, width - len(head)) if width else None
            yield head.replace(trail.item_id, f"{paint.name}{trail.item_id}{paint.end}") + visible(
                str(value.get("title", "")), room
            )
        if not trails:
            yield "No trails yet. Next: periplus trail import FILE, or --git, or --found"

    face.emit(result, lines)
    return 0


def _show(face: Face, arguments: argparse.Namespace) -> int:
    from itertools import islice

    from periplus.base.errors import PeriplusError
    from periplus.trail import TrailReader, listing

    if os.path.isfile(arguments.trail) and face.store is None and not _has_store(face):
        data, read = _file_bytes(arguments.trail), None
        reader = _placed_reader(arguments.trail, data)
    else:
        with face.open() as project:
            found = project.trail_bytes(arguments.trail)
            reader = _placed_reader(found.name, found.data)
            objects = project.journal.objects

        def read(digest: bytes) -> bytes | None:
            try:
                return objects.get(digest)
            except PeriplusError:
                return None  # the listing shows the reference; doctor says what is wrong with the object

    assert isinstance(reader, TrailReader)
    form: Form = "json" if face.as_json else arguments.form
    lines = listing(reader, form, width=face.width, colour=bool(face.palette.bold) and form != "json", read_text=read)
    if arguments.at is not None and form in ("text", "compact"):
        lines = _around(lines, arguments.at)
    for line in islice(lines, arguments.limit):
        face.out(line)
    return 0


def _around(lines: Iterator[str], at: int, context: int = 3) -> Iterator[str]:
    """The lines of the steps near step ``at``: a step's line begins with its number."""
    import re

    number = re.compile(r"^(?:\x1b\[[0-9;]*m)*\s*(\d+)\b")
    for line in lines:
        match = number.match(line)
        if match and abs(int(match[1]) - at) <= context:
            yield line


def _has_store(face: Face) -> bool:
    from periplus.base.errors import NotAStoreError
    from periplus.journal import find_root

    try:
        find_root(face.cwd, face.store)
    except NotAStoreError:
        return False
    return True


def _file_bytes(path: str) -> bytes:
    from periplus.base.errors import environment_failure

    try:
        with open(path, "rb") as file:
            return file.read((1 << 30) + 1)
    except OSError as error:
        raise environment_failure(error, "read", path) from error


def _placed_reader(name: str, data: bytes) -> object:
    """A reader whose errors name the file."""
    from periplus.base.errors import DamageError, FormatError, NewerFormatError
    from periplus.trail import TrailReader

    try:
        return TrailReader(data)
    except NewerFormatError as error:
        error.path = name
        raise
    except FormatError as error:
        raise DamageError(error.wrong, path=name, offset=error.offset, safe="The file was only read.",
                          mend="`periplus trail verify` says more.") from error  # fmt: skip


def _verify(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.schemas import FileOut, TrailCheckOut, TrailVerifyOut
    from periplus.trail import verify

    key = _key(arguments.key)
    files = []
    for name, data, store in _to_verify(face, arguments.trails):
        report = verify(data, store=store, key=key)
        checks = [TrailCheckOut(check.name, check.verdict, check.detail) for check in report.checks]
        digest = report.digest.hex()
        files.append(FileOut(name, digest, report.ok, report.summary, report.offset, checks))
    is_ok = all(file.ok for file in files)

    def lines() -> Iterator[str]:
        paint = face.palette
        for file in files:
            mark = f"{paint.good}verified{paint.end}" if file.ok else f"{paint.bad}WRONG{paint.end}"
            yield f"{mark}  {visible(file.name)}  {visible(file.summary)}"
            if not file.ok or len(files) == 1:
                for check in file.checks:
                    yield f"  {check.verdict:8} {check.name:10} {visible(check.detail)}"
        if not files:
            yield "No trails to verify."

    face.emit(TrailVerifyOut(is_ok, files), lines)
    return 0 if is_ok else 3


def _to_verify(face: Face, names: list[str]) -> Iterator[tuple[str, bytes, ObjectReader | None]]:
    if names and all(os.path.isfile(name) for name in names) and not _has_store(face):
        for name in names:
            yield name, _file_bytes(name), None
        return
    with face.open() as project:
        store = project.journal.objects
        for name in names or [trail.item_id for trail in project.trails()]:
            found = project.trail_bytes(name)
            yield found.name, found.data, store


def _key(text: str | None) -> bytes | None:
    from periplus.cli.keys import read_public_key

    return None if text is None else read_public_key(text)
