"""Ranking of symbols for a question in words. Pure.

A question becomes *asked words*: the root of each of its words, and the words that code has for it (``vocabulary``). A
symbol's score is the sum over the asked words of

    weight · rarity · evidence / (evidence + SATURATION)

where the evidence adds the weights of the fields that hold the word, those that only hold another word for it by
``OTHER_WORD``, and the saturation is higher for a long document: BM25 with presence in place of frequency (S.
Robertson, H. Zaragoza, "The Probabilistic Relevance Framework", 2009).
"""

from __future__ import annotations

__all__ = [
    "FIELD_WEIGHTS",
    "OTHER_WORD",
    "AskedWord",
    "Evidence",
    "Hit",
    "asked_words",
    "in_order",
    "rank",
    "rarity",
    "reranked",
    "rough_scores",
]

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import log
from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.base.text.search_terms import query_terms, terms, word_root
from periplus.code.search.documents import Field
from periplus.code.search.vocabulary import WEAK_ROOTS, code_words

ASKED_WORDS_MAX: Final = 16
FIELD_WEIGHTS: Final[Mapping[Field, float]] = {"n": 3.0, "s": 2.0, "r": 0.8}
OTHER_WORD: Final = 0.4
WEAK: Final = 0.15
SATURATION: Final = 1.2
LENGTH_SHARE: Final = 0.4


class AskedWord(NamedTuple):
    """``others`` are the roots of other words for it; ``weight`` is below 1 for words that tell little."""

    root: str
    others: tuple[str, ...] = ()
    weight: float = 1.0


class Hit(NamedTuple):
    """A symbol found, by the number of its row."""

    row: int
    score: float


class Evidence(NamedTuple):
    """The symbols that hold an asked word, each with the sum of the weights of the fields; ``weight`` is that of the
    word times its rarity.
    """

    weight: float
    held: Mapping[int, float]


def asked_words(question: str) -> tuple[AskedWord, ...]:
    """Return the words that ``question`` asks for, each once, in order."""
    pairs = _pairs(question)
    found: dict[str, AskedWord] = {}
    for word in query_terms(question, ASKED_WORDS_MAX, ASKED_WORDS_MAX // 4):
        root = word_root(word)
        if root not in found:
            others = dict.fromkeys((*pairs.get(root, ()), *code_words(root)))
            found[root] = AskedWord(root, tuple(others), WEAK if root in WEAK_ROOTS else 1.0)
    return tuple(one._replace(others=()) if one.weight < 1 else one for one in found.values())


def rarity(holders: int, documents: int) -> float:
    """Return the weight of a word that ``holders`` of all ``documents`` hold."""
    holders = min(holders, documents)
    return log(1 + (documents - holders + 0.5) / (holders + 0.5))


def rough_scores(found: Sequence[Evidence]) -> dict[int, float]:
    """Return the scores of symbols as if all were of the same length."""
    scores: dict[int, float] = {}
    for one in found:
        weight = one.weight
        for symbol, held in one.held.items():
            scores[symbol] = scores.get(symbol, 0.0) + weight * held / (held + SATURATION)
    return scores


def rank(found: Sequence[Evidence], lengths: Mapping[int, int], mean_length: float) -> list[Hit]:
    """Return the symbols in ``lengths`` (terms in the document of each) with their scores, the best first."""
    hits: list[Hit] = []
    for symbol, length in lengths.items():
        saturation = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * length / (mean_length or 1.0))
        score = 0.0
        for one in found:
            held = one.held.get(symbol)
            if held:
                score += one.weight * held / (held + saturation)
        hits.append(Hit(symbol, score))
    return in_order(hits)


def in_order(hits: Iterable[Hit]) -> list[Hit]:
    """Return hits, the best first, of equals that with the lowest number."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.row))


def reranked(hits: Sequence[Hit], likeness: Mapping[int, float]) -> list[Hit]:
    """Return hits in the order of their scores and of how like the question they are in meaning, up to 1 for the very
    same: as much as the score of the best hit. Where a model of word vectors is at hand, it compares the question with
    the name and summary of some 200 hits.
    """
    best = max((hit.score for hit in hits), default=0.0)
    return in_order(hit._replace(score=hit.score + best * likeness.get(hit.row, 0.0)) for hit in hits)


def _pairs(question: str) -> dict[str, list[str]]:
    """Return for each word the roots of compounds with its neighbours: "data frame" is ``dataframe`` in code."""
    words = terms(question)[: 4 * ASKED_WORDS_MAX]
    found: dict[str, list[str]] = {}
    for left, right in pairwise(words):
        both = word_root(left + right)
        for word in (left, right):
            found.setdefault(word_root(word), []).append(both)
    return found
