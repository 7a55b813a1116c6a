"""Making checkpoints, finding those that count, and moving to the archive what they make redundant.

A checkpoint is made from the checkpoint before it and the records since, read from the files once more: never from
the index, so that nothing wrong in that can become the truth. It is written aside, synced, read back whole and
compared, takes its name, and is then announced by a record; until that record is durable it counts for nothing, and
whatever stopped its making leaves nothing that counts. What is in it stays derived: without it the next reader
begins one checkpoint, or the whole journal, earlier.
"""

from __future__ import annotations

__all__ = [
    "PATIENCE_S",
    "WEIGHT_MIN",
    "WORK_BYTES_MAX",
    "Made",
    "UsableCheckpoint",
    "checkpoint_files",
    "checkpoint_lineages",
    "make_checkpoint",
    "make_due",
    "remove_checkpoints",
    "usable_checkpoints",
    "work_due",
]

import os
from collections.abc import Collection, Iterable, Iterator
from hashlib import sha256
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from periplus.base.clock import format_ms
from periplus.base.errors import DamageError, FormatError, PeriplusError, environment_failure
from periplus.base.files import TEMPORARY_SUFFIX, Files, write_all
from periplus.base.locks import Lock
from periplus.base.tuples import NamedTuple
from periplus.journal.ancestors import heads_to_keep
from periplus.journal.archive import move_to_archive
from periplus.journal.checkpoint import (
    CHECKPOINT_VERSION,
    KEY_RECORDS_A_LINE,
    KEYS_MAX,
    Announcement,
    CheckpointHeader,
    KeyLine,
    announcement_of,
    checkpoint_name,
    checkpoint_seq,
    decode_checkpoint,
    decode_header_line,
    encode_checkpoint,
)
from periplus.journal.index import Index
from periplus.journal.index_file import discard_unused, index_path
from periplus.journal.lineage import Position
from periplus.journal.reading import Progress, bytes_of, no_progress
from periplus.journal.record import LINE_BYTES_MAX
from periplus.journal.segment import Block
from periplus.journal.transaction import Transaction, Writer

if TYPE_CHECKING:
    from periplus.journal.journal import Journal
    from periplus.journal.layout import Layout
    from periplus.journal.reader import JournalReader

PATIENCE_S: Final = 30.0  # of who asked for one: another process may be making one of a large store
WEIGHT_MIN: Final = 1 << 20  # less is read faster than it is worth to keep
WORK_BYTES_MAX: Final = 32 << 20  # what a mutation may read to make one: a second or two; more is left to the command
_HEADER_BYTES_MAX: Final = 1 << 20
_WRITE_BYTES: Final = 1 << 20


class UsableCheckpoint(NamedTuple):
    """A file that a record behind it announced, and whose bytes are those that it announced."""

    path: str
    header: CheckpointHeader
    announced: Announcement

    def position(self, lineage: str) -> Position | None:
        found = self.header.positions.get(lineage)
        return None if found is None else Position(*found)


class Made(NamedTuple):
    """A checkpoint that was made, and the segments that were moved to the archive for it."""

    seq: int
    path: str
    size_bytes: int
    archived: list[int]


class _FoundError(Exception):
    """Ends the search for an announcement."""


def checkpoint_files(journal: JournalReader) -> list[tuple[int, str]]:
    """Seq and path of the files that are called checkpoints, the newest first."""
    folder = journal.layout.checkpoints
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise environment_failure(error, "list", folder) from error
    found = [(seq, os.path.join(folder, name)) for name in names if (seq := checkpoint_seq(name)) is not None]
    return sorted(found, reverse=True)


def checkpoint_lineages(journal: JournalReader) -> list[str]:
    """The lineages whose checkpoints count here: ours, or in a copy that has not written the one that it is a copy of; those that were written
    here before; and those that this store was made with while some of their records were missing.
    """
    from periplus.journal.stated import incomplete_lineages

    before = (*journal.own.left, journal.own.previous) if journal.own is not None else ()
    names = (journal.lineage, journal.copied_from, *before, *incomplete_lineages(journal))
    return list(dict.fromkeys(filter(None, names)))


