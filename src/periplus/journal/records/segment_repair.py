"""Restore a damaged segment line by line. Pure: takes bytes and what is known of the records, and returns bytes.

Each record that cannot be read is restored by the first of these that works:

1. its line from a copy (archive, another clone, a backup), checked against the leaf hash if that is known;
2. the line with one byte changed, if that makes the checksum right: 64 bits of a hash do not agree by accident;
3. the remains of the line, overlaid with the fields that are known, if that gives the known leaf hash;
4. a stub made from what the index, the tiles or the checkpoints know: the content is lost, but the record keeps its place
   in batch, graph and tree.

If none works the line is left as it is, and reading stops there as before.
"""

from __future__ import annotations

__all__ = ["Known", "Lost", "Mended", "Restored", "mend_line", "restore_segment"]

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from periplus.base.errors import FormatError
from periplus.base.named_tuple import NamedTuple
from periplus.journal.records.record import (
    LINE_BYTES_MAX,
    RECORD_VERSION,
    SUM_TRAILER_BYTES,
    Record,
    decode_line,
    encode_line,
    unseal_line,
)
from periplus.journal.records.stub import make_stub

_ANY_BYTE_UP_TO: Final = 4 * 1024  # longest line in which all values of every byte are tried; a few seconds at most
_ANY_BIT_UP_TO: Final = 16 * 1024  # longest line in which every bit is flipped
_PLACES_TRIED: Final = 64
_PIECE_BYTES: Final = 8  # so many equal bytes show where a field was

How: TypeAlias = Literal["copy", "byte", "pieces", "stub", "header", "payload"]


class Known(NamedTuple):
    """Facts about a record from the index or another source."""

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


class Lost(NamedTuple):
    """A record that cannot be read: its bytes as they are now, the offset where it belongs, and its neighbours if readable."""

    seq: int
    remains: bytes
    offset: int
    before: Record | None
    after: Record | None


class Mended(NamedTuple):
    """A line that was restored, and how. ``leaf`` is empty for a header; the fields after it are set for stubs only."""

    seq: int
    offset: int
    how: How
    leaf: bytes
    line: bytes = b""
    known: Known | None = None
    remains: bytes = b""


class Restored(NamedTuple):
    """``data`` is the restored segment; ``stopped_at`` is the seq that could not be restored, or 0."""

    data: bytes
    mended: list[Mended]
    stopped_at: int


def _sum_of(trailer: bytes) -> bytes | None:
    """Return the checksum at the end of a line, or None if there is none."""
    try:
        digest = bytes.fromhex(trailer[8:24].decode())
    except ValueError:
        return None
    return digest if trailer == b',"sum":"%b"}' % digest.hex().encode() else None


def mend_line(line: bytes) -> bytes | None:
    """Return ``line`` (no newline) with the one byte changed that makes its checksum right, or None."""
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
    target = _sum_of(trailer)
    if target is None:
        return None  # the damage is in the checksum itself
    tried = range(256) if len(line) <= _ANY_BYTE_UP_TO else ()
    state = hashlib.sha256(b"\0")
    for at, old in enumerate(body):
        rest = body[at + 1 :]
        for new in tried or [old ^ (1 << bit) for bit in range(8)]:
            candidate = state.copy()
            candidate.update(bytes((new,)) + rest)
            if candidate.digest()[:8] == target:
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
    remember: Callable[[Lost], Known | None] = lambda _lost: None,
    contents: Callable[[Known, bytes], Iterable[bytes]] = lambda _known, _remains: (),
) -> Restored:
    """Restore the segment of records ``first`` to ``last``, with ``header`` as its first line.

    ``known(seq)`` returns what the index knows, ``copy_of(seq)`` a line from a copy without its newline; ``remember(lost)``
    returns what other sources know of a record that the index does not have, ``contents(known, remains)`` candidates for its
    payload.
    """
    mended: list[Mended] = []
    before: Record | None = None
    following = _Following(data, last, known)
    if data[: len(header)] != header:
        mended.append(Mended(0, 0, "header", b""))
    out = bytearray(header)
    at = len(header)  # offset in ``data`` where the next record should be
    for seq in range(first, last + 1):
        row = known(seq)
        found = _sound_line(data, at, seq, row)
        line: bytes | None
        how: How | None = None
        remains = b""
        if found is not None:
            place, line = found
        else:
            place = at + max(row.offset - len(out), 0) if row is not None else at
            line, how = _restored_line(data, place, seq, row, copy_of)
            if line is None:
                lost = following.lost(seq, place, len(out), before)
                row = remember(lost) if row is None else row
                if row is not None:
                    remains = lost.remains[: row.length]
                    line, how = _pieced_together(remains, row, list(contents(row, remains)), lost), "pieces"
                    if line is None and allow_stubs:
                        line, how = _stub_of(row, len(out)), "stub"
        if line is None:
            return Restored(bytes(out) + data[at:], mended, seq)
        record, leaf = decode_line(line)
        before = record
        gap = record.voids[1] if record.voids is not None else 0
        between = data[place - gap : place] if place - gap >= at else b""
        out += between if len(between) == gap else b"x" * (gap - 1) + b"\n"
        if data[place + len(line) : place + len(line) + 1] != b"\n":
            how = how or "byte"
        if how is not None:
            mended.append(
                Mended(seq, len(out), how, leaf, line, row, remains)
                if how == "stub"
                else Mended(seq, len(out), how, leaf)
            )
        out += line + b"\n"
        at = place + (row.length if row is not None and found is None else len(line) + 1)
    return Restored(bytes(out) + data[at:], mended, 0)


