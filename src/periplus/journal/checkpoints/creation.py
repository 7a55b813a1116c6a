"""Create checkpoints, and archive the segments that they make redundant.

A checkpoint is made from the checkpoint before it and the records since, read from the files again and never from the index,
so an error in the index cannot spread. It is written to a temporary file, synced, read back and compared, renamed, and then
announced by a record. Until that record is durable it is not valid, and an interruption leaves nothing valid behind. Its
content is derived: without it the next reader begins one checkpoint earlier, or at the first record.
"""

from __future__ import annotations

__all__ = ["PATIENCE_S", "WEIGHT_MIN", "WORK_BYTES_MAX", "Made", "make_checkpoint", "make_due", "work_due"]

import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.clock import format_ms
from periplus.base.errors import DamageError, FormatError, environment_failure
from periplus.base.files import TEMPORARY_SUFFIX, write_all
from periplus.base.named_tuple import NamedTuple
from periplus.base.process.locks import Lock
from periplus.journal.checkpoints.ancestors import heads_to_keep
from periplus.journal.checkpoints.checkpoint_files import (
    HEADER_BYTES_MAX,
    PATIENCE_S,
    WRITE_BYTES,
    announcement_for,
    checkpoint_files,
    checkpoint_headers,
    open_checkpoint,
    usable_checkpoints,
)
from periplus.journal.checkpoints.format import (
    CHECKPOINT_VERSION,
    KEY_RECORDS_A_LINE,
    KEYS_MAX,
    Announcement,
    CheckpointHeader,
    KeyLine,
    checkpoint_name,
    decode_checkpoint,
    decode_header_line,
    encode_checkpoint,
)
from periplus.journal.checkpoints.segment_archive import move_to_archive
from periplus.journal.index.index_file import discard_unused
from periplus.journal.index.record_lookup import bytes_of
from periplus.journal.index.tables import Index
from periplus.journal.records.record import LINE_BYTES_MAX
from periplus.journal.state.transaction import Transaction, Writer
from periplus.journal.storage.progress import Progress, no_progress

if TYPE_CHECKING:
    from periplus.journal.index.indexed_journal import MutableJournal

WEIGHT_MIN: Final = 1 << 20  # smaller amounts are read fast enough without a checkpoint
WORK_BYTES_MAX: Final = (
    32 << 20
)  # what a mutation may read to make one, in a second or two; more is left to `doctor --compact`


class Made(NamedTuple):
    """A new checkpoint, and the segments that were archived for it."""

    seq: int
    path: str
    size_bytes: int
    archived: list[int]


def work_due(journal: MutableJournal) -> int:
    """Return how many bytes have to be read for a checkpoint that is due (the last one and the records since); 0 if none is due.

    One is due when the records of our lineage since the last one weigh at least as much as that one, and WEIGHT_MIN.
    """
    own = ((seq, path) for seq, path, header in checkpoint_headers(journal) if header.lineage == journal.lineage)
    seq, path = next(own, (0, ""))
    reader = journal.reader(journal.lineage)
    since = [first for first in reader.segments() if first > seq]
    try:
        weight = sum(os.path.getsize(reader.path_of(first)) for first in since)
        last = os.path.getsize(path) if path else 0
    except OSError:
        return 0  # a file moved: another process is making one
    return weight + last if weight >= max(WEIGHT_MIN, last) else 0


def make_due(journal: MutableJournal, writer: Writer, *, work_bytes_max: int = WORK_BYTES_MAX) -> Made | None:
    """Make a checkpoint if one is due and needs at most ``work_bytes_max``; raises as ``make_checkpoint``."""
    return make_checkpoint(journal, writer) if journal.lineage and 0 < work_due(journal) <= work_bytes_max else None


def make_checkpoint(
    journal: MutableJournal, writer: Writer, progress: Progress = no_progress, *, patience_s: float = 0.0
) -> Made | None:
    """Make a checkpoint at the durable end of the journal; None if there is nothing new to put into it.

    Raises LockTimeoutError if another process is making one and does not finish in ``patience_s``, DamageError if the journal is
    damaged, and EnvironmentFailure. Nothing valid is left then.
    """
    if not os.path.isdir(journal.layout.journal):
        return None  # a fresh clone: no folder for the lock
    with Lock(journal.layout.checkpoint_lock).holding(patience_s):
        journal.refresh()
        if journal.damage is not None:
            raise journal.damage
        limit = journal.durable_end() if journal.syncs else journal.end().next_seq - 1
        newest = next(usable_checkpoints(journal), None)
        if limit < 1 or (
            newest is not None and limit <= newest.header.seq + 1
        ):  # the one new record is its announcement
            return None
        scratch = Index.scratch(journal.store_id, journal.view)
        try:
            _fill(journal, scratch, limit, progress, is_asked=patience_s > 0)
            path, announcement = _write(journal, scratch)
        finally:
            scratch.close()
        files = checkpoint_files(journal)
        if not files or files[0][0] != announcement.seq or _announcement_held(journal, path, announcement) is None:
            journal.mutate(lambda transaction: _announce(transaction, announcement), writer)
        discard_unused(journal.index_path)
        return Made(announcement.seq, path, announcement.bytes, move_to_archive(journal, usable_checkpoints(journal)))


