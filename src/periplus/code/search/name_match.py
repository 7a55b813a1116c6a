"""Matching of names as people type them against the names of symbols. Pure.

A query is a name, perhaps with what it stands in: ``Class.method``, ``module.Class``, ``A::b``, ``A#b``,
``path/file.py:symbol``. Grades of a match, the best first:

* the same name; the same but for upper and lower case; the same but for the way in which parts are joined (``get_user``
  and ``getUser``);
* a beginning of the name, in the same case or not;
* parts of the name in order: ``userName`` or ``usr nm`` finds ``get_user_name``. A part may be a beginning of the
  name's part, or its first letter and others of its letters in order;
* a misspelling: one edit for names of four characters, two for eight (edits as counted by Damerau and Levenshtein:
  a character changed, missing, added, or two neighbours swapped).

Every name that matches is among the names that ``terms_of_name`` and the searches made here from the query lead to:
a name within ``d`` edits shares one of any ``4 d + 1`` of its groups of three characters (an edit changes at most four).
"""

from __future__ import annotations

__all__ = [
    "Grade",
    "Match",
    "NameQuery",
    "edits_allowed",
    "edits_between",
    "folded",
    "grams_of",
    "match_name",
    "name_parts",
    "name_query",
    "part_expressions",
    "scope_distance",
    "terms_of_name",
]

import re
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Final

from periplus.base.named_tuple import NamedTuple

NAME_CHARACTERS_MAX: Final = 200
_QUERY_CHARACTERS_MAX: Final = 1_000
_PARTS_MAX: Final = 16
_ONE_EDIT_FROM: Final = 4
_TWO_EDITS_FROM: Final = 8
_PAD: Final = "\ue010\ue010"  # of private use: no name has it
_SEPARATOR: Final = re.compile(r"::|->|[.#\\/]")
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_UNJOINED: Final = re.compile(r"[\W_]+")
_OWN_FILES: Final = frozenset({"__init__", "__main__", "index", "mod", "lib", "main"})  # named by their folder


class Grade(IntEnum):
    """Closeness of a name to a query, the closest first."""

    SAME = 0
    SAME_FOLDED_CASE = 1
    SAME_PARTS = 2
    BEGINNING = 3
    BEGINNING_FOLDED = 4
    PARTS = 5
    ABBREVIATED = 6
    ONE_EDIT = 7
    TWO_EDITS = 8


class Match(NamedTuple):
    """Matches are in order: the smaller is the better. ``left`` counts the characters that the query does not say."""

    grade: Grade
    left: int


class NameQuery(NamedTuple):
    """A query taken apart: the file, what the name stands in from the outside in, and the name."""

    path: str
    scopes: tuple[str, ...]
    name: str


def name_query(text: str) -> NameQuery:
    """Take a query apart. The name is empty where ``text`` holds none."""
    text = text[:_QUERY_CHARACTERS_MAX].strip().removesuffix("()")
    path, colon, rest = text.rpartition(":")
    if colon and not path.endswith(":") and rest and ("/" in path or "." in path):
        text = rest
    else:
        path = ""
        before, double, after = text.partition("::")
        head, colon, inner = before.rpartition(":")
        if double and colon and ("/" in head or "." in head):  # path:A::b
            path, text = head, f"{inner}::{after}"
    pieces = [piece.strip(" ()*&[]<>") for piece in _SEPARATOR.split(text)]
    pieces = [piece for piece in pieces if piece]
    return NameQuery(path.removeprefix("./"), tuple(pieces[:-1]), pieces[-1]) if pieces else NameQuery(path, (), "")


def folded(name: str) -> str:
    """Return ``name`` in lower case without what joins its parts; a name of nothing else stays."""
    return _UNJOINED.sub("", name[:NAME_CHARACTERS_MAX]).casefold() or name[:NAME_CHARACTERS_MAX]


def name_parts(name: str) -> tuple[str, ...]:
    """Return the parts of ``name`` in lower case: ``HTTPServer2`` gives ``http server 2``."""
    name = name[:NAME_CHARACTERS_MAX]
    parts = _PART.findall(name) if name.isascii() else _foreign_parts(name)
    return tuple(part.casefold() for part in parts)[:_PARTS_MAX]


def match_name(query: str, name: str) -> Match | None:
    """Return the grade at which ``name`` matches ``query``, None where it does not."""
    if query == name:
        return Match(Grade.SAME, 0)
    asked = _asked(query)
    own = folded(name)
    left = len(own) - len(asked.folded)
    if left == 0 and asked.folded == own:
        return Match(Grade.SAME_FOLDED_CASE if query.casefold() == name.casefold() else Grade.SAME_PARTS, 0)
    if own.startswith(asked.folded):
        return Match(Grade.BEGINNING if name.startswith(query) else Grade.BEGINNING_FOLDED, left)
    if asked.parts:
        parts = name_parts(name)
        if _begin_in_order(asked.parts, parts):
            return Match(Grade.PARTS, left)
        if 1 < len(asked.parts) <= len(parts) and all(map(_abbreviates, asked.parts, parts)):
            return Match(Grade.ABBREVIATED, left)
    if asked.edits_allowed and abs(left) <= asked.edits_allowed:
        edits = edits_between(asked.folded, own, asked.edits_allowed)
        if edits <= asked.edits_allowed:
            return Match(Grade.ONE_EDIT if edits == 1 else Grade.TWO_EDITS, abs(left))
    return None


