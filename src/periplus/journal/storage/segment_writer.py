"""Write the bytes of a mutation to a segment and make them durable.

The order is what the journal promises: objects, then one write of the whole batch, then one sync, then the durable mark.
A failure before the sync has ended leaves bytes that are ignored and that the next batch voids.
"""

from __future__ import annotations

__all__ = ["Appended", "SegmentWriter"]

import binascii
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.clock import format_ms
from periplus.base.errors import DamageError, EnvironmentFailure, OutcomeUnknownError, UsageError, environment_failure
from periplus.base.files import FolderWatch, read_plain, write_atomic
from periplus.base.named_tuple import NamedTuple
from periplus.base.process.locks import Lock
from periplus.journal.records.record import (
    RECORD_VERSION,
    SUM_TRAILER_BYTES,
    PayloadRef,
    Record,
    are_sealed,
    decode_line,
    encode_line,
)
from periplus.journal.records.segment import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    TEAR_END,
    Entry,
    Header,
    Tail,
    decode_header,
    encode_header,
    scan,
    segment_name,
)
from periplus.journal.state.transaction import Draft, Writer
from periplus.journal.storage.group_commit import EpochEndedError, FlushMap, Written
from periplus.journal.storage.lineage import SEGMENT_READ_MAX, Position, encode_durable

if TYPE_CHECKING:
    from periplus.journal.storage.stored_journal import StoredJournal

POISON_SUFFIX: Final = ".poisoned"
PARKED_SUFFIX: Final = ".parked"
_ROOM_BYTES: Final = 256 * 1024
_ADDED_BYTES_MAX: Final = 64 * 1024
_ROOM_FROM: Final = 16  # batches after which room is reserved; short-lived processes do not need it


class Appended(NamedTuple):
    """The result of an append: the records, where they end, the file's inode, and what has to become durable."""

    entries: list[Entry]
    end: Position
    inode: int
    batch: Written


