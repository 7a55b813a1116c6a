"""Select the atoms of a context that fit a model's budget, and search in a context (QUERY of the wire).

Works on plain entries from any source, and keeps nothing between two calls.

*With a query*, all entries are read, ranked (``context.selection.ranking``) and packed best first (``context.selection.budget``).

*Without one*, the order of expansions is the ranking, so entries are taken from the stream only as far as the budget needs: a budget
of 4,000 tokens reads some hundreds of atoms of a million. ``look_ahead`` bounds the reading beyond that: at most so many atoms wait
(near-duplicates of selected ones, atoms that a molecule needs), and after so many refusals in a row the rest of the stream is not
read. Only filters can make it read on, because an atom that they refuse costs nothing but its reading.
"""

from __future__ import annotations

__all__ = [
    "CANDIDATES_MIN",
    "LOOK_AHEAD",
    "RepeatableEntries",
    "Selection",
    "entries_of",
    "query",
    "query_steps",
    "select",
]

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from periplus.base.errors import UsageError
from periplus.context.model import Chunk, Entry, Molecule, OrderKey, order_key
from periplus.context.selection.budget import Finder, Packed, Packer, PlacedMolecule
from periplus.context.selection.filters import Filters, Matcher, Query, QueryResult, check_query
from periplus.context.selection.ranking import DEFAULT_WEIGHTS, HALF_LIFE_MS, Likeness, Ranking, Weights
from periplus.context.selection.reasons import Cause, NearDuplicate, Reason, Reasons, Scored
from periplus.context.selection.token_counters import ESTIMATE, TokenCounter
from periplus.context.time_slices import SliceBudget, run_to_end

LOOK_AHEAD: Final = 256
CANDIDATES_MIN: Final = 4_096
_TOKENS_PER_ATOM_MIN: Final = 4
_MILLION: Final = 1_000_000
_NO_FILTERS: Final = Filters()


class Selection(NamedTuple):
    """The selected atoms in the order of selection: best first, the atoms of a molecule together.

    ``tokens`` is at most ``budget_tokens``, both under ``counter``. ``molecules`` are those with selected atoms, and
    the atoms that they lack; ``near_duplicates`` had to wait because a selected atom says nearly the same, whether they
    came in later or not. ``considered`` is the number of entries read, ``is_read_whole`` whether these were all;
    ``counts`` is the number of atoms in or out for each cause (``reasons.CAUSES``). ``reasons`` are present on request.
    """

    entries: tuple[Entry, ...]
    scores: tuple[int, ...]
    molecules: tuple[PlacedMolecule, ...]
    near_duplicates: tuple[NearDuplicate, ...]
    tokens: int
    budget_tokens: int
    counter: str
    considered: int
    is_read_whole: bool
    counts: Mapping[Cause, int]
    reasons: tuple[Reason, ...]


def select(
    entries: Iterable[Entry],
    *,
    budget_tokens: int,
    now_ms: int,
    query: str = "",
    filters: Filters = _NO_FILTERS,
    counter: TokenCounter = ESTIMATE,
    overhead_tokens: int = 0,
    molecules: Iterable[Molecule] = (),
    find: Callable[[bytes], Entry | None] | None = None,
    weights: Weights = DEFAULT_WEIGHTS,
    half_life_ms: int = HALF_LIFE_MS,
    likeness: Likeness | None = None,
    is_matching_only: bool = False,
    diversity: float = 0.3,
    look_ahead: int = LOOK_AHEAD,
    candidates_min: int = CANDIDATES_MIN,
    is_ordered: bool = True,
    explain: bool = False,
) -> Selection:
    """Select from ``entries`` what fits the budget.

    ``molecules`` are kept whole if possible. Their atoms that have not been read yet are looked up with ``find``, or
    without it read ahead. ``overhead_tokens`` is the cost of each atom beside its content. ``diversity`` (0 … 1) is the
    share of its score that an atom loses if it equals a selected one.

    Without ``query``, ``entries`` come in the order of expansions; with ``is_ordered=False`` they are sorted first.
    With a query, ``is_matching_only`` leaves out atoms without a word of it, and the best ``candidates_min`` (for large
    budgets, one for every four tokens) are tried. Raises UsageError that names the argument.
    """
    _check(budget_tokens, overhead_tokens, diversity, look_ahead, candidates_min)
    reasons = Reasons(is_told=explain)
    matcher = Matcher(filters, now_ms)
    pieces = tuple(molecules)
    source: _Ordered | Ranking
    ranked: Iterator[Scored]
    finder: Finder | None
    if query:
        count = max(candidates_min, budget_tokens // _TOKENS_PER_ATOM_MIN)
        source = Ranking(
            query,
            matcher=matcher,
            now_ms=now_ms,
            reasons=reasons,
            weights=weights,
            half_life_ms=half_life_ms,
            likeness=likeness,
            others_max=0 if is_matching_only else count,
            members=frozenset(digest for molecule in pieces for digest in molecule.atoms),
        )
        source.read(entries)
        ranked, finder = iter(source.best(count)), source.find
    else:
        source = ranked = _Ordered(entries if is_ordered else _in_order(entries), matcher, reasons)
        finder = None if find is None else _passing(find, matcher)
    chosen = Packer(
        ranked,
        budget_tokens=budget_tokens,
        counter=counter,
        overhead_tokens=overhead_tokens,
        diversity=round(_MILLION * diversity),
        look_ahead=None if query else look_ahead,
        molecules=pieces,
        find=finder,
        reasons=reasons,
    ).run()
    return _selection(chosen, source, reasons, budget_tokens, counter)


def _selection(
    chosen: Packed, source: _Ordered | Ranking, reasons: Reasons, budget_tokens: int, counter: TokenCounter
) -> Selection:
    return Selection(
        tuple(scored.entry for scored in chosen.taken),
        tuple(scored.score for scored in chosen.taken),
        chosen.molecules,
        chosen.near_duplicates,
        chosen.tokens,
        budget_tokens,
        counter.name,
        source.considered,
        source.is_read_whole,
        reasons.counts,
        reasons.told(),
    )


def query(
    entries: Iterable[Entry],
    asked: Query,
    *,
    now_ms: int,
    weights: Weights = DEFAULT_WEIGHTS,
    half_life_ms: int = HALF_LIFE_MS,
    is_ordered: bool = True,
) -> QueryResult:
    """Return one page of the results of ``asked`` in ``entries``. Raises UsageError that names the field.

    With a text, these are the atoms with a word of it, ranked like ``select``; without, all that pass the filters, in
    the order of expansions, in which ``entries`` come unless ``is_ordered`` is False. All entries are read, because
    ``total`` counts them.
    """
    return run_to_end(
        query_steps(entries, asked, now_ms=now_ms, weights=weights, half_life_ms=half_life_ms, is_ordered=is_ordered)
    )


def query_steps(
    entries: Iterable[Entry],
    asked: Query,
    *,
    now_ms: int,
    weights: Weights = DEFAULT_WEIGHTS,
    half_life_ms: int = HALF_LIFE_MS,
    is_ordered: bool = True,
) -> Generator[None, None, QueryResult]:
    """Run ``query`` with rests, for a caller that serves others; rests also come while no entry passes."""
    check_query(asked)
    at_ms = now_ms if asked.at_ms is None else asked.at_ms
    matcher = Matcher(asked.filters, at_ms)
    reasons = Reasons(is_told=False)
    begin = asked.page * asked.limit
    end = begin + asked.limit
    if asked.text:
        ranking = Ranking(
            asked.text, matcher=matcher, now_ms=at_ms, reasons=reasons, weights=weights, half_life_ms=half_life_ms
        )
        yield from ranking.read_steps(entries)
        total = len(ranking)
        found = (yield from ranking.matches_steps(begin, end)) if begin < total else []
    else:
        found = []
        total = 0
        for scored in _Ordered(entries if is_ordered else _in_order(entries), matcher, reasons).steps():
            if scored is None:
                yield
                continue
            if begin <= total < end:
                found.append(scored)
            total += 1
    return QueryResult(
        tuple(scored.entry for scored in found),
        tuple(scored.score for scored in found),
        total,
        asked.page + 1 if end < total else None,
        at_ms,
    )


class RepeatableEntries:
    """Entries that can be read repeatedly: ``start`` begins again. A search in a long stream then holds only its
    result.
    """

    def __init__(self, start: Callable[[], Iterable[Entry]]) -> None:
        self._start = start

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._start())


