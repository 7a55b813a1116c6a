"""The objects that dispatches, assignments and loops name: artifacts, material for agents, outputs of checks."""

from __future__ import annotations

__all__ = ["dispatched_objects"]

from collections.abc import Iterator

from periplus.base.encoding.canonical import JSONValue
from periplus.base.encoding.digests import is_digest_text
from periplus.journal import Entity


def dispatched_objects(entity: Entity) -> set[bytes]:
    """Return the objects that a record of several agents at once names."""
    if entity.deleted:
        return set()
    return {bytes.fromhex(one) for one in _named(entity) if isinstance(one, str) and is_digest_text(one)}


def _named(entity: Entity) -> Iterator[JSONValue]:
    value = entity.value
    match entity.item_type:
        case "assignment":
            yield value.get("artifact")
        case "dispatch":
            yield from _each(value.get("materials"), "object")
        case "loop":
            yield from _each(value.get("artifacts"), "object")
            yield from _each(value.get("checks"), "output")
        case _:
            pass


def _each(rows: JSONValue, name: str) -> Iterator[JSONValue]:
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict):
            yield row.get(name)
