"""Provers of RFC 9162 §2: append-only trees, their roots and their proofs.

Theory of operation
-------------------
A node of height ``h`` at place ``i`` covers the leaves ``i * 2**h`` to ``(i + 1) * 2**h``. Once all of these exist the
node never changes, so a tree stores exactly the complete nodes: one flat ``bytearray`` per height, 32 bytes a node,
in which the node ``(h, i)`` begins at byte ``32 * i``. The incomplete part lies on the right edge; it is hashed on
demand, from at most one stored node per height.

So every root and proof of every former size takes O(log n) stored nodes, and nothing is stored per size. Ranges are half
open. Those that occur start at a multiple of a power of two that is at least their length, so that their complete parts
are stored nodes.
"""

from __future__ import annotations

__all__ = [
    "EMPTY_ROOT",
    "Prover",
    "Tree",
    "consistency_path",
    "inclusion_path",
    "leaf_hash",
    "node_hash",
    "root_of",
]

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

from periplus.base.errors import UsageError
from periplus.base.speed import sha256_nodes

EMPTY_ROOT: Final = sha256(b"").digest()
_HASH_BYTES: Final = 32


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf that holds ``data`` (RFC 9162 §2.1.1)."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node over its children's hashes (RFC 9162 §2.1.1)."""
    return sha256(b"\x01" + left + right).digest()


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Return the root over the leaf hashes ``leaves``. Raises UsageError for one that has not 32 bytes."""
    return Tree(leaves).root()


def inclusion_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the proof that leaf ``index`` is in the tree over the leaf hashes ``leaves``; raises like
    Tree.inclusion.
    """
    return Tree(leaves).inclusion(index)


def consistency_path(leaves: Sequence[bytes], first: int) -> list[bytes]:
    """Return the proof that the tree over ``leaves`` extends that over the ``first`` of them; raises like
    Tree.consistency.
    """
    return Tree(leaves).consistency(first)


class Prover(ABC):
    """Roots and proofs of every former size of a tree, computed from its complete nodes, wherever these are stored."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of leaves."""

    @abstractmethod
    def _node(self, height: int, place: int) -> bytes:
        """Return the complete node over the leaves ``place * 2**height`` to ``(place + 1) * 2**height``."""

    def node(self, height: int, place: int) -> bytes:
        """Return the complete node over the leaves ``place * 2**height`` to ``(place + 1) * 2**height``. Raises
        UsageError.
        """
        if height < 0 or not 0 <= place < self.size >> height:
            raise UsageError(f"no complete node {place} of height {height} in a tree of {self.size:,} leaves")
        return self._node(height, place)

    def root(self, size: int | None = None) -> bytes:
        """Return the root at ``size`` leaves, now if None. Raises UsageError if the tree never had as many."""
        return self.range_root(0, self._checked_size(size))

    def inclusion(self, index: int, size: int | None = None) -> list[bytes]:
        """Return the proof that leaf ``index`` is in the tree of ``size`` leaves (RFC 9162 §2.1.3.1), lowest node
        first.

        Raises UsageError where the tree never had that size or has no such leaf.
        """
        end = self._checked_size(size)
        if not 0 <= index < end:
            raise UsageError(
                f"no leaf {index} in a tree of {end:,} leaves", mend="Leaves are counted from 0 to size - 1."
            )
        start = 0
        path = []
        while end - start > 1:
            middle = start + _split(end - start)
            if index < middle:
                path.append(self.range_root(middle, end))
                end = middle
            else:
                path.append(self.range_root(start, middle))
                start = middle
        path.reverse()
        return path

    def consistency(self, first: int, second: int | None = None) -> list[bytes]:
        """Return the proof that the tree of ``second`` leaves extends that of ``first`` (RFC 9162 §2.1.4.1).

        Empty where ``first`` is 0 or equals ``second``. Raises UsageError where ``first`` is over ``second`` or the
        tree never had as many leaves.
        """
        end = self._checked_size(second)
        if not 0 <= first <= end:
            raise UsageError(f"a tree of {end:,} leaves does not extend one of {first:,}")
        if first == 0:
            return []
        start = 0
        path = []
        while first != end:
            middle = start + _split(end - start)
            if first <= middle:
                path.append(self.range_root(middle, end))
                end = middle
            else:
                path.append(self.range_root(start, middle))
                start = middle
        if start:  # the verifier has the root of a complete first tree, not that of its last part
            path.append(self.range_root(start, end))
        path.reverse()
        return path

    def _checked_size(self, size: int | None) -> int:
        if size is None:
            return self.size
        if not 0 <= size <= self.size:
            raise UsageError(f"no tree of {size:,} leaves: there are {self.size:,}")
        return size

    def range_root(self, start: int, end: int) -> bytes:
        """Return the hash over the leaves ``start`` to ``end`` (half open), for ranges that are nodes at some size of
        the tree.

        These start at a multiple of a power of two that is at least their length.
        """
        peaks = self._peaks(start, end)
        if not peaks:
            return EMPTY_ROOT
        root = peaks.pop()
        while peaks:
            root = node_hash(peaks.pop(), root)
        return root

    def _peaks(self, start: int, end: int) -> list[bytes]:
        """Return the complete nodes that form a range, from the left."""
        peaks = []
        while start < end:
            height = (end - start).bit_length() - 1
            peaks.append(self._node(height, start >> height))
            start += 1 << height
        return peaks


