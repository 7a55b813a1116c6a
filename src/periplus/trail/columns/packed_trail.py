"""A trail as it lies in the object store: its numbers in columns, without what can be computed, packed as one.

``pack`` takes the bytes of a trail file apart and ``unpack`` gives just these bytes again; nothing but the store sees
the form between. What is left out is computed: the receipts (of trails that are not too long to hash at every reading),
the digest of the container, lengths of sections, steps and texts, and the indices of strings that are used for the
first time. ``pack`` puts together what it took apart and compares, and says None where that is not the trail, for whatever reason:
the store then keeps the file in another form. So nothing here has to be right for the trail to be safe.

Rules kept here: an announced size is checked before memory is taken; whatever the bytes, ``unpack`` gives a trail file or
raises FormatError; a byte that was changed is found, by the checksum where it changes nothing else.
"""

from __future__ import annotations

__all__ = ["RESTED_BYTES_MAX", "mended", "pack", "remains", "unpack"]

from binascii import crc_hqx
from collections.abc import Iterator
from typing import Final

from periplus.base.encoding import container
from periplus.base.encoding.container import KIND_TRAIL, kind_of
from periplus.base.encoding.varint import read_uint, uint_bytes
from periplus.base.errors import FormatError, NewerFormatError
from periplus.base.lzma_preset import pack_alone, pack_primed, unpack_alone, unpack_primed
from periplus.trail.columns.column_reader import Restored
from periplus.trail.columns.column_writer import Taken
from periplus.trail.format import layout
from periplus.trail.format.reader import TrailReader

RESTED_BYTES_MAX: Final = 8 << 20  # of a trail: a longer one is kept as other objects are
_PRIMED_BYTES_MAX: Final = 128 << 10  # of columns: for longer ones what is known before no longer counts, and time does

_PRIMED: Final = 1
_ALONE: Final = 2
_MENDED_BYTES_MAX: Final = 64 << 10  # of a file: a longer one is unpacked too often, each time too long
_HEAD_BYTES: Final = 3  # form u8, checksum u16


def pack(data: bytes) -> bytes | None:
    """The trail in ``data`` as it is to lie in the store; None for what is no trail, or does better in another form."""
    if kind_of(data) != KIND_TRAIL or len(data) > RESTED_BYTES_MAX:
        return None
    try:
        taken = Taken(data)
        columns, raw = taken.columns()
        if len(columns) > len(data):
            return None
        packed = _packed(columns, raw, len(data))
        restored = Restored(*_unpacked(packed))
        restored.read()
        sections = restored.sections()
        if not restored.receipts:
            sections[layout.TAG_RECEIPTS] = taken.section(layout.TAG_RECEIPTS)  # they are what is computed: it was seen
        return packed if container.pack(KIND_TRAIL, sections) == data else None
    except (FormatError, NewerFormatError, IndexError):
        return None  # not as trails of this version are: it is kept as it is


def unpack(packed: bytes) -> bytes:
    """The bytes of the trail that ``pack`` made ``packed`` of. Raises FormatError where it is not that."""
    columns, raw, length = _unpacked(packed)
    restored = Restored(columns, raw, length)
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


def remains(packed: bytes) -> bytes:
    """What a damaged file still gives: a trail file with the strings that are left, or as much of its steps; or nothing."""
    try:
        columns, raw, length = _unpacked(packed, is_lenient=True)
    except FormatError:
        return b""
    restored = Restored(columns, raw, length)
    try:
        restored.read()
    except (FormatError, IndexError):
        pass  # what came before it is what was asked for
    return container.pack(KIND_TRAIL, restored.sections()) if restored.kinds else b""


def mended(packed: bytes) -> Iterator[bytes]:
    """The trails that a damaged file may have held if one byte of it was changed: whoever knows the digest knows which.

    In each place the checksum allows one value at most, and hardly any in most: of a file of n bytes some n / 257 are tried.
    """
    if not _HEAD_BYTES < len(packed) <= _MENDED_BYTES_MAX:
        return
    for candidate in _with_one_byte_changed(packed):
        try:
            yield unpack(candidate)
        except FormatError:
            continue


def _with_one_byte_changed(packed: bytes) -> Iterator[bytes]:
    """Files whose checksum holds and that differ from ``packed`` in one byte."""
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
        high = high_of[differs & 0xFF]  # what the checksum's difference was one byte before
        differs = high << 8 | (differs ^ table[high]) >> 8


# The file


def _packed(columns: bytes, raw: bytes, length: int) -> bytes:
    form = _PRIMED if len(columns) <= _PRIMED_BYTES_MAX else _ALONE
    stream = pack_primed(columns) if form == _PRIMED else pack_alone(columns)
    if stream is None:
        form, stream = _ALONE, pack_alone(columns)
    sizes = uint_bytes(length) + uint_bytes(len(columns)) + uint_bytes(len(stream))
    body = b"".join((sizes, raw[: layout.SECRET_BYTES], stream, raw[layout.SECRET_BYTES :]))
    return bytes((form,)) + crc_hqx(body, form ^ len(body) & 0xFFFF).to_bytes(2, "big") + body


def _unpacked(packed: bytes, *, is_lenient: bool = False) -> tuple[bytes, bytes, int]:
    """Columns, what was not packed, and the length of the trail."""
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
    unpacked = unpack_primed if form == _PRIMED else unpack_alone
    columns = unpacked(stream, columns_length, is_lenient=is_lenient)
    if len(columns) != columns_length and not is_lenient:
        raise FormatError("cut off: the packed columns do not end", offset=end)
    return columns, raw, length
