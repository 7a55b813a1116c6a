"""``periplus trail import``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.face import Face, counted, number, visible

if TYPE_CHECKING:
    from periplus.cli.trail_schemas import TrailOut
    from periplus.project import ImportedTrail

_FOUND_MAX: Final = 100


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="a session file of an agent")
    add("--git", nargs="?", const=".", metavar="REPOSITORY", help="the history of a repository (default: this one)")
    add("--found", action="store_true", help="every session of this project that is found on this machine")
    add("--format", metavar="FORMAT", help="what the files are, such as claude-code (default: told from their content)")
    add(
        "--max-commits", type=number(1), default=10_000, metavar="N", help="of a history, the newest N (default: 10000)"
    )


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import NotFoundError, PeriplusError, UsageError
    from periplus.cli.convert import trail_out
    from periplus.cli.inputs import check_file, sessions_of
    from periplus.cli.trail_schemas import FailureOut, TrailImportOut

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
                done += project.import_transcripts(path, source_format=arguments.format, progress=progress)
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