class SegmentWriter:
    """Appends batches to the newest segment of our own lineage under the lock; makes them durable outside it."""

    def __init__(self, journal: StoredJournal, lineage: str) -> None:
        self.lineage = lineage
        self._journal = journal
        self._files = journal.files
        self._folder = journal.layout.lineage_folder(lineage)
        self._watch = journal.watch(lineage)
        self._flush = FlushMap(journal.layout.flush, lineage, journal.files)
        self._epoch = 0
        self._fd = -1
        self._segment = 0
        self._place = (0, 0)
        self._paths: tuple[int, str] = (0, "")
        self._mark_fd = -1
        self._known_writer: Writer | None = None  # a writer whose first record was read back
        self._sound: tuple[list[str], int] = ([], 0)  # the listing without a poison marker of this segment
        self._settled: tuple[Callable[[], bool], Callable[[], bool]] | None = None  # see ``settle``
        self._left: Position | None = None  # end of our last write
        self._batches = 0  # batches that this process wrote
        self._room = (0, 0)  # segment, and the offset up to which room was reserved

    @property
    def bell(self) -> FlushMap:
        return self._flush

    def close(self) -> None:
        self._settled = self._left = None
        closing = map(os.close, filter((-1).__lt__, (self._fd, self._mark_fd)))
        self._fd = self._mark_fd = -1  # then one call: a signal handler may raise after any
        list(closing)
        self._flush.close()

    def attach(self, end: Position) -> bool:
        """Under the lock, with the validated tail at ``end``: learn what is durable. Return False if the segment is poisoned."""
        journal = self._journal
        if not journal.syncs:
            return True
        self._epoch, journal.durable_seq = self._flush.attach(end.segment, end.next_seq - 1, journal.durable_seq)
        return not self._flush.is_poisoned(end.segment, self._epoch)

    @property
    def is_settled(self) -> bool:
        return self._settled is not None

    def settle(self, folder: FolderWatch, lock: Lock) -> None:
        """Under the lock, after validation: remember what the journal's ``folder`` and the lineage's folder list.

        While both list the same, the lock file, lineage.json and the newest segment are those that were validated.
        """
        others, mine = folder.sameness(), self._watch.sameness()
        is_open = self._fd >= 0 and self._is_found(self._segment)
        is_settled = others is not None and mine is not None and is_open and lock.is_current()
        self._settled = (others, mine) if is_settled and others is not None and mine is not None else None

    def is_in_place(self) -> bool:
        """Return True if the folders have the names that they had at validation.

        ``wait`` checks that the folders themselves are in place, while the bytes are on their way to the disk.
        """
        if self._settled is None:
            return False
        others, mine = self._settled
        if not others() or not mine():
            self._settled = None
            return False
        return True

    def is_as_left(self, end: Position) -> bool:
        """Under the lock, with all in place: return True if nobody has written, led or failed since we wrote up to ``end``."""
        if end is not self._left:
            return False
        place = (end.segment, end.next_seq - 1, self._journal.durable_seq)
        return os.lseek(self._fd, 0, os.SEEK_END) == end.offset and self._flush.is_agreed(place, self._epoch)

    def added(self, end: Position) -> tuple[Position, bytes] | None:
        """Under the lock, with all in place: return the bytes that other processes wrote behind ``end``, and where they end.

        Their checksums are checked and their number is compared with the map; their content is not looked at. Return None if that
        does not hold or there is much.
        """
        told = self._flush.told(end.segment)
        if told is None or self._segment != end.segment or not 0 <= told.end - end.offset <= _ADDED_BYTES_MAX:
            return None
        before = end.offset - SUM_TRAILER_BYTES - 1
        try:
            if os.lseek(self._fd, 0, os.SEEK_END) != told.end:
                return None
            data = os.pread(self._fd, told.end - before, before)
        except OSError:
            return None
        added = data[SUM_TRAILER_BYTES + 1 :]
        count = told.last_seq - end.next_seq + 1
        if (
            data[8:24] != end.sum.encode()
            or len(data) != told.end - before
            or not are_sealed(added, count, told.last_seq)
        ):
            return None
        self._epoch = told.epoch
        journal = self._journal
        journal.durable_seq = max(journal.durable_seq, told.durable)
        return Position(end.segment, told.end, told.last_seq + 1, data[-19:-3].decode()), added

    def is_near(self, end: Position) -> bool:
        """Return True if stepping over what lies behind ``end`` is cheaper than reading it."""
        if self._settled is None or self._segment != end.segment:
            return False
        return os.lseek(self._fd, 0, os.SEEK_END) - end.offset <= _ADDED_BYTES_MAX

    def mapped_durable(self) -> int:
        """Return the highest durable seq in the flush map; 0 if there is no map."""
        return (self._flush.durable(self._epoch) or 0) if self._flush.is_mapped() else 0

    def append(
        self, drafts: Sequence[Draft], writer: Writer, key: str, position: Position, tail: Tail | None, inode: int
    ) -> Appended:
        """Write ``drafts`` as one batch behind ``position``, the validated tail of the file ``inode``."""
        used = position.offset + (tail.length if tail is not None else 0)
        is_full = used >= self._journal.settings.journal.segment_bytes and position.next_seq > position.segment
        if position.segment == 0 or is_full:
            position, tail = self._roll(position, key), None
            used = position.offset
        separator = TEAR_END if tail is not None and tail.torn_line else b""
        start = used + len(separator)
        voids = (position.offset, start - position.offset) if tail is not None else None
        buffer, entries = self._encode(drafts, writer, key, position, start, voids)
        if self._size(position.segment, inode) != used:
            raise DamageError("the segment changed while the lock was held", path=self._path(position.segment),
                              safe="Nothing was written.", mend="Repeat the command.")  # fmt: skip
        self._batches += 1
        if self._batches > _ROOM_FROM and self._room < (position.segment, start + len(buffer)):
            self._reserve(position.segment, start, len(buffer))
        self._write(separator + buffer if separator else buffer, position.segment)
        _, offset, length, leaf = entries[-1]
        next_seq = position.next_seq + len(entries)
        end = self._left = Position(position.segment, offset + length, next_seq, leaf[:8].hex())
        batch = Written(position.segment, next_seq - 1, self._epoch, len(entries))
        if self._flush.wrote(batch, offset + length):  # otherwise a sync of another process's bytes is near
            self._files.begin_sync(self._fd, start, offset + length - start)
        return Appended(entries, end, self._place[1], batch)

    def _roll(self, position: Position, key: str) -> Position:
        """Begin a new segment. The records before it become durable first; readers rely on that."""
        if position.segment:
            self._open(position.segment)
            closed = Written(position.segment, position.next_seq - 1, self._epoch)
            if self._epoch:
                self._flush.exclusively(lambda: self._lead(closed, key, 0))
            else:
                self._lead(closed, key, 0)
            self._journal.durable_seq = position.next_seq - 1
        position = self._begin_segment(position)
        self._flush.rolled(position.segment, position.next_seq - 1, self._epoch)
        return position

    def roll(self, position: Position) -> None:
        """Begin a new segment behind ``position``. Everything before it is on disk then."""
        self._roll(position, "")

    # -- encoding ----------------------------------------------------------------------------------------------------

    def _encode(
        self, drafts: Sequence[Draft], writer: Writer, key: str, position: Position, start: int,
        voids: tuple[int, int] | None,
    ) -> tuple[bytes, list[Entry]]:  # fmt: skip
        count = len(drafts)
        if count > BATCH_RECORDS_MAX:
            raise UsageError(f"a mutation of {count:,} records; the limit is {BATCH_RECORDS_MAX:,}", safe="Nothing was written.",
                             mend="Write it in several mutations.")  # fmt: skip
        journal = self._journal
        ts, durable, pid = format_ms(journal.clock.now_ms()), journal.durable_seq, writer.pid or os.getpid()
        name, writer_id, session, _ = writer
        lines: list[bytes] = []
        entries: list[Entry] = []
        offset, seq, txn = start, position.next_seq, None
        for draft in drafts:
            action, item_type, item_id, parents, content, deleted, summary, version, after, inline_bytes_max = draft
            payload, ref = self._payload(content, inline_bytes_max)
            if count > 1:
                txn = (len(lines) + 1, count)
            salt = binascii.b2a_base64(journal.random(16), newline=False).decode()
            record = Record(
                RECORD_VERSION, seq, ts, name, writer_id, pid, action, session, item_type, item_id, parents, after, key,
                salt, txn, summary, payload, ref, deleted, voids, durable,
            )  # fmt: skip
            line, leaf = encode_line(record)
            if not version or writer is not self._known_writer:
                # A transaction checks the types of state; other payloads and the writer's fields are
                # checked by reading the record back once.
                decode_line(line[:-1])
                self._known_writer = writer
            if line.find(b"\n") != len(line) - 1:
                raise AssertionError("a record of more than one line would have been written")
            lines.append(line)
            entries.append(Entry(record, offset, len(line), leaf))
            offset += len(line)
            seq, voids = seq + 1, None
        if offset - start > BATCH_BYTES_MAX:
            raise UsageError(f"a mutation of {offset - start:,} bytes; the limit is {BATCH_BYTES_MAX:,}", safe="Nothing was written.",
                             mend="Write it in several mutations.")  # fmt: skip
        return lines[0] if count == 1 else b"".join(lines), entries

    def _payload(
        self, content: bytes | None, inline_bytes_max: int
    ) -> tuple[msgspec.Raw | msgspec.UnsetType, PayloadRef | None]:
        if content is None:
            return msgspec.UNSET, None
        if len(content) <= inline_bytes_max:
            return msgspec.Raw(content), None
        digest = self._journal.objects.put(content)  # an object is durable before the record that names it
        return msgspec.UNSET, PayloadRef(digest.hex(), len(content))

    # -- reaching the disk -------------------------------------------------------------------------------------------

    def _reserve(self, segment: int, start: int, length: int) -> None:
        """Reserve disk space for many batches at once, at most up to the end of the segment."""
        until = min(start + _ROOM_BYTES, max(self._journal.settings.journal.segment_bytes, start + length))
        self._room = (segment, until)
        try:
            self._files.reserve(self._fd, start, until - start)
        except OSError:
            self._room = (segment, SEGMENT_READ_MAX)  # a full disk, or a file system without reservation

    def _write(self, buffer: bytes, segment: int) -> None:
        try:
            written = self._files.write(self._fd, buffer)
        except OSError as error:
            raise environment_failure(error, "write to", self._path(segment)) from error
        if written != len(buffer):
            raise EnvironmentFailure(
                f"only {written:,} of {len(buffer):,} bytes could be written to {self._path(segment)}",
                safe="No acknowledged write is lost; the unfinished bytes are ignored.",
                mend="Free some space, then repeat the command.",
            )

    def settled(self, end: Position, last_seq: int) -> Written:
        """Return what to wait for before records up to ``last_seq``, perhaps of another process, are acknowledged.

        The process that wrote them may have stopped before their sync.
        """
        self._open(end.segment)
        return Written(end.segment, last_seq, self._epoch)

    def wait(self, batch: Written, key: str, end: Position, leaf: bytes) -> None:
        """Wait until ``batch`` is durable; ``end`` and ``leaf`` of its last record, if known.

        Raises OutcomeUnknownError, EpochEndedError.
        """
        journal = self._journal
        if self._settled is not None and not self._is_found(batch.segment):
            self._settled = None
        mark = (
            encode_durable(self.lineage, end, leaf) if leaf else b""
        )  # computed while the bytes are on their way to the disk

        def lead(before: int) -> None:
            self._lead(batch, key, before)
            if mark:
                self._mark(mark)  # leaders take turns, so the mark never goes back

        durable, is_ours = self._flush.wait(batch, lead)
        if not is_ours and not self._is_in_place(batch.segment):
            raise EpochEndedError
        journal.durable_seq = max(journal.durable_seq, durable)

    def _lead(self, batch: Written, key: str, before: int) -> None:
        if self._flush.is_poisoned(batch.segment, batch.epoch):
            raise _unknown(self._path(batch.segment), "the sync of another process failed", key)
        if max(before, self._journal.durable_seq) < batch.segment:
            self._sync_folder(key)  # the process that began the segment may have stopped before its name was durable
        self._sync(batch.segment, key)

    def _sync(self, segment: int, key: str) -> None:
        try:
            self._files.sync_data(self._fd)
        except OSError as error:
            self._poison(segment)
            raise _unknown(self._path(segment), error.strerror or str(error), key) from error
        if not self._is_in_place(segment):
            raise _unknown(self._path(segment), "the file was replaced while it was written", key)

    def _is_in_place(self, segment: int) -> bool:
        """Return True if the file that we wrote to still has its name."""
        if self._settled is not None and self._segment == segment and self._settled[1]():
            return True  # checked after the write, and no name has changed since
        return self._is_found(segment)

    def _is_found(self, segment: int) -> bool:
        try:
            there = os.stat(self._path(segment))
        except OSError:
            return False
        return self._segment == segment and self._place == (there.st_dev, there.st_ino)

    def _sync_folder(self, key: str) -> None:
        try:
            self._files.sync_folder(self._folder)
        except OSError as error:
            raise _unknown(self._folder, error.strerror or str(error), key) from error

    def _mark(self, mark: bytes) -> None:
        self._open_mark()
        try:
            if self._mark_fd >= 0:
                self._files.pwrite(self._mark_fd, mark, 0)
        except OSError:
            pass  # the mark may lag; the next record's ``durable`` states the same

    def _open_mark(self) -> None:
        try:
            if self._mark_fd < 0:
                self._mark_fd = self._files.open(self._journal.layout.durable, os.O_WRONLY | os.O_CREAT)
        except OSError:
            pass  # see ``_mark``

    def _size(self, segment: int, inode: int) -> int:
        """Return the size of the segment's file, opening it if needed; ``inode`` is the one at which the tail was validated."""
        if self._fd >= 0 and self._segment == segment and self._place[1] == inode:
            try:
                return os.lseek(self._fd, 0, os.SEEK_END)
            except OSError:
                pass  # opening it again reports the error
        return self._open(segment)

    def _open(self, segment: int) -> int:
        """Open the segment's file that has the name now; return its size."""
        path = self._path(segment)
        try:
            if self._fd >= 0:
                there = os.stat(path)
                if self._segment == segment and self._place == (there.st_dev, there.st_ino):
                    return there.st_size
                fd, self._fd = self._fd, -1
                os.close(fd)
            self._fd = self._files.open(path, os.O_RDWR | os.O_APPEND)
            status = os.fstat(self._fd)
        except OSError as error:
            raise environment_failure(error, "open", path) from error
        self._segment, self._place = segment, (status.st_dev, status.st_ino)
        return status.st_size

    # -- segments ----------------------------------------------------------------------------------------------------

    def _begin_segment(self, position: Position, carried: bytes = b"", *, in_place: bool = False) -> Position:
        """Begin a new segment behind ``position``. It gets its name only when it is whole and on disk."""
        first = position.next_seq
        journal = self._journal
        header = encode_header(
            Header(RECORD_VERSION, RECORD_VERSION, journal.store_of(self.lineage), self.lineage, first, position.sum)
        )
        path = self._path(first)
        if os.path.exists(path) and not in_place:
            raise DamageError("a segment exists where a new one should begin", path=path, seq=first,
                              safe="Nothing was written.", mend="Run `periplus doctor`.")  # fmt: skip
        self._files.make_folder(self._folder)
        write_atomic(self._files, path, header + carried)
        return Position(first, len(header), first, header[-19:-3].decode())

    def _path(self, segment: int) -> str:
        if self._paths[0] != segment:
            self._paths = (segment, os.path.join(self._folder, segment_name(segment)))
        return self._paths[1]

    def _poison(self, segment: int) -> None:
        self._flush.poison(segment, self._epoch)
        try:
            fd = self._files.open(self._path(segment) + POISON_SUFFIX, os.O_WRONLY | os.O_CREAT)
            os.close(fd)
        except OSError:
            pass  # a disk that takes no marker takes no record

    def is_poisoned(self, segment: int) -> bool:
        """Return True if a sync of the segment failed, by the listing with which the tail was validated.

        What the system says of such a segment afterwards cannot be trusted.
        """
        names = self._watch.last_names
        if names is not self._sound[0] or segment != self._sound[1]:
            if segment > 0 and f"{segment_name(segment)}{POISON_SUFFIX}" in names:
                return True
            self._sound = (names, segment)
        return False

    def leave_poisoned(self, segment: int) -> None:
        """Begin a new segment and write the records of ``segment`` that are not known to be durable into it again.

        They keep their seqs and versions; the new segment supersedes the last records of the old one. If nothing of the old one is
        durable it is parked under another name, because the new one needs its name.
        """
        self._flush.end_epoch()
        path = self._path(segment)
        data = read_plain(path, SEGMENT_READ_MAX)
        header, start = decode_header(data)
        found = scan(data[start:], base=start, next_seq=segment)
        # Each record states what its writer knew to be on disk; the mark may be older.
        known = max([self._journal.durable_seq, *(entry.record.durable for entry in found.entries)])
        durable = [entry for entry in found.entries if entry.record.seq <= known]
        carried = found.entries[len(durable) :]
        lines = [
            data[entry.offset : entry.offset + entry.length]  # with fields of later versions
            if entry.record.voids is None
            else encode_line(msgspec.structs.replace(entry.record, voids=None))[0]
            for entry in carried
        ]
        before = durable[-1].leaf[:8].hex() if durable else header.prev
        first = segment + len(durable)
        if not durable:
            write_atomic(self._files, path + PARKED_SUFFIX, data)
        # One rename if the name is the same, so that there is always either the old segment or the new one.
        self._begin_segment(Position(segment, 0, first, before), b"".join(lines), in_place=not durable)
        if not durable and os.path.lexists(
            path + POISON_SUFFIX
        ):  # on a full disk there is no marker; the map had the state
            self._files.replace(path + POISON_SUFFIX, path + PARKED_SUFFIX + POISON_SUFFIX)


def _unknown(path: str, reason: str, key: str) -> OutcomeUnknownError:
    return OutcomeUnknownError(
        f"cannot tell whether the write to {path} reached the disk: {reason}",
        key=key,
        safe="Everything acknowledged before is durable.",
        mend=f"Repeat the command with --key {key}: it will not be written twice.",
    )
