"""Search terms of prose and of code. Pure.

The index stems words (Porter); this module cuts text into terms:

* an identifier gives itself and its parts: ``hashPassword``, ``hash_password`` and ``hash-password`` all give
  ``hashpassword hash password``;
* a path gives its components, a date its words (``2026-03-01`` gives ``2026 march 1``), a language of one letter
  its name (``C#`` gives ``csharp``, ``C++`` gives ``cpp``);
* a script without spaces between words gives overlapping pairs of characters. The index holds the single characters
  too, so that a query of one character finds its pairs;
* text beyond ASCII is normalised first (NFKC), so that composed, decomposed and full-width forms match.

A term consists of letters, digits and marks. The tokenizer of the index keeps exactly these together
(``memory.fulltext``): it cuts no term further, and no term can be read as an operator of its query language.
"""

from __future__ import annotations

__all__ = [
    "QUERY_TERMS_MAX",
    "STOP_WORDS",
    "add_spellings",
    "expand",
    "head_and_tail",
    "query_terms",
    "rough_stem",
    "terms",
    "word_root",
]

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Final

QUERY_TERMS_MAX: Final = 48
QUESTION_CHARACTERS_MAX: Final = 20_000
_WORD_CHARACTERS_MAX: Final = 64
_LONG_WORD_CHARACTERS_MAX: Final = 1_000
_BLOB_CHARACTERS_MIN: Final = 6

STOP_WORDS: Final = frozenset(
    "a about also am an and any are aren as at be been being but by can could couldn did didn do does doesn doing don for "
    "from had hadn has hasn have haven having he her his how i if in into is isn it its just let lets like ll me my need no "
    "nor not now of on or our out over please re shall she should shouldn so some such than that the their them then there "
    "these they this those to too under up us ve very want was wasn we were weren what when where which while who whom "
    "whose why will with would wouldn you your".split()
)
_UMLAUTS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
_ENDINGS: Final = ("ing", "ed", "es", "s")
_ROOT_ENDINGS: Final = ("ations", "ation", "ings", "ing", "ies", "ions", "ion", "ers", "er", "ed", "es", "s", "e", "y")
_MONTHS: Final = "january february march april may june july august september october november december".split()
# Han, kana, Hangul; Thai, Lao, Myanmar, Khmer: no spaces between words.
_UNSPACED: Final = (
    "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003fffd"
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u109d\u1780-\u17d3"
)
# Combining marks that belong to a word: the general ones, Hebrew, Arabic, the scripts of India and Sri Lanka.
_MARKS: Final = "\u0300-\u036f\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0900-\u0903\u093a-\u094f\u0981-\u0dff"
_DATE: Final = r"(?<!\d)(?P<date>\d{4}([-/.])\d\d\2\d\d)(?!\d)"
_ASCII_TOKEN: Final = re.compile(rf"{_DATE}|(?P<word>[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*)", re.ASCII)
# A language of one letter and its suffix: C# is csharp, C++ is cpp.
_LETTER_NAME: Final = re.compile(r"(?<![\w#+])([A-Za-z])(#|\+\+)(?![A-Za-z_#+])")
_SINGLE_CAPITAL: Final = re.compile(
    r"(?<![\w'’.])[A-Z](?![\w'’#]|\+\+|\.\w)"
)  # C, R; neither a part of a word nor an initial
_HUMP: Final = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


def terms(text: str) -> list[str]:
    """Return the terms of ``text`` in order and in lower case; the parts of an identifier follow the whole."""
    return _terms(text, with_singles=False)


def expand(text: str) -> str:
    """Return ``text`` as the terms that the index stores."""
    return " ".join(_terms(text, with_singles=True))


def add_spellings(found: Iterable[str]) -> list[str]:
    """Add to each term with ä, ö or ü the spelling without umlauts: ``grösse`` gives ``grösse groesse``."""
    return [form for term in found for form in ((term,) if term.isascii() else _spellings(term))]


def _spellings(term: str) -> tuple[str, ...]:
    spelled = term.translate(_UMLAUTS)
    return (term,) if spelled == term else (term, spelled)


def query_terms(question: str, most: int = QUERY_TERMS_MAX, of_end: int = QUERY_TERMS_MAX // 3) -> list[str]:
    """Return the search terms of ``question``, without stop words and duplicates, at most ``most``.

    A question that consists of stop words keeps them. Of a long question (a pasted log, for instance) both ends are
    kept, the last ``of_end`` terms among them: the cause of an error stands at the end of a Python traceback and at
    the beginning of other reports, and the question itself stands above or below.
    """
    text = head_and_tail(question, QUESTION_CHARACTERS_MAX)
    found = terms(text)
    names = {letter.lower() for letter in _SINGLE_CAPITAL.findall(text)}
    kept = [term for term in found if term not in STOP_WORDS and (not _is_letter(term) or term in names)]
    first = dict.fromkeys(kept or found)
    if len(first) <= most:
        return list(first)
    head = dict.fromkeys(list(first)[: most - of_end])
    tail = [term for term in dict.fromkeys(reversed(kept or found)) if term not in head][: most - len(head)]
    return [*head, *reversed(tail)]


def _is_letter(term: str) -> bool:
    return len(term) == 1 and term.isascii() and not term.isdigit()


def head_and_tail(text: str, most: int) -> str:
    """Shorten ``text`` to its first and last characters, ``most`` in all, with a line break between them."""
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[:half]}\n{text[-half:]}"


