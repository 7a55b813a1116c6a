"""Reader of one session's episodes, kept between requests: each look reads only what was added.

The run is not touched, because everything shown is recorded. Memory is bounded for any session: a row for each of the newest STEPS_MAX
steps, and a few of the newest requests; older ones are rebuilt from the episodes on demand. Worker threads share a reader, one at a time,
each with a project of its own.
"""

from __future__ import annotations

__all__ = ["STEPS_MAX", "SessionReader", "SessionReaders", "StepRow", "TurnRow"]

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.agent.episodes import Answered, Episode, Resulted
from periplus.agent.observation import CallMetrics, Ledger, RequestHistory, Seen, cost_text
from periplus.agent.persistence.stored_episodes import EpisodeFeed, StoredEpisodes
from periplus.base.errors import NotFoundError
from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.run.step_values import Part, Step, part_of, step_of

if TYPE_CHECKING:
    from periplus.agent.observation import Totals
    from periplus.project import Project

STEPS_MAX: Final = 20_000
READERS_MAX: Final = 4
_NAMES_MAX: Final = 8
_SAYS_CHARACTERS: Final = 120
_FOUND_MAX: Final = 4
_FOUND_CHARACTERS: Final = 4_000_000


class StepRow(NamedTuple):
    """A step in the list. ``tools`` are the names of its calls; ``says`` is the beginning of its answer."""

    metrics: CallMetrics
    tools: tuple[str, ...] = ()
    failed: int = 0
    says: str = ""


class TurnRow(NamedTuple):
    turn: int
    request: str
    reason: str
    cost: str
    steps: tuple[StepRow, ...]


class Session(NamedTuple):
    """A session as it is now. ``turns`` have the steps numbered ``first`` to ``end`` (counted from 0, without it) of ``total``."""

    title: str
    model: str
    phase: str
    pending: tuple[int, int] | None
    totals: Totals
    cost: str
    survival: int | None
    survival_at_folds: int | None
    folds: int
    turns: tuple[TurnRow, ...]
    first: int
    end: int
    total: int
    calls: tuple[CallMetrics, ...]


