"""Answers of a resolver that are kept, also those of questions that lead back to themselves.

Imports and bases may form circles. A question that is asked while it is being answered gets the answer so far, at first UNKNOWN; when
the answer that came out differs from it, everything that relied on it is forgotten and worked out again, until it is the same. So an
answer does not depend on which question of a circle was asked first. What relies on an unfinished answer is *provisional* until that
one is finished.

With a `Recorder`, each answer is kept with the keys of all questions that led to it.
Source of the method: Warth, Douglass, Millstein, Packrat Parsers Can Support Left Recursion, PEPM 2008.
"""

from __future__ import annotations

__all__ = ["Memo"]

import sys
from collections.abc import Callable
from typing import Final, TypeVarTuple

from periplus.code.resolution.dependencies import Recorder
from periplus.code.resolution.rules.table import UNKNOWN, Outcome

DEPTH_MAX: Final = 60
KEPT_MAX: Final = 100_000
KEYS_KEPT_MAX: Final = 2_000_000
_ROUNDS_MAX: Final = 8
_NEVER: Final = sys.maxsize
_Arguments = TypeVarTuple("_Arguments")


class _Growth:
    """A question that is being answered: the answer so far, and whether another one relies on it."""

    __slots__ = ("depth", "is_used", "outcome")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.outcome = UNKNOWN
        self.is_used = False


class Memo:
    """Answers by question. ``recorder`` notes what they depend on, if it is given."""

    def __init__(self, recorder: Recorder | None = None) -> None:
        self._recorder = recorder
        self._known: dict[object, Outcome] = {}
        self._asked: dict[object, frozenset[int]] = {}
        self._growing: dict[object, _Growth] = {}
        self._provisional: dict[object, int] = {}  # the lowest depth of the unfinished answers that it relies on
        self._keys = 0
        self._lowest = _NEVER  # the same for what is being worked out

    def answer(self, key: object, compute: Callable[[*_Arguments], Outcome], *arguments: *_Arguments) -> Outcome:
        """Return the answer to the question ``key``: what ``compute`` of ``arguments`` gives, which may ask other questions."""
        known = self._known.get(key)
        if known is not None:
            if self._recorder is not None:
                self._recorder.asked |= self._asked[key]
            if self._provisional and key in self._provisional:
                self._lowest = min(self._lowest, self._provisional[key])
            return known
        growing = self._growing.get(key)
        if growing is not None:
            growing.is_used = True
            self._lowest = min(self._lowest, growing.depth)
            return growing.outcome
        if len(self._growing) >= DEPTH_MAX:
            self._lowest = -1
            return UNKNOWN
        if not self._growing and (len(self._known) > KEPT_MAX or self._keys > KEYS_KEPT_MAX):
            self._known.clear()
            self._asked.clear()
            self._keys = 0
        return self._grown(key, compute, *arguments)

    def _grown(self, key: object, compute: Callable[[*_Arguments], Outcome], *arguments: *_Arguments) -> Outcome:
        recorder = self._recorder
        lowest_around, asked_around = self._lowest, recorder.asked if recorder is not None else set()
        depth, start = len(self._growing), len(self._provisional)
        growth = self._growing[key] = _Growth(depth)
        if recorder is not None:
            recorder.asked = set()
        outcome = UNKNOWN
        for _ in range(_ROUNDS_MAX):
            self._lowest = _NEVER
            outcome = compute(*arguments)
            if not growth.is_used or outcome == growth.outcome:
                break
            growth.outcome = outcome
            self._forget(start)
        del self._growing[key]
        self._known[key] = outcome
        asked: frozenset[int] = frozenset()
        if recorder is not None:
            asked = self._asked[key] = frozenset(recorder.asked)
            self._keys += len(asked)
            asked_around |= asked
            recorder.asked = asked_around
        if self._lowest < depth:
            self._provisional[key] = self._lowest
            if depth == 0:  # it was cut off at DEPTH_MAX
                self._forget(0)
                self._lowest = _NEVER
            self._lowest = min(lowest_around, self._lowest)
            return outcome
        while len(self._provisional) > start:
            self._asked[self._provisional.popitem()[0]] = asked
        self._lowest = lowest_around
        return outcome

    def _forget(self, start: int) -> None:
        """Forget the provisional answers but for the first ``start``."""
        while len(self._provisional) > start:
            key = self._provisional.popitem()[0]
            self._known.pop(key, None)
            self._asked.pop(key, None)
