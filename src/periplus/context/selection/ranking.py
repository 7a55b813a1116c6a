"""Rank atoms for a question by words, stored relevance and recency in one score.

score = words · BM25 as a share of the best + relevance · stored relevance + recency · ½^(age ÷ half-life), each of the
three 0 … 1 and weighted so that they sum to at most 1; in millionths, ties in the order of expansions. A hook for
meaning (embeddings) only adds to the score, so no atom scores less because of it.

Memory: all entries are read once. For each with a word of the question some 80 bytes are kept (its numbers and digest,
not its content); of the others only the best, in a heap. The few entries of the result are then read again: by index
from a Sequence, by a second reading from what can be read again (``search.RepeatableEntries`` makes that of a stream). Only for an
iterator, which cannot be repeated, the entries with a hit are held.
"""

from __future__ import annotations

__all__ = ["DEFAULT_WEIGHTS", "HALF_LIFE_MS", "Likeness", "Ranking", "Weights"]

import math
from array import array
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from heapq import heappush, heappushpop, merge, nsmallest
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from periplus.base.errors import UsageError
from periplus.context.model import RELEVANCE_MAX, Entry, OrderKey, order_key
from periplus.context.selection.filters import Matcher
from periplus.context.selection.lexical_index import LexicalTable, Question
from periplus.context.selection.reasons import Cause, Reason, Reasons, Scored
from periplus.context.time_slices import ROWS_PER_REST, SliceBudget, run_to_end

HALF_LIFE_MS: Final = 30 * 24 * 3_600_000
_LIKENESS_BATCH: Final = 256
_MILLION: Final = 1_000_000

Likeness: TypeAlias = Callable[[str, Sequence[str]], Sequence[float]]


class Weights(NamedTuple):
    """The weights of the parts of a score; the first three are divided by their sum.

    ``likeness`` is the most that the hook for meaning can add to a score of at most 1.
    """

    words: float = 0.6
    relevance: float = 0.3
    recency: float = 0.1
    likeness: float = 0.5


DEFAULT_WEIGHTS: Final = Weights()


class _Weigher:
    """The parts of a score that do not depend on other atoms."""

    def __init__(self, weights: Weights, half_life_ms: int, now_ms: int) -> None:
        for name, weight in zip(Weights._fields, weights, strict=True):
            if not (math.isfinite(weight) and weight >= 0):
                raise UsageError(f"weights.{name}: {weight} is not a finite number from 0 on")
        total = weights.words + weights.relevance + weights.recency
        if not total > 0:
            raise UsageError("weights: words, relevance and recency are all 0, so that there is nothing to rank by")
        if half_life_ms < 1:
            raise UsageError(f"half_life_ms: {half_life_ms} is not a time of at least 1 ms")
        self.words = weights.words / total
        self.likeness = weights.likeness
        self._relevance = weights.relevance / total
        self._recency = weights.recency / total
        self._half_life_ms = half_life_ms
        self._now_ms = now_ms

    def recency(self, time_ms: int) -> float:
        half_lives = max(self._now_ms - time_ms, 0) / self._half_life_ms
        return 0.5**half_lives if half_lives < 64 else 0.0

    def score(self, words: float, relevance: int, recency: float, likeness: float) -> int:
        share = self.words * words + self._relevance * (relevance / RELEVANCE_MAX) + self._recency * recency
        return round(_MILLION * (share + self.likeness * likeness))