class Tree(Prover):
    """Append-only Merkle tree over leaf hashes."""

    def __init__(self, leaf_hashes: Iterable[bytes] = ()) -> None:
        self._levels: list[bytearray] = [bytearray()]
        self.extend(leaf_hashes)

    @property
    def size(self) -> int:
        """Number of leaves."""
        return len(self._levels[0]) // _HASH_BYTES

    def append(self, leaf_hash: bytes) -> None:
        """Add one leaf. Raises UsageError for a hash that has not 32 bytes."""
        if len(leaf_hash) != _HASH_BYTES:
            raise UsageError(f"a leaf hash has {_HASH_BYTES} bytes, not {len(leaf_hash)}")
        node = leaf_hash
        place = self.size
        self._levels[0] += node
        height = 0
        while place & 1:
            node = node_hash(self._node(height, place - 1), node)
            place >>= 1
            height += 1
            if height == len(self._levels):
                self._levels.append(bytearray())
            self._levels[height] += node

    def extend(self, leaf_hashes: Iterable[bytes]) -> None:
        """Add leaves, all or none of them. Raises UsageError for a hash that has not 32 bytes."""
        added = list(leaf_hashes)
        if set(map(len, added)) - {_HASH_BYTES}:
            place, wrong = next((place, leaf) for place, leaf in enumerate(added) if len(leaf) != _HASH_BYTES)
            raise UsageError(f"leaf hash {place} has {len(wrong)} bytes, not {_HASH_BYTES}")
        self._levels[0] += b"".join(added)
        height = 0
        while len(self._levels[height]) >= 2 * _HASH_BYTES:
            if height + 1 == len(self._levels):
                self._levels.append(bytearray())
            _complete(self._levels[height], self._levels[height + 1])
            height += 1

    def _node(self, height: int, place: int) -> bytes:
        at = place * _HASH_BYTES
        return bytes(self._levels[height][at : at + _HASH_BYTES])


def _split(count: int) -> int:
    """Return the largest power of two below ``count``, which is at least 2."""
    return 1 << ((count - 1).bit_length() - 1)


def _complete(lower: bytearray, upper: bytearray) -> None:
    """Append to ``upper`` the parents of all complete pairs in ``lower``."""
    begin = 2 * len(upper)
    end = len(lower) // (2 * _HASH_BYTES) * (2 * _HASH_BYTES)
    upper += sha256_nodes(bytes(memoryview(lower)[begin:end]))