def rough_stem(word: str) -> str:
    """Remove a common English ending. Approximates the stemmer of the index, to compare two texts or paths without
    it.
    """
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def word_root(word: str) -> str:
    """Return a word without its ending, cut more roughly than by a stemmer: both sides are cut alike, and a false
    match costs little.
    """
    for ending in _ROOT_ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    return word


@cache
def _token() -> re.Pattern[str]:
    """Compile the pattern of tokens beyond ASCII, at first use: it takes milliseconds."""
    return re.compile(
        rf"{_DATE}|(?P<unspaced>[{_UNSPACED}]+)|(?P<word>(?:[^\W{_UNSPACED}]|[{_MARKS}])+(?:-(?:[^\W{_UNSPACED}]|[{_MARKS}])+)*)"
    )


def _terms(text: str, *, with_singles: bool) -> list[str]:
    pattern = _ASCII_TOKEN
    if not text.isascii():
        import unicodedata

        text = unicodedata.normalize("NFKC", text)
        pattern = _token()
    if "#" in text or "++" in text:
        text = _LETTER_NAME.sub(_letter_name, text)
    found: list[str] = []
    for match in pattern.finditer(text):
        kind = match.lastgroup
        word = match.group()
        if kind == "word":
            found += _word_terms(word) if len(word) <= _WORD_CHARACTERS_MAX else _long_word_terms(word)
        elif kind == "date":
            month = int(word[5:7])
            found += [word[:4], *([_MONTHS[month - 1]] if 1 <= month <= 12 else []), str(int(word[8:]))]
        else:
            found += _unspaced_terms(word, with_singles=with_singles)
    return found


def _letter_name(match: re.Match[str]) -> str:
    return f"{match[1]}{'sharp' if match[2] == '#' else 'pp'}".lower()


def _unspaced_terms(run: str, *, with_singles: bool) -> list[str]:
    if len(run) == 1:
        return [run]
    pairs = [run[at : at + 2] for at in range(len(run) - 1)]
    return pairs + list(run) if with_singles else pairs


@lru_cache(maxsize=1 << 15)  # the words of a project repeat
def _word_terms(word: str) -> tuple[str, ...]:
    if word.islower() and word.isalpha():
        return (_folded(word),)
    parts = [part for piece in re.split(r"[-_]+", word) for part in _humps(piece)]
    whole = _folded(word.replace("-", "").replace("_", ""))
    if len(parts) <= 1 or parts == [whole]:
        return (whole,) if whole else ()
    return (whole, *parts)


def _long_word_terms(word: str) -> list[str]:
    """Return the parts of a name that is too long for one term, each cut to the length of a term."""
    parts = [part for piece in re.split(r"[-_]+", word[:_LONG_WORD_CHARACTERS_MAX]) for part in _humps(piece)]
    return [part[:_WORD_CHARACTERS_MAX] for part in parts]


def _humps(piece: str) -> list[str]:
    """Split ``camelCase2``. A single capital also joins the part behind it (``OAuth`` gives oauth, auth)."""
    if not piece.isascii():
        return _foreign_humps(piece)
    found: list[str] = []
    parts: list[str] = _HUMP.findall(piece)
    if len(piece) >= _BLOB_CHARACTERS_MIN and len(parts) * 5 > len(piece) * 2:
        return [piece.lower()]  # a digest or an id has no words
    for at, part in enumerate(parts):
        if len(part) == 1 and part.isupper() and at + 1 < len(parts) and parts[at + 1].isalpha():
            found.append((part + parts[at + 1]).lower())
        else:
            found.append(part.lower())
    return found


def _foreign_humps(piece: str) -> list[str]:
    """Split a name in another alphabet at each capital behind a small letter and between letters and digits."""
    found: list[str] = []
    begin = 0
    for at in range(1, len(piece)):
        before, here = piece[at - 1], piece[at]
        if (here.isupper() and before.islower()) or before.isdigit() != here.isdigit():
            found.append(_folded(piece[begin:at]))
            begin = at
    return [*found, _folded(piece[begin:])] if piece else found


def _folded(word: str) -> str:
    if word.isascii():
        return word.lower()
    import unicodedata

    return unicodedata.normalize("NFKC", word.casefold())
