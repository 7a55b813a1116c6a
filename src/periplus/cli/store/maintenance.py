"""``init``, ``status``, ``doctor``: create a store, show its state, check and repair it."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, visible

if TYPE_CHECKING:
    from contextlib import ExitStack

    from periplus.base.errors import PeriplusError
    from periplus.cli.common.schemas import MendedOut, ProblemOut, StatusOut
    from periplus.journal.storage.parking import Repair
    from periplus.journal.storage.store_joining import Joined
    from periplus.project.care.status import Dispatched, Status

_FILES_SHOWN_MAX: Final = 10
_ALIKE_MAX: Final = 10
_DISPATCHES_SHOWN_MAX: Final = 5


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    if command == "init":
        parser.add_argument("folder", nargs="?", metavar="FOLDER", help="a folder of the project (default: this one)")
        wanted = parser.add_mutually_exclusive_group()
        wanted.add_argument("--connect", dest="connect", action="store_true", default=None,
                            help="connect the agents found on this machine (default: ask, on a terminal)")  # fmt: skip
        wanted.add_argument(
            "--no-connect", dest="connect", action="store_false", default=None, help="connect no agent, and do not ask"
        )
        parser.add_argument("--join", action="store_true",
                            help="treat two stores that were made for this project as one, in its settings")  # fmt: skip
    if command == "doctor":
        parser.add_argument(
            "--repair",
            action="store_true",
            help="repair what can be repaired; replaced files are moved to parked/, nothing is deleted",
        )
        parser.add_argument(
            "--compact",
            action="store_true",
            help="make a checkpoint now, and move the segments that it covers to the archive",
        )
        parser.add_argument("--from", dest="sources", metavar="PATH", action="append", default=[],
                            help="with --repair: a backup, another clone, or a file of `periplus export` to restore from (repeatable)")  # fmt: skip
        parser.add_argument("--archive-lost", action="store_true",
                            help="with --repair: accept that the archived segments are lost; their records keep their numbers and lose their content")  # fmt: skip


def execute(face: Face, arguments: argparse.Namespace) -> int:
    if arguments.command == "init":
        return _init(face, arguments.folder, is_connecting=arguments.connect, is_joining=arguments.join)
    if arguments.command == "status":
        return _status(face)
    return _doctor(face, arguments)


def _init(face: Face, folder: str | None, *, is_connecting: bool | None, is_joining: bool) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.common.inputs import sessions_of
    from periplus.cli.common.schemas import InitOut
    from periplus.cli.integration.connection import connect_found
    from periplus.interop.formats import FORMATS
    from periplus.journal.projections.git_state import is_in_bare, sparse_checkout
    from periplus.project import Project

    start = os.path.join(face.cwd, folder) if folder else face.cwd
    if not os.path.isdir(start):
        raise UsageError(
            f"{start} is not a folder", safe="Nothing was changed.", mend="Create it first: mkdir -p FOLDER"
        )
    if folder and face.store_option is not None:
        raise UsageError("give either a FOLDER or --store", safe="Nothing was changed.")
    store = face.store_option if folder else face.store
    joined = Project.join(start, store=store) if is_joining else None
    created = Project.init(start, store=store)
    if created.is_new and store is None:
        _tell_of_store_above(face, created.root)
    sparse = sparse_checkout(created.root)
    if sparse.state == "outside":
        face.stderr.write(
            "periplus: git's sparse-checkout excludes .periplus; its next run may delete the store with the journal\n"
            f"Include it: {visible(sparse.add)}\n"
        )
    sessions = sessions_of(created.root, face.home, face.environment)
    agents = [row.agent for row in FORMATS if any(one.format == row.name for one in sessions)]
    connected = connect_found(face, os.path.dirname(created.root), created.root, is_wanted=is_connecting)
    result = InitOut(created.root, created.store_id, created.lineage, created.is_new, agents, connected,
                     created.known_from, list(joined.joined) if joined is not None else [])  # fmt: skip

    def lines() -> Iterator[str]:
        yield f"{'Made' if created.is_new else 'Found'} the store {visible(created.root)}"
        if joined is not None:
            yield from _joined(joined, os.path.relpath(os.path.join(created.root, "config.toml"), face.cwd))
            return
        if is_in_bare(created.root):
            yield "  It is shared by all worktrees and not in git. `periplus sync` copies it to other clones."
        else:
            yield "  config.toml and entities/ are for git; the journal stays on this machine."
        if created.known_from:
            yield f"  It is {created.store_id}, the same store as on the branch {visible(created.known_from)}. Commit .periplus before you"
            yield "  merge that branch, because git does not overwrite untracked files. `periplus sync` fetches its records."
        if agents:
            count = f"{len(sessions):,} session{'s' if len(sessions) > 1 else ''}"
            yield f"  {count} of {' and '.join(agents)} in this project: periplus trail import --all"
        if connected:
            yield f"  {' and '.join(connected)} connected; test it with: periplus connect --check"
        next_ = ["Next:", "     "]
        if not connected:
            yield f"{next_.pop(0)} periplus connect, so that your coding agent uses it"
        yield f'{next_.pop(0)} periplus remember "…" --type decision, or periplus tour'

    face.emit(result, lines)
    return 0


def _joined(joined: Joined, settings: str) -> Iterator[str]:
    if not joined.joined:
        yield f"  Its settings and records belong to one store, {joined.store_id}: there is nothing to join."
        return
    others = " and ".join(joined.joined)
    yield f"  {others} {'is' if len(joined.joined) == 1 else 'are'} one with {joined.store_id}{'' if joined.is_new else ' already'}."
    yield f"Next: git add {visible(shlex.quote(settings))}, commit and push it, for the other clones"
    yield "      periplus sync --with REMOTE, here and there"


def _tell_of_store_above(face: Face, root: str) -> None:
    from periplus.base.errors import PeriplusError
    from periplus.base.filesystem.store_location import find_root

    folder = os.path.dirname(root)
    try:
        above = find_root(os.path.dirname(folder))
    except PeriplusError:
        return
    if above != root:
        face.stderr.write(
            f"periplus: the parent folder has a store, {visible(above)}; {visible(folder)} now uses its own\n"
            f"To use the parent's store, remove the new one: rm -r {visible(shlex.quote(root))}\n"
        )


def _status(face: Face) -> int:
    from periplus.cli.common.schemas import LeftOut, StatusOut, TakenOut
    from periplus.cli.work.dispatch_text import progress_outs

    with face.open() as project:
        found = project.status()
    agents = found.dispatched
    result = StatusOut(
        found.root, found.store_id, found.lineage, found.records, found.last_ts, found.counts, found.segment_bytes,
        not found.damage, found.damage, found.is_index_current, found.copied_from, found.previous,
        [TakenOut(*one) for one in found.files.adopted], [TakenOut(*one) for one in found.files.edited],
        [LeftOut(*one) for one in found.files.left], list(found.files.waits), list(found.conflicts), dict(found.others),
        found.is_checkpoint_due, list(found.unsealed), list(found.apart), list(found.away), list(found.stuck),
        found.sparse,
        list(found.pull_blocked), found.mail, found.handoffs, found.candidates, found.unsure,
        found.found, progress_outs(agents.dispatches), agents.at_work, agents.elsewhere, agents.questions,
    )  # fmt: skip

    def lines() -> Iterator[str]:
        paint = face.palette
        yield f"store    {visible(found.root)}"
        if found.damage and found.others and not (found.lineage or found.copied_from):
            count = sum(count for _, count in found.others)
            yield f"journal  {_counted(count, 'records')}; the lineage of this clone is unknown: periplus log --lineage all"
        else:
            yield from _of_records(found)
        if found.is_checkpoint_due:
            yield "         a checkpoint is due (it makes rebuilding the index faster): periplus doctor --compact"
        held = {"claim": f" ({found.claims:,} held)"}
        counts = ", ".join(
            f"{_counted(count, _plural(name))}{held.get(name, '')}" for name, count in found.counts.items()
        )
        yield f"holds    {visible(counts) or 'nothing yet'}"
        if found.copied_from:
            yield f"copy     of lineage {visible(found.copied_from)}: the next write starts a new lineage"
        elif found.previous:
            yield f"copy     lineage {visible(found.lineage)}; before this store was copied or restored {visible(found.previous)}"
        for one in found.away:
            yield f"past     {visible(one)}; a checkpoint stands for them"
        if found.damage:
            yield f"state    {paint.bad}damaged{paint.end}: {visible(found.damage)}"
            what = "writes are refused" if not found.takes_writes else "as far as it is indexed"
            yield f"         The intact part is readable, {what}. {visible(found.mend) or 'Next: periplus doctor'}"
        elif found.found:
            yield f"state    {paint.good}sound{paint.end} as far as it was read, but {paint.bad}{visible(found.found)}{paint.end}"
            yield "         Next: periplus doctor"
        else:
            yield f"state    {paint.good}sound{paint.end}"
        if found.conflicts:
            count = len(found.conflicts)
            yield f"merge    {count:,} in conflict: periplus show {visible(found.conflicts[0])}{' …' if count > 1 else ''}"
        if found.apart:
            yield f"apart    {len(found.apart):,} replaced differently by several clones: periplus review"
        if found.stuck:
            yield f"plans    {len(found.stuck):,} stuck: periplus review"
        if found.unsealed:
            count = len(found.unsealed)
            yield f"runs     {count:,} {'is' if count == 1 else 'are'} being recorded or {'was' if count == 1 else 'were'} abandoned: periplus trail list"
        yield from _of_dispatches(agents)
        yield from _of_waiting(result)
        yield from _of_files(face, result)
        if found.sparse == "outside":
            yield f"git      {paint.bad}in danger{paint.end}: sparse-checkout excludes .periplus; its next run deletes the store with the journal"
            yield f"         {visible(found.sparse_mend)}"
        elif found.sparse == "inside" and found.is_from_files:
            yield "git      sparse-checkout is on: if it excluded .periplus, it deleted the journal that was here. To restore it:"
            yield "         periplus sync --with REMOTE, another clone or a copy"

    return face.emit(result, lines, 3 if found.damage else 0)


def _of_records(found: Status) -> Iterator[str]:
    last = f", the last at {visible(found.last_ts)}" if found.last_ts else ""
    yield f"journal  {found.records:,} record{'s' if found.records != 1 else ''}{last}"
    if found.unsure:
        newest = "record" if found.unsure == 1 else f"{found.unsure:,} records"
        yield f"         the last {newest} may not be on disk yet, because a sync failed; the next write retries it"
    if found.others:
        clones = f"{_counted(len(found.others), 'other clones')}: periplus log --lineage all"
        yield f"         and {_counted(sum(count for _, count in found.others), 'records')} of {clones}"


def _of_dispatches(found: Dispatched) -> Iterator[str]:
    for one in found.dispatches[:_DISPATCHES_SHOWN_MAX]:
        yield f"dispatch {one.dispatch.item_id}: {one.words()}"
    if len(found.dispatches) > _DISPATCHES_SHOWN_MAX:
        yield f"         and {len(found.dispatches) - _DISPATCHES_SHOWN_MAX:,} more: periplus who"
    if found.at_work or found.elsewhere:
        theirs = f", {found.elsewhere:,} in other clones" if found.elsewhere else ""
        yield f"agents   {found.at_work:,} at work here{theirs}: periplus who"
    if found.questions:
        yield f"ask      {_counted(found.questions, 'questions')} for a person to answer: periplus inbox mail"


def _of_waiting(found: StatusOut) -> Iterator[str]:
    if found.mail:
        yield f"mail     {_counted(found.mail, 'messages')} for you: periplus inbox mail"
    if found.handoffs:
        yield f"handoff  {_counted(found.handoffs, 'handoffs')} to take over: periplus handoff list"
    if found.candidates:
        yield f"memory   {_counted(found.candidates, 'candidates')} to accept or refuse: periplus candidates list"


def _of_files(face: Face, found: StatusOut) -> Iterator[str]:
    paint = face.palette
    for verb, taken in (("adopted from", found.adopted), ("edited in", found.edited)):
        for one in taken[:_FILES_SHOWN_MAX]:
            yield f"files    {one.type} {one.id} was {verb} its file; see: periplus show {one.id}"
        if len(taken) > _FILES_SHOWN_MAX:
            yield f"         and {len(taken) - _FILES_SHOWN_MAX:,} more"
    for reason in found.waits:
        yield f"files    {paint.warn}waiting{paint.end}: {visible(reason)}"
    for file in found.left[:_FILES_SHOWN_MAX]:
        path = os.path.relpath(file.path, os.path.dirname(found.root))
        yield f"files    {paint.warn}left alone{paint.end}: {visible(path)}: {visible(file.what)}"
        yield f"         {visible(file.mend)}"
    if len(found.left) > _FILES_SHOWN_MAX:
        yield f"         and {len(found.left) - _FILES_SHOWN_MAX:,} more: periplus status --json"
    if found.pull_blocked:
        count = len(found.pull_blocked)
        what, them = (visible(found.pull_blocked[0]), "it") if count == 1 else (f"{count:,} files", "them")
        room = shlex.quote(os.path.relpath(os.path.join(found.root, "entities"), face.cwd))
        yield f"files    {paint.warn}in git's way{paint.end}: {what}: also changed upstream, and `git pull` does not overwrite {them}"
        first = "Resolve the files above, then make" if found.left else "Make"
        yield f"         {first} room; missing files are written again: rm -r {visible(room)} && git pull"


def _doctor(face: Face, arguments: argparse.Namespace) -> int:
    from contextlib import ExitStack

    with ExitStack() as stack:
        return _examine(face, arguments, *_sources(face, arguments, stack))


def _sources(face: Face, arguments: argparse.Namespace, stack: ExitStack) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the folders of --from, and notes about them. An exported file is unpacked into a folder that exists until ``stack`` ends."""
    from periplus.base.errors import UsageError

    for option, is_given in (("--from", arguments.sources), ("--archive-lost", arguments.archive_lost)):
        if is_given and not arguments.repair:
            raise UsageError(f"{option} goes with --repair", safe="Nothing was changed.")
    found: list[str] = []
    notes: list[tuple[str, str]] = []
    for source in arguments.sources:
        path = face.path(source)
        if os.path.isfile(path):
            from periplus.base.filesystem.store_location import project_root
            from periplus.journal.exchange.package_import import unpacked

            beside = os.path.dirname(os.path.abspath(face.store)) if face.store else project_root(face.cwd)
            _refuse_segment(path)
            place, flaws = stack.enter_context(unpacked(path, beside, progress=face.progress("unpacking")))
            face.clear_progress()
            if flaws:
                count = f"{_counted(len(flaws), 'files')} in what was exported {'is' if len(flaws) == 1 else 'are'} damaged or missing, such as {flaws[0].path}"
                notes.append((f"{count}: the rest was used", path))
            path = place
        elif not os.path.isdir(path):
            raise UsageError(
                f"--from {source!r} is neither a folder nor a file of `periplus export`", safe="Nothing was changed."
            )
        found.append(path)
    return found, notes


