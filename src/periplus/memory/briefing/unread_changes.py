"""Unread changes: entities that others changed after the records that a reader has seen, the newest first.

Unlike ``recent_changes`` it starts at positions in the lineages and reads a bounded number of records, so that it is fast
for a store of any size, and for a reader who was never here.
"""

from __future__ import annotations

__all__ = ["UnreadChange", "UnreadChanges", "unread_changes"]

from collections.abc import Mapping
from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.journal import Entity, Journal, Writer
from periplus.memory.entities.types import rows_of

_SCANNED_MAX: Final = 20_000  # records of each lineage
_RECORDS_MAX: Final = 2_000  # those of them that are taken
_LINEAGES_MAX: Final = 20
_UNTOLD: Final = frozenset({"agent", "assignment", "claim", "loop", "message", "question", "run", "session"})


class UnreadChange(NamedTuple):
    """An entity, the writer and time of its newest unread record, and whether it was created since."""

    entity: Entity
    by: str
    ts: str
    is_new: bool


class UnreadChanges(NamedTuple):
    """``number`` entities were changed; ``is_more`` where not all records were read; ``first`` are the newest."""

    number: int = 0
    is_more: bool = False
    first: tuple[UnreadChange, ...] = ()


def unread_changes(journal: Journal, writer: Writer, seen: Mapping[str, int], limit: int) -> UnreadChanges:
    """Return what others than ``writer`` changed after ``seen``, the last seq that was seen of each lineage."""
    told = [name for name in (*rows_of(journal.types), "conflict") if name not in _UNTOLD]
    marks = ", ".join("?" * len(told))
    floors = journal.index.floors()
    lineages = journal.lineages()
    is_more = len(lineages) > _LINEAGES_MAX
    newest: dict[tuple[str, str], tuple[str, str]] = {}
    made: set[tuple[str, str]] = set()
    for lineage in lineages[:_LINEAGES_MAX]:
        after, last = seen.get(lineage, 0), journal.end(lineage).next_seq - 1
        rows = journal.index.db.execute(
            "SELECT item_type, item_id, writer, ts, parents FROM ("  # noqa: S608 - question marks
            "SELECT * FROM records WHERE lineage = ? AND seq > ? ORDER BY seq DESC LIMIT ?)"
            f" WHERE version <> '' AND writer <> ? AND item_type IN ({marks}) ORDER BY seq DESC LIMIT ?",
            (lineage, after, _SCANNED_MAX, writer.name, *told, _RECORDS_MAX + 1),
        ).fetchall()  # fmt: skip
        is_more = is_more or len(rows) > _RECORDS_MAX or max(floors.get(lineage, 0), last - _SCANNED_MAX) > after + 1
        for item_type, item_id, by, ts, parents in rows[:_RECORDS_MAX]:
            key = str(item_type), str(item_id)
            if not parents:
                made.add(key)
            newest[key] = max(newest.get(key, ("", "")), (str(ts), str(by)))
    there = [key for key in newest if journal.index.has_live_head(*key)]
    there.sort(key=lambda key: (newest[key][0], key[1]), reverse=True)
    first = []
    for key in there[:limit]:
        entity = journal.as_read(*key)
        if entity is not None:
            first.append(UnreadChange(entity, newest[key][1], newest[key][0], key in made))
    return UnreadChanges(len(there), is_more, tuple(first))
