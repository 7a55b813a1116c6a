"""Which commit changed what a memory is about, by git; and what is stale, confirmed and checked, for one project."""

from __future__ import annotations

__all__ = ["CheckRun", "CommitsOfGit", "ProjectReview"]

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError, RefusedError, refuse_text
from periplus.base.tuples import NamedTuple
from periplus.journal.progress import Progress, no_progress
from periplus.memory.anchors import DEEP, Anchor, Ground, is_intact
from periplus.memory.checks import Check, record_check
from periplus.memory.review import Due, checks_of, confirm, review
from periplus.project.grounds import ground_of

if TYPE_CHECKING:
    from periplus.memory.lifecycle import Changed
    from periplus.project.project import Project

_COMMITS_MAX: Final = 60
_GIT_S: Final = 5.0
_TOLD_MAX: Final = 1_000
_OUTPUT_BYTES_MAX: Final = 1 << 20


class _Change(NamedTuple):
    commit: str
    is_merge: bool
    before: bytes
    after: bytes


class CommitsOfGit:
    """Finds the commit that changed what is anchored, among the last that changed its file; each anchor is looked up once.

    It asks git twice: for those commits with the names of the contents before and after each, and for the contents. The commit
    is the newest before which the anchored lines stood there, and after which they do not. Git that is not there, too slow or
    refuses means that nobody knows: a memory is shown all the same.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._found: dict[Anchor, str | None] = {}

    def changed_in(self, anchor: Anchor) -> str | None:
        """The commit; empty where the change is not committed, None where nobody knows."""
        if anchor not in self._found:
            try:
                self._found[anchor] = self._look(anchor)
            except PeriplusError:
                self._found[anchor] = None  # what git says is an extra; that it is stale is told without it
        return self._found[anchor]

    def _look(self, anchor: Anchor) -> str | None:
        from periplus.interop.gitrun import run_git
        from periplus.project.worktree import read_blobs

        done = run_git(
            self._folder, "log", f"--max-count={_COMMITS_MAX}", "--format=%H %P", "--raw", "--no-abbrev", "--no-renames",
            "--diff-merges=first-parent", "--end-of-options", "HEAD", "--", f":(literal){anchor.path}", timeout_s=_GIT_S,
        )  # fmt: skip
        if done.returncode != 0:
            return None
        changes = _changes(done.stdout)
        names = {
            bytes.fromhex(name.decode()) for one in changes for name in (one.before, one.after) if name.strip(b"0")
        }
        contents = read_blobs(self._folder, names)
        intact: dict[bytes, bool] = {}

        def stood(name: bytes) -> bool:
            if name not in intact:
                data = contents.get(bytes.fromhex(name.decode()))
                intact[name] = data is not None and is_intact(anchor, data)
            return intact[name]

        if changes and stood(changes[0].after):
            return ""
        found = [one for one in changes if stood(one.before) and not stood(one.after)]
        # A merge brings what a commit of its other side changed: that one is named, if it is among these.
        return next((one.commit for one in sorted(found, key=lambda one: one.is_merge)), None)


def _changes(said: bytes) -> list[_Change]:
    """What ``git log --raw`` says, newest first."""
    found: list[_Change] = []
    commit = ""
    parents: list[str] = []
    for line in said.splitlines():
        if line.startswith(b":"):
            fields = line.split(b" ")
            if len(fields) >= 5 and commit:
                found.append(_Change(commit, len(parents) > 1, fields[2], fields[3]))
        elif line:
            commit, *parents = line.decode("ascii", "replace").split()
    return found


class CheckRun(NamedTuple):
    """A check that was run; ``why`` is empty where it passed, ``output`` is what it said."""

    check: Check
    exit_code: int
    why: str
    took_ms: int
    output: bytes


class ProjectReview:
    """Reached as ``project.reviewing``: what of memory wants a look, and the looks."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def due(self, progress: Progress = no_progress) -> list[Due]:
        """What is stale, moved, expired or fails its check; see ``memory.review``."""
        self._project.look()
        return review(self._project.journal, self._ground(), progress)

    def is_past_away(self) -> bool:
        """Whether records of before are elsewhere: of what they alone say ``due`` does not tell (failed checks, what clones said apart or late)."""
        from periplus.journal.away import absent

        journal = self._project.journal
        return journal.index.has_floors and bool(absent(journal))

    def confirm(
        self, item_ids: Sequence[str], *, about: Sequence[str] = (), expires: str = "", key: str = ""
    ) -> Changed:
        """Say that these still hold, and anchor them to the code as it is now."""
        refuse_text(item_ids=item_ids, about=about)
        self._project.look()
        project = self._project
        return confirm(project.journal, project.writer, item_ids, self._ground(), about=about, expires=expires, key=key)

    def checks(self, item_ids: Sequence[str] = ()) -> list[Check]:
        """The check commands of these entities, or of all constraints and traps in force."""
        refuse_text(item_ids=item_ids)
        self._project.look()
        return checks_of(self._project.journal, item_ids)

    def run(
        self, checks: Sequence[Check], *, path: str, allow_network: bool = False, seconds_max: float = 300.0
    ) -> Iterator[CheckRun]:
        """Run checks one by one in the worktree that is worked in, each written down before the next begins.

        To call this is to consent: they are shell text that agents and people wrote, and run as whoever calls. They are confined as a
        replay confines commands: ``path`` is all they get of the environment, beside an empty home; no network unless allowed. Raises
        RefusedError where the network cannot be kept from them.
        """
        import tempfile

        from periplus.trail.replay.commands import CommandLimits, Runner

        project = self._project
        with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as temporary:
            limits = CommandLimits(seconds_max=seconds_max, output_bytes_max=_OUTPUT_BYTES_MAX)
            runner = Runner(home, temporary, path, allow_network=allow_network, limits=limits)
            trouble = runner.why_not()
            if trouble:
                raise RefusedError(trouble, safe="Nothing was run.", mend="Give --allow-network too.")
            for check in checks:
                begun = time.monotonic_ns()
                ran = runner.shell(check.command, project.work.top)
                took_ms = (time.monotonic_ns() - begun) // 1_000_000
                why = ran.stopped or (f"exit {ran.exit_code}" if ran.exit_code else "")
                record_check(project.journal, project.writer, check, exit_code=ran.exit_code, why=why, took_ms=took_ms)
                yield CheckRun(check, ran.exit_code, why, took_ms, ran.output)

    def _ground(self) -> Ground:
        return ground_of(self._project, reach=DEEP, told_max=_TOLD_MAX)
