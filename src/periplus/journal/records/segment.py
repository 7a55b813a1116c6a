"""Segments: a header line, then batches of records. Pure: takes the bytes of a file and returns the valid records.

Theory of operation
-------------------
A batch holds the records of one mutation: consecutive lines with consecutive seqs and ``txn`` 1/n … n/n, or one line
without ``txn``. It is valid only if the checksum of every line is right and the last line is there. Until then its
lines have no seqs and are no leaves.

Writers never truncate. A writer that finds bytes after the last whole batch that are no batch (a torn write, NULs after
a power cut, a batch cut short) appends its own batch, and the first record of that batch carries
``voids: [offset, length]`` of exactly these bytes. Before that it ends an unfinished line with ``#`` and a newline, so
that a fragment which lacks only its newline can never become a record later.

``scan`` therefore distinguishes three cases where no batch begins: a later batch voids the place (skip it); nothing voids
it and it lies beyond the durable mark (an unfinished tail: hold it back); it lies at or below the durable mark (damage to
acknowledged data: report it). If the store does not sync there is no durable mark; then each record states that
everything before its batch was whole when it was written.
"""

from __future__ import annotations

__all__ = [
    "BATCH_BYTES_MAX",
    "BATCH_RECORDS_MAX",
    "HEADER_BYTES_MAX",
    "SEGMENT_SUFFIX",
    "TEAR_END",
    "WINDOW_BYTES_MAX",
    "Block",
    "Damage",
    "Ending",
    "Entry",
    "Header",
    "Scan",
    "Tail",
    "decode_header",
    "encode_header",
    "read_block",
    "scan",
    "scan_blocks",
    "segment_first_seq",
    "segment_name",
]

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate
from operator import attrgetter
from typing import Final

import msgspec

from periplus.base.errors import FormatError
from periplus.base.named_tuple import NamedTuple
from periplus.journal.records.record import (
    LINE_BYTES_MAX,
    RECORD_VERSION,
    Record,
    decode_line,
    decode_lines,
    seal_line,
    unseal_line,
)

SEGMENT_SUFFIX: Final = ".jsonl"
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
BATCH_RECORDS_MAX: Final = 65_536
HEADER_BYTES_MAX: Final = 4096
WINDOW_BYTES_MAX: Final = 96 * 1024  # below the size for which malloc maps new memory
WINDOW_BYTES_MIN: Final = 8 * 1024
TEAR_END: Final = b"#\n"
_DIGITS: Final = 12
_seq_of: Final = attrgetter("seq")
_txn_of: Final = attrgetter("txn")
_voids_of: Final = attrgetter("voids")


class Header(msgspec.Struct, frozen=True):
    """The first line of a segment. It has no seq and is no leaf. ``prev`` is the ``sum`` of record first_seq − 1."""

    v: int
    segment: int
    store: str
    lineage: str
    first_seq: int
    prev: str


class Entry(NamedTuple):
    """A valid record with its place in the segment (bytes, newline included) and its leaf hash."""

    record: Record
    offset: int
    length: int
    leaf: bytes


class Block(NamedTuple):
    """Valid records that follow each other directly, stored by columns; the fields are those of Entry."""

    records: list[Record]
    offsets: list[int]
    lengths: list[int]
    leaves: list[bytes]

    def entries(self) -> Iterator[Entry]:
        return map(Entry._make, zip(*self, strict=True))

    def before(self, seq: int) -> Block:
        """Return the records with a lower seq than ``seq``."""
        count = bisect_left(self.records, seq, key=_seq_of)
        return self if count == len(self.records) else Block(*[column[:count] for column in self])  # type: ignore[arg-type]  # four lists


class Ending(NamedTuple):
    """The result of a scan without its entries; the fields are those of Scan."""

    end: int
    next_seq: int
    voided: list[tuple[int, int]]
    tail: Tail | None
    damages: list[Damage]


