"""Page of a name from the code map: its definitions and its uses, each with its grade."""

from __future__ import annotations

__all__ = ["DEFINITIONS_MAX", "USES_MAX", "USES_OF_FILE_MAX", "CodeAtHand", "graded_page"]

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias

from periplus.agent.tape.fence import left_out, one_line

if TYPE_CHECKING:
    from periplus.code.queries.references import Place
    from periplus.code.queries.view import CodeView, SymbolId

CodeAtHand: TypeAlias = "Callable[[], AbstractContextManager[CodeView | None]]"
DEFINITIONS_MAX: Final = 40
USES_MAX: Final = 150
USES_OF_FILE_MAX: Final = 12
MENTIONS_MAX: Final = 1_000
_LINE_CHARACTERS: Final = 160
_GRADES: Final = ("proven", "likely", "named")


def graded_page(view: CodeView, name: str, is_shown: Callable[[str], bool], is_late: Callable[[], bool]) -> str:
    """Return the page of ``name``; empty where the code map defines no such name, or too many files mention it.

    Files that ``is_shown`` keeps back are left out. Uses are looked for until ``is_late``; the page says so then.
    """
    from periplus.code.queries.symbol_lookup import symbols_named

    symbols = [one for one in symbols_named(view, name) if one.name and is_shown(one.path)]
    if not symbols or len(view.sources.mentioning(name.rpartition(".")[2])) > MENTIONS_MAX:
        return ""
    found: dict[tuple[str, int], Place] = {}
    looked = 0
    for symbol in symbols[:DEFINITIONS_MAX]:
        if looked and is_late():
            break
        looked += 1
        _add(found, view, symbol)
    places = [place for (path, _), place in sorted(found.items()) if is_shown(path)]
    lines = [
        f"# {name}",
        f"## Defined ({len(symbols)})",
        *(_definition(view, one) for one in symbols[:DEFINITIONS_MAX]),
    ]
    if len(symbols) > DEFINITIONS_MAX:
        lines.append(f"… {len(symbols) - DEFINITIONS_MAX:,} definitions left out")
    lines += _uses(view, name, places)
    if looked < len(symbols):
        lines.append(f"(uses of {len(symbols) - looked:,} of the definitions were not looked for)")
    lines.append("(from the code map; search(pattern=…) finds the word in other texts)")
    return "\n".join(lines) + "\n"


def _add(found: dict[tuple[str, int], Place], view: CodeView, symbol: SymbolId) -> None:
    """Add the places that name ``symbol``, one for each line, of the best grade."""
    from periplus.code.queries.references import places_of

    for place in places_of(view, symbol):
        known = found.get((place.path, place.line))
        if known is None or _GRADES.index(place.grade) < _GRADES.index(known.grade):
            found[place.path, place.line] = place


def _definition(view: CodeView, symbol: SymbolId) -> str:
    known = view.definition(symbol)
    assert known is not None  # it was found in this view
    one = known[2]
    text = one_line(view.line(symbol.path, one.line)[:1_000], _LINE_CHARACTERS)
    return f"{symbol.path}:{one.start_line}-{one.end_line} {one.kind} {one.qualified}\n    {text}"


def _uses(view: CodeView, name: str, places: Sequence[Place]) -> list[str]:
    """Return the places by file, those with the best grade first."""
    grades = Counter(place.grade for place in places)
    files = {path: list(some) for path, some in groupby(places, key=lambda place: place.path)}
    counts = ", ".join(f"{grades[grade]:,} {grade}" for grade in _GRADES if grades[grade])
    rows = [f"## Used ({_many(len(places), 'line')} in {_many(len(files), 'file')}{f': {counts}' if counts else ''})"]
    best = {path: min(_GRADES.index(place.grade) for place in some) for path, some in files.items()}
    shown = 0
    for path in sorted(files, key=lambda one: (best[one], one)):
        some = sorted(files[path], key=lambda place: (_GRADES.index(place.grade), place.line))
        part = some[: min(USES_OF_FILE_MAX, USES_MAX - shown)]
        shown += len(part)
        if part:
            rows.append(f"{path} ({len(part)} of {len(some):,} lines)" if len(part) < len(some) else path)
            rows += [
                f"  {place.line} {place.grade}: {one_line(view.line(path, place.line)[:1_000], _LINE_CHARACTERS)}" for place in part
            ]  # fmt: skip
    if shown < len(places):
        rows.append(left_out(len(places) - shown, "lines", f"search(pattern={name.rpartition('.')[2]!r})"))
    return rows


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
