"""Spans in a file of traces: OTLP as JSON, the Python SDK's own JSON, an export of Langfuse.

OTLP is one document, or one document a line as the collector's file exporter writes. Spans are in the order of their
ends, with several traces interleaved. So all of them are read before the first trail is made, and their number and
size are limited.
"""

from __future__ import annotations

__all__ = ["SPANS_BYTES_MAX", "SPANS_MAX", "Span", "SpanReader", "is_span_file"]

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.base.errors import FormatError
from periplus.interop.importers.otel.messages import parsed
from periplus.interop.readers.json_stream import JsonReader
from periplus.interop.readers.json_values import Moment, decode_loosely, integer_of, list_of, table_of, text_of
from periplus.interop.readers.line_reader import LineReader

if TYPE_CHECKING:
    from periplus.interop.conversion.source import Head, Source

SPANS_MAX: Final = 200_000
SPANS_BYTES_MAX: Final = 256 << 20
_DEPTH_MAX: Final = 32
_CLOCK_MS_MAX: Final = 253_402_300_799_999
_STATUS_ERROR: Final = (2, "2", "STATUS_CODE_ERROR", "ERROR")
_OPENED: Final = (
    ("observations",),
    ("trace",),
    ("trace", "observations"),
    ("resourceSpans",),
    ("resourceSpans", "*"),
    ("resourceSpans", "*", "scopeSpans"),
    ("resourceSpans", "*", "scopeSpans", "*"),
    ("resourceSpans", "*", "scopeSpans", "*", "spans"),
)


class Span(NamedTuple):
    """``source`` is its number in the file; ``kind`` is the writer's own word, if any."""

    source: int
    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: str
    start_ms: int | None
    end_ms: int | None
    attributes: dict[str, object]
    resource: dict[str, object]
    events: tuple[dict[str, object], ...]
    is_error: bool
    message: str


def is_span_file(head: Head) -> bool:
    start = head.data[:4096].lstrip()
    if start[:1] not in (b"{", b"["):
        return False
    if b'"resourceSpans"' in start or (b'"trace_id"' in start and b'"span_id"' in start and b'"context"' in start):
        return True
    if b'"projectId"' in start and b'"trace"' in start:
        return b'"observations"' in head.data
    return any(_is_bare_span(record) for record in head.records[:3])


def _is_bare_span(record: dict[str, object]) -> bool:
    return isinstance(record.get("traceId"), str) and isinstance(record.get("spanId"), str) and "name" in record


