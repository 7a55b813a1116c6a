"""The graph of a view as values for the encoders of `code.exports`, whole or around one node."""

from __future__ import annotations

__all__ = ["graph_around", "whole_graph"]

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from periplus.code.exports.graph import EdgeKind, Graph, GraphEdge, GraphFile, GraphPlace, GraphSymbol, node_id
from periplus.code.exports.neighbourhood import around
from periplus.code.graph.encoding import NAMED_FILE, Edge
from periplus.code.graph.reading import GraphReading, Node
from periplus.code.model import ROLES, Role
from periplus.code.queries.impact import is_test_path
from periplus.code.queries.symbol_text import symbol_of
from periplus.code.queries.view import CodeView, SymbolId
from periplus.code.resolution.resolver import Grade

_GRADES: Final[tuple[Grade, ...]] = ("proven", "likely", "named")
_KINDS: Final[dict[Role, EdgeKind]] = {
    "reference": "references", "call": "calls", "extends": "extends", "import": "imports",
}  # fmt: skip


def whole_graph(view: CodeView, graph: GraphReading) -> Graph:
    """Return all files and symbols, and the proven and likely edges between them. A test has an edge ``tests`` to what it calls directly."""
    values = _Values(graph)
    numbers = [number for number, _ in graph.store.files()]
    edges = [edge for number in numbers for edge in values.edges_from(number)]
    paths = [path for _, path in graph.store.files()]
    return Graph(_root_name(view), *_nodes(view, paths), edges)


def graph_around(view: CodeView, graph: GraphReading, symbol: SymbolId, depth: int) -> Graph:
    """Return what lies within ``depth`` edges of ``symbol``."""
    values = _Values(graph)
    near = around(values.edges_at, node_id(symbol.path, symbol.name), depth)
    kept = set(near.nodes)
    paths = dict.fromkeys(values.node(one)[0] for one in near.nodes)
    files, symbols = _nodes(view, paths)
    return Graph(
        _root_name(view),
        [one for one in files if one.path in kept],
        [one for one in symbols if node_id(one.path, one.name) in kept],
        near.edges,
    )


class _Values:
    """Edges of the graph by the ids of nodes."""

    def __init__(self, graph: GraphReading) -> None:
        self._graph = graph
        self._ids: dict[Node, str] = {}
        self._nodes: dict[str, Node] = {}

    def id(self, one: Node) -> str:
        known = self._ids.get(one)
        if known is None:
            known = self._ids[one] = node_id(*self._graph.name(one))
            self._nodes[known] = one
        return known

    def node(self, id_: str) -> tuple[str, str]:
        """Return path and name of a node that an edge had as its end, or that was asked for."""
        found = self._find(id_)
        return self._graph.name(found) if found is not None else (id_, "")

    def edges_from(self, file: int) -> Iterator[GraphEdge]:
        return self._values(file, self._graph.edges_from(file))

    def edges_at(self, id_: str) -> list[GraphEdge]:
        """Return the edges that a node is an end of."""
        one = self._find(id_)
        if one is None:
            return []
        found: dict[int, list[Edge]] = defaultdict(list)
        for source, edge in self._graph.edges_to(one):
            found[source].append(edge)
        found[one.file] += [
            edge
            for edge in self._graph.edges_from(one.file)
            if edge.owner == one.local and Node(edge.file, edge.local) != one
        ]
        return [edge for source, edges in found.items() for edge in self._values(source, edges)]

    def _find(self, id_: str) -> Node | None:
        if id_ in self._nodes:
            return self._nodes[id_]
        found = self._graph.find(id_, "")
        colon = id_.find(":")
        while found is None and colon >= 0:
            found = self._graph.find(id_[:colon], id_[colon + 1 :])
            colon = id_.find(":", colon + 1)
        if found is not None:
            self._nodes[id_] = found
        return found

    def _values(self, source: int, edges: Iterable[Edge]) -> Iterator[GraphEdge]:
        grouped: dict[tuple[EdgeKind, Node, Node], tuple[int, set[int]]] = {}
        for edge in edges:
            if edge.file == NAMED_FILE:
                continue
            owner, target = Node(source, edge.owner), Node(edge.file, edge.local)
            role = ROLES[edge.role]
            kinds: list[EdgeKind] = [_KINDS[role]]
            if role == "call" and self._is_test(owner):
                kinds.append("tests")
            for kind in kinds:
                grade, lines = grouped.setdefault((kind, owner, target), (edge.grade, set()))
                lines.add(edge.line)
                if edge.grade < grade:
                    grouped[kind, owner, target] = (edge.grade, lines)
        for (kind, owner, target), (grade, lines) in grouped.items():
            yield GraphEdge(kind, self.id(owner), self.id(target), _GRADES[grade], tuple(sorted(lines)))

    def _is_test(self, one: Node) -> bool:
        flags = self._graph.flags(one)
        return bool(flags & 1) or (bool(flags & 2) and is_test_path(self._graph.store.path(one.file)))


def _nodes(view: CodeView, paths: Iterable[str]) -> tuple[list[GraphFile], list[GraphSymbol]]:
    files: list[GraphFile] = []
    symbols: list[GraphSymbol] = []
    for path in paths:
        file = view.file(path)
        if file is None:
            continue
        files.append(GraphFile(path, file.facts.language))
        for number, one in enumerate(file.definitions):
            shown = symbol_of(view, file, number)
            width = len(one.name.encode("utf-8", "surrogatepass"))
            symbols.append(
                GraphSymbol(
                    path, one.qualified, one.kind, one.start_line, one.end_line, shown.signature, shown.doc, one.is_exported, one.ordinal,
                    GraphPlace(one.line, one.column, one.column + width),
                )
            )  # fmt: skip
    return files, symbols


def _root_name(view: CodeView) -> str:
    return os.path.basename(view.root.rstrip("/"))
