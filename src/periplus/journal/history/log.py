"""The log: pages of records, new records since a seq, and gaps.

Everything here only reads. Records come from the index, which holds the durable ones. If the index was loaded from a checkpoint and does
not reach back far enough, an index with the full history is used.

Times are stated by writers. They filter records and order the records of several lineages for people, but within a lineage the order is
always that of the seqs.
"""

from __future__ import annotations

__all__ = [
    "WINDOW_RECORDS",
    "Gap",
    "GapSummary",
    "News",
    "Page",
    "RecordFilter",
    "beside_others",
    "newest",
    "newest_by_pages",
    "newest_within",
    "news",
    "news_by_pages",
    "of_entity",
    "present_in_gap",
]

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias

from periplus.base.named_tuple import NamedTuple
from periplus.journal.history.record_filter import RecordFilter

if TYPE_CHECKING:
    from periplus.journal.index.tables import Index
    from periplus.journal.journal import Journal
    from periplus.journal.state.index_values import IndexedRecord

GAPS_MAX: Final = 1_000
PAGE_RECORDS: Final = 1_000
WINDOW_RECORDS: Final = 20_000


class Gap(NamedTuple):
    """Records ``first`` to ``last`` of a lineage, which can no longer be read.

    The keys of ``counts`` are ``type/present`` and ``type/deleted``: entities whose present version was written in the gap.
    """

    lineage: str
    first: int
    last: int
    counts: dict[str, int]


class Page(NamedTuple):
    """Records, newest first. ``before`` is where the next page begins, a seq for each lineage; empty on the last page.

    ``gaps`` lie between its first and its last record.
    """

    records: list[IndexedRecord]
    before: dict[str, int]
    gaps: tuple[Gap, ...] = ()


class News(NamedTuple):
    """Records, oldest first within a lineage, our own lineage first. ``seen`` is the last examined seq by lineage.

    ``more`` is True if the limit left records for the next look; ``seen`` then ends before them.
    """

    records: list[IndexedRecord]
    seen: dict[str, int]
    gaps: tuple[Gap, ...]
    more: bool


GapSummary: TypeAlias = "Callable[[Journal, str, int, int], dict[str, int]]"


def newest(
    journal: Journal, wanted: RecordFilter, *, lineages: Sequence[str], before: Mapping[str, int], limit: int
) -> Page:
    """Return the newest ``limit`` records of ``lineages``, each older than its ``before``.

    Records of several lineages are merged by time: each step takes the lineage whose next record states the latest time. Raises UsageError
    for a negative ``limit``.
    """
    _refuse_negative(limit)
    journal.refresh()
    journal.project()
    with _enough(journal, wanted, lineages, before, limit) as index:
        return _newest(journal, index, wanted, lineages, before, limit)


def newest_within(
    journal: Journal,
    wanted: RecordFilter,
    *,
    lineages: Sequence[str],
    before: Mapping[str, int],
    limit: int,
    window: int = WINDOW_RECORDS,
) -> Page:
    """Return what ``newest`` does at a bounded cost: of each lineage only ``window`` records before its ``before`` are examined.

    A page may so have fewer than ``limit`` records, or none, and yet not be the last. Records from before a checkpoint that are not in the
    index are not loaded, and the completeness of a filtered page is not compared with the journal's files. Raises UsageError for a negative
    ``limit``.
    """
    _refuse_negative(limit)
    journal.refresh()
    journal.project()
    rows: list[list[IndexedRecord]] = []
    starts: dict[str, int] = {}
    floors = journal.index.floors()
    has_more = False
    for lineage in lineages:
        start = min(before.get(lineage, 2**62), _indexed_end(journal, lineage) + 1)
        found, first = _window(journal.index, lineage, wanted, start, limit, window)
        if not any(wanted):
            _check_unbroken(journal, found, start if start > floors.get(lineage, 1) else 1)
        has_more = has_more or first > floors.get(lineage, 1)
        starts[lineage] = first  # unless some of the rows are left for the next page
        rows.append(found)
    records = [
        one for one, _ in zip(heapq.merge(*rows, key=lambda row: row.ts, reverse=True), range(limit), strict=False)
    ]
    shown = {(record.lineage, record.seq) for record in records}
    for lineage, found in zip(lineages, rows, strict=True):
        if any((row.lineage, row.seq) not in shown for row in found):
            has_more = True
            last = [row.seq for row in found if (row.lineage, row.seq) in shown]
            starts[lineage] = last[-1] if last else found[0].seq + 1
    _check_rows(journal, records)
    return Page(records, starts if has_more else {})


