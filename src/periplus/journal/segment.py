"""Segments: a header line, then batches of records. Pure: the bytes of a file in, what counts of it out.

Theory of operation
-------------------
A batch is the records of one mutation: consecutive lines with consecutive seqs and ``txn`` 1/n … n/n, or one line
without ``txn``. It counts only when every line's checksum holds and the last line is there; until then its lines
have no seqs and are no leaves.

Writers never truncate. Whoever finds bytes after the last whole batch that are no batch (a torn write, NULs after a
power cut, a batch cut short) writes its own batch behind them, and the first record of that batch carries
``voids: [offset, length]`` of exactly these bytes. Before it writes it ends an unfinished line with ``#`` and a
newline, so that a fragment which lacks nothing but its newline can never become a record afterwards.

``scan`` therefore knows three things at a place where no batch stands: a later batch voids the place (skip it);
nothing voids it and it lies beyond the durable mark (an unfinished tail: hold it back); or it lies at or below the
durable mark, and then it is damage to acknowledged data, which is reported and never skipped in silence.
"""

from __future__ import annotations

__all__ = [
    "BATCH_BYTES_MAX",
    "BATCH_RECORDS_MAX",
    "SEGMENT_SUFFIX",
    "TEAR_END",
    "Damage",
    "Entry",
    "Header",
    "Scan",
    "Tail",
    "decode_header",
    "encode_header",
    "scan",
    "segment_first_seq",
    "segment_name",
]

import re
from typing import Final, NamedTuple

import msgspec

from periplus.base.errors import FormatError
from periplus.journal.record import LINE_BYTES_MAX, RECORD_VERSION, Record, decode_line, seal_line, unseal_line

SEGMENT_SUFFIX: Final = ".jsonl"
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
BATCH_RECORDS_MAX: Final = 65_536
TEAR_END: Final = b"#\n"
_DIGITS: Final = 12


class Header(msgspec.Struct, frozen=True):
    """The first line of a segment; it has no seq and is no leaf. ``prev`` is the ``sum`` of record first_seq − 1."""

    v: int
    segment: int
    store: str
    lineage: str
    first_seq: int
    prev: str


class Entry(NamedTuple):
    """A record that counts, where it lies (bytes within its segment, newline included) and its leaf hash."""

    record: Record
    offset: int
    length: int
    leaf: bytes


class Damage(NamedTuple):
    """Bytes that should be records and are not. ``first_seq`` to ``last_seq`` are lost (last 0: to the end)."""

    offset: int
    length: int
    first_seq: int
    last_seq: int
    reason: str


class Tail(NamedTuple):
    """Bytes after the last whole batch that nothing has voided yet; ``torn_line`` if the last has no newline."""

    offset: int
    length: int
    torn_line: bool
    reason: str


class Scan(NamedTuple):
    """What counts of a segment from ``start`` on. ``end`` is where the last whole batch ends, in bytes."""

    entries: list[Entry]
    end: int
    next_seq: int
    voided: list[tuple[int, int]]
    tail: Tail | None
    damages: list[Damage]


def segment_name(first_seq: int) -> str:
    return f"{first_seq:0{_DIGITS}d}{SEGMENT_SUFFIX}"


def segment_first_seq(name: str) -> int | None:
    """The first seq that a file name stands for, or None where it is no segment's name."""
    stem, dot, suffix = name.partition(".")
    if dot + suffix != SEGMENT_SUFFIX or len(stem) != _DIGITS or not (stem.isascii() and stem.isdigit()):
        return None
    return int(stem) or None


def encode_header(header: Header) -> bytes:
    return seal_line(msgspec.json.encode(header)[:-1])[0]


