"""Answers of the code map as JSON documents."""

from __future__ import annotations

__all__ = [
    "GRADES",
    "calls_out",
    "find_out",
    "freshness_out",
    "impact_out",
    "map_out",
    "outline_out",
    "place_out",
    "refs_out",
    "search_out",
    "show_out",
    "status_out",
    "symbol_out",
    "use_out",
]

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from periplus.code.documents import schemas

if TYPE_CHECKING:
    from periplus.code.code_map import CodeMap, Found, ImpactAnswer, Outline, Shown, Status
    from periplus.code.queries.references import Place, Use
    from periplus.code.queries.symbol_search import SearchHit
    from periplus.code.queries.symbol_text import Symbol
    from periplus.code.queries.view import CodeView, SymbolId
    from periplus.code.ranking.repository_map import RepositoryMap

GRADES: Final = ("proven", "likely", "named")


def freshness_out(code_map: CodeMap) -> schemas.FreshnessOut:
    found = code_map.freshness
    return schemas.FreshnessOut(found.waiting, found.parsed, found.why)


def symbol_out(one: Symbol) -> schemas.SymbolOut:
    return schemas.SymbolOut(
        str(one.id), one.id.path, one.id.name, one.kind, one.language, one.line, one.start_line, one.end_line, one.signature, one.doc,
        one.is_exported, one.is_test,
    )  # fmt: skip


def place_out(view: CodeView, one: Place) -> schemas.PlaceOut:
    return schemas.PlaceOut(one.path, one.line, str(one.owner), one.role, one.grade, view.line(one.path, one.line))


def use_out(one: Use) -> schemas.EdgeOut:
    return schemas.EdgeOut(str(one.symbol), one.role, one.grade, list(one.lines))


def find_out(code_map: CodeMap, name: str, found: Found) -> schemas.FindOut:
    return schemas.FindOut(name, [symbol_out(one) for one in found.symbols], found.total, freshness_out(code_map))


def search_out(code_map: CodeMap, question: str, found: Sequence[SearchHit]) -> schemas.SearchOut:
    hits = [schemas.SearchHitOut(symbol_out(one.symbol), round(one.score, 4)) for one in found]
    return schemas.SearchOut(question, hits, code_map.unsearchable, freshness_out(code_map))


def map_out(code_map: CodeMap, task: str, budget: int, found: RepositoryMap) -> schemas.MapOut:
    files = [
        schemas.MapFileOut(one.path, round(one.score, 6), [symbol_out(symbol) for symbol in one.symbols], one.left_out)
        for one in found.files
    ]
    return schemas.MapOut(task, budget, found.tokens, files, found.files_total, found.text, freshness_out(code_map))


def outline_out(code_map: CodeMap, found: Sequence[Outline]) -> schemas.OutlineOut:
    files = [
        schemas.OutlineFileOut(one.path, one.language, one.state, [symbol_out(symbol) for symbol in one.symbols])
        for one in found
    ]
    return schemas.OutlineOut(files, freshness_out(code_map))


def refs_out(
    code_map: CodeMap, found: Sequence[tuple[SymbolId, Sequence[Place]]], grade: str, page: tuple[int, int]
) -> tuple[schemas.RefsOut, int]:
    """Return the document with a page (offset and limit) of the places of ``grade`` or a better one, and the number of places after it."""
    view = code_map.last_view()
    offset, limit = page
    wanted = GRADES[: GRADES.index(grade) + 1]
    symbols = []
    left = 0
    for symbol, places in found:
        own = [place for place in places if place.grade in wanted]
        shown = own[offset : offset + limit]
        left += max(0, len(own) - offset - len(shown))
        symbols.append(
            schemas.SymbolPlacesOut(str(symbol), _counts(places), [place_out(view, place) for place in shown])
        )
    return schemas.RefsOut(symbols, freshness_out(code_map)), left


def calls_out(code_map: CodeMap, found: Sequence[tuple[SymbolId, Sequence[Use]]]) -> schemas.CallsOut:
    symbols = [schemas.SymbolUsesOut(str(symbol), [use_out(use) for use in uses]) for symbol, uses in found]
    return schemas.CallsOut(symbols, freshness_out(code_map))


def show_out(
    code_map: CodeMap, found: Sequence[Shown], known_of: Callable[[str, str], tuple[Sequence[str], Sequence[str], str]]
) -> schemas.ShowOut:
    """Return the document; ``known_of`` gives for path and name of a symbol memory about it, claims on it, and who changed it last."""
    view = code_map.last_view()
    symbols = []
    for one in found:
        memory, claims, changed_by = known_of(one.symbol.id.path, one.symbol.id.name)
        symbols.append(
            schemas.ShownSymbolOut(
                symbol_out(one.symbol), one.text, [place_out(view, place) for place in one.places], _counts(one.places),
                [use_out(use) for use in one.uses], [str(test) for test in one.tests], list(memory), list(claims), changed_by,
            )
        )  # fmt: skip
    return schemas.ShowOut(symbols, freshness_out(code_map))


def impact_out(code_map: CodeMap, found: ImpactAnswer, page: tuple[int, int]) -> schemas.ImpactOut:
    """Return the document with a page (offset and limit) of the dependents."""
    offset, limit = page
    depths = Counter(one.depth for one in found.impact.dependents)
    return schemas.ImpactOut(
        [str(one) for one in found.impact.seeds], [str(one) for one in found.removed],
        [
            schemas.DependentOut(str(one.symbol), one.depth, one.grade, str(one.via), one.line, one.is_test)
            for one in found.impact.dependents[offset : offset + limit]
        ],
        {str(depth): depths[depth] for depth in sorted(depths)}, found.impact.named, found.impact.is_cut,
        [str(one) for one in found.tests], [schemas.CommandOut(list(one.words), one.tests) for one in found.commands],
        freshness_out(code_map),
    )  # fmt: skip


def status_out(code_map: CodeMap, found: Status) -> schemas.CodeStatusOut:
    return schemas.CodeStatusOut(
        found.root, found.files, [schemas.LanguageOut(name, *counts) for name, counts in found.languages.items()], dict(found.unparsed),
        dict(found.failed), dict(found.edges), found.source_bytes, found.index_bytes, freshness_out(code_map),
    )  # fmt: skip


def _counts(places: Sequence[Place]) -> dict[str, int]:
    found = Counter(place.grade for place in places)
    return {grade: found[grade] for grade in GRADES}
