"""OpenTelemetry spans of a run, from its events, after the semantic conventions for generative AI (``gen_ai.*``).

    invoke_agent periplus            a turn; a subagent's lies below the call that started it
    ├── chat MODEL                   a model call: tokens, time to the first token, finish reason
    └── execute_tool NAME            a tool call and its outcome

Spans are sent only if the user asks for it, and to the collector that the user's environment names. They contain no text: no prompt, no
answer, no argument, no output. They never hold up the run: a thread of the SDK sends them, and spans that cannot be sent are counted.
"""

from __future__ import annotations

__all__ = ["FLUSH_MS", "Spans", "open_provider", "open_spans"]

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from periplus.agent.events import (
    AgentStarted,
    AnswerCompleted,
    Event,
    RetryScheduled,
    StepStarted,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from periplus.agent.observation.metrics import FIRST_TOKEN
from periplus.base.errors import UsageError

_AGENT: Final = "periplus"
_SEND_S: Final = 5
FLUSH_MS: Final = 3_000
_OPEN_MAX: Final = 10_000  # open spans


class Spans:
    """A sink of events, from any thread. ``close`` sends the rest within a few seconds and returns how many could not be sent."""

    def __init__(self, provider: Any, session: str, model: str, failed: Callable[[], int] = lambda: 0) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("periplus.agent", schema_url="https://opentelemetry.io/schemas/1.41.0")
        self._session, self._model = session, model
        self._failed = failed
        self._lock = threading.Lock()
        self._turns: dict[str, Any] = {}
        self._chats: dict[str, Any] = {}
        self._tools: dict[tuple[str, str], Any] = {}
        self._names: dict[str, tuple[str, str]] = {}  # subagents by session: name and parent
        self.is_broken = False

    def __call__(self, event: Event) -> None:
        with self._lock:
            if self.is_broken or len(self._turns) + len(self._chats) + len(self._tools) > _OPEN_MAX:
                return
            try:
                self._take(event)
            except Exception:  # noqa: BLE001 - whatever the SDK of somebody else raises, the run goes on without spans
                self.is_broken = True

    def close(self) -> int:
        with self._lock:
            for span in (*self._tools.values(), *self._chats.values(), *self._turns.values()):
                _fail(span, "cut_off")
                span.end()
        self._provider.force_flush(FLUSH_MS)
        self._provider.shutdown()
        return self._failed()

    def _take(self, event: Event) -> None:
        who = event.agent
        match event:
            case AgentStarted():
                self._names[event.session] = (event.name, who)
            case TurnStarted():
                self._turns[who] = self._begin(
                    f"invoke_agent {self._name(who)}", self._above(who), "invoke_agent", event, "internal"
                )
                self._turns[who].set_attribute("gen_ai.agent.name", self._name(who))
            case StepStarted():
                self._end(self._chats.pop(who, None), "cut_off")
                name = self._model.rpartition("/")[2]
                self._chats[who] = self._begin(f"chat {name}", self._turns.get(who), "chat", event, "client")
            case RetryScheduled() if who in self._chats:
                self._chats[who].add_event(
                    "retry", {"periplus.attempt": event.attempt, "periplus.wait_ms": event.wait_ms}
                )
            case AnswerCompleted() if who in self._chats:
                span = self._chats.pop(who)
                span.set_attributes(_answered(event))
                span.end()
            case ToolStarted():
                self._tools[who, event.call_id] = self._tool(event.name, event.call_id, event)
            case ToolEnded():
                span = self._tools.pop((who, event.call_id), None) or self._tool(event.name, event.call_id, event)
                span.set_attribute("periplus.outcome", event.outcome)
                self._end(span, "" if event.outcome == "ok" else event.outcome)
            case TurnEnded():
                self._end(self._chats.pop(who, None), event.reason)
                span = self._turns.pop(who, None)
                if span is not None:
                    span.set_attributes({**_spent(event.usage), "periplus.reason": event.reason})
                self._end(span, "" if event.reason == "done" else event.reason)
            case _:
                pass  # other events make no span

    def _begin(self, name: str, parent: Any, operation: str, event: Event, kind: str) -> Any:
        from opentelemetry.trace import SpanKind, set_span_in_context

        provider, _, model = self._model.rpartition("/")
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": operation, "gen_ai.conversation.id": event.agent or self._session,
            "gen_ai.provider.name": provider or _AGENT, "gen_ai.request.model": model,
            "periplus.turn": event.turn, "periplus.step": event.step,
        }  # fmt: skip
        context = set_span_in_context(parent) if parent is not None else None
        return self._tracer.start_span(
            name, context, SpanKind.CLIENT if kind == "client" else SpanKind.INTERNAL, attributes
        )

    def _tool(self, name: str, call_id: str, event: Event) -> Any:
        span = self._begin(
            f"execute_tool {name[:100]}", self._turns.get(event.agent), "execute_tool", event, "internal"
        )
        span.set_attributes(
            {"gen_ai.tool.name": name[:100], "gen_ai.tool.call.id": call_id[:200], "gen_ai.tool.type": "function"}
        )
        return span

    def _name(self, who: str) -> str:
        return self._names[who][0] or _AGENT if who in self._names else _AGENT

    def _above(self, who: str) -> Any:
        """The parent span of a turn; for a subagent, the newest tool call of its parent session."""
        if not who:
            return None
        whose = self._names.get(who, ("", ""))[1]
        calls = [span for (session, _), span in self._tools.items() if session == whose]
        return calls[-1] if calls else self._turns.get(whose)

    def _end(self, span: Any, error: str) -> None:
        if span is not None:
            if error:
                _fail(span, error)
            span.end()


