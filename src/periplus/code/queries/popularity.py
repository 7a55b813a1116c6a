"""Symbols that most of the code uses."""

from __future__ import annotations

__all__ = ["most_used"]

from typing import Final

from periplus.code.queries.impact import is_test_path
from periplus.code.queries.references import places_of
from periplus.code.queries.view import CodeView, SymbolId

_NAMES_PER_SYMBOL: Final = 12
_DEFINITIONS_MAX: Final = 2  # of a name that many files mention for many reasons, none is proven for long


def most_used(view: CodeView, count: int = 1) -> list[tuple[SymbolId, int]]:
    """Return the functions and classes outside of tests that most places call or extend, each with their number; proven and likely ones
    count. Only names that many files mention and few define are looked at.
    """
    rows = view.database.execute(
        "SELECT n.text FROM mention m JOIN name n ON n.id = m.name WHERE n.is_defined AND m.blob IN (SELECT blob FROM entry WHERE view = ?)"
        " GROUP BY m.name ORDER BY count(*) DESC, n.text LIMIT ?",
        (view.id, 40 * _NAMES_PER_SYMBOL),
    ).fetchall()
    found: list[tuple[SymbolId, int]] = []
    looked = 0
    for (name,) in rows:
        places = view.sources.defining(name)
        if not places or len(places) > _DEFINITIONS_MAX:
            continue
        looked += 1
        for path, number in places:
            file = view.file(path)
            if (
                file is None
                or is_test_path(path)
                or file.definitions[number].kind not in ("function", "method", "class", "struct", "trait")
            ):
                continue
            symbol = view.symbol_at(file, number)
            used = sum(
                place.grade != "named" and place.role in ("call", "extends") for place in places_of(view, symbol)
            )
            if used:
                found.append((symbol, used))
        if looked >= _NAMES_PER_SYMBOL * count:
            break
    found.sort(key=lambda item: (-item[1], item[0]))
    return found[:count]
