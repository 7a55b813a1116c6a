"""Long work in steps: a generator that yields None at each rest, where others may run, and returns the result."""

from __future__ import annotations

__all__ = ["ROWS_PER_REST", "SliceBudget", "collect_result", "run_to_end"]

from collections.abc import Generator
from typing import Final, TypeVar, cast

ROWS_PER_REST: Final = 512
CHARACTERS_PER_REST: Final = 256 << 10
_T = TypeVar("_T")


class SliceBudget:
    """Decide when a rest is due, by the number and the length of the texts processed."""

    def __init__(self) -> None:
        self._rows = 0
        self._characters = 0

    def is_due(self, text: str) -> bool:
        self._rows += 1
        self._characters += len(text)
        if self._rows < ROWS_PER_REST and self._characters < CHARACTERS_PER_REST:
            return False
        self._rows = self._characters = 0
        return True


def collect_result(steps: Generator[None, None, _T], outcome: list[_T]) -> Generator[None, None, None]:
    """Run ``steps`` with their rests, and append the result to ``outcome``."""
    outcome.append((yield from steps))


def run_to_end(steps: Generator[None, None, _T]) -> _T:
    """Run ``steps`` to the end without rests, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("_T", end.value)
