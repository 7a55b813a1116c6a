"""Text made ready for search, for people's words and for code alike. Pure.

Stemming (Porter) is left to the index; here words are cut: identifiers are given whole and in their parts
(``hashPassword`` and ``hash_password`` both give ``hashpassword hash password``), paths by component, dates as words
(``2026-03-01`` gives ``2026 march 1``), runs of CJK by overlapping pairs. Stop words are dropped from questions only.
"""

from __future__ import annotations

__all__ = ["QUERY_TERMS_MAX", "STOP_WORDS", "expand", "query_terms", "terms"]

import re
from typing import Final

QUERY_TERMS_MAX: Final = 48
_WORD_CHARACTERS_MAX: Final = 64

STOP_WORDS: Final = frozenset(
    "a about also am an and any are as at be been being but by can could did do does doing for from had has have having "
    "he her his how i if in into is it its just let lets like me my need no nor not now of on or our out over please shall "
    "she should so some such than that the their them then there these they this those to too under up us very want was "
    "we were what when where which while who whom whose why will with would you your".split()
)
_MONTHS: Final = "january february march april may june july august september october november december".split()
_CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_TOKEN: Final = re.compile(rf"(?P<date>\b\d{{4}}-\d\d-\d\d\b)|(?P<cjk>[{_CJK}]+)|(?P<word>[^\W{_CJK}]+)")
_HUMP: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\dA-Za-z_]+")


def terms(text: str) -> list[str]:
    """The words of ``text`` in their order, in lower case, an identifier's parts right behind its whole."""
    found: list[str] = []
    for match in _TOKEN.finditer(text):
        word = match.group()
        if match.lastgroup == "date":
            month = int(word[5:7])
            found += [word[:4], *([_MONTHS[month - 1]] if 1 <= month <= 12 else []), str(int(word[8:]))]
        elif match.lastgroup == "cjk":
            found += [word] if len(word) == 1 else [word[at : at + 2] for at in range(len(word) - 1)]
        elif len(word) <= _WORD_CHARACTERS_MAX:
            found += _word_terms(word)
    return found


def _word_terms(word: str) -> list[str]:
    plain = word.lower()
    if plain == word and "_" not in word and word.isalpha():
        return [plain]
    parts = [part.lower() for part in _HUMP.findall(word)]
    whole = plain.replace("_", "")
    if len(parts) <= 1 or parts == [whole]:
        return [whole] if whole else []
    return [whole, *parts]


def expand(text: str) -> str:
    """``text`` as the index takes it in."""
    return " ".join(terms(text))


def query_terms(question: str) -> list[str]:
    """The words by which to look for ``question``: no stop words, each once, at most QUERY_TERMS_MAX.

    A question of stop words only keeps them: it asks for something, and nothing else says what.
    """
    found = list(dict.fromkeys(terms(question)))
    kept = [
        term for term in found if term not in STOP_WORDS and (len(term) > 1 or term.isdigit() or not term.isascii())
    ]
    return (kept or found)[:QUERY_TERMS_MAX]
