"""List a trail as text, hex, verbose, compact or JSON lines; each form is a generator, so that a long trail streams.

A ``Sieve`` leaves steps out and counts them, and the last line of each form states the count.
``periplus.trail.listings.value_text`` makes the strings of a trail safe for a terminal.
"""

from __future__ import annotations

__all__ = ["FORMS", "Form", "ReadText", "listing", "plain_step", "plain_value", "step_lines", "visible"]

from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from periplus.base.clock import format_ms
from periplus.trail.format.reader import TrailReader
from periplus.trail.listings.hex_listing import hex_lines
from periplus.trail.listings.selection import Sieve
from periplus.trail.listings.value_text import (
    PREVIEW_BYTES,
    ReadText,
    View,
    line_of,
    named_operands,
    preview_of,
    shown,
    step_pieces,
    visible,
    whole,
)
from periplus.trail.model import Digest, OperandValue, Step, TextObject, Withheld
from periplus.trail.opcodes import opcode_name

Form: TypeAlias = Literal["text", "hex", "verbose", "compact", "json"]

FORMS: Final[tuple[Form, ...]] = get_args(Form)
_NAME_COLUMNS: Final = 13
_LABEL_COLUMNS: Final = 11
_NARROW_COLUMNS: Final = 60  # a narrower terminal gets no column of times


class _Listing(NamedTuple):
    reader: TrailReader
    view: View
    sieve: Sieve
    is_bare: bool

    def steps(self) -> Iterator[tuple[int, int, Step]]:
        """Yield number, ms since the trail began, and step, for each step that the sieve accepts."""
        elapsed, sieve = 0, self.sieve
        for index, step in enumerate(self.reader.steps()):
            elapsed += step.delta_ms
            if sieve.is_behind(index):
                break
            if sieve.takes(index, step):
                yield index, elapsed, step


def listing(
    reader: TrailReader,
    form: Form = "text",
    *,
    width: int | None = None,
    colour: bool = False,
    read_text: ReadText | None = None,
    preview_bytes: int = PREVIEW_BYTES,
    sieve: Sieve | None = None,
    is_bare: bool = False,
    base: int = 0,
) -> Iterator[str]:
    """Yield the lines of the listing, without line ends.

    ``width`` (columns) cuts the lines of ``text`` and ``compact`` with an ellipsis and shortens those of ``hex``;
    ``read_text`` returns the bytes of a text object by its SHA-256, of which ``preview_bytes`` are shown. ``sieve``
    selects steps, and its counts are complete when the listing ends; ``is_bare`` leaves out everything but the steps;
    ``base`` is the offset of the trail in the file, for the offsets of ``hex``.
    """
    view = View(width, colour, read_text, preview_bytes)
    one = _Listing(reader, view, sieve or Sieve.of_all(reader.step_count), is_bare)
    if form == "text":
        return _text(one)
    if form == "hex":
        return hex_lines(reader, view, one.sieve, base)
    if form == "verbose":
        return _verbose(one)
    if form == "compact":
        return _compact(one)
    return _json_lines(one)


