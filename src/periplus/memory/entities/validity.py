"""Validity of memory: by its state, its expiry, and its replacement. One rule for all readers.

Memory that ended or was replaced is kept, and returned only on request. A note whose time is over is listed by
``review`` until it is confirmed. What was replaced stays so after its replacement expired.
"""

from __future__ import annotations

__all__ = ["expired", "expired_text", "expiry_notes", "holds", "is_over", "replacements", "standing"]

from collections.abc import Callable, Mapping
from typing import Final

from periplus.base.encoding.canonical import JSONValue
from periplus.base.named_tuple import NamedTuple
from periplus.journal import Entity, EntityType, Journal
from periplus.memory.entities.types import is_ended, row_of, rows_of

REPLACEMENTS_MAX: Final = 200
_SEVERITIES: Final = ("'critical'", "'high'", "'medium', ''", "'low'")  # no severity means medium
_OF: Final = " AND d.item_id {} (SELECT item_id FROM links WHERE item_type = d.item_type AND field = 'severity' AND value IN ({}))"
_OF_SEVERITY: Final = (*(_OF.format("IN", said) for said in _SEVERITIES), _OF.format("NOT IN", ", ".join(_SEVERITIES)))
# As ``holds``: a row of ``documents`` that has not ended or expired, and that nothing in force replaced.
_STANDING: Final = """d.item_type = ? AND (? OR d.state NOT IN ({own})
 AND (? OR d.item_id NOT IN (SELECT item_id FROM links WHERE field = 'expires' AND value <= ?))
 AND (d.item_id NOT IN (SELECT target FROM replaced) OR NOT EXISTS (
  WITH RECURSIVE newer (kind, id) AS (SELECT r.item_type, r.item_id FROM replaced r WHERE r.target = d.item_id
   UNION SELECT r.item_type, r.item_id FROM newer JOIN replaced r ON r.target = newer.id)
  SELECT 1 FROM newer JOIN documents n ON n.item_type = newer.kind AND n.item_id = newer.id
  WHERE newer.id <> d.item_id AND n.item_type || '/' || n.state NOT IN ({ended}))))"""


def expired(types: Mapping[str, EntityType], entity: Entity, now_ms: int) -> str:
    """Return the time at which an entity expired; empty where it has not, and for types without expiry."""
    ends = entity.value.get("expires")
    row = row_of(types, entity.item_type) if isinstance(ends, str) and ends else None
    return ends if row is not None and row.may_expire and isinstance(ends, str) and _is_past(ends, now_ms) else ""


def expired_text(types: Mapping[str, EntityType], entity: Entity, now_ms: int) -> tuple[str, ...]:
    """Return the expiry as text, for use beside ``Ground.told``."""
    ends = expired(types, entity, now_ms)
    return (f"expired {ends}",) if ends else ()


def expiry_notes(ends: JSONValue, now_ms: int) -> tuple[str, ...]:
    """Return a note for an expiry that is already past."""
    if not isinstance(ends, str) or not _is_past(ends, now_ms):
        return ()
    return (f"Its end, {ends}, is past: it counts as expired, and recall leaves it out unless --all is given",)


def is_over(types: Mapping[str, EntityType], entity: Entity, now_ms: int) -> bool:
    """Return True where an entity has ended, by its state or its expiry."""
    return is_ended(entity.item_type, entity.value.get("state"), types) or bool(expired(types, entity, now_ms))


def holds(journal: Journal, entity: Entity, now_ms: int) -> bool:
    """Return True where an entity is in force and nothing in force replaced it."""
    if is_over(journal.types, entity, now_ms):
        return False
    return not replacements(journal, entity.item_id)


class InForce(NamedTuple):
    """Ids of entities in force, those of the greatest weight first, and their number."""

    ids: tuple[str, ...]
    total: int


def standing(journal: Journal, item_type: str, most: int, now_ms: int, *, with_ended: bool = False) -> InForce:
    """Return the entities of a type in force, as far as the index knows: the most severe first where they have a
    severity, the newest of equals; with ``with_ended`` all of the type. All are counted and few are read, so that
    it costs little in a large store.
    """
    from periplus.base.clock import format_ms

    rows = rows_of(journal.types)
    ended = ", ".join(f"'{name}/{state}'" for name, row in sorted(rows.items()) for state in sorted(row.ended_states))
    own = ", ".join(f"'{state}'" for state in sorted(rows[item_type].ended_states))
    where = _STANDING.format(ended=ended, own=own)
    arguments = (item_type, with_ended, not rows[item_type].may_expire, format_ms(now_ms))
    db = journal.index.db
    count = db.execute(f"SELECT COUNT(*) FROM documents d WHERE {where}", arguments).fetchone()[0]  # noqa: S608 - names of the table
    found: list[str] = []
    for of in _OF_SEVERITY if "severity" in rows[item_type].linked else ("",):
        if len(found) < most:
            statement = f"SELECT d.item_id FROM documents d WHERE {where}{of} ORDER BY d.id DESC LIMIT ?"  # noqa: S608 - constants
            found += [str(row[0]) for row in db.execute(statement, (*arguments, most - len(found)))]
    return InForce(tuple(found), int(count))


def replacements(
    journal: Journal, item_id: str, get: Callable[[tuple[str, str]], Entity | None] | None = None
) -> tuple[tuple[str, str], ...]:
    """Return the present replacements of ``item_id``: the ends of the chains of entities that replaced it, as far as
    the index knows.
    """
    return tuple(_after(journal, item_id, get or (lambda key: journal.get(*key)), {item_id: {}}))


def _after(
    journal: Journal,
    item_id: str,
    get: Callable[[tuple[str, str]], Entity | None],
    known: dict[str, dict[tuple[str, str], None]],
) -> dict[tuple[str, str], None]:
    """Return the ends behind ``item_id``; ``known`` has the ends of entities met before: chains may meet again, or
    form a circle.
    """
    ends: dict[tuple[str, str], None] = {}
    rows = journal.index.db.execute(
        "SELECT item_type, item_id FROM replaced WHERE target = ? ORDER BY item_type, item_id LIMIT ?",
        (item_id, REPLACEMENTS_MAX),
    ).fetchall()
    for key in rows:
        if key[1] not in known:
            entity = get(key) if len(known) < REPLACEMENTS_MAX else None
            if entity is None:
                continue
            known[key[1]] = {}
            itself = {} if is_ended(key[0], entity.value.get("state"), journal.types) else {key: None}
            known[key[1]] = _after(journal, key[1], get, known) or itself
        ends.update(known[key[1]])
    return ends


def _is_past(ends: str, now_ms: int) -> bool:
    from periplus.base.clock import parse_ms

    ends_ms = parse_ms(ends)
    return ends_ms is not None and ends_ms <= now_ms
