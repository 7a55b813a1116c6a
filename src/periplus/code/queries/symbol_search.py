"""Symbols whose name resembles the one that was typed."""

from __future__ import annotations

__all__ = ["find_symbols"]

from periplus.code.queries.impact import is_test_path
from periplus.code.queries.symbol_lookup import symbols_named
from periplus.code.queries.symbol_text import Symbol, symbol_of
from periplus.code.queries.view import CodeView


def find_symbols(
    view: CodeView, typed: str, only: tuple[str, str, str], page: tuple[int, int]
) -> tuple[tuple[Symbol, ...], int]:
    """Return a page of the symbols that ``typed`` may mean, and how many there are. ``only`` names kind, path and language."""
    kind, path, language = only
    found = []
    for one in symbols_named(view, typed):
        known = view.definition(one)
        if known is None or (path and one.path != path and not one.path.startswith(f"{path}/")):
            continue
        file, number, definition = known
        if kind in ("", definition.kind) and language in ("", file.facts.language):
            rank = (definition.is_test or is_test_path(one.path), not definition.is_exported, one)
            found.append((rank, file, number))
    found.sort(key=lambda item: item[0])
    offset, limit = page
    return tuple(symbol_of(view, file, number) for _, file, number in found[offset : offset + limit]), len(found)
