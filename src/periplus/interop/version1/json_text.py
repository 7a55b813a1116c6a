"""Foreign JSON text: parsed without loss, and written again in its own style. Pure."""

from __future__ import annotations

__all__ = ["DEPTH_MAX", "ONE_LINE", "Number", "Style", "dump", "parse_text", "style_of"]

import json
import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NoReturn

from periplus.base.encoding.canonical import INTEGER_MAX
from periplus.base.errors import FormatError

DEPTH_MAX: Final = 200
_DIGITS_MAX: Final = 16
_FIRST_KEY: Final = re.compile(r'\{(\s*)"(?:[^"\\]|\\.)*"(\s*:\s*)')


@dataclass(frozen=True, slots=True)
class Number:
    """A number that is no integer of 53 bits, as its literal."""

    text: str


class Style(NamedTuple):
    """Layout of a text; an empty ``indent`` means one line."""

    indent: str = "  "
    colon: str = ": "
    is_ascii: bool = False
    newline: str = "\n"
    head: str = ""
    tail: str = "\n"


ONE_LINE: Final = Style(indent="", tail="")


def parse_text(text: str) -> Any:
    """Parse a JSON text, keeping literals of large or fractional numbers. Raises FormatError, also for a duplicate
    key.
    """
    try:
        value = json.loads(
            text.removeprefix("\ufeff"),
            parse_float=Number,
            parse_int=_integer,
            parse_constant=Number,
            object_pairs_hook=_object,
        )
    except RecursionError as error:
        raise FormatError(f"nested deeper than {DEPTH_MAX} levels") from error
    except json.JSONDecodeError as error:
        raise FormatError(f"not JSON: {error.msg}", line=error.lineno) from error
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEPTH_MAX:
            raise FormatError(f"nested deeper than {DEPTH_MAX} levels")
        level = [item for one in level for item in _children(one)]
    return value


def _children(value: Any) -> list[Any]:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [item for item in items if isinstance(item, dict | list)]


def style_of(text: str) -> Style:
    """Return the style in which a text of one object is written."""
    found = _FIRST_KEY.search(text)
    gap, colon = (found[1], found[2]) if found is not None else ("\n  ", ": ")
    tail = text[len(text.rstrip()) :]
    newline = "\r\n" if "\r\n" in text else "\n"
    head = "\ufeff" if text.startswith("\ufeff") else ""
    indent = gap.rpartition("\n")[2] if "\n" in gap else ""
    is_ascii = text.removeprefix("\ufeff").isascii()
    return Style(indent, ": " if ": " in colon else ":", is_ascii, newline, head, tail)


def dump(value: Any, style: Style) -> str:
    """Write a value from ``parse_text`` as text."""
    gap = ", " if style.colon.endswith(" ") else ","
    body = _deep(value, style, 0).replace("\n", style.newline) if style.indent else _flat(value, style, gap)
    return style.head + body + style.tail


def _flat(value: Any, style: Style, gap: str) -> str:
    if isinstance(value, dict):
        pairs = (f"{_string(key, style)}{style.colon}{_flat(item, style, gap)}" for key, item in value.items())
        return "{" + gap.join(pairs) + "}"
    if isinstance(value, list):
        return "[" + gap.join(_flat(item, style, gap) for item in value) + "]"
    return _scalar(value, style)


def _deep(value: Any, style: Style, level: int) -> str:
    if not isinstance(value, dict | list) or not value:
        return _flat(value, style, ",")
    inner = "\n" + style.indent * (level + 1)
    if isinstance(value, dict):
        parts = [f"{_string(key, style)}{style.colon}{_deep(item, style, level + 1)}" for key, item in value.items()]
        return "{" + inner + f",{inner}".join(parts) + "\n" + style.indent * level + "}"
    parts = [_deep(item, style, level + 1) for item in value]
    return "[" + inner + f",{inner}".join(parts) + "\n" + style.indent * level + "]"


def _scalar(value: Any, style: Style) -> str:
    if isinstance(value, Number):
        return value.text
    return _string(value, style) if isinstance(value, str) else json.dumps(value)


def _string(text: str, style: Style) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(text)  # a lone surrogate has no other form
    return json.dumps(text, ensure_ascii=style.is_ascii)


def _integer(literal: str) -> int | Number:
    if len(literal) > _DIGITS_MAX + 1 or literal == "-0":
        return Number(literal)
    value = int(literal)
    return value if abs(value) <= INTEGER_MAX else Number(literal)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        _twice([key for key, _ in pairs])
    return found


def _twice(keys: list[str]) -> NoReturn:
    seen: set[str] = set()
    key = next(key for key in keys if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # add gives None
    raise FormatError(f"duplicate key {key[:80]!r}")
