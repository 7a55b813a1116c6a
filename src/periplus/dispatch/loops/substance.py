"""Substance of texts: padding has few different words, and two texts that differ in a word or two are one."""

from __future__ import annotations

__all__ = ["LONG", "SHORT", "are_alike", "distinct_words", "first_alike", "has_substance"]

import re
from collections.abc import Sequence
from typing import Final

SHORT: Final = 3
"""Different words in a cause, a question or a reason."""
LONG: Final = 15
"""Different words in a proposal or a synthesis."""
_ALIKE: Final = 0.8
_CONTAINED: Final = 0.9
_WORD: Final = re.compile(
    r"[\u3040-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u9fff\uac00-\ud7af]+"
)  # a word, or a sign of a script without blanks
_FILLING: Final = frozenset(
    "a an and blah dolor dummy etc fill foo bar baz ipsum is it lorem n na none nothing of or placeholder sit tbd test the to todo xxx yyy zzz".split()
)
_WORDS_MAX: Final = 20_000


def distinct_words(text: str) -> frozenset[str]:
    """Return the different words of ``text`` in lower case, without those that only fill it and without bare numbers."""
    words = set(_WORD.findall(text.lower()[: 8 * _WORDS_MAX]))
    return frozenset(word for word in words - _FILLING if not word.isdigit())


def has_substance(text: str, least: int = SHORT) -> bool:
    """Test whether a text has ``least`` different words."""
    return len(distinct_words(text)) >= least


def are_alike(one: str, other: str) -> bool:
    """Test whether two texts have nearly the same words. A long text is alike as well if it is another with something added."""
    first, second = distinct_words(one), distinct_words(other)
    smaller, common = min(len(first), len(second)), len(first & second)
    if smaller == 0:
        return True
    if smaller >= LONG and common >= _CONTAINED * smaller:
        return True
    return common >= _ALIKE * len(first | second)


def first_alike(texts: Sequence[str]) -> tuple[int, int] | None:
    """Return the places of the first two texts that are alike."""
    for at, text in enumerate(texts):
        for before in range(at):
            if are_alike(texts[before], text):
                return before, at
    return None
