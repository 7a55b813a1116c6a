"""Reading beside the view: how much there is behind it, a single record or object, an entity by the beginning of its id."""

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

REPLAY_BYTES_PER_S: Final = (
    16 << 20
)  # records are taken in at about twice that; a slow machine is meant to keep its word


@contextmanager
def one_question(journal: IndexedJournal) -> Iterator[None]:
    """For what asks many times for one answer: the lineages of others, of which there may be hundreds, are looked at once, when it begins;
    our own, into which everybody here writes, as ever.
    """
    journal.refresh()
    was, journal.is_one_question = journal.is_one_question, True
    try:
        yield
    finally:
        journal.is_one_question = was


def place_here(path: str) -> tuple[int, ...]:
    """Which file stands at ``path``, or in the archive beside it, where segments that come back lie; empty where there is none."""
    folder, name = os.path.split(path)
    return place_of(path) or place_of(os.path.join(folder, ARCHIVE_FOLDER, name))


def bytes_behind(journal: IndexedJournal) -> int:
    """How much there is to read behind what was read, of all lineages; a few system calls, and nothing is read."""
    found = 0
    for lineage in journal.lineages():
        end, reader = journal.end(lineage), journal.reader(lineage)
        for first in reader.segments():
            if first >= end.segment:
                try:
                    found += os.path.getsize(reader.path_of(first))
                except OSError:
                    continue  # it moved since it was listed: what is read does not depend on it
        found -= end.offset
    return found


def bytes_of(journal: IndexedJournal) -> int:
    """How much all segments are that are here; nothing is read."""
    return sum(
        os.path.getsize(path)
        for lineage in journal.lineages()
        for first in journal.reader(lineage).segments()
        if os.path.exists(path := journal.reader(lineage).path_of(first))
    )


def find_entity(journal: IndexedJournal, prefix: str) -> Entity:
    """See ``Journal.find``."""
    typed, prefix = prefix, typed_id(prefix)
    keys = journal.ids_with_prefix(prefix)
    if not keys and prefix.strip():
        keys = ids_named(journal, prefix)
    live = [entity for key in keys if (entity := journal.get(*key)) is not None]
    exact = [entity for entity in live if entity.item_id == prefix]
    if exact:
        prefix_of = prefix.rpartition("_")[0]  # another clone may have given its id to something of another type
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
    """Type and id of the live entities that have ``name``, in lower case, beside their id: so they were called where they came from."""
    keys = {*journal.unindexed(), *journal.index.ids_named(name)}
    return sorted(key for key in keys if (one := journal.get(*key)) is not None and name in journal.index.names_of(one))


def sound_line(reader: LineageReader, record: IndexedRecord) -> bytes:
    """See ``Journal.line_at``."""
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
    """The record's line where it lies now, without its newline; None where its segment has it no more.

    A segment out of which content was taken is written anew, and an index made before it says where its lines were.
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
    """See ``Journal.load_object``."""
    if not is_digest_text(sha256):
        raise DamageError(f"{sha256[:80]!r} is no name of an object", safe="Other records stay readable.")
    try:
        return objects.get(bytes.fromhex(sha256))
    except NotFoundError as error:
        raise DamageError(error.wrong, safe="Other records stay readable.", mend=error.mend) from error
