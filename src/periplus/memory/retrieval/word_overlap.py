"""Count the words that a question and a text share, to judge whether the text is relevant at all.

Words are compared by the stems of the index. In scripts without spaces the search knows pairs of letters only
(``base.text.search_terms``); a run of shared pairs counts as words by the usual length of a word in that script. A run too
short to be a word counts for nothing, for two texts of one language share many pairs by chance, nor does hiragana, in
which Japanese writes its grammar.
"""

from __future__ import annotations

__all__ = ["shared_words", "word_count"]

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import chain
from typing import Final

from periplus.base.text.search_terms import STOP_WORDS, terms
from periplus.memory.fulltext.indexer import TOKENIZER

_WORD: Final = 20
_RUN_MIN: Final = 12  # two letters of Han or Hangul, three of katakana, four of Thai and its neighbours
_WORTH: Final = (  # of a letter, by the ranges that base.text.search_terms cuts into pairs
    ("\u3005", "\u3007", 10), ("\u3040", "\u309f", 0), ("\u30a0", "\u30ff", 4), ("\u3400", "\u4dbf", 10), ("\u4e00", "\u9fff", 10),
    ("\uac00", "\ud7af", 6), ("\uf900", "\ufaff", 10), ("\U00020000", "\U0003fffd", 10),
    ("\u0e01", "\u0ece", 3), ("\u1000", "\u109d", 3), ("\u1780", "\u17d3", 3),
)  # fmt: skip
_FIRST: Final = min(first for first, _, _ in _WORTH)


def word_count(asked: Sequence[str]) -> float:
    """Return the number of words in the terms of a question; words without meaning do not count."""
    spaced = sum(1 for term in asked if _worth(term[0]) is None and term not in STOP_WORDS)
    return spaced + _of_runs(asked, lambda _: True)


def shared_words(asked: Sequence[str], texts: Sequence[str]) -> list[float]:
    """Return for each of ``texts`` the number of words of the question that it shares."""
    words = [term for term in asked if _worth(term[0]) is None and term not in STOP_WORDS]
    begins = {word[:2] for word in words}
    is_plain = all(word.isascii() for word in words)
    said = [frozenset(terms(text)) for text in texts]
    # Forms of a word differ only at its end, and texts are long: words with another beginning are skipped.
    near = [[term for term in held if term[:2] in begins or not (is_plain and term.isascii())] for held in said]
    stems = _stems(list(dict.fromkeys(chain(words, *near)))) if words else {}
    wanted = {stems[word] for word in words}
    return [
        len(wanted.intersection(stems[term] for term in some)) + _of_runs(asked, held.__contains__)
        for some, held in zip(near if words else [[]] * len(said), said, strict=True)
    ]


def _of_runs(asked: Sequence[str], is_shared: Callable[[str], bool]) -> float:
    """Return the number of words that the shared pairs are worth: of each run of them, at least one where it may be a
    word.
    """
    total = run = 0
    before = ""  # the pair after which a run continues
    for term in chain(asked, ("",)):
        is_pair = len(term) == 2 and _worth(term[0]) is not None and is_shared(term)
        if is_pair and before and before[1] == term[0]:
            run += _worth(term[1]) or 0
        else:
            total += max(_WORD, run) if run >= _RUN_MIN else 0
            run = sum(_worth(letter) or 0 for letter in term) if is_pair else 0
        before = term if is_pair else ""
    return total / _WORD


def _worth(letter: str) -> int | None:
    """Return the value of a letter; None in a script with spaces."""
    if letter < _FIRST:
        return None
    return next((worth for first, last, worth in _WORTH if first <= letter <= last), None)


def _stems(words: list[str]) -> dict[str, str]:
    """Return the stem of each word, made by the index's own tokenizer."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(f'CREATE VIRTUAL TABLE said USING fts5(word, tokenize="{TOKENIZER}")')
        db.execute("CREATE VIRTUAL TABLE stems USING fts5vocab(said, 'instance')")
        db.executemany("INSERT INTO said (rowid, word) VALUES (?, ?)", enumerate(words))
        found = dict.fromkeys(words, "")
        for at, stem in db.execute("SELECT doc, term FROM stems"):
            found[words[at]] += stem
    return {word: stem or word for word, stem in found.items()}
