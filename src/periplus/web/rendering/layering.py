"""Positions of the nodes of a directed graph in layers, after Sugiyama, Tagawa and Toda (1981).

1. Links that close a cycle are turned around for the layout.
2. A node stands one layer behind the last of those that point to it; one without predecessors stands just before its successors.
3. A link over several layers gets a place in each of them, so that it runs between nodes.
4. The order within layers is improved by the mean position of neighbours, forwards and backwards; the order with the fewest crossings is kept.
5. The nodes of a layer move to where their links are straightest, by isotonic regression, in this order and without overlap.

The result depends on the order of nodes and links only.
"""

from __future__ import annotations

__all__ = ["Place", "Placed", "placed"]

import itertools
from bisect import bisect_right, insort
from collections.abc import Sequence
from typing import Final, NamedTuple

_SWEEPS: Final = 8
_SHIFTS: Final = 6
_BENDS_MAX: Final = 3_000
_BEND_SIZE: Final = 0.3


class Place(NamedTuple):
    """``layer`` counts from 0; ``position`` is the middle across the layers, in units of a node with its gap."""

    layer: int
    position: float


class Placed(NamedTuple):
    """``places`` of the nodes; ``routes`` gives for each link the places it passes from its source to its target, without both."""

    places: tuple[Place, ...]
    routes: tuple[tuple[Place, ...], ...]
    layers: int


def placed(count: int, links: Sequence[tuple[int, int]]) -> Placed:
    """Return places for ``count`` nodes. ``links`` are pairs of different nodes."""
    forward = _without_cycles(count, links)
    layer_of = _layers(count, forward)
    chains = _chains(layer_of, forward)
    layers = max(layer_of[:count], default=-1) + 1
    order = _ordered(layer_of, chains, layers)
    positions = _positions(order, chains, count, len(layer_of))
    places = [Place(layer_of[one], positions[one]) for one in range(len(layer_of))]
    routes = []
    for given, turned, chain in zip(links, forward, chains, strict=True):
        inner = tuple(places[one] for one in chain[1:-1])
        routes.append(inner if given == turned else inner[::-1])
    return Placed(tuple(places[:count]), tuple(routes), layers)


def _without_cycles(count: int, links: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the links, those turned around that lead back on the way of a depth-first walk."""
    after: list[list[int]] = [[] for _ in range(count)]
    has_before = [False] * count
    for source, target in links:
        after[source].append(target)
        has_before[target] = True
    state = [0] * count  # 1 on the way, 2 done
    back: set[tuple[int, int]] = set()
    for start in sorted(range(count), key=lambda one: has_before[one]):
        if state[start]:
            continue
        state[start] = 1
        way = [(start, iter(after[start]))]
        while way:
            node, rest = way[-1]
            for target in rest:
                if state[target] == 1:
                    back.add((node, target))
                elif not state[target]:
                    state[target] = 1
                    way.append((target, iter(after[target])))
                    break
            else:
                state[node] = 2
                way.pop()
    return [(target, source) if (source, target) in back else (source, target) for source, target in links]


def _layers(count: int, links: Sequence[tuple[int, int]]) -> list[int]:
    after: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for source, target in links:
        after[source].append(target)
        waiting[target] += 1
    layer_of = [0] * count
    roots = [one for one in range(count) if not waiting[one]]
    ready = list(roots)
    for node in ready:  # grows while it is walked
        for target in after[node]:
            layer_of[target] = max(layer_of[target], layer_of[node] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    assert len(ready) == count, "the links have a cycle"
    for node in roots:
        if after[node]:
            layer_of[node] = min(layer_of[target] for target in after[node]) - 1
    return layer_of


def _chains(layer_of: list[int], links: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Return for each link the numbers that it passes, source and target included. Numbers for its bends are added to ``layer_of``."""
    chains: list[tuple[int, ...]] = []
    bends = 0
    for source, target in links:
        between = range(layer_of[source] + 1, layer_of[target])
        if bends + len(between) > _BENDS_MAX:
            chains.append((source, target))
            continue
        bends += len(between)
        first = len(layer_of)
        layer_of.extend(between)
        chains.append((source, *range(first, len(layer_of)), target))
    return chains


def _ordered(layer_of: Sequence[int], chains: Sequence[tuple[int, ...]], layers: int) -> list[list[int]]:
    """Return the numbers of each layer in the order with the fewest crossings that was found."""
    before: list[list[int]] = [[] for _ in layer_of]
    after: list[list[int]] = [[] for _ in layer_of]
    for chain in chains:
        for source, target in itertools.pairwise(chain):
            after[source].append(target)
            before[target].append(source)
    order: list[list[int]] = [[] for _ in range(layers)]
    for one, layer in enumerate(layer_of):
        order[layer].append(one)
    best, fewest = [list(layer) for layer in order], _crossings(order, after)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        is_forward = sweep % 2 == 0
        neighbours = before if is_forward else after
        for number in range(layers) if is_forward else range(layers - 1, -1, -1):
            at = {one: place for layer in order for place, one in enumerate(layer)}
            order[number].sort(
                key=lambda one: (
                    sum(at[other] for other in neighbours[one]) / len(neighbours[one]) if neighbours[one] else at[one]
                )
            )
        found = _crossings(order, after)
        if found < fewest:
            best, fewest = [list(layer) for layer in order], found
    return best


def _crossings(order: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> int:
    at = {one: place for layer in order for place, one in enumerate(layer)}
    total = 0
    for layer in order:
        seen: list[int] = []
        for one in layer:
            targets = sorted(at[target] for target in after[one])
            total += sum(len(seen) - bisect_right(seen, target) for target in targets)
            for target in targets:
                insort(seen, target)
    return total


def _positions(
    order: Sequence[Sequence[int]], chains: Sequence[tuple[int, ...]], nodes: int, count: int
) -> list[float]:
    """Return the middle of each number across the layers, the least being half of a node."""
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for chain in chains:
        for source, target in itertools.pairwise(chain):
            neighbours[source].append(target)
            neighbours[target].append(source)
    sizes = [1.0] * nodes + [_BEND_SIZE] * (count - nodes)
    positions = [0.0] * count
    for layer in order:
        _spread(layer, [sizes[one] for one in layer], [0.0] * len(layer), positions)
    for shift in range(_SHIFTS):
        for layer in order if shift % 2 == 0 else reversed(order):
            wanted = [
                sum(positions[other] for other in neighbours[one]) / len(neighbours[one])
                if neighbours[one]
                else positions[one]
                for one in layer
            ]
            _spread(layer, [sizes[one] for one in layer], wanted, positions)
    least = min((positions[one] - sizes[one] / 2 for one in range(count)), default=0.0)
    return [position - least for position in positions]


def _spread(layer: Sequence[int], sizes: Sequence[float], wanted: Sequence[float], positions: list[float]) -> None:
    """Set ``positions`` as near to ``wanted`` (least squares) as order and sizes allow."""
    offsets: list[float] = []
    at = 0.0
    for size in sizes:
        offsets.append(at + size / 2)
        at += size
    blocks: list[tuple[float, int]] = []  # sum of what its members want of their common offset, number of members
    for place, offset in zip(wanted, offsets, strict=True):
        total, members = place - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / members:
            total += blocks[-1][0]
            members += blocks[-1][1]
            blocks.pop()
        blocks.append((total, members))
    number = 0
    for total, members in blocks:
        for _ in range(members):
            positions[layer[number]] = total / members + offsets[number]
            number += 1
