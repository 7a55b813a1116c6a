"""What ``redact`` prints with ``--json``."""

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
    """``where`` the text still is, or may be; ``next`` is what a person can do about it."""

    where: str
    next: str


class RedactOut(msgspec.Struct, tag_field="schema", tag="periplus.redact/1"):
    """``records`` whose content was taken out, ``entities`` (``type/id``) that got a version without the text, ``objects``
    that were removed; with ``dry_run`` nothing was changed.
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
    """``id`` for ``--take``; ``kind`` of secret; ``characters`` it has; ``count`` of its places, of which ``places`` are the first 100.
    ``can_go`` is false where the text is too short or too long to be taken out by itself.
    """

    id: str
    kind: str
    characters: int
    count: int
    places: list[SecretPlaceOut]
    can_go: bool


class RedactFindOut(msgspec.Struct, tag_field="schema", tag="periplus.redact.find/1"):
    """What the store holds by today's rules, never what it says; ``taken`` are those that were taken out by this call, each with
    what ``redact`` did.
    """

    secrets: list[SecretOut]
    taken: dict[str, RedactOut]


REDACT_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {"redact": RedactOut, "redact --find": RedactFindOut}
