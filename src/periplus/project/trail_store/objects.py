"""The objects that a trail needs, besides its own bytes."""

from __future__ import annotations

__all__ = ["trail_objects"]

from collections.abc import Callable
from typing import TYPE_CHECKING

from periplus.base.errors import (
    PeriplusError,
)
from periplus.journal import Entity
from periplus.memory.entities.types import DISPATCHED

if TYPE_CHECKING:
    pass


def trail_objects(
    entity: Entity, lend: Callable[[bytes], bytes], *, holds: Callable[[bytes], bool] | None = None
) -> set[bytes]:
    """Return the objects that a trail needs: its own bytes, the long texts that it names, and what it was recorded
    with; ``lend`` reads objects. Dispatched work needs the artifacts that it names.

    With ``holds`` also objects that it names and does not need, where they are held: contents of files that an import
    kept.
    """
    if entity.item_type in DISPATCHED and not entity.deleted:
        return _dispatched_objects(entity)
    if entity.item_type != "trail" or entity.deleted:
        return set()
    from periplus.base.encoding.digests import is_digest_text
    from periplus.trail import open_parts
    from periplus.trail.checkpoints.file_states import recorded_objects, written_contents

    name = str(entity.value.get("object", ""))
    if not is_digest_text(name):
        return set()  # doctor's check of the trails reports it
    own = bytes.fromhex(name)
    try:
        readers = open_parts(lend(own))
    except PeriplusError:
        return {own}
    texts = {text.sha256 for reader in readers for text in reader.text_objects()}
    if entity.value.get("format") != "recording":
        named = (name for reader in readers if holds is not None for name in written_contents(reader))
        return {own, *texts, *(name for name in named if holds is not None and holds(name))}
    return {own, *texts, *(name for reader in readers for name in recorded_objects(reader, lend))}


def _dispatched_objects(entity: Entity) -> set[bytes]:
    """Return the artifact of an assignment, the materials of a dispatch, the artifacts of a loop and the outputs of its checks."""
    from periplus.base.encoding.digests import is_digest_text

    value = entity.value
    listed = [
        one
        for field in ("artifacts", "checks", "materials")
        if isinstance(held := value.get(field), list)
        for one in held
    ]
    names = [
        value.get("artifact"),
        *(one.get(field) for one in listed if isinstance(one, dict) for field in ("object", "output")),
    ]
    return {bytes.fromhex(name) for name in names if isinstance(name, str) and is_digest_text(name)}
