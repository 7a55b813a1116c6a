"""Fill an empty index from the journal's files, in memory bounded by the number of entities.

The rows of each block are written as it is read; the heads of entities that grow in a line follow at the end. Odd entities
(see ``fold``) are handed to the index, which knows the whole graph by then.
"""

from __future__ import annotations

__all__ = ["load_journal"]

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

from periplus.base.errors import DamageError, EnvironmentFailure, FormatError, environment_failure
from periplus.journal.checkpoints.format import KeyLine, decode_checkpoint
from periplus.journal.index.tables import Index
from periplus.journal.records.record import LINE_BYTES_MAX
from periplus.journal.records.segment import Block
from periplus.journal.state.entity import Ancestor, Head
from periplus.journal.state.fold import Fold, LinesAt, without_collector
from periplus.journal.state.index_values import HistoryNeededError
from periplus.journal.storage.lineage import START, LineageReader, Position
from periplus.journal.storage.progress import Progress, no_progress

if TYPE_CHECKING:
    from periplus.journal.checkpoints.checkpoint_files import UsableCheckpoint
    from periplus.journal.index.indexed_journal import IndexedJournal

_HEADS_A_TIME: Final = 1_000


def load_journal(
    journal: IndexedJournal,
    index: Index,
    limits: Mapping[str, int],
    *,
    is_whole: bool = False,
    is_for_heads: bool = False,
    progress: Progress = no_progress,
) -> set[tuple[str, str]]:
    """Fill ``index``, empty and within a transaction, from the newest checkpoint that works and the records since.

    ``limits`` are the highest seqs to take in, by lineage. With ``is_whole`` everything is read from the first record on. With
    ``is_for_heads`` the versions that several heads are merged over need not be known.

    Return type and id of every entity. Raises DamageError if the journal is damaged.
    """
    from periplus.journal.checkpoints.checkpoint_files import checkpoint_lineages, usable_checkpoints

    if not is_whole:
        for usable in usable_checkpoints(journal, checkpoint_lineages(journal)):
            if usable.header.seq > limits.get(usable.header.lineage, usable.header.seq):
                continue
            try:
                return _load(journal, index, limits, usable, is_for_heads=is_for_heads, progress=progress)
            except (DamageError, FormatError, EnvironmentFailure, HistoryNeededError):
                index.clear()  # try an earlier one, and at last all records, which report their damage
    return _load(journal, index, limits, None, progress=progress)


def _load(
    journal: IndexedJournal,
    index: Index,
    limits: Mapping[str, int],
    usable: UsableCheckpoint | None,
    *,
    is_for_heads: bool = False,
    progress: Progress = no_progress,
) -> set[tuple[str, str]]:
    loader = _Loader(index, journal.load_object, lambda lineage, *places: journal.reader(lineage).lines_at(*places))
    if usable is not None:
        loader.begin_at(usable)
    with without_collector():
        for lineage in journal.lineages():
            position = None if usable is None else usable.position(lineage)
            loader.load(journal.reader(lineage), limits.get(lineage), position or START, progress)
        found = loader.finish()
    if usable is not None and not is_for_heads and not index.can_merge_all():
        raise HistoryNeededError
    return found


class _Loader:
    """Loads into ``index``, which is empty and within a transaction."""

    def __init__(self, index: Index, load: Callable[[str], bytes], lines_at: LinesAt) -> None:
        self._index = index
        self._load = load
        self._fold = Fold(load, lines_at)

    def begin_at(self, usable: UsableCheckpoint) -> None:
        """Take over what a checkpoint holds. Raises EnvironmentFailure if it is gone or unreadable by now."""
        batch: list[Head] = []
        ancestors: list[Ancestor] = []

        def put() -> None:
            self._index.add_heads(batch)
            self._index.add_ancestors(ancestors)
            self._fold.begin(batch)
            batch.clear()
            ancestors.clear()

        for found in decode_checkpoint(_lines_of(usable.path), self._load, is_known=True):
            if isinstance(found, KeyLine):
                self._index.add_kept_keys([(found.key, *row) for row in found.records])
            elif isinstance(found, Ancestor):
                ancestors.append(found)
            else:
                batch.append(found)
                if len(batch) >= _HEADS_A_TIME:
                    put()
        put()
        for lineage in usable.header.positions:
            position = usable.position(lineage)
            assert position is not None
            self._index.set_watermark(lineage, position)
            self._index.set_floor(lineage, position.next_seq)

    def load(self, reader: LineageReader, limit: int | None, position: Position, progress: Progress) -> None:
        """Take in the records of a lineage from ``position`` on, up to seq ``limit`` if given. Raises DamageError."""
        at: Position | None = None

        def take(segment: int, block: Block) -> None:
            nonlocal at
            if limit is not None:
                block = block.before(limit + 1)
            if block.records:
                self._take(block, reader.lineage, segment)
                progress(block.records[-1].seq, limit or 0)
                at = Position(segment, block.offsets[-1] + block.lengths[-1], block.records[-1].seq + 1,
                              block.leaves[-1][:8].hex())  # fmt: skip

        end = reader.read_blocks(position, take)
        if at is None or at.next_seq == end.next_seq:
            at = end
        if at.segment and (limit is None or at.next_seq <= limit + 1):
            self._index.set_watermark(reader.lineage, at)

    def finish(self) -> set[tuple[str, str]]:
        """Return type and id of every entity."""
        self._flush_heads()
        return self._fold.entities

    def _take(self, block: Block, lineage: str, segment: int) -> None:
        folded = self._fold.add(block, lineage, segment)
        self._index.add_rows(folded.rows, folded.edges)
        if folded.odd:
            self._flush_heads()  # before the index looks at their entities
            self._index.apply(folded.odd, lineage, segment)

    def _flush_heads(self) -> None:
        heads = self._fold.take_heads()
        while some := list(islice(heads, _HEADS_A_TIME)):
            self._index.set_heads(some)


def _lines_of(path: str) -> Iterator[bytes]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            while line := file.readline(2 * LINE_BYTES_MAX):
                yield line
    except OSError as error:
        raise environment_failure(error, "read", path) from error
