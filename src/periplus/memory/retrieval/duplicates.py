"""Find a live memory that says the same as a text, or nearly the same."""

from __future__ import annotations

__all__ = ["duplicate_of", "near_memories", "says_nearly_the_same"]

import re
from collections.abc import Container
from typing import Final

from periplus.base.text.search_terms import STOP_WORDS, rough_stem, terms
from periplus.journal import Entity, Journal
from periplus.memory.entities.validity import is_over
from periplus.memory.fulltext.index_rows import text_digest
from periplus.memory.retrieval.recall import recall
from periplus.memory.retrieval.search import Filters

_NEAR_SHARE: Final = 0.6
_NEAR_SHARE_OF_LONGER: Final = 0.35
_NEAR_MAX: Final = 3
_NEAR_HITS: Final = 11  # one of them may be the memory itself
_ASKED_CHARACTERS: Final = 500
_ASCII_WORDS: Final = re.compile(r"[A-Za-z0-9]+")
_WORDS_MAX: Final = 16


def duplicate_of(journal: Journal, item_type: str, text: str) -> Entity | None:
    """Return the live entity of the same type and text, from the index or from records behind it."""
    digest = text_digest(item_type, text)
    rows = journal.index.db.execute("SELECT item_type, item_id FROM texts WHERE digest = ? ORDER BY item_id", (digest,))
    now_ms = journal.clock.now_ms()
    words = sorted(set(_ASCII_WORDS.findall(text)), key=len)[-_WORDS_MAX:]
    keys = [(str(row[0]), str(row[1])) for row in rows] + journal.unindexed_saying(
        item_type, [word.encode() for word in reversed(words)]
    )
    for key in keys:
        entity = journal.get(*key)
        if entity is None or is_over(journal.types, entity, now_ms):
            continue
        if text_digest(key[0], str(entity.value.get("text", ""))) == digest:
            return entity
    return None


def near_memories(
    journal: Journal, text: str, types: tuple[str, ...], replaced: Container[str] = frozenset()
) -> tuple[str, ...]:
    """Return the ids of at most three live memories of these types with nearly the same text, those in ``replaced``
    left out.
    """
    asked = text[:_ASKED_CHARACTERS]
    found = recall(journal, asked, now_ms=journal.clock.now_ms(), limit=_NEAR_HITS, filters=Filters(types=types))
    near = [hit.item_id for hit in found.hits if says_nearly_the_same(text, hit.text)]
    return tuple(item_id for item_id in near if item_id not in replaced)[:_NEAR_MAX]


def says_nearly_the_same(text: str, other: str) -> bool:
    """Return True where two texts share most of their words, in either direction."""
    mine, theirs = _content(text), _content(other)
    shared = len(mine & theirs)
    small, large = sorted((len(mine), len(theirs)))
    return shared >= _NEAR_SHARE * max(1, small) and shared >= _NEAR_SHARE_OF_LONGER * large


def _content(text: str) -> set[str]:
    return {rough_stem(term) for term in terms(text) if term not in STOP_WORDS}
