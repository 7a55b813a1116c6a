"""Segments of our own that are not here and need not be: a checkpoint stands for them, so their archive may lie on another disk.

Whoever mends a store leaves their places alone. Were they given up, nothing would bring back what they say once the archive is put back.
"""

from __future__ import annotations

__all__ = [
    "Absent",
    "absent",
    "away_in",
    "begins_at",
    "check_all_here",
    "is_gap",
    "lacks_records",
    "last_checkpointed_segment",
    "missing_segments",
    "twins",
]

import os
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from periplus.base.errors import DamageError, FormatError, PeriplusError
from periplus.base.files import read_plain
from periplus.base.named_tuple import NamedTuple
from periplus.journal.checkpoints.checkpoint_files import checkpoint_files, checkpoint_lineages
from periplus.journal.checkpoints.format import decode_header_line
from periplus.journal.records.record import LINE_BYTES_MAX, decode_line
from periplus.journal.records.segment import Damage
from periplus.journal.storage.lineage import START, LineageReader
from periplus.journal.storage.lineage_size import MISSING_FILE
from periplus.journal.storage.settings import read_lineage

if TYPE_CHECKING:
    from periplus.journal.checkpoints.format import CheckpointHeader
    from periplus.journal.index.indexed_journal import IndexedJournal
    from periplus.journal.storage.layout import Layout


_HEADER_BYTES_MAX: Final = 1 << 20
_END_BYTES: Final = 8192  # most lines are shorter


class Absent(NamedTuple):
    """Records ``first_seq`` to ``last_seq`` of ``lineage``, whose segments are neither here nor in ``archive/``; ``is_stood_for`` where a checkpoint is
    there instead, so that nothing but the past is missing.
    """

    lineage: str
    first_seq: int
    last_seq: int
    is_stood_for: bool

    def __str__(self) -> str:
        return f"the segments of records {self.first_seq:,} to {self.last_seq:,} of {self.lineage} are neither here nor in archive/"


def absent(journal: IndexedJournal) -> list[Absent]:
    """What of the records that are known to have been here no segment is there for, by the names of files and the index: nothing is read."""
    checkpoints = _Checkpoints(journal)
    return [one for lineage in journal.lineages() for one in _absent(journal, lineage, checkpoints)]


def _absent(journal: IndexedJournal, lineage: str, checkpoints: _Checkpoints) -> Iterable[Absent]:
    held = journal.reader(lineage).segments()
    before = checkpoints.stand_for(lineage)
    last = journal.index.records("lineage = ? ORDER BY seq DESC", (lineage,), 1)
    ends = [*(first - 1 for first in held if first > 1), *([last[0].seq] if last else [])]
    for end in sorted(set(ends)):
        first, seq = end + 1, end
        while seq > 0:
            row = journal.index.records("lineage = ? AND seq = ?", (lineage, seq), 1)
            if row and row[0].segment in held:
                break
            if not row and held and held[0] <= seq:
                break  # an index that was made from a checkpoint does not know
            first = row[0].segment if row else 1
            seq = first - 1
        if first <= end:
            yield Absent(lineage, first, end, is_stood_for=end < before)


def begins_at(journal: IndexedJournal, lineage: str) -> int:
    """The first record of ``lineage`` that is here, where those before it may lie elsewhere; 0 where none is missing, or more than those."""
    segments = journal.reader(lineage).segments()
    if not segments or segments[0] == 1 or segments[0] > _Checkpoints(journal).stand_for(lineage):
        return 0
    return segments[0]


def away_in(journal: IndexedJournal, damages: Iterable[Damage]) -> int:
    """The record behind the last gap among ``damages`` of our own lineage that segments elsewhere may fill; 0 where there is none."""
    before = last_checkpointed_segment(journal)
    return max((one.last_seq + 1 for one in damages if is_gap(one) and one.last_seq < before), default=0)


def is_gap(damage: Damage) -> bool:
    """Whether records are not here and nothing stands in their place, as where a whole segment is missing."""
    return not damage.length and 0 < damage.first_seq <= damage.last_seq