def _window(
    index: Index, lineage: str, wanted: RecordFilter, start: int, limit: int, window: int
) -> tuple[list[IndexedRecord], int]:
    """Return at most ``limit`` + 1 records of one window before ``start``, and where it begins.

    Where the first one has none of the wanted types, it is the window that ends with the newest record of them.
    """
    condition, values = wanted.where()
    where = f"lineage = ? AND seq < ? AND seq >= ?{condition} ORDER BY seq DESC"
    first = max(start - window, 1)
    found = index.records(where, [lineage, start, first, *values], limit + 1)
    if wanted.types and not found and first > 1:
        newest_of_type = (
            "SELECT MAX(seq) FROM records INDEXED BY records_by_item WHERE item_type = ? AND lineage = ? AND seq < ?"
        )
        rows = (index.db.execute(newest_of_type, (name, lineage, first)).fetchone() for name in wanted.types)
        start = max(row[0] or 0 for row in rows) + 1
        first = max(start - window, 1)
        found = index.records(where, [lineage, start, first, *values], limit + 1)
    return found, first


def newest_by_pages(
    journal: Journal, wanted: RecordFilter, *, lineages: Sequence[str], before: Mapping[str, int], limit: int
) -> Iterator[Page]:
    """Yield the result of ``newest`` in pages of at most PAGE_RECORDS; only one page for each lineage is in memory.

    ``before`` of the last page is where the log continues; a gap is in the page of the first record read after it.
    """
    _refuse_negative(limit)
    journal.refresh()
    journal.project()
    with _enough(journal, wanted, lineages, before, limit) as index:
        gaps: dict[tuple[str, int], Gap] = {}
        starts = {one: min(before.get(one, 2**62), _indexed_end(journal, one) + 1) for one in lineages}
        each = [_back(journal, index, one, wanted, starts[one], limit, gaps) for one in lineages]
        merged = heapq.merge(*each, key=lambda record: record.ts, reverse=True)
        left, told = limit, 0
        following = next(merged, None)
        while following is not None and left:
            records: list[IndexedRecord] = []
            while following is not None and left and len(records) < PAGE_RECORDS:
                records.append(following)
                starts[following.lineage] = following.seq
                left -= 1
                following = next(merged, None)
            yield Page(records, dict(starts) if following is not None else {}, tuple(gaps.values())[told:])
            told = len(gaps)
        if told < len(gaps) or left == limit:
            yield Page([], dict(starts) if following is not None else {}, tuple(gaps.values())[told:])


@contextmanager
def _enough(
    journal: Journal, wanted: RecordFilter, lineages: Sequence[str], before: Mapping[str, int], limit: int
) -> Iterator[Index]:
    """Give the journal's index if it has all records of each lineage or more than are wanted; otherwise one with the full history.

    With fewer records of a lineage, their order relative to others and the existence of a next page would be unknown.
    """
    condition, values = wanted.where()

    def holds_more(lineage: str) -> bool:
        where = f"SELECT COUNT(*) FROM (SELECT 1 FROM records WHERE lineage = ? AND seq < ?{condition} LIMIT ?)"  # noqa: S608 - values apart
        start = before.get(lineage, 2**62)
        count: int = journal.index.db.execute(where, (lineage, start, *values, limit + 1)).fetchone()[0]
        return count > limit

    if all(_reaches_back(journal, lineage) or holds_more(lineage) for lineage in lineages):
        yield journal.index
        return
    with _history(journal) as index:
        yield index


def _back(
    journal: Journal,
    index: Index,
    lineage: str,
    wanted: RecordFilter,
    start: int,
    limit: int,
    gaps: dict[tuple[str, int], Gap],
) -> Iterator[IndexedRecord]:
    """Yield ``limit`` records of a lineage before ``start``, newest first, and one more if there is one; adds to ``gaps``."""
    condition, values = wanted.where()
    while True:
        size = min(PAGE_RECORDS, limit)
        found = index.records(
            f"lineage = ? AND seq < ?{condition} ORDER BY seq DESC", [lineage, start, *values], size + 1
        )
        gaps.update(
            ((lineage, gap.first), gap) for gap in _checked(journal, index, lineage, wanted, found, size, start)
        )
        _check_rows(journal, found[:size])
        yield from found[:size]
        limit -= size
        if len(found) <= size:
            return
        if not limit:
            yield found[size]
            return
        start = found[size - 1].seq


