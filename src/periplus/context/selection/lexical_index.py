"""Lexical score of texts for a question: BM25 over code-aware terms, without an index.

A question is cut into terms like the questions of memory (``base.analysis``): identifiers whole and in their parts,
paths by component, dates as words, scripts without spaces in pairs of characters. Terms are compared by their stems.

Most texts contain no word of a question, so each is first searched for the stems as plain substrings, which costs a
fraction of cutting it; only texts with a hit are cut. The weight of a hit (rarity of the term, average length) is known
after all texts: until then ``LexicalTable`` keeps a few numbers for each text with a hit, and no text. Sums of integers
do not depend on the order of the texts, so neither do the scores.

BM25 as in Robertson and Zaragoza, *The Probabilistic Relevance Framework: BM25 and Beyond* (2009), with k1 = 1.2 and b
= 0.75; the length of a text is its number of characters.
"""

from __future__ import annotations

__all__ = ["Hits", "LexicalTable", "Question", "stem"]

import math
import re
from array import array
from collections.abc import Generator
from typing import Final, NamedTuple

from periplus.base.text.search_terms import expand, query_terms, rough_stem, terms
from periplus.context.time_slices import run_to_end

_K1: Final = 1.2
_B: Final = 0.75
_SCORES_PER_REST: Final = 8_192
_CACHED_WORDS_MAX: Final = 1 << 16
_CACHED_WORD_CHARACTERS_MAX: Final = 64
_MONTHS: Final = "january february march april may june july august september october november december".split()
_WORD: Final = re.compile(r"[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*", re.ASCII)
_DATE: Final = re.compile(r"\d{4}([/.])\d\d\1\d\d", re.ASCII)  # with dashes a date is one word


class Hits(NamedTuple):
    """The occurrences of a question's terms in a text: pairs of (number of the term, times)."""

    counts: tuple[tuple[int, int], ...]


def stem(term: str) -> str:
    """Return the common part of the forms of a word: ``hashing``, ``hashed``, ``hashes`` and ``hash``; ``caching`` and
    ``cache``.

    It is always a prefix of the term, so a text that contains no stem of a question as a substring contains none of its
    terms.
    """
    if not term.isascii() or not term.isalpha():
        return term
    root = rough_stem(term)
    if root != term and len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lsz":
        return root[:-1]  # planned → plan
    return root[:-1] if len(root) > 3 and root[-1] in "eiy" else root


class Question:
    """A question prepared for the search in texts. It lives for one call, with its own cache of words."""

    def __init__(self, text: str) -> None:
        self.terms = tuple(dict.fromkeys(stem(term) for term in query_terms(text)))
        self._numbers = {term: number for number, term in enumerate(self.terms)}
        self._needles = tuple(needle for term in self.terms for needle in _needles(term))
        self._has_singles = any(len(term) == 1 and not term.isascii() for term in self.terms)
        self._cache: dict[str, tuple[int, ...]] = {}

    def hits(self, text: str) -> Hits | None:
        """Return the question's terms in ``text``, or None if there is none."""
        folded = _folded(text)
        for needle in self._needles:
            if needle in folded:
                break
        else:
            return None
        found: dict[int, int] = {}
        if text.isascii() and _DATE.search(text) is None:
            cache = self._cache
            for word in _WORD.findall(text):
                numbers = cache.get(word)
                if numbers is None:
                    numbers = self._learn(word)
                for number in numbers:
                    found[number] = found.get(number, 0) + 1
        else:
            for number in self._of(expand(text).split() if self._has_singles else terms(text)):
                found[number] = found.get(number, 0) + 1
        return Hits(tuple(sorted(found.items()))) if found else None

    def _learn(self, word: str) -> tuple[int, ...]:
        numbers = self._of(terms(word))
        if len(word) <= _CACHED_WORD_CHARACTERS_MAX:
            if len(self._cache) >= _CACHED_WORDS_MAX:
                self._cache.clear()
            self._cache[word] = numbers
        return numbers

    def _of(self, found: list[str]) -> tuple[int, ...]:
        numbers = self._numbers
        return tuple(numbers[root] for root in map(stem, found) if root in numbers)


def _folded(text: str) -> str:
    """Return ``text`` folded like terms, once unchanged and once with the words of each identifier joined."""
    if not text.isascii():
        import unicodedata

        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    else:
        text = text.lower()
    if "_" in text or "-" in text:
        return text + " " + text.replace("_", "").replace("-", "")
    return text


def _needles(root: str) -> list[str]:
    """Return the substrings of every folded text with a term of this stem: the stem, and for a month its number in a
    date.
    """
    found = [root]
    for number, month in enumerate(_MONTHS, 1):
        if stem(month) == root:
            found += [f"{mark}{number:02d}{mark}" for mark in "-/."]
    return found


class LexicalTable:
    """The hits of many texts, kept as numbers until all are known: about 12 bytes for each text with a hit and 8 for
    each hit.
    """

    def __init__(self, question: Question) -> None:
        self._question = question
        self._texts = 0
        self._characters = 0
        self._holding = [0] * len(question.terms)  # number of texts that contain the term
        self._lengths = array("Q")
        self._ends = array("Q")
        self._terms = array("H")
        self._times = array("L")

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, text: str) -> bool:
        """Add one more text and return whether it has a hit; texts with a hit are numbered in order."""
        self._texts += 1
        self._characters += len(text)
        hits = self._question.hits(text)
        if hits is None:
            return False
        self._lengths.append(len(text))
        for number, times in hits.counts:
            self._holding[number] += 1
            self._terms.append(number)
            self._times.append(times)
        self._ends.append(len(self._terms))
        return True

    def scores(self) -> array[float]:
        """Return for each text with a hit its BM25 as a share of the best one's: over 0, at most 1."""
        return run_to_end(self.scores_steps())

    def scores_steps(self) -> Generator[None, None, array[float]]:
        """Compute ``scores`` with rests."""
        rarity = [math.log(1 + (self._texts - holding + 0.5) / (holding + 0.5)) for holding in self._holding]
        length_mean = self._characters / self._texts if self._characters else 1.0
        found = array("d")
        begin = 0
        for length, end in zip(self._lengths, self._ends, strict=True):
            damping = _K1 * (1 - _B + _B * length / length_mean)
            score = 0.0
            for at in range(begin, end):
                times = self._times[at]
                score += rarity[self._terms[at]] * times * (_K1 + 1) / (times + damping)
            found.append(score)
            begin = end
            if len(found) % _SCORES_PER_REST == 0:
                yield
        best = max(found, default=1.0)
        return array("d", [score / best for score in found])
