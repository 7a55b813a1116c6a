"""The bytes that a mutation adds to a segment, and how they get to the disk.

The order is the promise: objects, then one write of the whole batch, then one sync, then the durable mark. Whatever
fails before the sync has ended leaves bytes that count for nothing and that the next batch voids.
"""

from __future__ import annotations

__all__ = ["SegmentWriter"]

import binascii
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.clock import format_ms
from periplus.base.errors import DamageError, EnvironmentFailure, OutcomeUnknownError, UsageError, environment_failure
from periplus.base.files import read_plain, write_atomic
from periplus.journal.lineage import SEGMENT_READ_MAX, Position, write_durable
from periplus.journal.record import PAYLOAD_INLINE_MAX, RECORD_VERSION, PayloadRef, Record, decode_line, encode_line
from periplus.journal.segment import (
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
from periplus.journal.transaction import Draft, Writer

if TYPE_CHECKING:
    from periplus.journal.journal import Journal

POISON_SUFFIX: Final = ".poisoned"
PARKED_SUFFIX: Final = ".parked"


class SegmentWriter:
    """Appends batches to the newest segment of our own lineage; every call is made under the lock."""

    def __init__(self, journal: Journal, lineage: str) -> None:
        self.lineage = lineage
        self._journal = journal
        self._files = journal.files
        self._folder = journal.layout.lineage_folder(lineage)
        self._fd = -1
        self._segment = 0
        self._mark_fd = -1

    def close(self) -> None:
        for fd in (self._fd, self._mark_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._mark_fd = -1

    def append(
        self, drafts: Sequence[Draft], writer: Writer, key: str, position: Position, tail: Tail | None, *, durable: bool
    ) -> tuple[list[Entry], Position, int, int]:
        """Write ``drafts`` as one batch behind ``position``; gives ``(entries, new end, file size, inode)``."""
        used = position.offset + (tail.length if tail is not None else 0)
        is_full = used >= self._journal.settings.journal.segment_bytes and position.next_seq > position.segment
        if position.segment == 0 or is_full:
            if position.segment:  # what lies before the newest segment is durable: readers rely on it
                self._open(position.segment)
                self._sync(position.segment, key)
                self._journal.durable_seq = position.next_seq - 1
            position, tail = self._begin_segment(position), None
        separator = TEAR_END if tail is not None and tail.torn_line else b""
        start = position.offset + (tail.length + len(separator) if tail is not None else 0)
        voids = (position.offset, start - position.offset) if tail is not None else None
        lines, entries = self._encode(drafts, writer, key, position, start, voids)
        self._open(position.segment)
        status = os.fstat(self._fd)
        if status.st_size != position.offset + (tail.length if tail is not None else 0):
            raise DamageError("the segment changed while the lock was held", path=self._path(position.segment),
                              offset=status.st_size, safe="Nothing was written.", mend="Repeat the command.")  # fmt: skip
        self._write(separator + b"".join(lines), position.segment)
        end = Position(
            position.segment, start + sum(map(len, lines)), position.next_seq + len(lines), entries[-1].leaf[:8].hex()
        )
        if durable:
            if self._journal.durable_seq < position.segment:
                self._sync_folder(key)  # whoever began the segment may have stopped before it was sure to be found
            self._sync(position.segment, key)
            self._mark(end, entries[-1].leaf)
        return entries, end, end.offset, status.st_ino

    def roll(self, position: Position) -> None:
        """Begin a new segment behind ``position``; what lies before it is on the disk then: readers rely on it."""
        self._open(position.segment)
        self._sync(position.segment, "")
        self._begin_segment(position)

    # -- encoding ----------------------------------------------------------------------------------------------------

    def _encode(
        self, drafts: Sequence[Draft], writer: Writer, key: str, position: Position, start: int,
        voids: tuple[int, int] | None,
    ) -> tuple[list[bytes], list[Entry]]:  # fmt: skip
        count = len(drafts)
        if count > BATCH_RECORDS_MAX:
            raise UsageError(f"a mutation of {count:,} records; the limit is {BATCH_RECORDS_MAX:,}")
        ts = format_ms(self._journal.clock.now_ms())
        lines: list[bytes] = []
        entries: list[Entry] = []
        offset = start
        for index, draft in enumerate(drafts):
            payload, ref = self._payload(draft)
            record = Record(
                v=RECORD_VERSION,
                seq=position.next_seq + index,
                ts=ts,
                writer=writer.name,
                writer_id=writer.id,
                pid=writer.pid or os.getpid(),
                action=draft.action,
                session=writer.session,
                item_type=draft.item_type,
                item_id=draft.item_id,
                parents=draft.parents,
                key=key,
                salt=binascii.b2a_base64(self._journal.random(16), newline=False).decode(),
                txn=(index + 1, count) if count > 1 else None,
                summary=draft.summary,
                payload=payload,
                payload_ref=ref,
                deleted=draft.deleted,
                voids=voids if index == 0 else None,
                durable=self._journal.durable_seq,
            )
            line, leaf = encode_line(record)
            if decode_line(line[:-1])[0].seq != record.seq:
                raise AssertionError("a line that cannot be read back would have been written")
            lines.append(line)
            entries.append(Entry(record, offset, len(line), leaf))
            offset += len(line)
        if offset - start > BATCH_BYTES_MAX:
            raise UsageError(f"a mutation of {offset - start:,} bytes; the limit is {BATCH_BYTES_MAX:,}")
        return lines, entries

    def _payload(self, draft: Draft) -> tuple[msgspec.Raw | msgspec.UnsetType, PayloadRef | None]:
        if draft.payload is None:
            return msgspec.UNSET, None
        if len(draft.payload) <= PAYLOAD_INLINE_MAX:
            return msgspec.Raw(draft.payload), None
        digest = self._journal.objects.put(draft.payload)  # durable before the record that names it
        return msgspec.UNSET, PayloadRef(digest.hex(), len(draft.payload))

    # -- reaching the disk -------------------------------------------------------------------------------------------

    def _write(self, buffer: bytes, segment: int) -> None:
        try:
            written = self._files.write(self._fd, buffer)
        except OSError as error:
            raise environment_failure(error, "write to", self._path(segment)) from error
        if written != len(buffer):
            raise EnvironmentFailure(
                f"only {written:,} of {len(buffer):,} bytes could be written to {self._path(segment)}",
                safe="Nothing that was acknowledged is lost; the unfinished bytes count for nothing.",
                mend="Free some space, then repeat the command.",
            )

    def _sync(self, segment: int, key: str) -> None:
        reason = ""
        try:
            self._files.sync_data(self._fd)
            mine, there = os.fstat(self._fd), os.stat(self._path(segment))
            if (mine.st_ino, mine.st_dev) != (there.st_ino, there.st_dev):
                reason = "the file was replaced while it was written"
        except OSError as error:
            reason = error.strerror or str(error)
            self._poison(segment)
        if reason:
            raise _unknown(self._path(segment), reason, key)

    def settle(self, position: Position, key: str) -> None:
        """Make durable what was read up to ``position``: whoever wrote it may have stopped before its sync."""
        self._open(position.segment)
        if self._journal.durable_seq < position.segment:
            self._sync_folder(key)
        self._sync(position.segment, key)

    def _sync_folder(self, key: str) -> None:
        try:
            self._files.sync_folder(self._folder)
        except OSError as error:
            raise _unknown(self._folder, error.strerror or str(error), key) from error

    def _mark(self, end: Position, leaf: bytes) -> None:
        try:
            if self._mark_fd < 0:
                self._mark_fd = self._files.open(self._journal.layout.durable, os.O_WRONLY | os.O_CREAT)
            write_durable(self._files, self._mark_fd, self.lineage, end, leaf)
        except OSError:
            pass  # the mark may lag: the next record's own ``durable`` says the same

    def _open(self, segment: int) -> None:
        path = self._path(segment)
        try:
            if self._fd >= 0:
                mine, there = os.fstat(self._fd), os.stat(path)
                if self._segment == segment and (mine.st_ino, mine.st_dev) == (there.st_ino, there.st_dev):
                    return
                os.close(self._fd)
                self._fd = -1
            self._fd = self._files.open(path, os.O_WRONLY | os.O_APPEND)
            self._segment = segment
        except OSError as error:
            raise environment_failure(error, "open", path) from error

    # -- segments ----------------------------------------------------------------------------------------------------

    def _begin_segment(self, position: Position, carried: bytes = b"", *, in_place: bool = False) -> Position:
        """A new segment behind ``position``: it appears under its name only when it is whole and on disk."""
        first = position.next_seq
        journal = self._journal
        header = encode_header(
            Header(RECORD_VERSION, RECORD_VERSION, journal.store_id, self.lineage, first, position.sum)
        )
        path = self._path(first)
        if os.path.exists(path) and not in_place:
            raise DamageError("a segment stands where a new one should begin", path=path, seq=first,
                              safe="Nothing was written.", mend="Run `periplus doctor`.")  # fmt: skip
        self._files.make_folder(self._folder)
        write_atomic(self._files, path, header + carried)
        return Position(first, len(header), first, header[-19:-3].decode())

    def _path(self, segment: int) -> str:
        return os.path.join(self._folder, segment_name(segment))

    def _poison(self, segment: int) -> None:
        try:
            fd = self._files.open(self._path(segment) + POISON_SUFFIX, os.O_WRONLY | os.O_CREAT)
            os.close(fd)
        except OSError:
            pass  # a disk that takes no marker takes no record either

    def is_poisoned(self, segment: int) -> bool:
        """Whether a sync of the segment failed: what the system says of it since is not to be believed."""
        return segment > 0 and os.path.exists(self._path(segment) + POISON_SUFFIX)

    def leave_poisoned(self, segment: int) -> None:
        """Begin a new segment with the records of ``segment`` that are not known to be durable, written once more.

        They keep their seqs and versions; the new segment supersedes the old one's last records. Where nothing of the
        old one is durable, it is parked under another name, for the new one has to have its name.
        """
        path = self._path(segment)
        data = read_plain(path, SEGMENT_READ_MAX)
        header, start = decode_header(data)
        found = scan(data[start:], base=start, next_seq=segment)
        # Each writer says in its records what it knew to be on disk; the mark may be older.
        known = max([self._journal.durable_seq, *(entry.record.durable for entry in found.entries)])
        durable = [entry for entry in found.entries if entry.record.seq <= known]
        carried = found.entries[len(durable) :]
        lines = [
            data[entry.offset : entry.offset + entry.length]  # a later version's fields too
            if entry.record.voids is None
            else encode_line(msgspec.structs.replace(entry.record, voids=None))[0]
            for entry in carried
        ]
        before = durable[-1].leaf[:8].hex() if durable else header.prev
        first = segment + len(durable)
        if not durable:
            write_atomic(self._files, path + PARKED_SUFFIX, data)
        # In one rename where the name is the same: at no moment is there neither the old segment nor the new one.
        self._begin_segment(Position(segment, 0, first, before), b"".join(lines), in_place=not durable)
        if not durable:
            self._files.replace(path + POISON_SUFFIX, path + PARKED_SUFFIX + POISON_SUFFIX)


def _unknown(path: str, reason: str, key: str) -> OutcomeUnknownError:
    return OutcomeUnknownError(
        f"cannot tell whether the write to {path} reached the disk: {reason}",
        key=key,
        safe="Everything acknowledged before is durable.",
        mend=f"Repeat the command with --key {key}: it will not be written twice.",
    )
