"""Circles in the version graph of an entity: which versions are heads, and the longest way to each. Pure.

A version id is a digest over the ids of its parents, so hashed ``parents`` form no circle. Edges that are only stated can:
``after``, if two clones that know an entity from files alone saw git go forward from one version to the other in one clone
and back in the other, or if somebody forged it; and the parents of a stub, which states its own version id. A circle would
have no head, and the entity would be gone. So ``after`` does not count between versions that descend from each other, and
``parents`` do not count where they alone still form a circle. The rest has no circle and depends only on the set of records.

The graph that grows record by record (``version_graph``) notices when a circle closes. From then on the entity is settled here as a
whole whenever a record touches it, in time proportional to its versions and edges. An entity with too many revs to pass on
one by one is settled here once, too.
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
    """Set heads and revs of ``found`` from all ``records`` that hold versions of the entity. Return True if there is a circle."""
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
    """Return the rev of each version, and the set of heads.

    ``names`` maps each version to those that it names as parents or in ``after``; ``parents`` to those that it names as parents.
    Neither contains the version itself or versions that are not held.
    """
    first = circles_of(names)
    counted = {
        version: {one for one in named if one in parents[version] or first[one] != first[version]}
        for version, named in names.items()
    }
    second = circles_of(counted)
    revs: dict[str, int] = {}
    superseded: set[str] = set()
    for version in second:  # each version comes after those that it names
        before = [one for one in counted[version] if second[one] != second[version]]
        revs[version] = 1 + max((revs[one] for one in before), default=0)
        superseded.update(before)
    return revs, revs.keys() - superseded


class Remaining:
    """Versions from which heads are removed one after another; edges as in ``ranks``.

    A version that only the removed head supersedes becomes a head itself, so each edge is looked at once. With a circle any
    removal may open it, and everything is settled again.
    """

    def __init__(self, parents: Edges, names: Edges) -> None:
        self._parents = {version: set(named) for version, named in parents.items()}
        self._names = {version: set(named) for version, named in names.items()}
        circles = circles_of(self._names)
        self._is_circular = len(set(circles.values())) < len(circles)
        self._heads = ranks(self._parents, self._names)[1]
        self._above: dict[str, int] = {}  # how many versions supersede each
        for named in self._names.values():
            for one in named:
                self._above[one] = self._above.get(one, 0) + 1

    def without(self, head: str) -> set[str]:
        """Remove ``head``, which is one of the heads, and return the heads that are left."""
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
    """Return for each version the number of its circle (a number of its own if it is in none), named versions first.

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
    """Return the head for the version that ``records`` hold: the earliest record that still has its content, else the earliest."""
    ranked = sorted(records, key=lambda record: (record.ts, record.lineage, record.seq))
    payload, best = next(((said, record) for record in ranked if (said := payload_at(record))), (b"", ranked[0]))
    return Head(
        best.item_type, best.item_id, best.version, best.parents, rev, not payload, payload, best.ts, best.writer,
        best.session, best.lineage, best.seq, not payload and best.action != "delete",
    )  # fmt: skip
