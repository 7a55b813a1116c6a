"""What versions beside each other are merged over lies elsewhere, where the archive does: such an entity is shown as if they had nothing in common.

Whoever looks at one is told, and nothing that follows from it is kept or written. Everything else is read and written as before: it is no damage of
what is here.
"""

from __future__ import annotations

__all__ = ["of_merge", "put_aside"]

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from periplus.journal.overlay import UnmergedError

if TYPE_CHECKING:
    from periplus.base.errors import DamageError
    from periplus.journal.index import IndexedRecord
    from periplus.journal.reader import JournalReader


def of_merge(journal: JournalReader, record: IndexedRecord, error: DamageError) -> DamageError:
    """``error``, met by a merge that wanted ``record``, as what it is."""
    if record.segment in journal.reader(record.lineage).segments():
        return error
    return UnmergedError(
        error.wrong, path=error.path, offset=error.offset, seq=error.seq, safe=error.safe, mend=error.mend
    )


@contextmanager
def put_aside(journal: JournalReader) -> Iterator[None]:
    """Do what has nothing to do with what could not be merged; it is told all the same, later."""
    told = _taken(journal)
    try:
        yield
    finally:
        journal.damage = journal.damage or told


def _taken(journal: JournalReader) -> DamageError | None:
    told, journal.damage = journal.damage, None
    return told
