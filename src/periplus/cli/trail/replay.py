"""``periplus trail replay``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.cli.common.face import Face, counted, number, visible
from periplus.cli.trail.inputs import named_trail, trail_readers

if TYPE_CHECKING:
    from periplus.cli.trail.schemas import TrailReplayOut
    from periplus.trail import Digest, ObjectReader, TrailReader
    from periplus.trail.replay import Call, Capabilities, Replay, ReplayLog, ReplayReport, StepResult, World

_LOG: Final = "replay.log"
_RECORDED: Final = "recorded"
_TIMEOUT_S: Final = 300
_DETAIL_COLUMNS: Final = 160
_SHOWN_DIFFERENCES: Final = 10
_ABSOLUTE: Final = "is refused: an absolute path"


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("trail", metavar="TRAIL", help="an id, a digest (or a prefix of either), or a file")
    add("--world", choices=("dry", "memory", "folder"), default="dry", help="dry: report what would happen; memory: use files in memory; folder: use a separate folder that no step can leave (default: dry)")  # fmt: skip
    add("--in", dest="folder", metavar="FOLDER", help="the folder to replay in, new or empty (default: a temporary one)")  # fmt: skip
    add(
        "--base",
        metavar="COMMIT",
        help="start from the files of this commit; `recorded` is the commit that the trail names",
    )
    add(
        "--repository",
        metavar="FOLDER",
        default=".",
        help="the repository with the commits (default: this one)",
    )
    add("--from", dest="copied", metavar="FOLDER", help="start from a copy of this folder")
    add(
        "--recorded-in",
        metavar="FOLDER",
        help="the folder that absolute paths in the trail refer to (default: where the session ran)",
    )
    add("--steps", metavar="A:B", help="only steps A to B, B not included, counted from 0")
    limits = parser.add_argument_group("permissions").add_argument
    limits(
        "--allow-commands",
        action="store_true",
        help="run the recorded commands and tests, as you, without network",
    )
    limits("--allow-network", action="store_true", help="also allow network access")
    limits("--allow", metavar="ACTION[:SCOPE]", action="append", help="allow only these actions (repeatable): write:src/**, read, "
           "command:pytest, …")  # fmt: skip
    limits("--test-command", metavar="WORDS", help="the command that runs tests, with {target} and {report} (a JUnit file): 'pytest -q {target} --junitxml {report}'")  # fmt: skip
    limits(
        "--timeout",
        metavar="SECONDS",
        type=number(1, 86_400),
        default=_TIMEOUT_S,
        help=f"limit for each command (default: {_TIMEOUT_S})",
    )
    course = parser.add_argument_group("control").add_argument
    course("--stop", action="store_true", help="stop after the first difference")
    course("--strict", action="store_true", help="also compare results, not only outcomes and exit codes")
    course("--pause-after", metavar="N", type=number(0), help="pause after N steps; --resume continues")
    course("--resume", action="store_true", help="continue the replay in the folder of --in")
    course("--rerun", action="store_true", help="repeat a step that was interrupted and may have run already")
    course("--out", metavar="FILE", help="write the trail of the replay to this file")
    course("--keep", action="store_true", help="keep the trail of the replay in this store")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import NotFoundError, UsageError

    for given, needs, what in (
        (arguments.resume, arguments.folder, "--resume needs --in, the folder of the replay"),
        (arguments.pause_after is not None, arguments.folder, "--pause-after needs --in, a folder to continue in"),
        (arguments.folder, arguments.world == "folder", "--in needs --world folder"),
        (arguments.allow_commands, arguments.world == "folder", "--allow-commands needs --world folder"),
        (
            arguments.copied or arguments.base,
            arguments.world != "dry",
            "--base and --from cannot be used with --world dry",
        ),
        (arguments.copied, not arguments.base, "--from and --base cannot be combined"),
    ):
        if given and not needs:
            raise UsageError(what, safe="Nothing was replayed.", mend="See `periplus trail replay --help`.")
    folder = face.path(arguments.folder) if arguments.folder else ""
    if arguments.resume and not os.path.isfile(os.path.join(folder, _LOG)):
        raise NotFoundError(f"there is no replay to continue in {folder}", safe="Nothing was changed.",
                            mend="Omit --resume to start one.")  # fmt: skip
    if arguments.out:
        from periplus.cli.common.inputs import check_target

        check_target(os.path.join(face.cwd, arguments.out))
    if arguments.world == "folder" and not arguments.folder:
        import tempfile

        with tempfile.TemporaryDirectory(prefix="periplus-replay-", ignore_cleanup_errors=True) as place:
            return _replay(face, arguments, os.path.join(place, "replay"))
    return _replay(face, arguments, folder)


class _Original(NamedTuple):
    """The trail, and the source of the objects that it refers to. ``cwd`` is the working folder of its session."""

    readers: tuple[TrailReader, ...]
    digest: bytes
    store: ObjectReader | None
    cwd: str


def _replay(face: Face, arguments: argparse.Namespace, folder: str) -> int:
    from periplus.base.clock import SystemClock
    from periplus.cli.trail.step_selection import range_of
    from periplus.trail.replay import Replay, ReplayOptions

    original = _original(face, arguments.trail)
    if arguments.base == _RECORDED:
        arguments.base = _recorded_base(original)
    capabilities = _capabilities(arguments)
    first, end = range_of(arguments.steps)
    root = arguments.recorded_in if arguments.recorded_in is not None else original.cwd
    world = _world(face, arguments, original, folder, root)
    log: ReplayLog | None = None
    try:
        if folder and arguments.folder:
            log = _log(arguments, original, folder, root)
        options = ReplayOptions(
            capabilities, first or 0, end, root, is_stopping=arguments.stop, is_strict=arguments.strict,
            is_rerun=arguments.rerun, pause_after=arguments.pause_after,
        )  # fmt: skip
        keeper = _Keeper(face, arguments.keep)
        replay = Replay(
            original.readers, world, options, clock=SystemClock(), read_content=_reading(original.store), log=log,
            put_output=keeper.put if arguments.keep else None, observe=_teller(face),
        )  # fmt: skip
        progress = (
            face.progress("replaying") if face.as_json or not face.stdout.isatty() else (lambda _done, _total: None)
        )
        try:
            report = replay.run(progress)
        finally:
            face.clear_progress()
        out, kept, withheld = _written(face, arguments, original, replay, report, world.name, keeper)
    finally:
        if log is not None:
            log.close()
        close = getattr(world, "close", None)
        if close is not None:
            close()
    left_out = list(getattr(world, "left_out", ()))
    result = _result(original, world.name, report, folder if arguments.folder else "", left_out, out, kept)
    result.withheld = withheld
    return face.emit(
        result,
        lambda: _lines(face, result, is_temporary=bool(folder) and not arguments.folder),
        5 if report.denied else 1 if report.difference_count or report.verdict == "limit" else 0,
    )


def _original(face: Face, name: str) -> _Original:
    from periplus.trail import Parts, is_concatenation

    found, store = named_trail(face, name)
    readers = trail_readers(found)
    digest = Parts(found.data).digest if is_concatenation(found.data) else readers[0].digest
    cwd = ""
    if not os.path.isfile(name):
        with face.open() as project:
            cwd = str(project.show(found.name).value.get("cwd") or "")
    return _Original(readers, digest, store, cwd)


def _recorded_base(original: _Original) -> str:
    from periplus.base.errors import NotFoundError
    from periplus.trail import Digest

    base = original.readers[0].header.base
    if isinstance(base, Digest) and base.algorithm != "sha256":
        return base.value.hex()
    raise NotFoundError(
        "the trail does not name the commit it started from", safe="Nothing was replayed.", mend="Name a --base."
    )


def _capabilities(arguments: argparse.Namespace) -> Capabilities:
    """Return all capabilities, or those of --allow. A world runs commands only with --allow-commands."""
    from periplus.trail.replay import Capabilities

    if not arguments.allow:
        return Capabilities.everything()
    return Capabilities.of(*arguments.allow, *["network"] * arguments.allow_network)


def _reading(store: ObjectReader | None) -> Callable[[Digest], bytes | None]:
    from periplus.base.errors import DamageError, NotFoundError

    def read(digest: Digest) -> bytes | None:
        if store is None or digest.algorithm != "sha256":
            return None
        try:
            return store.get(digest.value)
        except (NotFoundError, DamageError):
            return None  # the step is skipped with a reason; doctor explains the damage

    return read


def _world(face: Face, arguments: argparse.Namespace, original: _Original, folder: str, root: str) -> World:
    import shlex

    from periplus.base.errors import UsageError
    from periplus.trail.replay import CommandLimits, DryWorld, FolderPlan, FolderWorld, MemoryWorld

    read = _reading(original.store)
    if arguments.world == "dry":
        return DryWorld(read)
    repository = os.path.join(face.cwd, arguments.repository)
    if not arguments.base and not _is_repository(repository):
        repository = ""
    copied = os.path.join(face.cwd, arguments.copied) if arguments.copied else ""
    path = face.environment.get("PATH", "")
    if arguments.world == "memory":
        return MemoryWorld.filled(read, path=path, base=arguments.base or "", repository=repository, copied=copied)
    try:
        test_command = tuple(shlex.split(arguments.test_command or ""))
    except ValueError as error:
        raise UsageError(f"--test-command: {error}", mend="Put its words in quotes.") from error
    plan = FolderPlan(
        folder, path, base=arguments.base or "", repository=repository,
        copied=copied, allow_commands=arguments.allow_commands, allow_network=arguments.allow_network,
        test_command=test_command, limits=CommandLimits(seconds_max=float(arguments.timeout)),
        recorded_root=root,
    )  # fmt: skip
    return FolderWorld(plan, read, progress=face.progress("copying the base"))


def _is_repository(folder: str) -> bool:
    from periplus.journal.projections.git_state import read_git

    return read_git(os.path.join(folder, ".periplus")) is not None


def _log(arguments: argparse.Namespace, original: _Original, folder: str, root: str) -> ReplayLog:
    from periplus.base.files import Files
    from periplus.trail.replay import LogHeader, ReplayLog

    settings = {
        "--world": arguments.world,
        "--steps": arguments.steps or "",
        "--base": arguments.base or "",
        "--from": arguments.copied or "",
        "--recorded-in": root,
        "--allow": " ".join(sorted(arguments.allow or ())),
        "--allow-commands": str(arguments.allow_commands),
        "--allow-network": str(arguments.allow_network),
        "--test-command": arguments.test_command or "",
    }
    header = LogHeader(1, original.digest.hex(), settings)
    return ReplayLog(os.path.join(folder, _LOG), header, Files(), is_resumed=arguments.resume)


class _Keeper:
    """Puts objects into the store, which is opened for this alone."""

    def __init__(self, face: Face, is_wanted: bool) -> None:  # noqa: FBT001 - one flag, named where it is used
        from periplus.project.trail_store.withholding import Withholding

        self._face = face
        self._project = face.open() if is_wanted else None
        self._withholding = Withholding(self._project) if self._project is not None else None

    def put(self, data: bytes) -> bytes:
        assert self._withholding is not None
        return self._withholding.put(data)

    def keep(self, data: bytes) -> tuple[str, int]:
        """Return the id of the trail, and the number of texts withheld."""
        from periplus.project.trail_store.replay_results import keep_replay

        assert self._project is not None
        with self._project:
            entity, withheld = keep_replay(self._project, data)
        return entity.item_id, withheld


def _written(
    face: Face, arguments: argparse.Namespace, original: _Original, replay: Replay, report: ReplayReport, world: str,
    keeper: _Keeper,
) -> tuple[str, str, int]:  # fmt: skip
    """Return the file of the replay's trail, its id in the store (both empty if not requested), and the number of texts withheld in the store."""
    import hashlib

    from periplus.base.files import Files, write_atomic
    from periplus.trail.replay import replay_trail

    if not arguments.out and not arguments.keep:
        return "", "", 0
    put = keeper.put if arguments.keep else (lambda data: hashlib.sha256(data).digest())
    data = replay_trail(
        original.readers, original.digest, replay, report, world=world, secret=os.urandom(32), put_text=put
    )  # fmt: skip
    kept, withheld = keeper.keep(data) if arguments.keep else ("", 0)
    out = face.path(arguments.out) if arguments.out else ""
    if out:
        write_atomic(Files(), out, data)
    return out, kept, withheld


