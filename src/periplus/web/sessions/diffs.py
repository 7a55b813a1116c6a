"""Diffs of two texts by lines, in bounded time and of bounded size."""

from __future__ import annotations

__all__ = ["diff_of"]

from collections.abc import Iterator, Sequence
from typing import Final

from periplus.trail.listings.sequence_alignment import Common, align_texts
from periplus.web.sessions.values import Diff, DiffRow, Limits

COMPARED_CHARACTERS_MAX: Final = 400_000
LINE_CHARACTERS_MAX: Final = 400
_CONTEXT: Final = 3


def diff_of(old: str, new: str, limits: Limits) -> Diff:
    """Return the changed lines between two texts; texts that are too long to compare count as replaced."""
    before, after = old.splitlines(), new.splitlines()
    common = align_texts(before, after) if len(old) + len(new) <= COMPARED_CHARACTERS_MAX else []
    same = sum(one.length for one in common)
    rows: list[DiffRow] = []
    left_out = characters = 0
    for row in _rows(before, after, common):
        if len(rows) >= limits.diff_rows or characters >= limits.characters:
            left_out += 1
            continue
        rows.append(row)
        characters += len(row.text)
    return Diff(tuple(rows), len(after) - same, len(before) - same, left_out)


def _rows(before: Sequence[str], after: Sequence[str], common: Sequence[Common]) -> Iterator[DiffRow]:
    a = b = 0
    for low_a, low_b, length in [*common, Common(len(before), len(after), 0)]:
        yield from (DiffRow("-", _cut(line)) for line in before[a:low_a])
        yield from (DiffRow("+", _cut(line)) for line in after[b:low_b])
        a, b = low_a + length, low_b + length
        head = _CONTEXT if low_a or low_b else 0
        tail = _CONTEXT if a < len(before) or b < len(after) else 0
        shown = before[low_a:a]
        if length <= head + tail:
            yield from (DiffRow(" ", _cut(line)) for line in shown)
            continue
        yield from (DiffRow(" ", _cut(line)) for line in shown[:head])
        if head and tail:
            yield DiffRow("@", "")
        yield from (DiffRow(" ", _cut(line)) for line in shown[length - tail :])


def _cut(line: str) -> str:
    return line if len(line) <= LINE_CHARACTERS_MAX else line[:LINE_CHARACTERS_MAX] + "…"
