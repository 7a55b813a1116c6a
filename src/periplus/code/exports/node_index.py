"""Nodes of a graph in canonical order, found by their ids without a table of all ids.

The index holds references to the values of the graph, 8 bytes each, an entry for each file, and searches the symbols of a file by
bisection: a million symbols take no second copy of their names.
"""

from __future__ import annotations

__all__ = ["NodeIndex"]

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from operator import attrgetter
from typing import Final

from periplus.base.errors import UsageError
from periplus.code.exports.graph import Graph, GraphFile, GraphSymbol, node_id

_ORDINAL: Final = re.compile(r"#([1-9][0-9]{0,8})\Z")
_identity: Final = attrgetter("path", "name", "ordinal")
_name_and_ordinal: Final = attrgetter("name", "ordinal")
_path: Final = attrgetter("path")


class NodeIndex:
    """``files`` are sorted by path, ``symbols`` by identity.

    Raises UsageError where two files or two symbols have one identity.
    """

    def __init__(self, graph: Graph) -> None:
        self.files: list[GraphFile] = sorted(graph.files, key=_path)
        # Three stable sorts by one field each: a sort by all three would make a tuple for each symbol.
        self.symbols: list[GraphSymbol] = sorted(graph.symbols, key=attrgetter("ordinal"))
        self.symbols.sort(key=attrgetter("name"))
        self.symbols.sort(key=_path)
        self._edges = graph.edges
        self._refuse_equals()
        self._files_at = {file.path: at for at, file in enumerate(self.files)}
        self._spans = dict(_spans(self.symbols))
        self._path_characters_max = max(map(len, self._spans), default=0)

    @cached_property
    def outside(self) -> list[str]:
        """Return the ids of the ends of edges that are neither file nor symbol, sorted."""
        ends = {end for edge in self._edges for end in (edge.source, edge.target)}
        return sorted(end for end in ends if self._within(end) is None)

    def __len__(self) -> int:
        return len(self.files) + len(self.symbols) + len(self.outside)

    def position(self, node: str) -> int:
        """Return the place of a node of the graph in the order files, symbols, outside."""
        found = self._within(node)
        if found is None:
            return len(self.files) + len(self.symbols) + bisect_left(self.outside, node)
        return found

    def find(self, node: str) -> GraphFile | GraphSymbol | None:
        """Return the file or symbol of an id, None for what lies outside."""
        at = self._within(node)
        if at is None:
            return None
        return self.files[at] if at < len(self.files) else self.symbols[at - len(self.files)]

    def symbol(self, path: str, name: str, ordinal: int = 0) -> GraphSymbol | None:
        """Return the symbol of an identity."""
        at = self._symbol_at(path, name, ordinal)
        return self.symbols[at] if at is not None else None

    def symbols_in(self, path: str) -> Iterator[GraphSymbol]:
        """Yield the symbols of one file."""
        start, end = self._spans.get(path, (0, 0))
        return iter(self.symbols[start:end])

    def _within(self, node: str) -> int | None:
        """Return the position of a file or symbol. A path and a name may both have colons: each colon is tried."""
        at = self._files_at.get(node)
        if at is not None:
            return at
        colon = node.find(":")
        while 0 <= colon <= self._path_characters_max:
            path, name = node[:colon], node[colon + 1 :]
            if path in self._spans:
                found = self._symbol_at(path, name, 0)
                if found is None and (ordinal := _ORDINAL.search(name)):
                    found = self._symbol_at(path, name[: ordinal.start()], int(ordinal[1]) - 1)
                if found is not None:
                    return len(self.files) + found
            colon = node.find(":", colon + 1)
        return None

    def _symbol_at(self, path: str, name: str, ordinal: int) -> int | None:
        start, end = self._spans.get(path, (0, 0))
        at = bisect_left(self.symbols, (name, ordinal), start, end, key=_name_and_ordinal)
        return at if at < end and _name_and_ordinal(self.symbols[at]) == (name, ordinal) else None

    def _refuse_equals(self) -> None:
        last: object = None
        for file in self.files:
            if file.path == last:
                raise UsageError(f"two files of the graph are called {file.path}")
            last = file.path
        last = None
        for symbol in self.symbols:
            identity = _identity(symbol)
            if identity == last:
                raise UsageError(f"two symbols of the graph are called {node_id(*identity)}")
            last = identity


def _spans(symbols: list[GraphSymbol]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield each path and the slice of its symbols."""
    start = 0
    for at, symbol in enumerate(symbols):
        if symbol.path != symbols[start].path:
            yield symbols[start].path, (start, at)
            start = at
    if symbols:
        yield symbols[start].path, (start, len(symbols))