def _refuse_segment(path: str) -> None:
    """Raise UsageError for a single segment: its folder says which lineage it belongs to."""
    import shlex

    from periplus.base.errors import UsageError
    from periplus.journal.records.segment import segment_first_seq

    if segment_first_seq(os.path.basename(path)) is not None:
        folder = os.path.dirname(os.path.abspath(path))
        raise UsageError(
            f"--from {path!r} is one segment", safe="Nothing was changed.",
            mend=f"Name the folder that contains it: periplus doctor --repair --from {shlex.quote(folder)}",
        )  # fmt: skip


def _problem_lines(face: Face, problems: Sequence[ProblemOut], root: str) -> Iterator[str]:
    """Yield the problems for people; of many alike only the first."""
    paint = face.palette
    colours = {"error": paint.bad, "warning": paint.warn, "note": paint.dim}
    alike: dict[tuple[str, str, str], int] = {}
    for problem in problems:
        kind = (problem.severity, problem.what, problem.next)
        alike[kind] = alike.get(kind, 0) + 1
        if alike[kind] > _ALIKE_MAX:  # for example, a checkout that removed all entity files
            continue
        place = visible(_place_of(problem.path, root))
        place += f", byte {problem.offset:,}" if problem.offset >= 0 else ""
        place += f", seq {problem.seq}" if problem.seq else ""
        yield f"{colours[problem.severity]}{problem.severity:8}{paint.end} {visible(problem.what)}"
        if place:
            yield f"         {place}"
        if problem.next:
            yield f"         {visible(problem.next)}"
    for (severity, what, _), count in alike.items():
        if count > _ALIKE_MAX:
            more = f"{count - _ALIKE_MAX:,} more of these (see --json)"
            yield f"{paint.dim}{severity:8}{paint.end} {visible(what)}: {more}"


