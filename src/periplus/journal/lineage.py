"""One lineage on disk: its segments in order, read as a growing prefix of whole batches, without a lock.

A place in a lineage is a ``Position``: where the last accepted batch ended and the checksum it ended with. From a
position reading goes on at the cost of what came since; the checksum tells whether the file is still the one the
position speaks of.

A segment whose first seq is not beyond the end of the one before it supersedes that one's last records: after a
failed sync the next writer begins a new segment and writes what was not known to be durable into it again.
"""

from __future__ import annotations

__all__ = ["SEGMENT_READ_MAX", "START", "Chunk", "LineageReader", "Position", "read_durable", "write_durable"]

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from periplus.base.errors import DamageError, FormatError, NewerFormatError, environment_failure
from periplus.base.files import Files, FolderWatch, read_plain
from periplus.journal.record import LINE_BYTES_MAX, SUM_TRAILER_BYTES, decode_line, seal_line, unseal_line
from periplus.journal.segment import (
    BATCH_BYTES_MAX,
    Damage,
    Entry,
    Tail,
    decode_header,
    scan,
    segment_first_seq,
    segment_name,
)

SEGMENT_READ_MAX: Final = 4 * BATCH_BYTES_MAX
_DURABLE_BYTES: Final = 256
_MEND: Final = "Run `periplus doctor` to see what is affected."
_SAFE: Final = "Records before this place are sound and stay readable; nothing is written over the damage."


class Position(NamedTuple):
    """The end of an accepted batch: segment by its first seq, byte offset, the next seq, last record's ``sum``."""

    segment: int
    offset: int
    next_seq: int
    sum: str


START: Final = Position(0, 0, 1, "")


class Chunk(NamedTuple):
    """What one segment adds behind a position."""

    segment: int
    path: str
    entries: list[Entry]
    end: Position
    tail: Tail | None
    damages: list[Damage]
    voided: list[tuple[int, int]]
    size: int


class DurableMark(msgspec.Struct, frozen=True):
    """``journal/durable``: the last record known to be on disk. Rewritten in place, unsynced: it can only lag."""

    lineage: str
    segment: int
    offset: int
    seq: int
    leaf: str


def read_durable(path: str) -> DurableMark | None:
    """None where there is none, or where it was torn: then the records' own ``durable`` fields speak."""
    try:
        line = read_plain(path, _DURABLE_BYTES).rstrip(b" \n")
    except OSError:
        return None
    if unseal_line(line) is None:
        return None
    try:
        return msgspec.json.decode(line, type=DurableMark)
    except msgspec.DecodeError:
        return None


def write_durable(files: Files, fd: int, lineage: str, end: Position, leaf: bytes) -> None:
    mark = DurableMark(lineage, end.segment, end.offset, end.next_seq - 1, leaf.hex())
    line = seal_line(msgspec.json.encode(mark)[:-1])[0]
    files.pwrite(fd, line[:-1].ljust(_DURABLE_BYTES - 1) + b"\n", 0)


