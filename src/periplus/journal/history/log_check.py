"""Completeness check of a filtered log: the index answers, and the journal's bytes are searched for records it left out.

The filter's values appear literally in the lines, so a byte search finds every line that may match, at memory speed and without parsing the
rest. For each matching line the index must have the record among its rows. A line without effect (an incomplete batch, or one that a later
segment repeats) shares its seq with another line, and then the row of that other line counts.
"""

from __future__ import annotations

__all__ = ["check_complete", "is_wanted"]

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import FormatError
from periplus.base.files import read_plain
from periplus.journal.records.record import Record, decode_line

if TYPE_CHECKING:
    from periplus.journal.history.record_filter import RecordFilter
    from periplus.journal.journal import Journal
    from periplus.journal.state.index_values import IndexedRecord
    from periplus.journal.storage.lineage import LineageReader

_WINDOW_BYTES: Final = 4 << 20
_BEGIN: Final = re.compile(rb'\{"v":\d{1,9},"seq":(\d{1,19}),"ts":"([^"]{0,64})"')


def check_complete(
    journal: Journal,
    lineage: str,
    wanted: RecordFilter,
    rows: Sequence[IndexedRecord],
    first: int,
    end: int,
    *,
    versions_only: bool = False,
) -> list[IndexedRecord]:
    """Raise IndexDamageError if a wanted record with ``first`` ≤ seq < ``end`` is not in ``rows``.

    With ``versions_only``, records without a version of an entity may be missing. Return the rows of other lines with the seqs of matching
    lines; the caller compares them with their own lines. Missing segments are skipped; damage is reported elsewhere.
    """
    index = journal.index
    first = max(first, index.floors().get(lineage, 1))
    held = {row.seq for row in rows}
    others: list[IndexedRecord] = []
    begin = index.records("lineage = ? AND seq = ?", (lineage, first), 1)
    for segment, offset, line in _lines(journal.reader(lineage), wanted, first, end, begin):
        try:
            record, leaf = decode_line(line)
        except FormatError:
            continue
        if record.seq in held or not first <= record.seq < end or not is_wanted(record, wanted):
            continue
        found = index.records("lineage = ? AND seq = ?", (lineage, record.seq), 1)
        if found and versions_only and not found[0].version:
            others.append(found[0])
        elif not found or (found[0].segment, found[0].offset) == (segment, offset) or found[0].leaf == leaf:
            raise index.damaged(f"record {record.seq} of {lineage} is not found by what it says")
        else:
            others.append(found[0])
    return others


def is_wanted(record: Record, wanted: RecordFilter) -> bool:
    """Return True if the record matches the filter, as ``RecordFilter.where`` does for a row."""
    return (
        (not wanted.types or record.item_type in wanted.types)
        and (not wanted.writers or record.writer in wanted.writers)
        and (not wanted.sessions or record.session in wanted.sessions)
        and (not wanted.actions or record.action in wanted.actions)
        and record.item_id.startswith(wanted.item_id)
        and record.ts >= wanted.since
        and (not wanted.until or record.ts < wanted.until)
    )


def _marks(wanted: RecordFilter) -> list[bytes]:
    """Return byte strings of which each wanted line contains one; empty if any line may be wanted."""
    import msgspec

    def quoted(text: str) -> bytes:
        return msgspec.json.encode(text)

    if wanted.item_id:
        return [b'"item_id":' + quoted(wanted.item_id)[:-1]]
    for name, values in (("session", wanted.sessions), ("writer", wanted.writers), ("item_type", wanted.types),
                         ("action", wanted.actions)):  # fmt: skip
        if values:
            return [b'"%b":%b' % (name.encode(), quoted(value)) for value in values]
    return []


def _lines(
    reader: LineageReader, wanted: RecordFilter, first: int, end: int, begin: Sequence[IndexedRecord]
) -> Iterator[tuple[int, int, bytes]]:
    """Yield segment, offset and bytes (without newline) of the lines whose seq and time match; other fields may differ."""
    marks = _marks(wanted)
    segments = reader.segments()
    for number, segment in enumerate(segments):
        behind = segments[number + 1] if number + 1 < len(segments) else end
        if segment >= end or behind < first:
            continue
        start = begin[0].offset if begin and begin[0].segment == segment else 0
        for base, data in _windows(reader.path_of(segment), start):
            for at in _places(data, marks):
                told = _BEGIN.match(data, at)
                if told is None or not first <= int(told[1]) < end:
                    continue
                ts = told[2].decode("utf-8", "replace")
                if ts >= wanted.since and (not wanted.until or ts < wanted.until):
                    yield segment, base + at, data[at : data.index(b"\n", at)]


def _places(data: bytes, marks: Sequence[bytes]) -> Iterator[int]:
    """Yield where the lines with one of ``marks`` begin, in any order; all lines if there are no marks."""
    if not marks:
        at = 0
        while at < len(data):
            yield at
            at = data.index(b"\n", at) + 1
    for mark in marks:
        found = data.find(mark)
        while found >= 0:
            yield data.rfind(b"\n", 0, found) + 1
            found = data.find(mark, data.index(b"\n", found))


def _windows(path: str, start: int) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines of the file from ``start`` on, with their offset; a few MiB at once."""
    base = start
    while True:
        try:
            data = read_plain(path, _WINDOW_BYTES, base)
        except OSError:
            return  # missing or unreadable; reported when its records are read
        length = data.rfind(b"\n") + 1
        if length:
            yield base, data[:length]
        if len(data) < _WINDOW_BYTES:
            return  # bytes after the last newline are not a record
        base += length or len(data)