def decode_header(data: bytes) -> tuple[Header, int]:
    """``(header, offset of the first record)``. Raises FormatError at offset 0 where there is no whole header."""
    end = data.find(b"\n", 0, 4096)
    if end < 0:
        raise FormatError("no whole segment header", offset=0)
    line = data[:end]
    if unseal_line(line) is None:
        raise FormatError("segment header: checksum does not hold", offset=0)
    try:
        header = msgspec.json.decode(line, type=Header)
    except msgspec.DecodeError as error:
        raise FormatError(f"segment header: {error}", offset=0) from error
    if header.segment > RECORD_VERSION:
        raise FormatError(f"segment format {header.segment}; this Periplus reads {RECORD_VERSION}", offset=0)
    return header, end + 1


def scan(data: bytes, *, base: int, next_seq: int, durable_seq: int = 0, salvage: bool = False) -> Scan:
    """What counts of ``data``, the bytes of a segment from offset ``base`` on, where ``next_seq`` is expected.

    ``durable_seq`` is the highest seq known to be durable. With ``salvage`` the scan goes on behind damage at the
    next batch that is sound; without, it stops there.
    """
    result = Scan([], base, next_seq, [], None, [])
    marks: dict[int, list[int]] | None = None  # looked up once: damage can be everywhere
    at = 0
    while at < len(data):
        batch, end, reason = _read_batch(data, base, at, next_seq, None)
        if not batch:
            if marks is None:
                marks = _voiding_marks(data, at)
                durable_seq = max(durable_seq, _durable_in(data, at))
            place = _find_voiding(data, base, at, next_seq, marks)
            if place is not None:
                batch, end, _ = _read_batch(data, base, place, next_seq, (base + at, place - at))
                result.voided.append((base + at, place - at))
        if not batch:
            if next_seq > durable_seq:
                tail = Tail(base + at, len(data) - at, not data.endswith(b"\n"), reason)
                return result._replace(end=base + at, next_seq=next_seq, tail=tail)
            place, batch, end = _resume(data, base, at, next_seq) if salvage else (len(data), [], len(data))
            last = batch[0].record.seq - 1 if batch else 0
            result.damages.append(Damage(base + at, place - at, next_seq, last, reason))
            if not batch:
                return result._replace(end=base + at, next_seq=next_seq)
        result.entries.extend(batch)
        at = end
        next_seq = batch[-1].record.seq + 1
    return result._replace(end=base + at, next_seq=next_seq)


def _read_batch(
    data: bytes, base: int, at: int, next_seq: int, voids: tuple[int, int] | None
) -> tuple[list[Entry], int, str]:
    """The batch that begins at ``at``: ``(entries, end, "")``, or ``([], at, why not)``."""
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
            return [], start, error.wrong
        index, total = record.txn or (1, 1)
        if not entries:
            count = total
            if record.voids != voids:
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


def _voiding_marks(data: bytes, at: int) -> dict[int, list[int]]:
    """Where in ``data`` something says that bytes are void, by the offset in the segment where they begin."""
    marks: dict[int, list[int]] = {}
    for mark in re.finditer(rb'"voids":\[(\d{1,12}),', memoryview(data)[at:]):
        marks.setdefault(int(mark[1]), []).append(at + mark.start())
    return marks


def _find_voiding(data: bytes, base: int, at: int, next_seq: int, marks: dict[int, list[int]]) -> int | None:
    """Where the batch begins that voids everything from ``at`` up to itself, or None."""
    for found in marks.get(base + at, ()):
        place = data.rfind(b"\n", at, found) + 1
        if place > at and _read_batch(data, base, place, next_seq, (base + at, place - at))[0]:
            return place
    return None


def _durable_in(data: bytes, at: int) -> int:
    """The highest ``durable`` that a sound record after ``at`` states: what its writer knew to be on disk."""
    highest = 0
    for line in data[at:].split(b"\n"):
        if len(line) <= LINE_BYTES_MAX and b'"durable":' in line:
            try:
                highest = max(highest, decode_line(line)[0].durable)
            except FormatError:
                continue
    return highest


def _resume(data: bytes, base: int, at: int, next_seq: int) -> tuple[int, list[Entry], int]:
    """The next sound batch after damage at ``at``: ``(place, entries, end)``; no entries where there is none."""
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
