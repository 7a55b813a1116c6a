"""Identifiers: a prefix, an underscore and 80 bits in base32 (16 lower-case characters).

The alphabet is Crockford's without padding. It lacks i, l, o and u, so that an id can be read aloud.
"""

from __future__ import annotations

__all__ = ["ID_BITS", "PASTED", "derived_id", "is_id", "new_id", "typed_id"]

import os
from typing import Final

from periplus.base.encoding import hashing

ID_BITS: Final = 80
PASTED: Final = "\ufeff \t\r\n"  # characters that may surround a pasted id
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH: Final = ID_BITS // 5
_ALLOWED: Final = frozenset(_ALPHABET)


def _text(bits: bytes) -> str:
    number = int.from_bytes(bits, "big")
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(ID_BITS - 5, -1, -5))


def new_id(prefix: str, random: bytes | None = None) -> str:
    """Return a new id; ``random`` (10 bytes) makes it reproducible in tests."""
    bits = os.urandom(10) if random is None else random
    assert len(bits) * 8 == ID_BITS
    return f"{prefix}_{_text(bits)}"


def derived_id(prefix: str, *parts: str) -> str:
    """Return the id of ``parts``, always the same: the first 80 bits of SHA-256 over the length-prefixed parts."""
    digest = hashing.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")  # foreign names may contain lone surrogates
        digest.update(len(data).to_bytes(8, "big") + data)
    return f"{prefix}_{_text(digest.digest()[:10])}"


def typed_id(text: str) -> str:
    """Normalise a typed or pasted id, or its beginning: lower case, without surrounding blanks and byte order mark.
    Text of blanks only is returned unchanged, because the empty text is a prefix of every id.
    """
    return text.strip(PASTED).lower() or text


def is_id(text: str) -> bool:
    """Test that ``text`` has the shape of an id, so that it is safe as a file name on every file system."""
    prefix, found, tail = text.rpartition("_")
    if not found or len(tail) != _LENGTH or not _ALLOWED.issuperset(tail):
        return False
    return (
        0 < len(prefix) <= 32 and prefix.isascii() and prefix.replace("_", "a").isalnum() and prefix == prefix.lower()
    )


try:
    from periplus.base._values import is_id  # type: ignore[assignment]  # present when the C part was built
except ImportError:
    pass