def _sound_line(data: bytes, at: int, seq: int, row: Known | None) -> tuple[int, bytes] | None:
    """Return ``(place, line)`` of the record, at ``at`` or elsewhere if bytes before it were lost or inserted; None if it is gone."""
    start = b'{"v":%d,"seq":%d,' % (RECORD_VERSION, seq)
    place = at if data.startswith(start, at) else data.find(start, max(at - len(data) // 2, 0))
    for _ in range(_PLACES_TRIED):
        if place < 0:
            break
        line = data[place : _end_of_line(data, place)]
        if _is_record(line, seq, row):
            return place, line
        if row is not None and _is_record(data[place : place + row.length - 1], seq, row):
            return place, data[place : place + row.length - 1]  # only its newline is damaged
        place = data.find(start, place + 1)
    return None


def _restored_line(
    data: bytes,
    at: int,
    seq: int,
    row: Known | None,
    copy_of: Callable[[int], bytes | None],
) -> tuple[bytes | None, How | None]:
    copied = copy_of(seq)
    if copied is not None and _is_record(copied, seq, row):
        return copied, "copy"
    for stop in _possible_ends(data, at, row):
        mended = mend_line(data[at:stop])
        if mended is not None and _is_record(mended, seq, row):
            return mended, "byte"
    return None, None


class _Following:
    """Finds the next readable record once for all records that are lost before it."""

    def __init__(self, data: bytes, last: int, known: Callable[[int], Known | None]) -> None:
        self._data = data
        self._last = last
        self._known = known
        self._seq = 0
        self._end = 0
        self._record: Record | None = None

    def lost(self, seq: int, at: int, offset: int, before: Record | None) -> Lost:
        if self._seq <= seq:
            self._look(seq, at)
        end = max(self._end, at)
        is_last = self._seq == seq + 1
        if not is_last:
            newline = self._data.find(b"\n", at, end)
            end = newline + 1 if newline >= 0 else end
        return Lost(seq, self._data[at:end], offset, before, self._record if is_last else None)

    def _look(self, seq: int, at: int) -> None:
        for following in range(seq + 1, self._last + 1):
            found = _sound_line(self._data, at, following, self._known(following))
            if found is not None and found[0] >= at:
                self._seq = following
                self._record = decode_line(found[1])[0]
                self._end = found[0] - (self._record.voids[1] if self._record.voids is not None else 0)
                return
        self._seq, self._end, self._record = self._last + 1, len(self._data), None


def _pieced_together(remains: bytes, known: Known, contents: list[bytes], lost: Lost) -> bytes | None:
    """Build a line (no newline) from its remains and the known fields; return it if its leaf hash is the known one, else None."""
    line = remains.removesuffix(b"\n")
    if len(line) <= SUM_TRAILER_BYTES:
        return None
    line = line[:-SUM_TRAILER_BYTES] + b',"sum":"%b"}' % known.leaf[:8].hex().encode()
    for piece in _fields_of(known):
        line = _laid_over(line, piece)
    writers = [
        _laid_over(line, b'"writer_id":%b,"pid":%d,' % (msgspec.json.encode(one.writer_id), one.pid))
        for one in (lost.before, lost.after)
        if one is not None and not one.is_stub
    ]
    for one in dict.fromkeys((line, *writers)):
        for content in (b"", *contents):
            whole = _laid_over(one, b'"payload":%b' % content) if content else one
            if _is_record(whole, known.seq, known):
                return whole
    return None


def _fields_of(known: Known) -> Iterator[bytes]:
    fields = {
        "v": RECORD_VERSION, "seq": known.seq, "ts": known.ts, "writer": known.writer, "action": known.action,
        "session": known.session, "item_type": known.item_type, "item_id": known.item_id, "parents": known.parents,
        "key": known.key, "txn": known.txn,
    }  # fmt: skip
    for name, value in fields.items():
        if value:
            yield b'"%b":%b' % (name.encode(), msgspec.json.encode(value))


def _laid_over(line: bytes, piece: bytes) -> bytes:
    """Return ``line`` with ``piece`` put where most of its bytes are already; unchanged if there is no such place."""
    if piece in line:
        return line
    for at in range(0, len(piece), _PIECE_BYTES):
        found = line.find(piece[at : at + _PIECE_BYTES])
        start = found - at
        if found >= 0 and 0 <= start <= len(line) - len(piece):
            same = sum(a == b for a, b in zip(line[start : start + len(piece)], piece, strict=True))
            if same * 2 > len(piece):
                return line[:start] + piece + line[start + len(piece) :]
    return line


def _possible_ends(data: bytes, at: int, row: Known | None) -> list[int]:
    """Return where the line may end: where the index says, else at the next newline or the one after (one may be false)."""
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
    """Return a stub for the record that began at ``row.offset``; the data before it ends at ``end``."""
    record = Record(
        v=RECORD_VERSION, seq=row.seq, ts=row.ts, writer=row.writer, writer_id="", pid=0, action=row.action, session=row.session,
        item_type=row.item_type, item_id=row.item_id, parents=row.parents, key=row.key, txn=row.txn,
        deleted=row.action == "delete", voids=(end, row.offset - end) if row.offset > end else None,
    )  # fmt: skip
    line = encode_line(record)[0][:-1]
    fill = b" " * max(min(row.length, LINE_BYTES_MAX) - 1 - len(line), 0)
    return make_stub(line[:-SUM_TRAILER_BYTES] + fill + line[-SUM_TRAILER_BYTES:], row.leaf, row.version)[:-1]
