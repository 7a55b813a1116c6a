"""Merge bases that are elsewhere: the common ancestors of several heads are in segments that are not here.

What a checkpoint keeps of them is used. If none keeps them the entity is shown as if its heads had no ancestor in common.
Whoever looks at such an entity gets an error, and nothing that follows from it is kept or written. Everything else is read
and written as usual, because nothing here is damaged.
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
    """Return the journal's damage from now on, and the payload to use for ``record``, whose read failed with ``error`` in a merge."""
    if record.segment in journal.reader(record.lineage).segments():
        return journal.damage or error, b""
    said = _kept(journal, record.version)
    if said:
        return journal.damage, said
    return journal.damage or UnmergedError(
        error.wrong, path=error.path, offset=error.offset, seq=error.seq, safe=error.safe, mend=error.mend
    ), b""


def _kept(journal: IndexedJournal, version: str) -> bytes:
    """Return the payload that a checkpoint here keeps of a version, or empty. Cached, because all checkpoints have to be read."""
    from periplus.journal.checkpoints.contents import payloads_in_checkpoints

    if version not in journal.kept_payloads:
        journal.kept_payloads[version] = payloads_in_checkpoints(journal, {version}).get(version, b"")
    return journal.kept_payloads[version]


@contextmanager
def put_aside(journal: IndexedJournal) -> Iterator[None]:
    """Run the block as if merge bases were not missing; afterwards report it again."""
    told = _taken(journal)
    try:
        yield
    finally:
        journal.damage = journal.damage or told


def _taken(journal: IndexedJournal) -> DamageError | None:
    told, journal.damage = journal.damage, None
    return told
