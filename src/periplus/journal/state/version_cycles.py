"""Versions that name each other in a circle: which are heads, and how long the longest way to each is. Pure.

A version id is a digest over the parents' ids, so ``parents`` that were hashed make no circle. What is only stated can:
``after``, where two clones that know an entity from files alone saw git go forward from one version to the other in one
and back again in the other, or where a forger says so; and the parents of a stub, which states its version itself. A circle
would have no head, and the entity were gone. So between versions that descend from each other ``after`` counts for
nothing; where parents alone still lead in a circle, neither do those. What is left has no circle, whatever was stated,
and depends on the set of records only.

The graph that grows record by record (``graph``) notices a circle as it closes; from then on its entity is settled here,
as a whole, whenever a record touches it. That takes time in proportion to its versions and edges. So is, once, an entity of
which too much would have to be handed on one by one.
"""

from __future__ import annotations

__all__ = ["Remaining", "circles_of", "head_in", "ranks", "settle"]

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from periplus.journal.state.entity import Head

if TYPE_CHECKING:
    from periplus.journal.state.index_values import IndexedRecord
    from periplus.journal.state.version_graph import EntityGraph

Edges = Mapping[str, set[str]]


def settle(
    found: EntityGraph,
    records: Iterable[IndexedRecord],
    children_of: Callable[[str], Iterable[str]],
    payload_at: Callable[[IndexedRecord], bytes],
) -> bool:
    """Let ``found`` say heads and revs of an entity by all ``records`` that hold versions of it, and nothing else; True where some of them
    name each other in a circle.
    """
    held: dict[str, list[IndexedRecord]] = {}
    for record in records:
        held.setdefault(record.version, []).append(record)
    parents = {version: {one for record in of_it for one in record.parents} & held.keys() - {version}
               for version, of_it in held.items()}  # fmt: skip
    names = {version: set(of_it) for version, of_it in parents.items()}
    for version in held:
        for child in children_of(version):
            if child != version and child in names:
                names[child].add(version)
    revs, heads = ranks(parents, names)
    found.revs = revs
    found.gone, found.raised = set(held), set(held)
    found.heads = {version: head_in(held[version], revs[version], payload_at) for version in heads}
    return len(set(circles_of(names).values())) < len(names)


def ranks(parents: Edges, names: Edges) -> tuple[dict[str, int], set[str]]:
    """The rev of each version, and which are heads.

    ``names`` holds for each version those that it names, as parents or as what it comes after, ``parents`` those among
    them that it names as parents; versions that are not held, and itself, in neither.
    """
    first = circles_of(names)
    counted = {
        version: {one for one in named if one in parents[version] or first[one] != first[version]}
        for version, named in names.items()
    }
    second = circles_of(counted)
    revs: dict[str, int] = {}
    superseded: set[str] = set()
    for version in second:  # in an order in which each comes after those that it names
        before = [one for one in counted[version] if second[one] != second[version]]
        revs[version] = 1 + max((revs[one] for one in before), default=0)
        superseded.update(before)
    return revs, revs.keys() - superseded


class Remaining:
    """Versions of which heads are taken away one after another; edges as ``ranks`` has them.

    What a head supersedes alone becomes one when that head goes, so each edge is looked at once. Where there is a circle, whatever
    goes may open it, and all is settled anew.
    """

    def __init__(self, parents: Edges, names: Edges) -> None:
        self._parents = {version: set(named) for version, named in parents.items()}
        self._names = {version: set(named) for version, named in names.items()}
        circles = circles_of(self._names)
        self._is_circular = len(set(circles.values())) < len(circles)
        self._heads = ranks(self._parents, self._names)[1]
        self._above: dict[str, int] = {}  # how many versions supersede it
        for named in self._names.values():
            for one in named:
                self._above[one] = self._above.get(one, 0) + 1

    def without(self, head: str) -> set[str]:
        """The heads once ``head``, which is one of them, is gone."""
        named = self._names.pop(head)
        del self._parents[head]
        self._heads.discard(head)
        if self._is_circular:
            for edges in (self._parents, self._names):
                for of_it in edges.values():
                    of_it.discard(head)
            self._heads = ranks(self._parents, self._names)[1]
            return self._heads
        for one in named:
            self._above[one] -= 1
            if not self._above[one]:
                self._heads.add(one)
        return self._heads


def circles_of(names: Edges) -> dict[str, int]:
    """For each version the number of the circle that it is in, of its own where it is in none; first those that are named.

    R. Tarjan, Depth-first search and linear graph algorithms, SIAM J. Comput. 1 (1972), without recursion.
    """
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    circle: dict[str, int] = {}
    path: list[str] = []
    for start in sorted(names):
        if start in number:
            continue
        number[start] = lowest[start] = len(number)
        path.append(start)
        todo = [(start, iter(names[start]))]
        while todo:
            version, left = todo[-1]
            for one in left:
                if one not in number:
                    number[one] = lowest[one] = len(number)
                    path.append(one)
                    todo.append((one, iter(names[one])))
                    break
                if one not in circle:
                    lowest[version] = min(lowest[version], number[one])
            else:
                todo.pop()
                if todo:
                    lowest[todo[-1][0]] = min(lowest[todo[-1][0]], lowest[version])
                if lowest[version] == number[version]:
                    while version not in circle:
                        circle[path.pop()] = number[version]
    return circle


def head_in(records: list[IndexedRecord], rev: int, payload_at: Callable[[IndexedRecord], bytes]) -> Head:
    """The version that ``records`` hold: one whose content is there speaks for it, then the earliest."""
    ranked = sorted(records, key=lambda record: (record.ts, record.lineage, record.seq))
    payload, best = next(((said, record) for record in ranked if (said := payload_at(record))), (b"", ranked[0]))
    return Head(
        best.item_type, best.item_id, best.version, best.parents, rev, not payload, payload, best.ts, best.writer,
        best.session, best.lineage, best.seq, not payload and best.action != "delete",
    )  # fmt: skip