def scope_distance(query: NameQuery, qualified_name: str, path: str) -> int | None:
    """Return how far the place of a symbol is from what the query says of it: 0 for the very place, more where names
    between were left out or the case differs; None where it stands elsewhere. The path counts as outer scopes.
    """
    if query.path and not _ends_path(path, query.path):
        return None
    if not query.scopes:
        return 0
    inner = [piece for piece in _SEPARATOR.split(qualified_name) if piece][:-1]
    outer = [piece for piece in path.split("/") if piece and piece != "."]
    if outer:
        outer[-1] = outer[-1].split(".", 1)[0] or outer[-1]
        if outer[-1] in _OWN_FILES:
            outer.pop()
    around = [*outer, *inner]
    distance, at = 0, len(around)
    for scope in reversed(query.scopes):
        asked = folded(scope)
        place = next((one for one in range(at - 1, -1, -1) if around[one] == scope or folded(around[one]) == asked), -1)
        if place < 0:
            return None
        distance += 2 * (at - 1 - place) + (around[place] != scope)
        at = place
    return distance


def edits_allowed(name: str) -> int:
    """Return how many edits a misspelling of ``name`` may have."""
    return (len(name) >= _ONE_EDIT_FROM) + (len(name) >= _TWO_EDITS_FROM)


def edits_between(left: str, right: str, most: int) -> int:
    """Return the number of edits from one text to the other, ``most + 1`` where it is more than ``most``."""
    if abs(len(left) - len(right)) > most:
        return most + 1
    begin, end = 0, min(len(left), len(right))
    while begin < end and left[begin] == right[begin]:
        begin += 1
    end -= begin
    stop = 0
    while stop < end and left[-1 - stop] == right[-1 - stop]:
        stop += 1
    left, right = left[begin : len(left) - stop], right[begin : len(right) - stop]
    if not left or not right:
        return min(max(len(left), len(right)), most + 1)
    before: list[int] = []
    row = list(range(len(right) + 1))
    for at, one in enumerate(left, 1):
        before, last, row = row, before, [at]
        for place, other in enumerate(right, 1):
            edits = before[place - 1] if one == other else 1 + min(before[place - 1], before[place], row[place - 1])
            if at > 1 and place > 1 and one == right[place - 2] and left[at - 2] == other:
                edits = min(edits, last[place - 2] + 1)
            row.append(edits)
        if min(row) > most:
            return most + 1
    return min(row[-1], most + 1)


def grams_of(name: str) -> tuple[str, ...]:
    """Return the groups of three neighbouring characters of a folded name, those over its ends included."""
    padded = f"{_PAD}{name}{_PAD}"
    return tuple(dict.fromkeys(padded[at : at + 3] for at in range(len(padded) - 2)))


def terms_of_name(name: str) -> str:
    """Return the terms by which ``name`` is found in an index without positions: ``p`` and a part, ``i`` and the first
    letters of all parts, ``g`` and a group of three characters.
    """
    parts = dict.fromkeys(name_parts(name))
    initials = "".join(part[0] for part in name_parts(name))
    own = folded(name)
    grams = grams_of(own) if own.isalnum() else ()
    return " ".join(
        [
            *(f"p{part}" for part in parts),
            *([f"i{initials}"] if len(initials) > 1 else []),
            *(f"g{gram}" for gram in grams),
        ]
    )


def part_expressions(query: str) -> tuple[str, ...]:
    """Return searches, in the language of FTS5 over ``terms_of_name``, for the names of the grades PARTS and
    ABBREVIATED.
    """
    parts = name_parts(query)
    if not parts:
        return ()
    found = [" AND ".join(f'"p{part}"*' for part in dict.fromkeys(parts))]
    if len(parts) > 1:
        initials = f'"i{"".join(part[0] for part in parts)}"'
        found += [initials, f"{initials}*"]  # all parts of a name abbreviated, or its first ones
    return tuple(found)


def _foreign_parts(name: str) -> list[str]:
    """Split a name in any alphabet at each capital behind a small letter and between letters and digits."""
    found: list[str] = []
    for piece in _UNJOINED.split(name):
        begin = 0
        for at in range(1, len(piece)):
            before, here = piece[at - 1], piece[at]
            if (here.isupper() and not before.isupper()) or before.isdigit() != here.isdigit():
                found.append(piece[begin:at])
                begin = at
        found.append(piece[begin:])
    return [part for part in found if part]


class _Asked(NamedTuple):
    folded: str
    parts: tuple[str, ...]
    edits_allowed: int


@lru_cache(maxsize=8)  # a query is compared with many names
def _asked(query: str) -> _Asked:
    own = folded(query)
    return _Asked(own, name_parts(query), edits_allowed(own))


def _begin_in_order(asked: Sequence[str], parts: Sequence[str]) -> bool:
    """Return True where each asked part begins one of ``parts``, in order."""
    at = 0
    for one in asked:
        while at < len(parts) and not parts[at].startswith(one):
            at += 1
        if at == len(parts):
            return False
        at += 1
    return True


def _abbreviates(short: str, whole: str) -> bool:
    """Return True where ``short`` has the first letter of ``whole`` and others of its letters in order."""
    letters = iter(whole)
    return short[:1] == whole[:1] and all(letter in letters for letter in short)


def _ends_path(path: str, asked: str) -> bool:
    path, asked = path.casefold(), asked.casefold()
    return path == asked or path.endswith(f"/{asked}")
