"""Values of the code map as they stand in JSON documents."""

from __future__ import annotations

__all__ = ["freshness_out", "place_out", "symbol_out", "use_out"]

from typing import TYPE_CHECKING

from periplus.cli.code.schemas import EdgeOut, FreshnessOut, PlaceOut, SymbolOut

if TYPE_CHECKING:
    from periplus.code.code_map import CodeMap
    from periplus.code.queries.references import Place, Use
    from periplus.code.queries.symbol_text import Symbol
    from periplus.code.queries.view import CodeView


def freshness_out(code_map: CodeMap) -> FreshnessOut:
    found = code_map.freshness
    return FreshnessOut(found.waiting, found.parsed, found.why)


def symbol_out(one: Symbol) -> SymbolOut:
    return SymbolOut(
        str(one.id), one.id.path, one.id.name, one.kind, one.language, one.line, one.start_line, one.end_line, one.signature, one.doc,
        one.is_exported, one.is_test,
    )  # fmt: skip


def place_out(view: CodeView, one: Place) -> PlaceOut:
    return PlaceOut(one.path, one.line, str(one.owner), one.role, one.grade, view.line(one.path, one.line))


def use_out(one: Use) -> EdgeOut:
    return EdgeOut(str(one.symbol), one.role, one.grade, list(one.lines))
