"""The form of a trail in the object store: its numbers in columns, without what can be computed, packed together.

``pack`` takes the bytes of a trail file apart and ``unpack`` returns exactly these bytes; only the store sees the
packed form. Computed values are left out: the receipts (of trails short enough to be hashed at every reading), the
digest of the container, lengths of sections, steps and texts, and the indices of strings at their first use. ``pack``
unpacks its own result, compares, and returns None if they differ for any reason; the store then keeps the file in
another form. So a fault in this module cannot harm a trail.

Rules: an announced size is checked before memory is allocated; for any bytes, ``unpack`` returns a trail file or raises
FormatError; a changed byte is detected, by the checksum if by nothing else.
"""

from __future__ import annotations

__all__ = ["RESTED_BYTES_MAX", "pack", "readable_part", "repair_candidates", "unpack"]

from binascii import crc_hqx
from collections.abc import Iterator
from typing import Final

from periplus.base.encoding import container
from periplus.base.encoding.container import KIND_TRAIL, kind_of
from periplus.base.encoding.varint import read_uint, uint_bytes
from periplus.base.errors import FormatError, NewerFormatError
from periplus.base.lzma_preset import pack_alone, pack_with_preset, unpack_alone, unpack_with_preset
from periplus.trail.columns.column_reader import ColumnReader
from periplus.trail.columns.column_writer import ColumnWriter
from periplus.trail.format import layout
from periplus.trail.format.reader import TrailReader

RESTED_BYTES_MAX: Final = 8 << 20  # longer trails are kept like other objects
_PRIMED_BYTES_MAX: Final = 128 << 10  # longer columns gain nothing from the preset dictionary, and cost more time

_PRIMED: Final = 1
_ALONE: Final = 2
_MENDED_BYTES_MAX: Final = 64 << 10  # longer files would take too many attempts, each of them too slow
_HEAD_BYTES: Final = 3  # form u8, checksum u16


def pack(data: bytes) -> bytes | None:
    """Return the trail in ``data`` in the form for the store; None for bytes that are no trail or pack better in
    another form.
    """
    if kind_of(data) != KIND_TRAIL or len(data) > RESTED_BYTES_MAX:
        return None
    try:
        taken = ColumnWriter(data)
        columns, raw = taken.columns()
        if len(columns) > len(data):
            return None
        packed = _packed(columns, raw, len(data))
        restored = ColumnReader(*_unpacked(packed))
        restored.read()
        sections = restored.sections()
        if not restored.receipts:
            sections[layout.TAG_RECEIPTS] = taken.section(layout.TAG_RECEIPTS)  # known to equal the computed ones
        return packed if container.pack(KIND_TRAIL, sections) == data else None
    except (FormatError, NewerFormatError, IndexError):
        return None  # not a trail of this version: the store keeps it unchanged


def unpack(packed: bytes) -> bytes:
    """Return the bytes of the trail that ``pack`` packed. Raises FormatError for any other bytes."""
    columns, raw, length = _unpacked(packed)
    restored = ColumnReader(columns, raw, length)
    try:
        restored.read()
        sections = restored.sections()
        data = container.pack(KIND_TRAIL, sections)
        if not restored.receipts:
            sections[layout.TAG_RECEIPTS] = TrailReader(data).computed_identity().receipts_section()
            data = container.pack(KIND_TRAIL, sections)
    except IndexError:
        raise FormatError("columns cut off", offset=_HEAD_BYTES) from None
    except NewerFormatError as error:
        raise FormatError(error.wrong, offset=_HEAD_BYTES) from error
    if len(data) != length:
        raise FormatError(f"a trail of {len(data):,} bytes where {length:,} were announced", offset=_HEAD_BYTES)
    return data


def readable_part(packed: bytes) -> bytes:
    """Return what a damaged file still yields: a trail file with the strings that are left, or with fewer steps; or
    nothing.
    """
    try:
        columns, raw, length = _unpacked(packed, is_lenient=True)
    except FormatError:
        return b""
    restored = ColumnReader(columns, raw, length)
    try:
        restored.read()
    except (FormatError, IndexError):
        pass  # keep what was read before the fault
    return container.pack(KIND_TRAIL, restored.sections()) if restored.kinds else b""


