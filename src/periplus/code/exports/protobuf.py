"""Fields of Protocol Buffers messages (https://protobuf.dev/programming-guides/encoding/), as far as SCIP has them.

A field with its default value is left out, as proto3 does; repeated numbers are packed.
"""

from __future__ import annotations

__all__ = ["message_field", "packed_field", "text_field", "uint_field"]

from collections.abc import Iterable
from typing import Final

from periplus.base.encoding.varint import uint_bytes

_VARINT: Final = 0
_DELIMITED: Final = 2


def uint_field(number: int, value: int) -> bytes:
    """Return a number that is not negative, an enum or a bool."""
    return uint_bytes(number << 3 | _VARINT) + uint_bytes(value) if value else b""


def text_field(number: int, text: str) -> bytes:
    """Return a string, which may hold no lone surrogates."""
    return message_field(number, text.encode()) if text else b""


def message_field(number: int, content: bytes) -> bytes:
    """Return bytes, a message or an element of a repeated field, also an empty one."""
    return uint_bytes(number << 3 | _DELIMITED) + uint_bytes(len(content)) + content


def packed_field(number: int, values: Iterable[int]) -> bytes:
    """Return repeated numbers that are not negative."""
    content = b"".join(map(uint_bytes, values))
    return message_field(number, content) if content else b""
