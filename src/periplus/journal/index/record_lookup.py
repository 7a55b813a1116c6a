"""Lookups outside the view: bytes not yet read, a single record or object, an entity by the beginning of its id."""

from __future__ import annotations

__all__ = [
    "REPLAY_BYTES_PER_S",
    "bytes_behind",
    "bytes_of",
    "find_entity",
    "moved_line",
    "one_question",
    "place_here",
    "sound_line",
    "sound_object",
]

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import DamageError, EnvironmentFailure, NotFoundError, PeriplusError, UsageError
from periplus.base.ids import typed_id
from periplus.journal.records.record import decode_line
from periplus.journal.records.segment import decode_header, scan
from periplus.journal.state.entity import Entity
from periplus.journal.state.index_values import IndexedRecord
from periplus.journal.storage.lineage import ARCHIVE_FOLDER, SEGMENT_READ_MAX, LineageReader
from periplus.journal.storage.store_identity import place_of
from periplus.objects.store import ObjectStore

if TYPE_CHECKING:
    from periplus.journal.index.indexed_journal import IndexedJournal

REPLAY_BYTES_PER_S: Final = 16 << 20  # half of the usual rate, so that slow machines keep the time


@contextmanager
def one_question(journal: IndexedJournal) -> Iterator[None]:
    """Look at the lineages of other clones, of which there may be hundreds, only once for a series of calls; our own lineage is looked at
    as usual.
    """
    journal.refresh()
    was, journal.is_one_question = journal.is_one_question, True
    try:
        yield
    finally:
        journal.is_one_question = was


def place_here(path: str) -> tuple[int, ...]:
    """Return the identity of the file at ``path``, or of that name in the archive beside it; empty if there is none."""
    folder, name = os.path.split(path)
    return place_of(path) or place_of(os.path.join(folder, ARCHIVE_FOLDER, name))


def bytes_behind(journal: IndexedJournal) -> int:
    """Return the number of unread bytes in all lineages, from a few system calls."""
    found = 0
    for lineage in journal.lineages():
        end, reader = journal.end(lineage), journal.reader(lineage)
        for first in reader.segments():
            if first >= end.segment:
                try:
                    found += os.path.getsize(reader.path_of(first))
                except OSError:
                    continue  # it was moved since it was listed; the sum is only an estimate
        found -= end.offset
    return found


def bytes_of(journal: IndexedJournal) -> int:
    """Return the total size of all segments that are here."""
    return sum(
        os.path.getsize(path)
        for lineage in journal.lineages()
        for first in journal.reader(lineage).segments()
        if os.path.exists(path := journal.reader(lineage).path_of(first))
    )


def find_entity(journal: IndexedJournal, prefix: str) -> Entity:
    """Implement ``Journal.find``."""
    typed, prefix = prefix, typed_id(prefix)
    keys = journal.ids_with_prefix(prefix)
    if not keys and prefix.strip():
        keys = ids_named(journal, prefix)
    live = [entity for key in keys if (entity := journal.get(*key)) is not None]
    exact = [entity for entity in live if entity.item_id == prefix]
    if exact:
        prefix_of = prefix.rpartition("_")[0]  # another clone may have used the id for another type
        types = journal.types
        return next(
            (one for one in exact if (row := types.get(one.item_type)) is not None and row.prefix == prefix_of),
            exact[0],
        )
    if not live and len(keys) == 1:
        raise NotFoundError(f"{keys[0][1]} was deleted", safe="Its history is kept.",
                            mend=f"See `periplus log --id {keys[0][1]}`, and `periplus show {keys[0][1]} --at SEQ` for what it was.")  # fmt: skip
    if not live:
        raise NotFoundError(f"nothing has an id that begins with {typed!r}", mend="Look with `periplus log`.")
    if len(live) > 1:
        names = ", ".join(entity.item_id for entity in live[:5])
        raise UsageError(f"{prefix!r} is the beginning of several ids: {names}", mend="Type more of the id.")
    return live[0]


def ids_named(journal: IndexedJournal, name: str) -> list[tuple[str, str]]:
    """Return type and id of the live entities with the alternative name ``name`` (lower case), such as an id in an imported system."""
    keys = {*journal.unindexed(), *journal.index.ids_named(name)}
    return sorted(key for key in keys if (one := journal.get(*key)) is not None and name in journal.index.names_of(one))


def sound_line(reader: LineageReader, record: IndexedRecord) -> bytes:
    """Implement ``Journal.line_at``."""
    try:
        line = reader.read_at(record.segment, record.offset, record.length)
        found, leaf = decode_line(line[:-1])
        is_sound = leaf == record.leaf and found.seq == record.seq
    except (EnvironmentFailure, UsageError):
        is_sound = False
        line = b""
    if not is_sound:
        raise reader.absence_of(record.seq, record.segment) or DamageError(
            "the record is not what was written",
            path=reader.path_of(record.segment),
            offset=record.offset,
            seq=record.seq,
            safe="Other records stay readable.",
            mend="Run `periplus doctor`.",
        )
    return line[:-1]


def moved_line(reader: LineageReader, record: IndexedRecord) -> bytes | None:
    """Return the record's line at its current position, without its newline; None if its segment no longer has it.

    A redaction rewrites a segment, after which an older index states outdated positions.
    """
    try:
        data = reader.read_at(record.segment, 0, SEGMENT_READ_MAX + 1)
        header, start = decode_header(data)
        found = scan(data[start:], base=start, next_seq=header.first_seq, salvage=True)
    except PeriplusError:
        return None
    for entry in found.entries:
        if entry.record.seq == record.seq and entry.leaf == record.leaf:
            return data[entry.offset : entry.offset + entry.length - 1]
    return None


def sound_object(objects: ObjectStore, sha256: str) -> bytes:
    """Implement ``Journal.load_object``."""
    if not is_digest_text(sha256):
        raise DamageError(f"{sha256[:80]!r} is not an object digest", safe="Other records stay readable.")
    try:
        return objects.get(bytes.fromhex(sha256))
    except NotFoundError as error:
        raise DamageError(error.wrong, safe="Other records stay readable.", mend=error.mend) from error
