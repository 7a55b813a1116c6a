"""Listing a trail: text, verbose, compact and JSON lines, each a generator, so that a long trail streams.

What stands in a trail comes from transcripts, and so from whatever an agent has read. Nothing of it reaches a terminal
as it is: each character that is not printable (controls, escapes, marks that turn the direction of writing) is shown
as an escape, and colour is only what the listing itself adds.
"""

from __future__ import annotations

__all__ = ["FORMS", "Form", "ReadText", "listing", "visible"]

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from periplus.base.clock import format_ms
from periplus.trail.model import Digest, OperandValue, Step, TextObject, Withheld
from periplus.trail.opcodes import BY_CODE, opcode_name
from periplus.trail.reader import TrailReader

Form: TypeAlias = Literal["text", "verbose", "compact", "json"]
ReadText: TypeAlias = Callable[[bytes], bytes | None]

FORMS: Final[tuple[Form, ...]] = get_args(Form)
PREVIEW_BYTES: Final = 200
_NAME_COLUMNS: Final = 13
_SGR: Final = {"name": "36", "bad": "31", "dim": "2", "plain": ""}
_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class _View(NamedTuple):
    reader: TrailReader
    width: int | None
    is_coloured: bool
    read_text: ReadText | None
    preview_bytes: int


def listing(
    reader: TrailReader,
    form: Form = "text",
    *,
    width: int | None = None,
    colour: bool = False,
    read_text: ReadText | None = None,
    preview_bytes: int = PREVIEW_BYTES,
) -> Iterator[str]:
    """The lines of the listing, without line ends.

    ``width`` (columns) cuts the lines of ``text`` and ``compact`` with an ellipsis; ``read_text`` gives the bytes of a
    text object by its SHA-256, of which ``preview_bytes`` are shown.
    """
    view = _View(reader, width, colour, read_text, preview_bytes)
    if form == "text":
        return _text(view)
    if form == "verbose":
        return _verbose(view)
    if form == "compact":
        return _compact(view)
    return _json_lines(view)