def usable_checkpoints(journal: JournalReader, lineages: Collection[str] = ()) -> Iterator[UsableCheckpoint]:
    """Those that count, the newest first; one that is damaged or was never announced is skipped.

    Those of our own lineage, but for who names others: in their order then.
    """
    wanted = list(lineages or (journal.lineage,))
    found = [(path, header) for _, path, header in _with_headers(journal) if header.lineage in wanted]
    for path, header in sorted(found, key=lambda one: wanted.index(one[1].lineage)):
        try:
            if header.store not in journal.stores:
                continue
            announced = _announcement(journal, header)
            if announced is None or (os.path.getsize(path), announced.root) != (announced.bytes, header.root):
                continue
            if _digest(path) == announced.sha256:
                yield UsableCheckpoint(path, header, announced)
        except (OSError, PeriplusError):
            continue  # not what was written, or its place in the journal is not: the one before it will do


def _with_headers(journal: JournalReader) -> Iterator[tuple[int, str, CheckpointHeader]]:
    """Seq, path and header of the files that are called checkpoints and begin as one, the newest first."""
    for seq, path in checkpoint_files(journal):
        try:
            with _opened(path) as file:
                header = decode_header_line(file.readline(_HEADER_BYTES_MAX)[:-1])
        except (OSError, FormatError):
            continue
        if header.seq == seq:
            yield seq, path, header


def work_due(journal: Journal) -> int:
    """How many bytes a checkpoint that is due would be made from: the last one, and the records since; 0 where none is.

    One is due when the records of our lineage since the last one weigh at least what that weighs, and WEIGHT_MIN.
    """
    own = ((seq, path) for seq, path, header in _with_headers(journal) if header.lineage == journal.lineage)
    seq, path = next(own, (0, ""))
    reader = journal.reader(journal.lineage)
    since = [first for first in reader.segments() if first > seq]
    try:
        weight = sum(os.path.getsize(reader.path_of(first)) for first in since)
        last = os.path.getsize(path) if path else 0
    except OSError:
        return 0  # something moved meanwhile: somebody else is at it
    return weight + last if weight >= max(WEIGHT_MIN, last) else 0


def make_due(journal: Journal, writer: Writer, *, work_bytes_max: int = WORK_BYTES_MAX) -> Made | None:
    """A checkpoint where one is due and takes no more work than that; raises as ``make_checkpoint``."""
    return make_checkpoint(journal, writer) if journal.lineage and 0 < work_due(journal) <= work_bytes_max else None


def make_checkpoint(
    journal: Journal, writer: Writer, progress: Progress = no_progress, *, patience_s: float = 0.0
) -> Made | None:
    """Make one at the durable end of the journal; None where there is nothing new to put into one.

    Raises LockTimeoutError where another process makes one and is not done in ``patience_s``, DamageError where the journal is
    not sound, and EnvironmentFailure; nothing that counts is left then.
    """
    if not os.path.isdir(journal.layout.journal):
        return None  # a fresh clone: not even a place for the lock
    with Lock(journal.layout.checkpoint_lock).holding(patience_s):
        journal.refresh()
        if journal.damage is not None:
            raise journal.damage
        limit = journal.durable_end() if journal.syncs else journal.end().next_seq - 1
        newest = next(usable_checkpoints(journal), None)
        if limit < 1 or (newest is not None and limit <= newest.header.seq + 1):  # the one record tells of it
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
        discard_unused(index_path(journal))
        return Made(announcement.seq, path, announcement.bytes, move_to_archive(journal, usable_checkpoints(journal)))


def _fill(journal: Journal, scratch: Index, limit: int, progress: Progress, *, is_asked: bool) -> None:
    """Fill ``scratch`` from the checkpoint before and what came since; from all records where that one does not say what heads are
    merged over, as an older program's, and somebody asked or the journal is small.
    """
    from periplus.journal.loading import load_journal

    limits = {journal.lineage: limit}
    scratch.begin_write()
    load_journal(journal, scratch, limits, is_for_heads=True, progress=progress)
    if scratch.has_floors and not scratch.can_merge_all() and (is_asked or bytes_of(journal) <= WORK_BYTES_MAX):
        scratch.clear()
        try:
            load_journal(journal, scratch, limits, is_whole=True, progress=progress)
        except DamageError:  # the older segments are elsewhere
            scratch.clear()
            load_journal(journal, scratch, limits, is_for_heads=True, progress=progress)


