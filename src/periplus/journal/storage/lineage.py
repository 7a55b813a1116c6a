"""One lineage on disk: its segments in order, read without a lock as a growing prefix of whole batches.

A place in a lineage is a ``Position``: where the last accepted batch ended, and the checksum at its end. Reading goes on
from a position at the cost of what came since; the checksum shows whether the file is still the same.

A segment whose first seq is not beyond the end of the segment before it supersedes the last records of that one: after a
failed sync the next writer begins a new segment and writes into it again what was not known to be durable.
"""

from __future__ import annotations

__all__ = [
    "ARCHIVE_FOLDER",
    "SEGMENT_READ_MAX",
    "START",
    "Chunk",
    "LineageReader",
    "Position",
    "damage_of",
    "encode_durable",
    "is_unreadable",
    "left_behind_seq",
    "read_durable",
    "write_durable",
]

import errno
import functools
import os
import stat
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from periplus.base.errors import DamageError, EnvironmentFailure, FormatError, NewerFormatError, environment_failure
from periplus.base.files import Files, FolderWatch, open_plain, read_around, read_at, read_plain
from periplus.base.named_tuple import NamedTuple
from periplus.journal.records.record import (
    LINE_BYTES_MAX,
    SUM_TRAILER_BYTES,
    Record,
    decode_line,
    seal_line,
    unseal_line,
)
from periplus.journal.records.segment import (
    BATCH_BYTES_MAX,
    HEADER_BYTES_MAX,
    WINDOW_BYTES_MAX,
    Block,
    Damage,
    Ending,
    Entry,
    Tail,
    decode_header,
    read_block,
    scan_blocks,
    segment_first_seq,
    segment_name,
)

ARCHIVE_FOLDER: Final = "archive"
_NONE: Final[list[str]] = []
SEGMENT_READ_MAX: Final = 4 * BATCH_BYTES_MAX
_GAP_BYTES_MAX: Final = 8 * 1024  # cheaper to read than to skip with another system call
_DURABLE_BYTES: Final = 256
_UNREADABLE: Final = frozenset({errno.EIO, errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENXIO})
_MEND: Final = "Run `periplus doctor` to see what is affected."
_SAFE: Final = "Records before this place are undamaged and stay readable; the damage is not overwritten."
_ABSENT_SAFE: Final = "Other segments are not affected; nothing was changed."
_ABSENT_MEND: Final = "Put it back if it was moved elsewhere; else `periplus doctor --repair --from PATH` restores it from a clone or a backup."


class Position(NamedTuple):
    """The end of an accepted batch: segment by its first seq, byte offset, the next seq, last record's ``sum``."""

    segment: int
    offset: int
    next_seq: int
    sum: str


START: Final = Position(0, 0, 1, "")


class Chunk(NamedTuple):
    """The records that one segment adds behind a position."""

    segment: int
    path: str
    entries: list[Entry]
    end: Position
    tail: Tail | None
    damages: list[Damage]
    voided: list[tuple[int, int]]
    size: int
    inode: int = 0  # of the file that was read; 0 if it was opened more than once


class DurableMark(msgspec.Struct, frozen=True):
    """``journal/durable``: the last record known to be on disk. Rewritten in place without a sync, so it can only lag."""

    lineage: str
    segment: int
    offset: int
    seq: int
    leaf: str


def read_durable(path: str) -> DurableMark | None:
    """Return the durable mark, or None if there is none or it was torn; the records' own ``durable`` fields count then."""
    try:
        line = read_plain(path, _DURABLE_BYTES).rstrip(b" \n")
    except OSError:
        return None
    if unseal_line(line) is None:
        return None
    try:
        return msgspec.json.decode(line, type=DurableMark)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def left_behind_seq(path: str, reader: LineageReader, noted: int) -> int:
    """Return how many records ``reader``'s lineage had where this store was copied from; 0 if any of them is here.

    The number is the larger of the mark at ``path`` and ``noted``, which ``lineage.json`` keeps once the copy has begun a
    lineage of its own. If some records are here the mark may belong to another file: a store that is copied while it is
    written has its last records in the copy.
    """
    if reader.segments():
        return 0
    mark = read_durable(path)
    return max(noted, mark.seq if mark is not None and mark.lineage == reader.lineage else 0)


