"""The objects that a trail needs, besides its own bytes."""

from __future__ import annotations

__all__ = ["trail_objects"]

from collections.abc import Callable
from typing import TYPE_CHECKING

from periplus.base.errors import (
    PeriplusError,
)
from periplus.journal import Entity

if TYPE_CHECKING:
    pass


def trail_objects(
    entity: Entity, lend: Callable[[bytes], bytes], *, holds: Callable[[bytes], bool] | None = None
) -> set[bytes]:
    """Return the objects that a trail needs: its own bytes, the long texts that it names, and what it was recorded
    with; ``lend`` reads objects.

    With ``holds`` also objects that it names and does not need, where they are held: contents of files that an import
    kept.
    """
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
