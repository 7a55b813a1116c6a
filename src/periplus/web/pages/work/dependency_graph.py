"""The graph of a plan's dependencies, in layers: each step stands to the right of all that it waits for.

A layer is the longest way from a node without dependencies (Sugiyama, Tagawa, Toda 1981, without dummy nodes). Dependencies that close a
circle, which separate clones can make, are drawn but place nothing. Within a layer nodes are ordered by the mean place of their
dependencies, which keeps most lines from crossing.
"""

from __future__ import annotations

__all__ = ["NODES_MAX", "Graph", "GraphEdge", "GraphNode", "dependency_graph"]

import textwrap
from collections.abc import Mapping, Sequence
from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.work.entity_fields import one_line
from periplus.web.pages.work.plan_rows import StepCard

NODES_MAX: Final = 250
_WIDTH: Final = 190
_HEIGHT: Final = 54
_GAP_X: Final = 60
_GAP_Y: Final = 16
_MARGIN: Final = 8
_LINE_CHARACTERS: Final = 24
_LINES: Final = 2


class GraphNode(NamedTuple):
    """A step, or work outside the plan. ``address`` is where it leads; ``lines`` are its words."""

    id: str
    x: int
    y: int
    state: str
    title: str
    lines: tuple[str, ...]
    address: str
    is_outside: bool


class GraphEdge(NamedTuple):
    """A dependency, as the path of its line; ``is_open`` while the work that is waited for is not done."""

    source: str
    target: str
    path: str
    is_open: bool


class Graph(NamedTuple):
    width: int
    height: int
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    node_width: int = _WIDTH
    node_height: int = _HEIGHT


def dependency_graph(cards: Sequence[StepCard], outside: Mapping[str, str]) -> Graph | None:
    """Return the graph; None where there is no dependency, or there are too many steps to draw. ``outside`` has the text of other work
    that steps depend on.
    """
    if len(cards) > NODES_MAX or not any(card.after for card in cards):
        return None
    known = {card.id: card for card in cards}
    others = [one for one in dict.fromkeys(one for card in cards for one in card.after) if one not in known][:NODES_MAX]
    after = {card.id: [one for one in dict.fromkeys(card.after) if one in known or one in others] for card in cards}
    after |= {one: [] for one in others}
    layers = _layers(after)
    places = _places(after, layers)
    nodes = tuple(_node(one, known.get(one), outside.get(one, ""), *places[one]) for one in after)
    edges = tuple(
        GraphEdge(source, target, _line(places[source], places[target]), source in _waits(known.get(target)))
        for target, sources in after.items()
        for source in sources
    )
    width = max(x for x, _ in places.values()) + _WIDTH + _MARGIN
    height = max(y for _, y in places.values()) + _HEIGHT + _MARGIN
    return Graph(width, height, nodes, edges)


def _layers(after: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the layer of each node: one more than the highest of its dependencies, without those that close a circle."""
    found: dict[str, int] = {}
    for first in after:
        path: list[tuple[str, list[str]]] = [(first, list(after[first]))] if first not in found else []
        entered = {first}
        while path:
            node, left = path[-1]
            if left:
                below = left.pop()
                if below not in found and below not in entered:
                    entered.add(below)
                    path.append((below, list(after[below])))
                continue
            path.pop()
            found[node] = 1 + max((found[one] for one in after[node] if one in found), default=-1)
    return found


def _places(after: Mapping[str, Sequence[str]], layers: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    rows: list[list[str]] = [[] for _ in range(1 + max(layers.values()))]
    for node in after:
        rows[layers[node]].append(node)
    order: dict[str, float] = {}
    found: dict[str, tuple[int, int]] = {}
    for layer, row in enumerate(rows):
        for at, node in enumerate(row):
            held = [order[one] for one in after[node] if one in order]
            order[node] = sum(held) / len(held) if held else float(at)
        row.sort(key=lambda node: order[node])
        for at, node in enumerate(row):
            order[node] = float(at)
            found[node] = (_MARGIN + layer * (_WIDTH + _GAP_X), _MARGIN + at * (_HEIGHT + _GAP_Y))
    return found


def _node(item_id: str, card: StepCard | None, text: str, x: int, y: int) -> GraphNode:
    if card is None:
        title = one_line(text) or item_id
        return GraphNode(item_id, x, y, "outside", title, _wrapped(title), f"/memory/{item_id}", is_outside=True)
    title = f"{card.number}. {one_line(card.text)}"
    state = "waiting" if card.column == "waiting" and card.state == "todo" else card.state
    return GraphNode(item_id, x, y, state, title, _wrapped(title), f"#{item_id}", is_outside=False)


def _wrapped(text: str) -> tuple[str, ...]:
    return tuple(textwrap.wrap(text[:400], _LINE_CHARACTERS, max_lines=_LINES, placeholder="…"))


def _waits(card: StepCard | None) -> tuple[str, ...]:
    return card.waits_for if card is not None else ()


def _line(source: tuple[int, int], target: tuple[int, int]) -> str:
    """Return a curve from the right side of one node to the left side of another."""
    x, y = source[0] + _WIDTH, source[1] + _HEIGHT // 2
    end_x, end_y = target[0], target[1] + _HEIGHT // 2
    bend = max(30, abs(end_x - x) // 2)
    return f"M{x},{y} C{x + bend},{y} {end_x - bend},{end_y} {end_x},{end_y}"
