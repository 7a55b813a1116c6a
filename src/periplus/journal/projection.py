"""Projections: entity files for people and git, and the index, brought up to the durable end of the journal.

Whoever gets the projection lock without waiting does the work for all; who does not get it loses nothing, because
every reader replays what a projection lacks. Files come before the watermark, so that a watermark never speaks of a
file that is not there. A file that a person changed is not written over: it is left as it is and reported.
"""

from __future__ import annotations

__all__ = ["FILE_BYTES_MAX", "PROJECTION_VERSION", "Progress", "Projector", "has_file", "no_progress", "render_entity"]

import functools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from periplus.base.canonical import JSONValue
from periplus.base.digests import sha256
from periplus.base.errors import DamageError, EnvironmentFailure, LockTimeoutError
from periplus.base.files import read_plain, write_atomic
from periplus.base.ids import is_id
from periplus.base.locks import Lock
from periplus.journal.lineage import START, Position, read_durable
from periplus.journal.record import decode_line
from periplus.journal.segment import Entry
from periplus.journal.state import Change, Entity, EntityType, change_of, entity_of, head_of

if TYPE_CHECKING:
    from periplus.journal.journal import Journal

PROJECTION_VERSION: Final = 1
FILE_BYTES_MAX: Final = 1 << 26
Progress: TypeAlias = Callable[[int, int], None]
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


def has_file(types: Mapping[str, EntityType], item_type: str, item_id: str) -> bool:
    """Whether an entity has a file of its own: its type has, and its id is one, not a path that leads elsewhere."""
    return item_type in types and types[item_type].is_projected and is_id(item_id)


def no_progress(done: int, total: int) -> None:
    """For who does not want to know how far it is."""


