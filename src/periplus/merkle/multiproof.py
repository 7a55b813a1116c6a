"""Proofs for many leaves of one tree at once: a run of them, or any set.

Theory of operation
-------------------
Take a tree of RFC 9162 in layers: the leaves, then the nodes over two of them, and so on; a node at the right edge without
a neighbour goes up unchanged. The node at place ``i`` of layer ``h`` covers the leaves from ``i * 2**h`` to
``(i + 1) * 2**h`` or to the end. A verifier that has some leaves can hash them upwards and lacks, in each layer, those
neighbours that cover none of them. These nodes are the proof, **lowest layer first, in a layer from left to right**; each
occurs once, and none that can be computed. The proof of a single leaf is its inclusion path of RFC 9162 §2.1.3.1. A
run of leaves needs at most two nodes a layer, whatever its length.

``merkle.verify_multi`` checks such proofs and shares no code with this module.

``PagedTree`` is a tree known by the roots of its pages (aligned runs of 2**k leaves): a request reads the leaves of the
pages in which the proof begins or ends, and no others.
"""

from __future__ import annotations

__all__ = ["PagedTree", "prove", "prove_indices"]

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from periplus.base.errors import DamageError, UsageError
from periplus.merkle.tree import Prover, Tree, node_hash

_PAGES_HELD_MAX: Final = 8


def prove(tree: Prover, start: int, end: int, size: int | None = None) -> list[bytes]:
    """Return the proof of the leaves ``start`` to ``end`` (half open) of the tree at ``size`` leaves, now if None.

    Raises UsageError where there are no such leaves.
    """
    whole = tree.size if size is None else size
    if not 0 <= start < end <= whole <= tree.size:
        raise UsageError(f"no run of leaves from {start} to {end} in a tree of {whole:,} leaves")
    nodes = []
    first, last, width, height = start, end - 1, whole, 0
    while width > 1:
        if first & 1:
            nodes.append(_node_at(tree, first - 1, height, whole))
        if not last & 1 and last + 1 < width:
            nodes.append(_node_at(tree, last + 1, height, whole))
        first >>= 1
        last >>= 1
        width = (width + 1) >> 1
        height += 1
    return nodes


def prove_indices(tree: Prover, indices: Iterable[int], size: int | None = None) -> list[bytes]:
    """Return the proof of the leaves at ``indices``, in any order; raises like ``prove``."""
    whole = tree.size if size is None else size
    known = sorted(set(indices))
    if not known or known[0] < 0 or known[-1] >= whole or whole > tree.size:
        raise UsageError(f"leaves that a tree of {whole:,} leaves does not have, or none at all")
    nodes = []
    width, height = whole, 0
    while width > 1:
        above: list[int] = []
        for place, index in enumerate(known):
            if index & 1:
                if place == 0 or known[place - 1] != index - 1:
                    nodes.append(_node_at(tree, index - 1, height, whole))
            elif index + 1 < width and (place + 1 == len(known) or known[place + 1] != index + 1):
                nodes.append(_node_at(tree, index + 1, height, whole))
            if not above or above[-1] != index >> 1:
                above.append(index >> 1)
        known = above
        width = (width + 1) >> 1
        height += 1
    return nodes


def _node_at(tree: Prover, place: int, height: int, size: int) -> bytes:
    return tree.range_root(place << height, min((place + 1) << height, size))


class PagedTree(Prover):
    """A tree of ``size`` leaves, given by the roots of its pages of ``page_leaves`` (a power of two); the last page
    may be shorter.

    ``leaves(page)`` returns the leaf hashes of one page. It is called when a proof needs a node within the page, and
    the last few pages are cached. Nothing is verified here: mismatched roots and leaves give invalid proofs.
    """

    def __init__(
        self, size: int, page_roots: Sequence[bytes], leaves: Callable[[int], Sequence[bytes]], page_leaves: int = 256
    ) -> None:
        if page_leaves < 1 or page_leaves & (page_leaves - 1):
            raise UsageError(f"pages of {page_leaves} leaves: a power of two is wanted")
        if len(page_roots) != -(-size // page_leaves):
            raise UsageError(f"{len(page_roots):,} roots of pages for a tree of {size:,} leaves")
        self._size = size
        self._page_leaves = page_leaves
        self._page_height = page_leaves.bit_length() - 1
        full = size // page_leaves
        self._full = Tree(page_roots[:full])
        self._short = page_roots[-1] if size % page_leaves else b""
        self._leaves = leaves
        self._held: OrderedDict[int, Tree] = OrderedDict()

    @property
    def size(self) -> int:
        return self._size

    def range_root(self, start: int, end: int) -> bytes:
        edge = self._full.size * self._page_leaves
        if self._short and end == self._size and start <= edge and start % self._page_leaves == 0:
            # The short last page as a whole hangs at the right of the full pages and need not be read.
            if start == edge:
                return self._short
            root = self._short
            for peak in reversed(self._peaks(start, edge)):
                root = node_hash(peak, root)
            return root
        return super().range_root(start, end)

    def _node(self, height: int, place: int) -> bytes:
        above = height - self._page_height
        if above >= 0:
            return self._full.node(above, place)
        page, within = divmod(place << height, self._page_leaves)
        return self._page(page).node(height, within >> height)

    def _page(self, page: int) -> Tree:
        tree = self._held.get(page)
        if tree is None:
            tree = Tree(self._leaves(page))
            wanted = min(self._page_leaves, self._size - page * self._page_leaves)
            if tree.size != wanted:
                raise DamageError(f"page {page:,} of the tree has {tree.size:,} leaves where {wanted:,} are wanted")
            self._held[page] = tree
            if len(self._held) > _PAGES_HELD_MAX:
                self._held.popitem(last=False)
        else:
            self._held.move_to_end(page)
        return tree