def _teller(face: Face) -> Callable[[Call, StepResult], None]:
    """Return a callback that prints each step, except those that a replay never performs."""
    paint, width = face.palette, face.width or _DETAIL_COLUMNS
    colours = {"done": "", "would": "", "skipped": paint.dim, "denied": paint.bad}

    def tell(call: Call, did: StepResult) -> None:
        if face.as_json or did.detail == "a replay never performs it" or not did.detail:
            return
        colour = paint.bad if did.state == "done" and did.outcome != "ok" else colours[did.state]
        head = f"{call.at:>6}  {call.op:<12}  {did.state:<7}  "
        face.out(f"{colour}{head}{visible(did.detail, max(20, width - len(head)))}{paint.end if colour else ''}")

    return tell


def _result(
    original: _Original, world: str, report: ReplayReport, folder: str, left_out: list[str], out: str, kept: str
) -> TrailReplayOut:
    from periplus.cli.trail.schemas import DifferenceOut, TrailReplayOut

    total = sum(reader.step_count for reader in original.readers)
    differences = [DifferenceOut(one.at, one.op, one.what, one.expected, one.found) for one in report.differences]
    return TrailReplayOut(
        original.digest.hex(), world, report.verdict, total, report.steps, report.states, report.denied,
        report.difference_count, differences[0] if differences else None, differences, report.next, folder, left_out,
        out, kept,
    )  # fmt: skip


