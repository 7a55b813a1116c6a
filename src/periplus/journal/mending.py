"""Bringing a damaged segment back, line by line. Pure: bytes and what is known of the records in, bytes out.

For each record that cannot be read, in this order:

1. its line as a copy has it (archive, another clone, a backup), checked against the leaf hash where that is known;
2. the line with one byte changed, where that makes its checksum hold: 64 bits of a hash do not agree by accident;
3. a stub made from what the index remembers: the content is lost, its place in batch, graph and tree is not.

What none of these brings back is left as it is, and reading stops there as before.
"""

from __future__ import annotations

__all__ = ["Known", "Mended", "Restored", "mend_line", "restore_segment"]

import hashlib
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from periplus.base.errors import FormatError
from periplus.base.tuples import NamedTuple
from periplus.journal.record import RECORD_VERSION, SUM_TRAILER_BYTES, Record, decode_line, encode_line, unseal_line
from periplus.journal.stub import make_stub

_ANY_BYTE_UP_TO: Final = 4 * 1024  # bytes of a line in which every byte is tried; some seconds at the most
_ANY_BIT_UP_TO: Final = 16 * 1024  # … in which every single bit is
_PLACES_TRIED: Final = 64

How: TypeAlias = Literal["copy", "byte", "stub", "header"]


class Known(NamedTuple):
    """What the index remembers of a record."""

    seq: int
    offset: int
    length: int
    leaf: bytes
    ts: str
    writer: str
    session: str
    action: str
    item_type: str
    item_id: str
    parents: tuple[str, ...]
    version: str
    key: str
    txn: tuple[int, int] | None


class Mended(NamedTuple):
    """A line that was brought back, by what; ``leaf`` is empty for a header, ``line`` for all but a stub."""

    seq: int
    offset: int
    how: How
    leaf: bytes
    line: bytes = b""


class Restored(NamedTuple):
    """``data`` is the segment as it should be; ``stopped_at`` the seq that nothing brought back, 0 where there is none."""

    data: bytes
    mended: list[Mended]
    stopped_at: int


def mend_line(line: bytes) -> bytes | None:
    """``line`` (no newline) with the one byte changed that makes its checksum hold, or None."""
    if unseal_line(line) is not None:
        return line
    if len(line) <= SUM_TRAILER_BYTES:
        return None
    body, trailer = line[:-SUM_TRAILER_BYTES], line[-SUM_TRAILER_BYTES:]
    digest = hashlib.sha256(b"\0" + body).digest()[:8].hex().encode()
    wanted = b',"sum":"%b"}' % digest
    if sum(a != b for a, b in zip(wanted, trailer, strict=True)) == 1:
        return body + wanted
    if len(line) > _ANY_BIT_UP_TO:
        return None
    target = trailer[8:24]
    tried = range(256) if len(line) <= _ANY_BYTE_UP_TO else ()
    state = hashlib.sha256(b"\0")
    for at, old in enumerate(body):
        rest = body[at + 1 :]
        for new in tried or [old ^ (1 << bit) for bit in range(8)]:
            candidate = state.copy()
            candidate.update(bytes((new,)) + rest)
            if candidate.hexdigest()[:16].encode() == target:
                return body[:at] + bytes((new,)) + rest + trailer
        state.update(bytes((old,)))
    return None


