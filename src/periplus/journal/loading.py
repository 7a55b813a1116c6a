"""Filling an empty index from the journal's files, in memory bounded by the entities and not by the history.

What each block of a segment adds goes to the index as it is read; the heads of entities that grow in a line follow at
the end, or when the lines that are held for them weigh too much. Odd entities are taken in by the index itself, which
knows the whole graph by then.
"""

from __future__ import annotations

__all__ = ["HELD_BYTES_MAX", "Loader"]

from collections.abc import Callable
from typing import Final

from periplus.journal.fold import Fold
from periplus.journal.index import Index
from periplus.journal.lineage import START, LineageReader, Position
from periplus.journal.segment import Block

HELD_BYTES_MAX: Final = 64 * 1024 * 1024


class Loader:
    """Loads into ``index``, which is empty and within a transaction."""

    def __init__(self, index: Index, load: Callable[[str], bytes]) -> None:
        self._index = index
        self._fold = Fold(load)
        self._fed_bytes = 0

    def load(self, reader: LineageReader, limit: int | None = None) -> None:
        """Take in the records of a lineage, those up to seq ``limit`` where that is given. Raises DamageError."""
        at: Position | None = None

        def take(segment: int, block: Block) -> None:
            nonlocal at
            if limit is not None:
                block = block.before(limit + 1)
            if block.records:
                self._take(block, reader.lineage, segment)
                at = Position(segment, block.offsets[-1] + block.lengths[-1], block.records[-1].seq + 1,
                              block.leaves[-1][:8].hex())  # fmt: skip

        end = reader.read_blocks(START, take)
        if at is None or at.next_seq == end.next_seq:
            at = end
        if at.segment and (limit is None or at.next_seq <= limit + 1):
            self._index.set_watermark(reader.lineage, at)

    def finish(self) -> set[tuple[str, str]]:
        """Gives type and id of every entity that there is."""
        self._flush_heads()
        return self._fold.entities

    def _take(self, block: Block, lineage: str, segment: int) -> None:
        folded = self._fold.add(block, lineage, segment)
        self._index.add_rows(folded.rows, folded.edges)
        self._fed_bytes += sum(block.lengths)
        if folded.odd:
            self._flush_heads()  # before the index looks at the entities that they are of
            self._index.apply(folded.odd, lineage, segment)
        elif self._fed_bytes > HELD_BYTES_MAX:
            self._fed_bytes = self._fold.held_bytes
            if self._fed_bytes > HELD_BYTES_MAX // 2:
                self._flush_heads()

    def _flush_heads(self) -> None:
        self._index.set_heads(self._fold.take_heads())
        self._fed_bytes = 0
