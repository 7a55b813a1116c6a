"""Export of a trail as OpenTelemetry spans, in the JSON encoding of OTLP, by the semantic conventions for generative
AI.

One trace per trail: a span ``invoke_agent`` for each part, below it ``chat`` for each model call and ``execute_tool``
for each other action. Ids are derived from the trail's digest, so that repeated exports give the same spans. Texts of
people and the agent are left out unless ``with_content`` is set, as the conventions advise.
"""

from __future__ import annotations

__all__ = ["otel_lines"]

import hashlib
from collections.abc import Iterator
from typing import Any, Final

from periplus.interop.exports.trail_source import ExportSource, Moment
from periplus.trail import BY_CODE
from periplus.trail.model import TOOL_VERSION

SPANS_MAX: Final = 1_000_000
_KIND_INTERNAL: Final = 1
_KIND_CLIENT: Final = 3
_STATUS_OK: Final = 1
_STATUS_ERROR: Final = 2
_NO_TOOLS: Final = frozenset({"PROMPT", "SAY", "COMMENT", "LABEL", "NOP", "MODEL_CALL", "CHECKPOINT", "BRANCH"})
_PROVIDERS: Final = (
    (("claude",), "anthropic"),
    (("gpt", "o1", "o3", "o4", "codex", "chatgpt"), "openai"),
    (("gemini", "gemma"), "gcp.gemini"),
    (("mistral", "devstral", "codestral", "magistral"), "mistral_ai"),
    (("deepseek",), "deepseek"),
    (("grok",), "x_ai"),
    (("command",), "cohere"),
)


def otel_lines(source: ExportSource, *, with_content: bool = False) -> Iterator[str]:
    """Yield the lines of one OTLP JSON document (``resourceSpans``), one span a line, so that a long trail streams."""
    resource = {"attributes": _attributes({"service.name": "periplus", "periplus.trail.digest": source.digest.hex()})}
    yield f'{{"resourceSpans":[{{"resource":{_json(resource)},"scopeSpans":[{{'
    yield f'"scope":{_json({"name": "periplus", "version": TOOL_VERSION})},"spans":['
    held = ""
    for span in _spans(source, with_content=with_content):
        if held:
            yield held + ","
        held = _json(span)
    yield held
    yield "]}]}]}"


def _spans(source: ExportSource, *, with_content: bool) -> Iterator[dict[str, Any]]:
    trace = source.digest[:16].hex()
    ends: dict[int, int] = {}
    counts = [_Usage() for _ in source.readers]
    spoken: list[list[dict[str, Any]]] = [[] for _ in source.readers]
    for moment in source.moments():
        end_ms = moment.at_ms + (moment.step.duration_ms or 0)
        ends[moment.part] = max(ends.get(moment.part, 0), end_ms)
        if moment.op == "MODEL_CALL":
            counts[moment.part].add(moment)
        elif moment.op in ("PROMPT", "SAY") and len(spoken[moment.part]) < SPANS_MAX:
            spoken[moment.part].append(_event(source, moment, with_content=with_content))
        if moment.number >= SPANS_MAX:
            continue
        if moment.op == "MODEL_CALL":
            yield _chat(source, moment, trace)
        elif moment.op not in _NO_TOOLS:
            yield _tool(source, moment, trace, with_content=with_content)
    for part in range(len(source.readers)):
        yield _agent(source, part, trace, ends.get(part, 0), counts[part], spoken[part])


class _Usage:
    def __init__(self) -> None:
        self.fresh = self.cached = self.out = 0

    def add(self, moment: Moment) -> None:
        self.fresh += _number(moment, 1)
        self.cached += _number(moment, 2)
        self.out += _number(moment, 3)

    def attributes(self) -> dict[str, Any]:
        """Token attributes; input tokens include cached ones, as the conventions require."""
        if not (self.fresh or self.cached or self.out):
            return {}
        return {
            "gen_ai.usage.input_tokens": self.fresh + self.cached,
            "gen_ai.usage.cache_read.input_tokens": self.cached,
            "gen_ai.usage.output_tokens": self.out,
        }


def _agent(
    source: ExportSource, part: int, trace: str, end_ms: int, usage: _Usage, events: list[dict[str, Any]]
) -> dict[str, Any]:
    reader = source.readers[part]
    header = reader.header
    agent, model = source.text(header.agent), source.text(header.model)
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agent,
        "gen_ai.conversation.id": source.text(header.trail_id),
        **_model(model),
        **usage.attributes(),
        "periplus.trail.status": reader.status,
        "periplus.trail.part": part,
    }
    if header.base is not None:
        attributes["periplus.trail.base"] = source.text(header.base)
    failed = {"code": _STATUS_ERROR, "message": reader.status} if reader.status == "error" else {}
    return {
        **_frame(trace, _span_id(source, f"part {part}"), "", header.started_ms, max(end_ms, header.started_ms)),
        "name": f"invoke_agent {agent}".rstrip(),
        "kind": _KIND_INTERNAL,
        "attributes": _attributes(attributes),
        "events": events,
        "status": failed or ({"code": _STATUS_OK} if reader.status == "success" else {}),
    }


