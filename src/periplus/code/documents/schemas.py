"""JSON documents of ``periplus code``. Symbols are named ``path:Class.method``, as in anchors and claims; lines count from 1."""

from __future__ import annotations

__all__ = [
    "CODE_SCHEMAS",
    "CallsOut",
    "CodeStatusOut",
    "CommandOut",
    "DependentOut",
    "EdgeOut",
    "ExportOut",
    "FindOut",
    "FreshnessOut",
    "ImpactOut",
    "LanguageOut",
    "MapFileOut",
    "MapOut",
    "OutlineFileOut",
    "OutlineOut",
    "PlaceOut",
    "RefsOut",
    "SearchHitOut",
    "SearchOut",
    "ShowOut",
    "ShownSymbolOut",
    "SymbolOut",
    "SymbolPlacesOut",
    "SymbolUsesOut",
]

from typing import Final

import msgspec


class FreshnessOut(msgspec.Struct):
    """``waiting`` files changed and are not in the answer yet; ``parsed`` were read for it. ``why`` says what else is missing."""

    waiting: int
    parsed: int
    why: str


class SymbolOut(msgspec.Struct):
    """``line`` is that of the name. ``exported`` where code outside of its file or class may use it."""

    symbol: str
    path: str
    name: str
    kind: str
    language: str
    line: int
    start_line: int
    end_line: int
    signature: str
    doc: str
    exported: bool
    test: bool


class FindOut(msgspec.Struct, tag_field="schema", tag="periplus.code.find/1"):
    """The best match first; ``matched`` counts all of them."""

    name: str
    symbols: list[SymbolOut]
    matched: int
    freshness: FreshnessOut


class SearchHitOut(msgspec.Struct):
    """``score`` counts only beside others of the same answer."""

    symbol: SymbolOut
    score: float


class SearchOut(msgspec.Struct, tag_field="schema", tag="periplus.code.search/1"):
    """The best match first. ``unsearchable`` files are not in the search table yet."""

    question: str
    hits: list[SearchHitOut]
    unsearchable: int
    freshness: FreshnessOut


class ExportOut(msgspec.Struct, tag_field="schema", tag="periplus.code.export/1"):
    """A graph written to ``path``, with the numbers of its parts."""

    path: str
    format: str
    bytes: int
    files: int
    symbols: int
    edges: int


class MapFileOut(msgspec.Struct):
    """A file with the symbols that are shown of it; ``left_out`` counts the others."""

    path: str
    score: float
    symbols: list[SymbolOut]
    left_out: int


class MapOut(msgspec.Struct, tag_field="schema", tag="periplus.code.map/1"):
    """Files in the order in which the task needs them. ``text`` is what a reader sees, ``tokens`` an estimate for it; ``files_total`` counts
    the parsed files of the worktree.
    """

    task: str
    budget: int
    tokens: int
    files: list[MapFileOut]
    files_total: int
    text: str
    freshness: FreshnessOut


class OutlineFileOut(msgspec.Struct):
    """``state`` is ``parsed``, ``errors`` (parsed around syntax errors), or the reason why the file is not parsed."""

    path: str
    language: str
    state: str
    symbols: list[SymbolOut]


class OutlineOut(msgspec.Struct, tag_field="schema", tag="periplus.code.outline/1"):
    """Symbols in the order of each file."""

    files: list[OutlineFileOut]
    freshness: FreshnessOut


class PlaceOut(msgspec.Struct):
    """A line that names the symbol. ``role`` is ``reference``, ``call``, ``extends`` or ``import``; ``grade`` is ``proven``, ``likely`` or ``named``;
    ``owner`` is the symbol (or file) around it.
    """

    path: str
    line: int
    owner: str
    role: str
    grade: str
    text: str


class SymbolPlacesOut(msgspec.Struct):
    """``counts`` has the number of places by grade, all of them; ``places`` is a page."""

    symbol: str
    counts: dict[str, int]
    places: list[PlaceOut]


class RefsOut(msgspec.Struct, tag_field="schema", tag="periplus.code.refs/1"):
    """One entry for each symbol of that name."""

    symbols: list[SymbolPlacesOut]
    freshness: FreshnessOut


class EdgeOut(msgspec.Struct):
    """A symbol that is referred to, at these lines."""

    symbol: str
    role: str
    grade: str
    lines: list[int]


class SymbolUsesOut(msgspec.Struct):
    """Symbols that one symbol refers to."""

    symbol: str
    uses: list[EdgeOut]


class CallsOut(msgspec.Struct, tag_field="schema", tag="periplus.code.calls/1"):
    """One entry for each symbol of that name."""

    symbols: list[SymbolUsesOut]
    freshness: FreshnessOut


class ShownSymbolOut(msgspec.Struct):
    """``text`` is the source. ``memory`` names what the project remembers about it, ``claims`` who works on it now; ``changed_by`` the session
    that changed it last.
    """

    symbol: SymbolOut
    text: str
    callers: list[PlaceOut]
    counts: dict[str, int]
    uses: list[EdgeOut]
    tests: list[str]
    memory: list[str]
    claims: list[str]
    changed_by: str


class ShowOut(msgspec.Struct, tag_field="schema", tag="periplus.code.show/1"):
    """One entry for each symbol of that name."""

    symbols: list[ShownSymbolOut]
    freshness: FreshnessOut


class DependentOut(msgspec.Struct):
    """A symbol or file that depends on what was asked for, ``depth`` steps away, through ``via`` at ``line``."""

    symbol: str
    depth: int
    grade: str
    via: str
    line: int
    test: bool


class CommandOut(msgspec.Struct):
    """Words of a command that runs ``tests`` of the tests."""

    words: list[str]
    tests: int


class ImpactOut(msgspec.Struct, tag_field="schema", tag="periplus.code.impact/1"):
    """``dependents`` are reached through proven and likely edges; ``named`` counts places where only the name agrees. ``counts`` has the number
    of dependents by depth; ``cut`` where there are more than are counted.
    """

    of: list[str]
    removed: list[str]
    dependents: list[DependentOut]
    counts: dict[str, int]
    named: int
    cut: bool
    tests: list[str]
    commands: list[CommandOut]
    freshness: FreshnessOut


class LanguageOut(msgspec.Struct):
    """Counts of one language."""

    language: str
    files: int
    lines: int
    symbols: int


class CodeStatusOut(msgspec.Struct, tag_field="schema", tag="periplus.code.status/1"):
    """``unparsed`` counts files that are listed and not parsed, by reason; ``failed`` names those whose parser failed."""

    root: str
    files: int
    languages: list[LanguageOut]
    unparsed: dict[str, int]
    failed: dict[str, str]
    edges: dict[str, int]
    source_bytes: int
    index_bytes: int
    freshness: FreshnessOut


CODE_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {
    "code find": FindOut,
    "code outline": OutlineOut,
    "code refs": RefsOut,
    "code calls": CallsOut,
    "code show": ShowOut,
    "code impact": ImpactOut,
    "code export": ExportOut,
    "code map": MapOut,
    "code search": SearchOut,
    "code status": CodeStatusOut,
}
