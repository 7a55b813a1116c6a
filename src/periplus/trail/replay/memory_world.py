"""A world in memory: files and prepared results, for tests and for previews."""

from __future__ import annotations

__all__ = ["MemoryWorld", "PreparedResult"]

from collections.abc import Mapping
from typing import NamedTuple, Self

from periplus.base.errors import ConfinementError, UsageError
from periplus.base.filesystem.confined_folder import Confined, judge_path
from periplus.trail.model import Digest
from periplus.trail.replay.capability import Action, CommandForm
from periplus.trail.replay.command_runner import Runner
from periplus.trail.replay.file_steps import FileSteps, MemoryFolder
from periplus.trail.replay.test_counts import judge_tests
from periplus.trail.replay.unmaterialized import UnmaterializedEntries
from periplus.trail.replay.values import Call, Fate, ReadContent, StepResult, digest_text
from periplus.trail.replay.working_folder import SourceRepository, copy_folder, copy_tree, no_progress


class PreparedResult(NamedTuple):
    """The prepared result of a command, of a test target, or of an observed step (by its first operand).

    ``passed`` is the number of passed tests; ``writes`` are files that the command writes.
    """

    exit_code: int = 0
    output: bytes = b""
    passed: int | None = None
    writes: Mapping[str, bytes] = {}


class MemoryWorld(FileSteps):
    """A world that starts with ``files``; ``canned`` is keyed by the text of a command, a test target, or a first
    operand.
    """

    name = "memory"
    reaches: frozenset[Action] = frozenset()

    def __init__(
        self,
        read_content: ReadContent,
        files: dict[str, bytes] | None = None,
        canned: Mapping[str, PreparedResult] | None = None,
        states: Mapping[str, dict[str, bytes]] | None = None,
    ) -> None:
        """``states`` are the files of a checkpoint, by ``algorithm:hex`` of its digest."""
        memory = MemoryFolder(files)
        super().__init__(memory, self._content)
        self.memory = memory
        self._read_object = read_content
        self._source: SourceRepository | None = None
        self.ran: list[str] = []
        self._canned = dict(canned or {})
        self._states = dict(states or {})

    @classmethod
    def filled(cls, read_content: ReadContent, *, path: str, base: str, repository: str, copied: str) -> Self:
        """Return a world with the files of a commit or of a folder; with a ``repository``, contents written by git id
        are read from it. Close it. Raises NotFoundError.
        """
        world = cls(read_content)
        if repository:
            world._source = SourceRepository(repository, Runner("/", "/", path).environment)
        try:
            if copied:
                with Confined(copied) as source:
                    copy_folder(source, world.memory, no_progress)
            elif base and world._source is not None:
                world._fill(world._source, base)
        except BaseException:  # on any failure, stop git
            world.close()
            raise
        return world

    def _fill(self, source: SourceRepository, base: str) -> None:
        self.carried = UnmaterializedEntries(copy_tree(source, source.need_tree(base), self.memory, no_progress))

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    def _content(self, digest: Digest) -> bytes | None:
        if digest.algorithm == "sha256" or self._source is None:
            return self._read_object(digest)
        return self._source.blob(digest)

    @property
    def files(self) -> dict[str, bytes]:
        return self.memory.files

    def run_command(self, command: str, cwd: str, form: CommandForm) -> StepResult:
        del form
        try:
            judge_path(cwd)
        except ConfinementError as error:
            return StepResult.denied(str(error))
        return self._said(command)

    def run_tests(self, target: str, command: str, expected: int | None, form: CommandForm) -> StepResult:
        del form
        known = self._canned.get(target) or self._canned.get(command)
        if known is None:
            return StepResult.skipped("there is no prepared result for these tests")
        self.ran.append(target)
        return judge_tests(known.exit_code, known.passed, expected, known.output)

    def commit(self, message: str, commit: Digest | None) -> StepResult:
        del commit
        return StepResult("done", detail=f"committed in memory: {message}")

    def checkpoint(self, state: Digest) -> StepResult:
        known = self._states.get(digest_text(state))
        if known is None:
            return StepResult.skipped("the files of this checkpoint are not available")
        if known == self.files:
            return StepResult("done", detail="the files are the recorded ones")
        wrong = sorted(name for name in {*known, *self.files} if known.get(name) != self.files.get(name))
        shown = ", ".join(wrong[:5])
        return StepResult(
            "done", "failed", error=f"other files than recorded: {shown}", differs=("files", "as recorded", shown)
        )

    def take_over(self, state: Digest) -> StepResult:
        name = state.value.hex()
        if self._source is None or not self._source.tree_of(name):
            return StepResult.skipped(f"the files of {name[:12]} are not available")
        before = self.memory
        self.folder = self.memory = MemoryFolder()
        try:
            self._fill(self._source, name)
        except (ConfinementError, UsageError) as error:
            self.folder = self.memory = before
            return (
                StepResult.denied(str(error)) if isinstance(error, ConfinementError) else StepResult.failed(str(error))
            )
        return StepResult("done", detail=f"took over the files of {name[:12]}")

    def observe(self, call: Call) -> StepResult:
        return self._said(call.text(0), f"{call.op} is not performed here")

    def fate(self, call: Call, foreseen: dict[str, str]) -> Fate:
        return super().fate(call, foreseen) if foreseen else "unknown"

    def _said(self, text: str, otherwise: str = "there is no prepared result for this command") -> StepResult:
        known = self._canned.get(text)
        if known is None:
            return StepResult.skipped(otherwise)
        self.ran.append(text)
        for path, data in known.writes.items():
            self.folder.write(path, data)
        return StepResult("done", "failed" if known.exit_code else "ok", known.exit_code, output=known.output)
