"""Tiles: a Merkle tree cut into squares that are read as a whole, so that a proof takes a handful of reads.

Theory of operation
-------------------
Of all the complete nodes of a tree only every eighth height is stored: level 0 holds the leaves, level 1 the nodes over
256 of them, level 2 those over 65,536. A *tile* is 256 hashes of one level that share an ancestor eight heights up,
which is the hash at the tile's own place in the level above; the nodes between are computed on demand.
A tree of n leaves stores n / 255 hashes above its leaves. The last tile of a level is short until it is full. Hashes
are only appended, so one growing run of bytes holds a level.

A proof in a tree of n leaves needs at most two tiles of each level: the one that covers the requested place, and the
last one. The *frontier* (the last tile of each level) hashes to the root: once that is checked, leaves can be added
without reading anything else.

The scheme is that of transparency logs (C2SP tlog-tiles, heights of 8). No I/O here.
"""

from __future__ import annotations

__all__ = ["HASH_BYTES", "TILE_WIDTH", "Frontier", "TiledTree", "level_sizes"]

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Final

from periplus.base.errors import DamageError, UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.merkle.tree import Prover, Tree

TILE_HEIGHT: Final = 8
TILE_WIDTH: Final = 1 << TILE_HEIGHT
HASH_BYTES: Final = 32
TILES_HELD_MAX: Final = 128  # with their inner nodes some 16 KiB each
_TILE_BYTES: Final = TILE_WIDTH * HASH_BYTES


def level_sizes(size: int) -> list[int]:
    """Return the number of hashes in each level of a tree of ``size`` leaves, the leaves first; none is 0."""
    sizes = []
    while size:
        sizes.append(size)
        size >>= TILE_HEIGHT
    return sizes


class Added(NamedTuple):
    """Hashes added to a level: ``data`` follows its first ``start`` hashes."""

    level: int
    start: int
    data: bytes


class Frontier:
    """The last tile of each level, which suffices to extend the tree.

    ``tails`` are these tiles as bytes: for each level of ``level_sizes(size)`` the hashes after its last full tile.
    Raises UsageError where they do not match ``size``.
    """

    def __init__(self, size: int = 0, tails: Sequence[bytes] = ()) -> None:
        wanted = [count % TILE_WIDTH * HASH_BYTES for count in level_sizes(size)]
        if [len(tail) for tail in tails] != wanted:
            raise UsageError(f"not the last tiles of a tree of {size:,} leaves")
        self.size = size
        self._tails = [bytearray(tail) for tail in tails]

    def extend(self, leaf_hashes: Iterable[bytes]) -> list[Added]:
        """Add leaves; return the hashes added to each level. Raises UsageError for a hash that has not 32 bytes."""
        leaves = list(leaf_hashes)
        if any(len(leaf) != HASH_BYTES for leaf in leaves):
            raise UsageError(f"a leaf hash has {HASH_BYTES} bytes")
        added = []
        data = b"".join(leaves)
        size, level = self.size, 0
        self.size += len(leaves)
        while data:
            added.append(Added(level, size, data))
            data = self._grow(level, data)
            size >>= TILE_HEIGHT
            level += 1
        return added

    def root(self) -> bytes:
        """Return the root of the tree (RFC 9162 §2.1.1); for the empty tree the hash of no leaves."""
        node = b""
        for tail in self._tails:
            hashes = [bytes(tail[at : at + HASH_BYTES]) for at in range(0, len(tail), HASH_BYTES)]
            if node:
                hashes.append(node)
            # As in a tree: incomplete subtrees hang at the right, below the complete ones.
            node = Tree(hashes).root() if hashes else b""
        return node or sha256(b"").digest()

    def _grow(self, level: int, data: bytes) -> bytes:
        """Add ``data`` to a level; return the roots of the tiles that it filled."""
        if level == len(self._tails):
            self._tails.append(bytearray())
        tail = self._tails[level]
        tail += data
        full = len(tail) // _TILE_BYTES * _TILE_BYTES
        roots = b"".join([_layers(bytes(tail[at : at + _TILE_BYTES]))[-1] for at in range(0, full, _TILE_BYTES)])
        del tail[:full]
        return roots


class TiledTree(Prover):
    """A tree of ``size`` leaves whose hashes ``read(level, start, count)`` returns as bytes.

    Nothing is verified here: check a root or proof against a trusted root. Raises DamageError where ``read`` returns
    fewer hashes than the tree has.
    """

    def __init__(self, size: int, read: Callable[[int, int, int], bytes]) -> None:
        self._read = read
        self._tiles: OrderedDict[tuple[int, int, int], list[bytes]] = OrderedDict()
        self.grow(size)

    def grow(self, size: int) -> None:
        """Set the size of the tree to ``size`` leaves; full tiles stay cached."""
        self._size = size
        self._levels = level_sizes(size)

    def forget(self) -> None:
        """Clear the cache of tiles."""
        self._tiles.clear()

    @property
    def size(self) -> int:
        return self._size

    def tails(self) -> list[bytes]:
        """Return the last tiles, as ``Frontier`` takes them."""
        return [
            self._hashes(level, count - count % TILE_WIDTH, count % TILE_WIDTH)
            for level, count in enumerate(self._levels)
        ]

    def _node(self, height: int, place: int) -> bytes:
        level, within = divmod(height, TILE_HEIGHT)
        index, at = divmod(place << within, TILE_WIDTH)
        layer = self._tile(level, index)[within]
        start = (at >> within) * HASH_BYTES
        return layer[start : start + HASH_BYTES]

    def _tile(self, level: int, index: int) -> list[bytes]:
        """Return the layers of a tile: its hashes, then the nodes over two, four, … of them."""
        start = index * TILE_WIDTH
        key = (level, index, min(TILE_WIDTH, self._levels[level] - start))
        layers = self._tiles.get(key)
        if layers is None:
            layers = self._tiles[key] = _layers(self._hashes(level, start, key[2]))
            if len(self._tiles) > TILES_HELD_MAX:
                self._tiles.popitem(last=False)
        else:
            self._tiles.move_to_end(key)
        return layers

    def _hashes(self, level: int, start: int, count: int) -> bytes:
        data = self._read(level, start, count) if count else b""
        if len(data) != count * HASH_BYTES:
            raise DamageError(f"level {level} of the tree's tiles ends before hash {start + count:,}")
        return data


def _layers(hashes: bytes) -> list[bytes]:
    layers = [hashes]
    hasher = sha256
    while len(hashes) >= 2 * HASH_BYTES:
        end = len(hashes) - len(hashes) % (2 * HASH_BYTES)
        hashes = b"".join(
            [hasher(b"\x01" + hashes[at : at + 2 * HASH_BYTES]).digest() for at in range(0, end, 2 * HASH_BYTES)]
        )
        layers.append(hashes)
    return layers
