"""Whether what is remembered holds: by its state, by the end that it was given, and by what was put in its place. One rule for all that
tell of memory.

What is over or replaced is kept, and told by who is asked for it; nobody is told of it as of what holds. A note whose time is over
is listed by ``review`` until it is confirmed. What was replaced stays so when the end of what replaced it comes.
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
_SEVERITIES: Final = ("'critical'", "'high'", "'medium', ''", "'low'")  # who says none means medium
_OF: Final = " AND d.item_id {} (SELECT item_id FROM links WHERE item_type = d.item_type AND field = 'severity' AND value IN ({}))"
_OF_SEVERITY: Final = (*(_OF.format("IN", said) for said in _SEVERITIES), _OF.format("NOT IN", ", ".join(_SEVERITIES)))
# As ``holds`` says it: a row of ``documents`` that did not end, is not expired, and that nothing which did not end came after.
_STANDING: Final = """d.item_type = ? AND (? OR d.state NOT IN ({own})
 AND (? OR d.item_id NOT IN (SELECT item_id FROM links WHERE field = 'expires' AND value <= ?))
 AND (d.item_id NOT IN (SELECT target FROM replaced) OR NOT EXISTS (
  WITH RECURSIVE newer (kind, id) AS (SELECT r.item_type, r.item_id FROM replaced r WHERE r.target = d.item_id
   UNION SELECT r.item_type, r.item_id FROM newer JOIN replaced r ON r.target = newer.id)
  SELECT 1 FROM newer JOIN documents n ON n.item_type = newer.kind AND n.item_id = newer.id
  WHERE newer.id <> d.item_id AND n.item_type || '/' || n.state NOT IN ({ended}))))"""


def expired(types: Mapping[str, EntityType], entity: Entity, now_ms: int) -> str:
    """Since when an entity's time is over; empty where it is not, and for a type that has no such time."""
    ends = entity.value.get("expires")
    row = row_of(types, entity.item_type) if isinstance(ends, str) and ends else None
    return ends if row is not None and row.may_expire and isinstance(ends, str) and _is_past(ends, now_ms) else ""


def expired_text(types: Mapping[str, EntityType], entity: Entity, now_ms: int) -> tuple[str, ...]:
    """The same in words, beside those of ``Ground.told``."""
    ends = expired(types, entity, now_ms)
    return (f"expired {ends}",) if ends else ()


def expiry_notes(ends: JSONValue, now_ms: int) -> tuple[str, ...]:
    """A note for who gives something an end that is past."""
    if not isinstance(ends, str) or not _is_past(ends, now_ms):
        return ()
    return (f"Its end, {ends}, is past: it counts as expired, and recall leaves it out unless --all is given",)


def is_over(types: Mapping[str, EntityType], entity: Entity, now_ms: int) -> bool:
    """Whether an entity holds no longer, by its state or because its time is over."""
    return is_ended(entity.item_type, entity.value.get("state"), types) or bool(expired(types, entity, now_ms))


def holds(journal: Journal, entity: Entity, now_ms: int) -> bool:
    """Whether an entity holds, and nothing that holds was put in its place."""
    if is_over(journal.types, entity, now_ms):
        return False
    return not replacements(journal, entity.item_id)


class InForce(NamedTuple):
    """The ids of some that hold, the weightiest first, and how many there are."""

    ids: tuple[str, ...]
    total: int


def standing(journal: Journal, item_type: str, most: int, now_ms: int, *, with_ended: bool = False) -> InForce:
    """What holds of a type, as far as the index knows: the most severe first where that is said of it, the newest of equals; ``with_ended``
    all that there is of it.

    All are counted and few are read, so that it costs little in a store of many.
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
    """What stands where ``item_id`` stood: the ends of the chains of those that replaced it, as far as the index knows."""
    return tuple(_after(journal, item_id, get or (lambda key: journal.get(*key)), {item_id: {}}))


def _after(
    journal: Journal,
    item_id: str,
    get: Callable[[tuple[str, str]], Entity | None],
    known: dict[str, dict[tuple[str, str], None]],
) -> dict[tuple[str, str], None]:
    """The ends behind ``item_id``; ``known`` has those of what was met before: chains may meet again, or go in a circle."""
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
