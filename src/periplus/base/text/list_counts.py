"""Counts beside a list: a total that may be a lower bound, and facets."""

from __future__ import annotations

__all__ = ["COUNTED_MAX", "Facet", "Total", "facets_of", "pages_of"]

from collections.abc import Mapping
from typing import Final

from periplus.base.named_tuple import NamedTuple

COUNTED_MAX: Final = 10_000  # above it a total is not worth the work of counting on
_FACETS_MAX: Final = 50


class Total(NamedTuple):
    """The number of rows of a list; a lower bound where it is not exact."""

    number: int
    is_exact: bool = True

    def __str__(self) -> str:
        return f"{self.number:,}" if self.is_exact else f"more than {self.number:,}"


class Facet(NamedTuple):
    """A value of a field, and the number of rows that have it."""

    value: str
    number: int


def facets_of(counts: Mapping[str, int]) -> tuple[Facet, ...]:
    """Return the most frequent values, the most frequent first."""
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(Facet(value, number) for value, number in ordered[:_FACETS_MAX] if number)


def pages_of(total: Total, size: int) -> int:
    """Return the number of pages that a list has, at least one."""
    return max(1, -(-total.number // size))
