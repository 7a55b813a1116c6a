"""Activity: records by day, and by type of entity, as far as the index knows.

The records of a lineage are in the order of their times, so the first record of a day is found by bisection, and no record is read to be
counted. A clock that was set back may move some records to the day beside.
"""

from __future__ import annotations

__all__ = ["Activity", "DayActivity", "activity"]

from collections import Counter
from typing import TYPE_CHECKING, Final

from periplus.base.clock import format_ms
from periplus.base.named_tuple import NamedTuple
from periplus.base.text.list_counts import Facet, facets_of

if TYPE_CHECKING:
    from periplus.journal.index.connection import Connection
    from periplus.journal.journal import Journal

DAYS_MAX: Final = 3_660
_DAY_MS: Final = 86_400_000
_TYPED_MAX: Final = 50_000


class DayActivity(NamedTuple):
    """The number of records that were written on a day, in UTC."""

    day: str
    records: int


class Activity(NamedTuple):
    """Records by day, the oldest day first, and by type of entity, the most frequent first; a type is empty for records
    of no entity. ``is_whole`` is False where the types are those of the newest records only.
    """

    days: tuple[DayActivity, ...]
    types: tuple[Facet, ...]
    is_whole: bool


def activity(journal: Journal, days: int) -> Activity:
    """Return the activity of all lineages in the last ``days`` days, today included."""
    today = journal.clock.now_ms() // _DAY_MS
    names = [format_ms(day * _DAY_MS)[:10] for day in range(today - min(max(1, days), DAYS_MAX) + 1, today + 1)]
    end = format_ms((today + 1) * _DAY_MS)[:10]
    counts, types, is_whole = Counter[str](), Counter[str](), True
    db = journal.index.db
    for lineage in journal.lineages():
        last = journal.index.last_seq(lineage)
        starts = [1]
        for day in (*names, end):
            starts.append(_first_seq(db, lineage, day, starts[-1], last + 1))
        for name, start, following in zip(names, starts[1:-1], starts[2:], strict=True):
            counts[name] += following - start
        typed = max(starts[1], starts[-1] - _TYPED_MAX)
        is_whole = is_whole and typed == starts[1]
        rows = db.execute(
            "SELECT item_type, COUNT(*) FROM records WHERE lineage = ? AND seq >= ? AND seq < ? GROUP BY 1",
            (lineage, typed, starts[-1]),
        )
        types.update(dict(rows.fetchall()))
    return Activity(tuple(DayActivity(name, counts[name]) for name in names), facets_of(types), is_whole)


def _first_seq(db: Connection, lineage: str, day: str, low: int, high: int) -> int:
    """Return the first seq from ``low`` on whose record is of ``day`` or later; ``high`` where there is none."""
    while low < high:
        middle = (low + high) // 2
        row = db.execute(
            "SELECT seq, ts FROM records WHERE lineage = ? AND seq >= ? ORDER BY seq LIMIT 1", (lineage, middle)
        ).fetchone()
        if row is None or row[1] >= day:
            high = middle
        else:
            low = row[0] + 1
    return low