def _lines(face: Face, result: TrailReplayOut, *, is_temporary: bool) -> Iterator[str]:
    paint = face.palette
    colour = paint.good if result.verdict == "same" else paint.warn if result.verdict == "paused" else paint.bad
    # Remarks, labels and the like are "done" even in the dry world, in which nothing is done.
    words = {"done": "with nothing to do"} if result.world == "dry" else {}
    counts = ", ".join(f"{count:,} {words.get(state, state)}" for state, count in sorted(result.states.items()))
    word = {
        "same": "no difference",
        "diverged": "diverged",
        "paused": "paused",
        "limit": "stopped: branches caused too many steps",
    }
    is_dry = result.world == "dry" and result.verdict == "same"
    yield f"{colour}{'nothing was done' if is_dry else word[result.verdict]}{paint.end}: {result.done:,} of {result.steps:,} steps ({counts})"
    for one in result.differences[:_SHOWN_DIFFERENCES]:
        yield f"  step {one.step:,} {one.op}, {one.what}: recorded {visible(one.expected, 60)}, found {visible(one.found, 200)}"
    if result.difference_count > _SHOWN_DIFFERENCES:
        yield f"  and {result.difference_count - _SHOWN_DIFFERENCES:,} more differences"
    if any(one.found.endswith(_ABSOLUTE) for one in result.differences):
        yield "  --recorded-in FOLDER names the folder that absolute paths refer to; paths outside of it stay refused"
    if result.left_out:
        yield f"  {len(result.left_out):,} links, submodules, store files and unusual names were not created"
    if result.world == "folder":
        yield (
            "The folder was removed; use --in FOLDER to keep it"
            if is_temporary
            else f"Files: {visible(os.path.join(result.folder, 'files'))}"
        )
    if result.verdict == "paused" or (result.next < result.steps and result.folder):
        yield f"The next step is {result.next:,}; continue with --resume"
    if result.out:
        yield f"Wrote the replay's trail: {visible(result.out)}"
    if result.kept:
        if result.withheld:
            is_one = result.withheld == 1
            yield f"{counted(result.withheld, 'texts')} {'was' if is_one else 'were'} left out because of a redaction"
        yield f"Kept the replay's trail: {result.kept}"
