"""Find superseded entities whose successor is gone: nobody looks at superseded entities, and nothing else says the
same.

The successor was deleted or redacted, here or in another clone. The entity is found by the record that says that it
was replaced, while no present entity says that it replaces it. A state that somebody wrote by hand is not reported.
"""

from __future__ import annotations

__all__ = ["LostSuccessor", "lost_successor_of", "unreplaced"]

from typing import TYPE_CHECKING

from periplus.base.named_tuple import NamedTuple
from periplus.journal import Entity, Journal
from periplus.journal.history.log import of_entity
from periplus.memory.entities.types import row_of, rows_of
from periplus.memory.fulltext.index_rows import SUPERSEDES
from periplus.memory.succession.successors import successors

if TYPE_CHECKING:
    from periplus.journal import IndexedRecord


class LostSuccessor(NamedTuple):
    """``entity`` was replaced, by ``record``, by something that is gone; ``lineage`` of that record, empty for our
    own.
    """

    entity: Entity
    record: IndexedRecord
    lineage: str

    @property
    def command(self) -> str:
        """Return the command that brings it back."""
        return f"periplus undo --seq {self.record.seq}" + (f" --lineage {self.lineage}" if self.lineage else "")


def unreplaced(journal: Journal) -> list[LostSuccessor]:
    """Return superseded entities without a successor by type and id, as the index has them."""
    found = []
    for row in rows_of(journal.types).values():
        if row.replaced_state:
            keys = journal.index.db.execute(
                "SELECT DISTINCT d.item_id FROM documents d WHERE d.item_type = ? AND d.state = ?"
                " AND NOT EXISTS (SELECT 1 FROM links l WHERE l.field = ? AND l.value = d.item_id) ORDER BY d.item_id",
                (row.name, row.replaced_state, SUPERSEDES),
            ).fetchall()
            entities = [journal.get(row.name, str(item_id)) for (item_id,) in keys]
            found += [one for entity in entities if entity is not None and (one := lost_successor_of(journal, entity))]
    return found


def lost_successor_of(journal: Journal, entity: Entity) -> LostSuccessor | None:
    """Return the lost successor of ``entity``, or None. Not to be called within a mutation: it brings the index up to
    date.
    """
    row = row_of(journal.types, entity.item_type)
    if row is None or not row.replaced_state or entity.value.get("state") != row.replaced_state:
        return None
    if entity.is_in_conflict or successors(journal, entity.item_id):
        return None
    changes = [one for one in of_entity(journal, entity.item_type, entity.item_id) if one.action == "transition"]
    last = max(changes, key=lambda record: record.rev, default=None)
    if (
        last is None or last.summary != f"{entity.item_type} {row.replaced_state}"
    ):  # the summary that ``writing.lifecycle`` writes for a replaced entity
        return None
    return LostSuccessor(entity, last, "" if last.lineage == journal.lineage else last.lineage)