class LineageReader:
    """Reads the segments of one lineage in ``folder``; ``store`` and ``lineage`` are checked against each header."""

    def __init__(self, folder: str, store: str, lineage: str, watch: FolderWatch | None = None) -> None:
        self.folder = folder
        self._watch = watch or FolderWatch(folder)
        self.store = store
        self.lineage = lineage

    def segments(self) -> list[int]:
        """First seqs of the segments, rising."""
        try:
            names = self._watch.names()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise environment_failure(error, "list", self.folder) from error
        return sorted(first for first in map(segment_first_seq, names) if first is not None)

    def path_of(self, segment: int) -> str:
        return os.path.join(self.folder, segment_name(segment))

    def read_from(self, position: Position, durable_seq: int = 0, *, salvage: bool = False) -> Iterator[Chunk]:
        """A chunk for each segment from ``position`` on. Without ``salvage`` damage raises DamageError at once."""
        firsts = [first for first in self.segments() if first >= position.segment]
        if not salvage:
            self._check_continues(position, firsts, durable_seq)
        elif position.segment and position.segment not in firsts:
            position = position._replace(segment=0)
        for index, first in enumerate(firsts):
            following = firsts[index + 1] if index + 1 < len(firsts) else None
            chunk = self._read_segment(first, following, position, durable_seq, salvage=salvage)
            position = chunk.end
            yield chunk

    def _check_continues(self, position: Position, firsts: list[int], durable_seq: int) -> None:
        if not firsts and durable_seq:
            raise self._damage("every segment is missing", 1, 0, 1)
        if position.segment and (not firsts or firsts[0] != position.segment):
            raise self._damage("the segment is missing", position.segment, 0, position.next_seq)
        if not position.segment and firsts and firsts[0] != 1:
            raise self._damage(f"missing: the first segment found begins at seq {firsts[0]}", 1, 0, 1)

    def _read_segment(
        self, first: int, following: int | None, position: Position, durable_seq: int, *, salvage: bool
    ) -> Chunk:
        path = self.path_of(first)
        data = self._read_on(path, position, salvage=salvage) if first == position.segment else None
        if data is not None:
            base = position.offset
        else:
            data = _read(path, 0)
            base, position = self._read_header(data, first, position, salvage=salvage)
            data = data[base:]
        if following is not None:
            durable_seq = following - 1  # the rest is to be found in later ones; bytes behind it count for nothing
        found = scan(data, base=base, next_seq=position.next_seq, durable_seq=durable_seq, salvage=salvage)
        damages = list(found.damages)
        entries = found.entries
        if following is not None:
            entries = [entry for entry in entries if entry.record.seq < following]
            reached = entries[-1].record.seq + 1 if entries else position.next_seq
            if reached < following and not damages:
                damages.append(
                    Damage(found.end, base + len(data) - found.end, reached, following - 1, "records are missing")
                )
            found = found._replace(tail=None)
        else:
            reached = found.next_seq
        if damages and not salvage:
            worst = damages[0]
            raise self._damage(worst.reason, first, worst.offset, worst.first_seq)
        if following is None and found.next_seq <= durable_seq and not damages:
            lost = Damage(found.end, 0, found.next_seq, durable_seq, "cut short: acknowledged records are missing")
            if not salvage:
                raise self._damage(lost.reason, first, lost.offset, lost.first_seq)
            damages.append(lost)
        return Chunk(first, path, entries, self._end(first, entries, position, reached), found.tail, damages,
                     found.voided, base + len(data))  # fmt: skip

    def _end(self, first: int, entries: list[Entry], position: Position, reached: int) -> Position:
        if not entries:
            return Position(first, position.offset, reached, position.sum)  # what a later segment has again is not read
        last = entries[-1]
        return Position(first, last.offset + last.length, reached, last.leaf[:8].hex())

    def _read_on(self, path: str, position: Position, *, salvage: bool) -> bytes | None:
        """The bytes behind ``position``, after a look at the checksum before it: is it still the same file?

        With ``salvage`` None where it is not: then the whole segment is read again.
        """
        before = SUM_TRAILER_BYTES + 1
        data = _read(path, position.offset - before)
        is_same = len(data) >= before and (
            data[8:24].decode("ascii", "replace") == position.sum or _is_stub_of(path, position)
        )
        if salvage and not is_same:
            return None
        if len(data) < before:
            raise self._damage(
                "cut short: acknowledged records are missing",
                position.segment,
                position.offset - before + len(data),
                position.next_seq - 1,
            )
        if not is_same:
            raise self._damage(
                "not the bytes that were read here before",
                position.segment,
                position.offset - before,
                position.next_seq - 1,
            )
        return data[before:]

    def _read_header(self, data: bytes, first: int, position: Position, *, salvage: bool) -> tuple[int, Position]:
        """``(offset of the first record, position there)`` of a segment that is read from its beginning."""
        try:
            header, start = decode_header(data)
        except FormatError as error:
            newer = self._newer(data)
            if newer is not None:
                raise newer from error
            if salvage:
                return data.find(b"\n") + 1, Position(first, data.find(b"\n") + 1, first, "")
            raise self._damage(error.wrong, first, 0, first) from error
        if header.segment != 2 or (header.store, header.lineage, header.first_seq) != (self.store, self.lineage, first):
            raise self._damage("the segment's header names another store, lineage or seq", first, 0, first)
        if first == position.next_seq and position.sum and header.prev != position.sum:
            raise self._damage("the segment does not continue the one before it", first, 0, first)
        return start, Position(first, start, first, data[start - 19 : start - 3].decode())

    def _newer(self, data: bytes) -> NewerFormatError | None:
        line = data[: data.find(b"\n", 0, 4096)]
        if unseal_line(line) is None or b'"segment":' not in line:
            return None
        return NewerFormatError(
            "the segment was written by a later version of Periplus",
            path=self.folder,
            safe="Nothing was changed.",
            mend="Update Periplus, then repeat the command.",
        )

    def _damage(self, reason: str, segment: int, offset: int, seq: int) -> DamageError:
        return DamageError(reason, path=self.path_of(segment), offset=offset, seq=seq, safe=_SAFE, mend=_MEND)


def _is_stub_of(path: str, position: Position) -> bool:
    """Whether the record that ends at ``position`` had its content taken out since it was read."""
    start = max(position.offset - LINE_BYTES_MAX, 0)
    try:
        lines = read_plain(path, position.offset - start, start).split(b"\n")
        record, leaf = decode_line(lines[-2] if len(lines) > 1 else b"")
    except (OSError, FormatError):
        return False
    return record.is_stub and leaf[:8].hex() == position.sum


def _read(path: str, offset: int) -> bytes:
    try:
        data = read_plain(path, SEGMENT_READ_MAX + 1, max(offset, 0))
    except OSError as error:
        raise environment_failure(error, "read", path) from error
    if len(data) > SEGMENT_READ_MAX:
        raise DamageError(f"a segment over {SEGMENT_READ_MAX:,} bytes", path=path, offset=SEGMENT_READ_MAX, mend=_MEND)
    return data
