"""Find entities by the value of a field: the open plans, the steps of a plan, the holder of a claim.

The index answers up to its watermark; later records are read one by one. So an answer is never behind the journal as
it was last read, and inside a mutation, where the newest records were read under the lock, never behind at all.
"""

from __future__ import annotations

__all__ = ["linked", "open_entities"]

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


def open_entities(journal: Journal, item_type: str) -> list[Entity]:
    """Return the live entities of a type in a state that is not an end, by id."""
    row = MEMORY_TYPES[item_type]
    return linked(journal, item_type, "state", *sorted(frozenset(row.transitions) - row.ended_states))
