"""Fields of an entity that differ between two of its contents, as lines."""

from __future__ import annotations

__all__ = ["TEXT_CHARACTERS_MAX", "DiffLine", "FieldDifference", "field_differences", "text_of"]

import difflib
from typing import TYPE_CHECKING, Final, Literal

from periplus.base.named_tuple import NamedTuple
from periplus.journal.history.field_reversal import Content, differing
from periplus.web.rendering.json_text import json_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from periplus.base.encoding.canonical import JSONValue

FIELDS_MAX: Final = 40
TEXT_CHARACTERS_MAX: Final = 300
LINES_MAX: Final = 40
LINE_CHARACTERS_MAX: Final = 600
_COMPARED_LINES_MAX: Final = 200  # more than that is told as replaced
_CONTEXT_LINES: Final = 2
_UNTOLD: Final = frozenset({"updated", "v"})  # every write changes the first, and the second says nothing


class DiffLine(NamedTuple):
    """A line; ``kind`` is the class that colours it, ``mark`` its first column."""

    kind: Literal["added", "removed", "same"]
    mark: str
    text: str


class FieldDifference(NamedTuple):
    """A field and its lines; ``cut`` counts the lines that are not shown."""

    name: str
    lines: tuple[DiffLine, ...]
    cut: int


def field_differences(before: Content, after: Content) -> tuple[FieldDifference, ...]:
    """Return the fields that differ, by name. Bounded whatever the contents are."""
    names = [name for name in differing(before, after) if name not in _UNTOLD][:FIELDS_MAX]
    return tuple(_difference(name, (before or {}).get(name), (after or {}).get(name)) for name in names)


def text_of(value: Mapping[str, JSONValue]) -> str:
    """Return the text by which people know an entity with this content; empty where it has none."""
    text = value.get("text") or value.get("title") or value.get("name")
    return text[:TEXT_CHARACTERS_MAX] if isinstance(text, str) else ""


def _difference(name: str, old: JSONValue, new: JSONValue) -> FieldDifference:
    lines = list(_lines(_text(old), _text(new)))
    return FieldDifference(name[:LINE_CHARACTERS_MAX], tuple(lines[:LINES_MAX]), max(0, len(lines) - LINES_MAX))


def _text(value: JSONValue) -> list[str]:
    if value is None:
        return []
    text = value if isinstance(value, str) else json_lines(value)
    return [line[:LINE_CHARACTERS_MAX] + ("…" if len(line) > LINE_CHARACTERS_MAX else "") for line in text.split("\n")]


def _lines(old: list[str], new: list[str]) -> Iterator[DiffLine]:
    if len(old) > _COMPARED_LINES_MAX or len(new) > _COMPARED_LINES_MAX:
        yield from (DiffLine("removed", "-", line) for line in old)
        yield from (DiffLine("added", "+", line) for line in new)
        return
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT_LINES):
        for kind, old_from, old_to, new_from, new_to in group:
            if kind == "equal":
                yield from (DiffLine("same", " ", line) for line in old[old_from:old_to])
                continue
            yield from (DiffLine("removed", "-", line) for line in old[old_from:old_to])
            yield from (DiffLine("added", "+", line) for line in new[new_from:new_to])