def open_spans(session: str, model: str, exporter: Any = None) -> Spans:
    """Open the exporter for a session of the agent. Raises as ``open_provider``."""
    provider, failed = open_provider(exporter)
    return Spans(provider, session, model, failed)


def open_provider(exporter: Any = None) -> tuple[Any, Callable[[], int]]:
    """Return a provider of tracers and a count of spans that did not arrive. The SDK reads the collector's address from
    ``OTEL_EXPORTER_OTLP_ENDPOINT``. Raises UsageError if the SDK is not installed.
    """
    try:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

        if exporter is None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            exporter = OTLPSpanExporter(timeout=_SEND_S)
    except ImportError as error:
        raise UsageError("spans need the OpenTelemetry packages", safe="Nothing was run.",
                         mend="Install them: pip install 'periplus[otel]', or leave out --otel.") from error  # fmt: skip
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    logging.getLogger("opentelemetry").propagate = False  # failures are reported once, at the end
    failed = [0]

    class Counting(SpanExporter):  # type: ignore[misc]  # an extra, of which the check knows nothing
        """Counts spans that did not arrive, which the SDK does not report."""

        def export(self, spans: Any) -> Any:
            result = exporter.export(spans)
            failed[0] += len(spans) if result is not SpanExportResult.SUCCESS else 0
            return result

        def shutdown(self) -> None:
            exporter.shutdown()

    resource = Resource.create({})
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: _AGENT}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Counting(), export_timeout_millis=1000 * _SEND_S))
    return provider, lambda: failed[0]


def _fail(span: Any, error: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", error)
    span.set_status(Status(StatusCode.ERROR))


def _spent(usage: Any) -> dict[str, int]:
    found = {
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_written,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
    }
    return found | ({"periplus.cost_microdollars": usage.cost} if usage.cost else {})


def _answered(event: AnswerCompleted) -> dict[str, Any]:
    found: dict[str, Any] = {**_spent(event.usage), "gen_ai.response.finish_reasons": [event.finish_reason]}
    found["periplus.retries"] = event.retries
    if FIRST_TOKEN in event.measures:
        found["gen_ai.request.stream"] = True
        found["gen_ai.response.time_to_first_chunk"] = event.measures[FIRST_TOKEN] / 1000
    if event.measures.get("previous_bytes"):
        found["periplus.prefix_survival"] = event.measures["survival_millionths"] / 1e6
    return found