def visible(text: str) -> str:
    """``text`` on one line, with every character that is not printable as an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    known = _ESCAPES.get(char)
    if known is not None:
        return known
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# Lines of pieces: a style and a text each


_Piece: TypeAlias = tuple[str, str]


def _line(pieces: Iterable[_Piece], view: _View, *, is_cut: bool = True) -> str:
    shown = [(style, text) for style, text in pieces if text]
    while shown and not shown[-1][1].rstrip():
        shown.pop()
    if shown:
        shown[-1] = (shown[-1][0], shown[-1][1].rstrip())
    if is_cut and view.width is not None and sum(_columns(text) for _, text in shown) > view.width:
        shown = _cut(shown, view.width)
    if not view.is_coloured:
        return "".join([text for _, text in shown])
    return "".join(f"\x1b[{_SGR[style]}m{text}\x1b[0m" if _SGR[style] else text for style, text in shown)


def _cut(pieces: list[_Piece], width: int) -> list[_Piece]:
    """The pieces that fit into ``width`` columns, of which the last is for the ellipsis."""
    room = width - 1
    kept: list[_Piece] = []
    for style, text in pieces:
        for end, char in enumerate(text):
            room -= _columns(char)
            if room < 0:
                return [*kept, (style, text[:end] + "…")]
        kept.append((style, text))
    return kept


def _columns(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(
        2 if unicodedata.east_asian_width(char) in "WF" else 0 if unicodedata.combining(char) else 1 for char in text
    )


# Values


def _shown(value: OperandValue, view: _View, *, is_quoted: bool) -> str:
    if isinstance(value, str):
        return f'"{visible(value)}"' if is_quoted else visible(value)
    if isinstance(value, TextObject):
        name = f"<object sha256:{value.sha256.hex()[:8]}… {value.length:,} bytes>"
        preview = _preview(value, view)
        return name if preview is None else f'"{visible(preview)}…" {name}'
    if isinstance(value, Digest):
        return f"{value.algorithm}:{value.value.hex()[:12]}…"
    if isinstance(value, Withheld):
        return "<withheld>"
    return str(value)


def _preview(value: TextObject, view: _View) -> str | None:
    data = view.read_text(value.sha256) if view.read_text is not None else None
    if data is None:
        return None
    return data[: view.preview_bytes].decode(errors="ignore")


def _operands(step: Step, view: _View) -> str:
    known = BY_CODE.get(step.code)
    shown: list[str] = []
    for place, value in enumerate(step.operands):
        if value is None:
            continue
        if known is None:
            shown.append(_shown(value, view, is_quoted=True))
            continue
        operand = known.operands[place]
        text = _shown(value, view, is_quoted=operand.kind not in ("path", "json"))
        shown.append(text if place == 0 else f"{operand.name}={text}")
    return " ".join(shown)


def _outcome(step: Step) -> str:
    if step.exit_code is None:
        return "" if step.outcome == "ok" else step.outcome
    if step.outcome == "ok" and step.exit_code == 0:
        return ""
    return f"{step.outcome}, exit {step.exit_code}"


def _elapsed(ms: int) -> str:
    sign = "-" if ms < 0 else "+"
    seconds, rest = divmod(abs(ms), 1000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    return f"{sign}{hours}:{minute:02d}:{second:02d}.{rest:03d}"


# text and compact


def _text(view: _View) -> Iterator[str]:
    reader = view.reader
    for name, value in _facts(view):
        yield _line([("dim", f"; {name:<9} "), ("plain", value)], view)
    elapsed = 0
    digits = max(4, len(str(max(reader.step_count - 1, 0))))
    for index, step in enumerate(reader.steps()):
        elapsed += step.delta_ms
        head = [("dim", f"{index:>{digits}}  {_elapsed(elapsed):>12}  ")]
        yield _line([*head, *_step_pieces(step, view, _NAME_COLUMNS)], view)
    yield _line([("dim", "; end       "), ("plain", reader.status)], view)


def _compact(view: _View) -> Iterator[str]:
    for index, step in enumerate(view.reader.steps()):
        yield _line([("dim", f"{index} "), *_step_pieces(step, view, 0)], view)


def _step_pieces(step: Step, view: _View, columns: int) -> list[_Piece]:
    pieces = [("name", f"{opcode_name(step.code):<{columns}}"), ("plain", " ")]
    outcome = _outcome(step)
    if outcome:
        pieces.append(("bad", f"[{outcome}]"))
        pieces.append(("plain", " "))
    pieces.append(("plain", _operands(step, view)))
    if step.error is not None:
        pieces.append(("bad", f" ! {_shown(step.error, view, is_quoted=False)}"))
    if step.note is not None:
        pieces.append(("dim", f" # {_shown(step.note, view, is_quoted=False)}"))
    return pieces


def _facts(view: _View) -> Iterator[tuple[str, str]]:
    reader = view.reader
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
            yield name, _shown(value, view, is_quoted=False)
    for parent in header.parents:
        yield "parent", _shown(parent, view, is_quoted=False)
    tool = _shown(header.tool, view, is_quoted=False)
    yield "tool", f"{tool} {_shown(header.tool_version, view, is_quoted=False)}"
    yield "started", format_ms(header.started_ms)
    yield "digest", reader.digest.hex()
    redacted = ", redacted" if reader.is_redacted else ""
    signed = ", signed" if reader.signature is not None else ""
    yield "steps", f"{reader.step_count:,}{redacted}{signed}"


# verbose


def _verbose(view: _View) -> Iterator[str]:
    reader = view.reader
    for name, fact in _facts(view):
        yield _line([("dim", f"; {name:<9} "), ("plain", fact)], view, is_cut=False)
    at_ms = reader.header.started_ms
    for index, step in enumerate(reader.steps()):
        at_ms += step.delta_ms
        yield ""
        yield _line([("dim", f"{index}  "), ("name", opcode_name(step.code))], view, is_cut=False)
        for name, value in _named_operands(step):
            yield from _field(name, value, view)
        outcome = step.outcome if step.exit_code is None else f"{step.outcome}, exit {step.exit_code}"
        style = "plain" if step.outcome == "ok" else "bad"
        yield _line([("dim", f"    {'outcome':<11}"), (style, outcome)], view, is_cut=False)
        if step.error is not None:
            yield from _field("error", step.error, view)
        if step.result is not None:
            result = f"{_whole(step.result)}, {step.result_size:,} bytes"
            yield _line([("dim", f"    {'result':<11}"), ("plain", result)], view, is_cut=False)
        if step.note is not None:
            yield from _field("note", step.note, view)
        took = "" if step.duration_ms is None else f", took {step.duration_ms:,} ms"
        yield _line([("dim", f"    {'began':<11}"), ("plain", format_ms(at_ms) + took)], view, is_cut=False)
        if step.source is not None:
            yield _line([("dim", f"    {'source':<11}"), ("plain", f"record {step.source:,}")], view, is_cut=False)
    yield ""
    yield _line([("dim", "; end       "), ("plain", reader.status)], view, is_cut=False)


def _named_operands(step: Step) -> Iterator[tuple[str, OperandValue]]:
    known = BY_CODE.get(step.code)
    for place, value in enumerate(step.operands):
        if known is not None and value is None:
            continue
        yield (known.operands[place].name if known is not None else str(place)), value


def _field(name: str, value: OperandValue, view: _View) -> Iterator[str]:
    """A named value; a text of several lines has a line each, behind a bar that nothing in it can imitate."""
    if not isinstance(value, str) or "\n" not in value:
        is_text = isinstance(value, (str, TextObject))
        shown = _shown(value, view, is_quoted=False) if is_text else _whole(value)
        yield _line([("dim", f"    {visible(name):<11}"), ("plain", shown)], view, is_cut=False)
        return
    yield _line([("dim", f"    {visible(name)}")], view, is_cut=False)
    for part in value.split("\n"):
        yield _line([("dim", "    | "), ("plain", visible(part))], view, is_cut=False)


def _whole(value: OperandValue) -> str:
    if isinstance(value, Digest):
        return f"{value.algorithm}:{value.value.hex()}"
    if isinstance(value, Withheld):
        return f"<withheld {value.commitment.hex()}>"
    return "absent" if value is None else str(value)


# JSON lines


def _json_lines(view: _View) -> Iterator[str]:
    reader = view.reader
    header = reader.header
    yield _json(
        {
            "kind": "trail",
            "format": 2,
            "digest": reader.digest.hex(),
            "agent": _plain(header.agent, view),
            "trail_id": _plain(header.trail_id, view),
            "tool": _plain(header.tool, view),
            "tool_version": _plain(header.tool_version, view),
            "base": _plain(header.base, view),
            "model": _plain(header.model, view),
            "host": _plain(header.host, view),
            "source": _plain(header.source, view),
            "title": _plain(header.title, view),
            "parents": [_plain(parent, view) for parent in header.parents],
            "started_ms": header.started_ms,
            "redacted": reader.is_redacted,
            "signed": reader.signature is not None,
            "steps": reader.step_count,
        }
    )
    at_ms = header.started_ms
    for index, step in enumerate(reader.steps()):
        at_ms += step.delta_ms
        yield _json(_json_step(index, step, at_ms, view))
    yield _json({"kind": "end", "status": reader.status, "steps": reader.step_count})


def _json_step(index: int, step: Step, at_ms: int, view: _View) -> dict[str, Any]:
    out: dict[str, Any] = {
        "kind": "step",
        "index": index,
        "op": opcode_name(step.code),
        "code": step.code,
        "operands": {name: _plain(value, view) for name, value in _named_operands(step)},
        "outcome": step.outcome,
        "at_ms": at_ms,
    }
    if step.exit_code is not None:
        out["exit_code"] = step.exit_code
    if step.error is not None:
        out["error"] = _plain(step.error, view)
    if step.result is not None:
        out["result"] = _plain(step.result, view)
        out["result_bytes"] = step.result_size
    if step.note is not None:
        out["note"] = _plain(step.note, view)
    if step.duration_ms is not None:
        out["duration_ms"] = step.duration_ms
    if step.source is not None:
        out["source"] = step.source
    return out


def _plain(value: OperandValue, view: _View) -> Any:
    if isinstance(value, TextObject):
        out: dict[str, Any] = {"object": f"sha256:{value.sha256.hex()}", "bytes": value.length}
        preview = _preview(value, view)
        if preview is not None:
            out["preview"] = preview
        return out
    if isinstance(value, Digest):
        return {"digest": _whole(value)}
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
    # Only strings of JSON hold such characters, and there an escape means the same.
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
