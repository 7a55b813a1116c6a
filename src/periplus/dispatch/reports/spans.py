"""OpenTelemetry spans of a dispatch, from its events.

    dispatch                         from its first event to its end
    └── assignment STEP              one attempt at a step, from its offer to its end
        └── run PURPOSE              one job: the agent, its reviewer, the oracle; tokens, cost and how it ended

They have ids, names, states and numbers, and no text: no task, no reason, no answer. Their times are those of the records, so a dispatch
that several supervisors carried one after another has true times in each of their traces.
"""

from __future__ import annotations

__all__ = ["DispatchSpans", "open_dispatch_spans"]

from collections.abc import Callable
from typing import Any, Final

from periplus.agent.observation.spans import FLUSH_MS, open_provider
from periplus.base.clock import parse_ms
from periplus.dispatch.reports.events import Event

_SCHEMA: Final = "https://opentelemetry.io/schemas/1.41.0"
_OPEN_MAX: Final = 10_000
_LEFT: Final = frozenset({"failed", "cancelled", "timed_out"})
_ENDED: Final = _LEFT | {"integrated"}
_WELL: Final = frozenset({"exited", "ended", "passed", "answered"})


class DispatchSpans:
    """A sink of events. ``close`` sends the rest within a few seconds and returns how many spans could not be sent."""

    def __init__(self, provider: Any, dispatch: str, failed: Callable[[], int] = lambda: 0) -> None:
        self._provider, self._dispatch, self._failed = provider, dispatch, failed
        self._tracer = provider.get_tracer("periplus.dispatch", schema_url=_SCHEMA)
        self._whole: Any = None
        self._assignments: dict[str, Any] = {}
        self._runs: dict[str, Any] = {}
        self._last_ms = 0
        self.is_broken = False

    def __call__(self, event: Event) -> None:
        if self.is_broken or len(self._assignments) + len(self._runs) > _OPEN_MAX:
            return
        try:
            self._take(event)
        except Exception:  # noqa: BLE001 - whatever the SDK of somebody else raises, the dispatch goes on without spans
            self.is_broken = True

    def close(self) -> int:
        """End what is open as cut off, and send it."""
        for span in (*self._runs.values(), *self._assignments.values(), self._whole):
            if span is not None:
                self._end(span, self._last_ms, "cut_off")
        self._runs, self._assignments, self._whole = {}, {}, None
        self._provider.force_flush(FLUSH_MS)
        self._provider.shutdown()
        return self._failed()

    def _take(self, event: Event) -> None:
        at_ms = parse_ms(event.ts) or self._last_ms
        self._last_ms = max(self._last_ms, at_ms)
        if self._whole is None:
            self._whole = self._begin("dispatch", None, at_ms, {"periplus.dispatch.id": self._dispatch})
        if event.event == "assignment":
            self._assignment(event, at_ms)
        elif event.event == "run":
            self._run(event, at_ms)
        elif event.event == "dispatch" and event.state != "open":
            self._end(self._whole, at_ms, "" if event.state == "done" else event.state)
            self._whole = None

    def _assignment(self, event: Event, at_ms: int) -> None:
        span = self._span_of(event, at_ms)
        if event.state in _ENDED:
            span.set_attributes({**_spent(event), "periplus.state": event.state})
            self._end(span, at_ms, event.state if event.state in _LEFT else "")
            del self._assignments[event.assignment]

    def _span_of(self, event: Event, at_ms: int) -> Any:
        if event.assignment not in self._assignments:
            attributes = {
                "periplus.assignment.id": event.assignment, "periplus.step.id": event.step, "periplus.step.number": event.number,
                "periplus.attempt": event.attempt, "gen_ai.agent.name": event.agent,
            }  # fmt: skip
            self._assignments[event.assignment] = self._begin("assignment", self._whole, at_ms, attributes)
        return self._assignments[event.assignment]

    def _run(self, event: Event, at_ms: int) -> None:
        span = self._runs.pop(event.run, None)
        if span is None:
            begun_ms = at_ms if event.state == "started" else at_ms - event.wall_ms
            attributes = {"periplus.run.id": event.run, "periplus.purpose": event.purpose}
            attributes |= {"gen_ai.agent.name": event.agent} if event.agent else {}
            span = self._begin(f"run {event.purpose}", self._span_of(event, begun_ms), begun_ms, attributes)
        if event.state == "started":
            self._runs[event.run] = span
            return
        span.set_attributes({**_spent(event), "periplus.ending": event.state, "periplus.trail.id": event.trail})
        self._end(span, at_ms, "" if event.state in _WELL else event.state)

    def _begin(self, name: str, parent: Any, at_ms: int, attributes: dict[str, Any]) -> Any:
        from opentelemetry.trace import SpanKind, set_span_in_context

        context = set_span_in_context(parent) if parent is not None else None
        return self._tracer.start_span(name, context, SpanKind.INTERNAL, attributes, start_time=at_ms * 1_000_000)

    def _end(self, span: Any, at_ms: int, error: str) -> None:
        if error:
            from opentelemetry.trace import Status, StatusCode

            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR))
        span.end(end_time=at_ms * 1_000_000)


def open_dispatch_spans(dispatch: str, exporter: Any = None) -> DispatchSpans:
    """Open the exporter for a dispatch. Raises UsageError if the OpenTelemetry SDK is not installed."""
    provider, failed = open_provider(exporter)
    return DispatchSpans(provider, dispatch, failed)


def _spent(event: Event) -> dict[str, int]:
    found = {
        "gen_ai.usage.input_tokens": event.tokens_in + event.cached, "gen_ai.usage.output_tokens": event.out,
        "gen_ai.usage.cache_read.input_tokens": event.cached, "periplus.cost_microdollars": event.cost,
    }  # fmt: skip
    return {name: count for name, count in found.items() if count}