class Ranking:
    """The ranking of one collection of entries for one question; made anew for each call."""

    def __init__(
        self,
        question: str,
        *,
        matcher: Matcher,
        now_ms: int,
        reasons: Reasons,
        weights: Weights = DEFAULT_WEIGHTS,
        half_life_ms: int = HALF_LIFE_MS,
        likeness: Likeness | None = None,
        others_max: int = 0,
        members: Collection[bytes] = frozenset(),
    ) -> None:
        """``others_max`` is the number of atoms without a matching word to rank too; ``members`` are atoms to be found
        by digest.
        """
        self._question = question
        self._table = LexicalTable(Question(question))
        self._matcher = matcher
        self._reasons = reasons
        self._weigh = _Weigher(weights, half_life_ms, now_ms)
        self._likeness = likeness
        self._others_max = others_max
        self._wanted = members
        self._members: dict[bytes, tuple[Scored, int]] = {}  # with the row, or −1 without a matching word
        self._others: list[tuple[int, tuple[int, int, int], Scored]] = []
        self._entries: Iterable[Entry] = ()
        self._is_held = False
        self._held: list[Entry] = []
        self._places = array("Q")
        self._digests = bytearray()
        self._relevances = array("L")
        self._times = array("q")
        self._likenesses = array("d")
        self._words: array[float] = array("d")
        self._left_out: dict[bytes, Cause] = {}  # members that are not ranked
        self.considered = 0
        self.is_read_whole = False

    def __len__(self) -> int:
        """Return the number of atoms with a word of the question."""
        return len(self._table)

    def read(self, entries: Iterable[Entry]) -> None:
        """Read ``entries`` once."""
        run_to_end(self.read_steps(entries))

    def read_steps(self, entries: Iterable[Entry]) -> Generator[None, None, None]:
        """Read ``entries`` with rests."""
        pace = SliceBudget()
        self._entries = entries
        self._is_held = isinstance(entries, Iterator)
        batch: list[tuple[int, Entry]] = []
        for place, entry in enumerate(entries):
            self.considered += 1
            if pace.is_due(entry.atom.content):
                yield
            refusal = self._matcher.refusal(entry.atom)
            if refusal is not None:
                self._reasons.add(Reason(refusal, Scored(0, entry)))
                continue
            if self._likeness is None:
                self._take_in(place, entry, 0.0)
                continue
            batch.append((place, entry))
            if len(batch) >= _LIKENESS_BATCH:
                self._take_in_batch(batch)
        self._take_in_batch(batch)
        self._words = yield from self._table.scores_steps()
        self.is_read_whole = True

    def _take_in_batch(self, batch: list[tuple[int, Entry]]) -> None:
        if not batch:
            return
        assert self._likeness is not None
        found = self._likeness(self._question, [entry.atom.content for _, entry in batch])
        if len(found) != len(batch):
            raise UsageError(f"likeness: {len(found)} numbers for {len(batch)} texts")
        for (place, entry), value in zip(batch, found, strict=True):
            if not math.isfinite(value):
                raise UsageError(f"likeness: {value} is not a finite number")
            self._take_in(place, entry, min(max(float(value), 0.0), 1.0))
        batch.clear()

    def _take_in(self, place: int, entry: Entry, likeness: float) -> None:
        atom = entry.atom
        row = len(self._table)
        if self._table.add(atom.content):
            self._places.append(place)
            self._digests += entry.digest
            self._relevances.append(atom.relevance)
            self._times.append(atom.time_ms)
            self._likenesses.append(likeness)
            if self._is_held:
                self._held.append(entry)
            if entry.digest in self._wanted:
                self._members[entry.digest] = (Scored(0, entry), row)
            return
        if self._is_hopeless(entry, likeness):
            return
        scored = self._scored(entry, 0.0, likeness)
        if entry.digest in self._wanted:
            self._members[entry.digest] = (scored, -1)
        self._keep_other(scored)

    def _is_hopeless(self, entry: Entry, likeness: float) -> bool:
        """Return whether an atom only needs to be counted: the short path for most atoms of a large context."""
        if self._reasons.is_told or entry.digest in self._wanted:
            return False
        if not self._others_max:
            self._reasons.count("no_match")
            return True
        if len(self._others) < self._others_max:
            return False
        atom = entry.atom
        if self._weigh.score(0.0, atom.relevance, self._weigh.recency(atom.time_ms), likeness) >= self._others[0][0]:
            return False
        self._reasons.count("outranked")
        return True

    def _keep_other(self, scored: Scored) -> None:
        if not self._others_max:
            self._leave_out("no_match", scored)
            return
        atom = scored.entry.atom
        # The root of the heap is the worst score, and of equals the last in the order of expansions.
        row = (scored.score, (atom.relevance, atom.time_ms, -int.from_bytes(scored.entry.digest)), scored)
        if len(self._others) < self._others_max:
            heappush(self._others, row)
        else:
            self._leave_out("outranked", heappushpop(self._others, row)[2])

    def _leave_out(self, cause: Cause, scored: Scored) -> None:
        self._reasons.add(Reason(cause, scored))
        if scored.entry.digest in self._wanted:
            self._left_out[scored.entry.digest] = cause

    def _scored(self, entry: Entry, words: float, likeness: float) -> Scored:
        recency = self._weigh.recency(entry.atom.time_ms)
        return Scored(
            self._weigh.score(words, entry.atom.relevance, recency, likeness),
            entry,
            round(_MILLION * words),
            round(_MILLION * recency),
            round(_MILLION * likeness),
        )

    def _score(self, row: int) -> int:
        recency = self._weigh.recency(self._times[row])
        return self._weigh.score(self._words[row], self._relevances[row], recency, self._likenesses[row])

    def _key(self, row: int) -> tuple[int, OrderKey]:
        return (-self._score(row), (-self._relevances[row], -self._times[row], self._digest(row)))

    def _fetch_steps(self, rows: Sequence[int]) -> Generator[None, None, list[Entry]]:
        if self._is_held:
            return [self._held[row] for row in rows]
        entries = self._entries
        if isinstance(entries, Sequence):
            found = [entries[self._places[row]] for row in rows]
        else:
            wanted = {self._places[row] for row in rows}
            last = max(wanted, default=-1)
            by_place: dict[int, Entry] = {}
            pace = SliceBudget()
            for place, entry in enumerate(islice(entries, last + 1)):
                if place in wanted:
                    by_place[place] = entry
                if pace.is_due(entry.atom.content):
                    yield
            found = [by_place[self._places[row]] for row in rows if self._places[row] in by_place]
        if [entry.digest for entry in found] != [self._digest(row) for row in rows]:
            raise UsageError("entries: the second reading gave other entries")
        return found

    def _digest(self, row: int) -> bytes:
        return bytes(self._digests[32 * row : 32 * row + 32])

    def find(self, digest: bytes) -> Scored | None:
        """Return one of the ``members`` if it passes the filters. It no longer counts as left out: the caller reports
        its reason.
        """
        found = self._members.get(digest)
        if found is None:
            return None
        cause = self._left_out.pop(digest, None)
        if cause is not None:
            self._reasons.take_back(cause, digest)
        scored, row = found
        return scored if row < 0 else self._scored(scored.entry, self._words[row], self._likenesses[row])

    def matches(self, begin: int, end: int) -> list[Scored]:
        """Return the atoms with matching words, best first, from place ``begin`` to before ``end``."""
        return run_to_end(self.matches_steps(begin, end))

    def matches_steps(self, begin: int, end: int) -> Generator[None, None, list[Scored]]:
        """Compute ``matches`` with rests: rows are sorted in stretches, of which the best are merged."""
        stretches: list[list[tuple[tuple[int, OrderKey], int]]] = []
        for first in range(0, len(self._table), ROWS_PER_REST):
            stretch = range(first, min(first + ROWS_PER_REST, len(self._table)))
            stretches.append(nsmallest(end, ((self._key(row), row) for row in stretch)))
            yield
        rows: list[int] = []
        for place, (_, row) in enumerate(islice(merge(*stretches), end)):
            if place >= begin:
                rows.append(row)
            if place % ROWS_PER_REST == 0:
                yield
        entries = yield from self._fetch_steps(rows)
        return [
            self._scored(entry, self._words[row], self._likenesses[row])
            for row, entry in zip(rows, entries, strict=True)
        ]

    def best(self, count: int) -> list[Scored]:
        """Return the best ``count`` atoms that pass the filters, best first."""
        found = self.matches(0, count) + [scored for _, _, scored in self._others]
        found.sort(key=_rank)
        for scored in found[count:]:
            self._leave_out("outranked", scored)
        del found[count:]
        if len(self._table) > count:  # only counted
            self._reasons.count("outranked", len(self._table) - count)
            ranked = {scored.entry.digest for scored in found}
            for digest, (_, row) in self._members.items():
                if row >= 0 and digest not in ranked:
                    self._left_out.setdefault(digest, "outranked")
        return found


def _rank(scored: Scored) -> tuple[int, OrderKey]:
    return (-scored.score, order_key(scored.entry.digest, scored.entry.atom))
