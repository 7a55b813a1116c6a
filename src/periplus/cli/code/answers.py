"""Answers of the code map, for people and as JSON documents."""

from __future__ import annotations

__all__ = ["calls", "find", "impact", "outline", "refs", "repository_map", "search", "show", "status"]

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, counted, visible
from periplus.code.documents import schemas
from periplus.code.documents.values import (
    calls_out,
    find_out,
    impact_out,
    map_out,
    outline_out,
    refs_out,
    search_out,
    show_out,
    status_out,
)

if TYPE_CHECKING:
    from periplus.code.code_map import CodeMap, Found, ImpactAnswer, Outline, Shown, Status
    from periplus.code.queries.references import Place, Use
    from periplus.code.queries.symbol_search import SearchHit
    from periplus.code.queries.view import SymbolId
    from periplus.code.ranking.repository_map import RepositoryMap
    from periplus.project.knowledge.code import SymbolKnowledge

_PLACES_SHOWN: Final = 12
_TEXT_LINES: Final = 60
_REASONS: Final = {
    "unsupported": "of no language that is parsed", "vendored": "code of others", "generated": "made by a program", "minified": "minified",
    "too_large": "over 2 MiB", "not_text": "no text", "no_parser": "parser not installed (pip install 'periplus[code]')",
    "failed": "parsing failed", "waiting": "not parsed yet",
}  # fmt: skip


def find(face: Face, code_map: CodeMap, name: str, found: Found) -> int:
    result = find_out(code_map, name, found)

    def lines() -> Iterator[str]:
        for one in result.symbols:
            yield _symbol_line(face, one)
        if len(result.symbols) < result.matched:
            yield f"{result.matched - len(result.symbols):,} more: --limit {result.matched} or --offset"
        if not result.symbols:
            yield f"No symbol is called {visible(name)}, or like it."

    return face.emit(result, lines, 0 if found.symbols else 1)


def search(face: Face, code_map: CodeMap, question: str, found: Sequence[SearchHit]) -> int:
    result = search_out(code_map, question, found)
    hits = result.hits

    def lines() -> Iterator[str]:
        yield from (_symbol_line(face, one.symbol) for one in hits)
        if not hits:
            yield "No symbol matches these words."
        if result.unsearchable:
            yield f"{counted(result.unsearchable, 'files')} cannot be searched yet: repeat the command, or wait: --wait 600"

    return face.emit(result, lines, 0 if hits else 1)


def repository_map(face: Face, code_map: CodeMap, task: str, budget: int, found: RepositoryMap) -> int:
    result = map_out(code_map, task, budget, found)

    def lines() -> Iterator[str]:
        for line in result.text.splitlines():
            yield _cut(face, visible(line.expandtabs(4)))
        if not result.files:
            yield (
                "No file fits into the budget."
                if result.files_total
                else "No code was found that a parser is installed for."
            )
        elif result.files_total > len(result.files):
            paint = face.palette
            yield f"{paint.dim}{len(result.files):,} of {counted(result.files_total, 'files')}, {result.tokens:,} tokens{paint.end}"

    return face.emit(result, lines, 0 if result.files else 1)


def outline(face: Face, code_map: CodeMap, found: Sequence[Outline]) -> int:
    result = outline_out(code_map, found)
    files = result.files

    def lines() -> Iterator[str]:
        paint = face.palette
        for one in files:
            if len(files) > 1 or not one.symbols:
                why = (
                    ""
                    if one.state == "parsed"
                    else f"  {paint.warn}{_REASONS.get(one.state, 'has syntax errors')}{paint.end}"
                )
                yield f"{paint.bold}{visible(one.path)}{paint.end}{why}"
            for symbol in one.symbols:
                depth = symbol.name.count(".")
                text = f"{symbol.line:5d}  {'  ' * depth}{visible(symbol.signature or symbol.name)}"
                yield _cut(face, text)

    is_found = any(one.symbols for one in files)
    return face.emit(result, lines, 0 if is_found else 1)


