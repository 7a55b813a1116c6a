"""Text made ready for search, for people's words and for code alike. Pure.

Stemming (Porter) is left to the index; here words are cut: identifiers are given whole and in their parts
(``hashPassword``, ``hash_password`` and ``hash-password`` all give ``hashpassword hash password``), paths by component,
dates as words (``2026-03-01`` gives ``2026 march 1``), languages of one letter by their names (``C#`` gives ``csharp``, ``C++`` ``cpp``). Scripts that set no spaces between words are cut into
overlapping pairs of characters; the index holds the single characters too, so that a question of one finds its pairs.
Text beyond ASCII is normalised first (NFKC), so that composed, decomposed and full-width forms meet.

A term is made of letters, digits and marks only: the index's tokenizer is set to keep just those together
(``memory.index``), so it cuts no term further, and no term can be read as an operator of its query language.
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
# A language of one letter, which is told from the letter by what it is written with: C# is csharp, C++ is cpp.
_LETTER_NAME: Final = re.compile(r"(?<![\w#+])([A-Za-z])(#|\+\+)(?![A-Za-z_#+])")
_SINGLE_CAPITAL: Final = re.compile(r"(?<![\w'’.])[A-Z](?![\w'’#]|\+\+|\.\w)")  # C, R; no part of a word, no initials
_HUMP: Final = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


def terms(text: str) -> list[str]:
    """The terms of ``text`` in their order, in lower case, an identifier's parts right behind its whole."""
    return _terms(text, with_singles=False)


def expand(text: str) -> str:
    """``text`` as the index takes it in."""
    return " ".join(_terms(text, with_singles=True))


def add_spellings(found: Iterable[str]) -> list[str]:
    """Terms, and behind one with ä, ö or ü what is written where a keyboard lacks them: ``grösse`` gives ``grösse groesse``."""
    return [form for term in found for form in ((term,) if term.isascii() else _spellings(term))]


def _spellings(term: str) -> tuple[str, ...]:
    spelled = term.translate(_UMLAUTS)
    return (term,) if spelled == term else (term, spelled)


def query_terms(question: str, most: int = QUERY_TERMS_MAX, of_end: int = QUERY_TERMS_MAX // 3) -> list[str]:
    """The terms by which to look for ``question``: no stop words, each once, at most ``most``.

    A question of stop words only keeps them: it asks for something, and nothing else says what. Of one that is too long, as what people
    paste is, both ends are kept, ``of_end`` terms of the last: Python says what is wrong at the end, others at the beginning, and what is
    asked stands above or below.
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
    """``text``, or of a longer one its first and last characters, at most ``most`` of them with the line between."""
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[:half]}\n{text[-half:]}"


def rough_stem(word: str) -> str:
    """Most of what stemming does, for where the index's own is not at hand: comparing two texts, or paths."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


@cache
def _token() -> re.Pattern[str]:
    """What a term may come from, beyond ASCII; made at first use, for it takes milliseconds."""
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


@lru_cache(maxsize=1 << 15)  # a project's words come again and again
def _word_terms(word: str) -> tuple[str, ...]:
    if word.islower() and word.isalpha():
        return (_folded(word),)
    parts = [part for piece in re.split(r"[-_]+", word) for part in _humps(piece)]
    whole = _folded(word.replace("-", "").replace("_", ""))
    if len(parts) <= 1 or parts == [whole]:
        return (whole,) if whole else ()
    return (whole, *parts)


def _long_word_terms(word: str) -> list[str]:
    """A name too long to be looked for whole: its parts; of a blob without parts, its beginning."""
    parts = [part for piece in re.split(r"[-_]+", word[:_LONG_WORD_CHARACTERS_MAX]) for part in _humps(piece)]
    return [part[:_WORD_CHARACTERS_MAX] for part in parts]


def _humps(piece: str) -> list[str]:
    """The parts of ``camelCase2``; a single capital belongs to what follows as well (``OAuth`` gives oauth, auth)."""
    if not piece.isascii():
        return _foreign_humps(piece)
    found: list[str] = []
    parts: list[str] = _HUMP.findall(piece)
    if len(piece) >= _BLOB_CHARACTERS_MIN and len(parts) * 5 > len(piece) * 2:
        return [piece.lower()]  # a digest or an id: no words in it
    for at, part in enumerate(parts):
        if len(part) == 1 and part.isupper() and at + 1 < len(parts) and parts[at + 1].isalpha():
            found.append((part + parts[at + 1]).lower())
        else:
            found.append(part.lower())
    return found


def _foreign_humps(piece: str) -> list[str]:
    """As ``_humps`` for other alphabets: a part begins where a capital follows a small letter, or a digit a letter."""
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
