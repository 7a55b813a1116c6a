"""Answers from the graph of a view, where it is up to date."""

from __future__ import annotations

__all__ = ["Direct", "GraphReading", "Node"]

from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from periplus.code.graph.encoding import FILE, NAMED_FILE, Edge, FileSymbols, node
from periplus.code.graph.store import GraphStore
from periplus.code.graph.update import is_current
from periplus.code.index.database import Database

_FILES_KEPT_MAX: Final = 4_000
_NO_SYMBOLS: Final = FileSymbols([], [], [], 1)


class Node(NamedTuple):
    """A symbol by the number of its file and its number in it (FILE: the file itself)."""

    file: int
    local: int


class Direct(NamedTuple):
    """One owner that names a symbol: its best grade, the first line with that grade."""

    owner: Node
    grade: int
    line: int


class _File:
    """The symbols and edges of one file with the look-ups that questions repeat."""

    def __init__(self, symbols: FileSymbols, edges: list[Edge]) -> None:
        self.names = dict(zip(symbols.locals, symbols.names, strict=True))
        self.locals = dict(zip(symbols.names, symbols.locals, strict=True))
        self.flags = dict(zip(symbols.locals, symbols.flags, strict=True))
        self.edges = edges
        self.by_target: dict[tuple[int, int], list[Edge]] = defaultdict(list)
        for edge in edges:
            self.by_target[edge.file, edge.local].append(edge)


class GraphReading:
    """Reads within one transaction of the caller, or while nobody writes."""

    def __init__(self, database: Database, view: int) -> None:
        self.store = GraphStore(database, view)
        self._database = database
        self._view = view
        self._files: OrderedDict[int, _File] = OrderedDict()

    def is_current(self) -> bool:
        """Return True where the graph is that of the files of the view."""
        return is_current(self._database, self._view)

    def find(self, path: str, name: str) -> Node | None:
        """Return the node of a symbol, or of a file (an empty name); None where the graph has none."""
        number = self.store.file_id(path)
        if number is None:
            return None
        local = self.file(number).locals.get(name) if name else FILE
        return Node(number, local) if local is not None else None

    def name(self, one: Node) -> tuple[str, str]:
        """Return path and name of a node; the name of a file is empty."""
        return self.store.path(one.file), self.file(one.file).names.get(one.local, "")

    def flags(self, one: Node) -> int:
        """Return the flags of a symbol (`graph.encoding`)."""
        return self.file(one.file).flags.get(one.local, 0)

    def symbols_in(self, file: int) -> dict[str, int]:
        """Return the numbers of the symbols of a file by their names."""
        return self.file(file).locals

    def edges_from(self, file: int) -> list[Edge]:
        """Return the edges from the symbols of a file."""
        return self.file(file).edges

    def edges_to(self, one: Node) -> Iterator[tuple[int, Edge]]:
        """Iterate over the edges to a node, each with the number of the file that it is in."""
        for source in (one.file, *self.store.users(node(*one))):
            for edge in self.file(source).by_target.get(one, ()):
                yield source, edge

    def direct(self, one: Node) -> list[Direct]:
        """Return who names a node, each owner once."""
        best: dict[Node, tuple[int, int]] = {}
        for source, edge in self.edges_to(one):
            owner = Node(source, edge.owner)
            found = (edge.grade, edge.line)
            if owner not in best or found < best[owner]:
                best[owner] = found
        return [Direct(owner, grade, line) for owner, (grade, line) in best.items()]

    def named_count(self, one: Node, names: frozenset[str]) -> int:
        """Return the number of places with one of ``names`` that may mean the node, but need not."""
        found: set[tuple[int, int, int, int]] = set()
        for name in names:
            number, sources = self.store.users_of_name(name)
            for source in sources:
                file = self.file(source)
                better = {(edge.owner, edge.line, edge.role) for edge in file.by_target.get(one, ())}
                for edge in file.by_target.get((NAMED_FILE, number), ()):
                    if (edge.owner, edge.line, edge.role) not in better:
                        found.add((source, edge.owner, edge.line, edge.role))
        return len(found)

    def file(self, number: int) -> _File:
        """Return what the graph has of one file."""
        known = self._files.get(number)
        if known is None:
            known = self._files[number] = _File(self.store.symbols(number) or _NO_SYMBOLS, self.store.edges(number))
            if len(self._files) > _FILES_KEPT_MAX:
                self._files.popitem(last=False)
        return known