def _examine(face: Face, arguments: argparse.Namespace, sources: list[str], notes: list[tuple[str, str]]) -> int:
    from periplus import __version__
    from periplus.base.errors import PeriplusError
    from periplus.base.speed import FORM, IS_NATIVE
    from periplus.cli.common.schemas import CheckpointOut, DoctorOut, MendedOut, ProblemOut
    from periplus.journal.care.doctor import unrepaired

    rescued = _rescued(face, arguments, sources)
    try:
        opened = face.open()
    except PeriplusError as error:
        _add_hook_notes(face, error)
        raise
    with opened as project:
        repaired = []
        if arguments.repair:
            repaired = project.repair(
                sources=sources, archive_lost=arguments.archive_lost, progress=face.progress("repairing")
            )
        made = project.compact(face.progress("making a checkpoint")) if arguments.compact else None
        found = project.examine(face.progress("checking"), tell=face.tell_terminal)
        root = project.root
    face.clear_progress()
    if arguments.repair:
        found = found._replace(problems=[unrepaired(problem) for problem in found.problems])
    notes = [*notes, *_hook_notes(face, os.path.dirname(root))]
    problems = [ProblemOut(p.severity, p.what, p.path, p.offset, p.seq, p.mend) for p in found.problems]
    problems += [ProblemOut("note", what, path, -1, 0, "") for what, path in notes]
    mended = [MendedOut(one.what, one.path, one.seq) for one in [*rescued, *repaired]]
    checkpoint = None if made is None else CheckpointOut(made.seq, made.path, made.size_bytes, made.archived)
    result = DoctorOut(root, found.exit_code == 0, found.counts, problems, mended, checkpoint, native=IS_NATIVE)

    def lines() -> Iterator[str]:
        paint = face.palette
        yield f"{visible(root)}: " + ", ".join(_counted(count, name) for name, count in found.counts.items())
        if checkpoint is not None:
            moved = f", {_counted(len(checkpoint.archived), 'segments')} to the archive" if checkpoint.archived else ""
            yield f"{paint.good}checkpoint{paint.end} at seq {checkpoint.seq:,}, {checkpoint.bytes:,} bytes{moved}"
        elif arguments.compact:
            yield "checkpoint: no new records since the last one"
        for one, last in _runs(mended):
            place = visible(os.path.relpath(one.path, root)) if one.path else ""
            seqs = f"seq {one.seq}" if last == one.seq else f"seq {one.seq} to {last}"
            place += f"{', ' if place else ''}{seqs}" if one.seq else ""
            yield f"{paint.good}mended{paint.end}   {visible(one.what)}"
            if place:
                yield f"         {place}"
        yield from _problem_lines(face, problems, root)
        yield f"checked by periplus {__version__} ({FORM})"
        if found.exit_code == 0:
            yield f"{paint.good}sound{paint.end}: every checksum, version, object, trail and projection was checked"

    return face.emit(result, lines, found.exit_code)