def _chat(source: ExportSource, moment: Moment, trace: str) -> dict[str, Any]:
    model = source.text(moment.operand(0))
    usage = _Usage()
    usage.add(moment)
    cost = moment.operand(4)
    attributes = {"gen_ai.operation.name": "chat", **_model(model), **usage.attributes()}
    if isinstance(cost, int):
        attributes["periplus.cost.usd"] = cost / 1_000_000
    return _step_span(source, moment, trace, f"chat {model}".rstrip(), _KIND_CLIENT, attributes)


def _tool(source: ExportSource, moment: Moment, trace: str, *, with_content: bool) -> dict[str, Any]:
    name = source.text(moment.operand(1)) if moment.op == "TOOL_CALL" else moment.op.lower()
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": f"{source.digest.hex()[:16]}#{moment.number}",
        "gen_ai.tool.type": "extension" if moment.op == "TOOL_CALL" else "function",
        "periplus.step.op": moment.op,
    }
    if with_content:
        row = BY_CODE.get(moment.step.code)
        names = [operand.name for operand in row.operands] if row else []
        names += [f"operand_{number}" for number in range(len(names), len(moment.step.operands))]
        values = zip(names, moment.step.operands, strict=True)
        arguments = {
            key: value if isinstance(value, int) else source.text(value) for key, value in values if value is not None
        }
        attributes["gen_ai.tool.call.arguments"] = _json(arguments)
    return _step_span(source, moment, trace, f"execute_tool {name}".rstrip(), _KIND_INTERNAL, attributes)


def _step_span(
    source: ExportSource, moment: Moment, trace: str, name: str, kind: int, attributes: dict[str, Any]
) -> dict[str, Any]:
    step = moment.step
    attributes["periplus.step.index"] = moment.number
    attributes["periplus.step.outcome"] = step.outcome
    if step.exit_code is not None:
        attributes["process.exit.code"] = step.exit_code
    status: dict[str, Any] = {"code": _STATUS_OK} if step.outcome == "ok" else {}
    if step.outcome in ("failed", "denied", "cancelled"):
        attributes["error.type"] = step.outcome
        status = {"code": _STATUS_ERROR, "message": source.text(step.error) or step.outcome}
    parent = _span_id(source, f"part {moment.part}")
    return {
        **_frame(
            trace,
            _span_id(source, f"step {moment.number}"),
            parent,
            moment.at_ms,
            moment.at_ms + (step.duration_ms or 0),
        ),
        "name": name,
        "kind": kind,
        "attributes": _attributes(attributes),
        "status": status,
    }


def _event(source: ExportSource, moment: Moment, *, with_content: bool) -> dict[str, Any]:
    text = source.text(moment.operand(0))
    attributes: dict[str, Any] = {"periplus.step.index": moment.number, "periplus.text.length": len(text)}
    if with_content:
        attributes["content"] = text
    name = "gen_ai.user.message" if moment.op == "PROMPT" else "gen_ai.assistant.message"
    return {"timeUnixNano": _nano(moment.at_ms), "name": name, "attributes": _attributes(attributes)}


def _frame(trace: str, span: str, parent: str, begin_ms: int, end_ms: int) -> dict[str, Any]:
    ids = {"traceId": trace, "spanId": span}
    if parent:
        ids["parentSpanId"] = parent
    return {**ids, "startTimeUnixNano": _nano(begin_ms), "endTimeUnixNano": _nano(end_ms)}


def _nano(at_ms: int) -> str:
    return str(max(at_ms, 0) * 1_000_000)  # OTLP counts from 1970, unsigned; 64-bit numbers are strings in its JSON


def _span_id(source: ExportSource, name: str) -> str:
    return hashlib.sha256(b"PPLS/otel-span\0" + source.digest + name.encode()).hexdigest()[:16]


def _model(model: str) -> dict[str, Any]:
    if not model:
        return {}
    bare = model.lower().rpartition("/")[2]
    provider = next((name for marks, name in _PROVIDERS if bare.startswith(marks)), "")
    return {"gen_ai.request.model": model, **({"gen_ai.provider.name": provider} if provider else {})}


def _number(moment: Moment, index: int) -> int:
    value = moment.operand(index)
    return int(value) if isinstance(value, int) else 0


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _any_value(value)} for key, value in values.items() if value != ""]


def _any_value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(int(value))}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


def _json(value: object) -> str:
    import orjson

    return orjson.dumps(value).decode()