class Damage(NamedTuple):
    """Bytes that should be records and are not. Records ``first_seq`` to ``last_seq`` are lost (last 0: up to the end)."""

    offset: int
    length: int
    first_seq: int
    last_seq: int
    reason: str


class Tail(NamedTuple):
    """Bytes after the last whole batch that nothing has voided yet; ``torn_line`` if the last line has no newline."""

    offset: int
    length: int
    torn_line: bool
    reason: str


class Scan(NamedTuple):
    """The valid part of a segment from ``start`` on. ``end`` is the byte offset where the last whole batch ends."""

    entries: list[Entry]
    end: int
    next_seq: int
    voided: list[tuple[int, int]]
    tail: Tail | None
    damages: list[Damage]


def segment_name(first_seq: int) -> str:
    return f"{first_seq:0{_DIGITS}d}{SEGMENT_SUFFIX}"


def segment_first_seq(name: str) -> int | None:
    """Return the first seq that a segment's file name states, or None if it is not the name of a segment."""
    stem, dot, suffix = name.partition(".")
    if dot + suffix != SEGMENT_SUFFIX or len(stem) != _DIGITS or not (stem.isascii() and stem.isdigit()):
        return None
    return int(stem) or None


def encode_header(header: Header) -> bytes:
    return seal_line(msgspec.json.encode(header)[:-1])[0]


def decode_header(data: bytes) -> tuple[Header, int]:
    """Return ``(header, offset of the first record)``. Raises FormatError at offset 0 if there is no whole header."""
    end = data.find(b"\n", 0, HEADER_BYTES_MAX)
    if end < 0:
        raise FormatError(_with_cause("no whole segment header", data, 0), offset=0)
    line = data[:end]
    if unseal_line(line) is None:
        raise FormatError(_with_cause("segment header: checksum does not hold", data, 0), offset=0)
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"segment header: {error}", offset=0) from error
    if header.segment > RECORD_VERSION:
        raise FormatError(f"segment format {header.segment}; this Periplus reads {RECORD_VERSION}", offset=0)
    return header, end + 1


def scan(data: bytes, *, base: int, next_seq: int, durable_seq: int = 0, salvage: bool = False) -> Scan:
    """Find the valid batches in ``data``, the bytes of a segment from offset ``base`` on; the first record has ``next_seq``.

    ``durable_seq`` is the highest seq known to be durable. With ``salvage`` the scan goes on behind damage at the next valid
    batch; otherwise it stops there. The segment is taken to be one that is synced.
    """
    entries: list[Entry] = []

    def take(block: Block) -> None:
        entries.extend(block.entries())

    return Scan(
        entries, *scan_blocks(data, take, base=base, next_seq=next_seq, durable_seq=durable_seq, salvage=salvage)
    )


def scan_blocks(
    data: bytes,
    take: Callable[[Block], None],
    *,
    base: int,
    next_seq: int,
    durable_seq: int = 0,
    salvage: bool = False,
    is_synced: bool = True,
) -> Ending:
    """Do what ``scan`` does, but hand the records to ``take`` block by block, so that no whole segment is held in memory.

    In a segment that is not ``is_synced`` only the last batch can be an unfinished write.
    """
    voided: list[tuple[int, int]] = []
    damages: list[Damage] = []
    marks: dict[int, list[int]] | None = None  # computed once, because there may be much damage
    at, window = 0, WINDOW_BYTES_MAX
    while at < len(data):
        block, end = _read_window(data, base, at, next_seq, window)
        if block.records:  # the usual case: batch follows batch
            take(block)
            window = WINDOW_BYTES_MAX if end - at > window // 2 else WINDOW_BYTES_MIN
            at, next_seq = end, next_seq + len(block.records)
            continue
        window = WINDOW_BYTES_MIN
        batch, end, reason = _read_batch(data, base, at, next_seq, None)
        if not batch:
            if marks is None:
                marks = _voiding_marks(data, at)
                durable_seq = max(durable_seq, _durable_in(data, at, is_synced=is_synced))
            place = _find_voiding(data, base, at, next_seq, marks)
            if place is not None:
                batch, end, _ = _read_batch(data, base, place, next_seq, (base + at, place - at))
                voided.append((base + at, place - at))
        if not batch:
            if next_seq > durable_seq and not data.startswith(_MARKS_OF_GIT, at):
                tail = Tail(base + at, len(data) - at, not data.endswith(b"\n"), reason)
                return Ending(base + at, next_seq, voided, tail, damages)
            place, batch, end = _resume(data, base, at, next_seq) if salvage else (len(data), [], len(data))
            last = batch[0].record.seq - 1 if batch else 0
            damages.append(Damage(base + at, place - at, next_seq, last, reason))
            if not batch:
                return Ending(base + at, next_seq, voided, None, damages)
        take(Block(*map(list, zip(*batch, strict=True))))
        at = end
        next_seq = batch[-1].record.seq + 1
    return Ending(base + at, next_seq, voided, None, damages)


