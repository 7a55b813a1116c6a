"""Sets of digests too large for memory: sorted 32-byte digests in a file, looked up by bisection.

The digests are stored in blocks of BLOCK_DIGESTS. The *fence*, stored elsewhere, has the first digest and the hash of
every block: a look-up bisects the fence, reads one block, and bisects the first eight bytes of each of its digests. A
block is checked against its hash when it is read; the reader of the fence must check the fence. Blocks are read, not
mapped, because truncating a mapped file kills its reader.
"""

from __future__ import annotations

__all__ = ["BLOCK_DIGESTS", "Fence", "FenceBuilder", "LazySet", "SortedDigests", "indices_not_in"]

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterator, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

BLOCK_DIGESTS: Final = 1024
_SIZE: Final = 32
_BLOCK_BYTES: Final = BLOCK_DIGESTS * _SIZE
_HELD_BLOCKS_MAX: Final = 1024  # 40 MiB


class Fence(msgspec.Struct, frozen=True, array_like=True):
    """The fence of ``count`` sorted digests that begin at byte ``offset`` of a file: first digest and hash of each
    block.
    """

    offset: int
    count: int
    firsts: tuple[bytes, ...]
    hashes: tuple[bytes, ...]


class FenceBuilder:
    """Build the fence of sorted digests from their bytes, block by block."""

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._count = 0
        self._firsts: list[bytes] = []
        self._hashes: list[bytes] = []
        self._held = bytearray()

    def blocks(self, digests: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the bytes to write for ``digests``, which must ascend."""
        for digest in digests:
            self._held += digest
            if len(self._held) == _BLOCK_BYTES:
                yield self._block()
        if self._held:
            yield self._block()

    def fence(self) -> Fence:
        return Fence(self._offset, self._count, tuple(self._firsts), tuple(self._hashes))

    def _block(self) -> bytes:
        block = bytes(self._held)
        self._held.clear()
        self._firsts.append(block[:_SIZE])
        self._hashes.append(sha256(block).digest())
        self._count += len(block) // _SIZE
        return block


class _Block(NamedTuple):
    """Consecutive digests, and the first eight bytes of each as a number."""

    digests: bytes
    numbers: array[int]


def _numbers(digests: bytes) -> array[int]:
    found = array("Q")
    found.frombytes(digests)
    found = found[:: _SIZE // 8]
    if sys.byteorder == "little":
        found.byteswap()
    return found


class SortedDigests:
    """The set of digests that ``fence`` describes.

    ``read(offset, length)`` returns bytes of the file; ``wrong`` makes the error for bytes that differ from those
    written.
    """

    def __init__(self, read: Callable[[int, int], bytes], fence: Fence, wrong: Callable[[str], Exception]) -> None:
        self._read = read
        self._fence = fence
        self._wrong = wrong
        self._held: dict[int, _Block] = {}

    def __len__(self) -> int:
        return self._fence.count

    def __contains__(self, digest: object) -> bool:
        assert isinstance(digest, bytes)
        return bool(self.places_of([digest]))

    def places_of(self, digests: Sequence[bytes]) -> list[int]:
        """Return the indices of those of ``digests`` that are in the set."""
        firsts, held = self._fence.firsts, self._held
        places = []
        for place, wanted in enumerate(_numbers(b"".join(digests))):
            number = bisect_right(firsts, digests[place]) - 1
            if number < 0:
                continue
            block = held.get(number) or self._hold(number)
            numbers = block.numbers
            at = bisect_left(numbers, wanted)
            while at < len(numbers) and numbers[at] == wanted:
                if block.digests[at * _SIZE : at * _SIZE + _SIZE] == digests[place]:
                    places.append(place)
                    break
                at += 1
        return places

    def __iter__(self) -> Iterator[bytes]:
        for number in range(len(self._fence.firsts)):
            block = self._block(number)
            for at in range(0, len(block), _SIZE):
                yield block[at : at + _SIZE]

    def _hold(self, number: int) -> _Block:
        digests = self._block(number)
        if len(self._held) >= _HELD_BLOCKS_MAX:
            self._held.clear()
        self._held[number] = block = _Block(digests, _numbers(digests))
        return block

    def _block(self, number: int) -> bytes:
        start = number * _BLOCK_BYTES
        block = self._read(self._fence.offset + start, min(_BLOCK_BYTES, self._fence.count * _SIZE - start))
        if sha256(block).digest() != self._fence.hashes[number]:
            raise self._wrong(f"block {number} of its digests does not match its hash")
        return block


class LazySet:
    """A set that is loaded on first use."""

    def __init__(self, find: Callable[[], Container[bytes]]) -> None:
        self.find = find

    def __contains__(self, digest: object) -> bool:
        return digest in self.find()


def indices_not_in(digests: Sequence[bytes], *spoken: Container[bytes]) -> Sequence[int] | None:
    """Return the indices of those of ``digests`` that are in none of the sets ``spoken``; None for all of them."""
    met: set[int] = set()
    for one in spoken:
        those = one.find() if isinstance(one, LazySet) else one
        if isinstance(those, SortedDigests):
            met.update(those.places_of(digests) if len(those) else ())
        elif not isinstance(those, frozenset) or not those.isdisjoint(digests):
            met.update([place for place, digest in enumerate(digests) if digest in those])
    return [place for place in range(len(digests)) if place not in met] if met else None
