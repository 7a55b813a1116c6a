"""Ancestry of contexts: walks over their links, which read headers and nothing else.

Two kinds of link lead back from a context: its ``base``, of which it is a delta, and the contexts that it ``merged``.
Both count as descent. Every ancestor is less deep than its descendants (``model.depth_over``, checked on entry), so a
walk that always takes the deepest known context meets each one after all its descendants; a search ends when nothing
deep enough is left. Nothing here recurses, and nothing reads further than its answer needs.
"""

from __future__ import annotations

__all__ = ["CONTEXT_WEIGHT", "Fork", "Headers", "chain", "common_bases", "descent", "fork_of", "is_ancestor"]

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final, NamedTuple, Protocol

from periplus.context.model import ContextHeader

CONTEXT_WEIGHT: Final = 8  # cost of reading an empty context, in atoms
_OURS: Final = 1
_THEIRS: Final = 2
_BOTH: Final = _OURS | _THEIRS
_STALE: Final = 4  # mark: ancestor of a common base already found


class Headers(Protocol):
    """The part of a store that walks need."""

    def header(self, digest: bytes) -> ContextHeader: ...


def _parents(header: ContextHeader) -> tuple[bytes, ...]:
    return header.merged if header.base is None else (header.base, *header.merged)


def chain(store: Headers, head: bytes | None) -> Iterator[ContextHeader]:
    """Yield ``head``, its base, the base of that, down to the root: the deltas of which it is made, newest first."""
    while head is not None:
        header = store.header(head)
        yield header
        head = header.base


def descent(store: Headers, head: bytes) -> Iterator[ContextHeader]:
    """Yield ``head`` and its ancestors, over bases and merged contexts, each once and after all its descendants."""
    first = store.header(head)
    heap = [(-first.depth, head, first)]
    seen = {head}
    while heap:
        _, _, header = heappop(heap)
        yield header
        for parent in _parents(header):
            if parent not in seen:
                seen.add(parent)
                found = store.header(parent)
                heappush(heap, (-found.depth, parent, found))


def is_ancestor(store: Headers, ancestor: bytes, descendant: bytes) -> bool:
    """Return whether ``descendant`` is ``ancestor`` or descends from it by any links."""
    depth = store.header(ancestor).depth
    for header in descent(store, descendant):
        if header.digest == ancestor:
            return True
        if header.depth < depth:
            return False
    return False


def common_bases(store: Headers, ours: bytes, theirs: bytes) -> tuple[bytes, ...]:
    """Return the nearest common ancestors: those that are no ancestors of another common ancestor.

    The deepest come first, those of one depth by digest. There are several after crossing merges, and none for
    unrelated contexts.
    """
    marks: dict[bytes, int] = {}
    heap: list[tuple[int, bytes, ContextHeader]] = []
    open_ends = 0  # number of contexts in the heap that may still lead to a base

    def reach(digest: bytes, mark: int) -> None:
        nonlocal open_ends
        before = marks.get(digest, 0)
        after = marks[digest] = before | mark
        if not before:
            header = store.header(digest)
            heappush(heap, (-header.depth, digest, header))
            open_ends += not after & _STALE
        elif after & _STALE and not before & _STALE:
            open_ends -= 1

    reach(ours, _OURS)
    reach(theirs, _THEIRS)
    found: list[bytes] = []
    while open_ends:
        _, digest, header = heappop(heap)
        mark = marks[digest]
        if not mark & _STALE:
            open_ends -= 1
            if mark == _BOTH:
                found.append(digest)
                mark |= _STALE
        for parent in _parents(header):
            reach(parent, mark)
    return tuple(found)


class Fork(NamedTuple):
    """The fork of two chains of deltas: ``common`` is the newest context in both, ``ours`` and ``theirs`` are the later
    ones, newest first.
    """

    common: bytes
    ours: list[ContextHeader]
    theirs: list[ContextHeader]


def fork_of(store: Headers, ours: bytes, theirs: bytes, *, weight_max: int) -> Fork | None:
    """Return the fork of the chains of ``ours`` and ``theirs``.

    None if they do not meet, or if more than ``weight_max`` lies between: CONTEXT_WEIGHT for each context and one for
    each atom, removal and molecule of it.
    """
    heads = [store.header(ours), store.header(theirs)]
    since: tuple[list[ContextHeader], list[ContextHeader]] = ([], [])
    weight = 0
    while heads[0].digest != heads[1].digest:
        side = 0 if heads[0].depth >= heads[1].depth else 1
        header = heads[side]
        since[side].append(header)
        weight += CONTEXT_WEIGHT + header.atom_count + header.removed_count + header.molecule_count
        if header.base is None or weight > weight_max:
            return None
        heads[side] = store.header(header.base)
    return Fork(heads[0].digest, *since)