def render_entity(entity: Entity) -> bytes:
    """The entity's file: pretty-printed, sorted keys, so that git shows a change as the lines that changed."""
    import orjson

    document: dict[str, JSONValue] = {
        "format": PROJECTION_VERSION,
        "id": entity.item_id,
        "type": entity.item_type,
        "version": entity.version,
        "parents": list(entity.parents),
        "heads": list(entity.heads),
        "entity": entity.value,
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


class Projector:
    """Writes the projections of one journal."""

    def __init__(self, journal: Journal, progress: Progress = no_progress) -> None:
        self._journal = journal
        self._progress = progress
        self._lock = Lock(journal.layout.projection_lock)
        self.edited: list[str] = []

    def close(self) -> None:
        self._lock.close()

    def run(self, patience_s: float = 0.0) -> bool:
        """Bring files and index up to date; False where another process still does after ``patience_s``.

        Also False where the folder cannot be written.
        """
        index = self._journal.index
        if index.is_memory:
            self._apply()
            return True
        if not index.is_writable:
            return False
        try:
            with self._lock.holding(patience_s):
                self._apply()
        except LockTimeoutError:
            return False  # our snapshot of the index stays as it is
        except (EnvironmentFailure, OSError):
            index.end()  # derived state stays behind, at a watermark that says so
            if not self._journal.index.is_memory:
                return False
            self._apply()  # the disk is full: the index went into memory
        return True

    def salvage(self) -> None:
        """Fill an index in memory with what is sound of a journal that is damaged."""
        assert self._journal.index.is_memory
        self._apply(salvage=True)

    def _apply(self, *, salvage: bool = False) -> None:
        import sqlite3

        journal, index = self._journal, self._journal.index
        mark = read_durable(journal.layout.durable)
        try:
            index.begin_write()
            watermarks = index.watermarks()
            touched: set[tuple[str, str]] = set()
            for lineage in journal.lineages():
                is_limited = (
                    mark is not None and mark.lineage == lineage and journal.settings.journal.sync == "mutation"
                )
                limit = mark.seq if mark is not None and is_limited else None
                touched |= self._index_lineage(lineage, watermarks.get(lineage, START), limit, salvage=salvage)
            index.finish(touched, self._progress)
            self._write_files(touched)
            index.commit()
        except sqlite3.Error as error:
            index.end()
            index.give_way(error)
            raise EnvironmentFailure(
                f"the index cannot be written: {error}", safe="The journal is untouched."
            ) from error
        except BaseException:  # no transaction may stay open, whatever ended it
            index.end()
            raise

    def _index_lineage(
        self, lineage: str, position: Position, limit: int | None, *, salvage: bool
    ) -> set[tuple[str, str]]:
        journal, index = self._journal, self._journal.index
        at = position
        touched: set[tuple[str, str]] = set()
        for chunk in journal.reader(lineage).read_from(at, salvage=salvage):
            entries = chunk.entries if limit is None else [e for e in chunk.entries if e.record.seq <= limit]
            items = ((entry, self._change(entry, lineage, chunk.segment, salvage=salvage)) for entry in entries)
            touched |= index.apply(items, lineage, chunk.segment)
            if len(entries) == len(chunk.entries):
                at = chunk.end
            elif entries:
                at = _after(entries[-1], chunk.segment)
            if entries or chunk.segment > position.segment:
                index.set_watermark(lineage, at)
            if len(entries) < len(chunk.entries):
                break
        return touched

    def _change(self, entry: Entry, lineage: str, segment: int, *, salvage: bool) -> Change | None:
        try:
            return change_of(entry, lineage, segment, self._journal.load_object)
        except DamageError:
            if not salvage:
                raise
            return None

    # -- entity files ------------------------------------------------------------------------------------------------

    def _write_files(self, touched: set[tuple[str, str]]) -> None:
        journal, index = self._journal, self._journal.index
        if index.is_memory or not journal.types:
            return
        wanted = {key for key in touched if has_file(journal.types, *key)}
        boot = _boot_id()
        if index.meta("files_boot") != boot:
            # Renamed files may be empty after a power cut: the ones of an earlier boot are checked once.
            wanted |= {
                (kind, item) for kind, item, digest in index.file_digests() if self._digest(kind, item) != digest
            }
            index.set_meta("files_boot", boot)
        for key in sorted(wanted):
            self._write_file(*key)

    def _write_file(self, item_type: str, item_id: str) -> None:
        journal, index = self._journal, self._journal.index
        entity = entity_of(index.heads(item_type, item_id))
        path = journal.layout.entity_file(item_type, item_id)
        found = self._digest(item_type, item_id)
        recorded = index.file_digest(item_type, item_id)
        wanted = render_entity(entity) if entity is not None and not entity.deleted else None
        ours = {recorded, None if wanted is None else sha256(wanted), sha256(b"")}
        if found is not None and found not in ours and not self._is_ours(path):
            self.edited.append(path)
            return
        if wanted is None:
            if found is not None:
                journal.files.unlink(path)  # a tombstone is the positive proof
            index.set_file(item_type, item_id, None)
            return
        if found != sha256(wanted):
            journal.files.make_folder(os.path.dirname(path))
            write_atomic(journal.files, path, wanted, durable=False)
        index.set_file(item_type, item_id, sha256(wanted))

    def _digest(self, item_type: str, item_id: str) -> bytes | None:
        try:
            return sha256(read_plain(self._journal.layout.entity_file(item_type, item_id), FILE_BYTES_MAX))
        except OSError:
            return None

    def _is_ours(self, path: str) -> bool:
        """Whether the file is, byte for byte, what we render for the version that it names: then it is only old."""
        import json

        try:
            data = read_plain(path, FILE_BYTES_MAX)
            document = json.loads(data)
            record = self._journal.index.records("version = ?", (document["version"],), 1)[0]
            line = self._journal.line_at(record)
        except (OSError, ValueError, LookupError, TypeError, DamageError):
            return False
        found, _ = decode_line(line)
        entry = Entry(found, record.offset, record.length, record.leaf)
        change = change_of(entry, record.lineage, record.segment, self._journal.load_object)
        if change is None or document.get("heads") != [change.version]:
            return False
        entity = entity_of([head_of(change, 0)])
        return entity is not None and render_entity(entity) == data


def _after(entry: Entry, segment: int) -> Position:
    return Position(segment, entry.offset + entry.length, entry.record.seq + 1, entry.leaf[:8].hex())


@functools.cache
def _boot_id() -> str:
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read(64).strip()
    except OSError:
        return "unknown"
