"""Values of a code graph as the encoders take them: files, symbols, and edges between their node ids.

A node id is ``path`` for a file and ``path:qualified.name`` for a symbol, as anchors and claims name it; the second and later
definitions of one name in a file end in ``#2``, ``#3`` and so on. The end of an edge that is no file or symbol of the graph lies
outside of it, as a package of a registry does, and its id is any text that names it.

Lines count from 1. Columns count from 0 in bytes of UTF-8 from the beginning of the line, as tree-sitter and SCIP count them.
"""

from __future__ import annotations

__all__ = [
    "EDGE_KINDS",
    "GRADES",
    "NO_PLACE",
    "EdgeKind",
    "Grade",
    "Graph",
    "GraphEdge",
    "GraphFile",
    "GraphPlace",
    "GraphSymbol",
    "node_id",
]

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

EdgeKind: TypeAlias = Literal["imports", "references", "calls", "extends", "tests"]
Grade: TypeAlias = Literal["proven", "likely", "named"]
EDGE_KINDS: Final[tuple[str, ...]] = get_args(EdgeKind)
GRADES: Final[tuple[str, ...]] = get_args(Grade)


class GraphPlace(NamedTuple):
    """A piece of one line, ``end_column`` not included. It is empty where only the line is known."""

    line: int
    start_column: int = 0
    end_column: int = 0


NO_PLACE: Final = GraphPlace(0)


class GraphFile(NamedTuple):
    """``path`` is relative to the root, with ``/`` between its parts."""

    path: str
    language: str


class GraphSymbol(NamedTuple):
    """A definition. ``path``, ``name`` and ``ordinal`` (from 0 among equals) are its identity. ``place`` is that of its name;
    it is NO_PLACE where that is not known. ``end_column`` is 0 where only the lines are known.
    """

    path: str
    name: str
    kind: str
    start_line: int
    end_line: int
    signature: str
    doc: str
    exported: bool
    ordinal: int = 0
    place: GraphPlace = NO_PLACE
    start_column: int = 0
    end_column: int = 0


class GraphEdge(NamedTuple):
    """``lines`` are those of the source's file at which the edge is seen; ``places`` are the same with columns, or empty."""

    kind: EdgeKind
    source: str
    target: str
    grade: Grade
    lines: tuple[int, ...] = ()
    external: bool = False
    places: tuple[GraphPlace, ...] = ()


class Graph(NamedTuple):
    """A graph or a part of one, in any order; no two symbols have one identity. ``root`` names the project."""

    root: str
    files: Sequence[GraphFile]
    symbols: Sequence[GraphSymbol]
    edges: Sequence[GraphEdge]


def node_id(path: str, name: str = "", ordinal: int = 0) -> str:
    """Return the id of a file or, with ``name``, of a symbol in it."""
    if not name:
        return path
    return f"{path}:{name}#{ordinal + 1}" if ordinal else f"{path}:{name}"
