"""Neighbourhood of a node: the nodes that a few edges lead to, in either direction, and all edges among them.

The walk is breadth-first and bounded. It does not go on from external nodes: a library that half of the files import would make
all of them neighbours.
"""

from __future__ import annotations

__all__ = ["DEPTH_MAX", "EDGES_MAX", "NODES_MAX", "Neighbourhood", "around"]

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from periplus.base.errors import UsageError
from periplus.code.exports.graph import GraphEdge

DEPTH_MAX: Final = 16
NODES_MAX: Final = 20_000
EDGES_MAX: Final = 200_000


class Neighbourhood(NamedTuple):
    """``nodes`` in order of distance, then of id; ``edges`` sorted. ``is_cut`` says that a limit left something out."""

    nodes: tuple[str, ...]
    edges: tuple[GraphEdge, ...]
    is_cut: bool


def around(
    edges_of: Callable[[str], Iterable[GraphEdge]],
    node: str,
    depth: int,
    *,
    nodes_max: int = NODES_MAX,
    edges_max: int = EDGES_MAX,
) -> Neighbourhood:
    """Return what lies within ``depth`` edges of ``node``. ``edges_of`` gives the edges that a node is an end of, in any order.

    The answer does not depend on that order, unless ``edges_max`` cut it. Raises UsageError for a depth below 0 or over DEPTH_MAX.
    """
    if not 0 <= depth <= DEPTH_MAX:
        raise UsageError(f"a depth of {depth}: it must be from 0 to {DEPTH_MAX}")
    assert nodes_max >= 1, nodes_max
    nodes = {node: None}
    leaves: set[str] = set()
    layer = [node]
    is_cut = False
    for _ in range(depth):
        near: set[str] = set()
        for one in layer:
            for edge in edges_of(one):
                other = edge.target if edge.source == one else edge.source
                if edge.external:
                    leaves.add(edge.target)
                if other not in nodes:
                    near.add(other)
        room = nodes_max - len(nodes)
        is_cut = is_cut or len(near) > room
        reached = sorted(near)[:room]
        nodes |= dict.fromkeys(reached)
        layer = [one for one in reached if one not in leaves]
        if not layer:
            break
    edges, has_more = _edges_among(edges_of, nodes, leaves, edges_max)
    return Neighbourhood(tuple(nodes), tuple(sorted(edges)), is_cut or has_more)


def _edges_among(
    edges_of: Callable[[str], Iterable[GraphEdge]], nodes: dict[str, None], leaves: set[str], edges_max: int
) -> tuple[set[GraphEdge], bool]:
    """Return the edges with both ends among ``nodes``, and True where there are more than ``edges_max``."""
    found: set[GraphEdge] = set()
    for node in nodes:
        if node in leaves:
            continue  # what uses an external node is another node, whose edges are asked for
        for edge in edges_of(node):
            if edge.source in nodes and edge.target in nodes and edge not in found:
                if len(found) == edges_max:
                    return found, True
                found.add(edge)
    return found, False