def restore_segment(
    data: bytes,
    *,
    first: int,
    last: int,
    header: bytes,
    known: Callable[[int], Known | None],
    copy_of: Callable[[int], bytes | None],
    allow_stubs: bool,
) -> Restored:
    """The segment that begins at seq ``first`` and should go up to ``last``, with ``header`` as its first line.

    ``known(seq)`` is what the index remembers, ``copy_of(seq)`` a line without its newline from somewhere else.
    """
    mended: list[Mended] = []
    if data[: len(header)] != header:
        mended.append(Mended(0, 0, "header", b""))
    out = bytearray(header)
    at = len(header)  # where in ``data`` the next record should be
    for seq in range(first, last + 1):
        row = known(seq)
        found = _sound_line(data, at, seq, row)
        line: bytes | None
        how: How | None = None
        if found is not None:
            place, line = found
        else:
            place = at + max(row.offset - len(out), 0) if row is not None else at
            line, how = _restored_line(data, place, seq, row, copy_of, allow_stubs=allow_stubs, end=len(out))
        if line is None:
            return Restored(bytes(out) + data[at:], mended, seq)
        record, leaf = decode_line(line)
        gap = record.voids[1] if record.voids is not None else 0
        between = data[place - gap : place] if place - gap >= at else b""
        out += between if len(between) == gap else b"x" * (gap - 1) + b"\n"
        if data[place + len(line) : place + len(line) + 1] != b"\n":
            how = how or "byte"
        if how is not None:
            mended.append(Mended(seq, len(out), how, leaf, line if how == "stub" else b""))
        out += line + b"\n"
        at = place + (row.length if row is not None and found is None else len(line) + 1)
    return Restored(bytes(out) + data[at:], mended, 0)


def _sound_line(data: bytes, at: int, seq: int, row: Known | None) -> tuple[int, bytes] | None:
    """``(place, line)`` of the record where it still stands, at ``at`` or, with bytes lost or put in before it, elsewhere."""
    start = b'{"v":%d,"seq":%d,' % (RECORD_VERSION, seq)
    place = at if data.startswith(start, at) else data.find(start, max(at - len(data) // 2, 0))
    for _ in range(_PLACES_TRIED):
        if place < 0:
            break
        line = data[place : _end_of_line(data, place)]
        if _is_record(line, seq, row):
            return place, line
        if row is not None and _is_record(data[place : place + row.length - 1], seq, row):
            return place, data[place : place + row.length - 1]  # its newline was hit
        place = data.find(start, place + 1)
    return None


def _restored_line(
    data: bytes,
    at: int,
    seq: int,
    row: Known | None,
    copy_of: Callable[[int], bytes | None],
    *,
    allow_stubs: bool,
    end: int,
) -> tuple[bytes | None, How | None]:
    copied = copy_of(seq)
    if copied is not None and _is_record(copied, seq, row):
        return copied, "copy"
    for stop in _possible_ends(data, at, row):
        mended = mend_line(data[at:stop])
        if mended is not None and _is_record(mended, seq, row):
            return mended, "byte"
    if allow_stubs and row is not None:
        return _stub_of(row, end), "stub"
    return None, None


def _possible_ends(data: bytes, at: int, row: Known | None) -> list[int]:
    """Where the line may have ended: where the index says, at the next newline, or the one after (one may be false)."""
    if row is not None:
        return [at + row.length - 1]
    first = _end_of_line(data, at)
    return [first, _end_of_line(data, first + 1)]


def _end_of_line(data: bytes, at: int) -> int:
    end = data.find(b"\n", at)
    return len(data) if end < 0 else end


def _is_record(line: bytes, seq: int, row: Known | None = None) -> bool:
    try:
        record, leaf = decode_line(line)
    except FormatError:
        return False
    return record.seq == seq and (row is None or row.leaf == leaf)


def _stub_of(row: Known, end: int) -> bytes:
    """A stub for the record whose bytes began at ``row.offset``, where what lies before it ends at ``end``."""
    record = Record(
        v=RECORD_VERSION, seq=row.seq, ts=row.ts, writer=row.writer, writer_id="", pid=0, action=row.action, session=row.session,
        item_type=row.item_type, item_id=row.item_id, parents=row.parents, key=row.key, txn=row.txn,
        deleted=row.action == "delete", voids=(end, row.offset - end) if row.offset > end else None,
    )  # fmt: skip
    line = encode_line(record)[0][:-1]
    fill = b" " * max(row.length - 1 - len(line), 0)
    return make_stub(line[:-SUM_TRAILER_BYTES] + fill + line[-SUM_TRAILER_BYTES:], row.leaf, row.version)[:-1]