def entries_of(chunks: Iterable[Chunk]) -> Iterator[Entry]:
    """Yield the entries of a stream on demand, without the atoms that exceed the stream's limits."""
    for chunk in chunks:
        yield from chunk.entries


class _Ordered:
    """Filtered entries in the order of expansions, ranked by that order."""

    def __init__(self, entries: Iterable[Entry], matcher: Matcher, reasons: Reasons) -> None:
        self._entries = iter(entries)
        self._matcher = matcher
        self._reasons = reasons
        self._last: OrderKey | None = None
        self._steps = self.steps()
        self.considered = 0
        self.is_read_whole = False

    def __iter__(self) -> _Ordered:
        return self

    def __next__(self) -> Scored:
        for scored in self._steps:
            if scored is not None:
                return scored
        raise StopIteration

    def steps(self) -> Iterator[Scored | None]:
        """Yield the entries that pass, and None for a rest."""
        pace = SliceBudget()
        for entry in self._entries:
            if pace.is_due(entry.atom.content):
                yield None
            self._check_order(entry)
            self.considered += 1
            refusal = self._matcher.refusal(entry.atom)
            if refusal is None:
                yield _by_relevance(entry)
                continue
            self._reasons.add(Reason(refusal, _by_relevance(entry)))
            if refusal == "relevance":
                return  # later entries have no more relevance
        self.is_read_whole = True

    def _check_order(self, entry: Entry) -> None:
        key = order_key(entry.digest, entry.atom)
        if self._last is not None and key <= self._last:
            raise UsageError(
                f"entries: atom {entry.digest.hex()[:12]} at place {self.considered:,} does not come after the one before it",
                mend="give is_ordered=False where entries do not come in the order of expansions",
            )
        self._last = key


def _by_relevance(entry: Entry) -> Scored:
    return Scored(entry.atom.relevance, entry)


def _in_order(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: order_key(entry.digest, entry.atom))


def _passing(find: Callable[[bytes], Entry | None], matcher: Matcher) -> Finder:
    def passing(digest: bytes) -> Scored | None:
        entry = find(digest)
        return None if entry is None or matcher.refusal(entry.atom) else _by_relevance(entry)

    return passing


def _check(budget_tokens: int, overhead_tokens: int, diversity: float, look_ahead: int, candidates_min: int) -> None:
    if budget_tokens < 0:
        raise UsageError(f"budget_tokens: {budget_tokens} is negative")
    if overhead_tokens < 0:
        raise UsageError(f"overhead_tokens: {overhead_tokens} is negative")
    if not 0 <= diversity <= 1:
        raise UsageError(f"diversity: {diversity} is not in 0 … 1")
    if look_ahead < 1:
        raise UsageError(f"look_ahead: {look_ahead} is not at least 1")
    if candidates_min < 1:
        raise UsageError(f"candidates_min: {candidates_min} is not at least 1")
