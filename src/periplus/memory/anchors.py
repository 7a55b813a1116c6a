"""What a memory rests on: the files it is about, by whose digests it is seen to be stale, and its evidence."""

from __future__ import annotations

__all__ = ["evidence_of", "file_digest", "stale_paths"]

import os
from typing import Final

from periplus.base.digests import sha256
from periplus.journal import Entity

_FILE_BYTES_MAX: Final = 4 << 20


def evidence_of(entity: Entity) -> tuple[str, ...]:
    """The evidence of an entity as people read it."""
    evidence = entity.value.get("evidence")
    if not isinstance(evidence, list):
        return (f"record {entity.seq}",)
    found = [f"{item.get('kind')} {item.get('ref')}" for item in evidence if isinstance(item, dict)]
    return (*found, f"record {entity.seq}")


def stale_paths(entity: Entity, root: str) -> tuple[str, ...]:
    """The files that the entity is about and that are no longer what they were when it was written."""
    about = entity.value.get("about")
    if not root or not isinstance(about, list):
        return ()
    stale = []
    for item in about:
        if isinstance(item, dict) and item.get("kind") == "path" and item.get("sha256"):
            ref = str(item.get("ref"))
            if file_digest(root, ref) != item.get("sha256"):
                stale.append(ref)
    return tuple(stale)


def file_digest(root: str, path: str) -> str:
    """SHA-256 of a file of the project, in hexadecimal; empty where there is none that may be read."""
    try:
        base = os.path.realpath(root)
        whole = os.path.realpath(os.path.join(base, path))
        if os.path.commonpath([base, whole]) != base:
            return ""  # a path of a memory never leads out of the project
        if not os.path.isfile(whole) or os.path.getsize(whole) > _FILE_BYTES_MAX:
            return ""
        with open(whole, "rb") as file:
            return sha256(file.read(_FILE_BYTES_MAX)).hex()
    except (OSError, ValueError):  # ValueError: a NUL or half a character in a hostile path
        return ""
