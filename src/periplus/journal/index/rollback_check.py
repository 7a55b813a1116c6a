"""Detect that a lineage of this clone was put back to an earlier state: the index knows more records than its segments have."""

from __future__ import annotations

__all__ = ["rollback_damage"]

from typing import TYPE_CHECKING

from periplus.base.errors import DamageError
from periplus.journal.index.connection import IndexDamageError
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.lineage import START, LineageReader, Position
from periplus.journal.storage.truncation_check import left_lineages, sound_end

if TYPE_CHECKING:
    from periplus.journal.index.indexed_journal import IndexedJournal
    from periplus.journal.index.tables import Index


def rollback_damage(journal: IndexedJournal) -> DamageError | None:
    """Return the damage if our sound lineage, or one that we left, has fewer records than the index once had; else None.

    A journal taken out of its store has no lineage of ours, and none that the index knows. A copy may be older than the index copied with
    it, and it does not write the lineage that it was copied with.
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
        pass  # a damaged index proves nothing
    return None


def _is_prefix(reader: LineageReader, end: Position, index: Index) -> bool:
    """Return True if the last record before ``end`` is the one in the index; in a fork that gave way, other records took their place."""
    last = end.next_seq - 1
    return not last or index.leaves(reader.lineage, last, last + 1) == [reader.leaf_at(end)]


def _put_back(layout: Layout, lineage: str, end: Position, index: Index) -> DamageError | None:
    """Return the damage if our own ``lineage`` ends at ``end``, before the end of the records that the index was made of.

    The caller checks this only if the index does not fit the records. The index counts only if its rows agree with its watermark; otherwise
    the index is wrong.
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
        safe="The records here stay readable; nothing is written, and the index, which knows the others, is kept.",
        mend="Bring the later state of the journal back"
        + (
            ", or let `periplus doctor --repair` restore what the index has, or with --from PATH what a copy has"
            if end.segment
            else ": the folder `journal` of a backup, or of what `periplus import` made of an exported file"
        )
        + f"; to go on without, remove {layout.index}.",
    )
