"""Own segments that are not here and need not be: a checkpoint replaces them, so their archive may be on another disk.

A repair leaves their places alone. If it gave them up, their content could not return when the archive is put back.
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
_END_BYTES: Final = 8192  # longer than most lines


class Absent(NamedTuple):
    """Records ``first_seq`` to ``last_seq`` of ``lineage``, whose segments are neither here nor in ``archive/``.

    ``is_stood_for`` if a checkpoint replaces them, so only the past is missing.
    """

    lineage: str
    first_seq: int
    last_seq: int
    is_stood_for: bool

    def __str__(self) -> str:
        return f"the segments of records {self.first_seq:,} to {self.last_seq:,} of {self.lineage} are neither here nor in archive/"


def absent(journal: IndexedJournal) -> list[Absent]:
    """Return the known records for which there is no segment, by file names and the index; no segment is read."""
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
                break  # an index made from a checkpoint does not know
            first = row[0].segment if row else 1
            seq = first - 1
        if first <= end:
            yield Absent(lineage, first, end, is_stood_for=end < before)


def begins_at(journal: IndexedJournal, lineage: str) -> int:
    """Return the first record of ``lineage`` that is here if earlier ones may be elsewhere; 0 if none or more are missing."""
    segments = journal.reader(lineage).segments()
    if not segments or segments[0] == 1 or segments[0] > _Checkpoints(journal).stand_for(lineage):
        return 0
    return segments[0]


def away_in(journal: IndexedJournal, damages: Iterable[Damage]) -> int:
    """Return the record behind the last gap among ``damages`` of our lineage that archived segments may fill; 0 if there is none."""
    before = last_checkpointed_segment(journal)
    return max((one.last_seq + 1 for one in damages if is_gap(one) and one.last_seq < before), default=0)


def is_gap(damage: Damage) -> bool:
    """Return True if records are missing and nothing is in their place, as when a whole segment is gone."""
    return not damage.length and 0 < damage.first_seq <= damage.last_seq


def check_all_here(layout: Layout, stores: Collection[str]) -> None:
    """Raise DamageError if a record of a lineage written here, now or before, is elsewhere or unreadable.

    Called before checkpoints are removed: without one, a store with records elsewhere can no longer be read.
    """
    own = read_lineage(layout)
    for lineage in dict.fromkeys((own.lineage, *own.left, own.previous)) if own is not None else ():
        folder = layout.lineage_folder(lineage)
        if lineage and os.path.isdir(folder) and not os.path.lexists(os.path.join(folder, MISSING_FILE)):
            for _ in LineageReader(folder, stores, lineage).read_from(START):
                pass


def missing_segments(layout: Layout, stores: Collection[str]) -> DamageError | None:
    """Return the error for the first missing segment of a lineage written in ``layout``, now or before; None if all are there.

    Only the names and the ends of the segments are looked at.
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
    """Return the seq of the last whole line in the segment; None if it cannot be read, which is reported elsewhere."""
    try:
        size = os.path.getsize(path)
        lines: list[bytes] = []
        for window in (_END_BYTES, 2 * LINE_BYTES_MAX):
            lines = read_plain(path, window, max(0, size - window)).split(b"\n")
            if len(lines) > 2 or window >= size:
                break
    except OSError:
        return None
    if len(lines) < 3:  # the text before the first newline is a header or cut, the text after the last is a torn write
        return first - 1 if size <= window else None
    try:
        return decode_line(lines[-2])[0].seq
    except FormatError:
        return None


def lacks_records(journal: IndexedJournal) -> bool:
    """Return True if records of a lineage that should be complete here are missing or unreadable."""
    for lineage in journal.lineages():
        if not os.path.lexists(os.path.join(journal.layout.lineage_folder(lineage), MISSING_FILE)):
            try:
                for _ in journal.reader(lineage).read_from(START):
                    pass
            except DamageError:
                return True
    return False


def twins(reader: LineageReader) -> list[str]:
    """Return the archived files of segments that are here, too, as after an archive is put back following a repair."""
    return [reader.archived_path(first) for first in reader.segments() if _is_twice(reader, first)]


def _is_twice(reader: LineageReader, first: int) -> bool:
    archived = reader.archived_path(first)
    return os.path.lexists(archived) and os.path.lexists(os.path.join(reader.folder, os.path.basename(archived)))


def last_checkpointed_segment(journal: IndexedJournal) -> int:
    """Return the segment in which the newest checkpoint of our lineage was made, which replaces those before; 0 if there is none.

    Its announcement is not looked for: it may be among the damaged records.
    """
    return _Checkpoints(journal).stand_for(journal.lineage)


class _Checkpoints:
    """The headers of the checkpoints that are valid here, newest first; each is read once, when it is needed."""

    def __init__(self, journal: IndexedJournal) -> None:
        self._journal = journal
        self._read: list[CheckpointHeader] = []
        self._rest = self._headers()

    def stand_for(self, lineage: str) -> int:
        """Return the segment of ``lineage`` before which a checkpoint replaces all records; 0 if there is none."""
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
