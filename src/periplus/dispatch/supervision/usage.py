"""Spending and trail of a run: its output as it comes, and its trail once it has ended."""

from __future__ import annotations

__all__ = ["RunTrail", "Usage"]

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError
from periplus.base.named_tuple import NamedTuple
from periplus.dispatch.adapters import Reading, Sought, Spent
from periplus.dispatch.supervision.texts import plain
from periplus.project.trail_store.model_costs import trail_costs

if TYPE_CHECKING:
    from periplus.dispatch.adapters import Adapter
    from periplus.dispatch.processes import RunFolder
    from periplus.dispatch.supervision.workplace import Workplace
    from periplus.memory.entities.schemas import Assignment, Attempt

_READ_BYTES: Final = 1 << 20
_PIECES_MAX: Final = 8  # at one look: a flood of output must not hold up the others
_FOLLOW_S: Final = 20.0
_FOLLOW_SHARE: Final = 200  # an import is repeated only after so many times its duration
_PROMPT_BYTES_MAX: Final = 1 << 20


class RunTrail(NamedTuple):
    """The trail of a run, and what the run spent by it."""

    id: str
    spent: Spent


class Usage:
    """Reads the output of one run. ``before`` are earlier runs of the same session."""

    def __init__(self, adapter: Adapter | None, before: Sequence[Attempt]) -> None:
        self._adapter = adapter
        self._goes_on = bool(before)
        self.before = Spent()
        for run in before:
            self.before += Spent(run.tokens_in, run.cached, run.out, run.cost)
        earlier = self.before._replace(tokens_in=self.before.tokens_in + self.before.cached)  # as agents count
        self.reading = adapter.reading(earlier) if adapter is not None else Reading()
        self._offset = 0
        self._imported: dict[str, int] = {}  # sizes of the agent's own files at their last import
        self._due_s = time.monotonic() + _FOLLOW_S
        self.live_trail = ""
        self._has_tail = False

    @property
    def spent(self) -> Spent:
        """Tokens and money that the output tells, with fresh and cached input tokens apart, as trails have them."""
        spent = self.reading.spent
        return spent._replace(tokens_in=max(0, spent.tokens_in - spent.cached))

    @property
    def session(self) -> str:
        """The agent's own id of its session, as far as its output tells."""
        return self.reading.session

    def session_of(self, run: Attempt) -> str:
        """Return the session of the run; empty where the agent chooses its id and did not get to tell it."""
        is_ours = self._adapter is None or self._adapter.chooses
        return self.session or (run.session if is_ours or self._goes_on else "")

    @property
    def last_words(self) -> str:
        return self.reading.last_text or self.reading.last_line

    def read(self, folder: RunFolder) -> None:
        """Read what has been printed since the last time."""
        for _ in range(_PIECES_MAX):
            data = folder.read(self._offset, _READ_BYTES)
            if not data:
                return
            self._offset += len(data)
            self.reading.feed(data)

    def read_rest(self, folder: RunFolder) -> None:
        """Read the output of a job that has ended to its end: what it spent often stands in its last line."""
        while data := folder.read(self._offset, _READ_BYTES):
            self._offset += len(data)
            self.reading.feed(data)
        if folder.life().output_bytes > self._offset and not self._has_tail:  # of more output only the end is kept
            self._has_tail = True
            self.reading.feed(b"\n" + folder.tail(_READ_BYTES).partition(b"\n")[2])

    def close(self) -> None:
        self.reading.close()

    def files(self, session: str, worktree: str, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Return the files in which the agent keeps its session: they change while it works."""
        if self._adapter is None:
            return ()
        return tuple(self._adapter.transcripts(Sought(self.session or session, worktree, environment)))

    def follow(self, at: Workplace, run: Attempt, worktree: str) -> bool:
        """Import the agent's own record while it grows, seldom enough; return True where the run has a trail since."""
        now_s = time.monotonic()
        if self._adapter is None or now_s < self._due_s:
            return False
        self._due_s = now_s + _FOLLOW_S
        sought = Sought(self.session or run.session, worktree, at.options.environment)
        had = self.live_trail
        try:
            for path in self._adapter.transcripts(sought):
                size = os.stat(path).st_size
                if size != self._imported.get(path):
                    self.live_trail = self._import(at, path, sought.session) or self.live_trail
                    self._imported[path] = size
        except (PeriplusError, OSError):
            return False  # half a record is no damage: the end of the run imports all of it
        self._due_s = time.monotonic() + max(_FOLLOW_S, _FOLLOW_SHARE * (time.monotonic() - now_s))
        return self.live_trail != had

    def trail(self, at: Workplace, value: Assignment, run: Attempt, worktree: str, code: int | None) -> RunTrail | None:
        """Keep the trail of a run that has ended: that of the agent itself, or one made of what is known of the run."""
        if self._adapter is None:
            return None
        sought = Sought(self.session or run.session, worktree, at.options.environment)
        try:
            found = [self._import(at, path, sought.session) for path in self._adapter.transcripts(sought)]
            of_session = next((one for one in reversed(found) if one), "")
            trail_id = (
                of_session or self._stored(at, value, run, sought.session) or self._recorded(at, value, run, code)
            )
            costs = trail_costs(at.project, trail_id)
        except PeriplusError as error:
            at.remark(f"the trail of {run.id} was not kept: {error}")
            return None
        spent = Spent(*costs) - self.before if of_session else Spent(*costs)
        return RunTrail(
            trail_id, spent if spent.cost_millionths else spent._replace(cost_millionths=self.spent.cost_millionths)
        )

    def _import(self, at: Workplace, path: str, session: str) -> str:
        """Import the agent's own record and return the trail of the session; empty where it is not there. A record may hold sessions
        of the whole machine, of which those of other projects are left out.
        """
        found = at.project.import_transcripts(path, only_here=True)
        if self._adapter is not None and self._adapter.connects:  # its format has the ids of sessions
            found = [one for one in found if one.entity.value.get("session_id") == session]
        return found[-1].entity.item_id if found else ""

    def _stored(self, at: Workplace, value: Assignment, run: Attempt, session: str) -> str:
        """Return the trail that the agent itself has written into the store for this run; empty where there is none."""
        if self._adapter is None or not self._adapter.records:
            return ""
        from periplus.agent.persistence.run_log import session_runs
        from periplus.project.trail_store.recording import seal_abandoned

        seal_abandoned(at.project)  # it may have been killed
        earlier = {one.trail for one in value.runs if one.id != run.id}
        found = [one.trail for one in session_runs(at.project, session) if one.trail and one.trail not in earlier]
        return found[-1] if found else ""

    def _recorded(self, at: Workplace, value: Assignment, run: Attempt, code: int | None) -> str:
        """Record a trail of a run whose agent keeps none. One that was recorded before is found by its title."""
        title = f"{' '.join(value.text.split())[:120]} ({run.id})"
        for held in at.project.journal.entities("run"):
            if held.value.get("title") == title and held.value.get("trail"):
                return str(held.value["trail"])
        steps: list[tuple[str, Mapping[str, object]]] = [("PROMPT", {"text": self._prompt(at, run)})]
        if any(self.spent):
            spent, model = self.spent, at.order.model or run.agent
            steps.append(("MODEL_CALL", {"model": model, "tokens_in": spent.tokens_in, "cached": spent.cached, "out": spent.out,
                                         "cost": spent.cost_millionths}))  # fmt: skip
        steps.append(("SAY", {"text": plain(self.last_words or "nothing was said")}))
        recording = at.project.record(agent=run.agent, title=title, model=at.order.model, pid=0, checkpoints=False)
        recording.add_beside(steps, lambda _: None)
        return recording.seal("success" if code == 0 else "partial").entity.item_id

    @staticmethod
    def _prompt(at: Workplace, run: Attempt) -> str:
        for name in ("prompt", "prompt.md"):
            path = os.path.join(at.places.run(run.id), name)
            try:
                with open(path, "rb") as file:
                    data = file.read(_PROMPT_BYTES_MAX)
            except FileNotFoundError:
                continue
            if data:
                return data.decode("utf-8", "replace")
        return "(nothing was asked)"