def read_block(data: bytes, *, base: int, next_seq: int) -> Block:
    """Return the whole batches at the beginning of ``data``; an empty block if only ``scan`` can judge what is there."""
    return _read_window(data, base, 0, next_seq, len(data))[0]


def _read_window(data: bytes, base: int, at: int, next_seq: int, window: int) -> tuple[Block, int]:
    """Return ``(block, end)``: the whole batches within ``window`` bytes from ``at`` that void nothing.

    The result is what ``_read_batch`` would give batch by batch. It may hold fewer batches, never other ones.
    """
    stop = data.rfind(b"\n", at, at + window)
    lines = data[at:stop].split(b"\n") if stop >= 0 else []
    records, leaves = decode_lines(lines)
    count = len(records)
    if list(map(_seq_of, records)) != list(range(next_seq, next_seq + count)):
        count = next(index for index, record in enumerate(records) if record.seq != next_seq + index)
    if any(map(_txn_of, records)) or any(map(_voids_of, records)):
        count = _whole_batches(records[:count])
    if count < len(lines):
        records, leaves, lines = records[:count], leaves[:count], lines[:count]
    lengths = [len(line) + 1 for line in lines]
    offsets = list(accumulate(lengths, initial=base + at))
    end = offsets.pop() - base
    return Block(records, offsets, lengths, leaves), end


def _whole_batches(records: list[Record]) -> int:
    """Count how many of ``records``, whose seqs are right, form whole batches that void nothing."""
    whole, expected = 0, (1, 1)
    for number, record in enumerate(records, 1):
        index, total = record.txn or (1, 1)
        if record.voids is not None or index != expected[0] or (index > 1 and total != expected[1]):
            break
        if index == total:
            whole, expected = number, (1, 1)
        elif index < total <= BATCH_RECORDS_MAX:
            expected = (index + 1, total)
        else:
            break
    return whole


def _read_batch(
    data: bytes, base: int, at: int, next_seq: int, voids: tuple[int, int] | None
) -> tuple[list[Entry], int, str]:
    """Read the batch that begins at ``at``. Return ``(entries, end, "")``, or ``([], at, reason)`` if there is none."""
    entries: list[Entry] = []
    count = 1
    start = at
    while len(entries) < count:
        newline = data.find(b"\n", at, at + LINE_BYTES_MAX)
        if newline < 0:
            return [], start, "a line without its end" if len(data) - at < LINE_BYTES_MAX else "a line too long"
        try:
            record, leaf = decode_line(data[at:newline])
        except FormatError as error:
            return [], start, _with_cause(error.wrong, data, at)
        index, total = record.txn or (1, 1)
        if not entries:
            count = total
            if not _is_voiding(record.voids, voids):
                return [], start, "voids bytes that are not before it"
            if not 1 <= count <= BATCH_RECORDS_MAX:
                return [], start, "a batch of impossible size"
        if record.seq != next_seq + len(entries):
            return [], start, f"seq {record.seq} where {next_seq + len(entries)} was expected"
        if (index, total) != (len(entries) + 1, count):
            return [], start, "a batch that is not whole"
        entries.append(Entry(record, base + at, newline + 1 - at, leaf))
        at = newline + 1
    return entries, at, ""


