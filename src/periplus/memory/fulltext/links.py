"""Find entities by the value of a field: the open plans, the steps of a plan, the holder of a claim.

The index answers up to its watermark; later records are read one by one. So an answer is never behind the journal as
it was last read, and inside a mutation, where the newest records were read under the lock, never behind at all.
"""

from __future__ import annotations

__all__ = ["linked", "linked_ids", "open_entities", "open_states"]

from collections.abc import Mapping, Sequence

from periplus.journal import Entity, Journal
from periplus.memory.entities.types import MEMORY_TYPES
from periplus.memory.fulltext.index_rows import links_of


def linked(journal: Journal, item_type: str, field: str, *values: str) -> list[Entity]:
    """Return the live entities of ``item_type`` whose ``field``, one of the linked fields of the type, has one of
    ``values``, by id.
    """
    assert field in MEMORY_TYPES[item_type].linked, (item_type, field)
    journal.look_at(item_type)
    newer = {item_id for kind, item_id in journal.unindexed() if kind == item_type}
    found = set(newer)
    for value in values:
        rows = journal.index.db.execute(
            "SELECT item_id FROM links WHERE item_type = ? AND field = ? AND value = ?", (item_type, field, value)
        )
        found.update(str(row[0]) for row in rows)
    entities = [entity for item_id in sorted(found) if (entity := journal.as_read(item_type, item_id)) is not None]
    wanted = {(field, value) for value in values}
    return [entity for entity in entities if not wanted.isdisjoint(links_of(entity))]


def linked_ids(journal: Journal, item_type: str, fields: Mapping[str, Sequence[str]], most: int) -> list[str]:
    """Return the ids of live entities of ``item_type`` whose ``fields``, linked ones, each have one of the given values;
    those written last come first. Of more than ``most`` any ``most`` are returned. Only entities behind the index are
    decoded, so that it is fast for many.
    """
    assert fields.keys() <= MEMORY_TYPES[item_type].linked, (item_type, fields)
    journal.look_at(item_type)
    newer = {item_id for kind, item_id in journal.unindexed() if kind == item_type}
    wheres, values = [], list[str | int]()
    for field, allowed in fields.items():
        marks = ", ".join("?" * len(allowed))
        wheres.append(f"SELECT item_id FROM links WHERE item_type = ? AND field = ? AND value IN ({marks})")  # noqa: S608 - question marks
        values += [item_type, field, *allowed]
    rows = journal.index.db.execute(
        f"SELECT item_id, MAX(ts) FROM heads WHERE item_type = ? AND item_id IN ({' INTERSECT '.join(wheres)} LIMIT ?)"  # noqa: S608 - question marks
        " GROUP BY item_id",
        (item_type, *values, most + len(newer)),
    ).fetchall()
    found = {str(item_id): str(ts) for item_id, ts in rows if item_id not in newer}
    for item_id in newer:
        entity = journal.as_read(item_type, item_id)
        held = dict(links_of(entity)) if entity is not None else {}
        if entity is not None and held and all(held.get(field) in allowed for field, allowed in fields.items()):
            found[item_id] = entity.ts
    return sorted(found, key=lambda item_id: (found[item_id], item_id), reverse=True)[:most]


def open_entities(journal: Journal, item_type: str) -> list[Entity]:
    """Return the live entities of a type in a state that is not an end, by id."""
    return linked(journal, item_type, "state", *open_states(item_type))


def open_states(item_type: str) -> list[str]:
    """Return the states of a type that are not an end."""
    row = MEMORY_TYPES[item_type]
    return sorted(frozenset(row.transitions) - row.ended_states)
