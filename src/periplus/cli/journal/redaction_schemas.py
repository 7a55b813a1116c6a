"""JSON documents of ``redact``."""

from __future__ import annotations

__all__ = ["REDACT_SCHEMAS", "RedactFindOut", "RedactOut", "RemainingOut", "SecretOut", "SecretPlaceOut", "TargetOut"]

from typing import Final

import msgspec


class TargetOut(msgspec.Struct):
    lineage: str
    seq: int
    action: str
    item_type: str
    item_id: str


class RemainingOut(msgspec.Struct):
    """``where`` names a place that still has the text, or may have it; ``next`` is what a person can do about it."""

    where: str
    next: str


class RedactOut(msgspec.Struct, tag_field="schema", tag="periplus.redact/1"):
    """``records`` lost their content, ``entities`` (``type/id``) got a version without the text, ``objects`` were removed. With
    ``dry_run`` nothing was changed.
    """

    dry_run: bool
    records: list[TargetOut]
    entities: list[str]
    objects: list[str]
    not_reached: list[RemainingOut]


class SecretPlaceOut(msgspec.Struct):
    """``kind``: record, object, trail, entity, index, spool, cache, git, file."""

    kind: str
    where: str


class SecretOut(msgspec.Struct):
    """``id`` is for ``--take``; ``kind`` is the kind of secret, ``characters`` its length, ``count`` its number of places, of
    which ``places`` lists the first 100. ``can_go`` is false if the text is too short or too long to redact by itself.
    """

    id: str
    kind: str
    characters: int
    count: int
    places: list[SecretPlaceOut]
    can_go: bool


class RedactFindOut(msgspec.Struct, tag_field="schema", tag="periplus.redact.find/1"):
    """The secrets found in the store, without their texts. ``taken`` are those that this call removed, with the results of ``redact``."""

    secrets: list[SecretOut]
    taken: dict[str, RedactOut]


REDACT_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {"redact": RedactOut, "redact --find": RedactFindOut}
