"""What versions beside each other are merged over lies elsewhere, where the archive does: what a checkpoint keeps of it is merged over. Where none
does such an entity is shown as if they had nothing in common.

Whoever looks at one is told, and nothing that follows from it is kept or written. Everything else is read and written as before: it is no damage of
what is here.
"""

from __future__ import annotations

__all__ = ["of_merge", "put_aside"]

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from periplus.journal.index.overlay import UnmergedError

if TYPE_CHECKING:
    from periplus.base.errors import DamageError
    from periplus.journal.index.indexed_journal import IndexedJournal
    from periplus.journal.state.index_values import IndexedRecord


def of_merge(journal: IndexedJournal, record: IndexedRecord, error: DamageError) -> tuple[DamageError | None, bytes]:
    """The damage of ``journal`` from now on, and what is to count as said by ``record``, which a merge wanted and met ``error``."""
    if record.segment in journal.reader(record.lineage).segments():
        return journal.damage or error, b""
    said = _kept(journal, record.version)
    if said:
        return journal.damage, said
    return journal.damage or UnmergedError(
        error.wrong, path=error.path, offset=error.offset, seq=error.seq, safe=error.safe, mend=error.mend
    ), b""


def _kept(journal: IndexedJournal, version: str) -> bytes:
    """What a checkpoint that is here says of a version; empty where none does. Looked up once: it takes as long as reading them all."""
    from periplus.journal.checkpoints.contents import payloads_in_checkpoints

    if version not in journal.kept_payloads:
        journal.kept_payloads[version] = payloads_in_checkpoints(journal, {version}).get(version, b"")
    return journal.kept_payloads[version]


@contextmanager
def put_aside(journal: IndexedJournal) -> Iterator[None]:
    """Do what has nothing to do with what could not be merged; it is told all the same, later."""
    told = _taken(journal)
    try:
        yield
    finally:
        journal.damage = journal.damage or told


def _taken(journal: IndexedJournal) -> DamageError | None:
    told, journal.damage = journal.damage, None
    return told
