"""Temporary rebuild of the index for comparison: every record, entity and version that ``doctor`` has read.

Above a certain size it lies in an anonymous file rather than in memory, since it grows with the history. If the disk has no room for that,
it lies in memory after all.
"""

from __future__ import annotations

__all__ = ["Versions", "is_cramped", "rebuilding"]

import shutil
import sqlite3
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from periplus.journal.index.index_file import NullIndexer
from periplus.journal.index.record_lookup import bytes_of
from periplus.journal.index.tables import Index
from periplus.journal.journal import Journal

_IN_MEMORY_BYTES_MAX: Final = 1 << 24  # of journal
_ROOM_SHARE: Final = 4  # bytes of disk for each byte of journal
_CACHE_KIB: Final = 32_768


@contextmanager
def rebuilding(journal: Journal) -> Iterator[Index]:
    """Give an empty temporary index for the duration of the block."""
    size = bytes_of(journal)
    is_small = size <= _IN_MEMORY_BYTES_MAX or not _has_room(size * _ROOM_SHARE)
    found = Index(None, "", NullIndexer(), journal.view) if is_small else Index.scratch("", journal.view)
    try:
        if not is_small:
            found.db.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
            found.db.execute("PRAGMA journal_mode=OFF")  # there are no rollbacks
            found.db.execute("PRAGMA synchronous=OFF")
        yield found
    finally:
        found.db.close()


def is_cramped(rebuilt: Index, error: sqlite3.Error) -> bool:
    """Return True if ``error`` came from lack of disk space for the ``rebuilt`` index, and so does not concern the store."""
    return rebuilt.is_scratch and (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF in (
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
    )


def _has_room(size_bytes: int) -> bool:
    try:
        return shutil.disk_usage(tempfile.gettempdir()).free > size_bytes
    except OSError:
        return False


class Versions(Collection[str]):
    """The versions in the records of the rebuilt index; those of the current chunk are added before the index has them."""

    def __init__(self, rebuilt: Index) -> None:
        self._rebuilt = rebuilt
        self._added: set[str] = set()

    def add(self, version: str) -> None:
        self._added.add(version)

    def applied(self) -> None:
        """Note that the index has the versions added."""
        self._added.clear()

    def also(self, index: Index) -> None:
        """Add the versions with which ``index`` shows its entities."""
        self._added.update(entity.version for entity in index.entities())

    def __contains__(self, version: object) -> bool:
        if version in self._added:
            return True
        return self._rebuilt.db.has_row("SELECT 1 FROM records WHERE version = ? AND version <> '' LIMIT 1", (version,))

    def __iter__(self) -> Iterator[str]:
        rows = self._rebuilt.db.execute("SELECT DISTINCT version FROM records WHERE version <> '' ORDER BY version")
        yield from (str(row[0]) for row in rows if row[0] not in self._added)
        yield from self._added

    def __len__(self) -> int:
        return sum(1 for _ in self)
