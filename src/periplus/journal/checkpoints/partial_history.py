"""History of a store that no longer has all its records: what is left, and where the gaps are.

A store whose oldest segments are gone (its archive may be on another disk) is served from a checkpoint, and its index holds
the records after that. A question about older records gets those whose segments are here; the rest is reported as a gap.
"""

from __future__ import annotations

__all__ = ["fill_history_if_present", "index_with_history", "need_records"]

from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.base.errors import DamageError
from periplus.journal.index.tables import Index
from periplus.journal.records.segment import Entry
from periplus.journal.state.entity import Change, change_of
from periplus.journal.storage.lineage import START, Chunk

if TYPE_CHECKING:
    from periplus.journal.index.indexed_journal import IndexedJournal


def index_with_history(journal: IndexedJournal) -> Index:
    """Return the journal's index with every record; if some cannot be read, an index in memory with the others.

    The caller closes it if it is not ``journal.index``.
    """
    try:
        journal.need_history()
    except DamageError:
        return _remaining(journal)
    return journal.index


def fill_history_if_present(journal: IndexedJournal) -> bool:
    """Put every record into the index; return False if that is not possible, as when the oldest segments are elsewhere.

    Also False for a caller in haste, such as a hook: in a large store it takes many seconds, once. If the file names show that
    records are missing, it is not tried.
    """
    from periplus.journal.checkpoints.offline_archive import absent

    if not journal.index.has_floors:
        return True
    if journal.is_hurried or absent(journal):
        return False
    try:
        journal.need_history()
    except DamageError:
        return False
    return True


def need_records(journal: IndexedJournal, lineage: str, seq: int) -> None:
    """Put the records of ``lineage`` from ``seq`` on into the index. Raises DamageError.

    Records after the checkpoint of the index need nothing from before it.
    """
    if journal.index.floors().get(lineage, 1) > seq:
        journal.need_history()


def _remaining(journal: IndexedJournal) -> Index:
    found = Index.scratch(journal.store_id, journal.view)
    found.begin_write()
    for lineage in journal.lineages():
        for chunk in journal.reader(lineage).read_from(START, salvage=True):
            found.apply(_changes(journal, lineage, chunk), lineage, chunk.segment)
    _tell_revs(found, journal.index)
    found.commit()
    return found


def _tell_revs(found: Index, index: Index) -> None:
    """Set revs in ``found`` that would be counted from missing records to those that ``index`` knows, else to 0 (unknown)."""
    found.db.execute(
        "WITH RECURSIVE doubtful(version) AS (SELECT child FROM edges WHERE parent NOT IN (SELECT version FROM records)"
        " UNION SELECT child FROM edges JOIN doubtful ON parent = doubtful.version)"
        " UPDATE records SET rev = 0 WHERE version <> '' AND version IN doubtful"
    )
    rows = found.db.execute(
        "SELECT item_type, item_id, version FROM records WHERE rev = 0 AND version <> ''"
    ).fetchall()
    known = [(rev, *row) for row in rows if (rev := index.rev_of(*row))]
    found.db.executemany("UPDATE records SET rev = ? WHERE item_type = ? AND item_id = ? AND version = ?", known)


def _changes(journal: IndexedJournal, lineage: str, chunk: Chunk) -> Iterator[tuple[Entry, Change | None]]:
    for entry in chunk.entries:
        try:
            yield entry, change_of(entry, lineage, chunk.segment, journal.load_object)
        except DamageError:
            yield entry, None  # its object is gone, but time and writer are known
