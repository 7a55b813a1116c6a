"""Headers of every answer: nothing from elsewhere, no inline scripts or styles, no framing, no address told to others."""

from __future__ import annotations

__all__ = ["HEADERS", "PRIVATE"]

from typing import Final

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# Referrer-Policy is not "no-referrer": a browser would then send "Origin: null" with our own forms (Fetch, section 3.1).
HEADERS: Final[tuple[tuple[bytes, bytes], ...]] = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
PRIVATE: Final[tuple[bytes, bytes]] = (b"cache-control", b"no-store")
