"""Importer of OpenTelemetry traces with spans of generative models: a trail for each trace.

Format: a model call is often reported twice, by the framework and by the library beneath it, and counts once: the
inner one, with the messages of the better report. A tool's run has a span of its own, or occurs only in the messages.
Every model call repeats the conversation so far.
"""

from __future__ import annotations

__all__ = ["is_mine", "read"]

import hashlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.base.errors import FormatError
from periplus.interop.conversion.claude_tools import plan_tool, tool_call
from periplus.interop.conversion.source import Head
from periplus.interop.importers.otel.messages import Message, ToolUse, messages_of, numbered, parsed, plain_text
from periplus.interop.importers.otel.spans import Span, SpanReader, is_span_file
from periplus.interop.readers.json_values import natural_of, optional_text, table_of, text_of
from periplus.trail.model import Digest

if TYPE_CHECKING:
    from periplus.interop.conversion.intake import Call, Intake, Planned
    from periplus.interop.conversion.source import Source
    from periplus.interop.model import Imported
    from periplus.trail.model import Outcome, Status

_TOOL_KINDS: Final = frozenset({"tool"})
_MODEL_KINDS: Final = frozenset({"generation", "llm"})
_AGENT_KINDS: Final = frozenset({"agent"})
_MODEL_OPERATIONS: Final = frozenset({"chat", "text_completion", "generate_content", "completion", "responses"})
_AGENT_OPERATIONS: Final = frozenset({"invoke_agent", "create_agent"})
_KIND_ATTRIBUTES: Final = ("openinference.span.kind", "traceloop.span.kind", "langfuse.observation.type")
_INPUTS: Final = ("gen_ai.input.messages", "input.value", "gen_ai.prompt", "traceloop.entity.input")
_OUTPUTS: Final = ("gen_ai.output.messages", "output.value", "gen_ai.completion", "traceloop.entity.output")
_NUMBERED_INPUTS: Final = ("gen_ai.prompt", "llm.input_messages")
_NUMBERED_OUTPUTS: Final = ("gen_ai.completion", "llm.output_messages")
_IN_TOKENS: Final = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_OUT_TOKENS: Final = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")
_CACHED_TOKENS: Final = (
    "gen_ai.usage.cached_tokens", "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read",
)  # fmt: skip
_MODELS: Final = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_COSTS: Final = ("operation.cost", "gen_ai.usage.cost")
_ARGUMENTS: Final = (
    "gen_ai.tool.call.arguments",
    "tool_arguments",
    "tool.parameters",
    "input.value",
    "traceloop.entity.input",
)
_RESULTS: Final = ("gen_ai.tool.call.result", "tool_response", "output.value", "traceloop.entity.output")
_TOOL_NAMES: Final = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_ANCESTORS_MAX: Final = 64
_SEEN_MAX: Final = 100_000


def is_mine(head: Head) -> bool:
    return is_span_file(head)


def read(source: Source) -> Iterator[Imported]:
    reader = SpanReader(source)
    traces: dict[str, list[Span]] = {}
    for span in reader.read(Head.of(source.path)):
        traces.setdefault(span.trace_id, []).append(span)
    if not traces:
        raise FormatError("no span in it", path=source.path, safe="Nothing was imported.", mend="Was it written whole?")
    last = next(reversed(traces))
    for trace_id, spans in traces.items():
        intake = source.intake()
        trace = _Trace(intake, spans)
        trace.run()
        if trace_id == last:  # errors of the file are reported once
            for number in reader.unreadable:
                intake.note_unreadable(number)
            if reader.is_broken:
                intake.skip("document cut off")
        intake.session_id = trace_id
        secret = source.secret(hashlib.sha256(reader.digest + trace_id.encode("utf-8", "replace")).digest())
        yield intake.finish(
            "otel",
            secret=secret,
            source=reader.digest,
            agent=trace.agent,
            trail_id=trace_id,
            status=trace.status,
            tool="otel",
            base=trace.base,
        )


