"""Search documents of symbols: the roots of the words by which a symbol is found, each marked with its field. Pure.

A document is a text of terms for an index without positions and without columns (FTS5, ``detail=none``): it takes about
a twelfth of the bytes of the source. The first letter of a term is its field:

* ``n``: the words of the symbol's name;
* ``s``: the summary, which is the first sentence of the documentation or, where there is none, of the first comment;
* ``r``: the rest: documentation, signature, body and comments, the names around the symbol, and its path.

A word stands in the rest only where it is not in the name or the summary. No word stands twice in a field, so the
number of terms of a document tells how much it says.
"""

from __future__ import annotations

__all__ = ["FIELDS", "Field", "SymbolText", "document_of"]

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, islice
from typing import Final, Literal, TypeAlias

from periplus.base.named_tuple import NamedTuple
from periplus.base.text.search_terms import terms, word_root

Field: TypeAlias = Literal["n", "s", "r"]
FIELDS: Final[tuple[Field, ...]] = ("n", "s", "r")
NAME_TERMS_MAX: Final = 24
SUMMARY_TERMS_MAX: Final = 48
REST_TERMS_MAX: Final = 240
_SUMMARY_CHARACTERS_MAX: Final = 500
_DOC_CHARACTERS_MAX: Final = 4_000
_SIGNATURE_CHARACTERS_MAX: Final = 1_000
_SOURCE_CHARACTERS_MAX: Final = 20_000
_HEAD_CHARACTERS: Final = 600  # of what has members, which are symbols of their own
_PATH_PARTS: Final = 3
_CONTAINERS: Final = frozenset("class enum interface module namespace object record struct trait".split())
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s|\n\s*\n|\n\s*(?:[:@\\]|Args|Param|Return)")
_COMMENT: Final = re.compile(r"(?:^|\n)[ \t]*(?:#+|//[/!]*|/\*+|--|;+|\"\"\"|''')[ \t]*(\w[^\n]{3,})")
_TOKEN: Final = re.compile(
    r"(?=(?:\D*\d){3})[^\W_]{20,}|\w{65,}"
)  # a key, a digest: nothing to search, perhaps a secret
_WORD: Final = re.compile(r"[^\W\d]\w+")
_WORDS_AND_NUMBERS: Final = re.compile(r"\w+(?:-\w+)*", re.ASCII)
_NOT_WORDS_ALONE: Final = re.compile(r"\d{4}[-/.]\d|[A-Za-z](?:#|\+\+)")  # a date, or C# and C++: more than words
_KEPT_MAX: Final = 1 << 16  # the words of a project repeat
# Words of the languages themselves: every body has them.
_KEYWORDS: Final = frozenset(
    map(
        word_root,
        "and as async await begin break case catch class cls const continue def default do else elif end enum except export extends "
        "false final finally for from func function fn if impl implements import in interface is lambda let mut namespace new nil "
        "none not null or package pass private protected pub public raise return self static struct super switch then this throw "
        "throws true try type undefined use using var void while with yield".split(),
    )
)


class SymbolText(NamedTuple):
    """A symbol as text. ``doc`` is its whole documentation without the marks of comments, ``source`` its whole text."""

    name: str
    qualified_name: str = ""
    kind: str = ""
    path: str = ""
    signature: str = ""
    doc: str = ""
    source: str = ""


def document_of(symbol: SymbolText) -> str:
    """Return the terms of ``symbol``, separated by spaces."""
    source = symbol.source[: _HEAD_CHARACTERS if symbol.kind in _CONTAINERS else _SOURCE_CHARACTERS_MAX]
    doc = symbol.doc[:_DOC_CHARACTERS_MAX].strip()
    summary, more = _split_doc(doc or _first_comment(source))
    if doc:
        source = source.replace(symbol.doc, "", 1)
    name = dict.fromkeys(islice(_roots(symbol.name), NAME_TERMS_MAX))
    said = dict.fromkeys(islice(_roots(summary), SUMMARY_TERMS_MAX))
    around = symbol.qualified_name.removesuffix(symbol.name)
    place = " ".join(symbol.path.rsplit(".", 1)[0].split("/")[-_PATH_PARTS:])
    rest = dict.fromkeys(_roots(f"{around} {place}\n{more}\n{symbol.signature[:_SIGNATURE_CHARACTERS_MAX]}"))
    for word in dict.fromkeys(_WORD.findall(source)):
        if _TOKEN.fullmatch(word) is None:
            rest.update(_body_roots(word))
    left = islice((term for term in rest if term not in name and term not in said), REST_TERMS_MAX)
    return " ".join([*("n" + term for term in name), *("s" + term for term in said), *("r" + term for term in left)])


def _roots(text: str) -> Iterator[str]:
    """Yield the roots of the terms of ``text``, in order."""
    if not text.isascii() or _NOT_WORDS_ALONE.search(text):
        return map(_root, terms(text))
    return chain.from_iterable(map(_word_roots, _WORDS_AND_NUMBERS.findall(text)))


_root: Final = lru_cache(_KEPT_MAX)(word_root)


@lru_cache(_KEPT_MAX)
def _word_roots(word: str) -> tuple[str, ...]:
    return tuple(map(word_root, terms(word)))


@lru_cache(_KEPT_MAX)
def _body_roots(word: str) -> dict[str, None]:
    """Return the roots of a word of a body, without those that belong to the language."""
    return dict.fromkeys(root for root in map(word_root, terms(word)) if root not in _KEYWORDS)


def _split_doc(doc: str) -> tuple[str, str]:
    """Return the first sentence, and what follows it."""
    end = _SENTENCE_END.search(doc)
    at = min(end.start() if end is not None else len(doc), _SUMMARY_CHARACTERS_MAX)
    return doc[:at], doc[at:]


def _first_comment(source: str) -> str:
    found = _COMMENT.search(source)
    return found[1] if found is not None else ""
