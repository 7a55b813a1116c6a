"""Search in one session: the steps whose texts contain all words of a question, with the place of the first."""

from __future__ import annotations

__all__ = ["Found", "SearchHit", "search"]

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from periplus.interop.exports.trail_source import ExportSource, Moment
from periplus.trail import OperandValue
from periplus.web.sessions.texts import Texts
from periplus.web.sessions.timeline import item_of
from periplus.web.sessions.values import Kind, Limits

HITS_MAX: Final = 200
_WORDS_MAX: Final = 12
_AROUND: Final = 80
_BLANKS: Final = re.compile(r"\s+")
_HEAD: Final = Limits(200, 2, 0)


class SearchHit(NamedTuple):
    """A step, with the text around the first word: before it, the word, after it."""

    number: int
    kind: Kind
    head: str
    before: str
    word: str
    after: str


class Found(NamedTuple):
    """``more`` is True where there are hits over the limit."""

    hits: tuple[SearchHit, ...]
    more: bool


def search(source: ExportSource, question: str, most: int = HITS_MAX) -> Found:
    """Return the steps that contain all words of ``question``, in the order of the session."""
    words = question.casefold().split()[:_WORDS_MAX]
    texts = Texts(source, _HEAD)
    hits: list[SearchHit] = []
    for moment in source.moments() if words else ():
        hit = _hit(moment, words, texts)
        if hit is None:
            continue
        if len(hits) == most:
            return Found(tuple(hits), True)
        hits.append(hit)
    return Found(tuple(hits), False)


def _values(moment: Moment) -> Iterator[OperandValue]:
    yield from moment.step.operands
    yield moment.step.error
    yield moment.step.note


def _hit(moment: Moment, words: list[str], texts: Texts) -> SearchHit | None:
    found = [texts.source.text(value) for value in _values(moment) if value is not None and not isinstance(value, int)]
    text = "\n".join(found)
    folded = text.casefold()
    if not all(word in folded for word in words):
        return None
    item = item_of(moment, texts)
    at, word = folded.find(words[0]), words[0]
    if len(folded) != len(text):  # a letter that folds to several: the place cannot be told
        return SearchHit(item.number, item.kind, item.head, "", "", " ".join(text[:_AROUND].split()))
    before = _BLANKS.sub(" ", text[max(0, at - _AROUND) : at])
    after = _BLANKS.sub(" ", text[at + len(word) : at + len(word) + _AROUND])
    return SearchHit(item.number, item.kind, item.head, before, text[at : at + len(word)], after)
