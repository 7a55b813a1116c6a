"""Check of every table of the index against the records: SQLite has no checksums, so no row is trusted.

Records that are not synced are not indexed yet, and records that another process wrote meanwhile are indexed already: neither is a
difference. An index that was loaded from a checkpoint need not hold the records before it.
"""

from __future__ import annotations

__all__ = ["LONG_BYTES", "IndexState", "check_file", "check_index"]

import heapq
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar

from periplus.base.named_tuple import NamedTuple
from periplus.journal.care.rebuild_comparison import is_cramped
from periplus.journal.index.tables import Index
from periplus.journal.journal import Journal

_WORDS_PATIENCE_S: Final = 1.0
_NAMED_MAX: Final = 3
LONG_BYTES: Final = 64 << 20  # SQLite needs more than a second for a larger file
_MADE_BY: Final = "SELECT lineage, seq, item_type, item_id FROM records WHERE version = ? AND version <> ''"
RowT = TypeVar("RowT")
_RANKS: Final = {int: 1, float: 1, str: 2, bytes: 3}


class IndexState(NamedTuple):
    """The ``differences`` of the index, and the number of entities whose last records it lacks."""

    differences: list[str]
    behind: int


def check_index(
    journal: Journal,
    rebuilt: Index,
    ends: dict[str, int],
    unindexed: set[tuple[str, str]],
    progress: Callable[[int, int], None],
    *,
    is_whole: bool,
    tell: Callable[[str], None],
) -> IndexState:
    """Compare the journal's index with ``rebuilt``, which holds all its records, and with the entities in it.

    ``ends``: for each lineage the seq after the last record read; ``unindexed``: the entities in records after the index's watermark. If
    the journal is not whole (``is_whole``), only the index's own soundness is checked.
    """
    index = journal.index
    try:
        _tell_of_long(journal.index_path, tell)
        verdict = _verdict(index.db)
        if verdict:
            return IndexState([verdict], 0)
        if index.is_writable and not index.is_memory:
            _check_words(journal.index_path)
        newer = {
            (row.item_type, row.item_id)
            for lineage, end in ends.items()
            for row in index.records("lineage = ? AND seq >= ?", (lineage, end), -1)
        }
        if not is_whole:
            for _ in index.entities():
                pass  # reading checks each row
            for _ in index.all_ancestors():
                pass
            return IndexState([], 0)
        total = sum(rebuilt.counts().values())
        different = set(_differing(index, rebuilt, total, progress)) - newer
        found = list(_check_schema(journal))
        if different - unindexed:
            found.append(f"{len(different - unindexed):,} entities differ from a rebuild")
        left_out = newer | unindexed
        found += _check_records(index, rebuilt, ends, left_out, progress)
        found += _check_edges(index, rebuilt, left_out)
        found += _check_heads(index, rebuilt, left_out)
        found += _check_ancestors(index, rebuilt)
        live = _counted((entity for entity in rebuilt.entities() if not entity.deleted), total, progress)
        found += index.check_above(live, left_out)
    except sqlite3.Error as error:
        if is_cramped(rebuilt, error):
            raise
        return IndexState([str(error)], 0)
    return IndexState(found, len(different & unindexed))


def _tell_of_long(path: str, tell: Callable[[str], None]) -> None:
    """Announce a long check of SQLite, which reports no progress."""
    size = os.path.getsize(path) if os.path.exists(path) else 0
    if size >= LONG_BYTES:
        tell(
            f"SQLite checks the index ({size / 1e6:,.0f} MB) without reporting progress; Ctrl-C stops it and changes nothing"
        )


def check_file(path: str) -> str:
    """Return what is wrong with a SQLite file beside the index, as far as SQLite can tell; empty if nothing is, or it is busy."""
    try:
        with closing(sqlite3.connect(f"{Path(path).as_uri()}?mode=ro", uri=True, timeout=_WORDS_PATIENCE_S)) as db:
            verdict = _verdict(db)
        if not verdict:
            _check_words(path)
    except sqlite3.Error as error:
        return "" if _is_busy(error) else str(error)
    return verdict


