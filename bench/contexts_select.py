"""Choosing for a budget, beside the plain way: everything expanded, cut into terms, scored, sorted, then packed."""

from __future__ import annotations

__all__ = ["measure"]

import math
import random
from collections import Counter
from collections.abc import Iterator

from bench.measure import Bench, Row, figure, in_turn, row, timed
from periplus.base.text.search_terms import query_terms, terms
from periplus.base.text.token_estimate import estimate_tokens
from periplus.context.model import Atom, Entry, atom_digest, order_key
from periplus.context.selection.filters import Query
from periplus.context.selection.search import RepeatableEntries, query, select

_NOW_MS = 1_790_000_000_000
_QUESTION = "how do we hash the passwords of a user"
_BUDGET = 4_000
_ORIGIN = bytes(32)


def measure(bench: Bench) -> Iterator[Row]:
    count = bench.size(100_000, 2_000)
    rounds = bench.size(5, 2)
    entries = _entries(count)
    bench.say(f"{rounds} rounds over {count:,} atoms")
    asked = Query(_QUESTION, limit=20)
    label = f"{_BUDGET:,} tokens of {count:,} atoms"
    found: list[object] = []

    best = in_turn(rounds, {
        "ours": lambda: timed(lambda: found.append(select(iter(entries), budget_tokens=_BUDGET, now_ms=_NOW_MS))),
        "plain": lambda: timed(lambda: found.append(_pack(sorted(entries, key=_key)))),
    })  # fmt: skip
    yield row("select", f"{label}, the best", "ms", figure(best["ours"]).scaled(1e3),
              "all sorted, then packed", figure(best["plain"]).scaled(1e3))  # fmt: skip

    answers = in_turn(rounds, {
        "ours": lambda: timed(lambda: found.append(
            select(entries, budget_tokens=_BUDGET, now_ms=_NOW_MS, query=_QUESTION))),
        "plain": lambda: timed(lambda: found.append(_pack(_plain_ranking(entries)))),
    })  # fmt: skip
    yield row("select", f"{label}, for a question", "ms", figure(answers["ours"]).scaled(1e3),
              "every text cut, all sorted", figure(answers["plain"]).scaled(1e3))  # fmt: skip

    pages = in_turn(rounds, {
        "ours": lambda: timed(lambda: found.append(query(entries, asked, now_ms=_NOW_MS))),
        "plain": lambda: timed(lambda: found.append(_plain_ranking(entries)[:20])),
    })  # fmt: skip
    yield row("select", f"20 of {count:,} atoms, for a question", "ms", figure(pages["ours"]).scaled(1e3),
              "every text cut, all sorted", figure(pages["plain"]).scaled(1e3))  # fmt: skip

    few = count // 10
    peaks = {
        "ours": _peak(lambda: query(RepeatableEntries(lambda: _stream(few)), asked, now_ms=_NOW_MS)),
        "plain": _peak(lambda: _plain_ranking(list(_stream(few)))[:20]),
    }
    yield row("select", f"20 of {few:,} streamed atoms, peak memory", "MB", figure([peaks["ours"] / 1e6]),
              "all held", figure([peaks["plain"] / 1e6]))  # fmt: skip


def _stream(count: int) -> Iterator[Entry]:
    chosen = random.Random(4)
    words = ["".join(chosen.choices("abcdefghijklmnopqrstuvwxyz", k=chosen.randint(3, 9))) for _ in range(5_000)]
    words += ["hashPassword", "password_hash", "user", "hashing", "users"]
    relevance = 1_000_000
    for _ in range(count):
        relevance -= chosen.random() < 0.3
        atom = Atom(
            " ".join(chosen.choices(words, k=35)), relevance=relevance, time_ms=_NOW_MS - chosen.randrange(10**10)
        )
        yield Entry(atom_digest(atom), atom, _ORIGIN)


def _entries(count: int) -> list[Entry]:
    return sorted(_stream(count), key=_key)


def _key(entry: Entry) -> tuple[int, int, bytes]:
    return order_key(entry.digest, entry.atom)


def _pack(ranked: list[Entry]) -> list[Entry]:
    left = _BUDGET
    taken = []
    for entry in ranked:
        tokens = estimate_tokens(entry.atom.content)
        if tokens <= left:
            taken.append(entry)
            left -= tokens
    return taken


def _plain_ranking(entries: list[Entry]) -> list[Entry]:
    """BM25 as it stands in the books, over every text."""
    asked = query_terms(_QUESTION)
    cut = [Counter(terms(entry.atom.content)) for entry in entries]
    holding = {term: sum(term in counts for counts in cut) for term in asked}
    mean = sum(map(len, cut)) / len(cut)
    scores = {}
    for entry, counts in zip(entries, cut, strict=True):
        damping = 1.2 * (0.25 + 0.75 * len(counts) / mean)
        scores[entry.digest] = entry.atom.relevance / 3e6 + sum(
            math.log(1 + (len(cut) - holding[term] + 0.5) / (holding[term] + 0.5)) * 2.2 * counts[term] / (counts[term] + damping)
            for term in asked
        )  # fmt: skip
    return sorted(entries, key=lambda entry: -scores[entry.digest])


def _peak(work: object) -> float:
    import tracemalloc

    assert callable(work)
    tracemalloc.start()
    try:
        work()
        return float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
