"""Grouping of observations in ``log``: an agent writes several at each step, and a long run is shown as one line a session.

A stretch of consecutive observations is shown as one row for each session in it: two agents that work at the same time alternate,
and neither hides the other. Counts are complete, and other records are never grouped.
"""

from __future__ import annotations

__all__ = ["LONG", "Folded", "Row", "each", "folds", "read_folded", "rows_out"]

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from periplus.cli.common.schemas import RecordOut
    from periplus.journal import IndexedRecord, Journal
    from periplus.journal.history.log import Gap, Page

_READ_AT_ONCE: Final = 500
_READ_MAX: Final = 5_000  # for one screen; a longer run continues on the next page
LONG: Final = _READ_MAX  # from this limit on, results are read in pieces, and no group is read to its end


class Row(NamedTuple):
    """``record`` is the first record found. In a group, ``kinds`` counts the records by type, from seq ``first`` to ``last``."""

    record: IndexedRecord
    kinds: dict[str, int]
    first: int
    last: int

    @property
    def size(self) -> int:
        return sum(self.kinds.values())


class Folded(NamedTuple):
    """Rows, the start of the next page (by lineage, empty on the last page), and the gaps among the rows."""

    rows: list[Row]
    before: dict[str, int]
    gaps: tuple[Gap, ...]


class _Folding:
    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.open: dict[
            tuple[str, str], int
        ] = {}  # in the current stretch: the index in ``rows`` of each session's row

    def joins(self, record: IndexedRecord) -> bool:
        return record.action == "observe" and (record.lineage, record.session) in self.open

    def add(self, record: IndexedRecord) -> None:
        if self.joins(record):
            at = self.open[record.lineage, record.session]
            row = self.rows[at]
            row.kinds[record.item_type] = row.kinds.get(record.item_type, 0) + 1
            self.rows[at] = row._replace(first=min(row.first, record.seq), last=max(row.last, record.seq))
            return
        if record.action == "observe":
            self.open[record.lineage, record.session] = len(self.rows)
        else:
            self.open = {}
        self.rows.append(Row(record, {record.item_type: 1}, record.seq, record.seq))


def each(records: Iterable[IndexedRecord]) -> Iterator[Row]:
    """Yield a row for each record, in display order."""
    return (Row(record, {record.item_type: 1}, record.seq, record.seq) for record in records)


def folds(records: Iterable[IndexedRecord]) -> Iterator[Row]:
    """Yield rows with grouped observations, in display order. At most one stretch of rows is in memory."""
    folding = _Folding()
    for record in records:
        if record.action != "observe" or not folding.open:
            yield from folding.rows
            folding = _Folding()
        folding.add(record)
    yield from folding.rows


def read_folded(
    read: Callable[[Mapping[str, int], int], Page], before: Mapping[str, int], lineages: Sequence[str], limit: int
) -> Folded:
    """Read at most ``limit`` rows from ``read(before, how many)``, newest first. A group is complete up to ``_READ_MAX`` records."""
    folding = _Folding()
    start = {lineage: before[lineage] for lineage in lineages if lineage in before}
    gaps: list[Gap] = []
    looked_at = 0
    at_once = limit
    while True:
        page = read(start, at_once)
        for record in page.records:
            if len(folding.rows) == limit and not folding.joins(record):
                shown = [gap for gap in page.gaps if gap.last >= start.get(gap.lineage, gap.last + 1)]
                return Folded(folding.rows, start, (*gaps, *shown))
            folding.add(record)
            start[record.lineage] = record.seq
        gaps += page.gaps
        looked_at += len(page.records)
        is_full = len(folding.rows) == limit and not folding.open
        if not page.before or is_full or looked_at >= _READ_MAX:
            return Folded(folding.rows, page.before, tuple(gaps))
        start, at_once = dict(page.before), _READ_AT_ONCE


def rows_out(journal: Journal, rows: Sequence[Row]) -> list[RecordOut]:
    """Convert rows to records. A group has the session's name in place of an id, and a summary of its contents."""
    import msgspec

    from periplus.cli.common.conversion import records_out

    found = records_out(journal, [row.record for row in rows])
    for at, row in enumerate(rows):
        if row.size > 1:
            kinds = sorted(row.kinds.items(), key=lambda one: (-one[1], one[0]))
            several = ", ".join(f"{count:,} {kind or 'other'}" for kind, count in kinds)
            said = f": {several}" if len(kinds) > 1 else f" of {kinds[0][0] or 'no type'}"
            summary = f"{row.size:,} records{said} ({row.first:,} to {row.last:,})"
            found[at] = msgspec.structs.replace(found[at], id=row.record.session, rev=0, summary=summary)
    return found
