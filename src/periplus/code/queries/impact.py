"""Everything that depends on symbols, directly or through others."""

from __future__ import annotations

__all__ = ["DEPENDENTS_MAX", "Dependent", "Impact", "impact_of", "is_test", "is_test_path"]

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from periplus.base.named_tuple import NamedTuple
from periplus.code.queries.references import names_of, places_of
from periplus.code.queries.view import CodeView, SymbolId

if TYPE_CHECKING:
    from periplus.code.graph.reading import GraphReading, Node
    from periplus.code.resolution.resolver import Grade

DEPENDENTS_MAX: Final = 2_000
_BY_NUMBER: Final[tuple[Grade, ...]] = ("proven", "likely", "named")
_GRADES: Final[dict[Grade, int]] = {grade: number for number, grade in enumerate(_BY_NUMBER)}


class Dependent(NamedTuple):
    """A symbol (or file) that depends on one of the given ones through ``via``; ``depth`` is 1 for a direct one."""

    symbol: SymbolId
    depth: int
    grade: Grade
    via: SymbolId
    line: int
    is_test: bool


class Impact(NamedTuple):
    """``dependents`` in the order of depth, path and line, through proven and likely edges; ``named`` counts the places where only the name
    agrees. ``is_cut`` where there are more than DEPENDENTS_MAX, deeper ones than asked for, or no time was left.
    """

    seeds: tuple[SymbolId, ...]
    dependents: tuple[Dependent, ...]
    named: int
    is_cut: bool


class _Direct(NamedTuple):
    owner: SymbolId
    grade: Grade
    line: int


class _Edges(Protocol):
    """Edges backwards, from the graph or by resolution: both give the same."""

    def expanded(self, seed: SymbolId) -> list[SymbolId]:
        """Return a file with its symbols, a class with its members: who edits the one edits the other."""

    def direct(self, symbol: SymbolId, *, is_seed: bool) -> tuple[Iterable[_Direct], int]:
        """Return who names ``symbol``, each owner once, and for a seed the number of places of which only the name agrees."""

    def is_test(self, symbol: SymbolId) -> bool:
        """Return True for a test."""


def impact_of(
    view: CodeView,
    seeds: Iterable[SymbolId],
    *,
    depth_max: int = 100,
    seconds_max: float = 60.0,
    dependents_max: int = DEPENDENTS_MAX,
) -> Impact:
    """Return what depends on ``seeds``, from the graph where it is up to date. For a file its symbols count, and the files that import it."""
    given = tuple(dict.fromkeys(seeds))
    deadline = time.monotonic() + seconds_max
    with view.database.read():
        graph = view.graph
        edges: _Edges = _GraphEdges(view, graph) if graph is not None else _ResolvedEdges(view)
        return _walk(edges, given, depth_max, deadline, dependents_max)


def _walk(edges: _Edges, given: tuple[SymbolId, ...], depth_max: int, deadline: float, dependents_max: int) -> Impact:
    """Walk breadth-first. Each layer is sorted, so that the order does not depend on where the edges come from."""
    layer = [one._replace(ordinal=0) for seed in given for one in edges.expanded(seed)]
    seen = set(layer)
    found: list[Dependent] = []
    named = depth = 0
    while layer:
        if depth >= depth_max:
            return Impact(given, tuple(found), named, is_cut=True)
        depth += 1
        best: dict[SymbolId, tuple[int, SymbolId, int]] = {}
        for symbol in sorted(set(layer)):
            if time.monotonic() > deadline:
                return Impact(given, tuple(found), named, is_cut=True)
            direct, of_name = edges.direct(symbol, is_seed=depth == 1)
            named += of_name
            for owner, grade, line in direct:
                if owner not in seen:
                    reached = (_GRADES[grade], symbol, line)
                    if owner not in best or reached < best[owner]:
                        best[owner] = reached
        rows = sorted((owner.path, line, owner, grade, via) for owner, (grade, via, line) in best.items())
        room = dependents_max - len(found)
        found += (
            Dependent(owner, depth, _BY_NUMBER[grade], via, line, edges.is_test(owner))
            for _, line, owner, grade, via in rows[:room]
        )
        if len(rows) > room:
            return Impact(given, tuple(found), named, is_cut=True)
        seen.update(best)
        layer = [owner for owner in best if owner.name]
    return Impact(given, tuple(found), named, is_cut=False)


