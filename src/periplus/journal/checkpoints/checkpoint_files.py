"""Checkpoint files of a store: list them, and find the valid ones, which were announced and are unchanged."""

from __future__ import annotations

__all__ = [
    "HEADER_BYTES_MAX",
    "PATIENCE_S",
    "WRITE_BYTES",
    "UsableCheckpoint",
    "announcement_for",
    "checkpoint_files",
    "checkpoint_headers",
    "checkpoint_lineages",
    "open_checkpoint",
    "remove_checkpoints",
    "usable_checkpoints",
]

import os
from collections.abc import Collection, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, BinaryIO, Final

from periplus.base.errors import FormatError, PeriplusError, environment_failure
from periplus.base.files import TEMPORARY_SUFFIX, Files
from periplus.base.named_tuple import NamedTuple
from periplus.base.process.locks import Lock
from periplus.journal.checkpoints.format import (
    Announcement,
    CheckpointHeader,
    announcement_of,
    checkpoint_seq,
    decode_header_line,
)
from periplus.journal.records.segment import Block
from periplus.journal.storage.lineage import Position

if TYPE_CHECKING:
    from periplus.journal.storage.layout import Layout
    from periplus.journal.storage.stored_journal import StoredJournal


PATIENCE_S: Final = 30.0  # if the user asked: another process may be making one of a large store
HEADER_BYTES_MAX: Final = 1 << 20
WRITE_BYTES: Final = 1 << 20


class UsableCheckpoint(NamedTuple):
    """A valid checkpoint file: a later record announced it, and it has the announced bytes."""

    path: str
    header: CheckpointHeader
    announced: Announcement

    def position(self, lineage: str) -> Position | None:
        found = self.header.positions.get(lineage)
        return None if found is None else Position(*found)


class _FoundError(Exception):
    """Ends the search for an announcement."""


def checkpoint_files(journal: StoredJournal) -> list[tuple[int, str]]:
    """Return seq and path of the files that are named as checkpoints, newest first."""
    folder = journal.layout.checkpoints
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise environment_failure(error, "list", folder) from error
    found = [(seq, os.path.join(folder, name)) for name in names if (seq := checkpoint_seq(name)) is not None]
    return sorted(found, reverse=True)


def checkpoint_lineages(journal: StoredJournal) -> list[str]:
    """Return the lineages whose checkpoints are valid here.

    These are our own (in a copy that has not written yet, the one it was copied from), those that were written here before, and
    those that had records missing when this store was made.
    """
    from periplus.journal.storage.truncation_check import incomplete_lineages

    before = (*journal.own.left, journal.own.previous) if journal.own is not None else ()
    names = (journal.lineage, journal.copied_from, *before, *incomplete_lineages(journal))
    return list(dict.fromkeys(filter(None, names)))


def usable_checkpoints(journal: StoredJournal, lineages: Collection[str] = ()) -> Iterator[UsableCheckpoint]:
    """Yield the valid checkpoints, newest first; damaged or unannounced ones are skipped.

    They are of our own lineage, or of ``lineages``, in their order.
    """
    wanted = list(lineages or (journal.lineage,))
    found = [(path, header) for _, path, header in checkpoint_headers(journal) if header.lineage in wanted]
    for path, header in sorted(found, key=lambda one: wanted.index(one[1].lineage)):
        try:
            if header.store not in journal.stores:
                continue
            announced = announcement_for(journal, header)
            if announced is None or (os.path.getsize(path), announced.root) != (announced.bytes, header.root):
                continue
            if _digest(path) == announced.sha256:
                yield UsableCheckpoint(path, header, announced)
        except (OSError, PeriplusError):
            continue  # damaged, or its position is: use the one before


def checkpoint_headers(journal: StoredJournal) -> Iterator[tuple[int, str, CheckpointHeader]]:
    """Yield seq, path and header of the files that are named as checkpoints and begin like one, newest first."""
    for seq, path in checkpoint_files(journal):
        try:
            with open_checkpoint(path) as file:
                header = decode_header_line(file.readline(HEADER_BYTES_MAX)[:-1])
        except (OSError, FormatError):
            continue
        if header.seq == seq:
            yield seq, path, header


def remove_checkpoints(layout: Layout, files: Files) -> bool:
    """Remove every checkpoint and what interrupted ones left, because content was removed from records that they hold.

    Return True if there were any. Raises LockTimeoutError, EnvironmentFailure.
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


def announcement_for(journal: StoredJournal, header: CheckpointHeader) -> Announcement | None:
    """Return what the record behind the checkpoint's position announces; None if there is none."""
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


def open_checkpoint(path: str) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")


def _digest(path: str) -> str:
    digest = sha256()
    with open_checkpoint(path) as file:
        while piece := file.read(WRITE_BYTES):
            digest.update(piece)
    return digest.hexdigest()
