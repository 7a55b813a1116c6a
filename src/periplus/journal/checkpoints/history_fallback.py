"""Fallbacks for records before the checkpoint of the index, while the index cannot be filled with them.

The lock of the projections is held for long while a process rebuilds the index of a large store, and a full disk has no room
for more. Nothing is refused then: a process that needs the whole history reads it into an index of its own, in a nameless
temporary file, and returns to the store's index once that lock is free. Whether a key was used before needs less: if its
bytes are in none of those segments, it was not.
"""

from __future__ import annotations

__all__ = [
    "are_keys_known",
    "has_written_since",
    "is_new_key",
    "serve_from_checkpoint",
    "serve_full_history",
    "serve_rest",
    "serve_together",
]

from typing import TYPE_CHECKING

import msgspec

from periplus.base.clock import format_ms
from periplus.base.errors import DamageError, EnvironmentFailure, FormatError, LockTimeoutError
from periplus.base.files import read_plain
from periplus.journal.records.record import decode_line
from periplus.journal.records.segment import decode_header
from periplus.journal.storage.lineage import SEGMENT_READ_MAX
from periplus.journal.storage.progress import no_progress

if TYPE_CHECKING:
    from periplus.journal.index.indexed_journal import IndexedJournal


def are_keys_known(journal: IndexedJournal, made_ms: int | None) -> bool:
    """Return True if the index knows all keys used before its floors, or all since ``made_ms``, when the key at hand was made.

    A checkpoint keeps the keys used last; if it has fewer than it may keep, it left none out.
    """
    from periplus.journal.checkpoints.format import KEYS_MAX

    count, oldest = journal.index.kept_keys()
    return count < KEYS_MAX or (made_ms is not None and oldest < format_ms(made_ms))


def has_written_since(journal: IndexedJournal, lineage: str, ts: str) -> bool:
    """Return True if a record of ``lineage`` before the index's floors may be later than ``ts``, judging by the known keys.

    Each record has a key, and the keys that a checkpoint left out were used before the others.
    """
    from periplus.journal.checkpoints.format import KEYS_MAX

    count, oldest = journal.index.kept_keys()
    known = "SELECT 1 FROM kept_keys WHERE lineage = ? AND ts > ? LIMIT 1"
    return (count >= KEYS_MAX and oldest > ts) or journal.index.db.execute(known, (lineage, ts)).fetchone() is not None


def is_new_key(journal: IndexedJournal, key: str) -> bool:
    """Return True if no record before the index's floors has ``key``, by the bytes of their segments; False if unknown."""
    needle = b'"key":' + msgspec.json.encode(key)
    for lineage, floor in journal.index.floors().items():
        reader, next_seq = journal.reader(lineage), 1
        for first in reader.segments():
            if first >= floor:
                break
            try:
                data = read_plain(reader.path_of(first), SEGMENT_READ_MAX)
                if first > next_seq or needle in data:
                    return False
                next_seq = _next_seq(data, first)
            except (OSError, FormatError):
                return False
        if next_seq < floor:
            return False
    return True


def _next_seq(data: bytes, first: int) -> int:
    """Return the seq after the last line of a segment. Raises FormatError if that line is not a whole record."""
    start = decode_header(data)[1]
    if start >= len(data):
        return first
    lines = data.rstrip(b"\n")
    return decode_line(lines[lines.rfind(b"\n") + 1 :])[0].seq + 1


def serve_full_history(journal: IndexedJournal) -> None:
    """Go on with an index of this process alone that holds every record. Raises DamageError, EnvironmentFailure."""
    try:
        journal.serve_scratch(is_memory=False)
        try:
            journal.fill_whole()
        except EnvironmentFailure:  # no room for a temporary file either
            journal.serve_scratch(is_memory=True)
            journal.fill_whole()
    except BaseException:  # never go on with an index that lacks records
        journal.index.close()
        journal.serve_by(journal.index_path)
        raise


def serve_from_checkpoint(journal: IndexedJournal) -> bool:
    """Fill an empty index (another process may have discarded it) from a checkpoint if the first records are not here.

    No view can begin with those records. Return False if that is not needed or no checkpoint works.
    """
    from periplus.journal.checkpoints.checkpoint_files import checkpoint_lineages

    listed = [journal.reader(lineage).segments() for lineage in checkpoint_lineages(journal)]
    if not any(segments and segments[0] > 1 for segments in listed) or journal.index.watermarks():
        return False
    try:
        if journal.index.is_writable and not journal.index.is_memory:
            try:
                with journal.projecting_alone(0.0):
                    journal.index.close()
                    journal.serve_by(journal.index_path)
                    if not journal.index.watermarks():
                        journal.fill_index(is_beside=True)
            except (LockTimeoutError, EnvironmentFailure):
                pass  # another process may hold the lock for long
            else:
                return True
        journal.serve_scratch(is_memory=False)
        journal.fill_index(is_beside=True)
    except DamageError:
        return False
    return True


def serve_rest(journal: IndexedJournal) -> bool:
    """Serve a store whose only damage is missing old segments from a checkpoint and the records since.

    Return False if it is damaged otherwise. Versions beside each other whose ancestors are elsewhere are shown as if they had
    none in common. Nothing is written, because the store counts as damaged.
    """
    from periplus.journal.checkpoints.index_filling import load_journal
    from periplus.journal.checkpoints.offline_archive import absent

    gone = absent(journal) if not journal.index.watermarks() else []
    if not gone or not all(one.is_stood_for for one in gone):
        return False
    rest = journal.empty_index()
    rest.is_rest = True
    try:
        rest.begin_write()
        touched = load_journal(journal, rest, {}, is_for_heads=True)
        rest.finish(touched, no_progress)
        rest.commit()
    except (DamageError, EnvironmentFailure):
        rest.close()
        return False
    journal.index.close()
    journal.index = rest
    return True


def serve_together(journal: IndexedJournal) -> None:
    """Go back to the store's index if the lock of the projections is free."""
    try:
        with journal.projecting_alone(0.0):
            journal.index.close()
            journal.serve_by(journal.index_path)
    except LockTimeoutError:
        return
    journal.refresh()
