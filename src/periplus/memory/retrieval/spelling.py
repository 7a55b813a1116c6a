"""Spelling: words one edit away from a word of a question that no document has (a letter changed, missing, added, or
two swapped).

The index holds stems, so a misspelled word is not compared with the words of the index. Instead each word that may be
meant is searched, some hundreds of them, and the tokenizer stems it: the cost does not grow with the store.
"""

from __future__ import annotations

__all__ = ["edits_of", "near_words", "near_words_text"]

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from periplus.journal.index.connection import Connection
from periplus.memory.retrieval.search import Filters, holders

_LETTERS_MIN: Final = 3
_LETTERS_MAX: Final = 32
_EDITS_MAX: Final = 5_000  # for all words of a question
_NEAR_MAX: Final = 5  # replacements of one word
_BLOCK: Final = 0x80  # each alphabet lies within one of these
_ASCII: Final = "abcdefghijklmnopqrstuvwxyz0123456789"


def near_words(db: Connection, words: Sequence[str], filters: Filters) -> dict[str, tuple[str, ...]]:
    """Return for each misspelled word of ``words`` the words one edit away that some document has: exact words first,
    then other forms.
    """
    from periplus.base.text.search_terms import STOP_WORDS

    found: dict[str, tuple[str, ...]] = {}
    left = _EDITS_MAX
    for word in words:
        if not _may_be_misspelled(word):
            continue
        edits = [edit for edit in edits_of(word) if edit not in STOP_WORDS]
        left -= len(edits)
        if left < 0:
            break
        near = holders(db, [word, *edits], filters)
        own = near.pop(word, None)
        named: dict[tuple[int, ...], str] = {}  # forms of one word have the same documents
        for edit in sorted(near, key=lambda one: (not near[one].is_literal, near[one].rows)):
            if own is None or near[edit].rows != own.rows:
                named.setdefault(near[edit].rows, edit)
        if named:
            found[word] = tuple(named.values())[:_NEAR_MAX]
    # The parts of a word (argom of argom2id) are told with the word itself.
    return {word: forms for word, forms in found.items() if not any(word != other and word in other for other in found)}


def near_words_text(near: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Return a line that says which words were searched in place of which; empty where none were."""
    return " ".join(f"Nothing is found for {asked}; one edit away: {', '.join(forms)}." for asked, forms in near)


def edits_of(word: str) -> Iterator[str]:
    """Yield the words of three letters or more one edit away from ``word``, each once; letters come from its
    alphabets.
    """
    letters = _letters_of(word)
    seen = {word}
    for at in range(len(word) + 1):
        head, tail = word[:at], word[at:]
        forms = [head + letter + tail for letter in letters]
        if tail:
            forms.append(head + tail[1:])
            forms += [head + letter + tail[1:] for letter in letters]
        if len(tail) > 1:
            forms.append(head + tail[1] + tail[0] + tail[2:])
        for form in forms:
            if len(form) >= _LETTERS_MIN and form not in seen:
                seen.add(form)
                yield form


def _may_be_misspelled(word: str) -> bool:
    """Return False for numbers: another number is another thing. In a script without spaces a term is a pair of
    letters, and not a word.
    """
    return _LETTERS_MIN <= len(word) <= _LETTERS_MAX and not word.isdigit()


def _letters_of(word: str) -> str:
    """Return the small letters, digits and marks of the alphabets of ``word``."""
    blocks = sorted({ord(letter) // _BLOCK for letter in word if not letter.isascii()})
    others = [chr(code) for block in blocks for code in range(block * _BLOCK, (block + 1) * _BLOCK)]
    is_mixed = any(letter.isascii() and letter.isalpha() for letter in word)
    said = "".join(letter for letter in others if letter.isalpha() and letter == letter.lower())
    return (_ASCII if is_mixed or not others else "") + said
