"""Ed25519 signatures of trails, over the trail digest, the times and the sources.

The signature of a concatenation covers its digest, and the times and sources of each part.
"""

from __future__ import annotations

__all__ = ["is_signature_sound", "is_signed_soundly", "sign", "sign_with", "signed_message"]

import hashlib
from collections.abc import Callable
from typing import Final

from periplus.base.encoding.container import KIND_TRAIL, pack
from periplus.base.errors import FormatError, UsageError
from periplus.trail.format import layout
from periplus.trail.format.concatenation import Parts, is_concatenation
from periplus.trail.format.reader import TrailReader

_PREFIX: Final = b"PPLS/trail-signature/2\x00"
_PARTS_PREFIX: Final = b"PPLS/trail-parts-signature/2\x00"
_KEY_BYTES: Final = 32


def signed_message(signed: TrailReader | Parts) -> bytes:
    """Return the message that a signature of the trail or concatenation covers. Raises FormatError if a part is no
    trail.
    """
    if isinstance(signed, TrailReader):
        return b"".join((_PREFIX, signed.digest, *_beside(signed)))
    return b"".join((_PARTS_PREFIX, signed.digest, *(hashed for one in signed.readers() for hashed in _beside(one))))


def _beside(reader: TrailReader) -> tuple[bytes, bytes]:
    """Return the SHA-256 of the times and of the sources, which the digest does not cover."""
    return (
        hashlib.sha256(reader.view(layout.TAG_TIMES)).digest(),
        hashlib.sha256(reader.view(layout.TAG_SOURCES)).digest(),
    )


def sign(data: bytes, private_key_bytes: bytes) -> bytes:
    """Return ``data`` with a signature by the raw Ed25519 private key (32 bytes), which replaces an existing one.

    Raises FormatError if ``data`` is no trail or does not match its digest: a wrong trail is not signed.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if len(private_key_bytes) != _KEY_BYTES:
        raise UsageError(f"an Ed25519 private key has {_KEY_BYTES} bytes, not {len(private_key_bytes)}")
    key = Ed25519PrivateKey.from_private_bytes(private_key_bytes)
    return sign_with(data, key.public_key().public_bytes_raw(), key.sign)


def sign_with(data: bytes, public_key: bytes, signer: Callable[[bytes], bytes]) -> bytes:
    """Sign like ``sign``, with a key held elsewhere: ``signer`` returns the 64 bytes of its signature of a message.

    ``data`` is a trail or a concatenation, of which every part must match its digest.
    """
    if is_concatenation(data):
        parts = Parts(data)
        for index, reader in enumerate(parts.readers()):
            _check_digest(reader, parts.offset(index))
        return parts.with_signature(public_key + signer(signed_message(parts)))
    reader = TrailReader(data)
    _check_digest(reader, 0)
    signature = public_key + signer(signed_message(reader))
    return pack(KIND_TRAIL, {**reader.sections(), layout.TAG_SIGNATURE: signature})


def _check_digest(reader: TrailReader, start: int) -> None:
    if reader.computed_identity() != reader.stored_identity:
        offset = start + reader.span(layout.TAG_RECEIPTS)[0]
        raise FormatError("the content of the trail does not match its digest", offset=offset)


def is_signed_soundly(signed: TrailReader | Parts) -> bool:
    """Return whether there is a signature, valid for the public key beside it."""
    return signed.signature is not None and _is_sound(signed.signature, signed_message(signed))


def is_signature_sound(digest: bytes, signature: bytes, times: bytes, sources: bytes) -> bool:
    """Return whether ``signature``, behind its public key, is valid for the trail with this digest.

    ``times`` and ``sources`` are the SHA-256 of its sections.
    """
    return _is_sound(signature, b"".join((_PREFIX, digest, times, sources)))


def _is_sound(signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(signature[:_KEY_BYTES]).verify(signature[_KEY_BYTES:], message)
    except (InvalidSignature, ValueError):
        return False
    return True
