"""Measuring two or more sides of a question in turn, so that what else the machine does meets them alike.

A *round* runs every side once; the side that begins changes from round to round. Before each of them the garbage of
the one before is collected; during it the collector runs as it does in production, but does not walk what was prepared
for the measurement, which production would not hold. A figure is a median over rounds
(or a quantile over all operations) with the lowest and highest that a round gave.
"""

from __future__ import annotations

__all__ = ["Bench", "Direction", "Figure", "Row", "figure", "in_turn", "pooled", "quantile", "row", "timed"]

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Literal, NamedTuple, TypeAlias, TypeVar

Direction: TypeAlias = Literal["higher", "lower"]
_T = TypeVar("_T")


class Bench(NamedTuple):
    """What a part of the benchmark is given: a folder of its own, the size of the run, and a place for progress."""

    folder: str
    is_quick: bool
    say: Callable[[str], None]
    is_full: bool = False

    def size(self, full: int, quick: int) -> int:
        return quick if self.is_quick else full


class Figure(NamedTuple):
    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> Figure:
        return Figure(self.value * factor, self.low * factor, self.high * factor)


class Row(NamedTuple):
    """One line of the table. ``ratio`` is ours ÷ baseline; ``better`` says which way is good."""

    part: str
    what: str
    unit: str
    better: Direction
    ours: Figure
    baseline: Figure
    baseline_name: str
    ratio: float


def row(
    part: str, what: str, unit: str, ours: Figure, baseline_name: str, baseline: Figure, *, better: Direction = "lower"
) -> Row:
    return Row(part, what, unit, better, ours, baseline, baseline_name, ours.value / baseline.value)


def in_turn(rounds: int, sides: Mapping[str, Callable[[], _T]], *, collect: bool = True) -> dict[str, list[_T]]:
    """What each side gave in each of ``rounds`` rounds. ``collect=False`` where a side is a process of its own."""
    names = list(sides)
    found: dict[str, list[_T]] = {name: [] for name in names}
    gc.collect()
    gc.freeze()
    try:
        for number in range(rounds):
            begin = number % len(names)
            for name in names[begin:] + names[:begin]:
                if collect:
                    gc.collect()
                found[name].append(sides[name]())
    finally:
        gc.unfreeze()
    return found


def timed(work: Callable[[], object]) -> float:
    """Seconds of wall clock that ``work`` takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def figure(values: Sequence[float]) -> Figure:
    """The median, with the lowest and the highest."""
    return Figure(median(values), min(values), max(values))


def quantile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of ``values`` do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]


def pooled(rounds: Sequence[Sequence[float]], share: float) -> Figure:
    """The quantile over the operations of all rounds, with the lowest and highest that a single round has."""
    each = [quantile(values, share) for values in rounds]
    return Figure(quantile([value for values in rounds for value in values], share), min(each), max(each))