_MARKS_OF_GIT: Final = (b"<<<<<<< ", b"=======\n", b">>>>>>> ", b"||||||| ")  # never part of an unfinished write


def _with_cause(reason: str, data: bytes, at: int) -> str:
    """Return ``reason``, extended by the program that changed the bytes where they show it."""
    line = data[at : data.find(b"\n", at, at + LINE_BYTES_MAX)]
    for found, cause in (
        (line.startswith(b"version https://git-lfs"), "git LFS put a pointer in its place"),
        (line.startswith(b"\xef\xbb\xbf"), "some program put a byte order mark before it"),
        (line.startswith(_MARKS_OF_GIT), "git left marks of a conflict in it"),
        (line.endswith(b"\r"), "some program changed its line ends to CR LF"),
    ):
        if found:
            return f"{reason}; {cause}"
    return reason


def _is_voiding(said: tuple[int, int] | None, there: tuple[int, int] | None) -> bool:
    """Return True if the bytes ``said`` to be void are those that lie ``there``: the same offset and length, or the same length.

    Offsets may differ: stubs longer than their records move what follows, and records that come back move it again. A record
    states the offset in the file as it was when the record was written.
    """
    return said == there or (said is not None and there is not None and said[1] == there[1])


def _voiding_marks(data: bytes, at: int) -> dict[int, list[int]]:
    """Map the offset of void bytes in ``data`` to the offsets of the lines that void them."""
    marks: dict[int, list[int]] = {}
    place = before = at
    for mark in re.finditer(rb'"voids":\[\d{1,12},(\d{1,12})\]', memoryview(data)[at:]):
        found = data.rfind(b"\n", before, at + mark.start())
        place, before = (found + 1 if found >= 0 else place), at + mark.end()
        marks.setdefault(place - int(mark[1]), []).append(place)
    return marks


def _find_voiding(data: bytes, base: int, at: int, next_seq: int, marks: dict[int, list[int]]) -> int | None:
    """Return where the batch begins that voids everything from ``at`` up to itself, or None."""
    for place in marks.get(at, ()):
        if place > at and _read_batch(data, base, place, next_seq, (base + at, place - at))[0]:
            return place
    return None


def _durable_in(data: bytes, at: int, *, is_synced: bool) -> int:
    """Return the highest seq that a valid record after ``at`` states as durable.

    If the store does not sync, a record states instead that all records before its batch were whole.
    """
    highest = 0
    for line in data[at:].split(b"\n") if is_synced else re.split(rb'\n|(?=\{"v":\d{1,9},"seq":)', data[at:]):
        if len(line) <= LINE_BYTES_MAX and (not is_synced or b'"durable":' in line):
            try:
                record = decode_line(line)[0]
            except FormatError:
                continue
            whole = 0 if is_synced else record.seq - (record.txn or (1, 1))[0]
            highest = max(highest, record.durable, whole)
    return highest


def _resume(data: bytes, base: int, at: int, next_seq: int) -> tuple[int, list[Entry], int]:
    """Find the next valid batch behind damage at ``at``. Return ``(place, entries, end)``; no entries if there is none."""
    place = data.find(b"\n", at) + 1
    while 0 < place < len(data):
        newline = data.find(b"\n", place)
        line = data[place : newline if newline >= 0 else len(data)]
        try:
            record, _ = decode_line(line)
        except FormatError:
            record = None
        if record is not None and record.seq > next_seq and (record.txn or (1, 1))[0] == 1:
            batch, end, _ = _read_batch(data, base, place, record.seq, record.voids)
            if batch:
                return place, batch, end
        place = newline + 1
    return len(data), [], len(data)