def _runs(mended: Iterable[MendedOut]) -> Iterator[tuple[MendedOut, int]]:
    """Group equal repairs of consecutive records, with the last seq: a segment has ten thousand records."""
    first: MendedOut | None = None
    last = 0
    for one in mended:
        if first is not None and one.seq and (one.what, one.path, one.seq) == (first.what, first.path, last + 1):
            last = one.seq
            continue
        if first is not None:
            yield first, last
        first, last = one, one.seq
    if first is not None:
        yield first, last


def _place_of(path: str, root: str) -> str:
    """Return a path relative to the store, or the full path outside of it."""
    return os.path.relpath(path, root) if path.startswith(root + os.sep) else path


def _hook_notes(face: Face, folder: str) -> list[tuple[str, str]]:
    """Return the newest notes of hooks in ``folder`` that could not go into a store."""
    from periplus.base.filesystem.failure_notes import read_notes
    from periplus.cli.hook_entry import user_notes_file

    path = user_notes_file(face.environment)
    notes = [note for note in read_notes(path) if f"{note.folder}/".startswith(f"{folder}/")] if path else []
    return [(f"a hook failed silently ({note.source}, {note.at[:16]}Z): {note.what}", path) for note in notes[-5:]]


def _add_hook_notes(face: Face, error: PeriplusError) -> None:
    """Add to an error on opening the store that hooks failed on it, too."""
    from periplus.base.errors import PeriplusError
    from periplus.base.filesystem.failure_notes import read_notes
    from periplus.base.filesystem.store_location import find_root

    notes = _hook_notes(face, face.cwd)
    try:
        path = os.path.join(find_root(face.cwd, face.store), "hooks", "notes")
    except PeriplusError:
        path = ""
    notes += [
        (f"a hook failed silently ({one.source}, {one.at[:16]}Z): {one.what}", path)
        for one in read_notes(path)[-5:]
        if one.at
    ]
    if notes:
        what, where = notes[-1]
        error.safe = f"{error.safe} Hooks of agents failed on it, too; the last: {what} ({where}).".strip()


def _rescued(face: Face, arguments: argparse.Namespace, sources: list[str]) -> list[Repair]:
    """With --repair, repair what prevents the store from being opened."""
    if not arguments.repair:
        return []
    from periplus.project import Project

    return Project.rescue(face.cwd, store=face.store, sources=sources)


def _counted(count: int, name: str) -> str:
    if count != 1:
        return f"{count:,} {name}"
    if name.endswith(("ies", "ches")):
        return f"1 {name[:-3]}y" if name.endswith("ies") else f"1 {name[:-2]}"
    return f"1 {name.removesuffix('s')}"


def _plural(name: str) -> str:
    return f"{name}{'es' if name.endswith('ch') else 's'}"
