"""Records of long ago where not all of them are here any more: what is left of them, and what is not.

A store whose oldest segments are gone (its archive lies on another disk, say) is served from a checkpoint, and its index
holds the records behind that. Who asks for older ones gets those whose segments are here; the rest is a gap, not a refusal.
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
    """The journal's index with every record in it; where some cannot be read, one in memory with what is left.

    The caller closes what is not ``journal.index``.
    """
    try:
        journal.need_history()
    except DamageError:
        return _remaining(journal)
    return journal.index


def fill_history_if_present(journal: IndexedJournal) -> bool:
    """Have every record in the index; False where that cannot be, as where the oldest are elsewhere: nobody is refused then. So it is for
    who is hurried, as a hook: in a large store it takes many seconds, once.

    Where that can be seen by the names of the files it takes no try, which is dear in a large store.
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
    """Have the records of ``lineage`` from ``seq`` on in the index. What was begun behind the checkpoint that it was made from needs nothing of
    before, wherever that is. Raises DamageError.
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
    """Have no rev in ``found`` be counted from what is not here: those that ``index`` knows are its, others are not told (0)."""
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
            yield entry, None  # its object is gone: when it was, and who wrote it, is known all the same