def _verdict(db: sqlite3.Connection) -> str:
    found = str(db.execute("PRAGMA integrity_check(1)").fetchone()[0]).splitlines()[
        -1
    ]  # the first line names the database
    return "" if found == "ok" else found


def _is_busy(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY)


def _differing(
    index: Index, rebuilt: Index, total: int, progress: Callable[[int, int], None]
) -> Iterator[tuple[str, str]]:
    """Yield type and id of the entities that differ; both indexes give them in the same order."""
    by = attrgetter("item_type", "item_id")
    both = heapq.merge(index.entities(), _counted(rebuilt.entities(), total, progress), key=by)
    for key, found in groupby(both, key=by):
        pair = list(found)
        if len(pair) != 2 or pair[0] != pair[1]:
            yield key


def _counted(rows: Iterable[RowT], total: int, progress: Callable[[int, int], None]) -> Iterator[RowT]:
    for number, row in enumerate(rows):
        if not number & 0xFF:
            progress(number, max(total, number))
        yield row


def _check_words(path: str) -> None:
    """Raise sqlite3.Error if the words of a full-text table do not match its texts; SQLite itself compares them.

    The check is a writing statement that writes nothing, so it gets its own connection, and is skipped while another process writes.
    """
    db = sqlite3.connect(path, timeout=_WORDS_PATIENCE_S, isolation_level=None)
    try:
        tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%fts5%' ORDER BY name"
        for (name,) in db.execute(tables).fetchall():
            quoted = '"' + str(name).replace('"', '""') + '"'
            db.execute(f"INSERT INTO {quoted} ({quoted}) VALUES ('integrity-check')")  # noqa: S608 - a name of the schema
    except sqlite3.OperationalError as error:
        if not _is_busy(error):
            raise
    finally:
        db.close()


def _check_schema(journal: Journal) -> Iterator[str]:
    """Check that tables and indices are declared as in a new index; names added by others are ignored."""
    fresh = journal.empty_index()
    try:
        stated = "SELECT name, sql FROM sqlite_master"
        wanted, held = dict(fresh.db.execute(stated)), dict(journal.index.db.execute(stated))
    finally:
        fresh.close()
    wrong = sorted(name for name, sql in wanted.items() if held.get(name) != sql)
    if wrong:
        yield f"{', '.join(wrong[:_NAMED_MAX])} have changed declarations"


def _check_records(
    index: Index, rebuilt: Index, ends: dict[str, int], left_out: set[tuple[str, str]],
    progress: Callable[[int, int], None],
) -> Iterator[str]:  # fmt: skip
    """Check the rows of ``records``, the keys kept from a checkpoint, and the position of each watermark."""
    marks, floors = index.watermarks(), index.floors()
    spans = index.db.execute("SELECT lineage, MIN(seq), MAX(seq) FROM records GROUP BY lineage")
    for lineage, first, last in spans.fetchall():
        if lineage not in marks or first < floors.get(lineage, 1) or last >= marks[lineage].next_seq:
            yield f"records {first} to {last} of {lineage} are outside the range that it states"
    for lineage, mark in marks.items():
        where = "lineage = ? AND seq >= ? AND seq < ?"
        span = (lineage, floors.get(lineage, 1), min(mark.next_seq, ends.get(lineage, 1)))
        # Records after the watermark may have raised the rev of a version.
        wrong = [key[0] for key, ours, theirs in _beside(_rows(index, where, span), _counted(_rows(rebuilt, where, span), span[2], progress), (1,))
                 if ours != theirs and not {row[10:12] for row in (ours, theirs) if row} <= left_out]  # fmt: skip
        if wrong:
            more = f" and {len(wrong) - _NAMED_MAX:,} more" if len(wrong) > _NAMED_MAX else ""
            yield f"records {', '.join(map(str, wrong[:_NAMED_MAX]))}{more} of {lineage} differ from the journal"
        found = next(_rows(rebuilt, "lineage = ? AND seq = ?", (lineage, mark.next_seq - 1)), None)
        if found is None or found[2] != mark.segment:
            continue  # it points behind a segment's header
        if found[5][:8].hex() != mark.sum or found[3] + found[4] > mark.offset:
            yield f"the watermark of {lineage} does not follow record {mark.next_seq - 1:,}"
    for key, lineage, seq, version, ts in index.db.execute("SELECT key, lineage, seq, version, ts FROM kept_keys"):
        row = next(_rows(rebuilt, "lineage = ? AND seq = ?", (lineage, seq)), None)
        if row is None or (row[14], row[12], row[6]) != (key, version, ts):
            yield f"record {seq} of {lineage} was not written with key {key!r}"


