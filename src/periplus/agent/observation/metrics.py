"""Cost of a session's model calls: a fold over its episodes.

A cost of 0 in an answer's usage means that the price is not known (``contracts.Usage``). It is reported as unknown and added to nothing. A
sum says how many of its calls had no price, so that a partial sum is not taken for the whole.
"""

from __future__ import annotations

__all__ = ["CallMetrics", "Ledger", "Spending", "Totals", "TurnMetrics", "call_metrics", "cost_text"]

from typing import Final

import msgspec

from periplus.agent.contracts import FinishReason, StopReason, Usage
from periplus.agent.episodes import Answered, Ended, Episode, Requested, Resulted
from periplus.agent.events import AnswerCompleted, Event

FIRST_TOKEN: Final = "first_token_ms"  # noqa: S105 - the name of a measure
_REQUEST_CHARACTERS: Final = 200


class CallMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics of one model call. ``fresh`` and ``cached`` belong to the prompt; tokens written into the cache are part of ``fresh``.

    ``cost`` is in millionths of a dollar; None if the price is not known. ``survival`` is in millionths of the request before, None for the
    first of a session; it counts at a ``boundary``, the first request of a turn. ``first_token_ms`` is None without streaming.
    """

    turn: int
    step: int
    model: str
    fresh: int
    cached: int
    cache_written: int
    output: int
    reasoning: int
    cost: int | None
    latency_ms: int
    first_token_ms: int | None
    retries: int
    survival: int | None
    boundary: bool
    fold: bool
    request_bytes: int
    common_bytes: int
    finish_reason: FinishReason


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over calls. ``cost`` covers the calls with a known price; ``unpriced`` counts the others."""

    calls: int = 0
    fresh: int = 0
    cached: int = 0
    cache_written: int = 0
    output: int = 0
    reasoning: int = 0
    cost: int = 0
    unpriced: int = 0
    latency_ms: int = 0
    retries: int = 0

    def with_call(self, call: CallMetrics) -> Totals:
        return Totals(
            calls=self.calls + 1, fresh=self.fresh + call.fresh, cached=self.cached + call.cached,
            cache_written=self.cache_written + call.cache_written, output=self.output + call.output,
            reasoning=self.reasoning + call.reasoning, cost=self.cost + (call.cost or 0),
            unpriced=self.unpriced + (call.cost is None), latency_ms=self.latency_ms + call.latency_ms,
            retries=self.retries + call.retries,
        )  # fmt: skip

    @property
    def cached_share(self) -> float | None:
        """Share of the prompt that came from the cache; None without a prompt."""
        prompt = self.fresh + self.cached
        return self.cached / prompt if prompt else None


class TurnMetrics(msgspec.Struct, kw_only=True):
    """Metrics of a turn; ``reason`` is empty while it runs. ``request`` is its beginning."""

    turn: int
    request: str
    reason: StopReason | None = None
    tools: int = 0
    tools_failed: int = 0
    totals: Totals = Totals()


def call_metrics(answered: Answered) -> CallMetrics:
    message = answered.message
    return _metrics(answered, message.usage, message.finish_reason, message.model)


def _metrics(
    one: Answered | AnswerCompleted, usage: Usage, finish_reason: FinishReason, model: str = ""
) -> CallMetrics:
    measures = one.measures
    return CallMetrics(
        turn=one.turn, step=one.step, model=model, fresh=usage.fresh, cached=usage.cached, cache_written=usage.cache_written,
        output=usage.completion_tokens, reasoning=usage.reasoning, cost=usage.cost or None, latency_ms=one.latency_ms,
        first_token_ms=measures.get(FIRST_TOKEN), retries=one.retries,
        survival=measures.get("survival_millionths") if measures.get("previous_bytes") else None,
        boundary=bool(measures.get("is_boundary")), fold=bool(measures.get("is_fold")),
        request_bytes=measures.get("request_bytes", 0), common_bytes=measures.get("common_bytes", 0), finish_reason=finish_reason,
    )  # fmt: skip


