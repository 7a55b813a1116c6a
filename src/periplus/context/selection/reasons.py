"""Reasons why each atom is in a selection or out of it: always counted, listed on request, and bounded.

Every atom in the selection has a reason, because the budget bounds them. Of the others, for each cause the first
``REASONS_MAX`` in the order of expansions are listed, independent of the order of arrival.
"""

from __future__ import annotations

__all__ = ["CAUSES", "REASONS_MAX", "Cause", "NearDuplicate", "Reason", "Reasons", "Scored", "describe"]

from typing import Final, Literal, NamedTuple, TypeAlias

from periplus.context.model import Entry, OrderKey, order_key
from periplus.context.selection.filters import Refusal

REASONS_MAX: Final = 200

Cause: TypeAlias = Literal[
    "fits", "molecule", "too_large", "no_room", "molecule_no_room", "budget_full", "outranked", "no_match", Refusal
]
CAUSES: Final[dict[Cause, str]] = {
    "fits": "in: it fits",
    "molecule": "in: it belongs to a molecule with a selected atom",
    "too_large": "out: it alone exceeds the whole budget",
    "no_room": "out: it does not fit into the rest of the budget",
    "molecule_no_room": "out: its molecule, which is kept whole, does not fit into the rest of the budget",
    "budget_full": "out: the budget was full before its turn",
    "outranked": "out: more atoms rank before it than are considered for this budget",
    "no_match": "out: it has no word of the query",
    "type": "out: its type does not unify with the one asked for",
    "relevance": "out: its relevance is below the minimum",
    "age": "out: it is older than asked for",
    "source": "out: it comes from another source",
    "tag": "out: it lacks a tag that was asked for",
}
_INS: Final = frozenset({"fits", "molecule"})


class Scored(NamedTuple):
    """An entry and its scores in millionths: ``score`` combines matching words, recency and relevance.

    ``likeness`` is the value of the hook for meaning.
    """

    score: int
    entry: Entry
    words: int = 0
    recency: int = 0
    likeness: int = 0


class NearDuplicate(NamedTuple):
    """``digest`` nearly repeats ``of``, which is in the selection, so it had to wait. ``similarity`` in millionths."""

    digest: bytes
    of: bytes
    similarity: int
    is_in: bool


class Reason(NamedTuple):
    """``tokens`` is 0 if they were not counted; ``other`` is the atom that it nearly repeats, or with which it came in."""

    cause: Cause
    scored: Scored
    tokens: int = 0
    left: int = 0
    other: bytes = b""
    similarity: int = 0

    @property
    def digest(self) -> bytes:
        return self.scored.entry.digest

    @property
    def is_in(self) -> bool:
        return self.cause in _INS


def describe(reason: Reason) -> str:
    """Return one line for people."""
    scored = reason.scored
    parts = [CAUSES[reason.cause]]
    if reason.tokens:
        parts.append(f"{reason.tokens:,} tokens, {reason.left:,} left before it")
    if reason.similarity:
        parts.append(f"waited: {reason.similarity // 10_000} % the same as {reason.other.hex()[:12]}")
    elif reason.other:
        parts.append(f"with {reason.other.hex()[:12]}")
    shares = [f"relevance {_share(scored.entry.atom.relevance)}"]
    if scored.words:
        shares.append(f"words {_share(scored.words)}")
    if scored.recency:
        shares.append(f"recency {_share(scored.recency)}")
    if scored.likeness:
        shares.append(f"meaning {_share(scored.likeness)}")
    parts.append(f"score {_share(scored.score)} ({', '.join(shares)})")
    return "; ".join(parts)


def _share(millionths: int) -> str:
    return f"{millionths / 1_000_000:.3f}"


class Reasons:
    """Collect reasons; without ``is_told`` only counts."""

    def __init__(self, *, is_told: bool) -> None:
        self.is_told = is_told
        self.counts: dict[Cause, int] = {}
        self._in: list[Reason] = []
        self._out: dict[Cause, list[tuple[OrderKey, Reason]]] = {}

    def count(self, cause: Cause, times: int = 1) -> None:
        if times:
            self.counts[cause] = self.counts.get(cause, 0) + times

    def add(self, reason: Reason) -> None:
        self.count(reason.cause)
        if not self.is_told:
            return
        if reason.is_in:
            self._in.append(reason)
            return
        told = self._out.setdefault(reason.cause, [])
        told.append((order_key(reason.digest, reason.scored.entry.atom), reason))
        if len(told) >= 2 * REASONS_MAX:
            told.sort(key=_by_key)
            del told[REASONS_MAX:]

    def take_back(self, cause: Cause, digest: bytes) -> None:
        """Withdraw the reason or count of this atom, before another reason is added."""
        self.counts[cause] -= 1
        if not self.counts[cause]:
            del self.counts[cause]
        told = self._out.get(cause)
        if told:
            told[:] = [row for row in told if row[1].digest != digest]

    def told(self) -> tuple[Reason, ...]:
        """Return the reasons of the selected atoms in their order, then the others by cause in the order of ``CAUSES``."""
        found = list(self._in)
        for cause in CAUSES:
            found += [reason for _, reason in sorted(self._out.get(cause, ()), key=_by_key)[:REASONS_MAX]]
        return tuple(found)


def _by_key(row: tuple[OrderKey, Reason]) -> OrderKey:
    return row[0]