class SessionReader:
    """Fold over the episodes of session ``name``. Each public function may be called from any thread."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._feed = EpisodeFeed(name)
        self._ledger = Ledger()
        self._book = RequestHistory()
        self._rows: dict[int, StepRow] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        self._found: OrderedDict[tuple[int, int], Seen] = OrderedDict()
        self._title = self._model = ""
        self._episodes = 0

    def refresh(self, project: Project) -> bool:
        """Read what was added; return whether the session has any episode. Raises DamageError, EnvironmentFailure."""
        with self._lock:
            before = self._episodes
            self._book.take_all(self._counted(project))
            if self._episodes > before or (self._episodes and not self._title):
                self._take_facts(project)
            return bool(self._episodes)

    def overview(self, page_size: int, first: int | None, chosen: tuple[int, int] | None) -> Session:
        """Return the session with a page of steps: from ``first`` on, else the one with ``chosen``, else the last."""
        with self._lock:
            ledger, count = self._ledger, len(self._ledger.calls)
            least = max(0, count - STEPS_MAX)
            if first is None:
                at = self._numbers.get(chosen, count - 1) if chosen is not None else count - 1
                first = max(0, at) // page_size * page_size
            first = min(max(first, least), max(least, count - 1))
            end = min(first + page_size, count)
            pending = self._book.pending()
            sums = ledger.totals
            return Session(
                self._title, self._model, self._book.phase, (pending.turn, pending.step) if pending is not None else None, sums,
                cost_text(sums.cost, sums.unpriced, sums.calls), ledger.survival, ledger.survival_at_folds, ledger.folds,
                self._turns(first, end, is_last=end == count), first, end, count, tuple(ledger.calls[least:]),
            )  # fmt: skip

    def newest(self) -> tuple[int, int] | None:
        """Return turn and step of the request that waits for its answer, else of the last step."""
        with self._lock:
            pending = self._book.pending()
            if pending is not None:
                return pending.turn, pending.step
            last = self._ledger.calls[-1] if self._ledger.calls else None
            return (last.turn, last.step) if last is not None else None

    def step(self, project: Project, turn: int, step: int, earlier: int = 0) -> Step:
        """Return one step; see ``step_of``. Raises NotFoundError, DamageError."""
        with self._lock:
            seen = self._seen(project, turn, step)
            number = self._numbers.get((turn, step))
            metrics = self._ledger.calls[number] if number is not None else None
            if metrics is None and seen.answered is not None:
                from periplus.agent.observation import call_metrics

                metrics = call_metrics(seen.answered)
            return step_of(seen, metrics, earlier)

    def part(self, project: Project, turn: int, step: int, what: str, place: int, start: int) -> Part:
        """Return a piece of a text of a step; see ``part_of``. Raises NotFoundError, UsageError, DamageError."""
        with self._lock:
            return part_of(self._seen(project, turn, step), what, place, start)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _counted(self, project: Project) -> Iterator[Episode]:
        for episode in self._feed.read(project):
            self._episodes += 1
            self._take(episode)
            yield episode

    def _take(self, episode: Episode) -> None:
        self._ledger.take(episode)
        number = len(self._ledger.calls) - 1
        if isinstance(episode, Answered):
            message = episode.message
            names = tuple(call.name[:40] for call in message.tool_calls[:_NAMES_MAX])
            says = " ".join(message.content[: 4 * _SAYS_CHARACTERS].split())[:_SAYS_CHARACTERS]
            self._rows[number] = StepRow(self._ledger.calls[-1], names, 0, says)
            self._numbers[episode.turn, episode.step] = number
            old = self._rows.pop(number - STEPS_MAX, None)
            if old is not None:
                self._numbers.pop((old.metrics.turn, old.metrics.step), None)
        elif isinstance(episode, Resulted) and episode.result.outcome != "ok" and number in self._rows:
            row = self._rows[number]
            self._rows[number] = row._replace(failed=row.failed + 1)

    def _take_facts(self, project: Project) -> None:
        from periplus.agent.persistence.run_log import session_runs
        from periplus.base.text.secrets import mask_secrets

        for run in session_runs(project, self.name):
            self._title = mask_secrets(run.facts.title)[0] or self._title
            self._model = run.facts.model or self._model

    def _turns(self, first: int, end: int, *, is_last: bool) -> tuple[TurnRow, ...]:
        """Return the turns of steps; with the last step also those after it, which have none yet."""
        steps: dict[int, list[StepRow]] = {}
        for number in range(first, end):
            row = self._rows[number]
            steps.setdefault(row.metrics.turn, []).append(row)
        least = min(steps, default=1)
        most = max(steps, default=0)
        wanted = [one for one in self._ledger.turns if least <= one.turn and (is_last or one.turn <= most)]
        return tuple(
            TurnRow(
                one.turn, one.request, one.reason or "", cost_text(one.totals.cost, one.totals.unpriced, one.totals.calls),
                tuple(steps.get(one.turn, ())),
            )
            for one in wanted
            if one.turn in steps or not one.totals.calls
        )  # fmt: skip

    def _seen(self, project: Project, turn: int, step: int) -> Seen:
        seen = self._book.get(turn, step) or self._found.get((turn, step))
        is_older = (turn, step) in self._numbers or len(self._ledger.calls) > STEPS_MAX
        if seen is None and is_older:
            seen = RequestHistory.find(StoredEpisodes(project, self.name).read(), turn, step)
            if seen is not None and seen.answered is not None:
                self._keep(seen)
        if seen is None:
            raise NotFoundError(f"session {self.name} has no step {turn}.{step}")
        return seen

    def _keep(self, seen: Seen) -> None:
        if sum(len(one.content) for one in seen.messages) <= _FOUND_CHARACTERS:
            self._found[seen.turn, seen.step] = seen
            while len(self._found) > _FOUND_MAX:
                self._found.popitem(last=False)


class SessionReaders:
    """Readers by lineage and session, the least recently used dropped first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, str], SessionReader] = OrderedDict()

    def reader(self, lineage: str, name: str) -> SessionReader:
        with self._lock:
            found = self._held.pop((lineage, name), None) or SessionReader(name)
            self._held[lineage, name] = found
            while len(self._held) > READERS_MAX:
                self._held.popitem(last=False)
            return found
