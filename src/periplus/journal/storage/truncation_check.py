"""Detect that a lineage was truncated: records cut off its end leave no gap.

The expected size of a foreign lineage is in the signed head that came with it; of our own it is in the index, which only
holds durable records.
"""

from __future__ import annotations

__all__ = ["cut_short", "incomplete_lineages", "left_lineages", "sound_end", "stated_size"]

import os
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.errors import DamageError
from periplus.base.files import read_plain
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.lineage import START, LineageReader, Position

if TYPE_CHECKING:
    from periplus.journal.storage.stored_journal import StoredJournal

_HEAD_BYTES_MAX: Final = 65_536
_MISSING_FILE: Final = "missing.json"  # as in `lineage_size`, which is imported only if there is such a file


class _Size(msgspec.Struct):
    size: int


class _Stated(msgspec.Struct):
    head: _Size


def stated_size(layout: Layout, lineage: str) -> int:
    """Return how many records ``head.json`` or ``missing.json`` states; cheap, and not proved by a signature."""
    folder = layout.lineage_folder(lineage)
    size = 0
    if os.path.lexists(os.path.join(folder, _MISSING_FILE)):
        from periplus.journal.storage.lineage_size import missing_size

        size = missing_size(layout, lineage)
    try:
        data = read_plain(os.path.join(folder, "head.json"), _HEAD_BYTES_MAX)
        return max(size, msgspec.json.decode(data, type=_Stated).head.size)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return size


def incomplete_lineages(journal: StoredJournal) -> list[str]:
    """Return the lineages that had records missing when this store was made from an export; they may be missing still."""
    folder = journal.layout.lineage_folder
    return [one for one in journal.lineages() if os.path.lexists(os.path.join(folder(one), _MISSING_FILE))]


def cut_short(layout: Layout, reader: LineageReader, end: Position) -> DamageError | None:
    """Return the damage if the lineage ends at ``end`` with fewer records than a signed head covers, else None."""
    if end.next_seq > stated_size(layout, reader.lineage):
        return None
    from periplus.journal.storage.lineage_size import seen_size

    if end.next_seq > seen_size(layout, reader.lineage):
        return None
    return DamageError(
        "cut short: records that were taken in are missing", path=reader.path_of(max(end.segment, 1)), offset=end.offset,
        seq=end.next_seq, safe="Other records stay readable.", mend="Run `periplus doctor`.",
    )  # fmt: skip


def sound_end(layout: Layout, reader: LineageReader, durable_seq: int | None) -> Position | None:
    """Return where the lineage ends if it is valid from its beginning, else None; ``durable_seq`` is None for a foreign lineage."""
    end = START
    try:
        for chunk in reader.read_from(START, durable_seq or 0):
            end = chunk.end
    except DamageError:
        return None
    return end if durable_seq is not None or cut_short(layout, reader, end) is None else None


def left_lineages(journal: StoredJournal) -> list[str]:
    """Return the lineages written here before the store was copied, moved or restored. Nobody else need have their records."""
    own = journal.own
    if own is None:
        return []
    return [one for one in dict.fromkeys((*own.left, own.previous)) if one and one != own.lineage]