def _checked(
    journal: Journal,
    index: Index,
    lineage: str,
    wanted: RecordFilter,
    found: Sequence[IndexedRecord],
    size: int,
    start: int,
) -> Iterable[Gap]:
    """Return the gaps among ``found``, the newest ``size`` records before ``start`` and the one after them.

    Raises IndexDamageError if the index lacks a record that the journal has.
    """
    first = found[-1].seq if len(found) > size else 1
    if index is not journal.index:
        return _gaps(journal, index, lineage, first, start - 1, present_in_gap)
    if not any(wanted):
        _check_unbroken(journal, found, start)
    else:
        _check_complete(journal, lineage, wanted, found, first, start)
    return ()


@contextmanager
def _history(journal: Journal) -> Iterator[Index]:
    """Give an index with all records that can be read."""
    from periplus.journal.checkpoints.partial_history import index_with_history

    index = index_with_history(journal)
    try:
        yield index
    finally:
        if index is not journal.index:
            index.close()


def _newest(
    journal: Journal,
    index: Index,
    wanted: RecordFilter,
    lineages: Sequence[str],
    before: Mapping[str, int],
    limit: int,
) -> Page:
    condition, values = wanted.where()
    rows: list[list[IndexedRecord]] = []
    starts: dict[str, int] = {}
    gaps: list[Gap] = []
    for lineage in lineages:
        starts[lineage] = min(before.get(lineage, 2**62), _indexed_end(journal, lineage) + 1)
        found = index.records(
            f"lineage = ? AND seq < ?{condition} ORDER BY seq DESC", [lineage, starts[lineage], *values], limit + 1
        )
        gaps += _checked(journal, index, lineage, wanted, found, limit, starts[lineage])
        rows.append(found)
    merged = heapq.merge(*rows, key=lambda record: record.ts, reverse=True)
    records = [record for record, _ in zip(merged, range(limit), strict=False)]
    for record in records:
        starts[record.lineage] = record.seq
    _check_rows(journal, records)
    has_more = sum(map(len, rows)) > len(records)
    return Page(records, starts if has_more else {}, tuple(gaps))


def news(
    journal: Journal,
    seen: Mapping[str, int],
    wanted: RecordFilter,
    *,
    lineages: Sequence[str],
    limit: int,
    summary: GapSummary | None = None,
) -> News:
    """Return the durable records after ``seen``; a lineage that is not in ``seen`` starts at its first record.

    ``seen`` of the result keeps every lineage of the argument, examined or not. Records that ``wanted`` excludes count as seen. Raises
    UsageError for a negative ``limit``.
    """
    _refuse_negative(limit)
    journal.refresh()
    journal.project()
    if all(_has_all_behind(journal, lineage, seen.get(lineage, 0)) for lineage in lineages):
        return _news(journal, journal.index, seen, wanted, lineages, limit, summary or present_in_gap)
    with _history(journal) as index:
        return _news(journal, index, seen, wanted, lineages, limit, summary or present_in_gap)


def news_by_pages(
    journal: Journal, seen: Mapping[str, int], wanted: RecordFilter, *, lineages: Sequence[str], limit: int
) -> Iterator[News]:
    """Yield the result of ``news`` in pages of at most PAGE_RECORDS; ``seen`` and ``more`` of the last page are those of the whole."""
    _refuse_negative(limit)
    journal.refresh()
    journal.project()
    if all(_has_all_behind(journal, lineage, seen.get(lineage, 0)) for lineage in lineages):
        yield from _on(journal, journal.index, seen, wanted, lineages, limit)
        return
    with _history(journal) as index:
        yield from _on(journal, index, seen, wanted, lineages, limit)


def _on(
    journal: Journal, index: Index, seen: Mapping[str, int], wanted: RecordFilter, lineages: Sequence[str], limit: int
) -> Iterator[News]:
    while True:
        size = min(PAGE_RECORDS, limit)
        found = _news(journal, index, seen, wanted, lineages, size, present_in_gap)
        yield found
        limit -= len(found.records)
        if not found.more or not limit:
            return
        seen = found.seen


