"""Index of the distinct names of symbols, and the search for a name in it.

The table ``name`` (of the code map's index) with the folded forms in order answers for the same name and for beginnings; a full-text table
without positions for parts and misspellings. Both hold a name once, however many symbols have it. ``is_defined`` is 0 for a name that is
only referred to, and has no folded form, 1 for one that the full-text table lacks, 2 for one that it has.
"""

from __future__ import annotations

__all__ = ["NAMES", "SCHEMA", "NamedMatch", "find_names", "read_names"]

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.code.search.name_match import (
    Match,
    edits_allowed,
    edits_between,
    folded,
    grams_of,
    match_name,
    part_expressions,
    terms_of_name,
)

if TYPE_CHECKING:
    import sqlite3

_TOKENS: Final = "tokenize=\"unicode61 remove_diacritics 0 categories 'L* N* M* Co'\""
NAMES: Final = (
    "CREATE TABLE name (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE, folded TEXT NOT NULL, is_defined INTEGER NOT NULL)",
    "CREATE INDEX name_folded ON name (folded) WHERE is_defined",
    "CREATE INDEX name_unread ON name (id) WHERE is_defined = 1",
)
SCHEMA: Final = (
    f"CREATE VIRTUAL TABLE symbol_name_terms USING fts5(terms, content='', detail=none, columnsize=0, {_TOKENS})",
    "CREATE VIRTUAL TABLE symbol_name_vocabulary USING fts5vocab('symbol_name_terms', 'row')",
)
_NAMES_READ: Final = 10_000
_BEGINNINGS_MAX: Final = 500
_PARTS_FOUND_MAX: Final = 500
_MISSPELLED_MAX: Final = 20_000  # names that share a rare group of characters
_LAST: Final = "\U0010ffff"


class NamedMatch(NamedTuple):
    """A name found. Ordered: the better first, of equals the shorter."""

    match: Match
    name: str


def read_names(db: sqlite3.Connection) -> None:
    """Take the names of definitions that are not in the full-text table yet into it."""
    while rows := db.execute(
        "SELECT id, text FROM name WHERE is_defined = 1 ORDER BY id LIMIT ?", (_NAMES_READ,)
    ).fetchall():
        db.executemany(
            "INSERT INTO symbol_name_terms(rowid, terms) VALUES (?, ?)",
            ((number, terms_of_name(name)) for number, name in rows),
        )
        db.execute("UPDATE name SET is_defined = 2 WHERE is_defined = 1 AND id <= ?", (rows[-1][0],))


def find_names(db: sqlite3.Connection, name: str, most: int) -> list[NamedMatch]:
    """Return at most ``most`` names that match, the best first; misspellings only where nothing else does."""
    asked = folded(name)
    if not asked:
        return []
    found = dict.fromkeys(_beginning_with(db, asked, most))
    if len(found) < most:  # all of them are better than any match by parts
        for expression in part_expressions(name):
            found.update(dict.fromkeys(_holding(db, expression, most)))
    ranked = _ranked(name, found) or _ranked(name, _misspelled(db, asked))
    return ranked[:most]


def _ranked(query: str, names: Iterable[str]) -> list[NamedMatch]:
    matches = ((match_name(query, name), name) for name in names)
    return sorted(NamedMatch(match, name) for match, name in matches if match is not None)


def _beginning_with(db: sqlite3.Connection, asked: str, most: int) -> Iterator[str]:
    rows = db.execute(
        "SELECT text FROM name WHERE is_defined AND folded >= ? AND folded < ? ORDER BY folded LIMIT ?",
        (asked, asked + _LAST, max(most, _BEGINNINGS_MAX)),
    )
    return (name for (name,) in rows)


def _holding(db: sqlite3.Connection, expression: str, most: int) -> Iterator[str]:
    rows = db.execute(
        "SELECT text FROM name WHERE id IN (SELECT rowid FROM symbol_name_terms WHERE symbol_name_terms MATCH ? LIMIT ?)",
        (expression, max(most, _PARTS_FOUND_MAX)),
    )
    return (name for (name,) in rows)


def _misspelled(db: sqlite3.Connection, asked: str) -> Iterator[str]:
    """Return the names within the edits allowed: they have one of the rarest groups of three characters, about as many
    characters, and nearly the same ones.
    """
    allowed = edits_allowed(asked)
    if not allowed:
        return iter(())
    grams = [f"g{gram}" for gram in grams_of(asked)]
    marks = ", ".join("?" * len(grams))
    counted = db.execute(f"SELECT term, doc FROM symbol_name_vocabulary WHERE term IN ({marks})", grams)  # noqa: S608 - question marks
    held = dict(counted.fetchall())
    rarest = sorted(grams, key=lambda gram: held.get(gram, 0))[: 4 * allowed + 1]
    expression = " OR ".join(f'"{gram}"' for gram in rarest if gram in held)
    if not expression:
        return iter(())
    rows = db.execute(
        "SELECT text FROM name WHERE id IN (SELECT rowid FROM symbol_name_terms WHERE symbol_name_terms MATCH ? LIMIT ?)"
        " AND length(text) >= ?",
        (expression, _MISSPELLED_MAX, len(asked) - allowed),
    )
    letters = set(asked)
    return (
        name
        for name, own in ((name, folded(name)) for (name,) in rows)
        if abs(len(own) - len(asked)) <= allowed
        and len(letters.symmetric_difference(own)) <= 2 * allowed
        and edits_between(asked, own, allowed) <= allowed
    )
