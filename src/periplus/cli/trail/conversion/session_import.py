"""``periplus trail import``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, counted, number, visible

if TYPE_CHECKING:
    from periplus.base.errors import PeriplusError
    from periplus.cli.trail.schemas import FailureOut, ImportedFileOut, TrailOut
    from periplus.project import ImportedTrail, Project

_FOUND_MAX: Final = 1000


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="a session file of a coding agent")
    add(
        "--git",
        nargs="?",
        const=".",
        metavar="REPOSITORY",
        help="import the history of a repository (default: this one)",
    )
    add(
        "--kept",
        nargs="?",
        const=".",
        metavar="REPOSITORY",
        help="import the sessions that Entire and git-ai keep in the refs of a repository (default: this one)",
    )
    add("--all", action="store_true", help="import every session of this project found on this machine")
    add("--found", dest="all", action="store_true", help="an older name of --all")
    add(
        "--follow",
        action="store_true",
        help="keep importing what is added to the files, until Ctrl-C; with --json, one document a line",
    )
    add("--format", metavar="FORMAT", help="the format of the files, such as claude-code (default: detected)")
    add(
        "--max-commits",
        type=number(1),
        default=10_000,
        metavar="N",
        help="with --git: at most the newest N commits (default: 10000); the others are only counted",
    )


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import NotFoundError, UsageError

    for option, value in (("--git", arguments.git), ("--kept", arguments.kept)):
        if arguments.follow and value is not None:
            raise UsageError(f"--follow is for session files, not for {option}", safe="Nothing was changed.")
    with face.open() as project:
        named = [face.path(path) for path in arguments.files]
        if arguments.follow and (named or arguments.all):
            return _follow(face, project, arguments, named)
        found = _found(face, project) if arguments.all else []
        if not named and not found and arguments.git is None and arguments.kept is None:
            if arguments.all:
                _tell_of_kept(face, project)
                raise NotFoundError(
                    f"no session of {project.folder} was found on this machine", mend="Name a session file."
                )
            raise UsageError("nothing to import", mend="Name a session FILE, or give --all, --git or --kept.")
        return _import(face, project, arguments, named, found)


def _found(face: Face, project: Project) -> list[str]:
    from periplus.cli.common.inputs import sessions_of

    return [one.path for one in sessions_of(project.root, face.home, face.environment)]


def _import(face: Face, project: Project, arguments: argparse.Namespace, named: list[str], found: list[str]) -> int:
    from periplus.base.errors import PeriplusError
    from periplus.cli.common.inputs import check_file
    from periplus.cli.trail.documents import trail_out
    from periplus.cli.trail.schemas import TrailImportOut

    done: list[tuple[str, list[ImportedTrail]]] = []
    failed: list[tuple[str, PeriplusError]] = []
    if arguments.git is not None:
        repository = face.path(arguments.git)
        progress = face.progress("git history")
        done.append(
            (repository, [project.import_git(repository, commits_max=arguments.max_commits, progress=progress)])
        )
    if arguments.kept is not None:
        _import_kept(face, project, face.path(arguments.kept), done, failed)
    paths = [(path, False) for path in named] + [(path, True) for path in found[:_FOUND_MAX] if path not in named]
    for path, only_here in paths:
        try:
            check_file(path)
            progress = face.progress(os.path.basename(path))
            trails = project.import_transcripts(
                path, source_format=arguments.format, progress=progress, only_here=only_here
            )
            done.append((path, trails))
        except PeriplusError as error:
            if len(paths) == 1 and not done:
                raise
            failed.append((path, error))
            if not _is_of_the_file(error, path):
                break  # a failure of the store or the machine: the next file would fail, too
        finally:
            face.clear_progress()
    for _, trouble in failed:
        _tell(face, trouble)
    left_out = max(0, len(found) - _FOUND_MAX)
    if left_out:
        face.stderr.write(
            f"periplus: {left_out} older sessions were found but not imported; to import them, name their files.\n"
        )
    if arguments.all and arguments.kept is None:
        _tell_of_kept(face, project)
    result = TrailImportOut(
        [trail_out(trail) for _, trails in done for trail in trails], _failures(failed), left_out, _files(done)
    )
    return face.emit(
        result,
        lambda: (line for trail in result.trails for line in _import_lines(face, trail, "")),
        failed[0][1].exit_code if failed else 0,
    )


def _import_kept(
    face: Face,
    project: Project,
    repository: str,
    done: list[tuple[str, list[ImportedTrail]]],
    failed: list[tuple[str, PeriplusError]],
) -> None:
    """Import the sessions that other tools keep in a repository. A session that cannot be imported is left out."""
    from periplus.base.errors import NotFoundError

    before = len(done) + len(failed)
    imports = project.import_kept(repository, progress=face.progress("kept sessions"))
    try:
        for one in imports:
            if one.trouble is not None:
                failed.append((one.place, one.trouble))
            else:
                done.append((one.place, one.trails))
    finally:
        face.clear_progress()
    kept = imports.kept
    if kept.bare:
        notes = "1 note" if kept.bare == 1 else f"{kept.bare:,} notes"
        face.stderr.write(
            f"periplus: {notes} of git-ai without messages left out: import the agents' own files with --all.\n"
        )
    if kept.unread:
        files = counted(kept.unread, "files")
        face.stderr.write(f"periplus: {files} left out: too large, unreadable, or not in this clone.\n")
    if len(done) + len(failed) == before:
        raise NotFoundError(
            f"no session is kept in the refs of {repository}",
            safe="Nothing was changed.",
            mend="Entire keeps them in entire/checkpoints/v1, git-ai in refs/notes/ai; fetch these refs first.",
        )


def _tell_of_kept(face: Face, project: Project) -> None:
    """Print that the project's repository may keep sessions too. They may be other people's: only --kept imports them."""
    from periplus.interop.repository_sessions.ref_listing import kept_refs

    refs = kept_refs(project.folder) if os.path.exists(os.path.join(project.folder, ".git")) else []
    if refs:
        names = ", ".join(
            visible(ref.removeprefix("refs/heads/").removeprefix("refs/remotes/"), 80) for ref in refs[:3]
        )
        face.stderr.write(f"periplus: {names} may keep sessions too; to import them: periplus trail import --kept\n")


def _follow(face: Face, project: Project, arguments: argparse.Namespace, named: list[str]) -> int:
    from periplus.cli.common.inputs import check_file
    from periplus.cli.trail.documents import trail_out
    from periplus.cli.trail.schemas import TrailImportOut

    for path in named:
        check_file(path)

    def find() -> list[str]:
        found = _found(face, project)[:_FOUND_MAX] if arguments.all else []
        return [*named, *(path for path in found if path not in named)]

    followed = project.follow_transcripts(
        find, wait=face.wait, source_format=arguments.format, is_found=lambda path: path not in named
    )
    try:
        for one in followed:
            failed = [(one.path, one.trouble)] if one.trouble is not None else []
            if one.trouble is not None:
                _tell(face, one.trouble)
            out = [trail_out(trail) for trail in one.trails]
            result = TrailImportOut(out, _failures(failed), 0, _files([(one.path, one.trails)] if not failed else []))
            if face.as_json:
                face.emit(result, list)
            else:
                for line in (line for trail in out if trail.changed for line in _import_lines(face, trail, "")):
                    face.out(line)
            face.stdout.flush()
    except KeyboardInterrupt:
        pass  # the normal way to stop
    return 0


def _is_of_the_file(error: PeriplusError, path: str) -> bool:
    from periplus.base.errors import EnvironmentFailure, UsageError

    return isinstance(error, UsageError) or (isinstance(error, EnvironmentFailure) and not os.access(path, os.R_OK))


def _tell(face: Face, trouble: PeriplusError) -> None:
    rest = f"{trouble.safe} {trouble.mend}".strip() or "See `periplus trail import --help`."
    face.stderr.write(f"periplus: {visible(str(trouble))}\n{visible(rest)}\n")


def _failures(failed: list[tuple[str, PeriplusError]]) -> list[FailureOut]:
    from periplus.cli.trail.schemas import FailureOut

    return [FailureOut(path, str(trouble), trouble.mend) for path, trouble in failed]


def _files(done: list[tuple[str, list[ImportedTrail]]]) -> list[ImportedFileOut]:
    from periplus.cli.trail.schemas import ImportedFileOut

    return [
        ImportedFileOut(path, [trail.entity.item_id for trail in trails], any(trail.changed for trail in trails))
        for path, trails in done
    ]


def _import_lines(face: Face, trail: TrailOut, indent: str) -> Iterator[str]:
    value, paint = trail.value, face.palette
    counts: dict[str, int] = value.get("counts", {})
    is_other = bool(trail.digest) and trail.digest != value.get("digest")
    state = (
        "imported"
        if trail.changed
        else "already imported, nothing changed"
        if not is_other
        else "skipped: the store already has a fuller copy of this session"
    )
    yield f"{indent}{paint.name}{trail.id}{paint.end}  {state}  {visible(value.get('title', ''), 70)}".rstrip()
    yield f"{indent}  {value['format']}: " + (
        ", ".join(counted(count, name) for name, count in counts.items() if count) or "nothing in it"
    )
    if trail.left_out and not is_other:
        every = trail.left_out + int(counts.get("commits", 0))
        yield f"{indent}  {paint.warn}{counted(trail.left_out, 'older commits')} left out{paint.end}; --max-commits {every} takes all"
    steps = int(trail.before.get("counts", {}).get("steps", 0))
    if steps > int(counts.get("steps", 0)):
        yield (
            f"{indent}  {paint.warn}replaces {counted(steps, 'steps')}{paint.end} up to {visible(str(trail.before.get('ended', '')), 40)}; to restore them: periplus undo --seq {trail.before_seq}"
        )
    if value.get("rewritten"):
        yield f"{indent}  rewritten: {counted(len(value['rewritten']), 'commits')} that no ref reaches"
    for label in ("skipped", "unknown"):
        if value.get(label):
            kinds = ", ".join(f"{visible(kind, 40)} {count:,}" for kind, count in list(value[label].items())[:8])
            yield f"{indent}  {label}: {kinds}"
    if value.get("unreadable_lines"):
        lines = ", ".join(f"{line:,}" for line in value["unreadable_lines"])
        yield f"{indent}  {paint.warn}skipped, not records{paint.end}: line {lines}"
    if value.get("ending"):
        yield f"{indent}  {paint.warn}{value['status']}{paint.end}: {visible(value['ending'], 80)}"
    if value.get("masked"):
        yield f"{indent}  {paint.warn}{value['masked']} secrets masked{paint.end}"
    if trail.withheld:
        yield f"{indent}  {counted(trail.withheld, 'texts')} {'was' if trail.withheld == 1 else 'were'} left out because of a redaction"
    for child in trail.children:
        yield from _import_lines(face, child, indent + "  ")