class Spending:
    """Running totals of a run: feed it the events of the run and of its subagents. For one thread at a time."""

    def __init__(self) -> None:
        self.totals = Totals()
        self.of_subagents = Totals()
        self._survivals = [0, 0]

    def take(self, event: Event) -> None:
        if not isinstance(event, AnswerCompleted):
            return
        call = _metrics(event, event.usage, event.finish_reason)
        self.totals = self.totals.with_call(call)
        if event.agent:
            self.of_subagents = self.of_subagents.with_call(call)
        elif call.boundary and not call.fold and call.survival is not None:
            self._survivals[0] += 1
            self._survivals[1] += call.survival

    def short(self) -> str:
        """Short form for a status line: tokens, cache share, cost."""
        sums = self.totals
        if not sums.calls:
            return "0 tokens"
        share = f" · {int(100 * sums.cached_share)} % cached" if sums.cached_share is not None else ""
        known = f"{'over ' if sums.unpriced else ''}${sums.cost / 1e6:.4f}"
        cost = "price not known" if sums.unpriced == sums.calls else known
        return f"{sums.fresh + sums.cached + sums.output:,} tokens{share} · {cost}"

    def lines(self) -> list[str]:
        """Long form."""
        sums, below = self.totals, self.of_subagents
        share = f" ({int(100 * sums.cached_share)} % of the prompt)" if sums.cached_share is not None else ""
        found = [
            f"{sums.calls:,} call{'s' * (sums.calls != 1)} of the model, {sums.latency_ms / 1000:.1f} s, {sums.retries:,} retried",
            f"tokens: {sums.fresh:,} fresh, {sums.cached:,} from the cache{share}, {sums.output:,} out",
            f"cost: {cost_text(sums.cost, sums.unpriced, sums.calls)}",
        ]
        if below.calls:
            found.append(
                f"of that subagents: {below.calls:,} calls, {cost_text(below.cost, below.unpriced, below.calls)}"
            )
        if self._survivals[0]:
            mean = self._survivals[1] / self._survivals[0]
            found.append(f"prefix that survived from turn to turn: {mean / 10_000:.1f} % on the average")
        return found


class Ledger:
    """Metrics of all turns: feed it the episodes of a session with ``take``, in order."""

    def __init__(self) -> None:
        self.calls: list[CallMetrics] = []
        self.turns: list[TurnMetrics] = []
        self.totals = Totals()

    def take(self, episode: Episode) -> None:
        match episode:
            case Requested():
                self.turns.append(TurnMetrics(turn=episode.turn, request=_opening(episode.text)))
            case Answered():
                call = call_metrics(episode)
                self.calls.append(call)
                self.totals = self.totals.with_call(call)
                if self.turns:
                    self.turns[-1].totals = self.turns[-1].totals.with_call(call)
            case Resulted() if self.turns:
                self.turns[-1].tools += 1
                self.turns[-1].tools_failed += episode.result.outcome != "ok"
            case Ended() if self.turns:
                self.turns[-1].reason = episode.reason
            case _:
                pass  # other episodes cost nothing

    @property
    def survival(self) -> int | None:
        """Mean over the boundaries between turns without a fold, in millionths; None if there is none."""
        return _mean(
            [call.survival for call in self.calls if call.boundary and not call.fold and call.survival is not None]
        )

    @property
    def survival_at_folds(self) -> int | None:
        """The same for the boundaries with a fold."""
        return _mean(
            [call.survival for call in self.calls if call.boundary and call.fold and call.survival is not None]
        )

    @property
    def folds(self) -> int:
        return sum(call.fold for call in self.calls)


def cost_text(cost: int, unpriced: int, calls: int) -> str:
    """Format a cost for people; an unknown cost is never shown as zero."""
    if not calls:
        return "nothing"
    if unpriced >= calls:
        return "price not known"
    known = f"${cost / 1e6:.4f}"
    return f"{known} and {unpriced:,} call{'s' * (unpriced != 1)} of unknown price" if unpriced else known


def _mean(found: list[int]) -> int | None:
    return sum(found) // len(found) if found else None


def _opening(text: str) -> str:
    line = " ".join(text[: 4 * _REQUEST_CHARACTERS].split())
    return line if len(line) <= _REQUEST_CHARACTERS else line[: _REQUEST_CHARACTERS - 1] + "…"