def _fill(journal: MutableJournal, scratch: Index, limit: int, progress: Progress, *, is_asked: bool) -> None:
    """Fill ``scratch`` from the last checkpoint and the records since.

    All records are read if that checkpoint, of an older program, lacks what heads are merged over, and the user asked or the
    journal is small.
    """
    from periplus.journal.checkpoints.index_filling import load_journal

    limits = {journal.lineage: limit}
    scratch.begin_write()
    load_journal(journal, scratch, limits, is_for_heads=True, progress=progress)
    if scratch.has_floors and not scratch.can_merge_all() and (is_asked or bytes_of(journal) <= WORK_BYTES_MAX):
        scratch.clear()
        try:
            load_journal(journal, scratch, limits, is_whole=True, progress=progress)
        except DamageError:  # older segments are elsewhere
            scratch.clear()
            load_journal(journal, scratch, limits, is_for_heads=True, progress=progress)


def _announce(transaction: Transaction, announcement: Announcement) -> None:
    transaction.meta("checkpoint", msgspec.to_builtins(announcement), summary=f"checkpoint at seq {announcement.seq}")


def _announcement_held(journal: MutableJournal, path: str, made: Announcement) -> Announcement | None:
    with open_checkpoint(path) as file:
        held = announcement_for(journal, decode_header_line(file.readline(HEADER_BYTES_MAX)[:-1]))
    return held if held == made else None


def _write(journal: MutableJournal, scratch: Index) -> tuple[str, Announcement]:
    from periplus.journal.proofs.tiles import LineageTree

    positions = scratch.watermarks()
    seq = positions[journal.lineage].next_seq - 1
    root = LineageTree(journal).root(seq).hex()
    header = CheckpointHeader(
        2, CHECKPOINT_VERSION, journal.store_id, journal.lineage, seq, format_ms(journal.clock.now_ms()),
        {lineage: (position.segment, position.offset, position.next_seq, position.sum) for lineage, position in positions.items()}, root,
    )  # fmt: skip
    keys = _key_lines(scratch.newest_keys(KEYS_MAX))
    lines = encode_checkpoint(header, heads_to_keep(scratch), keys, lambda payload: journal.objects.put(payload).hex())
    folder = journal.layout.checkpoints
    path = os.path.join(folder, checkpoint_name(seq))
    temporary = os.path.join(folder, f".{checkpoint_name(seq)}.{os.getpid()}.{os.urandom(4).hex()}{TEMPORARY_SUFFIX}")
    try:
        journal.files.make_folder(folder)
        try:
            digest, size = _write_aside(journal, temporary, lines)
            _compare(journal, temporary, scratch)
            journal.files.replace(temporary, path)
        except BaseException:  # leave no half-written file under a valid name
            if os.path.lexists(temporary):
                os.unlink(temporary)
            raise
        journal.files.sync_folder(folder)
        journal.files.sync_folder(journal.layout.journal)
    except OSError as error:
        raise environment_failure(error, "write the checkpoint", path) from error
    return path, Announcement(seq, digest, size, root)


def _key_lines(rows: Iterable[tuple[str, str, int, str, str]]) -> Iterator[KeyLine]:
    """Yield the keys with their records, in several lines if there are very many records, because a line is read whole."""
    for key, of_key in groupby(rows, key=itemgetter(0)):
        while some := [row[1:] for row in islice(of_key, KEY_RECORDS_A_LINE)]:
            yield KeyLine(key, some)


def _write_aside(journal: MutableJournal, path: str, lines: Iterator[bytes]) -> tuple[str, int]:
    digest, size, waiting = sha256(), 0, bytearray()
    fd = journal.files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        for line in lines:
            digest.update(line)
            size += len(line)
            waiting += line
            if len(waiting) >= WRITE_BYTES:
                write_all(journal.files, fd, waiting)
                waiting = bytearray()
        write_all(journal.files, fd, waiting)
        journal.files.sync(fd)
    finally:
        journal.files.close(fd)
    return digest.hexdigest(), size


def _compare(journal: MutableJournal, path: str, scratch: Index) -> None:
    """Read back what was written and check that every version is in it, in order."""
    expected = heads_to_keep(scratch)
    try:
        with open_checkpoint(path) as file:
            lines = iter(lambda: file.readline(2 * LINE_BYTES_MAX), b"")
            for found in decode_checkpoint(lines, journal.load_object):
                if not isinstance(found, KeyLine) and found != next(expected, None):
                    raise DamageError("a checkpoint was not written correctly", path=path,
                                      safe="It is not used and is removed.", mend="Check the disk.")  # fmt: skip
    except FormatError as error:
        raise DamageError(f"a checkpoint cannot be read back: {error.wrong}", path=path, offset=error.offset or 0,
                          safe="It is not used and is removed.", mend="Check the disk.") from error  # fmt: skip
    if next(expected, None) is not None:
        raise DamageError("a checkpoint lacks heads", path=path, safe="It is not used and is removed.",
                          mend="Check the disk.")  # fmt: skip