class SpanReader:
    """Reads all spans of a file. ``digest`` is that of the file; ``unreadable`` has the numbers of invalid records;
    ``is_broken`` marks a truncated file.
    """

    def __init__(self, source: Source) -> None:
        self.digest = b""
        self.unreadable: list[int] = []
        self.is_broken = False
        self._source = source
        self._moment = Moment()
        self._spans: dict[tuple[str, str], Span] = {}
        self._number = 0
        self._bytes = 0

    def read(self, head: Head) -> list[Span]:
        records = head.records
        if records and (len(records) > 1 or b"\n" in head.data.rstrip()) and head.data.lstrip()[:1] == b"{":
            self._read_lines()
        else:
            self._read_document()
        return list(self._spans.values())

    # Records

    def _read_lines(self) -> None:
        reader = LineReader(self._source.path, self._source.progress)
        for number, line in reader:
            table = _decoded(line)
            if not table:
                self._note_unreadable(number)
                self.is_broken = number == reader.unterminated
                continue
            if "resourceSpans" in table:
                self._add_resource_spans(list_of(table["resourceSpans"]), len(line))
            else:
                self._add(table, {}, {}, len(line))
        self.digest = reader.digest

    def _read_document(self) -> None:
        reader = JsonReader(self._source.path, _OPENED, self._source.progress)
        resource: dict[str, object] = {}
        scope: dict[str, object] = {}
        for element in reader:
            path, name = element.path, element.name
            if path[-1:] in (("observations",), ("spans",)) or (not path and not name):
                table = _decoded(element.data)
                if table:
                    self._add(table, resource, scope, len(element.data))
                else:
                    self._number += 1
                    self._note_unreadable(self._number)
            elif len(path) == 2 and name == "resource":
                resource = _attributes(_decoded(element.data).get("attributes"))
            elif len(path) == 4 and name == "scope":
                scope = _decoded(element.data)
        self.is_broken = reader.broken is not None
        self.digest = reader.digest

    def _add_resource_spans(self, items: list[object], size: int) -> None:
        for item in items:
            group = table_of(item)
            resource = _attributes(table_of(group.get("resource")).get("attributes"))
            for inner in list_of(group.get("scopeSpans")):
                scope = table_of(table_of(inner).get("scope"))
                for span in list_of(table_of(inner).get("spans")):
                    self._add(table_of(span), resource, scope, size)
                    size = 0

    def _note_unreadable(self, number: int) -> None:
        if len(self.unreadable) < 1000:
            self.unreadable.append(number)

    # Spans

    def _add(self, table: dict[str, object], resource: dict[str, object], scope: dict[str, object], size: int) -> None:
        self._number += 1
        self._bytes += size
        if self._number > SPANS_MAX or self._bytes > SPANS_BYTES_MAX:
            raise FormatError(
                f"over {SPANS_MAX:,} spans or {SPANS_BYTES_MAX >> 20} MiB of them in one file",
                path=self._source.path,
                safe="Nothing was imported.",
                mend="Export fewer traces into one file.",
            )
        if "scope" not in resource and scope:
            resource = {**resource, "scope.name": scope.get("name"), "scope.version": scope.get("version")}
        span = self._observation(table) if "startTime" in table else self._span(table, resource)
        key = (span.trace_id, span.span_id)
        if not span.trace_id or not span.span_id:
            self._note_unreadable(self._number)
        elif key not in self._spans or len(span.attributes) > len(self._spans[key].attributes):
            self._spans[key] = span  # an export may contain it twice, once shortened

    def _span(self, table: dict[str, object], resource: dict[str, object]) -> Span:
        """Read a span of OTLP, or of the Python SDK, which has the ids in its context."""
        context = table_of(table.get("context"))
        status = table_of(table.get("status"))
        own = table_of(table.get("resource"))
        return Span(
            self._number,
            _hex(table.get("traceId") or context.get("trace_id")),
            _hex(table.get("spanId") or context.get("span_id")),
            _hex(table.get("parentSpanId") or table.get("parent_id")),
            text_of(table.get("name")),
            "",
            self._clock(table.get("startTimeUnixNano", table.get("start_time"))),
            self._clock(table.get("endTimeUnixNano", table.get("end_time"))),
            _attributes(table.get("attributes")),
            resource or _attributes(own.get("attributes")),
            tuple(
                {"name": event.get("name"), **_attributes(event.get("attributes"))}
                for event in map(table_of, list_of(table.get("events"))[:1000])
            ),
            status.get("code", status.get("status_code")) in _STATUS_ERROR,
            text_of(status.get("message")) or text_of(status.get("description")),
        )

    def _observation(self, table: dict[str, object]) -> Span:
        """Read an observation of Langfuse: some facts are fields of its own, others are in its metadata."""
        metadata = table_of(parsed(table.get("metadata")))
        attributes = {**table_of(metadata.get("attributes"))}
        for ours, theirs in (("input.value", "input"), ("output.value", "output"), ("gen_ai.response.model", "model")):
            if table.get(theirs) is not None:
                attributes[ours] = table[theirs]
        usage = table_of(table.get("usageDetails"))
        for ours, theirs in (
            ("gen_ai.usage.input_tokens", "input"),
            ("gen_ai.usage.output_tokens", "output"),
            ("gen_ai.usage.cached_tokens", "input_cached_tokens"),
        ):
            if integer_of(usage.get(theirs)) is not None and table.get("type") == "GENERATION":
                attributes[ours] = usage[theirs]
        if isinstance(table.get("totalCost"), (int, float)):
            attributes["operation.cost"] = table["totalCost"]
        scope = table_of(metadata.get("scope"))
        resource = {**table_of(metadata.get("resourceAttributes"))}
        resource |= {"scope.name": scope.get("name"), "scope.version": scope.get("version")}
        return Span(
            self._number,
            text_of(table.get("traceId")),
            text_of(table.get("id")),
            text_of(table.get("parentObservationId")),
            text_of(table.get("name")),
            text_of(table.get("type")).lower(),
            self._moment.read(table.get("startTime")),
            self._moment.read(table.get("endTime")),
            attributes,
            resource,
            (),
            table.get("level") == "ERROR",
            text_of(table.get("statusMessage")),
        )

    def _clock(self, value: object) -> int | None:
        """Return milliseconds for nanoseconds as a number or text, or for an RFC 3339 text."""
        if isinstance(value, str) and not value.isdigit():
            return self._moment.read(value)
        try:
            read_ms = int(value) // 1_000_000  # type: ignore[call-overload]  # other types are refused as well
        except (TypeError, ValueError):
            return None
        return read_ms if 0 < read_ms <= _CLOCK_MS_MAX else None


def _hex(value: object) -> str:
    return text_of(value).removeprefix("0x")[:64]


def _attributes(value: object) -> dict[str, object]:
    """Return attributes as a table: unchanged, or from OTLP's list of keys and typed values."""
    if isinstance(value, dict):
        return value
    found = {}
    for item in list_of(value):
        table = table_of(item)
        if isinstance(table.get("key"), str):
            found[text_of(table["key"])] = _value(table_of(table.get("value")), 0)
    return found


def _value(table: dict[str, object], depth: int) -> object:
    for kind, value in table.items():
        if kind == "intValue":
            return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() and len(value) < 20 else value
        if kind == "arrayValue":
            return [_value(table_of(item), depth + 1) for item in _values(value)] if depth < _DEPTH_MAX else []
        if kind == "kvlistValue":
            pairs = map(table_of, _values(value)) if depth < _DEPTH_MAX else iter(())
            return {text_of(pair.get("key")): _value(table_of(pair.get("value")), depth + 1) for pair in pairs}
        return value
    return None


def _values(value: object) -> Iterator[object]:
    return iter(list_of(table_of(value).get("values")))


def _decoded(data: bytes) -> dict[str, object]:
    import orjson

    try:
        return table_of(orjson.loads(data))
    except (ValueError, RecursionError):
        mended = decode_loosely(data, {})
    return table_of(orjson.loads(mended)) if mended is not None else {}
