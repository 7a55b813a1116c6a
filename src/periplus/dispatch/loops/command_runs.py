"""Commands that the supervisor runs itself for a gate, in a worktree at the tip of the loop's branch, in the sandbox, within a limit.

A run has an id that comes from the loop, the try, the commit and the command. So whoever goes on after a crash finds the run that was
started, and starts none twice.
"""

from __future__ import annotations

__all__ = ["CommandRuns", "Ran"]

import os
import select
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError
from periplus.base.ids import derived_id
from periplus.base.named_tuple import NamedTuple
from periplus.base.text.secrets import mask_secrets
from periplus.dispatch.supervision.preparation import bring_folders
from periplus.memory.entities.schemas import Check

if TYPE_CHECKING:
    from periplus.dispatch.processes import Ended, RunFolder
    from periplus.dispatch.supervision.jobs import Jobs
    from periplus.dispatch.supervision.workplace import Workplace

OUTPUT_BYTES_MAX: Final = 256 << 10
NOT_STARTED: Final = 127
_TRIES_MAX: Final = 5  # of a run that is lost with its machine
_WAIT_S: Final = 0.5


class Ran(NamedTuple):
    """A command that has ended, and what it printed."""

    check: Check
    output: bytes


class CommandRuns:
    """Runs commands for the try ``number`` of a loop; ``is_stopping`` is asked while one runs."""

    def __init__(self, at: Workplace, jobs: Jobs, loop_id: str, number: int, is_stopping: Callable[[], bool]) -> None:
        self._at, self._jobs, self._loop_id, self._number = at, jobs, loop_id, number
        self._is_stopping = is_stopping
        self._path = at.places.worktree(f"loop-{loop_id[-8:]}")

    def run(self, phase: str, argv: Sequence[str], tip: str) -> Ran | None:
        """Run a command on the commit ``tip`` and return how it ended; None where a person wants to stop first."""
        if self._at.order.setup:
            prepared = self._ended(self._at.order.setup, tip, "setup", argv)
            if prepared is None:
                return None
        folder = self._ended(argv, tip, "check", argv)
        if folder is None:
            return None
        ended = folder.ended()
        output, _ = mask_secrets(folder.tail(OUTPUT_BYTES_MAX).decode("utf-8", "replace"))
        if ended is not None and ended.problem:
            output += f"\n{ended.problem}"
        return Ran(Check(phase=phase, argv=tuple(argv), tip=tip, code=_code(ended)), output.encode())

    def tidy(self) -> None:
        """Remove the worktree."""
        try:
            self._at.repository.remove_worktree(self._path, keep_branch=True, force=True)
        except PeriplusError as error:
            self._at.remark(f"{self._path} was not removed: {error}")

    def _ended(self, words: Sequence[str], tip: str, purpose: str, argv: Sequence[str]) -> RunFolder | None:
        """Return the run folder of a command that has ended; one that was lost is run again."""
        folder = None
        for attempt in range(_TRIES_MAX):
            run_id = derived_id("job", self._loop_id, str(self._number), tip, purpose, *argv, str(attempt))
            folder = self._at.run_folder(run_id)
            if folder.standing() == "absent":
                if purpose == "setup" or not self._at.order.setup:
                    self._renew_worktree(tip)
                folder.start(self._jobs.command(words, self._path, run_id, is_setup=purpose == "setup"))
            if not self._wait(folder):
                return None
            if folder.standing() == "ended":
                return folder
        return folder

    def _renew_worktree(self, tip: str) -> None:
        self._at.repository.remove_worktree(self._path, keep_branch=True, force=True)
        self._at.repository.add_worktree(self._path, "", tip)
        bring_folders(self._at, self._path)

    def _wait(self, folder: RunFolder) -> bool:
        """Wait until a run has ended; return False where a person wants to stop: the run goes on to its limit and is found later."""
        while folder.standing() not in ("ended", "lost"):
            if self._is_stopping():
                return False
            fd = folder.waitable_fd()
            poll = select.poll()
            if fd is not None:
                poll.register(fd, select.POLLIN)
            try:
                poll.poll(_WAIT_S * 1_000)
            finally:
                if fd is not None:
                    os.close(fd)
        return True


def _code(ended: Ended | None) -> int | None:
    """Return the exit code; None where the command was stopped at its limit, that of shells where it could not be started."""
    if ended is None or ended.ending != "exited":
        return None
    return ended.code if ended.code is not None else NOT_STARTED
