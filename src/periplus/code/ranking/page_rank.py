"""PageRank over the links of files. Pure.

The rank with seeds is worked out by pushing: a node keeps a part of what it has and passes the rest on, until what is left to pass
on is small. Only the surroundings of the seeds are touched, however large the graph is.
Source: Andersen, Chung, Lang, Local Graph Partitioning using PageRank Vectors, FOCS 2006.
"""

from __future__ import annotations

__all__ = ["Links", "global_rank", "seeded_rank"]

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

Links: TypeAlias = Sequence[Sequence[tuple[int, float]]]
"""For each node its neighbours with the part of its rank that they get; the parts of a node add up to 1, or there are none."""

RESTART: Final = 0.3
_LEFT_MIN: Final = 1e-5
_PUSHES_MAX: Final = 200_000
_ROUNDS: Final = 12


def seeded_rank(links: Links, seeds: Mapping[int, float]) -> dict[int, float]:
    """Return the ranks of the nodes near ``seeds``; the ranks add up to at most 1."""
    total = sum(seeds.values())
    if total <= 0:
        return {}
    rank: dict[int, float] = {}
    left = {node: weight / total for node, weight in sorted(seeds.items()) if weight > 0}
    waiting = deque(left)
    is_waiting = set(left)
    for _ in range(_PUSHES_MAX):
        if not waiting:
            break
        node = waiting.popleft()
        is_waiting.discard(node)
        held = left.pop(node, 0.0)
        neighbours = links[node]
        kept = held * RESTART if neighbours else held
        rank[node] = rank.get(node, 0.0) + kept
        for other, part in neighbours:
            passed = left[other] = left.get(other, 0.0) + (held - kept) * part
            if passed > _LEFT_MIN and other not in is_waiting:
                is_waiting.add(other)
                waiting.append(other)
    return rank


def global_rank(links: Links) -> list[float]:
    """Return the rank of each node where all are seeds alike."""
    count = len(links)
    if not count:
        return []
    rank = [1.0 / count] * count
    for _ in range(_ROUNDS):
        following = [RESTART / count] * count
        loose = 0.0
        for held, neighbours in zip(rank, links, strict=True):
            passed = held * (1 - RESTART)
            if not neighbours:
                loose += passed
            for other, part in neighbours:
                following[other] += passed * part
        spread = loose / count
        rank = [one + spread for one in following]
    return rank
