"""Bytes by their SHA-256 (page: The store's folder)."""

import hashlib
import zlib
from pathlib import Path

from .forms import need
from .trail_at_rest import unrest


def load_object(folder: Path, digest: str) -> bytes | None:
    """The bytes of an object in a folder `objects/`; None where it is not there."""
    place = folder / digest[:2] / digest[2:]
    for path, opened in ((place, bytes), (Path(f"{place}.z"), zlib.decompress), (Path(f"{place}.t"), unrest)):
        if path.is_file():
            return checked(digest, opened(path.read_bytes()))
    return None


def checked(digest: str, data: bytes) -> bytes:
    """*data*, which must be what *digest* says."""
    need(hashlib.sha256(data).hexdigest() == digest, f"the object {digest} has other bytes")
    return data