def remove_checkpoints(layout: Layout, files: Files) -> bool:
    """Remove every checkpoint, and what was left of any: content went out of the records that they hold too.

    Gives whether there were any. Raises LockTimeoutError, EnvironmentFailure.
    """
    folder = layout.checkpoints
    if not os.path.isdir(folder):
        return False
    with Lock(layout.checkpoint_lock).holding(PATIENCE_S):
        try:
            names = [name for name in os.listdir(folder) if checkpoint_seq(name) or name.endswith(TEMPORARY_SUFFIX)]
            for name in names:
                files.unlink(os.path.join(folder, name))
            files.sync_folder(folder)
        except OSError as error:
            raise environment_failure(error, "remove a checkpoint from", folder) from error
    return bool(names)


def _announce(transaction: Transaction, announcement: Announcement) -> None:
    transaction.meta("checkpoint", msgspec.to_builtins(announcement), summary=f"checkpoint at seq {announcement.seq}")


def _announcement_held(journal: Journal, path: str, made: Announcement) -> Announcement | None:
    with _opened(path) as file:
        held = _announcement(journal, decode_header_line(file.readline(_HEADER_BYTES_MAX)[:-1]))
    return held if held == made else None


def _write(journal: Journal, scratch: Index) -> tuple[str, Announcement]:
    from periplus.journal.tiles import LineageTree

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
        except BaseException:  # whatever it was, what is half written is not left under a name that counts
            if os.path.lexists(temporary):
                os.unlink(temporary)
            raise
        journal.files.sync_folder(folder)
        journal.files.sync_folder(journal.layout.journal)
    except OSError as error:
        raise environment_failure(error, "write the checkpoint", path) from error
    return path, Announcement(seq, digest, size, root)


def _key_lines(rows: Iterable[tuple[str, str, int, str, str]]) -> Iterator[KeyLine]:
    """The keys with their records; one that very many were written with has several lines, for a line is read whole."""
    for key, of_key in groupby(rows, key=itemgetter(0)):
        while some := [row[1:] for row in islice(of_key, KEY_RECORDS_A_LINE)]:
            yield KeyLine(key, some)


def _write_aside(journal: Journal, path: str, lines: Iterator[bytes]) -> tuple[str, int]:
    digest, size, waiting = sha256(), 0, bytearray()
    fd = journal.files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        for line in lines:
            digest.update(line)
            size += len(line)
            waiting += line
            if len(waiting) >= _WRITE_BYTES:
                write_all(journal.files, fd, waiting)
                waiting = bytearray()
        write_all(journal.files, fd, waiting)
        journal.files.sync(fd)
    finally:
        journal.files.close(fd)
    return digest.hexdigest(), size


def _compare(journal: Journal, path: str, scratch: Index) -> None:
    """Read back what was written and find in it, in order, every version that was to be in it."""
    expected = heads_to_keep(scratch)
    try:
        with _opened(path) as file:
            lines = iter(lambda: file.readline(2 * LINE_BYTES_MAX), b"")
            for found in decode_checkpoint(lines, journal.load_object):
                if not isinstance(found, KeyLine) and found != next(expected, None):
                    raise DamageError("a checkpoint was not written as it should be", path=path,
                                      safe="It counts for nothing and is removed.", mend="Check the disk.")  # fmt: skip
    except FormatError as error:
        raise DamageError(f"a checkpoint cannot be read back: {error.wrong}", path=path, offset=error.offset or 0,
                          safe="It counts for nothing and is removed.", mend="Check the disk.") from error  # fmt: skip
    if next(expected, None) is not None:
        raise DamageError("a checkpoint lacks heads", path=path, safe="It counts for nothing and is removed.",
                          mend="Check the disk.")  # fmt: skip


def _announcement(journal: JournalReader, header: CheckpointHeader) -> Announcement | None:
    """The record behind the checkpoint's place that announces it."""
    found: Announcement | None = None
    place = header.positions.get(header.lineage)
    if place is None or place[2] != header.seq + 1:
        return None

    def take(_segment: int, block: Block) -> None:
        nonlocal found
        for record in block.records:
            announced = announcement_of(record)
            if announced is not None and announced.seq == header.seq:
                found = announced
                raise _FoundError

    try:
        journal.reader(header.lineage).read_blocks(Position(*place), take)
    except _FoundError:
        pass
    return found


def _opened(path: str) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")


def _digest(path: str) -> str:
    digest = sha256()
    with _opened(path) as file:
        while piece := file.read(_WRITE_BYTES):
            digest.update(piece)
    return digest.hexdigest()
