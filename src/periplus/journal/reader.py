"""Reader of a journal: a view of whole batches, and what is derived from them.

Theory of operation
-------------------
An open journal knows a position in each lineage up to which it has read, the *view*: the index holds the records up to its
watermark, an overlay in memory those after it. ``refresh`` reads on from there, at the cost of what came since. Reading writes
nothing to the journal and never waits: damage is kept in ``damage`` and the undamaged records are served. Index, entity files
and tiles are derived; the process that gets their lock without waiting updates them.
"""

from __future__ import annotations

__all__ = ["JournalReader"]

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self

from periplus.base.clock import Clock, SystemClock
from periplus.base.errors import DamageError, EnvironmentFailure, NewerFormatError, environment_failure
from periplus.base.files import Files, FolderWatch
from periplus.base.ids import is_id
from periplus.base.process.locks import LOCK_PATIENCE_S, Lock
from periplus.journal.checkpoints.history_fallback import (
    serve_from_checkpoint,
    serve_full_history,
    serve_rest,
    serve_together,
)
from periplus.journal.index.connection import Owner
from periplus.journal.index.index_file import Indexer, NullIndexer, discard_index
from periplus.journal.index.index_holder import IndexHolder
from periplus.journal.index.overlay import Added, Overlay, UnmergedError, may_say
from periplus.journal.index.record_lookup import (
    REPLAY_BYTES_PER_S,
    bytes_behind,
    find_entity,
    moved_line,
    place_here,
    sound_line,
    sound_object,
)
from periplus.journal.index.tables import Index, IndexDamageError, payload_in
from periplus.journal.records.segment import Entry, Tail, read_block
from periplus.journal.state.entity import Entity, EntityType, Head, packing_of
from periplus.journal.state.index_values import HistoryNeededError, IndexedRecord, View
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.lineage import (
    START,
    Chunk,
    LineageReader,
    Position,
    damage_of,
    left_behind_seq,
    read_durable,
)
from periplus.journal.storage.own_lineage import OwnLineage
from periplus.journal.storage.progress import Progress, no_progress
from periplus.journal.storage.settings import Settings, StoreIds, read_settings
from periplus.journal.storage.store_identity import Standing, place_of
from periplus.objects.store import ObjectStore

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from periplus.journal.projections.projector import Projector
    from periplus.journal.state.index_values import Looked
    from periplus.journal.state.transaction import Said, Writer
    from periplus.journal.storage.segment_writer import SegmentWriter

_HELD_BYTES_MAX: Final = 16 << 20  # of segments, whose records take seven times as much in memory
_FILLED_BYTES_PER_S: Final = 1 << 20  # a fifth of the usual rate of filling an index, with entity files


