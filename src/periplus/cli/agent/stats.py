"""``run --stats``: the cost of a session's model calls, as a table that fits a terminal."""

from __future__ import annotations

__all__ = ["show_stats", "stats_lines", "stored_session"]

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, visible

if TYPE_CHECKING:
    from periplus.agent.observation.metrics import CallMetrics, Ledger
    from periplus.agent.persistence.run_log import StoredSession
    from periplus.project import Project

_COLUMNS: Final = "  {:>4} {:>9} {:>9} {:>7} {:>9} {:>7} {:>7} {:>7} {:>7}"
_WIDTH: Final = 78


def show_stats(face: Face, project: Project, name: str) -> int:
    """Print the costs of the session ``name``, by default the last one. Raises NotFoundError, DamageError."""
    from periplus.agent.observation.metrics import Ledger
    from periplus.agent.persistence.stored_episodes import StoredEpisodes
    from periplus.cli.agent.schemas import RunStatsOut

    session = stored_session(project, name)
    ledger = Ledger()
    for episode in StoredEpisodes(project, session.name).read():
        ledger.take(episode)
    out = RunStatsOut(
        session=session.name, title=session.title, model=session.model, totals=ledger.totals, survival=ledger.survival,
        survival_at_folds=ledger.survival_at_folds, folds=ledger.folds, turns=ledger.turns, calls=ledger.calls,
    )  # fmt: skip
    face.emit(out, lambda: [f"{visible(session.name)}  {visible(session.title)}"[:_WIDTH], *stats_lines(ledger)])
    return 0


def stored_session(project: Project, name: str) -> StoredSession:
    """Return the session ``name``. Raises NotFoundError."""
    from periplus.agent.persistence.run_log import stored_sessions
    from periplus.base.errors import NotFoundError

    found = [one for one in stored_sessions(project) if name in ("", one.name)]
    if not found:
        wrong = f"the agent has no session {name!r}" if name else "the agent has not run in this project"
        raise NotFoundError(wrong, safe="Nothing was changed.", mend="See `periplus run --list`.")
    return found[0]


def stats_lines(ledger: Ledger) -> Iterator[str]:
    """Yield lines of at most 78 columns: one for each turn, and below it one for each call."""
    from periplus.agent.observation.metrics import cost_text

    yield _COLUMNS.format("step", "fresh", "cached", "output", "cost", "time", "first", "retries", "prefix")
    calls = iter(ledger.calls)
    for turn in ledger.turns:
        tools = f", {turn.tools} calls of tools" + (f" ({turn.tools_failed} failed)" if turn.tools_failed else "")
        yield visible(f"{turn.turn}. {turn.request}")[:_WIDTH]
        for _ in range(turn.totals.calls):
            yield _row(next(calls))
        sums = turn.totals
        cost = cost_text(sums.cost, sums.unpriced, sums.calls)
        yield f"  {turn.reason or 'running'}: {cost}, {sums.latency_ms / 1000:.1f} s of the model{tools}"
    sums = ledger.totals
    yield f"All: {sums.fresh:,} tokens fresh, {sums.cached:,} cached, {sums.output:,} out"
    if sums.cached_share is not None:
        yield f"{int(100 * sums.cached_share)} % of the prompt tokens came from the cache."
    yield f"Cost: {cost_text(sums.cost, sums.unpriced, sums.calls)}; retries: {sums.retries:,}"
    if ledger.survival is not None:
        yield f"Reused prefix from turn to turn: {_percent(ledger.survival)} on average"
    if ledger.folds:
        at = f", and {_percent(ledger.survival_at_folds)} there" if ledger.survival_at_folds is not None else ""
        yield f"Folds of the tape: {ledger.folds}{at}"


def _row(call: CallMetrics) -> str:
    cost = f"${call.cost / 1e6:.4f}" if call.cost is not None else "unknown"
    first = f"{call.first_token_ms / 1000:.1f} s" if call.first_token_ms is not None else "-"
    return _COLUMNS.format(
        call.step, f"{call.fresh:,}", f"{call.cached:,}", f"{call.output:,}", cost, f"{call.latency_ms / 1000:.1f} s", first,
        call.retries, _percent(call.survival),
    )  # fmt: skip


def _percent(millionths: int | None) -> str:
    return "-" if millionths is None else f"{millionths / 10_000:.1f} %"
