"""Whether a lineage is as long here as something else says that it was: what is cut off its end leaves no gap.

Of a foreign one the head says so that was taken in with it; of ours the index, into which only durable records come.
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
_MISSING_FILE: Final = "missing.json"  # of `partial`, loaded where there is one


class _Size(msgspec.Struct):
    size: int


class _Stated(msgspec.Struct):
    head: _Size


def stated_size(layout: Layout, lineage: str) -> int:
    """How many records ``head.json`` says there are, or what a store was made with; cheaply had and proved by nothing."""
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
    """The lineages that this store was made with though some of their records were missing: they may be still."""
    folder = journal.layout.lineage_folder
    return [one for one in journal.lineages() if os.path.lexists(os.path.join(folder(one), _MISSING_FILE))]


def cut_short(layout: Layout, reader: LineageReader, end: Position) -> DamageError | None:
    """What is wrong where the lineage ends at ``end``: fewer records than a head covers, whose signature is looked at then."""
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
    """Where the lineage ends, if it is sound from its beginning, else None; ``durable_seq`` is None for a foreign one."""
    end = START
    try:
        for chunk in reader.read_from(START, durable_seq or 0):
            end = chunk.end
    except DamageError:
        return None
    return end if durable_seq is not None or cut_short(layout, reader, end) is None else None


def left_lineages(journal: StoredJournal) -> list[str]:
    """The lineages that were written here before the store was copied, moved or put back: nobody else need have their records."""
    own = journal.own
    if own is None:
        return []
    return [one for one in dict.fromkeys((*own.left, own.previous)) if one and one != own.lineage]