def refs(
    face: Face, code_map: CodeMap, found: Sequence[tuple[SymbolId, Sequence[Place]]], grade: str, page: tuple[int, int]
) -> int:
    offset, limit = page
    result, left = refs_out(code_map, found, grade, page)
    symbols = result.symbols

    def lines() -> Iterator[str]:
        for one in symbols:
            yield from _places_lines(face, one.symbol, one.counts, one.places)
        if left:
            yield f"{left:,} more: --limit {offset + limit + left} or --offset {offset + limit}"

    return face.emit(result, lines, 0 if any(one.places for one in symbols) else 1)


def calls(face: Face, code_map: CodeMap, found: Sequence[tuple[SymbolId, Sequence[Use]]]) -> int:
    result = calls_out(code_map, found)
    symbols = result.symbols

    def lines() -> Iterator[str]:
        for one in symbols:
            yield f"{face.palette.bold}{visible(one.symbol)}{face.palette.end}"
            yield from (_use_line(face, use) for use in one.uses)

    return face.emit(result, lines, 0 if any(one.uses for one in symbols) else 1)


def show(face: Face, code_map: CodeMap, found: Sequence[Shown], known_of: Callable[[str, str], SymbolKnowledge]) -> int:
    result = show_out(code_map, found, known_of)
    symbols = result.symbols

    def lines() -> Iterator[str]:
        for one in symbols:
            yield from _shown_lines(face, one)

    return face.emit(result, lines, 0 if symbols else 1)


def impact(face: Face, code_map: CodeMap, found: ImpactAnswer, page: tuple[int, int]) -> int:
    result = impact_out(code_map, found, page)
    dependents = found.impact.dependents

    def lines() -> Iterator[str]:
        paint = face.palette
        seeds = len(result.of)
        yield (
            f"{paint.bold}{visible(result.of[0]) if seeds == 1 else counted(seeds, 'symbols')}{paint.end}"
            if seeds
            else "Nothing changed."
        )
        for name in result.removed:
            yield f"  {paint.warn}removed{paint.end} {visible(name)}"
        for one in result.dependents:
            mark = f" {paint.good}test{paint.end}" if one.test else ""
            yield f"  {one.depth:3d}  {paint.name}{visible(one.symbol)}{paint.end}{mark}  {paint.dim}{one.grade}, uses {visible(one.via)} at line {one.line}{paint.end}"
        if len(dependents) > len(result.dependents):
            yield f"  {len(dependents) - len(result.dependents):,} more: --limit {len(dependents)}"
        more = "at least " if result.cut else ""
        yield f"{more}{counted(len(dependents), 'dependents')}, {counted(len(result.tests), 'tests')}" + (
            f"; {counted(result.named, 'further places')} with the same name" if result.named else ""
        )
        for command in result.commands:
            yield f"  {visible(_joined(command.words))}"

    return face.emit(result, lines, 0 if dependents or found.tests else 1)


def status(face: Face, code_map: CodeMap, found: Status) -> int:
    result = status_out(code_map, found)

    def lines() -> Iterator[str]:
        paint = face.palette
        yield f"{paint.bold}{visible(found.root)}{paint.end}: {counted(found.files, 'files')}"
        for one in sorted(result.languages, key=lambda one: -one.lines):
            yield f"  {paint.name}{one.language:<12}{paint.end} {one.files:8,} files {one.lines:10,} lines {one.symbols:9,} symbols"
        for state, count in result.unparsed.items():
            yield f"  {paint.dim}{counted(count, 'files')} not parsed: {_REASONS.get(state, state)}{paint.end}"
        for path, why in result.failed.items():
            yield f"    {paint.warn}{visible(path)}{paint.end}: {visible(why)}"
        if result.edges:
            yield "  edges: " + ", ".join(f"{count:,} {name}" for name, count in result.edges.items())
        share = f" ({100 * found.index_bytes // found.source_bytes} % of the source)" if found.source_bytes else ""
        yield f"  index: {found.index_bytes / 1e6:,.1f} MB{share}"

    return face.emit(result, lines, 0 if result.languages else 1)