def check_all_here(layout: Layout, stores: Collection[str]) -> None:
    """Raises DamageError where a record of a lineage that is, or was, written here lies elsewhere, or cannot be read.

    For whoever is about to remove checkpoints: without one, a store of which something is elsewhere cannot be read any more.
    """
    own = read_lineage(layout)
    for lineage in dict.fromkeys((own.lineage, *own.left, own.previous)) if own is not None else ():
        folder = layout.lineage_folder(lineage)
        if lineage and os.path.isdir(folder) and not os.path.lexists(os.path.join(folder, MISSING_FILE)):
            for _ in LineageReader(folder, stores, lineage).read_from(START):
                pass


def missing_segments(layout: Layout, stores: Collection[str]) -> DamageError | None:
    """What to say of the first records of a lineage that is, or was, written in ``layout`` of which no segment is there; None where there is none.

    The names of the segments and their ends are looked at, and no more.
    """
    own = read_lineage(layout)
    for lineage in dict.fromkeys((own.lineage, *own.left, own.previous)) if own is not None else ():
        folder = layout.lineage_folder(lineage)
        if not lineage or not os.path.isdir(folder) or os.path.lexists(os.path.join(folder, MISSING_FILE)):
            continue
        reader = LineageReader(folder, stores, lineage)
        reached: int | None = 0
        for first in reader.segments():
            if reached is not None and first > reached + 1:
                return reader.gap_before(first, reached + 1)
            reached = _last_seq(reader.path_of(first), first)
    return None


def _last_seq(path: str, first: int) -> int | None:
    """The seq of the last whole line in the segment; None where that cannot be read, which others tell."""
    try:
        size = os.path.getsize(path)
        lines: list[bytes] = []
        for window in (_END_BYTES, 2 * LINE_BYTES_MAX):
            lines = read_plain(path, window, max(0, size - window)).split(b"\n")
            if len(lines) > 2 or window >= size:
                break
    except OSError:
        return None
    if (
        len(lines) < 3
    ):  # what stands before the first newline is a header or cut, and behind the last one is a torn write
        return first - 1 if size <= window else None
    try:
        return decode_line(lines[-2])[0].seq
    except FormatError:
        return None


def lacks_records(journal: IndexedJournal) -> bool:
    """Whether records of a lineage that should be here whole are missing, or cannot be read."""
    for lineage in journal.lineages():
        if not os.path.lexists(os.path.join(journal.layout.lineage_folder(lineage), MISSING_FILE)):
            try:
                for _ in journal.reader(lineage).read_from(START):
                    pass
            except DamageError:
                return True
    return False


def twins(reader: LineageReader) -> list[str]:
    """The archived files of segments that are here, too, as where an archive is put back after what lay in it was given up."""
    return [reader.archived_path(first) for first in reader.segments() if _is_twice(reader, first)]


def _is_twice(reader: LineageReader, first: int) -> bool:
    archived = reader.archived_path(first)
    return os.path.lexists(archived) and os.path.lexists(os.path.join(reader.folder, os.path.basename(archived)))


def last_checkpointed_segment(journal: IndexedJournal) -> int:
    """The segment in which the newest checkpoint of our own lineage was made, which stands for those before it; 0 where there is none.

    Its announcement is not looked for: it may be among what is damaged.
    """
    return _Checkpoints(journal).stand_for(journal.lineage)


class _Checkpoints:
    """The headers of the checkpoints that count here, the newest first: each is read once, and no more of them than somebody asks for."""

    def __init__(self, journal: IndexedJournal) -> None:
        self._journal = journal
        self._read: list[CheckpointHeader] = []
        self._rest = self._headers()

    def stand_for(self, lineage: str) -> int:
        """Up to which segment of ``lineage`` the newest of them stands for its records; 0 where there is none."""
        for header in self._read:
            if lineage in header.positions:
                return header.positions[lineage][0]
        for header in self._rest:
            self._read.append(header)
            if lineage in header.positions:
                return header.positions[lineage][0]
        return 0

    def _headers(self) -> Iterator[CheckpointHeader]:
        lineages = checkpoint_lineages(self._journal)
        for seq, path in checkpoint_files(self._journal):
            try:
                header = decode_header_line(read_plain(path, _HEADER_BYTES_MAX).partition(b"\n")[0])
            except (OSError, PeriplusError):
                continue
            if header.seq == seq and header.lineage in lineages and header.store in self._journal.stores:
                yield header
