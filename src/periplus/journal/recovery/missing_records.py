"""Missing records of a damaged store, and the note that a store made from an incomplete copy keeps about them.

A record is missing if nothing can be read under its seq although a later record, the durable mark, the index or a signed head shows that it
existed. Seqs are not reassigned. A store made from an incomplete copy keeps a ``missing.json`` for each lineage; without it, records cut
off at the end of a lineage would leave no trace.
"""

from __future__ import annotations

__all__ = ["Gaps", "Missing", "known_last", "lost_lineages", "missing_ranges", "noted_size", "write_missing"]

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from periplus.base.errors import DamageError
from periplus.base.files import Files, write_atomic
from periplus.journal.index.row_recovery import IndexRows
from periplus.journal.records.segment import Damage
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.lineage import START, Chunk, LineageReader, left_behind_seq, read_durable
from periplus.journal.storage.lineage_size import MISSING_FILE, encode_missing, read_missing
from periplus.journal.storage.settings import read_lineage

if TYPE_CHECKING:
    from periplus.journal.journal import Journal
    from periplus.journal.reader import JournalReader


class Missing(msgspec.Struct, frozen=True):
    """A range of missing records of ``lineage``: the file within the store, the position in it, and the reason.

    ``offset`` is in bytes. If the file is missing, ``path`` is the name it would have.
    """

    lineage: str
    first_seq: int
    last_seq: int
    path: str
    offset: int
    why: str

    def __str__(self) -> str:
        count = f"records {self.first_seq:,} to {self.last_seq:,}"
        return f"{count if self.first_seq < self.last_seq else f'record {self.first_seq:,}'} of {self.lineage}"


class Gaps:
    """Finds the records up to ``last`` that are missing from a lineage read with ``salvage``, chunk by chunk."""

    def __init__(self, layout: Layout, reader: LineageReader, last: int) -> None:
        self.found: list[Missing] = []
        self._root = layout.root
        self._reader = reader
        self._last = last
        self._next = 1
        self._damages: Sequence[Damage] = ()
        self._path = ""

    def take(self, chunk: Chunk) -> None:
        self._close(chunk.segment)
        self._damages, self._path = chunk.damages, chunk.path
        for entry in chunk.entries:
            self._close(entry.record.seq)
            self._next = max(self._next, entry.record.seq + 1)

    def end(self) -> list[Missing]:
        """Return the missing ranges in order, after the last chunk."""
        self._close(self._last + 1)
        return self.found

    @property
    def size(self) -> int:
        """The number of records that the lineage had."""
        return max(self._last, self._next - 1)

    def _close(self, before: int) -> None:
        if before <= self._next:
            return
        first = self._next
        path, offset, why = self._reader.path_of(first), 0, "the file is missing"
        if self._damages:
            near = [one for one in self._damages if one.first_seq <= first] or self._damages[:1]
            path, offset, why = self._path, near[-1].offset, near[-1].reason
        place = os.path.relpath(path, self._root).replace(os.sep, "/")
        self.found.append(Missing(self._reader.lineage, first, before - 1, place, offset, why))
        self._next = before


def known_last(layout: Layout, lineage: str, rows: IndexRows) -> int:
    """Return the last seq that the lineage had, according to everything except its records."""
    from periplus.journal.storage.lineage_size import seen_size

    mark = read_durable(layout.durable)
    marked = mark.seq if mark is not None and mark.lineage == lineage else 0
    return max(marked, seen_size(layout, lineage), rows.last(lineage), noted_size(layout, lineage))


def noted_size(layout: Layout, lineage: str) -> int:
    """Return the noted size of a lineage that was written here and left, if none of its records is here; else 0."""
    try:
        own = read_lineage(layout)
    except DamageError:
        return 0
    noted = own.left.get(lineage, 0) if own is not None else 0
    return left_behind_seq(layout.durable, LineageReader(layout.lineage_folder(lineage), (), lineage), noted)


def lost_lineages(journal: Journal) -> list[str]:
    """Return the lineages that the store mentions but has no folder for."""
    from periplus.journal.proofs.heads import awaited
    from periplus.journal.storage.truncation_check import left_lineages

    rows = IndexRows(journal.index_path)
    try:
        known = {
            *awaited(journal),
            *rows.lineages(),
            *([journal.lineage] if journal.lineage else []),
            *left_lineages(journal),
        }
        lost = sorted(known.difference(journal.lineages()))
        return [one for one in lost if known_last(journal.layout, one, rows)]
    finally:
        rows.close()


def write_missing(layout: Layout, files: Files, lineage: str, size: int, missing: Sequence[Missing]) -> None:
    """Record how many records the lineage had and which of them are missing."""
    folder = layout.lineage_folder(lineage)
    files.make_folder(folder)
    ranges = [(one.first_seq, one.last_seq) for one in missing]
    write_atomic(files, os.path.join(folder, MISSING_FILE), encode_missing(lineage, size, ranges))


def missing_ranges(journal: JournalReader, lineage: str) -> list[str]:
    """Return, as text for people, the ranges that ``missing.json`` names and that no segment has by now."""
    found = read_missing(journal.layout, lineage)
    if found is None:
        return ["what is missing cannot be read"]
    gaps = Gaps(journal.layout, journal.reader(lineage), found[0])
    for chunk in journal.reader(lineage).read_from(START, salvage=True):
        gaps.take(chunk)
    return [f"{one.first_seq:,} to {one.last_seq:,}" for one in gaps.end()]
