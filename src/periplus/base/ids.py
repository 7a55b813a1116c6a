"""Identifiers: a prefix, an underscore and 80 bits in base32 (16 lower-case characters).

The alphabet is Crockford's without padding: no i, l, o, u, so that an id survives being read aloud.
"""

from __future__ import annotations

__all__ = ["ID_BITS", "PASTED", "derived_id", "is_id", "new_id", "typed_id"]

import os
from typing import Final

from periplus.base.encoding import hashing

ID_BITS: Final = 80
PASTED: Final = "\ufeff \t\r\n"  # what may stand around an id that was pasted, and is no part of it
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH: Final = ID_BITS // 5
_ALLOWED: Final = frozenset(_ALPHABET)


def _text(bits: bytes) -> str:
    number = int.from_bytes(bits, "big")
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(ID_BITS - 5, -1, -5))


def new_id(prefix: str, random: bytes | None = None) -> str:
    """A fresh id; ``random`` (10 bytes) makes it reproducible in tests."""
    bits = os.urandom(10) if random is None else random
    assert len(bits) * 8 == ID_BITS
    return f"{prefix}_{_text(bits)}"


def derived_id(prefix: str, *parts: str) -> str:
    """The id that the same ``parts`` always give: SHA-256 over the length-prefixed parts, first 80 bits."""
    digest = hashing.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")  # foreign names may hold half characters
        digest.update(len(data).to_bytes(8, "big") + data)
    return f"{prefix}_{_text(digest.digest()[:10])}"


def typed_id(text: str) -> str:
    """An id, or the beginning of one, as it was typed or pasted: in capitals, with blanks or a byte order mark around it; no id has any of
    these. Where nothing would be left it stays as it is, for nothing is the beginning of every id.
    """
    return text.strip(PASTED).lower() or text


def is_id(text: str) -> bool:
    """Whether ``text`` has the shape of an id, so that it is safe as a file name on every file system."""
    prefix, found, tail = text.rpartition("_")
    if not found or len(tail) != _LENGTH or not _ALLOWED.issuperset(tail):
        return False
    return (
        0 < len(prefix) <= 32 and prefix.isascii() and prefix.replace("_", "a").isalnum() and prefix == prefix.lower()
    )


try:
    from periplus.base._values import is_id  # type: ignore[assignment]  # where it was built
except ImportError:
    pass
