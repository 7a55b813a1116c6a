"""LEB128 variable-length integers: at most 10 bytes, 64 bits, shortest form only.

Signed numbers are mapped by zigzag (0, -1, 1, -2 … become 0, 1, 2, 3 …).
"""

from __future__ import annotations

__all__ = ["UINT_MAX", "append_uint", "read_uint", "uint_bytes", "unzigzag", "zigzag"]

from typing import Final

from periplus.base.errors import FormatError

UINT_MAX: Final = 2**64 - 1
_ONE_BYTE: Final = [bytes((value,)) for value in range(128)]
_CONTINUED: Final = [bytes((value | 0x80,)) for value in range(128)]


def append_uint(out: bytearray, value: int) -> None:
    """Append ``value`` (0 … 2^64 − 1) to ``out``."""
    assert 0 <= value <= UINT_MAX, value
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def uint_bytes(value: int) -> bytes:
    if 0 <= value < 128:
        return _ONE_BYTE[value]
    if 128 <= value < 1 << 14:
        return _CONTINUED[value & 0x7F] + _ONE_BYTE[value >> 7]
    if 128 <= value < 1 << 21:
        return _CONTINUED[value & 0x7F] + _CONTINUED[value >> 7 & 0x7F] + _ONE_BYTE[value >> 14]
    out = bytearray()
    append_uint(out, value)
    return bytes(out)


def read_uint(data: bytes | memoryview, offset: int, end: int) -> tuple[int, int]:
    """Return ``(value, next offset)`` of the number at ``offset``; read no byte at or after ``end``.

    Raises FormatError with the offset where the number is cut off, over 64 bits or not in its shortest form.
    """
    value = 0
    shift = 0
    at = offset
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 and shift:
                raise FormatError("number not in its shortest form", offset=offset)
            if value > UINT_MAX:
                raise FormatError("number over 64 bits", offset=offset)
            return value, at
        shift += 7
        if shift > 63:
            raise FormatError("number over 10 bytes", offset=offset)
    raise FormatError("number cut off", offset=offset)


def zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def unzigzag(value: int) -> int:
    return value >> 1 if not value & 1 else -((value + 1) >> 1)
