"""Find single records in the segments of a lineage by seq, without the index."""

from __future__ import annotations

__all__ = ["FoundEntry", "entries_in_segment", "entry_in_segment"]

from periplus.base.errors import FormatError
from periplus.base.files import read_plain
from periplus.base.named_tuple import NamedTuple
from periplus.journal.records.segment import Entry, decode_header, scan
from periplus.journal.storage.lineage import SEGMENT_READ_MAX, LineageReader, Position


def entry_in_segment(reader: LineageReader, seq: int) -> FoundEntry | None:
    """Find record ``seq`` by reading the segment that holds it; None if it cannot be read there."""
    segment, data, entries = _segment_of(reader, seq)
    for entry in entries:
        if entry.record.seq == seq:
            end = entry.offset + entry.length
            return FoundEntry(
                entry, data[entry.offset : end - 1], Position(segment, end, seq + 1, entry.leaf[:8].hex())
            )
    return None


def entries_in_segment(reader: LineageReader, first: int, last: int) -> list[Entry]:
    """Return the records ``first`` to ``last`` of one segment, as far as they can be read."""
    return [entry for entry in _segment_of(reader, last)[2] if first <= entry.record.seq <= last]


class FoundEntry(NamedTuple):
    """A record, its line without the newline, and the position behind it."""

    entry: Entry
    line: bytes
    end: Position


def _segment_of(reader: LineageReader, seq: int) -> tuple[int, bytes, list[Entry]]:
    """Return the segment that holds record ``seq``, its bytes and its readable records."""
    segment = max((first for first in reader.segments() if first <= seq), default=0)
    try:
        data = read_plain(reader.path_of(segment), SEGMENT_READ_MAX)
        start = decode_header(data)[1]
        return segment, data, scan(data[start:], base=start, next_seq=segment, durable_seq=seq, salvage=True).entries
    except (OSError, FormatError):
        return segment, b"", []