def encode_durable(lineage: str, end: Position, leaf: bytes) -> bytes:
    """Return the content of ``journal/durable`` for the record with this ``leaf`` that ends at ``end``."""
    place = f'{{"lineage":"{lineage}","segment":{end.segment},"offset":{end.offset},"seq":{end.next_seq - 1}'
    line = seal_line(f'{place},"leaf":"{leaf.hex()}"'.encode())[0]
    return line[:-1].ljust(_DURABLE_BYTES - 1) + b"\n"


def write_durable(files: Files, fd: int, lineage: str, end: Position, leaf: bytes) -> None:
    files.pwrite(fd, encode_durable(lineage, end, leaf), 0)


class LineageReader:
    """Reads the segments of one lineage in ``folder``. Each header has to name ``lineage`` and one of ``stores``.

    ``is_synced`` is False under the policy ``never``: no mark states there what was acknowledged.
    """

    def __init__(
        self,
        folder: str,
        stores: Container[str],
        lineage: str,
        watch: FolderWatch | None = None,
        *,
        is_synced: bool = True,
    ) -> None:
        self.folder = folder
        self._watch = watch or FolderWatch(folder)
        self._archive = FolderWatch(os.path.join(folder, ARCHIVE_FOLDER))
        self.stores = stores
        self.lineage = lineage
        self._is_synced = is_synced
        self._newest: tuple[list[str], int] = ([], 0)
        self._found: tuple[list[str], list[str], list[int]] = (
            [],
            [],
            [],
        )  # names here, names in the archive, first seqs
        self._live_path: tuple[int, str] = (0, "")
        self._read_at = read_at

    def segments(self) -> list[int]:
        """Return the first seqs of the segments, rising, archived ones included."""
        # Segments move into the archive, never out of it: in this order none is missed.
        here = _names(self._watch)
        archived = _names(self._archive) if ARCHIVE_FOLDER in here else _NONE
        if here is not self._found[0] or archived is not self._found[1]:
            firsts = {
                first for names in (here, archived) for first in map(segment_first_seq, names) if first is not None
            }
            self._found = (here, archived, sorted(firsts))
        return self._found[2].copy()

    def newest(self) -> int:
        """Return the first seq of the newest segment by listing; 0 if there is none."""
        try:
            names = self._watch.names()
        except OSError:
            return 0  # the next read meets the error and reports it
        if names is not self._newest[0]:
            if ARCHIVE_FOLDER in names:
                return max(self.segments(), default=0)
            self._newest = (names, max(map(segment_first_seq, names), key=lambda first: first or 0, default=0) or 0)
        return self._newest[1]

    def is_unchanged(self, known: tuple[int, int, int] | None) -> bool:
        """Return True if the newest segment is the one in ``known``, with the same size and inode."""
        if known is None or self.newest() != known[0]:
            return False
        try:
            status = os.stat(self._live_path_of(known[0]))
        except FileNotFoundError:
            try:
                status = os.stat(self.archived_path(known[0]))
            except OSError:
                return False
        except OSError:
            return False
        return known[1] == status.st_size and known[2] == status.st_ino

    def newest_place(self) -> tuple[int, tuple[int, int], int]:
        """Return ``(first seq, (device, inode), bytes)`` of the newest segment; zeros for what is missing or was moved just now."""
        newest = self.newest()
        for path in (self._live_path_of(newest), self.archived_path(newest)):
            try:
                at = os.stat(path)
            except OSError:
                continue
            return newest, (at.st_dev, at.st_ino), at.st_size
        return newest, (0, 0), 0

    def _live_path_of(self, segment: int) -> str:
        """Return the path of the segment unless it was archived."""
        if self._live_path[0] != segment:
            self._live_path = (segment, os.path.join(self.folder, segment_name(segment)))
        return self._live_path[1]

    def path_of(self, segment: int) -> str:
        """Return the path of the segment, or the one that it would have."""
        path = os.path.join(self.folder, segment_name(segment))
        if not os.path.lexists(path):
            archived = self.archived_path(segment)
            if os.path.lexists(archived):
                return archived
        return path

    def archived_path(self, segment: int) -> str:
        return os.path.join(self.folder, ARCHIVE_FOLDER, segment_name(segment))

    def absence_of(self, seq: int, segment: int = 0) -> DamageError | None:
        """Return the error for a record ``seq`` whose segment is not here; None if it is. ``segment`` is 0 if unknown."""
        firsts = self.segments()
        if segment not in firsts if segment else not any(first <= seq for first in firsts):
            return self._absent(f"the segment with record {seq:,}", segment, seq)
        return None

    def gap_before(self, following: int, seq: int) -> DamageError:
        """Return the error for a record ``seq`` whose segment is not here, where the next one begins at ``following``."""
        what = "the first segment found begins" if seq == 1 else "the next segment found begins"
        return self._absent(f"missing, {what} at seq {following}", seq, seq)

    def _absent(self, what: str, segment: int, seq: int) -> DamageError:
        path = self.path_of(segment) if segment else self.folder
        wrong = f"{what}: neither here nor in {ARCHIVE_FOLDER}/"
        return DamageError(wrong, path=path, seq=seq, safe=_ABSENT_SAFE, mend=_ABSENT_MEND)

    def read_at(self, segment: int, offset: int, length: int) -> bytes:
        """Read bytes of a segment, archived or not. Raises EnvironmentFailure."""
        return self._read(segment, offset, length)

    def lines_at(self, segment: int, places: Sequence[tuple[int, int]]) -> Iterator[bytes]:
        """Yield the bytes of each of ``places`` (offset and length, newline included), in rising order. Raises EnvironmentFailure.

        Yields fewer if the segment was cut short.
        """
        begin, count = 0, len(places)
        with self._opened(segment) as read:
            while begin < count:
                (first, length), end = places[begin], begin + 1
                reached = first + length
                while end < count:
                    offset, length = places[end]
                    if offset - reached > _GAP_BYTES_MAX or offset + length - first > WINDOW_BYTES_MAX:
                        break
                    reached, end = offset + length, end + 1
                data = read(reached - first, first)
                yield from [data[offset - first : offset - first + length] for offset, length in places[begin:end]]
                begin = end

    def leaf_at(self, end: Position) -> bytes:
        """Return the leaf hash of the record that ends at ``end``; empty if there is none, as after a segment's header."""
        found = self._record_before(end)
        return b"" if found is None else found[1]

    def durable_at(self, end: Position) -> int:
        """Return the highest seq that the records up to ``end`` state as durable, for a store that has lost its mark."""
        found = self._record_before(end) if end.segment else None
        return max(end.segment - 1, found[0].durable if found is not None else 0, 0)

    def read_from(self, position: Position, durable_seq: int = 0, *, salvage: bool = False) -> Iterator[Chunk]:
        """Yield a chunk for each segment from ``position`` on. Without ``salvage`` damage raises DamageError at once."""
        if not salvage and position.segment and self.newest() == position.segment:
            added = self.read_added(position, durable_seq)
            if added is not None:
                yield added
                return
        firsts = [first for first in self.segments() if first >= position.segment]
        if not salvage:
            self._check_continues(position, firsts, durable_seq)
        elif position.segment and position.segment not in firsts:
            position = position._replace(segment=0)
        for index, first in enumerate(firsts):
            following = firsts[index + 1] if index + 1 < len(firsts) else None
            try:
                chunk = self._read_segment(first, following, position, durable_seq, salvage=salvage)
            except NewerFormatError:
                raise
            except (DamageError, EnvironmentFailure) as error:
                if not salvage or not (isinstance(error, DamageError) or is_unreadable(error)):
                    raise
                chunk = self._read_around(first, following, position, durable_seq, error)
            position = chunk.end
            yield chunk

    def read_added(self, position: Position, durable_seq: int) -> Chunk | None:
        """Read with one system call what the newest segment, in which ``position`` is, has behind it.

        Return None if anything is unusual.
        """
        path = self._live_path_of(position.segment)
        before = position.offset - SUM_TRAILER_BYTES - 1
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                status = os.fstat(fd)
                is_usual = stat.S_ISREG(status.st_mode) and 0 <= status.st_size - position.offset <= WINDOW_BYTES_MAX
                data = os.pread(fd, status.st_size - before, before) if is_usual and before >= 0 else b""
            finally:
                os.close(fd)
        except OSError:
            return None
        added = data[SUM_TRAILER_BYTES + 1 :]
        if before + len(data) != status.st_size or data[8:24] != position.sum.encode():
            return None
        block = read_block(added, base=position.offset, next_seq=position.next_seq)
        end = position
        if block.records:
            end = Position(position.segment, block.offsets[-1] + block.lengths[-1], block.records[-1].seq + 1,
                           block.leaves[-1][:8].hex())  # fmt: skip
        if end.offset != status.st_size or end.next_seq <= durable_seq:
            return None
        return Chunk(end.segment, path, list(block.entries()), end, None, [], [], status.st_size, status.st_ino)

    def _check_continues(self, position: Position, firsts: list[int], durable_seq: int) -> None:
        if not firsts and durable_seq and not self.segments():
            what = f"records 1 to {durable_seq}" if durable_seq > 1 else "record 1"
            raise self._damage(f"every segment is missing, {what}", 1, 0, 1)
        if position.segment and (not firsts or firsts[0] != position.segment):
            last = firsts[0] - 1 if firsts else max(position.next_seq - 1, durable_seq)
            only = f", record {last}" if last == position.segment else ""
            what = f", records {position.segment} to {last}" if last > position.segment else only
            raise self._absent(f"missing{what}", position.segment, position.segment)
        if not position.segment and firsts and firsts[0] != 1:
            raise self.gap_before(firsts[0], 1)

    def read_blocks(self, position: Position, take: Callable[[int, Block], None]) -> Position:
        """Do what ``read_from`` does, but hand segment and block to ``take``, so that no more than one block is held in memory.

        Return the end position. Raises DamageError; what was taken before is valid, but need not be a whole segment.
        """
        firsts = [first for first in self.segments() if first >= position.segment]
        self._check_continues(position, firsts, 0)
        for index, first in enumerate(firsts):
            following = firsts[index + 1] if index + 1 < len(firsts) else None
            chunk = self._scan_segment(first, following, position, 0, functools.partial(take, first), salvage=False)
            position = chunk.end
        return position

    def _read_segment(
        self, first: int, following: int | None, position: Position, durable_seq: int, *, salvage: bool
    ) -> Chunk:
        entries: list[Entry] = []

        def take(block: Block) -> None:
            entries.extend(block.entries())

        chunk = self._scan_segment(first, following, position, durable_seq, take, salvage=salvage)
        return chunk._replace(entries=entries)

    def _scan_segment(
        self,
        first: int,
        following: int | None,
        position: Position,
        durable_seq: int,
        take: Callable[[Block], None],
        *,
        salvage: bool,
    ) -> Chunk:
        """Hand the valid records to ``take``; return the chunk without its entries."""
        path = self.path_of(first)
        spoilt: list[Damage] = []  # damage to its header
        if first != position.segment or not self._is_continued(position, salvage=salvage):
            position, reason = self._read_header(first, position, salvage=salvage)
            if reason:
                spoilt.append(Damage(0, position.offset, first, first - 1, reason))
        if following is not None:
            durable_seq = following - 1  # later segments have the rest; bytes behind that are ignored
        end: Position | None = None

        def take_counting(block: Block) -> None:
            nonlocal end
            if following is not None:
                block = block.before(following)
            if block.records:
                end = Position(first, block.offsets[-1] + block.lengths[-1], block.records[-1].seq + 1,
                               block.leaves[-1][:8].hex())  # fmt: skip
                take(block)

        base, next_seq = self._read_blocks(position, take_counting)
        data = self._read(first, base)  # the rest, usually the end of the file
        found = scan_blocks(data, take_counting, base=base, next_seq=next_seq, durable_seq=durable_seq, salvage=salvage,
                            is_synced=self._is_synced)  # fmt: skip
        reached = found.next_seq if following is None else end.next_seq if end is not None else position.next_seq
        end = (end or position)._replace(next_seq=reached)  # records that a later segment repeats are not read here
        damages = spoilt + self._damages(found, following, reached, durable_seq, base + len(data))
        if damages and not salvage:
            raise self._damage(damages[0].reason, first, damages[0].offset, damages[0].first_seq)
        tail = found.tail if following is None else None
        return Chunk(first, path, [], end, tail, damages, found.voided, base + len(data))

    def _damages(self, found: Ending, following: int | None, reached: int, durable_seq: int, size: int) -> list[Damage]:
        """Return the damage that ``found`` reports; if there is none, check that no records are missing at the end."""
        if found.damages:
            return list(found.damages)
        if following is not None:
            if reached < following:
                return [Damage(found.end, size - found.end, reached, following - 1, "records are missing")]
        elif found.next_seq <= durable_seq:
            return [Damage(found.end, 0, found.next_seq, durable_seq, "cut short: acknowledged records are missing")]
        return []

    def _is_continued(self, position: Position, *, salvage: bool) -> bool:
        """Return True if the checksum before ``position`` is the one read before, so the file is still the same.

        Otherwise raises DamageError; with ``salvage`` returns False, and the whole segment is read again.
        """
        length = SUM_TRAILER_BYTES + 1
        before = position.offset - length
        data = self._read(position.segment, before, length)
        if len(data) == length:
            if data[8:24].decode("ascii", "replace") == position.sum or self._is_stub(position):
                return True
            wrong = "not the bytes that were read here before"
        else:
            before += len(data)
            wrong = "cut short: acknowledged records are missing"
        if salvage:
            return False
        raise self._damage(wrong, position.segment, before, position.next_seq - 1)

    def _read_header(self, first: int, position: Position, *, salvage: bool) -> tuple[Position, str]:
        """Return the place of a segment's first record, and what is wrong with its header.

        Without ``salvage`` raises DamageError if anything is wrong.
        """
        data = self._read(first, 0, HEADER_BYTES_MAX)
        try:
            header, start = decode_header(data)
        except FormatError as error:
            newer = self._newer(data)
            if newer is not None:
                raise newer from error
            if not salvage:
                raise self._damage(error.wrong, first, 0, first) from error
            return Position(first, self._read(first, 0).find(b"\n") + 1, first, ""), error.wrong
        reason = ""
        is_this = header.segment == 2 and (header.lineage, header.first_seq) == (self.lineage, first)
        if not is_this or header.store not in self.stores:
            reason = "the segment's header names another store, lineage or seq"
            salvage = False  # its records belong elsewhere, too
        elif first == position.next_seq and position.sum and header.prev != position.sum:
            reason = "the segment does not continue the one before it"
        if reason and not salvage:
            raise self._damage(reason, first, 0, first)
        return Position(first, start, first, data[start - 19 : start - 3].decode()), reason

    def _read_around(
        self,
        first: int,
        following: int | None,
        position: Position,
        durable_seq: int,
        error: DamageError | EnvironmentFailure,
    ) -> Chunk:
        """Read the parts of a segment that the disk returns; report the rest with the disk's error."""
        self._read_at = read_around
        try:
            chunk = self._read_segment(first, following, position, durable_seq, salvage=True)
        except (DamageError, EnvironmentFailure):
            return self._unreadable(first, following, error)
        finally:
            self._read_at = read_at
        if not chunk.entries or not chunk.damages:
            return self._unreadable(first, following, error)
        return chunk._replace(damages=[damage._replace(reason=error.wrong) for damage in chunk.damages])

    def _unreadable(self, first: int, following: int | None, error: DamageError | EnvironmentFailure) -> Chunk:
        """Return the chunk of a segment that cannot be read at all: a bad sector, or no file in its place."""
        last = following - 1 if following is not None else 0
        damage = Damage(getattr(error, "offset", None) or 0, 0, first, max(last, first), error.wrong)
        return Chunk(first, self.path_of(first), [], Position(first, 0, last + 1 or first, ""), None, [damage], [], -1)

    def _newer(self, data: bytes) -> NewerFormatError | None:
        end = data.find(b"\n", 0, 4096)
        line = data[: max(end, 0)]
        if unseal_line(line) is None or b'"segment":' not in line:
            return None  # a header without its newline is damage in any case
        return NewerFormatError(
            "the segment was written by a later version of Periplus",
            path=self.folder,
            safe="Nothing was changed.",
            mend="Update Periplus, then repeat the command.",
        )

    def _damage(self, reason: str, segment: int, offset: int, seq: int) -> DamageError:
        return DamageError(reason, path=self.path_of(segment), offset=offset, seq=seq, safe=_SAFE, mend=_MEND)

    def _is_stub(self, position: Position) -> bool:
        """Return True if the content of the record that ends at ``position`` was removed since it was read."""
        found = self._record_before(position)
        return found is not None and found[0].is_stub and found[1][:8].hex() == position.sum

    def _record_before(self, position: Position) -> tuple[Record, bytes] | None:
        start = max(position.offset - LINE_BYTES_MAX, 0)
        try:
            return decode_line(self._read(position.segment, start, position.offset - start)[:-1].rpartition(b"\n")[2])
        except FormatError:
            return None

    def _read_blocks(self, position: Position, take: Callable[[Block], None]) -> tuple[int, int]:
        """Hand on blocks from ``position`` as long as they are usual; return ``(offset, next seq)`` where that ends."""
        offset, next_seq = position.offset, position.next_seq
        with self._opened(position.segment) as read:
            while True:
                block = read_block(read(WINDOW_BYTES_MAX, offset), base=offset, next_seq=next_seq)
                if not block.records:
                    return offset, next_seq
                take(block)
                offset = block.offsets[-1] + block.lengths[-1]
                next_seq += len(block.records)

    @contextmanager
    def _opened(self, segment: int) -> Iterator[Callable[[int, int], bytes]]:
        """Yield a function that reads a number of bytes at an offset. Both raise EnvironmentFailure."""
        path = os.path.join(self.folder, segment_name(segment))
        try:
            try:
                fd = open_plain(path)
            except FileNotFoundError:
                path = self.archived_path(segment)  # as in _read
                fd = open_plain(path)
        except OSError as error:
            raise environment_failure(error, "read", path) from error

        def read(bytes_max: int, offset: int) -> bytes:
            try:
                return self._read_at(fd, min(bytes_max, SEGMENT_READ_MAX), max(offset, 0))
            except OSError as error:
                raise environment_failure(error, "read", path) from error

        try:
            yield read
        finally:
            os.close(fd)

    def _read(self, segment: int, offset: int, bytes_max: int = SEGMENT_READ_MAX + 1) -> bytes:
        path = os.path.join(self.folder, segment_name(segment))
        try:
            try:
                data = read_plain(path, bytes_max, max(offset, 0), read=self._read_at)
            except FileNotFoundError:
                path = self.archived_path(segment)  # a segment may be archived at any moment
                data = read_plain(path, bytes_max, max(offset, 0), read=self._read_at)
        except OSError as error:
            raise environment_failure(error, "read", path) from error
        if len(data) > SEGMENT_READ_MAX:
            raise DamageError(
                f"a segment over {SEGMENT_READ_MAX:,} bytes", path=path, offset=SEGMENT_READ_MAX, mend=_MEND
            )
        return data


def is_unreadable(error: EnvironmentFailure) -> bool:
    """Return True if the disk or a wrong kind of file is to blame, not the caller or a shortage of descriptors."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in _UNREADABLE


def damage_of(error: EnvironmentFailure) -> DamageError:
    """Convert an error of the disk to damage. Raises ``error`` itself if the caller is to blame."""
    if not is_unreadable(error):
        raise error
    return DamageError(error.wrong, safe="Everything else stays readable; nothing is written.", mend=_MEND)


def _names(watch: FolderWatch) -> list[str]:
    """Return the names in the folder; the same list object while the folder is unchanged."""
    try:
        return watch.names()
    except (FileNotFoundError, NotADirectoryError):
        return _NONE
    except OSError as error:
        raise environment_failure(error, "list", watch.path) from error
