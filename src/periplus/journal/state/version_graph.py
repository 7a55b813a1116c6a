"""Version graph that grows in any order: which versions are heads, and the longest way to each. Pure.

An edge counts only between versions of one entity: a version id is a digest over the entity's id, so a record that names a
version of another entity as a parent names nothing. The ``rev`` of a version is 1 + the highest rev of its parents; a
parent that is not held counts as 0. Records of several lineages come in no order, so a version may come after its
children. It is no head then, and its rev is passed on to all its descendants. After RAISED_MAX such steps for one entity
the entity is settled as a whole (``version_cycles``); otherwise records in reverse order, which anybody can produce, would take
quadratic time.

``VersionGraph`` holds what a set of changes adds to a base, without a copy of the base. The index takes in a chunk of records
through one, and the overlay is one.
"""

from __future__ import annotations

__all__ = ["RAISED_MAX", "Base", "EntityGraph", "VersionGraph", "is_before"]

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final, Protocol

from periplus.journal.state.entity import Change, Head, head_of

RAISED_MAX: Final = 10_000


class Base(Protocol):
    """The versions that are already held."""

    def rev_of(self, item_type: str, item_id: str, version: str) -> int | None:
        """Return None for a version that is not held."""
        ...

    def children_of(self, item_type: str, item_id: str, version: str) -> list[tuple[str, int]]:
        """Return version and rev of those held that name ``version`` as a parent."""
        ...


class EntityGraph:
    """The part of a ``VersionGraph`` that concerns one entity."""

    __slots__ = ("children", "gone", "heads", "is_circular", "raised", "raises", "revs")

    def __init__(self) -> None:
        self.revs: dict[str, int] = {}  # of versions that were added or whose rev rose
        self.heads: dict[str, Head] = {}  # added and no parent of another; the rev is in ``revs``
        self.gone: set[str] = set()  # parents of what was added
        self.children: dict[str, list[str]] = {}
        self.raised: set[str] = set()  # versions whose rev rose; the base may hold them, even if they were added again
        self.is_circular = False  # an added edge closed a circle: see ``version_cycles``
        self.raises = 0  # how many revs were passed on

    @property
    def is_unsettled(self) -> bool:
        """Return True if revs and heads must be computed from all versions: there is a circle, or too much to pass on one by one."""
        return self.is_circular or self.raises > RAISED_MAX


class VersionGraph:
    """Changes taken in over ``base``. Without ``has_edges`` no version that the base holds has a child."""

    def __init__(self, base: Base, *, has_edges: bool = True) -> None:
        self._base: Final = base
        self._has_edges: Final = has_edges
        self.entities: dict[tuple[str, str], EntityGraph] = {}

    def add(self, change: Change) -> None:
        record, version = change.entry.record, change.version
        key = (record.item_type, record.item_id)
        found = self.entities.get(key)
        if found is None:
            found = self.entities[key] = EntityGraph()
        highest = 0
        for parent in change.before:
            highest = max(highest, self._rev(key, found, parent))
            children = found.children.setdefault(parent, [])
            if version not in children:
                children.append(version)
            found.gone.add(parent)
            found.heads.pop(parent, None)
        if found.is_unsettled:
            found.revs.setdefault(version, 1)
            return
        held = self._rev(key, found, version)  # another record of the same version may name more ancestors
        rev = found.revs[version] = max(1 + highest, held)
        if 0 < held < rev:
            found.raised.add(version)
        added = found.children.get(version)
        below = self._base.children_of(*key, version) if self._has_edges else []
        if added or below:
            self._raise_below(key, found, version, below)
            return
        head, other = head_of(change, rev), found.heads.get(version)
        if other is None or is_before(head, other):
            found.heads[version] = head

    def heads(self, key: tuple[str, str], held: Iterable[Head]) -> list[Head]:
        """Return the heads of an entity for which the base shows ``held``."""
        found = self.entities.get(key)
        if found is None:
            return list(held)
        heads = {head.version: head for head in held if head.version not in found.gone}
        for version, head in found.heads.items():
            other = heads.get(version)
            if other is None or is_before(head, other):
                heads[version] = head
        return [head._replace(rev=found.revs.get(version, head.rev)) for version, head in heads.items()]

    def _rev(self, key: tuple[str, str], found: EntityGraph, version: str) -> int:
        rev = found.revs.get(version)
        return rev if rev is not None else self._base.rev_of(*key, version) or 0

    def _raise_below(self, key: tuple[str, str], found: EntityGraph, top: str, below: list[tuple[str, int]]) -> None:
        """Pass the rev of ``top`` on to its descendants.

        A version is taken up when all its parents that rose have their rev, in the order of the old revs, in which a child comes
        after its parents; so each is taken up once. A circle ends where it began and is noted; it is settled from all versions
        (``version_cycles``).
        """
        done: set[str] = set()
        old: dict[str, int] = {}
        queue = [(0, top)]
        while queue and not found.is_unsettled:
            _, version = heappop(queue)
            if version in done:
                continue
            done.add(version)
            found.raises += 1
            least = found.revs[version] + 1
            held = below if version == top else self._base.children_of(*key, version)
            revs = dict(held)
            for child in found.children.get(version, ()):
                revs[child] = found.revs[child]
            for child, rev in revs.items():
                now = found.revs.get(child, rev)
                if now < least and child in done:
                    found.is_circular = True
                elif now < least:
                    found.revs[child] = least
                    found.raised.add(child)
                    heappush(queue, (old.setdefault(child, now), child))


def is_before(head: Head, other: Head) -> bool:
    """Return True if ``head`` is preferred to ``other`` for one version: a record with content first, then the earliest."""
    return (head.is_stub, head.ts, head.lineage, head.seq) < (other.is_stub, other.ts, other.lineage, other.seq)
