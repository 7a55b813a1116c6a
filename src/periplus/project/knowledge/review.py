"""Review memory of one project: list what is due, confirm memory, and run checks."""

from __future__ import annotations

__all__ = ["CheckRun", "ProjectReview"]

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import RefusedError, refuse_text
from periplus.base.named_tuple import NamedTuple
from periplus.journal.storage.progress import Progress, no_progress
from periplus.memory.code_anchors.anchors import DEEP, Ground
from periplus.memory.entities.check_results import Check, record_check
from periplus.memory.review import Due, checks_of, confirm, review
from periplus.project.knowledge.grounds import ground_of

if TYPE_CHECKING:
    from periplus.memory.writing.lifecycle import Changed
    from periplus.project.store import ProjectStore

_TOLD_MAX: Final = 1_000
_OUTPUT_BYTES_MAX: Final = 1 << 20


class CheckRun(NamedTuple):
    """A check that was run; ``why`` is empty where it passed, ``output`` is its output."""

    check: Check
    exit_code: int
    why: str
    took_ms: int
    output: bytes


class ProjectReview:
    """``project.reviewing``: memory that needs review, and the review of it."""

    def __init__(self, project: ProjectStore) -> None:
        self._project = project

    def due(self, progress: Progress = no_progress) -> list[Due]:
        """Return what is stale, moved, expired or fails its check; see ``memory.review``."""
        self._project.look()
        return review(self._project.journal, self._ground(), progress)

    def is_past_away(self) -> bool:
        """Return True where older records are elsewhere: ``due`` then lacks what only they say (failed checks,
        competing successors, late changes).
        """
        from periplus.journal.checkpoints.offline_archive import absent

        journal = self._project.journal
        return journal.index.has_floors and bool(absent(journal))

    def confirm(
        self, item_ids: Sequence[str], *, about: Sequence[str] = (), expires: str = "", key: str = ""
    ) -> Changed:
        """Confirm that these still hold, and anchor them to the code as it is now."""
        refuse_text(item_ids=item_ids, about=about)
        self._project.look()
        project = self._project
        return confirm(project.journal, project.writer, item_ids, self._ground(), about=about, expires=expires, key=key)

    def checks(self, item_ids: Sequence[str] = ()) -> list[Check]:
        """Return the check commands of these entities, or of all constraints and traps in force."""
        refuse_text(item_ids=item_ids)
        self._project.look()
        return checks_of(self._project.journal, item_ids)

    def run(
        self, checks: Sequence[Check], *, path: str, allow_network: bool = False, seconds_max: float = 300.0
    ) -> Iterator[CheckRun]:
        """Run checks one by one in the worktree that is worked in; each result is recorded before the next begins.

        To call this is to consent: they are shell text that agents and people wrote, and run with the caller's
        rights. They are confined as a replay confines commands: ``path`` is all they get of the environment, beside
        an empty home; no network unless allowed. Raises RefusedError where the network cannot be kept from them.
        """
        import tempfile

        from periplus.trail.replay.command_runner import CommandLimits, Runner

        project = self._project
        with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as temporary:
            limits = CommandLimits(seconds_max=seconds_max, output_bytes_max=_OUTPUT_BYTES_MAX)
            runner = Runner(home, temporary, path, allow_network=allow_network, limits=limits)
            trouble = runner.why_not()
            if trouble:
                raise RefusedError(trouble, safe="Nothing was run.", mend="Give --allow-network too.")
            for check in checks:
                begun = time.monotonic_ns()
                ran = runner.shell(check.command, project.top)
                took_ms = (time.monotonic_ns() - begun) // 1_000_000
                why = ran.stopped or (f"exit {ran.exit_code}" if ran.exit_code else "")
                record_check(project.journal, project.writer, check, exit_code=ran.exit_code, why=why, took_ms=took_ms)
                yield CheckRun(check, ran.exit_code, why, took_ms, ran.output)

    def _ground(self) -> Ground:
        return ground_of(self._project, reach=DEEP, told_max=_TOLD_MAX)