def _refuse_negative(limit: int) -> None:
    """Raise UsageError for a negative limit. SQLite would take it for no limit, and an extra record would look like a missing one."""
    if limit < 0:
        from periplus.base.errors import UsageError

        raise UsageError("a limit is at least 0")


def _news(
    journal: Journal,
    index: Index,
    seen: Mapping[str, int],
    wanted: RecordFilter,
    lineages: Sequence[str],
    limit: int,
    summary: GapSummary,
) -> News:
    condition, values = wanted.where()
    records: list[IndexedRecord] = []
    reached = dict(seen)
    gaps: list[Gap] = []
    more = False
    for lineage in lineages:
        first, end = seen.get(lineage, 0) + 1, _indexed_end(journal, lineage)
        room = limit - len(records)
        rows = index.records(
            f"lineage = ? AND seq >= ? AND seq <= ?{condition} ORDER BY seq", [lineage, first, end, *values], room + 1
        )
        if len(rows) > room:
            more, rows = True, rows[:room]
            end = rows[-1].seq if rows else first - 1
        if condition and end >= first and index is journal.index:
            _check_complete(journal, lineage, wanted, rows, first, end + 1)
        records.extend(rows)
        if end >= first:
            reached[lineage] = end
            gaps.extend(_gaps(journal, index, lineage, first, end, summary))
    _check_rows(journal, records)
    return News(records, reached, tuple(gaps), more)


def _check_rows(journal: Journal, rows: Iterable[IndexedRecord]) -> None:
    """Raise IndexDamageError if a row differs from the journal's line. Damage of the line itself goes to ``journal.damage``."""
    from periplus.base.errors import DamageError, EnvironmentFailure, UsageError
    from periplus.journal.records.record import decode_line
    from periplus.journal.records.segment import Entry
    from periplus.journal.state.entity import change_of

    for row in rows:
        try:
            line = journal.reader(row.lineage).read_at(row.segment, row.offset, row.length)
            said, leaf = decode_line(line[:-1])
            version = row.version
            if said.payload_ref is None:  # a payload in an object may be large
                change = change_of(
                    Entry(said, row.offset, row.length, leaf), row.lineage, row.segment, journal.load_object
                )
                version = change.version if change is not None else ""
        except (DamageError, EnvironmentFailure, UsageError):
            _check_line(journal, row)
            continue
        written = (said.seq, leaf, said.ts, said.writer, said.session, said.action, said.item_type, said.item_id,
                   version, said.key, said.summary, said.parents if version else ())  # fmt: skip
        held = (row.seq, row.leaf, row.ts, row.writer, row.session, row.action, row.item_type, row.item_id,
                row.version, row.key, row.summary, row.parents)  # fmt: skip
        if written != held:
            raise journal.index.damaged(f"record {row.seq} of {row.lineage} differs from the journal")


def _check_line(journal: Journal, row: IndexedRecord) -> None:
    """Note damage of the line of ``row`` in ``journal.damage``, unless the line was only moved since the index was made."""
    from periplus.base.errors import DamageError

    try:
        journal.line_at(row)
    except DamageError as error:
        journal.damage = journal.damage or error


def of_entity(journal: Journal, item_type: str, item_id: str) -> list[IndexedRecord]:
    """Return the readable records of an entity, newest first: by seq within a lineage, by time across lineages."""
    journal.project()
    with _history(journal) as index:
        # In the index's own order, reversed: sorting would need disk space, and there may be none.
        rows = index.records("item_type = ? AND item_id = ? ORDER BY lineage DESC, seq DESC", (item_type, item_id), -1)
    each = [list(found) for _, found in groupby(rows, key=lambda row: row.lineage)]
    return list(heapq.merge(*reversed(each), key=lambda row: row.ts, reverse=True))


def versions_of_session(
    journal: Journal, lineage: str, session: str, limit: int, first: int = 1, last: int | None = None
) -> list[IndexedRecord]:
    """Return at most ``limit`` records of a session, from ``first`` to ``last``, that made versions of entities, oldest first.

    The result is checked for completeness against the journal.
    """
    last = _indexed_end(journal, lineage) if last is None else min(last, _indexed_end(journal, lineage))
    where = "lineage = ? AND seq BETWEEN ? AND ? AND session = ? AND version <> '' ORDER BY seq"
    rows = journal.index.records(where, (lineage, first, last, session), limit)
    end = rows[-1].seq + 1 if len(rows) == limit else last + 1
    _check_complete(journal, lineage, RecordFilter(sessions=(session,)), rows, first, end, versions_only=True)
    _check_rows(journal, rows)
    return rows


