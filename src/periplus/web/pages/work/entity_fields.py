"""Fields of entities as values of one type; a field that another version wrote otherwise is empty."""

from __future__ import annotations

__all__ = ["number_of", "objects_of", "one_line", "text_of", "texts_of"]

from collections.abc import Mapping
from typing import Final

from periplus.base.encoding.canonical import JSONValue

_LINE_CHARACTERS: Final = 300


def text_of(value: Mapping[str, JSONValue], name: str) -> str:
    held = value.get(name, "")
    return held if isinstance(held, str) else ""


def texts_of(value: Mapping[str, JSONValue], name: str) -> tuple[str, ...]:
    held = value.get(name)
    return tuple(one for one in held if isinstance(one, str)) if isinstance(held, list) else ()


def number_of(value: Mapping[str, JSONValue], name: str, default: int = 0) -> int:
    held = value.get(name, default)
    return held if isinstance(held, int) and not isinstance(held, bool) else default


def objects_of(value: Mapping[str, JSONValue], name: str) -> tuple[Mapping[str, JSONValue], ...]:
    held = value.get(name)
    return tuple(one for one in held if isinstance(one, dict)) if isinstance(held, list) else ()


def one_line(text: str, most: int = _LINE_CHARACTERS) -> str:
    """Return the beginning of a text as one line."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 1]}…"