def repair_candidates(packed: bytes) -> Iterator[bytes]:
    """Yield the trails that a damaged file may have held if one byte of it was changed; the digest tells which one is
    right.

    At each place the checksum allows at most one value, and at most places none: for a file of n bytes some n / 257 are
    tried.
    """
    if not _HEAD_BYTES < len(packed) <= _MENDED_BYTES_MAX:
        return
    for candidate in _with_one_byte_changed(packed):
        try:
            yield unpack(candidate)
        except FormatError:
            continue


def _with_one_byte_changed(packed: bytes) -> Iterator[bytes]:
    """Yield the files with a valid checksum that differ from ``packed`` in one byte."""
    body = packed[_HEAD_BYTES:]
    for form in (_PRIMED, _ALONE):
        seal = crc_hqx(body, form ^ len(body) & 0xFFFF).to_bytes(2, "big")
        if (form != packed[0]) + (seal[0] != packed[1]) + (seal[1] != packed[2]) == 1:
            yield bytes((form,)) + seal + body
    table = [crc_hqx(bytes((value,)), 0) for value in range(256)]
    change_of = {table[value]: value for value in range(1, 256)}
    high_of = {told & 0xFF: high for high, told in enumerate(table)}
    differs = crc_hqx(body, packed[0] ^ len(body) & 0xFFFF) ^ int.from_bytes(packed[1:_HEAD_BYTES], "big")
    for at in range(len(packed) - 1, _HEAD_BYTES - 1, -1):
        change = change_of.get(differs)
        if change is not None:
            yield packed[:at] + bytes((packed[at] ^ change,)) + packed[at + 1 :]
        high = high_of[differs & 0xFF]  # difference of the checksum one byte earlier
        differs = high << 8 | (differs ^ table[high]) >> 8


# The file


def _packed(columns: bytes, raw: bytes, length: int) -> bytes:
    form = _PRIMED if len(columns) <= _PRIMED_BYTES_MAX else _ALONE
    stream = pack_with_preset(columns) if form == _PRIMED else pack_alone(columns)
    if stream is None:
        form, stream = _ALONE, pack_alone(columns)
    sizes = uint_bytes(length) + uint_bytes(len(columns)) + uint_bytes(len(stream))
    body = b"".join((sizes, raw[: layout.SECRET_BYTES], stream, raw[layout.SECRET_BYTES :]))
    return bytes((form,)) + crc_hqx(body, form ^ len(body) & 0xFFFF).to_bytes(2, "big") + body


def _unpacked(packed: bytes, *, is_lenient: bool = False) -> tuple[bytes, bytes, int]:
    """Return the columns, the unpacked bytes, and the length of the trail."""
    end = len(packed)
    if end < _HEAD_BYTES:
        raise FormatError("cut off", offset=end)
    form = packed[0]
    if form not in (_PRIMED, _ALONE):
        raise FormatError(f"trail at rest in form {form}, which is unknown", offset=0)
    if not is_lenient:
        check = crc_hqx(memoryview(packed)[_HEAD_BYTES:], form ^ (end - _HEAD_BYTES) & 0xFFFF)
        if check != int.from_bytes(packed[1:_HEAD_BYTES], "big"):
            raise FormatError("checksum does not match: some byte was changed, or it is cut off", offset=1)
    length, at = read_uint(packed, _HEAD_BYTES, end)
    columns_length, at = read_uint(packed, at, end)
    stream_length, at = read_uint(packed, at, end)
    if length > RESTED_BYTES_MAX or columns_length > length:
        raise FormatError(f"a trail of {length:,} bytes in columns of {columns_length:,}", offset=_HEAD_BYTES)
    at += layout.SECRET_BYTES
    if stream_length > end - at and not is_lenient:
        raise FormatError("cut off", offset=end)
    stream = packed[at : at + stream_length]
    raw = packed[at - layout.SECRET_BYTES : at] + packed[at + stream_length :]
    unpacked = unpack_with_preset if form == _PRIMED else unpack_alone
    columns = unpacked(stream, columns_length, is_lenient=is_lenient)
    if len(columns) != columns_length and not is_lenient:
        raise FormatError("cut off: the packed columns do not end", offset=end)
    return columns, raw, length