class _ResolvedEdges:
    """Edges by resolution of what may name a symbol."""

    def __init__(self, view: CodeView) -> None:
        self._view = view

    def expanded(self, seed: SymbolId) -> list[SymbolId]:
        file = self._view.file(seed.path)
        return _with_inner(seed, file.qualified if file is not None else ())

    def direct(self, symbol: SymbolId, *, is_seed: bool) -> tuple[list[_Direct], int]:
        best: dict[SymbolId, tuple[int, int]] = {}
        named = 0
        for place in places_of(self._view, symbol):
            if place.grade == "named":
                named += is_seed
                continue
            found = (_GRADES[place.grade], place.line)
            if place.owner not in best or found < best[place.owner]:
                best[place.owner] = found
        return [_Direct(owner, _BY_NUMBER[grade], line) for owner, (grade, line) in best.items()], named

    def is_test(self, symbol: SymbolId) -> bool:
        return is_test(self._view, symbol)


class _GraphEdges:
    """Edges from the graph."""

    def __init__(self, view: CodeView, graph: GraphReading) -> None:
        self._view = view
        self._graph = graph
        self._symbols: dict[Node, SymbolId] = {}
        self._nodes: dict[SymbolId, Node | None] = {}

    def expanded(self, seed: SymbolId) -> list[SymbolId]:
        node = self._graph.find(seed.path, "")
        return _with_inner(seed, self._graph.symbols_in(node.file) if node is not None else ())

    def direct(self, symbol: SymbolId, *, is_seed: bool) -> tuple[Iterable[_Direct], int]:
        node = self._node(symbol)
        if node is None:
            return [], 0
        named = 0
        if is_seed and symbol.name:
            named = self._graph.named_count(node, frozenset(names_of(self._view, symbol)))
        return [
            _Direct(self._symbol(one.owner), _BY_NUMBER[one.grade], one.line) for one in self._graph.direct(node)
        ], named

    def is_test(self, symbol: SymbolId) -> bool:
        node = self._node(symbol)
        flags = self._graph.flags(node) if node is not None else 0
        return bool(flags & 1) or (bool(flags & 2) and is_test_path(symbol.path))

    def _node(self, symbol: SymbolId) -> Node | None:
        if symbol not in self._nodes:
            self._nodes[symbol] = self._graph.find(symbol.path, symbol.name)
        return self._nodes[symbol]

    def _symbol(self, node: Node) -> SymbolId:
        known = self._symbols.get(node)
        if known is None:
            known = self._symbols[node] = SymbolId(*self._graph.name(node))
            self._nodes[known] = node
        return known


def _with_inner(seed: SymbolId, names: Iterable[str]) -> list[SymbolId]:
    if not seed.name:
        return [seed, *(SymbolId(seed.path, name) for name in names)]
    return [seed, *(SymbolId(seed.path, name) for name in names if name.startswith(f"{seed.name}."))]


def is_test(view: CodeView, symbol: SymbolId) -> bool:
    """Return True for a test: by its name or annotation, in a file of tests or within a definition that is one."""
    file = view.file(symbol.path)
    if file is None or not symbol.name:
        return False
    for number in file.qualified.get(symbol.name, ()):
        at = number
        while at >= 0:
            one = file.definitions[at]
            if one.is_test and (one.kind == "test" or is_test_path(symbol.path)):
                return True
            at = one.parent
    return False


def is_test_path(path: str) -> bool:
    """Return True for the path of a file that holds tests, by the conventions of common test runners."""
    lower = path.lower()
    folders, _, base = lower.rpartition("/")
    stem = base.partition(".")[0]
    return (
        any(part in _TEST_FOLDERS for part in folders.split("/"))
        or stem.startswith(("test_", "tests_")) or stem.endswith(("_test", "_tests", "_spec")) or stem in ("test", "tests", "conftest")
        or ".test." in base or ".spec." in base or path.rpartition("/")[2].partition(".")[0].endswith(("Test", "Tests", "Spec", "IT"))
        or base.endswith(".bats")
    )  # fmt: skip


_TEST_FOLDERS: Final = frozenset({"test", "tests", "testing", "__tests__", "spec", "specs", "unittests", "e2e"})
