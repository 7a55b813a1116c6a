"""The objects that entities of the layers above the journal name: for exchange and repair."""

from __future__ import annotations

__all__ = ["all_named_objects", "exchanged_objects", "named_objects"]

from collections.abc import Callable
from typing import TYPE_CHECKING

from periplus.base.errors import (
    DamageError,
    NotFoundError,
)
from periplus.journal import Entity
from periplus.memory.entities.types import CONTEXT_REF
from periplus.project.trail_store.objects import trail_objects

if TYPE_CHECKING:
    pass


def named_objects(entity: Entity, lend: Callable[[bytes], bytes]) -> set[bytes]:
    """Return the objects that an entity of a layer above the journal needs; ``lend`` reads objects."""
    return _objects_named(entity, lend, None)


def all_named_objects(entity: Entity, lend: Callable[[bytes], bytes]) -> set[bytes]:
    """Return every object that an entity of a layer above the journal names, whether it needs it or not.

    Raises PeriplusError where something that may name objects cannot be read.
    """
    if entity.item_type == CONTEXT_REF:
        from periplus.project.context_store.objects import all_objects

        return all_objects(entity, lend)
    named = trail_objects(entity, lend, holds=lambda _digest: True)
    if entity.item_type == "trail" and not entity.deleted:
        from periplus.trail import open_parts
        from periplus.trail.checkpoints.file_states import written_contents

        name = str(entity.value.get("object", ""))
        if len(named) == 0:
            raise DamageError(f"trail {entity.item_id} names no object")
        for reader in open_parts(lend(bytes.fromhex(name))):
            named |= written_contents(reader)
        if entity.value.get("format") == "recording":
            for digest in named:
                lend(digest)  # a file snapshot names the contents of files
    return named


def exchanged_objects(entity: Entity, lend: Callable[[bytes], bytes]) -> set[bytes]:
    """Return ``named_objects`` and the contents of files that an import kept, where they can be read.

    They are optional: they are never missing, and damage to them is reported where they lie.
    """

    def is_to_be_had(digest: bytes) -> bool:
        try:
            lend(digest)
        except (NotFoundError, DamageError):
            return False
        return True

    return _objects_named(entity, lend, is_to_be_had)


def _objects_named(entity: Entity, lend: Callable[[bytes], bytes], holds: Callable[[bytes], bool] | None) -> set[bytes]:
    if entity.item_type == CONTEXT_REF:
        from periplus.project.context_store.objects import new_objects

        return new_objects(entity, lend)
    return trail_objects(entity, lend, holds=holds)
