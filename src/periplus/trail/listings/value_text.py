"""Trail values as text on a line: escapes, colours and cuts.

The strings of a trail come from transcripts, and so from anything that an agent has read. None of them reaches a
terminal unescaped: each character that is not printable (control characters, escape sequences, direction marks) is
shown as an escape, and only this module adds colour.
"""

from __future__ import annotations

__all__ = [
    "PREVIEW_BYTES",
    "Piece",
    "ReadText",
    "View",
    "columns",
    "line_of",
    "named_operands",
    "outcome_of",
    "preview_of",
    "shown",
    "step_pieces",
    "visible",
    "whole",
]

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from periplus.trail.model import Digest, OperandValue, Step, TextObject, Withheld
from periplus.trail.opcodes import BY_CODE, opcode_name

ReadText: TypeAlias = Callable[[bytes], bytes | None]
Piece: TypeAlias = tuple[str, str]  # style, text

PREVIEW_BYTES: Final = 200
_SGR: Final = {"name": "36", "bad": "31", "good": "32", "changed": "33", "dim": "2", "plain": ""}
_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class View(NamedTuple):
    """Options of a listing: columns (None: no cut), colour, and the function that reads a long text by its SHA-256."""

    width: int | None = None
    is_coloured: bool = False
    read_text: ReadText | None = None
    preview_bytes: int = PREVIEW_BYTES


def visible(text: str) -> str:
    """Return ``text`` on one line, with every non-printable character as an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    known = _ESCAPES.get(char)
    if known is not None:
        return known
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# Lines of pieces


def line_of(pieces: Iterable[Piece], view: View, *, is_cut: bool = True) -> str:
    """Return the pieces as a line without trailing blanks, cut with an ellipsis if the view has a width."""
    kept = [(style, text) for style, text in pieces if text]
    while kept and not kept[-1][1].rstrip():
        kept.pop()
    if kept:
        kept[-1] = (kept[-1][0], kept[-1][1].rstrip())
    if is_cut and view.width is not None and sum(columns(text) for _, text in kept) > view.width:
        kept = _cut(kept, view.width)
    if not view.is_coloured:
        return "".join([text for _, text in kept])
    return "".join(f"\x1b[{_SGR[style]}m{text}\x1b[0m" if _SGR[style] else text for style, text in kept)


def _cut(pieces: list[Piece], width: int) -> list[Piece]:
    """Return the pieces that fit into ``width`` columns; the last column is for the ellipsis."""
    room = width - 1
    kept: list[Piece] = []
    for style, text in pieces:
        for end, char in enumerate(text):
            room -= columns(char)
            if room < 0:
                return [*kept, (style, text[:end] + "…")]
        kept.append((style, text))
    return kept


def columns(text: str) -> int:
    """Return the number of terminal columns that ``text`` takes."""
    if text.isascii():
        return len(text)
    return sum(
        2 if unicodedata.east_asian_width(char) in "WF" else 0 if unicodedata.combining(char) else 1 for char in text
    )


# Values


def shown(value: OperandValue, view: View, *, is_quoted: bool) -> str:
    """Return a value in its short form: a digest by its first digits, a long text by its first characters."""
    if isinstance(value, str):
        return f'"{visible(value)}"' if is_quoted else visible(value)
    if isinstance(value, TextObject):
        name = f"<object sha256:{value.sha256.hex()[:8]}… {value.length:,} bytes>"
        preview = preview_of(value, view)
        end = "" if value.length <= view.preview_bytes else "…"
        return name if preview is None else f'"{visible(preview)}{end}" {name}'
    if isinstance(value, Digest):
        return f"{value.algorithm}:{value.value.hex()[:12]}…"
    if isinstance(value, Withheld):
        return "<withheld>"
    return str(value)


def preview_of(value: TextObject, view: View) -> str | None:
    data = view.read_text(value.sha256) if view.read_text is not None else None
    if data is None:
        return None
    return data[: view.preview_bytes].decode(errors="ignore")


def whole(value: OperandValue) -> str:
    """Return a value that is no text in full."""
    if isinstance(value, Digest):
        return f"{value.algorithm}:{value.value.hex()}"
    if isinstance(value, Withheld):
        return f"<withheld {value.commitment.hex()}>"
    return "absent" if value is None else str(value)


# Steps


def named_operands(step: Step) -> Iterator[tuple[str, OperandValue]]:
    """Yield the operands by name, or by position if the opcode is of a newer version."""
    known = BY_CODE.get(step.code)
    for place, value in enumerate(step.operands):
        if known is not None and value is None:
            continue
        yield (known.operands[place].name if known is not None else str(place)), value


def outcome_of(step: Step) -> str:
    """Return the outcome of the step; empty if it simply succeeded."""
    if step.exit_code is None:
        return "" if step.outcome == "ok" else step.outcome
    if step.outcome == "ok" and step.exit_code == 0:
        return ""
    return f"{step.outcome}, exit {step.exit_code}"


def step_pieces(step: Step, view: View, name_columns: int) -> list[Piece]:
    """Return a step for one line: name, outcome, operands, error, note."""
    pieces = [("name", f"{opcode_name(step.code):<{name_columns}}"), ("plain", " ")]
    outcome = outcome_of(step)
    if outcome:
        pieces.append(("bad", f"[{outcome}]"))
        pieces.append(("plain", " "))
    pieces.append(("plain", _operands(step, view)))
    if step.error is not None:
        pieces.append(("bad", f" ! {shown(step.error, view, is_quoted=False)}"))
    if step.note is not None:
        pieces.append(("dim", f" # {shown(step.note, view, is_quoted=False)}"))
    return pieces


def _operands(step: Step, view: View) -> str:
    known = BY_CODE.get(step.code)
    out: list[str] = []
    for place, value in enumerate(step.operands):
        if value is None:
            continue
        if known is None:
            out.append(shown(value, view, is_quoted=True))
            continue
        operand = known.operands[place]
        text = shown(value, view, is_quoted=operand.kind not in ("path", "json"))
        out.append(text if place == 0 else f"{operand.name}={text}")
    return " ".join(out)