def _check_edges(index: Index, rebuilt: Index, left_out: set[tuple[str, str]]) -> Iterator[str]:
    marks, floors = index.watermarks(), index.floors()
    order = "SELECT parent, child FROM edges ORDER BY parent, child"
    wrong = 0
    for (_, child), ours, theirs in _beside(index.db.execute(order), rebuilt.db.execute(order), (0, 1)):
        if ours == theirs:
            continue
        if ours is not None:  # its record may have been written since the journal was read
            made = index.db.execute(_MADE_BY, (child,)).fetchall()
            wrong += not any(row[2:] in left_out for row in made)
        else:
            made = rebuilt.db.execute(_MADE_BY, (child,)).fetchall()
            wrong += any(
                lineage in marks
                and floors.get(lineage, 1) <= seq < marks[lineage].next_seq
                and tuple(key) not in left_out
                for lineage, seq, *key in made
            )
    if wrong:
        yield f"{wrong:,} edges between versions differ from the journal"


def _check_heads(index: Index, rebuilt: Index, left_out: set[tuple[str, str]]) -> Iterator[str]:
    """Check each head, including those shown merged or in no entity."""
    order = "SELECT * FROM heads ORDER BY item_type, item_id, version"
    wrong = [key for key, ours, theirs in _beside(index.db.execute(order), rebuilt.db.execute(order), (0, 1, 2))
             if ours != theirs and key[:2] not in left_out]  # fmt: skip
    if wrong:
        yield f"{len(wrong):,} heads differ from the journal, the first of {wrong[0][1]}"


def _check_ancestors(index: Index, rebuilt: Index) -> Iterator[str]:
    """Check the superseded versions from before a checkpoint."""
    wrong = [
        one.item_id for one in index.all_ancestors()
        if rebuilt.rev_of(*(key := (one.item_type, one.item_id, one.version))) != one.rev
        or rebuilt.payload(*key) != one.payload
        or any(head.version == one.version for head in index.heads(*key[:2]))
    ]  # fmt: skip
    if wrong:
        yield f"{len(wrong):,} versions from before a checkpoint differ from the journal, the first of {wrong[0]}"


def _rows(index: Index, where: str, arguments: tuple[object, ...]) -> Iterator[tuple[Any, ...]]:
    return index.db.execute(f"SELECT * FROM records WHERE {where} ORDER BY seq", arguments)  # noqa: S608 - of this module


def _beside(
    ours: Iterable[tuple[Any, ...]], theirs: Iterable[tuple[Any, ...]], by: tuple[int, ...]
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...] | None, tuple[Any, ...] | None]]:
    """Join two tables sorted by the columns ``by``; yield the key and the row of each table, or None."""
    both = heapq.merge(((_key(row, by), 0, row) for row in ours), ((_key(row, by), 1, row) for row in theirs),
                       key=itemgetter(0))  # fmt: skip
    for key, found in groupby(both, key=itemgetter(0)):
        rows: list[tuple[Any, ...] | None] = [None, None]
        for _, side, row in found:
            rows[side] = row
        yield tuple(part for _, part in key), rows[0], rows[1]


def _key(row: tuple[Any, ...], by: tuple[int, ...]) -> tuple[tuple[int, Any], ...]:
    """Return a sort key in SQLite's order: numbers, texts, bytes; a damaged row may hold any type in any column."""
    return tuple((_RANKS.get(type(row[at]), 0), row[at]) for at in by)
