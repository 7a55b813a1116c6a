"""Objects and chunks that are larger than a frame: split into parts by the sender, assembled and verified by the
receiver.
"""

from __future__ import annotations

__all__ = ["Assembler", "chunk_frames", "object_frames"]

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final, NamedTuple

from periplus.context.model import Chunk, Entry
from periplus.context.wire.error_codes import ProtocolError, WireError
from periplus.context.wire.limits import Limits
from periplus.context.wire.payload_codec import Codec
from periplus.context.wire.payloads import ObjectPart, StreamChunk, WireOversize, payload_of_chunk, rows_of

_PART_OVERHEAD: Final = 96
_JSON_PART_OVERHEAD: Final = 192
_BODY_OVERHEAD: Final = 128


class Whole(NamedTuple):
    digest: bytes
    data: bytes


class Assembler:
    """Assemble objects from their parts. Memory grows with the received bytes, not with an announced size."""

    __slots__ = ("_data", "_digest", "_total", "_wanted", "object_bytes_max")

    def __init__(self, object_bytes_max: int, wanted: Iterable[bytes] | None = None) -> None:
        self.object_bytes_max = object_bytes_max
        self._wanted = None if wanted is None else list(reversed(list(wanted)))
        self._digest: bytes | None = None
        self._total = 0
        self._data = bytearray()

    @property
    def held_bytes(self) -> int:
        return len(self._data)

    def feed(self, parts: Iterable[ObjectPart]) -> list[Whole]:
        """Return the objects completed by ``parts``. Raises ProtocolError for a part out of order, too large, not
        requested, or not verified.
        """
        done = []
        for part in parts:
            if part.total > self.object_bytes_max:
                raise ProtocolError("an object is larger than was agreed")
            if self._digest is None:
                self._begin(part)
            elif part.digest != self._digest or part.total != self._total:
                raise ProtocolError("the parts of two objects are mixed")
            if part.offset != len(self._data) or part.offset + len(part.data) > part.total:
                raise ProtocolError("a part of an object is out of its place")
            if not part.data and part.total:
                raise ProtocolError("a part of an object is empty")
            self._data += part.data
            if len(self._data) == part.total:
                done.append(self._finish(part.digest))
        return done

    def finish(self) -> None:
        """Raise ProtocolError if an object is incomplete at the end."""
        if self._digest is not None or self._wanted:
            raise ProtocolError("a transfer of objects ends before it is complete")

    def _begin(self, part: ObjectPart) -> None:
        if self._wanted is not None and (not self._wanted or self._wanted.pop() != part.digest):
            raise ProtocolError("an object came that was not asked for, or not in the order in which it was")
        self._digest = part.digest
        self._total = part.total

    def _finish(self, digest: bytes) -> Whole:
        data = bytes(self._data)
        if sha256(data).digest() != digest:
            raise ProtocolError("an object does not have the digest under which it came")
        self._digest = None
        self._data = bytearray()
        return Whole(digest, data)


def object_frames(
    objects: Iterable[tuple[bytes, bytes]], codec: Codec, limits: Limits
) -> Iterator[tuple[ObjectPart, ...]]:
    """Yield the parts for one frame after another, read from ``objects`` on demand. Raises WireError for an object that
    is too large.
    """
    is_json = codec.encoding == "json"
    overhead = _JSON_PART_OVERHEAD if is_json else _PART_OVERHEAD
    room = (limits.frame_bytes - _BODY_OVERHEAD) * 3 // 4 if is_json else limits.frame_bytes - _BODY_OVERHEAD
    parts: list[ObjectPart] = []
    free = room
    for digest, data in objects:
        if len(data) > limits.object_bytes:
            raise WireError(f"object {digest.hex()} has {len(data)} bytes, {limits.object_bytes} were agreed")
        offset = 0
        while True:
            if parts and (free <= overhead * 2 or len(parts) >= limits.digests):
                yield tuple(parts)
                parts, free = [], room
            piece = data[offset : offset + free - overhead]
            parts.append(ObjectPart(digest, offset, len(data), piece))
            free -= len(piece) + overhead
            offset += len(piece)
            if offset >= len(data):
                break
    if parts:
        yield tuple(parts)


def chunk_frames(chunk: Chunk, codec: Codec, limits: Limits) -> Iterator[bytes]:
    """Yield ``chunk`` as the payloads of the necessary frames, mostly one. Raises WireError if a single atom fits no
    frame.
    """
    if len(chunk.entries) <= limits.atoms:
        whole = codec.payload(payload_of_chunk(chunk))
        if len(whole) <= limits.frame_bytes:
            yield whole
            return
    if len(chunk.proof) > limits.object_bytes:
        raise WireError("the proof of a chunk is larger than was agreed")
    pieces = list(_entry_pieces(chunk.entries, codec, limits))
    proofs = list(_byte_pieces(chunk.proof, (limits.frame_bytes - 2 * _BODY_OVERHEAD) * 3 // 4))
    start = chunk.start
    frames: list[tuple[tuple[Entry, ...], tuple[WireOversize, ...], bytes]] = [(entries, (), b"") for entries in pieces]
    frames += [((), (WireOversize(*row),), b"") for row in chunk.over]
    frames += [((), (), proof) for proof in proofs]
    for place, (entries, over, proof) in enumerate(frames):
        atoms, origins, origin_of = rows_of(entries)
        yield codec.payload(StreamChunk(
            chunk.chunk_id, start, atoms, origins, origin_of, chunk.cumulative_tokens, chunk.progress_millionths, chunk.is_final,
            proof, more=place + 1 < len(frames), over=over,
        ))  # fmt: skip
        start += len(atoms)


def _entry_pieces(entries: tuple[Entry, ...], codec: Codec, limits: Limits) -> Iterator[tuple[Entry, ...]]:
    """Halve the entries until each piece fits a frame. The depth is the logarithm of their number."""
    if not entries:
        return
    atoms, origins, origin_of = rows_of(entries)
    room = limits.frame_bytes - 2 * _BODY_OVERHEAD
    if len(entries) <= limits.atoms and len(codec.payload(StreamChunk(0, 0, atoms, origins, origin_of))) <= room:
        yield entries
        return
    if len(entries) == 1:
        raise WireError(f"atom {entries[0].digest.hex()} is larger than a frame of {limits.frame_bytes} bytes")
    middle = len(entries) // 2
    yield from _entry_pieces(entries[:middle], codec, limits)
    yield from _entry_pieces(entries[middle:], codec, limits)


def _byte_pieces(data: bytes, size: int) -> Iterator[bytes]:
    for offset in range(0, len(data), size):
        yield data[offset : offset + size]
