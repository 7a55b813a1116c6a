"""Alignment of two long sequences of keys: the stretches that they have in common, in order.

Common beginnings and ends are taken first. Then *patience* divides the rest: keys that occur once in either sequence
are anchors, and the longest run of anchors that rises in both is kept. Where there is no anchor, Myers' greedy
algorithm finds the shortest edit (E. W. Myers, "An O(ND) Difference Algorithm and Its Variations", 1986) up to a
maximum number of edits. Beyond that number, or when the work budget of the call is spent, a stretch counts as replaced.
So the time is bounded for any input, and the result is always a correct alignment, if not the shortest.
"""

from __future__ import annotations

__all__ = ["Common", "align", "align_texts"]

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

_EDITS_MAX: Final = 500
_WORK_PER_KEY: Final = 80
_WORK_LEAST: Final = 2_000_000
_WORK_LEAST_OF_TEXTS: Final = 50_000
_ANCHOR_WORK: Final = 10  # work units that one key costs while anchors are looked for


class Common(NamedTuple):
    """``first[a : a + length]`` is ``second[b : b + length]``."""

    a: int
    b: int
    length: int


class _Work:
    """The work that may still be spent, in steps of an inner loop."""

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, steps: int) -> bool:
        self.left -= steps
        return self.left >= 0


def align(first: Sequence[int], second: Sequence[int], work_least: int = _WORK_LEAST) -> list[Common]:
    """Return the common stretches, rising in both sequences; none is empty, and no two are adjacent in both."""
    found: list[Common] = []
    work = _Work(max(work_least, _WORK_PER_KEY * (len(first) + len(second))))
    stack = [(0, len(first), 0, len(second))]
    while stack:
        low_a, high_a, low_b, high_b = stack.pop()
        begin = low_a
        while low_a < high_a and low_b < high_b and first[low_a] == second[low_b]:
            low_a += 1
            low_b += 1
        if low_a > begin:
            found.append(Common(begin, low_b - (low_a - begin), low_a - begin))
        end = high_a
        while low_a < high_a and low_b < high_b and first[high_a - 1] == second[high_b - 1]:
            high_a -= 1
            high_b -= 1
        if end > high_a:
            found.append(Common(high_a, high_b, end - high_a))
        if low_a == high_a or low_b == high_b or not work.take(_ANCHOR_WORK * (high_a - low_a + high_b - low_b)):
            continue
        anchors = _anchors(first, second, low_a, high_a, low_b, high_b)
        if not anchors:
            found.extend(_shortest(first, second, low_a, high_a, low_b, high_b, work))
            continue
        # Each anchor begins a new stretch; the first anchor ends the stretch before it.
        begin_a, begin_b = low_a, low_b
        for next_a, next_b in [*anchors, (high_a, high_b)]:
            stack.append((begin_a, next_a, begin_b, next_b))
            begin_a, begin_b = next_a, next_b
    return _joined(found)


def align_texts(first: Sequence[str], second: Sequence[str]) -> list[Common]:
    """Align the lines of an edit like ``align``, with a smaller work budget, because a trail may hold thousands of
    edits.
    """
    numbers: dict[str, int] = {}
    keys = [[numbers.setdefault(text, len(numbers)) for text in texts] for texts in (first, second)]
    return align(keys[0], keys[1], _WORK_LEAST_OF_TEXTS)


def _anchors(
    first: Sequence[int], second: Sequence[int], low_a: int, high_a: int, low_b: int, high_b: int
) -> list[tuple[int, int]]:
    """Return pairs of places of keys that occur once in either range, rising in both."""
    place_a = _places_of_unique(first, low_a, high_a)
    place_b = _places_of_unique(second, low_b, high_b)
    pairs = [(a, place_b[key]) for key, a in place_a.items() if a >= 0 and place_b.get(key, -1) >= 0]
    # Patience sorting with back pointers gives the longest run that rises in b as well.
    tops: list[int] = []
    piles: list[int] = []
    before: list[int] = []
    for index, (_, b) in enumerate(pairs):
        pile = bisect_left(tops, b)
        before.append(piles[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(b)
            piles.append(index)
        else:
            tops[pile] = b
            piles[pile] = index
    chosen: list[tuple[int, int]] = []
    at = piles[-1] if piles else -1
    while at >= 0:
        chosen.append(pairs[at])
        at = before[at]
    return chosen[::-1]


def _places_of_unique(keys: Sequence[int], low: int, high: int) -> dict[int, int]:
    """Map each key to its place, or to −1 if it occurs twice; ordered by place."""
    places: dict[int, int] = {}
    for place in range(low, high):
        key = keys[place]
        places[key] = -1 if key in places else place
    return places


def _shortest(
    first: Sequence[int], second: Sequence[int], low_a: int, high_a: int, low_b: int, high_b: int, work: _Work
) -> list[Common]:
    """Return the common keys of the shortest edit, or nothing if that edit is too long."""
    size_a, size_b = high_a - low_a, high_b - low_b
    reached = {1: 0}
    history: list[dict[int, int]] = []
    for edits in range(min(size_a + size_b, _EDITS_MAX) + 1):
        history.append(dict(reached))
        for diagonal in range(-edits, edits + 1, 2):
            is_down = diagonal == -edits or (
                diagonal != edits and reached.get(diagonal - 1, -1) < reached.get(diagonal + 1, -1)
            )
            a = reached[diagonal + 1] if is_down else reached[diagonal - 1] + 1
            b = a - diagonal
            begin = a
            while a < size_a and 0 <= b < size_b and first[low_a + a] == second[low_b + b]:
                a += 1
                b += 1
            reached[diagonal] = a
            if not work.take(2 + a - begin):
                return []
            if a >= size_a and b >= size_b:
                return _walked_back(history, size_a, size_b, low_a, low_b)
    return []


def _walked_back(history: list[dict[int, int]], a: int, b: int, low_a: int, low_b: int) -> list[Common]:
    found: list[Common] = []
    for edits in range(len(history) - 1, -1, -1):
        reached = history[edits]
        diagonal = a - b
        is_down = diagonal == -edits or (
            diagonal != edits and reached.get(diagonal - 1, -1) < reached.get(diagonal + 1, -1)
        )
        from_diagonal = diagonal + 1 if is_down else diagonal - 1
        from_a = reached[from_diagonal] if edits else 0
        from_b = from_a - from_diagonal if edits else 0
        start = (from_a if is_down else from_a + 1) if edits else 0
        if a > start:
            found.append(Common(low_a + start, low_b + b - (a - start), a - start))
        a, b = from_a, from_b
    return found


def _joined(found: list[Common]) -> list[Common]:
    out: list[Common] = []
    for one in sorted(found):
        if out and out[-1].a + out[-1].length == one.a and out[-1].b + out[-1].length == one.b:
            one = Common(out[-1].a, out[-1].b, out[-1].length + one.length)  # noqa: PLW2901 - the two are one from here on
            out.pop()
        out.append(one)
    return out
