"""Sets of identities too large to hold: sorted 32-byte digests in a file, looked up by bisection.

The digests stand in blocks of BLOCK_DIGESTS. Elsewhere stand the first digest and the hash of every block (the *fence*): a look-up
bisects the fence, reads one block, and bisects that. A block is checked by its hash when it is read; the fence is for whoever reads
it to check. Blocks are read, not mapped: what cuts a mapped file short kills its reader.
"""

from __future__ import annotations

__all__ = ["BLOCK_DIGESTS", "Fence", "FenceMaker", "SortedDigests"]

from bisect import bisect_right
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Final

import msgspec

BLOCK_DIGESTS: Final = 1024
_SIZE: Final = 32
_SPREAD: Final = 48  # three times how far a digest usually stands from where it would by its first bytes
_BLOCK_BYTES: Final = BLOCK_DIGESTS * _SIZE
_HELD_BLOCKS_MAX: Final = 1024  # 32 MiB


class Fence(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of ``count`` sorted digests that begin at byte ``offset`` of a file: first digest and hash of each block."""

    offset: int
    count: int
    firsts: tuple[bytes, ...]
    hashes: tuple[bytes, ...]


class FenceMaker:
    """Takes the bytes of sorted digests block by block and makes their fence."""

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._count = 0
        self._firsts: list[bytes] = []
        self._hashes: list[bytes] = []
        self._held = bytearray()

    def blocks(self, digests: Iterator[bytes]) -> Iterator[bytes]:
        """The bytes to write, for ``digests``, which ascend."""
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


class SortedDigests:
    """The set of digests that lies where ``fence`` says.

    ``read(offset, length)`` gives bytes of the file; ``wrong`` makes the error for bytes that are not those that were written.
    """

    def __init__(self, read: Callable[[int, int], bytes], fence: Fence, wrong: Callable[[str], Exception]) -> None:
        self._read = read
        self._fence = fence
        self._wrong = wrong
        self._held: dict[int, bytes] = {}

    def __len__(self) -> int:
        return self._fence.count

    def __contains__(self, digest: object) -> bool:
        assert isinstance(digest, bytes)
        number = bisect_right(self._fence.firsts, digest) - 1
        if number < 0:
            return False
        block = self._held.get(number)
        if block is None:
            block = self._block(number)
            if len(self._held) >= _HELD_BLOCKS_MAX:
                self._held.clear()
            self._held[number] = block
        low, high = self._around(number, block, digest)
        found = block.find(digest, low * _SIZE, high * _SIZE)
        if found < 0 or not found % _SIZE:
            return found >= 0
        while low < high:
            middle = (low + high) // 2
            if block[middle * _SIZE : middle * _SIZE + _SIZE] < digest:
                low = middle + 1
            else:
                high = middle
        return block[low * _SIZE : low * _SIZE + _SIZE] == digest

    def _around(self, number: int, block: bytes, digest: bytes) -> tuple[int, int]:
        """Between which places ``digest`` stands if it does: digests are spread evenly, so where is nearly known beforehand."""
        count = len(block) // _SIZE
        firsts = self._fence.firsts
        first = int.from_bytes(firsts[number][:8], "big")
        end = int.from_bytes(firsts[number + 1][:8], "big") if number + 1 < len(firsts) else 1 << 64
        guess = (int.from_bytes(digest[:8], "big") - first) * count // max(end - first, 1)
        low, high = max(guess - _SPREAD, 0), min(guess + _SPREAD, count)
        if low and block[low * _SIZE : low * _SIZE + _SIZE] > digest:
            low = 0
        if high < count and block[high * _SIZE : high * _SIZE + _SIZE] <= digest:
            high = count
        return low, high

    def __iter__(self) -> Iterator[bytes]:
        for number in range(len(self._fence.firsts)):
            block = self._block(number)
            for at in range(0, len(block), _SIZE):
                yield block[at : at + _SIZE]

    def _block(self, number: int) -> bytes:
        start = number * _BLOCK_BYTES
        block = self._read(self._fence.offset + start, min(_BLOCK_BYTES, self._fence.count * _SIZE - start))
        if sha256(block).digest() != self._fence.hashes[number]:
            raise self._wrong(f"block {number} of its digests is not what was written")
        return block
