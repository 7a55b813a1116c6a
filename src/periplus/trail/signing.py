"""Ed25519 signatures of trails: over the trail digest, the times and the sources."""

from __future__ import annotations

__all__ = ["is_signed_soundly", "sign", "signed_message"]

import hashlib
from typing import Final

from periplus.base.container import KIND_TRAIL, pack
from periplus.base.errors import FormatError, UsageError
from periplus.trail import layout
from periplus.trail.reader import TrailReader

_PREFIX: Final = b"PPLS/trail-signature/2\x00"
_KEY_BYTES: Final = 32


def signed_message(reader: TrailReader) -> bytes:
    """What a signature of the trail covers."""
    times = reader.section(layout.TAG_TIMES) or b""
    sources = reader.section(layout.TAG_SOURCES) or b""
    return b"".join((_PREFIX, reader.digest, hashlib.sha256(times).digest(), hashlib.sha256(sources).digest()))


def sign(data: bytes, private_key_bytes: bytes) -> bytes:
    """``data`` with a signature by the raw Ed25519 private key (32 bytes), in place of one that it may have.

    Raises FormatError where ``data`` is no trail or not the one that its digest says: a wrong trail is not signed.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if len(private_key_bytes) != _KEY_BYTES:
        raise UsageError(f"an Ed25519 private key has {_KEY_BYTES} bytes, not {len(private_key_bytes)}")
    reader = TrailReader(data)
    if reader.computed_identity() != reader.stored_identity:
        raise FormatError("the trail is not the one that its digest says", offset=reader.span(layout.TAG_RECEIPTS)[0])
    key = Ed25519PrivateKey.from_private_bytes(private_key_bytes)
    signature = key.public_key().public_bytes_raw() + key.sign(signed_message(reader))
    return pack(KIND_TRAIL, {**reader.sections(), layout.TAG_SIGNATURE: signature})


def is_signed_soundly(reader: TrailReader) -> bool:
    """Whether the trail has a signature, and that signature is by the public key beside it."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    signature = reader.signature
    if signature is None:
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(signature[:_KEY_BYTES])
        key.verify(signature[_KEY_BYTES:], signed_message(reader))
    except (InvalidSignature, ValueError):
        return False
    return True
