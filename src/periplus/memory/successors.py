"""What stands in place of one thing, and where clones that knew nothing of each other each put something else there.

A split puts several things in place of one, on purpose, in one clone. Where two clones superseded the same thing apart, both of
what they said counts after a sync, and no field is in conflict: they are entities of their own. So that is looked for: live
entities that supersede the same thing and were first written in different clones. It is derived from what is held; whoever merges them,
or lets one supersede the other, settles it.
"""

from __future__ import annotations

__all__ = ["Rivalry", "rivalries", "successors"]

from periplus.base.tuples import NamedTuple
from periplus.journal import Entity, Journal
from periplus.memory.index import SUPERSEDES, supersedes_of
from periplus.memory.types import is_ended

_FROM_FILES = "import"


class Rivalry(NamedTuple):
    """``rivals`` (live, by id) each stand in place of the entity ``old`` (an id), and clones that wrote apart said so."""

    old: str
    rivals: tuple[Entity, ...]

    @property
    def command(self) -> str:
        """What settles it, to be completed with a text."""
        return f"periplus merge {' '.join(one.item_id for one in self.rivals)} --text '…'"


def successors(journal: Journal, old: str) -> list[Entity]:
    """The entities that are said to supersede ``old``, those that ended too, by id."""
    return _said(journal, old)


def rivalries(journal: Journal) -> list[Rivalry]:
    """Where clones each put something else in place of one thing, and both hold; by the id of that thing."""
    rows = journal.index.db.execute(
        "SELECT value FROM links WHERE field = ? GROUP BY value HAVING COUNT(*) > 1", (SUPERSEDES,)
    )
    named = {str(row[0]) for row in rows}
    for key in journal.unindexed():
        entity = journal.as_read(*key)
        named.update(supersedes_of(entity) if entity is not None else ())
    found = []
    for old in sorted(named):
        live = [
            one for one in _said(journal, old) if not is_ended(one.item_type, one.value.get("state"), journal.types)
        ]
        if len(live) > 1 and len({_origin(journal, one) for one in live}) > 1:
            found.append(Rivalry(old, tuple(live)))
    return found


def _said(journal: Journal, old: str) -> list[Entity]:
    rows = journal.index.db.execute(
        "SELECT item_type, item_id FROM links WHERE field = ? AND value = ?", (SUPERSEDES, old)
    )
    keys = {(str(kind), str(item_id)) for kind, item_id in rows} | set(journal.unindexed())
    entities = [entity for key in sorted(keys, key=lambda key: key[1]) if (entity := journal.as_read(*key)) is not None]
    return [entity for entity in entities if old in supersedes_of(entity)]


def _origin(journal: Journal, entity: Entity) -> str:
    """The lineage in which it was first written; empty where it came with files, or that record is not here."""
    where = "item_type = ? AND item_id = ? AND action <> ? AND rev = 1 ORDER BY lineage, seq"
    rows = journal.index.records(where, (entity.item_type, entity.item_id, _FROM_FILES), 1)
    return rows[0].lineage if rows else ""
