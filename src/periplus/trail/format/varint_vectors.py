"""Decode many varints at once in plain Python: one operation on a large int works on a whole chunk.

The bytes of a chunk are widened to lanes of 16 bits, or of 32 if a number has three or four bytes, and all lanes
together are one large int. A mask or shift of that int changes every lane at once: the first bytes of a number are
moved into the lane of its last byte, and only those lanes are read. Numbers of over four bytes are rare: a chunk that
has one is read number by number.
"""

from __future__ import annotations

__all__ = ["count_numbers", "decode_chunk", "flat_numbers", "number_chunks", "unzigzag_all"]

import sys
from array import array
from collections.abc import Iterator
from itertools import chain, compress
from typing import Final

from periplus.base.encoding.varint import read_uint
from periplus.base.errors import FormatError

_CHUNK_BYTES: Final = 4096
_KINDS: Final = bytes(
    [2] + [1] * 127 + [0] * 128
)  # class of each byte: 0 for all but the last byte of a number, 2 for a last byte of 0


def flat_numbers(data: bytes, start: int, end: int) -> Iterator[int]:
    """Yield the numbers at ``start … end``, which must be sound, and decode at most one chunk ahead."""
    return chain.from_iterable(map(decode_chunk, number_chunks(data, start, end)))


def number_chunks(data: bytes, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes at ``start … end`` in chunks, none of which ends within a number."""
    at = start
    while at < end:
        stop = min(at + _CHUNK_BYTES, end)
        while stop < end and data[stop - 1] > 127:
            stop += 1
        yield data[at:stop]
        at = stop


def decode_chunk(chunk: bytes) -> list[int]:
    """Return the numbers of ``chunk``, whose last number is complete. Raises FormatError if one is not sound."""
    if chunk.isascii():
        return list(chunk)
    kinds = chunk.translate(_KINDS)
    if b"\0\2" in kinds:
        raise FormatError("number not in its shortest form", offset=kinds.index(b"\0\2"))
    if b"\0\0" not in kinds:
        return list(compress(_lanes("H", _of_two_bytes(chunk), 2 * len(chunk)), kinds))
    if b"\0\0\0\0" not in kinds and array("I").itemsize == 4:
        return list(compress(_lanes("I", _of_four_bytes(chunk), 4 * len(chunk)), kinds))
    found = []
    at, end = 0, len(chunk)
    while at < end:
        number, at = read_uint(chunk, at, end)
        found.append(number)
    return found


def count_numbers(chunk: bytes) -> tuple[int, int]:
    """Return the number of numbers in ``chunk``, and the bytes of the longest: 1 to 4, or 5 for a longer one and for
    one that is not in its shortest form.
    """
    kinds = chunk.translate(_KINDS)
    numbers = len(kinds) - kinds.count(0)
    if b"\0\2" in kinds:
        return numbers, 5
    return numbers, next((size for size in range(1, 5) if bytes(size) not in kinds), 5)


def unzigzag_all(numbers: list[int]) -> list[int]:
    return [number >> 1 ^ -(number & 1) for number in numbers]


def _lanes(kind: str, wide: int, size: int) -> array[int]:
    lanes = array(kind, wide.to_bytes(size, "little"))
    if sys.byteorder == "big":
        lanes.byteswap()
    return lanes


def _of_two_bytes(chunk: bytes) -> int:
    """Return each number, of one or two bytes, in the lane of its last byte."""
    wide = int.from_bytes(chunk.decode("latin-1").encode("utf-16-le"), "little")
    whole = (1 << 16 * len(chunk)) - 1
    ones = whole // 0xFFFF
    low = wide & ones * 127
    second = (wide & ones << 7) << 9 & whole  # 1 in each second byte of a number
    mask = (second << 7) - second
    return low + (low & mask) * 127 + (low << 16 & mask)


def _of_four_bytes(chunk: bytes) -> int:
    """Return each number, of at most four bytes, in the lane of its last byte."""
    wide = int.from_bytes(chunk.decode("latin-1").encode("utf-32-le"), "little")
    whole = (1 << 32 * len(chunk)) - 1
    ones = whole // 0xFFFFFFFF
    low = wide & ones * 127
    later = (wide & ones << 7) << 25 & whole  # 1 in each byte of a number except the first
    third = later & later << 32
    fourth = third & later << 64
    low += (low & (later << 7) - later) * 127  # shift left by seven bits for each byte before it
    low += (low & (third << 14) - third) * 127
    low += (low & (fourth << 21) - fourth) * 127
    return (
        low
        + (low << 32 & (later << 28) - later)
        + (low << 64 & (third << 28) - third)
        + (low << 96 & (fourth << 28) - fourth)
    )