class _Trace:
    def __init__(self, intake: Intake, spans: list[Span]) -> None:
        self.agent = "otel"
        self.base: Digest | None = None
        self.status: Status = "success"
        self._intake = intake
        self._by_id = {span.span_id: span for span in spans}
        self._spans = sorted(spans, key=lambda span: (span.start_ms or 0, span.source))
        self._kinds = {span.span_id: _kind(span) for span in spans}
        self._outer = {
            above.span_id
            for span in spans
            if self._kinds[span.span_id] == "model"
            for above in self._above(span)
            if self._kinds[above.span_id] == "model"
        }
        tools = [span for span in spans if self._kinds[span.span_id] == "tool"]
        self._tool_ids = {text_of(span.attributes.get("gen_ai.tool.call.id")) for span in tools} - {""}
        self._tool_names = {_tool_name(span) for span in tools}
        self._open: dict[str, Call] = {}
        self._seen: set[object] = set()

    def run(self) -> None:
        for span in self._spans:
            intake = self._intake
            intake.source = span.source
            intake.note_time(span.end_ms)
            intake.note_time(span.start_ms)
            self._learn(span)
            kind = self._kinds[span.span_id]
            if kind == "model":
                if span.span_id in self._outer:
                    intake.skip("call of a model that another span tells")
                else:
                    self._model(span)
            elif kind == "tool":
                self._tool(span)
            elif kind == "agent":
                self._agent(span)
            else:
                intake.skip(f"span: {span.kind or 'of no model'}")
        roots = [span for span in self._spans if span.parent_id not in self._by_id]
        if any(span.is_error for span in roots):
            self.status = "error"
        elif any(not call.is_ready for call in self._open.values()) and not self._tool_names:
            self.status = self._intake.partial("it ends behind a call without its result")

    def _above(self, span: Span) -> Iterator[Span]:
        """Yield the ancestors of a span, nearest first; circular parents end the iteration."""
        known = {span.span_id}
        while len(known) < _ANCESTORS_MAX:
            above = self._by_id.get(span.parent_id)
            if above is None or above.span_id in known:
                return
            known.add(above.span_id)
            yield above
            span = above

    def _learn(self, span: Span) -> None:
        intake, resource = self._intake, span.resource
        intake.version = intake.version or optional_text(resource.get("service.version"))
        intake.version = intake.version or optional_text(resource.get("scope.version"))
        commit = text_of(resource.get("vcs.ref.head.revision")) or text_of(span.attributes.get("vcs.ref.head.revision"))
        if self.base is None and _COMMIT.fullmatch(commit):
            self.base = Digest("git-sha1", bytes.fromhex(commit))
        if self.agent == "otel":
            name = text_of(span.attributes.get("gen_ai.agent.name")) or text_of(resource.get("service.name"))
            if name and name != "unknown_service":
                self.agent = f"otel/{intake.mask(name)[:200]}"

    # Spans

    def _agent(self, span: Span) -> None:
        """Add an agent started by another agent or program. The first agent of a trace is the run itself."""
        if span.parent_id not in self._by_id:
            self._intake.skip("span: agent")
            return
        name = text_of(span.attributes.get("gen_ai.agent.name")) or span.name
        self._intake.step("AGENT_SPAWN", self._intake.mask(name), "", None)

    def _model(self, span: Span) -> None:
        intake = self._intake
        attributes = span.attributes
        model = _text(attributes, _MODELS) or "unknown"
        intake.model = model
        telling = next(
            (one for one in (span, *self._above(span)) if self._kinds[one.span_id] == "model" and _is_told_well(one)),
            span,
        )
        for message in _messages(telling, _INPUTS, _NUMBERED_INPUTS, "user"):
            self._hear(message)
        cached = natural_of(_first(attributes, _CACHED_TOKENS))
        fresh = max(0, natural_of(_first(attributes, _IN_TOKENS)) - cached)
        cost = _first(attributes, _COSTS)
        millionths = round(cost * 1_000_000) if isinstance(cost, (int, float)) and 0 < cost < 1e9 else None
        call = intake.hold_model(model)
        if span.is_error:
            call.error = intake.mask(span.message)[:2000] or None
        intake.release_model(call, fresh, cached, natural_of(_first(attributes, _OUT_TOKENS)), millionths)
        for message in _messages(telling, _OUTPUTS, _NUMBERED_OUTPUTS, "assistant"):
            self._say(message)

    def _hear(self, message: Message) -> None:
        """Add the new part of the conversation so far."""
        intake = self._intake
        for call_id, result in message.results:
            call = self._open.pop(call_id, None)
            if call is not None:
                intake.resolve(call, "ok", result)
        if message.role != "user" or not message.text.strip():
            return
        key = hash(message.text)
        if key in self._seen:
            return
        if len(self._seen) < _SEEN_MAX:
            self._seen.add(key)
        masked = intake.mask(message.text)
        intake.count("prompts")
        intake.note_prompt(masked)
        intake.step("PROMPT", masked)

    def _say(self, message: Message) -> None:
        intake = self._intake
        for op, counted, text in (("COMMENT", "comments", message.thought), ("SAY", "says", message.text)):
            if text.strip():
                intake.count(counted)
                intake.step(op, intake.mask(text))
        for use in message.calls:
            if use.call_id in self._tool_ids or use.name in self._tool_names or use.call_id in self._open:
                continue  # the tool's own span has it, with time and outcome
            call = intake.call(_plan(intake, use))
            self._open[use.call_id or f"#{len(self._open)}"] = call

    def _tool(self, span: Span) -> None:
        intake = self._intake
        attributes = span.attributes
        arguments = parsed(_first(attributes, _ARGUMENTS))
        result = _first(attributes, _RESULTS)
        call = intake.call(_plan(intake, ToolUse("", _tool_name(span), arguments if arguments is not None else {})))
        error = span.message or next((text_of(event.get("exception.message")) for event in span.events), "")
        outcome: Outcome = "failed" if span.is_error else "ok"
        duration = span.end_ms - span.start_ms if span.end_ms is not None and span.start_ms is not None else None
        if span.end_ms is None and result is None:
            intake.release(call)
            return
        masked = intake.mask(error) if span.is_error and error else None
        intake.resolve(
            call, outcome, plain_text(result) if result is not None else None, error=masked, duration_ms=duration
        )