def _symbol_line(face: Face, one: schemas.SymbolOut) -> str:
    paint = face.palette
    text = (
        f"{paint.name}{visible(one.path)}:{one.line}{paint.end}  {one.kind} {paint.bold}{visible(one.name)}{paint.end}"
    )
    return f"{text}  {paint.dim}{_cut(face, visible(one.doc or one.signature), len(one.path) + len(one.name) + 20)}{paint.end}"


def _places_lines(face: Face, symbol: str, counts: dict[str, int], places: Sequence[schemas.PlaceOut]) -> Iterator[str]:
    paint = face.palette
    said = ", ".join(f"{count:,} {grade}" for grade, count in counts.items() if count) or "no places"
    yield f"{paint.bold}{visible(symbol)}{paint.end}  {paint.dim}{said}{paint.end}"
    for one in places:
        grade = f"{paint.warn if one.grade == 'named' else paint.dim}{one.grade}{paint.end}"
        yield f"  {paint.name}{visible(one.path)}:{one.line}{paint.end} {grade}  {_cut(face, visible(one.text), len(one.path) + 18)}"


def _use_line(face: Face, one: schemas.EdgeOut) -> str:
    paint = face.palette
    lines = ", ".join(map(str, one.lines[:4])) + ("…" if len(one.lines) > 4 else "")
    return (
        f"  {one.role:<9} {paint.name}{visible(one.symbol)}{paint.end}  {paint.dim}{one.grade}, line {lines}{paint.end}"
    )


def _shown_lines(face: Face, one: schemas.ShownSymbolOut) -> Iterator[str]:
    paint = face.palette
    symbol = one.symbol
    yield f"{paint.name}{visible(symbol.path)}:{symbol.line}{paint.end}  {symbol.kind} {paint.bold}{visible(symbol.name)}{paint.end}"
    text = one.text.splitlines()
    for number, line in enumerate(text[:_TEXT_LINES], symbol.start_line):
        yield f"{paint.dim}{number:5d}{paint.end}  {visible(line.expandtabs(4))}"
    if len(text) > _TEXT_LINES:
        yield f"       {len(text) - _TEXT_LINES:,} more lines"
    yield from _places_lines(face, "used by", one.counts, one.callers[:_PLACES_SHOWN])
    if len(one.callers) > _PLACES_SHOWN:
        yield f"  {len(one.callers) - _PLACES_SHOWN:,} more: periplus code refs {_quoted(symbol.symbol)}"
    if one.uses:
        yield f"{paint.bold}uses{paint.end}"
        yield from (_use_line(face, use) for use in one.uses[:_PLACES_SHOWN])
        if len(one.uses) > _PLACES_SHOWN:
            yield f"  {len(one.uses) - _PLACES_SHOWN:,} more: periplus code calls {_quoted(symbol.symbol)}"
    for title, names in (("tests that reach it", one.tests), ("memory", one.memory), ("claimed by", one.claims)):
        if names:
            yield f"{paint.bold}{title}{paint.end}"
            yield from (f"  {visible(name)}" for name in names[:_PLACES_SHOWN])
            if len(names) > _PLACES_SHOWN:
                yield f"  {len(names) - _PLACES_SHOWN:,} more"
    if one.changed_by:
        yield f"{paint.bold}changed last{paint.end}  {visible(one.changed_by)}"


def _cut(face: Face, text: str, taken: int = 0) -> str:
    return text if face.width is None else visible(text, max(20, face.width - taken))


def _joined(words: Sequence[str]) -> str:
    import shlex

    return shlex.join(words)


def _quoted(word: str) -> str:
    return _joined((word,))
