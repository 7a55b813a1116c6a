"""Near-duplicate texts: Jaccard similarity of their words and pairs of words.

The sketch of a text is the set of checksums of its words and of its pairs of neighbouring words, at most ``SKETCH_MAX``
of them, the smallest; pairs before single words, because they are rarer. Similarity is taken over the union, cut in the
same way, so it is exact for texts of up to that many different words and pairs, and an estimate beyond. The beginning
of a text has no special weight.

Two sets that share at least ``ALIKE`` of their union share an element among the first few of each (prefix filtering:
Chaudhuri, Ganti and Kaushik, 2006), so a table of those few finds all similar texts without comparing with all. If one
element is common to very many texts, only the first ``_POSTINGS_MAX`` of them are compared; similarity is then a lower
bound.
"""

from __future__ import annotations

__all__ = ["ALIKE", "SKETCH_MAX", "LikenessTable", "similarity", "sketch"]

import re
from itertools import pairwise
from typing import Final, TypeAlias
from zlib import crc32

from periplus.base.text.search_terms import terms

ALIKE: Final = 600_000
SKETCH_MAX: Final = 512
_MILLION: Final = 1_000_000
_POSTINGS_MAX: Final = 64
_WORD: Final = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_SINGLE: Final = 1 << 32

Sketch: TypeAlias = tuple[int, ...]


def sketch(text: str) -> Sketch:
    """Return the sketch of a text, ascending; empty if ``text`` has no word, and then similar to nothing."""
    words = _WORD.findall(text.lower()) if text.isascii() else terms(text)
    checksums = [crc32(word.encode("utf-8", "replace")) for word in words]
    found = {crc32(second.to_bytes(4, "big"), first) for first, second in pairwise(checksums)}
    found.update([_SINGLE | checksum for checksum in checksums])
    return tuple(sorted(found)[:SKETCH_MAX])


def similarity(a: Sketch, b: Sketch) -> int:
    """Return the similarity in millionths."""
    if not a or not b:
        return 0
    if len(a) < SKETCH_MAX and len(b) < SKETCH_MAX:
        shared = len(set(a).intersection(b))
        return _MILLION * shared // (len(a) + len(b) - shared)
    both = set(a).intersection(b)
    union = sorted(set(a).union(b))[:SKETCH_MAX]
    return _MILLION * sum(element in both for element in union) // len(union)


class LikenessTable:
    """A table of sketches, searched for the most similar one."""

    def __init__(self) -> None:
        self._sketches: list[Sketch] = []
        self._postings: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._sketches)

    def add(self, taken: Sketch) -> None:
        number = len(self._sketches)
        self._sketches.append(taken)
        for element in _prefix(taken):
            postings = self._postings.setdefault(element, [])
            if len(postings) < _POSTINGS_MAX:
                postings.append(number)

    def most_alike(self, asked: Sketch, since: int = 0) -> tuple[int, int] | None:
        """Return number and similarity of the sketch from ``since`` on that is most similar, the first of equals; None
        under ``ALIKE``.
        """
        numbers = {
            number for element in _prefix(asked) for number in self._postings.get(element, ()) if number >= since
        }
        best: tuple[int, int] | None = None
        for number in sorted(numbers):
            found = similarity(asked, self._sketches[number])
            if found >= ALIKE and (best is None or found > best[1]):
                best = (number, found)
        return best


def _prefix(elements: Sketch) -> Sketch:
    return elements[: len(elements) - -(-len(elements) * ALIKE // _MILLION) + 1]
