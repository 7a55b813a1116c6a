"""A world on disk: a folder of the replay that no step can leave. See ``trail.replay.working_folder``."""

from __future__ import annotations

__all__ = ["FolderPlan", "FolderWorld"]

import os
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Self

from periplus.base.errors import ConfinementError, EnvironmentFailure, NotFoundError, RefusedError, UsageError
from periplus.base.files import Files, read_plain, write_all, write_atomic
from periplus.base.filesystem.confined_folder import Confined
from periplus.trail.model import Digest
from periplus.trail.replay.capability import Action, CommandForm, plain_words
from periplus.trail.replay.command_runner import CommandLimits, Ran, Runner
from periplus.trail.replay.command_text import chosen_tests, rebased, rebased_word
from periplus.trail.replay.file_steps import FileSteps
from periplus.trail.replay.test_counts import judge_tests, read_junit, why_unclear
from periplus.trail.replay.unmaterialized import UnmaterializedEntries, UnmaterializedEntry
from periplus.trail.replay.values import Call, Fate, ReadContent, StepResult
from periplus.trail.replay.working_folder import (
    GitFolder,
    SourceRepository,
    copy_folder,
    copy_tree,
    no_progress,
    take_tree,
)

_MADE: Final = "made.json"
_CARRIED: Final = "carried.jsonl"
_MARK_BYTES_MAX: Final = 64 << 20
_GIT_BYTES_MAX: Final = 256 << 20
_HEAD: Final = "HEAD"
_REPORT: Final = "{report}"
_TARGET: Final = "{target}"


class FolderPlan(NamedTuple):
    """The plan of a world. ``folder`` belongs to the replay; ``path`` is the PATH for programs.

    The files start as those of ``base``, a commit of ``repository``, or as a copy of the folder ``copied``, or empty.
    ``test_command`` holds the words that run tests, with ``{target}``, and ``{report}`` for a JUnit file. Commands of
    the record ran in the folder ``recorded_root``, which this folder replaces.
    """

    folder: str
    path: str
    base: str = ""
    repository: str = ""
    copied: str = ""
    allow_commands: bool = False
    allow_network: bool = False
    test_command: tuple[str, ...] = ()
    limits: CommandLimits = CommandLimits()
    recorded_root: str = ""


