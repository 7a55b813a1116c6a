"""The salts of a trail's strings: HMAC-SHA-256 of an entry's index under the secret of the trail."""

from __future__ import annotations

__all__ = ["entry_salt", "hmac_blocks"]

from typing import Final

from periplus.base.speed import sha256

_HMAC_BLOCK_BYTES: Final = 64


def hmac_blocks(secret: bytes) -> tuple[bytes, bytes]:
    """Return the first block of the inner and of the outer hash of HMAC-SHA-256 (RFC 2104, ipad and opad)."""
    key = secret.ljust(_HMAC_BLOCK_BYTES, b"\0")
    return bytes([byte ^ 0x36 for byte in key]), bytes([byte ^ 0x5C for byte in key])


def entry_salt(secret: bytes, index: int) -> bytes:
    """Return the salt of entry ``index``: HMAC-SHA-256 of the index as u64, with ``secret`` as the key."""
    inner, outer = hmac_blocks(secret)
    return sha256(outer + sha256(inner + index.to_bytes(8, "big")))
