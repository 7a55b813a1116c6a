"""SHA-256 digests: 32 bytes inside, 64 lower-case hexadecimal digits outside."""

from __future__ import annotations

__all__ = ["DIGEST_BYTES", "is_digest_text", "parse_digest", "sha256"]


from periplus.base.encoding import hashing
from periplus.base.errors import UsageError

DIGEST_BYTES = 32
_HEX = frozenset("0123456789abcdef")


def sha256(data: bytes | bytearray | memoryview) -> bytes:
    """Return the 32 bytes of SHA-256 (FIPS 180-4) of ``data``."""
    return hashing.sha256(data).digest()


def is_digest_text(text: str) -> bool:
    return len(text) == 2 * DIGEST_BYTES and _HEX.issuperset(text)


def parse_digest(text: str) -> bytes:
    """Parse 64 lower-case hexadecimal digits to 32 bytes. Raises UsageError for other text."""
    if not is_digest_text(text):
        raise UsageError(f"not a digest: {text[:80]!r}", mend="A digest is 64 hexadecimal digits, lower case.")
    return bytes.fromhex(text)