class JournalReader(OwnLineage, IndexHolder):
    """The reading part of ``Journal``: opens a store, answers questions, and updates what is derived."""

    def __init__(
        self,
        root: str,
        types: Mapping[str, EntityType],
        *,
        indexer: Indexer | None = None,
        files: Files | None = None,
        clock: Clock | None = None,
        random: Callable[[int], bytes] = os.urandom,
        progress: Progress = no_progress,
        within_s: float | None = None,
    ) -> None:
        self._owner = Owner()
        self.layout = Layout(root)
        self.layout.refuse_links()
        self.types = types
        self.files = files or Files()
        self.clock = clock or SystemClock()
        self.random = random
        self.settings: Settings = read_settings(self.layout)
        self.stores = StoreIds(self.layout, self.settings.store)
        self.objects = ObjectStore(self.layout.objects, self.files, packing=packing_of(types))
        self.damage: DamageError | None = None
        self._damaged: tuple[DamageError | None, tuple[int, ...]] = (
            None,
            (),
        )  # the damage, and the state of its file then
        self.check_said: Callable[[Said], None] | None = None  # raises to refuse a text before it is written
        self._checked_writer: Writer | None = None
        self.is_hurried = False  # if True, a missing history is not loaded: see ``fill_history_if_present``
        self.is_one_question = False  # if True, foreign lineages are looked at once only: see ``one_question``
        self.waited_s = float("-inf")  # monotonic time of the last vain wait for the index
        self.after_mutation: Callable[[], None] | None = None  # called after each mutation; must not raise
        self._indexer = indexer or NullIndexer()
        self._progress = progress
        self.copied_from = ""  # in a copy of a store: the lineage of its original, which is not written here
        self._standing = Standing(self.layout)
        self._own = self._find_own()
        self._own_place = place_of(self.layout.lineage)
        self._own_names: list[str] | None = None
        self._checked_names: list[str] | None = None  # the names with which the store's identity was checked
        self.durable_seq = 0  # of our own lineage, known to be on disk
        self._is_mutating = False  # within ``mutate``, until the records are durable
        self._writer: SegmentWriter | None = None
        self._watches: dict[str, FolderWatch] = {}
        self._readers: dict[str, LineageReader] = {}
        self.kept_payloads: dict[str, bytes] = {}  # of versions whose records are elsewhere
        self._folder = FolderWatch(self.layout.journal)
        self._listed: tuple[list[str], str, list[str]] = ([], "", [])
        self._is_salvaged = False
        self._is_index_old = False  # it is older than a rewritten segment
        self._is_renewing = False
        self._read_through_types = frozenset(name for name, kind in types.items() if kind.reads_through)
        self.is_stale = False  # existing records are not served
        self.view = View({name: kind.rules for name, kind in types.items()}, self._payload_at)
        self.index = self._open_index()
        try:
            self._begin(within_s)
        except IndexDamageError:  # while the first view was made
            self._heal_index()

    def _begin(self, within_s: float | None) -> None:
        """Make the first view."""
        self._forget()
        try:
            if not self._seen and self.lineages():
                # No index: filling it from the files is cheaper than a view of everything. Where another process is filling it, a
                # large journal would take gigabytes of memory, which is worse than to wait for that process.
                self.project(bytes_behind(self) / _FILLED_BYTES_PER_S if self._is_large(within_s) else 0.0)
            self.refresh(within_s)
        except EnvironmentFailure as error:  # a later refresh would raise it, because it may be temporary
            self._salvage(damage_of(error))

    def _is_large(self, within_s: float | None) -> bool:
        """Return True if the records here are too many to be held in memory; False for a caller that has no time."""
        return within_s is None and bytes_behind(self) > _HELD_BYTES_MAX

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close everything. Raises WrongThreadError while another thread writes, whose descriptors stay open; AtWorkError."""
        self.check_idle()
        if self._writer is not None:
            self._writer.close()
        self._index.close()
        if self._index.is_damaged and self._index.is_writable and not self._index.is_memory:
            try:
                discard_index(self._index.path or self.layout.index)  # the next process would meet the same damage
            except OSError:
                pass  # `doctor` reports it
        for used in ("_lock", "_projector"):
            if used in self.__dict__:
                getattr(self, used).close()
        for watch in (self._folder, *self._watches.values()):
            watch.close()
        self._owner.close()

    @cached_property
    def _lock(self) -> Lock:
        """The writers' lock."""
        return Lock(self.layout.lock)

    @cached_property
    def _projector(self) -> Projector:
        """The projector, imported on first use because an up-to-date store does not need it."""
        from periplus.journal.projections.projector import Projector

        return Projector(self, self._progress)

    @property
    def unwritten(self) -> dict[str, str]:
        """The entity files whose last write failed, with the reason."""
        return self._projector.unwritten

    # -- reading -------------------------------------------------------------------------------------------------------

    def refresh(self, within_s: float | None = None) -> None:
        """Take in what was written since the last look. Damage is kept in ``self.damage``; undamaged records are served.

        What would take longer than ``within_s`` is not taken in, and ``is_stale`` is set until a later look does. Types that are never
        served stale ignore ``within_s``.
        """
        self._owner.check()
        self._resume()  # not ``_enter``, which would take in everything first
        if within_s is not None and bytes_behind(self) > within_s * REPLAY_BYTES_PER_S:
            self.is_stale = True
            return
        if self.index.is_damaged or self._is_index_old:
            self._is_index_old = False
            self._heal_index()
            return
        try:
            self._begin_anew()
            self._read_on(salvage=False)
        except NewerFormatError:
            raise
        except DamageError as error:
            if self._begin_anew():
                self.refresh()
                return
            gone = None
            if not self._is_renewing and self._is_index_wrong():  # otherwise the index is not to blame
                from periplus.journal.index.rollback_check import rollback_damage

                gone = rollback_damage(self)
                if gone is None:
                    self.renew_derived()
                    return
            self._salvage(self.unnamed_store() or gone or error)

    def _begin_anew(self) -> bool:
        """Fill an empty index from a checkpoint if the first records are not here; return True if that was done."""
        if self._seen or self._is_renewing or not (self.lineage or self.copied_from):
            return False
        return serve_from_checkpoint(self)

    def _forget_if_mended(self) -> None:
        """Forget a damage whose file has changed or is back since, and read it again."""
        damage = self.damage
        place = place_here(damage.path or "") if damage is not None else ()
        if self._damaged[0] is not damage and not (place and isinstance(damage, UnmergedError)):
            self._damaged = (damage, place)
        elif place != self._damaged[1]:
            self.damage = None
            self._forget()

    def _salvage(self, damage: DamageError) -> None:
        self.damage = damage
        self._damaged = (damage, place_here(damage.path or ""))
        self._is_salvaged = self._is_salvaged or serve_rest(self)
        self._forget()
        self._read_on(salvage=True)

    def unnamed_store(self) -> DamageError | None:
        """Return the error if records here belong to a store that the settings do not name, else None."""
        from periplus.journal.storage.store_joining import of_another_store, unnamed_store

        if self._own is not None and self._own.store not in self.stores:
            return of_another_store(self.layout, self.settings.store, self._own.store)
        return unnamed_store(self.layout, self.settings.store, self.stores, self.lineages())

    def get(self, item_type: str, item_id: str) -> Entity | None:
        """Return the live entity, or None. A type that reads through is looked up at the journal's tail."""
        self._read_through(item_type)
        found = self._live(item_type, item_id)
        key = (item_type, item_id)
        if found is None and self.index.has_live_head(*key) and key not in self._overlay.touched:
            raise self.index.damaged(f"{item_id} is not found by its name")
        return found

    def look_at(self, item_type: str) -> None:
        """Bring ``as_read`` up to date for a type that reads through."""
        self._read_through(item_type)

    def as_read(self, item_type: str, item_id: str) -> Entity | None:
        """Return the live entity as of the last look, for any type; for callers that read many after one look."""
        return self._live(item_type, item_id)

    def have_ready(self, keys: Iterable[tuple[str, str]]) -> None:
        """Look up some hundreds of ``keys`` at once, which ``get`` is about to be asked for."""
        self._overlay.have_ready(keys)

    def find(self, prefix: str) -> Entity:
        """Return the entity whose id begins with ``prefix``. Raises NotFoundError, or UsageError naming the candidates."""
        return find_entity(self, prefix)

    def ids_with_prefix(self, prefix: str) -> list[tuple[str, str]]:
        """Return type and id of entities, deleted ones too, whose id begins with ``prefix``; all of them if they are few."""
        return self._overlay.ids_with_prefix(prefix)

    def entities(self, item_type: str | None = None) -> Iterator[Entity]:
        """Yield every live entity (of one type), by type and id. Types that read through are as the journal's tail has them."""
        self._read_through(item_type)
        return self._overlay.live_entities(item_type)

    def contested(self) -> list[Entity]:
        """Return the live entities that have several heads, merged."""
        shown = (self._live(*key) for key in sorted({*self.index.contested(), *self._overlay.touched}))
        return [entity for entity in shown if entity is not None and len(entity.heads) > 1]

    def holds(self, item_type: str, item_id: str, version: str, *, durably: bool = False) -> bool:
        """Return True if a record of this version is held; with ``durably`` in the index, which has only durable records."""
        if durably:
            return self.index.rev_of(item_type, item_id, version) is not None
        return self._overlay.holds(item_type, item_id, version)

    def is_superseded(self, item_type: str, item_id: str, version: str) -> bool:
        """Return True if a held version names this one, held or not, as a parent."""
        return self._overlay.is_superseded(item_type, item_id, version)

    def heads_of(self, item_type: str, item_id: str) -> list[Head]:
        """Return the heads of an entity, tombstones too."""
        return self._overlay.heads_of(item_type, item_id)

    def unindexed(self) -> list[tuple[str, str]]:
        """Return type and id of the entities that records behind the index's watermark touch."""
        return sorted(self._overlay.touched)

    def unindexed_saying(self, item_type: str, words: Sequence[bytes]) -> list[tuple[str, str]]:
        """Return those of ``unindexed`` of a type that may contain all of ``words`` (ASCII letters and digits), for a text search."""
        if any(may_say(one.data, words) for one in self._added):
            self._take_added()
        return self._taken.saying(item_type, words)

    def end(self, lineage: str | None = None) -> Position:
        """Return the end of what was read of ``lineage`` (our own by default)."""
        return self._seen.get(self.lineage if lineage is None else lineage, START)

    def lineages(self) -> list[str]:
        """Return every lineage of which the store holds records, our own first. Raises ReplacedError if the store was replaced."""
        try:
            names = self._folder.names()
            if names is not self._checked_names:
                self._standing.check(self.lineage)
                self._checked_names = names
            return list(self._lineages_in(names))
        except FileNotFoundError:
            absent = self._standing.absent()
            if absent is not None:
                raise absent from None
            return []
        except OSError as error:
            raise environment_failure(error, "list", self.layout.journal) from error

    def watch(self, lineage: str) -> FolderWatch:
        """Return the watched listing of the lineage's folder."""
        found = self._watches.get(lineage)
        if found is None:
            found = self._watches[lineage] = FolderWatch(self.layout.lineage_folder(lineage))
        return found

    def need_history(self) -> None:
        """Load all records into the index, which may have been filled from a checkpoint; call it before asking for old records."""
        if self.index.has_floors:
            self._fill_history()
            self.refresh()

    def reader(self, lineage: str) -> LineageReader:
        found = self._readers.get(lineage)
        if found is None:
            folder, watch = self.layout.lineage_folder(lineage), self.watch(lineage)
            found = self._readers[lineage] = LineageReader(folder, self.stores, lineage, watch, is_synced=self.syncs)
        return found

    def entries(self, lineage: str, *, salvage: bool = False) -> Iterator[tuple[int, Entry]]:
        """Yield ``(segment, entry)`` for every record of a lineage, read from its files."""
        for chunk in self.reader(lineage).read_from(START, salvage=salvage):
            for entry in chunk.entries:
                yield chunk.segment, entry

    def line_at(self, record: IndexedRecord) -> bytes:
        """Return the record's line without its newline, checked. Raises DamageError if it is damaged."""
        try:
            return sound_line(self.reader(record.lineage), record)
        except DamageError:
            line = moved_line(self.reader(record.lineage), record)
            if line is None:
                raise
            self._is_index_old = True
            return line

    def load_object(self, sha256: str) -> bytes:
        """Return a payload that a record names. Raises DamageError if its object is missing or damaged."""
        return sound_object(self.objects, sha256)

    def durable_end(self) -> int:
        """Return the highest seq of our own lineage that is known to be durable now, by whichever process.

        Under the policy ``never`` nothing is known, and everything written counts.
        """
        held = self.end().next_seq - 1
        if not self.syncs:
            return held
        found = max(self._marked_seq(), self._mapped_seq()) or self.reader(self.lineage).durable_at(self.end())
        if found < held:
            from periplus.journal.storage.group_commit import durable_by_map

            found = max(found, durable_by_map(self.layout.flush, self.lineage, self.files, self.end().segment))
        self.durable_seq = max(self.durable_seq, min(found, held))
        return self.durable_seq

    # -- what is derived -----------------------------------------------------------------------------------------------

    def project(
        self, patience_s: float = 0.0, *, rewrite: Collection[tuple[str, str]] = (), looked: Looked | None = None, spared: int = 0
    ) -> bool:  # fmt: skip
        """Bring files and index up to the durable end. Return False, with nothing lost, if another process is doing it.

        With damage in the journal both stay as they are; the undamaged records are indexed in memory, for this process. ``rewrite``
        and ``looked`` are what ``take_in`` found out about the files. Up to ``spared`` records may stay behind.
        """
        self._enter()
        if self.index.is_apart and self.damage is None:
            serve_together(self)
        if self.index.is_replaced() or self.index.is_cramped() or self.index.was_written():
            # The index was replaced or marked as outdated: what it says of the segments may no longer be true.
            self._read_anew()
        if self.damage is None and self.index.is_past and not self._projector.is_alone:
            from periplus.journal.index.rebuild import renew_past

            if renew_past(self):
                return True
        if self.damage is not None:
            if isinstance(self.damage, UnmergedError):
                from periplus.journal.checkpoints.merge_bases import put_aside

                with put_aside(self):
                    return self.project(patience_s, rewrite=rewrite, looked=looked)
            self._index_salvaged()
            return False
        if self._seen and self._behind <= spared and not rewrite and looked is None:
            return True
        if not self.index.is_writable and not self.index.is_memory:
            self._replace_index()  # a read-only folder: index the rest in memory
        try:
            if not self._projector.run(patience_s, rewrite=rewrite, looked=looked):
                if not self.index.db.in_transaction:  # later writes of other processes would show through our view
                    self._read_anew()
                return False
        except DamageError as error:
            if (
                isinstance(error, UnmergedError) or self.index.is_replaced()
            ):  # the process that replaced it fills the new one
                self._read_anew()
                return False
            self.damage = error
            self._index_salvaged()
            return False
        self._read_anew()
        return True

    def empty_index(self) -> Index:
        """Return an empty index in memory."""
        return Index(None, self.store_id, self._indexer, self.view)

    def renew_derived(self, *, is_beside: bool = False) -> bool:
        """Rebuild the index from the journal's files after they were changed otherwise than by appending."""
        from periplus.journal.index.rebuild import renew

        return renew(self, is_beside=is_beside)

    # -- for the rebuild of the index

    def projecting_alone(self, patience_s: float) -> AbstractContextManager[None]:
        """Hold the lock of the projections. Raises LockTimeoutError."""
        return self._projector.alone(patience_s)

    def serve_by(self, path: str) -> None:
        """Go on with the index at ``path``; the old one is closed already."""
        self.index = Index(path, self.store_id, self._indexer, self.view)
        self._forget()

    def serve_scratch(self, *, is_memory: bool) -> None:
        """Go on with an empty index of this process alone, in a nameless temporary file or in memory."""
        self.index.close()
        self.index = self.empty_index() if is_memory else Index.scratch(self.store_id, self.view, self._indexer)
        self.index.is_apart = True
        self._forget()

    def fill_whole(self, *patience_s: float) -> bool:
        """Put every record into the index; False if another process has the lock for long or the disk is full. Raises DamageError."""
        return self._projector.fill_history(*patience_s)

    def fill_index(self, *, is_beside: bool = False) -> None:
        """Fill the current, empty index from the journal's files; with ``is_beside`` raise if it has no room instead of using memory."""
        self._is_renewing = True
        try:
            self._projector.fill() if is_beside else self.project(patience_s=LOCK_PATIENCE_S)
            self._read_anew()
        finally:
            self._is_renewing = False

    # -- inside --------------------------------------------------------------------------------------------------------

    def _lineages_in(self, names: list[str]) -> list[str]:
        if names is not self._listed[0] or self.lineage != self._listed[1]:
            found = sorted(name for name in names if name.startswith("lin_") and is_id(name))
            self._listed = (names, self.lineage, sorted(found, key=lambda name: name != self.lineage))
        return self._listed[2]

    def _live(self, item_type: str, item_id: str) -> Entity | None:
        entity = self._overlay.entity(item_type, item_id)
        return None if entity is None or entity.deleted else entity

    def _read_through(self, item_type: str | None) -> None:
        if item_type in self._read_through_types or (item_type is None and self._read_through_types):
            self.refresh()

    def _open_index(self) -> Index:
        return Index(self.layout.index, self.store_id, self._indexer, self.view)

    def _payload_at(self, record: IndexedRecord) -> bytes:
        """Return the payload of a superseded version for a merge. Damage is kept in ``self.damage``; the payload is empty then."""
        try:
            return payload_in(self.line_at(record), record, self.load_object)
        except DamageError as error:
            from periplus.journal.checkpoints.merge_bases import of_merge

            self.damage, said = of_merge(self, record, error)
            return said

    def _is_index_wrong(self) -> bool:
        """Return True if the journal is undamaged when read without the index, which then describes files replaced since.

        That happens after a redaction, and in a store that was copied while it was written.
        """
        if not self.index.is_writable or self.index.is_memory or not self.index.watermarks():
            return False
        from periplus.journal.storage.truncation_check import sound_end

        return None not in (
            sound_end(
                self.layout,
                self.reader(one),
                self._marked_seq() if one == self.lineage else self._left_seq(one) or None,
            )
            for one in self._to_read(is_listed=False)
        )

    def _heal_index(self) -> None:
        """Rebuild an index that is damaged; in memory if its file may not be removed."""
        try:
            self.renew_derived()
        except EnvironmentFailure:
            self._replace_index()
            self._forget()
            self.project()
            self.refresh()

    def _index_salvaged(self) -> None:
        if self._is_salvaged:
            return
        self._is_salvaged = True
        if not serve_rest(self):
            self._replace_index()
            self._projector.salvage()
        self._forget()
        self._read_on(salvage=True)

    def _replace_index(self) -> None:
        """Go on with an empty index in memory, for this process alone."""
        self.index.close()
        self.index = self.empty_index()

    def _forget(self) -> None:
        """Begin a new view at the index's watermarks."""
        is_mended = self._is_salvaged and self.damage is None  # our index in memory holds only what was undamaged
        if is_mended or self.index.is_replaced() or self.index.is_cramped():
            self.index.close()
            self.index, self._is_salvaged = self._open_index(), self._is_salvaged and not is_mended
        self.index.end()
        self.index.begin()
        self._seen: dict[str, Position] = dict(self.index.watermarks())
        self._sizes: dict[str, tuple[int, int, int]] = {}
        self._tail: Tail | None = None
        self._taken = Overlay(self.index, self.load_object)
        self._added: list[Added] = []
        self._added_count = 0  # number of records in it
        self._added_names: set[bytes] = set()

    @property
    def _overlay(self) -> Overlay:
        """The records behind the index's watermark."""
        if self._is_resting:
            self._wake()
        if self._added:
            self._take_added()
        return self._taken

    @property
    def _behind(self) -> int:
        """The number of records behind the index's watermark."""
        return self._taken.record_count + self._added_count

    def _step_over(self, lineage: str, end: Position, added: Added, names: Sequence[bytes] | None) -> None:
        """Move the end of the view to ``end``, behind ``added``, which names the entities ``names`` (None: any).

        The records are decoded when somebody asks for their content.
        """
        try:
            self._seen[lineage] = end
            self._added.append(added)
            self._added_count += added.record_count
            if names is None:
                self._take_added()
            else:
                self._added_names.update(names)
        except BaseException:  # a signal handler raised: the view must not end behind records that it lacks
            self._forget()
            raise

    def _take_added(self) -> None:
        """Decode and check the records that other processes wrote and we stepped over."""
        added, self._added, self._added_count = self._added, [], 0
        self._added_names.clear()
        try:
            is_whole = all(self._takes(one) for one in added)
        except (DamageError, HistoryNeededError):
            is_whole = False
        except BaseException:  # see ``_step_over``
            self._forget()
            raise
        if not is_whole:
            self._forget()  # the refresh meets the problem again and handles it
            self.refresh()

    def _takes(self, added: Added) -> bool:
        """Take in ``added`` if it consists of whole batches; return False otherwise."""
        block = read_block(added.data, base=added.offset, next_seq=added.first_seq)
        if len(block.records) != added.record_count:
            return False
        for entry in block.entries():
            self._taken.add(entry, self.lineage, added.segment)
        return True

    def _to_read(self, *, is_listed: bool) -> list[str]:
        """Return each lineage that exists or existed, ours in any case; ``is_listed``: the caller has just listed the folder."""
        if self.is_one_question and not is_listed and self.lineage in self._seen:
            return [self.lineage]
        listed = self._lineages_in(self._folder.last_names) if is_listed else self.lineages()
        return sorted({*listed, *self._seen, self.lineage, self.copied_from} - {""})

    def _read_on(self, *, salvage: bool, for_writing: bool = False) -> None:
        """Read on; start once more from the index's watermarks if that fails or our view belongs to another past.

        After a failed sync, a later segment may supersede records that we have read.
        """
        self.is_stale = False
        if not salvage and self.damage is not None:
            self._forget_if_mended()
        try:
            is_continued = self._read_lineages(salvage=salvage, by_map=True, is_listed=for_writing)
        except NewerFormatError:
            raise
        except HistoryNeededError:
            self._fill_history()
            is_continued = False
        except DamageError:
            if salvage:
                raise
            is_continued = False
        if not is_continued:
            self._forget()
            self._read_lineages(salvage=salvage, by_map=False)
        if for_writing and self.damage is not None:
            raise self.damage

    def _fill_history(self) -> None:
        if not self.index.is_writable and not self.index.is_memory:
            self._replace_index()
        if not self.fill_whole():
            serve_full_history(self)
        self._forget()

    def _read_lineages(self, *, salvage: bool, by_map: bool, is_listed: bool = False) -> bool:
        """Take in what came behind the view; return False if it supersedes something in the view."""
        is_continued = True
        if self._own is None:
            self._own = self._find_own()
        for lineage in self._to_read(is_listed=is_listed):
            reader = self.reader(lineage)
            if not salvage and reader.is_unchanged(self._sizes.get(lineage)):
                continue
            if lineage == self.lineage:  # read before the records that it covers
                durable_seq = (by_map and self._mapped_seq()) or self._marked_seq()
            else:
                durable_seq = self._left_seq(lineage)
            for chunk in reader.read_from(self._seen.get(lineage, START), durable_seq, salvage=salvage):
                seen = self.end(lineage)
                is_continued &= not seen.segment < chunk.segment < seen.next_seq
                self._absorb(lineage, chunk, salvage=salvage)
            if lineage != self.lineage:
                from periplus.journal.storage.truncation_check import cut_short

                missing = cut_short(self.layout, reader, self.end(lineage))
                if missing is not None and not salvage:
                    raise missing
                self.damage = self.damage or missing
        return is_continued

    def _mapped_seq(self) -> int:
        """Return what the flush map states as durable; fast. Damage is never reported on its word alone."""
        return 0 if self._writer is None else self._writer.mapped_durable()

    def _marked_seq(self) -> int:
        """Return the durable seq of our own lineage by its mark, or by our own knowledge."""
        mark = read_durable(self.layout.durable)
        if mark is not None and mark.lineage == self.lineage:
            self.durable_seq = max(self.durable_seq, mark.seq)
        return self.durable_seq

    def _left_seq(self, lineage: str) -> int:
        """For a lineage written here before this store was copied, return what the mark that came along states; else 0."""
        is_left = lineage == self.copied_from or (self._own is not None and self._own.wrote(lineage))
        if not is_left:
            return 0
        noted = self._own.left.get(lineage, 0) if self._own is not None else 0
        return left_behind_seq(self.layout.durable, self.reader(lineage), noted)

    def _absorb(self, lineage: str, chunk: Chunk, *, salvage: bool) -> None:
        try:
            for entry in chunk.entries:
                self._taken.add(entry, lineage, chunk.segment, salvage=salvage)
            self._seen[lineage] = chunk.end
        except BaseException:  # otherwise the entries would be taken in twice
            self._forget()
            raise
        if chunk.size >= 0:
            inode = chunk.inode or (place_of(chunk.path) or (0, 0))[1]  # 0 if it moved since
            self._sizes[lineage] = (chunk.segment, chunk.size, inode)
        if lineage == self.lineage:
            self._tail = chunk.tail
