"""Progress reports of long work: a callback that gets what is done and the total."""

from __future__ import annotations

__all__ = ["Progress", "no_progress"]

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int], None]


def no_progress(done: int, total: int) -> None:
    """For who does not want to know how far it is."""
