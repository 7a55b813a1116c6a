"""Concatenation: several trails in one file, each of them whole, in order.

A concatenation is a container of its own kind. It holds the files of its parts unchanged, so each keeps its header,
digest, status, secret and signature, and a part may be redacted; its digest covers the digests of the parts in their
order. It is flat: concatenating concatenations yields the parts of all, so the result does not depend on the grouping,
only on the order.

``open_parts`` is for every reader of trails: it returns one reader for a plain trail and one a part for a
concatenation.
"""

from __future__ import annotations

__all__ = ["Parts", "concat", "is_concatenation", "open_parts", "parts_digest"]

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from periplus.base.encoding.container import CONTAINER_BYTES_MAX, KIND_TRAILS, kind_of, pack, unpack
from periplus.base.encoding.varint import append_uint, read_uint, uint_bytes
from periplus.base.errors import FormatError, NewerFormatError, UsageError
from periplus.trail.format import layout
from periplus.trail.format.reader import TrailReader

_DIGEST_PREFIX: Final = b"PPLS/trail-parts/2\x00"
_KNOWN_TAGS: Final = frozenset({layout.TAG_PARTS, layout.TAG_DIGEST, layout.TAG_SIGNATURE})


class Parts:
    """The concatenation in ``data``: its framing is checked when it is opened, a part when it is asked for.

    Raises FormatError with the byte offset of the first fault, NewerFormatError for a file of a later version.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._sections = unpack(data, KIND_TRAILS)
        for tag in (layout.TAG_PARTS, layout.TAG_DIGEST):
            if tag not in self._sections:
                raise FormatError(f"section {tag:#04x} is missing", offset=len(data))
        self._spans = _spans(data, *self._sections[layout.TAG_PARTS])
        for tag, size in ((layout.TAG_DIGEST, 32), (layout.TAG_SIGNATURE, layout.SIGNATURE_BYTES)):
            start, end = self._sections.get(tag, (0, size))
            if end - start != size:
                raise FormatError(f"section {tag:#04x} of the wrong size", offset=start)

    def __len__(self) -> int:
        return len(self._spans)

    @property
    def digest(self) -> bytes:
        """The digest of the concatenation as stored in the file."""
        return self._section(layout.TAG_DIGEST)

    def span(self, tag: int) -> tuple[int, int]:
        """Return the offsets of a section that the concatenation has."""
        return self._sections[tag]

    @property
    def signature(self) -> bytes | None:
        """Public key (32) and Ed25519 signature (64), or None."""
        return self._section(layout.TAG_SIGNATURE) if layout.TAG_SIGNATURE in self._sections else None

    @property
    def extra(self) -> dict[int, bytes]:
        """The sections with tags that this version does not know."""
        return {tag: self._section(tag) for tag in self._sections if tag not in _KNOWN_TAGS}

    def file(self, index: int) -> bytes:
        """Return the whole file of part ``index``, counted from 0."""
        start, end = self._spans[index]
        return self._data[start:end]

    def files(self) -> list[bytes]:
        return [self._data[start:end] for start, end in self._spans]

    def offset(self, index: int) -> int:
        """Return the offset of part ``index`` in the file."""
        return self._spans[index][0]

    def readers(self) -> tuple[TrailReader, ...]:
        """Return a reader of each part. Raises FormatError that names the part; its offset is that in the whole file."""
        readers = tuple(self._reader(index) for index in range(len(self._spans)))
        if parts_digest([reader.digest for reader in readers]) != self.digest:
            raise FormatError(
                "the digest does not match these parts in this order", offset=self.span(layout.TAG_DIGEST)[0]
            )
        return readers

    def with_files(self, files: Sequence[bytes]) -> bytes:
        """Return the same concatenation with ``files`` in place of its parts: the same trails, each redacted or not.

        A signature stays valid. Sections of a newer version are left out, because it is unknown what they would give
        away.
        """
        kept = {layout.TAG_SIGNATURE: self.signature} if self.signature is not None else {}
        data = _packed(files, kept)
        if Parts(data).digest != self.digest:
            raise UsageError("the parts given are other trails than those of the concatenation")
        return data

    def with_signature(self, signature: bytes) -> bytes:
        sections = {tag: self._section(tag) for tag in self._sections}
        return pack(KIND_TRAILS, {**sections, layout.TAG_SIGNATURE: signature})

    def to_bytes(self) -> bytes:
        return self._data

    def _section(self, tag: int) -> bytes:
        start, end = self._sections[tag]
        return self._data[start:end]

    def _reader(self, index: int) -> TrailReader:
        start, _ = self._spans[index]
        try:
            return TrailReader(self.file(index))
        except (FormatError, NewerFormatError) as error:
            raise type(error)(
                f"part {index + 1}: {error.wrong}",
                offset=start + (error.offset or 0),
                safe=error.safe,
                mend=error.mend,
            ) from error


def is_concatenation(data: bytes) -> bool:
    """Return whether the bytes claim to be a concatenation."""
    return kind_of(data) == KIND_TRAILS


def open_parts(data: bytes) -> tuple[TrailReader, ...]:
    """Return a reader for each trail in ``data``: one for a plain trail, one for each part of a concatenation.

    Raises FormatError or NewerFormatError if the file or one of its parts is no trail.
    """
    return Parts(data).readers() if is_concatenation(data) else (TrailReader(data),)


def concat(files: Iterable[bytes]) -> bytes:
    """Join the trails in ``files``, in order, to one file; a concatenation among them contributes its parts.

    The signature of such a concatenation, and its sections of a newer version, belong to that file and are left out;
    the signatures of the parts stay. Raises FormatError if one of the files is no trail, UsageError if there are none
    or too many.
    """
    parts: list[bytes] = []
    for data in files:
        if is_concatenation(data):
            parts.extend(Parts(data).files())
        else:
            parts.append(data)
    if not parts:
        raise UsageError("nothing to concatenate", mend="Name at least one trail.")
    if len(parts) > layout.PARTS_MAX:
        raise UsageError(f"{len(parts):,} parts, and a concatenation has at most {layout.PARTS_MAX:,}")
    if sum(map(len, parts)) > CONTAINER_BYTES_MAX - 10 * (len(parts) + 20):
        raise UsageError(f"together the trails have over {CONTAINER_BYTES_MAX:,} bytes")
    return _packed(parts, {})


def parts_digest(digests: Sequence[bytes]) -> bytes:
    """Return the digest of the concatenation of trails with these digests, in this order."""
    return hashlib.sha256(_DIGEST_PREFIX + uint_bytes(len(digests)) + b"".join(digests)).digest()


def _packed(files: Sequence[bytes], others: Mapping[int, bytes]) -> bytes:
    section = bytearray(uint_bytes(len(files)))
    digests: list[bytes] = []
    for data in files:
        digests.append(TrailReader(data).digest)
        append_uint(section, len(data))
        section += data
    return pack(KIND_TRAILS, {**others, layout.TAG_PARTS: section, layout.TAG_DIGEST: parts_digest(digests)})


def _spans(data: bytes, start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Return the offsets of the parts. Only their lengths are read."""
    count, at = read_uint(data, start, end)
    if not count:
        raise FormatError("a concatenation of nothing", offset=start)
    if count > layout.PARTS_MAX or count > end - at:
        raise FormatError(f"{count:,} parts announced, more than there is room for", offset=start)
    spans: list[tuple[int, int]] = []
    for _ in range(count):
        begin = at
        length, at = read_uint(data, at, end)
        if length > end - at:
            raise FormatError(f"part {len(spans) + 1} is cut off: {length:,} bytes announced", offset=begin)
        spans.append((at, at + length))
        at += length
    if at != end:
        raise FormatError("bytes after the last part", offset=at)
    return tuple(spans)