def _plan(intake: Intake, use: ToolUse) -> list[Planned]:
    arguments = table_of(use.arguments)
    return (
        plan_tool(intake, use.name, arguments, None) if arguments else [tool_call(intake, "", use.name, use.arguments)]
    )


def _kind(span: Span) -> str:
    attributes = span.attributes
    named = next((text_of(attributes.get(key)).lower() for key in _KIND_ATTRIBUTES if attributes.get(key)), span.kind)
    operation = text_of(attributes.get("gen_ai.operation.name"))
    if operation == "execute_tool" or named in _TOOL_KINDS or "gen_ai.tool.name" in attributes:
        return "tool"
    if operation in _MODEL_OPERATIONS or named in _MODEL_KINDS or attributes.get("llm.request.type"):
        return "model"
    if operation in _AGENT_OPERATIONS or named in _AGENT_KINDS or "gen_ai.agent.name" in attributes:
        return "agent"
    has_usage = _first(attributes, _IN_TOKENS) is not None and _first(attributes, _MODELS) is not None
    return "model" if has_usage and not operation else ""


def _tool_name(span: Span) -> str:
    return _text(span.attributes, _TOOL_NAMES) or span.name.removeprefix("execute_tool ")


def _is_told_well(span: Span) -> bool:
    """Test that the span has messages with roles, not a conversation as one text."""
    if any(f"{prefix}.0.{role}" in span.attributes for prefix in _NUMBERED_INPUTS for role in ("role", "message.role")):
        return True
    value = parsed(_first(span.attributes, _INPUTS))
    return isinstance(value, list) and any("role" in table_of(item) for item in value)


def _messages(span: Span, names: tuple[str, ...], prefixes: tuple[str, ...], role: str) -> list[Message]:
    attributes = span.attributes
    for prefix in prefixes:
        tables = numbered(attributes, prefix)
        if tables:
            return messages_of(tables, role)
    value = _first(attributes, names)
    found = messages_of(value, role) if value is not None else []
    if not found:
        for event in span.events:
            found += messages_of(_of_event(event, role), role)
    return found


def _of_event(event: dict[str, object], role: str) -> object:
    """Return the messages of a span event: early conventions have one event for each message, or one for all."""
    name = text_of(event.get("name"))
    if role == "assistant":
        if name == "gen_ai.choice":
            return event.get("message") or event
        return event.get("gen_ai.output.messages") or event.get("gen_ai.completion")
    if name in ("gen_ai.user.message", "gen_ai.tool.message"):
        return {"role": name.split(".")[1], **event}
    return event.get("gen_ai.input.messages") or event.get("gen_ai.prompt")


def _first(attributes: dict[str, object], names: tuple[str, ...]) -> object:
    return next((attributes[name] for name in names if attributes.get(name) is not None), None)


def _text(attributes: dict[str, object], names: tuple[str, ...]) -> str:
    return next((text for name in names if (text := text_of(attributes.get(name)))), "")