def _elapsed(ms: int) -> str:
    sign = "-" if ms < 0 else "+"
    seconds, rest = divmod(abs(ms), 1000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    return f"{sign}{hours}:{minute:02d}:{second:02d}.{rest:03d}"


# text and compact


def _text(one: _Listing) -> Iterator[str]:
    view = one.view
    if not one.is_bare:
        for name, value in _facts(one):
            yield _fact_line(name, value, view)
    digits = max(4, len(str(max(one.reader.step_count - 1, 0))))
    is_narrow = view.width is not None and view.width < _NARROW_COLUMNS
    for index, elapsed, step in one.steps():
        time = "" if is_narrow else f"{_elapsed(elapsed):>12}  "
        yield line_of(
            [("dim", f"{index:>{digits}}  {time}"), *step_pieces(step, view, 0 if is_narrow else _NAME_COLUMNS)], view
        )
    if not one.is_bare:
        yield from _end(one)


def _compact(one: _Listing) -> Iterator[str]:
    view = one.view
    for index, _, step in one.steps():
        yield line_of([("dim", f"{index} "), *step_pieces(step, view, 0)], view)
    if not one.is_bare and one.sieve.is_choosy:
        yield line_of([("dim", f"; {one.sieve.told()}")], view)


def _fact_line(name: str, value: str, view: View, *, is_cut: bool = True) -> str:
    return line_of([("dim", f"; {name:<9} "), ("plain", value)], view, is_cut=is_cut)


def _end(one: _Listing, *, is_cut: bool = True) -> Iterator[str]:
    if one.sieve.is_choosy:
        yield _fact_line("shown", one.sieve.told(), one.view, is_cut=is_cut)
    yield _fact_line("end", one.reader.status, one.view, is_cut=is_cut)


def _facts(one: _Listing) -> Iterator[tuple[str, str]]:
    reader, view = one.reader, one.view
    header = reader.header
    plain: dict[str, OperandValue] = {
        "trail": header.trail_id,
        "title": header.title,
        "agent": header.agent,
        "model": header.model,
        "host": header.host,
        "base": header.base,
        "source": header.source,
    }
    for name, value in plain.items():
        if value is not None:
            yield name, shown(value, view, is_quoted=False)
    for parent in header.parents:
        yield "parent", shown(parent, view, is_quoted=False)
    tool = shown(header.tool, view, is_quoted=False)
    yield "tool", f"{tool} {shown(header.tool_version, view, is_quoted=False)}"
    if header.started_ms:  # some agents write no times
        yield "started", format_ms(header.started_ms)
    yield "digest", reader.digest.hex()
    redacted = ", redacted" if reader.is_redacted else ""
    signed = ", signed" if reader.signature is not None else ""
    yield "steps", f"{reader.step_count:,}{redacted}{signed}"


# verbose


def _verbose(one: _Listing) -> Iterator[str]:
    view = one.view
    if not one.is_bare:
        for name, fact in _facts(one):
            yield _fact_line(name, fact, view, is_cut=False)
    started_ms = one.reader.header.started_ms
    for index, elapsed, step in one.steps():
        yield ""
        yield from step_lines(index, step, view)
        began = format_ms(started_ms + elapsed) if started_ms or elapsed else "not known"
        took = "" if step.duration_ms is None else f", took {step.duration_ms:,} ms"
        yield _part("began", began + took, view)
        if step.source is not None:
            yield _part("source", f"record {step.source:,}", view)
    if not one.is_bare:
        yield ""
        yield from _end(one, is_cut=False)


def step_lines(index: int, step: Step, view: View) -> Iterator[str]:
    """Yield the lines of a step: operands by name, outcome, error, result and note, each a line or more."""
    yield line_of([("dim", f"{index}  "), ("name", opcode_name(step.code))], view, is_cut=False)
    for name, value in named_operands(step):
        yield from _field(name, value, view)
    outcome = step.outcome if step.exit_code is None else f"{step.outcome}, exit {step.exit_code}"
    yield _part("outcome", outcome, view, "plain" if step.outcome == "ok" else "bad")
    if step.error is not None:
        yield from _field("error", step.error, view)
    if step.result is not None:
        yield _part("result", f"{whole(step.result)}, {step.result_size:,} bytes", view)
    if step.note is not None:
        yield from _field("note", step.note, view)


def _part(name: str, text: str, view: View, style: str = "plain") -> str:
    return line_of([("dim", f"    {visible(name):<{_LABEL_COLUMNS}}"), (style, text)], view, is_cut=False)


def _field(name: str, value: OperandValue, view: View) -> Iterator[str]:
    """Yield a named value; a text of several lines has one line each, behind a bar that its content cannot imitate. A long text is
    shown so where the view shows all of it.
    """
    if isinstance(value, TextObject) and value.length <= view.preview_bytes:
        held = preview_of(value, view)
        if held is not None:
            yield _part(name, f"<object sha256:{value.sha256.hex()}>, {value.length:,} bytes", view)
            value = held
    if not isinstance(value, str) or "\n" not in value:
        is_text = isinstance(value, (str, TextObject))
        yield _part(name, shown(value, view, is_quoted=False) if is_text else whole(value), view)
        return
    yield line_of([("dim", f"    {visible(name)}")], view, is_cut=False)
    for part in value.split("\n"):
        yield line_of([("dim", "    | "), ("plain", visible(part))], view, is_cut=False)


# JSON lines


def _json_lines(one: _Listing) -> Iterator[str]:
    reader, view, sieve = one.reader, one.view, one.sieve
    header = reader.header
    if not one.is_bare:
        yield _json(
            {
                "kind": "trail",
                "format": 2,
                "digest": reader.digest.hex(),
                "agent": plain_value(header.agent, view),
                "trail_id": plain_value(header.trail_id, view),
                "tool": plain_value(header.tool, view),
                "tool_version": plain_value(header.tool_version, view),
                "base": plain_value(header.base, view),
                "model": plain_value(header.model, view),
                "host": plain_value(header.host, view),
                "source": plain_value(header.source, view),
                "title": plain_value(header.title, view),
                "parents": [plain_value(parent, view) for parent in header.parents],
                "started_ms": header.started_ms,
                "redacted": reader.is_redacted,
                "signed": reader.signature is not None,
                "steps": reader.step_count,
            }
        )
    for index, elapsed, step in one.steps():
        yield _json(plain_step(index, step, view, header.started_ms + elapsed))
    if not one.is_bare:
        end: dict[str, Any] = {"kind": "end", "status": reader.status, "steps": reader.step_count}
        if sieve.is_choosy:
            end |= {"shown": sieve.shown, "hidden": sieve.hidden()}
        yield _json(end)


def plain_step(index: int, step: Step, view: View, at_ms: int | None = None) -> dict[str, Any]:
    """Return a step as JSON values, without its time if that is unknown."""
    out: dict[str, Any] = {
        "kind": "step",
        "index": index,
        "op": opcode_name(step.code),
        "code": step.code,
        "operands": {name: plain_value(value, view) for name, value in named_operands(step)},
        "outcome": step.outcome,
    }
    if at_ms is not None:
        out["at_ms"] = at_ms
    if step.exit_code is not None:
        out["exit_code"] = step.exit_code
    if step.error is not None:
        out["error"] = plain_value(step.error, view)
    if step.result is not None:
        out["result"] = plain_value(step.result, view)
        out["result_bytes"] = step.result_size
    if step.note is not None:
        out["note"] = plain_value(step.note, view)
    if step.duration_ms is not None:
        out["duration_ms"] = step.duration_ms
    if step.source is not None:
        out["source"] = step.source
    return out


def plain_value(value: OperandValue, view: View) -> Any:
    """Return a value as JSON values."""
    if isinstance(value, TextObject):
        out: dict[str, Any] = {"object": f"sha256:{value.sha256.hex()}", "bytes": value.length}
        preview = preview_of(value, view)
        if preview is not None:
            out["preview"] = preview
        return out
    if isinstance(value, Digest):
        return {"digest": whole(value)}
    if isinstance(value, Withheld):
        return {"withheld": value.commitment.hex()}
    return value if value is None or isinstance(value, str) else int(value)


def _json(value: dict[str, Any]) -> str:
    import orjson

    line = orjson.dumps(value).decode()
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else _json_escape(char) for char in line)


def _json_escape(char: str) -> str:
    # Such characters occur only in JSON strings, where the escape means the same.
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
