"""Container format of trails, contexts and proofs: tagged sections after a magic, a digest at the end.

::

    "PPLS" · version u8 · kind u8 · section* · FF · 20 · SHA-256 of all before these 32 bytes
    section: tag u8 · length varint · bytes

Tags strictly increase, so that equal content has equal bytes; a reader keeps unknown sections.
All lengths are checked before memory is allocated: a hostile length cannot allocate more than the input has.
"""

from __future__ import annotations

__all__ = [
    "CONTAINER_BYTES_MAX",
    "CONTAINER_VERSION",
    "KIND_CONTEXT",
    "KIND_PROOF",
    "KIND_TRAIL",
    "KIND_TRAILS",
    "MAGIC",
    "kind_of",
    "pack",
    "unpack",
]

import hashlib
from collections.abc import Mapping
from typing import Final

from periplus.base.encoding.varint import append_uint, read_uint
from periplus.base.errors import FormatError, NewerFormatError

MAGIC: Final = b"PPLS"
CONTAINER_VERSION: Final = 2
KIND_TRAIL: Final = 1
KIND_CONTEXT: Final = 2
KIND_PROOF: Final = 3
KIND_TRAILS: Final = 4
CONTAINER_BYTES_MAX: Final = 1 << 30
_TAG_END: Final = 0xFF
_TRAILER: Final = 2 + 32


def pack(kind: int, sections: Mapping[int, bytes | bytearray]) -> bytes:
    """Encode a container of ``kind`` with ``sections`` (tag 0 … 254 → bytes)."""
    out = bytearray(MAGIC)
    out += bytes((CONTAINER_VERSION, kind))
    for tag in sorted(sections):
        assert 0 <= tag < _TAG_END, tag
        out.append(tag)
        append_uint(out, len(sections[tag]))
        out += sections[tag]
    out += bytes((_TAG_END, 32))
    out += hashlib.sha256(out).digest()
    return bytes(out)


def kind_of(data: bytes) -> int | None:
    """Return the kind that the first bytes claim, None where they are no container. Checks nothing else."""
    return data[5] if len(data) > 5 and data[:4] == MAGIC else None


def unpack(data: bytes, kind: int) -> dict[int, tuple[int, int]]:
    """Return the place of each section: tag → ``(start, end)`` in bytes of ``data``.

    Raises FormatError with the offset of the first error, NewerFormatError for a later version.
    """
    if len(data) > CONTAINER_BYTES_MAX:
        raise FormatError(f"over {CONTAINER_BYTES_MAX:,} bytes", offset=0)
    if data[:4] != MAGIC:
        raise FormatError("not a Periplus file: it does not begin with PPLS", offset=0)
    if len(data) < 6 + _TRAILER:
        raise FormatError("cut off: shorter than an empty container", offset=len(data))
    if data[4] > CONTAINER_VERSION:
        # A valid digest rules out a flipped bit: later versions keep the trailer.
        if hashlib.sha256(data[:-32]).digest() == data[-32:]:
            raise NewerFormatError(
                f"container version {data[4]}; this Periplus reads up to {CONTAINER_VERSION}",
                offset=4,
                safe="The file is sound.",
                mend="Update Periplus.",
            )
        raise FormatError("container version unknown and digest wrong", offset=4)
    if data[4] != CONTAINER_VERSION:
        raise FormatError(f"container version {data[4]} unknown", offset=4)
    if data[5] != kind:
        raise FormatError(f"container of kind {data[5]} where kind {kind} was expected", offset=5)
    sections = _walk(data)
    if hashlib.sha256(memoryview(data)[:-32]).digest() != data[-32:]:
        raise FormatError("digest does not match: some byte before it was changed", offset=len(data) - 32)
    return sections


def _walk(data: bytes) -> dict[int, tuple[int, int]]:
    end = len(data)
    sections: dict[int, tuple[int, int]] = {}
    at = 6
    previous = -1
    while True:
        if at >= end:
            raise FormatError("cut off: no digest at the end", offset=end)
        tag = data[at]
        length, start = read_uint(data, at + 1, end)
        if length > end - start:
            raise FormatError(f"section {tag:#04x} is cut off: {length:,} bytes announced", offset=at)
        if tag <= previous:
            raise FormatError(f"section {tag:#04x} out of order", offset=at)
        if tag == _TAG_END:
            if length != 32:
                raise FormatError("digest section is not 32 bytes", offset=at)
            if start + 32 != end:
                raise FormatError("bytes after the digest", offset=start + 32)
            return sections
        sections[tag] = (start, start + length)
        previous = tag
        at = start + length
