"""Entities that refer to a trail: memory that was made from it or written in its session, and trails of its subagents.

The index has no table of these references, so the payloads of live entities are searched, in one pass without decoding
them. Entities behind the index's watermark are decoded one by one.
"""

from __future__ import annotations

__all__ = ["Taught", "subagents_of", "taught_by"]

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from periplus.base.named_tuple import NamedTuple
from periplus.memory.entities.types import MEMORY_TYPES

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.project.store import ProjectStore

TAUGHT_MAX: Final = 200
SUBAGENTS_MAX: Final = 500
Why: TypeAlias = Literal["evidence", "session"]
_UNTAUGHT: Final = frozenset({"session", "claim", "message"})  # signs of work, not knowledge


class Taught(NamedTuple):
    """An entity that a session taught. ``steps`` are the steps that it names as evidence; ``why`` is ``session``
    where it only was written in the session.
    """

    entity: Entity
    why: Why
    steps: tuple[int, ...]


def taught_by(project: ProjectStore, trail: Entity, most: int = TAUGHT_MAX) -> list[Taught]:
    """Return the memory that refers to a trail, or whose present version was written in its session, the newest
    first.
    """
    types = sorted(frozenset(MEMORY_TYPES) - _UNTAUGHT)
    session = str(trail.value.get("session_id", ""))
    found = _candidates(project, types, trail.item_id, session, most)
    taught = (_taught(entity, trail.item_id, session) for entity in found)
    return sorted((one for one in taught if one is not None), key=lambda one: one.entity.ts, reverse=True)[:most]


def subagents_of(project: ProjectStore, trail: Entity, most: int = SUBAGENTS_MAX) -> list[Entity]:
    """Return the trails of the agents that a session started, in the order of their beginning."""
    found = _candidates(project, ["trail"], trail.item_id, "", most)
    children = [one for one in found if one.value.get("parent") == trail.item_id]
    return sorted(children, key=lambda one: (str(one.value.get("started", "")), one.item_id))


def _candidates(project: ProjectStore, types: list[str], trail_id: str, session: str, most: int) -> list[Entity]:
    journal = project.journal
    journal.refresh()
    marks = ", ".join("?" * len(types))
    rows = journal.index.db.execute(
        f"SELECT item_type, item_id FROM heads WHERE deleted = 0 AND item_type IN ({marks})"  # noqa: S608  # only marks are inserted
        " AND (instr(payload, ?) OR (session = ? AND session <> '')) ORDER BY ts DESC LIMIT ?",
        (*types, trail_id.encode(), session, most),
    )
    keys = {(str(item_type), str(item_id)) for item_type, item_id in rows}
    keys.update(key for key in journal.unindexed() if key[0] in types)
    found = (journal.as_read(*key) for key in sorted(keys))
    return [entity for entity in found if entity is not None]


def _taught(entity: Entity, trail_id: str, session: str) -> Taught | None:
    evidence = entity.value.get("evidence")
    refs = [str(one.get("ref", "")) for one in evidence if isinstance(one, dict)] if isinstance(evidence, list) else []
    steps = [step for ref in refs for name, mark, step in (ref.partition("#"),) if mark and name == trail_id]
    origin = entity.value.get("provenance")
    is_made = isinstance(origin, dict) and origin.get("source") == trail_id
    if steps or is_made or trail_id in refs:
        numbers = (int(step) for step in steps if step.isascii() and step.isdecimal() and len(step) < 10)
        return Taught(entity, "evidence", tuple(dict.fromkeys(numbers)))
    if session and entity.session == session:
        return Taught(entity, "session", ())
    return None