def _check_complete(
    journal: Journal,
    lineage: str,
    wanted: RecordFilter,
    rows: Sequence[IndexedRecord],
    first: int,
    end: int,
    *,
    versions_only: bool = False,
) -> None:
    """Raise IndexDamageError if the journal has a wanted record in this span that is not among ``rows``."""
    from periplus.journal.history.log_check import check_complete

    if journal.damage is None and not journal.index.is_memory:
        others = check_complete(journal, lineage, wanted, rows, first, end, versions_only=versions_only)
        _check_rows(journal, [*rows[-1:], *others])


def _check_unbroken(journal: Journal, rows: Sequence[IndexedRecord], before: int) -> None:
    """Raise IndexDamageError if ``rows``, the records before ``before``, newest first, skip a seq."""
    if journal.damage is not None or journal.index.is_memory or journal.index.has_floors:
        return
    if (not rows and before > 1) or any(row.seq != before - 1 - at for at, row in enumerate(rows)):
        raise journal.index.damaged(f"of the records before {before} not all are there")


def beside_others(journal: Journal, records: Iterable[IndexedRecord]) -> set[str]:
    """Return those versions made by ``records`` that are concurrent with others: their entities have several heads."""
    found: set[str] = set()
    for item_type, item_id in {(r.item_type, r.item_id) for r in records if r.version}:
        heads = journal.index.heads(item_type, item_id)
        if len(heads) > 1:
            found.update(head.version for head in heads)
    return found


def present_in_gap(journal: Journal, lineage: str, first: int, last: int) -> dict[str, int]:
    """Count the entities whose heads are in a gap; an index loaded from a later checkpoint knows them."""
    rows = journal.index.db.execute(
        "SELECT item_type || CASE deleted WHEN 0 THEN '/present' ELSE '/deleted' END AS what, COUNT(*) FROM heads "
        "WHERE lineage = ? AND seq BETWEEN ? AND ? GROUP BY what ORDER BY what",
        (lineage, first, last),
    )
    return {row[0]: row[1] for row in rows}


def _gaps(journal: Journal, index: Index, lineage: str, first: int, end: int, summary: GapSummary) -> Iterator[Gap]:
    count = index.db.execute(
        "SELECT COUNT(*) FROM records WHERE lineage = ? AND seq BETWEEN ? AND ?", (lineage, first, end)
    ).fetchone()[0]
    if count == end - first + 1:
        return
    if journal.damage is None and not index.is_memory and not index.has_floors:
        raise journal.index.damaged(f"of the records {first} to {end} not all are there")
    rows = index.db.execute(
        "SELECT seq FROM records WHERE lineage = ? AND seq BETWEEN ? AND ? ORDER BY seq", (lineage, first, end)
    )
    expected, found = first, 0
    for seq in (*(row[0] for row in rows), end + 1):
        if seq > expected and found < GAPS_MAX:
            found += 1
            yield Gap(lineage, expected, seq - 1, summary(journal, lineage, expected, seq - 1))
        expected = seq + 1


def _indexed_end(journal: Journal, lineage: str) -> int:
    """Return the last seq of ``lineage`` in the index, which holds only durable records."""
    row = journal.index.db.execute("SELECT next_seq FROM watermarks WHERE lineage = ?", (lineage,)).fetchone()
    return int(row[0]) - 1 if row else 0


def _reaches_back(journal: Journal, lineage: str) -> bool:
    row = journal.index.db.execute("SELECT MIN(seq) FROM records WHERE lineage = ?", (lineage,)).fetchone()
    if row[0] is None:  # the lineage has no records after the checkpoint
        return journal.index.floors().get(lineage, 1) <= 1
    return bool(row[0] == 1)


def _has_all_behind(journal: Journal, lineage: str, seen: int) -> bool:
    row = journal.index.db.execute(
        "SELECT MIN(seq) FROM records WHERE lineage = ? AND seq > ?", (lineage, seen)
    ).fetchone()
    return bool(row[0] == seen + 1 or _indexed_end(journal, lineage) <= seen)
