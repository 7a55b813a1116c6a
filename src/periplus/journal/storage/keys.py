"""Keys of a store: Ed25519 (RFC 8032) to sign tree heads, and a secret from which imported trails derive theirs.

Private keys are readable by their owner only and never leave ``journal/keys``. Each lineage has its own.
"""

from __future__ import annotations

__all__ = [
    "fingerprint",
    "is_left_with_key",
    "keep_public_key",
    "make_keys",
    "make_trail_key",
    "public_key",
    "public_of_private",
    "retire_key",
    "sign",
    "sign_as_left",
    "trail_key",
    "verify_signature",
]

import hashlib
import os
from typing import Final

from periplus.base.errors import DamageError, NotFoundError, environment_failure
from periplus.base.files import Files, read_plain, write_atomic
from periplus.journal.storage.layout import Layout

_RETIRED: Final = ".retired"


def make_keys(layout: Layout, files: Files, lineage: str) -> None:
    """Make the signing key of ``lineage``, and the store's trail key if there is none yet."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    files.make_folder(layout.keys, 0o700)
    key = Ed25519PrivateKey.generate()
    write_atomic(files, _private_path(layout, lineage), key.private_bytes_raw().hex().encode() + b"\n", mode=0o600)
    write_atomic(files, _public_path(layout, lineage), key.public_key().public_bytes_raw().hex().encode() + b"\n")
    if not os.path.exists(_trail_path(layout)):
        make_trail_key(layout, files)


def make_trail_key(layout: Layout, files: Files) -> None:
    """Make a new secret for imported trails, replacing the old one."""
    write_atomic(files, _trail_path(layout), os.urandom(32).hex().encode() + b"\n", mode=0o600)


def keep_public_key(layout: Layout, files: Files, lineage: str, key: bytes) -> None:
    """Store the public key of a foreign lineage beside our own, when it is first seen."""
    path = _public_path(layout, lineage)
    if not os.path.lexists(path):
        try:
            files.make_folder(layout.keys, 0o700)
        except OSError as error:
            raise environment_failure(error, "make", layout.keys) from error
        write_atomic(files, path, key.hex().encode() + b"\n")


def retire_key(layout: Layout, files: Files, lineage: str) -> None:
    """Rename the private key of ``lineage``, so that a copy of the store does not sign in the owner's name."""
    path = _private_path(layout, lineage)
    if os.path.lexists(path):
        files.replace(path, path + _RETIRED)


def public_key(layout: Layout, lineage: str) -> bytes:
    """Return the 32 bytes of the lineage's public key."""
    return _read_key(_public_path(layout, lineage))


def trail_key(layout: Layout) -> bytes:
    """Return the 32 secret bytes from which the secrets of imported trails are derived."""
    return _read_key(_trail_path(layout))


def sign(layout: Layout, lineage: str, message: bytes) -> bytes:
    """Return the 64 bytes of the lineage's Ed25519 signature over ``message``."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(_read_key(_private_path(layout, lineage))).sign(message)


def sign_as_left(layout: Layout, lineage: str, message: bytes) -> bytes:
    """Sign with the key of a lineage that was written here before, for records that its owner had acknowledged by then.

    A copy that has not written yet has this key unchanged; its first write retires it.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(_read_key(_left_path(layout, lineage))).sign(message)


def is_left_with_key(layout: Layout, lineage: str) -> bool:
    """Return True if the key of a lineage that was written here before still exists."""
    return os.path.isfile(_left_path(layout, lineage))


def public_of_private(key: bytes) -> bytes:
    """Return the public key of a private one, 32 bytes each."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()


def verify_signature(key: bytes, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def fingerprint(key: bytes) -> str:
    """Return the 16 hexadecimal digits by which people compare keys."""
    return hashlib.sha256(key).hexdigest()[:16]


def _private_path(layout: Layout, lineage: str) -> str:
    return os.path.join(layout.keys, f"{lineage}.private")


def _left_path(layout: Layout, lineage: str) -> str:
    """Return the path of the private key of an earlier lineage; an interrupted change of lineage has not retired it yet."""
    path = _private_path(layout, lineage)
    return path if os.path.isfile(path) else path + _RETIRED


def _public_path(layout: Layout, lineage: str) -> str:
    return os.path.join(layout.keys, f"{lineage}.public")


def _trail_path(layout: Layout) -> str:
    return os.path.join(layout.keys, "trail")


def _read_key(path: str) -> bytes:
    try:
        text = read_plain(path, 200).decode("ascii", "replace").strip()
    except FileNotFoundError as error:
        raise NotFoundError(
            f"no key at {path}", safe="The records are untouched.", mend="Run `periplus doctor`."
        ) from error
    except OSError as error:
        raise environment_failure(error, "read the key", path) from error
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise DamageError("not a key of 32 bytes", path=path, safe="The records are untouched.")
    return key