class FolderWorld(FileSteps):
    """Open a folder for a replay: a new folder is filled, a filled one is resumed. Close it."""

    name = "folder"

    def __init__(
        self,
        plan: FolderPlan,
        read_content: ReadContent,
        *,
        files: Files | None = None,
        progress: Callable[[int, int], None] = no_progress,
    ) -> None:
        """Raises RefusedError for a folder that holds something else, NotFoundError for a base that does not exist."""
        self.plan = plan
        self.reaches: frozenset[Action] = frozenset({"network"} if plan.allow_commands and plan.allow_network else ())
        self._files = files or Files()
        self.root = os.path.join(os.path.abspath(plan.folder), "files")
        home, temporary = (os.path.join(os.path.abspath(plan.folder), name) for name in ("home", "tmp"))
        self._reports = temporary
        self._runner = Runner(home, temporary, plan.path, allow_network=plan.allow_network, limits=plan.limits)
        trouble = self._runner.why_not() if plan.allow_commands else ""
        if trouble:
            raise RefusedError(trouble, safe="Nothing was replayed.",
                               mend="Give --allow-network too, or leave --allow-commands out.")  # fmt: skip
        # If no command may run, nothing foreign can be in the repository, and git needs no guard.
        own = Runner(home, temporary, plan.path, allow_network=plan.allow_network, is_guarded=plan.allow_commands,
                     limits=CommandLimits(output_bytes_max=_GIT_BYTES_MAX))  # fmt: skip
        self._source = SourceRepository(plan.repository, own.environment) if plan.repository else None
        self._read_object = read_content
        try:
            base = self._open(home, temporary, own, progress)
            carried = _gone_on(os.path.join(os.path.abspath(plan.folder), _CARRIED), base, self._files)
        except BaseException:  # on any failure, stop git
            if self._source is not None:
                self._source.close()
            raise
        self.git = GitFolder(self.root, own, carried, may_change=plan.allow_commands)
        self.confined = Confined(self.root, files=self._files)
        self.confined.sweep()
        super().__init__(self.confined, self._content, carried, self._is_in_source)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The recorded files that are not created here, such as links."""
        return tuple(entry.path for entry in self.carried.all())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.confined.close()
        if self._source is not None:
            self._source.close()

    # Steps that are not about single files

    def run_command(self, command: str, cwd: str, form: CommandForm) -> StepResult:
        if not self.plan.allow_commands:
            return StepResult.skipped("commands are not run without --allow-commands")
        over = self.carried.on(cwd)
        if over is not None:
            return StepResult.skipped(over.why)
        words = plain_words(command) if form == "words" else None
        if "\0" in command or (form == "words" and words is None):
            return StepResult.denied("the command cannot be run")
        try:
            folder = self.confined.real_path(cwd)
            if words is None:
                command = rebased(command, self.plan.recorded_root, self.root, cwd)
            else:
                words = [rebased_word(word, self.plan.recorded_root, self.root) for word in words]
        except ConfinementError as error:
            return StepResult.denied(str(error))
        except NotFoundError as error:
            return StepResult.failed(str(error))
        ran = self._runner.run(words, folder) if words is not None else self._runner.shell(command, folder)
        return _ran(ran)

    def run_tests(self, target: str, command: str, expected: int | None, form: CommandForm) -> StepResult:
        if not self.plan.allow_commands:
            return StepResult.skipped("tests are not run without --allow-commands")
        if not self.plan.test_command:
            if not command:
                return StepResult.skipped("the record has no command for these tests; give --test-command")
            did = self.run_command(command, ".", form)
            if did.state != "done" or did.exit_code is None or did.outcome == "cancelled":
                return did
            unclear = why_unclear(command, target, did.exit_code)
            if unclear:
                return did._replace(outcome="unknown", exit_code=None, detail=f"nothing is compared: {unclear}; --test-command "
                                    "runs tests alone")  # fmt: skip
            return judge_tests(did.exit_code, None, expected, did.output or b"")
        if target.startswith("-") or "\0" in target:
            return StepResult.denied(f"test target {target[:80]!r} is refused: it begins as an option does")
        try:
            tests = chosen_tests(target, command, self.plan.recorded_root, self._is_there)
            folder = self.confined.real_path(tests.folder if tests is not None else ".")
        except ConfinementError as error:
            return StepResult.denied(str(error))
        except NotFoundError as error:
            return StepResult.failed(str(error))
        report = os.path.join(self._reports, f"report-{os.urandom(8).hex()}.xml")
        targets = tests.paths if tests is not None else (target,)
        ran = self._runner.run(_filled(self.plan.test_command, targets, report), folder)
        did = _ran(ran)
        if did.outcome == "cancelled":
            return did
        if tests is not None and not tests.is_exact:
            expected = None  # the record may have chosen other tests
        return judge_tests(ran.exit_code, self._passed(os.path.basename(report)), expected, ran.output)

    def commit(self, message: str, commit: Digest | None) -> StepResult:
        """Commit the files. The recorded commit has another id because of its time, so the trees are compared if its
        repository is available.
        """
        try:
            tree = self.git.commit(message.replace("\0", ""), self._tracked(commit))
        except EnvironmentFailure as error:
            return StepResult.failed(str(error), 128)
        return self._committed(tree, commit)

    def checkpoint(self, state: Digest) -> StepResult:
        if state.algorithm == "sha256":
            return StepResult.skipped("the state is not a git tree or commit")
        wanted = self._tree_of(state)
        try:
            tree = self.git.tree(self._tracked(state))
        except EnvironmentFailure as error:
            return StepResult.failed(str(error), 128)
        return _compared(tree, wanted or state.value.hex(), "the files are those of the checkpoint")

    def take_over(self, state: Digest) -> StepResult:
        if self._source is None or not self._tree_of(state):
            return StepResult.skipped(f"the files of {state.value.hex()[:12]} are not available")
        try:
            tree = self._source.need_tree(state.value.hex())
            with Confined(self.root, files=self._files, is_durable=False) as target:
                count = take_tree(self._source, tree, target, self.carried, self.git.entries())
            self._files.sync_everything(self.root)
        except ConfinementError as error:
            return StepResult.denied(str(error))
        except (EnvironmentFailure, NotFoundError, UsageError) as error:
            return StepResult.failed(str(error))
        return StepResult("done", detail=f"took over the files of {state.value.hex()[:12]}: {count:,} changed")

    def observe(self, call: Call) -> StepResult:
        del call
        return StepResult.skipped("a replay never performs it")

    def foresee(self, call: Call) -> dict[str, str]:
        if call.op == "GIT_COMMIT":
            try:
                return {_HEAD: self.git.head()}
            except EnvironmentFailure:
                return {}  # the step itself will say so
        if call.op in ("COMMAND_RUN", "TEST_RUN"):
            return {"command": "runs"} if self.plan.allow_commands else {}
        return super().foresee(call)

    def recall(self, call: Call) -> StepResult:
        return (
            self._committed(self.git.head_tree(), call.digest(2)) if call.op == "GIT_COMMIT" else super().recall(call)
        )

    def fate(self, call: Call, foreseen: dict[str, str]) -> Fate:
        if call.op in ("COMMAND_RUN", "TEST_RUN"):
            return "unknown"
        if call.op == "GIT_COMMIT":
            now = self.git.head()
            if now == foreseen.get(_HEAD):
                return "not_done"
            return "done" if self.git.parent() == foreseen.get(_HEAD) else "unknown"
        return super().fate(call, foreseen)

    # Internals

    def _committed(self, tree: str, commit: Digest | None) -> StepResult:
        wanted = self._tree_of(commit) if commit is not None else ""
        return _compared(tree, wanted, "committed")

    def _tree_of(self, state: Digest) -> str:
        return self._source.tree_of(state.value.hex()) if self._source is not None else ""

    def _tracked(self, state: Digest | None) -> Callable[[], list[str]]:
        """Return a function for the paths that git tracks at ``state``, which may include files that .gitignore names."""

        def paths() -> list[str]:
            tree = self._tree_of(state) if state is not None else ""
            if not tree or self._source is None or state is None:
                return []
            return [entry.path for entry in self._source.entries(state.value.hex())]

        return paths

    def _open(
        self, home: str, temporary: str, runner: Runner, progress: Callable[[int, int], None]
    ) -> tuple[UnmaterializedEntry, ...]:
        import shutil

        import msgspec

        folder = os.path.abspath(self.plan.folder)
        mark = os.path.join(folder, _MADE)
        if os.path.lexists(folder) and not os.path.isdir(folder):
            raise _not_ours(folder)
        held = os.listdir(folder) if os.path.isdir(folder) else []
        if held:
            made = _read_mark(mark, folder)
            if any(os.path.islink(one) for one in (self.root, home, temporary)):
                raise _not_ours(folder)  # a link or folder of somebody else
            if made is not None:
                return made
            for name in ("files", "home", "tmp"):  # an earlier call stopped while filling it
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        self._files.make_folder(folder, 0o700)
        write_atomic(self._files, mark, b"null")
        for one in (self.root, home, temporary):
            self._files.make_folder(one, 0o700)
        carried = self._fill(runner, progress)
        write_atomic(self._files, mark, msgspec.json.encode(carried))
        return carried

    def _fill(self, runner: Runner, progress: Callable[[int, int], None]) -> tuple[UnmaterializedEntry, ...]:
        carried: tuple[UnmaterializedEntry, ...] = ()
        object_format = "sha1"
        with Confined(self.root, files=self._files, is_durable=False) as target:
            if self.plan.base:
                if self._source is None:
                    raise UsageError("a base commit without its repository")
                tree = self._source.need_tree(self.plan.base)
                object_format = "sha1" if len(tree) == 40 else "sha256"
                carried = copy_tree(self._source, tree, target, progress)
            elif self.plan.copied:
                with Confined(self.plan.copied) as source:
                    copy_folder(source, target, progress)
        git = GitFolder(self.root, runner, UnmaterializedEntries(carried), may_change=self.plan.allow_commands)
        git.begin(self._files, object_format, is_forced=bool(self.plan.base))
        self._files.sync_everything(self.root)
        return carried

    def _content(self, digest: Digest) -> bytes | None:
        if digest.algorithm == "sha256":
            return self._read_object(digest)
        return self._source.blob(digest) if self._source is not None else self._read_object(digest)

    def _is_in_source(self, content: Digest) -> bool:
        return self._source is not None and self._source.has(content)

    def _is_there(self, path: str) -> bool:
        try:
            return self.confined.stat(path) is not None
        except ConfinementError:
            return False

    def _passed(self, report: str) -> int | None:
        """Return the number of passed tests in a report; None without a report. A link is not followed."""
        try:
            with Confined(self._reports) as folder:
                counts = read_junit(folder.read(report))
                folder.delete(report)
        except (ConfinementError, NotFoundError):
            return None
        return counts.passed if counts is not None else None


def _filled(words: Sequence[str], targets: Sequence[str], report: str) -> list[str]:
    """Fill in the words of a test command; a word ``{target}`` becomes one word for each target."""
    filled: list[str] = []
    for word in words:
        if word == _TARGET:
            filled += targets
        else:
            filled.append(word.replace(_TARGET, " ".join(targets)).replace(_REPORT, report))
    return filled


def _ran(ran: Ran) -> StepResult:
    if ran.stopped:
        return StepResult("done", "cancelled", error=ran.stopped, output=ran.output, detail=ran.stopped)
    return StepResult("done", "failed" if ran.exit_code else "ok", ran.exit_code, output=ran.output)


def _compared(tree: str, wanted: str, good: str) -> StepResult:
    if not wanted or tree == wanted:
        return StepResult("done", detail=good)
    why = f"the files are tree {tree[:12]}, recorded was {wanted[:12]}"
    return StepResult("done", "failed", error=why, detail=why, differs=("tree", wanted, tree))


def _read_mark(mark: str, folder: str) -> tuple[UnmaterializedEntry, ...] | None:
    """Return the unmaterialized entries of the base of a filled folder; None if it was not filled to the end."""
    import msgspec

    try:
        data = read_plain(mark, _MARK_BYTES_MAX)
        return msgspec.json.decode(data, type=tuple[UnmaterializedEntry, ...] | None)
    except (OSError, msgspec.MsgspecError) as error:
        raise _not_ours(folder) from error


def _gone_on(path: str, base: tuple[UnmaterializedEntry, ...], files: Files) -> UnmaterializedEntries:
    """Return the entries of the base with the changes of later steps. Each change is a line in a file, durable before
    its step counts as done.
    """
    import msgspec

    def note(entry: UnmaterializedEntry) -> None:
        fd = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            write_all(files, fd, msgspec.json.encode(entry) + b"\n")
            files.sync(fd)
        finally:
            files.close(fd)

    entries = {entry.path: entry for entry in base}
    try:
        lines = read_plain(path, _MARK_BYTES_MAX).split(b"\n")
    except FileNotFoundError:
        return UnmaterializedEntries(base, note)
    except OSError as error:
        raise _not_ours(os.path.dirname(path)) from error
    if lines[-1]:  # a line cut by a crash: its step is done again
        write_atomic(files, path, b"".join(line + b"\n" for line in lines[:-1]))
    for line in lines[:-1]:
        try:
            entry = msgspec.json.decode(line, type=UnmaterializedEntry)
        except msgspec.MsgspecError as error:
            raise _not_ours(os.path.dirname(path)) from error
        if entry.mode:
            entries[entry.path] = entry
        else:
            entries.pop(entry.path, None)
    return UnmaterializedEntries(entries.values(), note)


def _not_ours(folder: str) -> RefusedError:
    return RefusedError(f"{folder} exists and is not the folder of a replay", safe="Nothing was changed.",
                        mend="Name a new folder, or an empty one.")  # fmt: skip
