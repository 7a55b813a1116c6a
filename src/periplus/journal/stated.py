"""Whether a lineage is as long here as something else says that it was: what is cut off its end leaves no gap.

Of a foreign one the head says so that was taken in with it; of ours the index, into which only durable records come.
"""

from __future__ import annotations

__all__ = ["cut_short", "incomplete_lineages", "left_lineages", "sound_end", "stated_size", "was_put_back"]

import os
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.errors import DamageError
from periplus.base.files import read_plain
from periplus.journal.connection import IndexDamageError
from periplus.journal.layout import Layout
from periplus.journal.lineage import START, LineageReader, Position

if TYPE_CHECKING:
    from periplus.journal.index import Index
    from periplus.journal.reader import JournalReader

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
        from periplus.journal.partial import missing_size

        size = missing_size(layout, lineage)
    try:
        data = read_plain(os.path.join(folder, "head.json"), _HEAD_BYTES_MAX)
        return max(size, msgspec.json.decode(data, type=_Stated).head.size)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return size


def incomplete_lineages(journal: JournalReader) -> list[str]:
    """The lineages that this store was made with though some of their records were missing: they may be still."""
    folder = journal.layout.lineage_folder
    return [one for one in journal.lineages() if os.path.lexists(os.path.join(folder(one), _MISSING_FILE))]


def cut_short(layout: Layout, reader: LineageReader, end: Position) -> DamageError | None:
    """What is wrong where the lineage ends at ``end``: fewer records than a head covers, whose signature is looked at then."""
    if end.next_seq > stated_size(layout, reader.lineage):
        return None
    from periplus.journal.plain import seen_size

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


def was_put_back(journal: JournalReader) -> DamageError | None:
    """What is wrong where our lineage, sound as it is, has fewer records than were in the index once, or one that we left has.

    A journal that was taken out of its store has no lineage of ours, and none of those that the index knows. A copy may
    be older than the index that was copied with it, and does not write the lineage that it was copied with.
    """
    if journal.copied_from or not journal.syncs:
        return None
    try:
        for lineage in [journal.lineage] if journal.lineage else journal.index.watermarks():
            end = sound_end(journal.layout, journal.reader(lineage), 0) or START
            gone = _put_back(journal.layout, lineage, end, journal.index)
            if gone is not None:
                return gone
        for lineage in left_lineages(journal):
            reader = journal.reader(lineage)
            end = sound_end(journal.layout, reader, 0) or START
            if _is_prefix(reader, end, journal.index):
                gone = _put_back(journal.layout, lineage, end, journal.index)
                if gone is not None:
                    return gone
    except IndexDamageError:
        pass  # what it says is not to be believed
    return None


def left_lineages(journal: JournalReader) -> list[str]:
    """The lineages that were written here before the store was copied, moved or put back: nobody else need have their records."""
    own = journal.own
    if own is None:
        return []
    return [one for one in dict.fromkeys((*own.left, own.previous)) if one and one != own.lineage]


def _is_prefix(reader: LineageReader, end: Position, index: Index) -> bool:
    """Whether the records up to ``end`` are those of the index: where a side of a fork gave way, others took their place."""
    last = end.next_seq - 1
    return not last or index.leaves(reader.lineage, last, last + 1) == [reader.leaf_at(end)]


def _put_back(layout: Layout, lineage: str, end: Position, index: Index) -> DamageError | None:
    """What is wrong where our own ``lineage`` ends at ``end``, before the end of what the index was made of.

    That is asked only where the index does not fit the records, and it is believed only where its rows agree with its
    watermark: else the index is what is wrong.
    """
    last = index.watermarks().get(lineage, START).next_seq - 1
    if last < end.next_seq or index.last_seq(lineage) != last:
        return None
    one = end.next_seq == last
    which = f"record {last} was" if one else f"records {end.next_seq} to {last} were"
    return DamageError(
        f"put back to an earlier state: {which} acknowledged and {'is' if one else 'are'} missing",
        path=layout.lineage_folder(lineage),
        offset=end.offset,
        seq=end.next_seq,
        safe="What is there stays readable; nothing is written, and the index is kept, which knows of the others.",
        mend="Bring the later state of the journal back"
        + (
            ", or let `periplus doctor --repair` restore what the index has, and with --from PATH what a copy has"
            if end.segment
            else ": the folder `journal` of a backup, or of what `periplus import` made of an exported file"
        )
        + f"; to go on without, remove {layout.index}.",
    )
