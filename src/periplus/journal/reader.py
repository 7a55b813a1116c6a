"""A journal as its readers see it: a prefix of whole batches, and what is derived from them.

Theory of operation
-------------------
A journal object knows a place in each lineage up to which it has read, the *view*: the index holds the records up to
its watermark, an overlay in memory those behind it. ``refresh`` reads on from there, at the cost of what came since.
Reading writes nothing to the journal and never waits: damage is kept in ``damage`` and what is sound is served. Index,
entity files and tiles are derived, and brought up to date by whoever gets their lock without waiting.
"""

from __future__ import annotations

__all__ = ["JournalReader"]

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Self

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


class JournalReader(OwnLineage, IndexHolder):
    """What ``Journal`` is but for writing: opening, reading, and keeping up what is derived."""

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
        self._damaged: tuple[DamageError | None, tuple[int, ...]] = (None, ())  # it, and its file as it was then
        self.check_said: Callable[[Said], None] | None = None  # who refuses words: raises before anything is written
        self._checked_writer: Writer | None = None
        self.is_hurried = False  # who is takes what the index has: see ``remaining.fill_history_if_present``
        self.is_one_question = False  # within one, lineages of others are looked at once: ``reading.one_question``
        self.waited_s = float("-inf")  # by the monotonic clock, when somebody waited in vain for the index
        self.after_mutation: Callable[[], None] | None = None  # who keeps something beside the store; raises nothing
        self._indexer = indexer or NullIndexer()
        self._progress = progress
        self.copied_from = ""  # the lineage that lineage.json names, where this store is a copy: none writes to it
        self._standing = Standing(self.layout)
        self._own = self._find_own()
        self._own_place = place_of(self.layout.lineage)
        self._own_names: list[str] | None = None
        self._checked_names: list[str] | None = None  # with which this was found to be the store that was opened
        self.durable_seq = 0  # of our own lineage: known to be on disk
        self._is_mutating = False  # this thread is within ``mutate``, up to where the records are durable
        self._writer: SegmentWriter | None = None
        self._watches: dict[str, FolderWatch] = {}
        self._readers: dict[str, LineageReader] = {}
        self.kept_payloads: dict[str, bytes] = {}  # of versions whose records are elsewhere: see ``unmerged``
        self._folder = FolderWatch(self.layout.journal)
        self._listed: tuple[list[str], str, list[str]] = ([], "", [])
        self._is_salvaged = False
        self._is_index_old = False  # it was made before a segment was written anew
        self._is_renewing = False
        self._read_through_types = frozenset(name for name, kind in types.items() if kind.reads_through)
        self.is_stale = False  # records that are there, or were when they were looked for, are not served
        self.view = View({name: kind.rules for name, kind in types.items()}, self._payload_at)
        self.index = self._open_index()
        try:
            self._begin(within_s)
        except IndexDamageError:  # already where the view begins
            self._heal_index()

    def _begin(self, within_s: float | None) -> None:
        """The first view."""
        self._forget()
        try:
            if not self._seen and self.lineages():
                self.project()  # no index: filling it straight from the files costs less than a view of everything
            self.refresh(within_s)
        except EnvironmentFailure as error:  # who has begun already may ask again: it may be for a moment only
            self._salvage(damage_of(error))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Raises WrongThreadError: the descriptors of a write that another thread is at are not taken from it; AtWorkError."""
        self.check_idle()
        if self._writer is not None:
            self._writer.close()
        self._index.close()
        if self._index.is_damaged and self._index.is_writable and not self._index.is_memory:
            try:
                discard_index(self._index.path or self.layout.index)  # whoever opens the store next would meet the same
            except OSError:
                pass  # `doctor` says so
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
        """What brings the derived up to date: who finds it in order loads none of that."""
        from periplus.journal.projections.projector import Projector

        return Projector(self, self._progress)

    @property
    def unwritten(self) -> dict[str, str]:
        """The entity files that could not be written when that was tried last, and why."""
        return self._projector.unwritten

    # -- reading -------------------------------------------------------------------------------------------------------

    def refresh(self, within_s: float | None = None) -> None:
        """Take in what was written since the last look. Damage is kept in ``self.damage``; what is sound is served.

        What would take longer than ``within_s`` is not taken in; ``is_stale`` says so until a look takes it in. Types that
        are never served stale are not bound by it.
        """
        self._owner.check()
        self._resume()  # and no more: who is in haste is not to take in everything first
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
            if not self._is_renewing and self._is_index_wrong():  # else it was not the index
                from periplus.journal.index.rollback_check import rollback_damage

                gone = rollback_damage(self)
                if gone is None:
                    self.renew_derived()
                    return
            self._salvage(self.unnamed_store() or gone or error)

    def _begin_anew(self) -> bool:
        """Whether an index with nothing in it was filled from a checkpoint, for the first records are not here."""
        if self._seen or self._is_renewing or not (self.lineage or self.copied_from):
            return False
        return serve_from_checkpoint(self)

    def _forget_if_mended(self) -> None:
        """A damaged file that is another by now, or there again, is read anew: what was said of it may hold no more."""
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
        """What to say where the settings do not name a store that records here are of; None where they name all."""
        from periplus.journal.storage.store_joining import of_another_store, unnamed_store

        if self._own is not None and self._own.store not in self.stores:
            return of_another_store(self.layout, self.settings.store, self._own.store)
        return unnamed_store(self.layout, self.settings.store, self.stores, self.lineages())

    def get(self, item_type: str, item_id: str) -> Entity | None:
        """The live entity, or None. Of a type that reads through, as the journal's tail has it now."""
        self._read_through(item_type)
        found = self._live(item_type, item_id)
        key = (item_type, item_id)
        if found is None and self.index.has_live_head(*key) and key not in self._overlay.touched:
            raise self.index.damaged(f"{item_id} is not found by its name")
        return found

    def look_at(self, item_type: str) -> None:
        """Have what ``as_read`` says of a type that reads through be no older than now."""
        self._read_through(item_type)

    def as_read(self, item_type: str, item_id: str) -> Entity | None:
        """The live entity as the last look found it, of any type: for who asks for many after one look."""
        return self._live(item_type, item_id)

    def have_ready(self, keys: Iterable[tuple[str, str]]) -> None:
        """Look up at once what ``get`` is about to be asked for: some hundreds at most; the rest is looked up as ever."""
        self._overlay.have_ready(keys)

    def find(self, prefix: str) -> Entity:
        """The entity whose id begins with ``prefix``. Raises NotFoundError, or UsageError naming the candidates."""
        return find_entity(self, prefix)

    def ids_with_prefix(self, prefix: str) -> list[tuple[str, str]]:
        """Type and id of entities, deleted ones too, whose id begins with ``prefix``: all where they are few."""
        return self._overlay.ids_with_prefix(prefix)

    def entities(self, item_type: str | None = None) -> Iterator[Entity]:
        """Every live entity (of one type), by type and id. Of types that read through, as the journal's tail has them now."""
        self._read_through(item_type)
        return self._overlay.live_entities(item_type)

    def contested(self) -> list[Entity]:
        """The live entities that have several heads, merged."""
        shown = (self._live(*key) for key in sorted({*self.index.contested(), *self._overlay.touched}))
        return [entity for entity in shown if entity is not None and len(entity.heads) > 1]

    def holds(self, item_type: str, item_id: str, version: str, *, durably: bool = False) -> bool:
        """Whether a record of this version is held; ``durably`` in the index, which has only what is on disk."""
        if durably:
            return self.index.rev_of(item_type, item_id, version) is not None
        return self._overlay.holds(item_type, item_id, version)

    def is_superseded(self, item_type: str, item_id: str, version: str) -> bool:
        """Whether a version that is held names this one, held or not, as a parent."""
        return self._overlay.is_superseded(item_type, item_id, version)

    def heads_of(self, item_type: str, item_id: str) -> list[Head]:
        """The heads of an entity, tombstones too."""
        return self._overlay.heads_of(item_type, item_id)

    def unindexed(self) -> list[tuple[str, str]]:
        """Type and id of the entities that records behind the index's watermark touch."""
        return sorted(self._overlay.touched)

    def unindexed_saying(self, item_type: str, words: Sequence[bytes]) -> list[tuple[str, str]]:
        """Of ``unindexed`` those of a type that may say all of ``words``, letters and digits of ASCII: for who looks for a text."""
        if any(may_say(one.data, words) for one in self._added):
            self._take_added()
        return self._taken.saying(item_type, words)

    def end(self, lineage: str | None = None) -> Position:
        """The end of what was read of ``lineage`` (our own by default)."""
        return self._seen.get(self.lineage if lineage is None else lineage, START)

    def lineages(self) -> list[str]:
        """Every lineage that the store holds records of, our own first. Raises ReplacedError where it is another store by now."""
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
        """What is known of the names in the lineage's folder."""
        found = self._watches.get(lineage)
        if found is None:
            found = self._watches[lineage] = FolderWatch(self.layout.lineage_folder(lineage))
        return found

    def need_history(self) -> None:
        """Whoever asks for records of long ago calls this first: the index may have been loaded from a checkpoint."""
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
        """``(segment, entry)`` of every record of a lineage, read from its files."""
        for chunk in self.reader(lineage).read_from(START, salvage=salvage):
            for entry in chunk.entries:
                yield chunk.segment, entry

    def line_at(self, record: IndexedRecord) -> bytes:
        """The record's own line without its newline, checked. Raises DamageError where it is not sound."""
        try:
            return sound_line(self.reader(record.lineage), record)
        except DamageError:
            line = moved_line(self.reader(record.lineage), record)
            if line is None:
                raise
            self._is_index_old = True
            return line

    def load_object(self, sha256: str) -> bytes:
        """A payload that a record names. Raises DamageError where its object is missing or damaged."""
        return sound_object(self.objects, sha256)

    def durable_end(self) -> int:
        """The highest seq of our own lineage that is known to be durable now, by whichever process made it so.

        Under the policy ``never`` nobody knows, and what was written counts.
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
        """Bring files and index up to the durable end, unless another process is at it: then False, nothing lost.

        With damage in the journal both stay as they are; what is sound is indexed in memory, for this process.
        ``rewrite`` and ``looked`` are what ``take_in`` found out about the files. Up to ``spared`` records may stay behind.
        """
        self._enter()
        if self.index.is_apart and self.damage is None:
            serve_together(self)
        if self.index.is_replaced() or self.index.is_cramped() or self.index.was_written():
            # What a file that is gone says of the segments need no longer be so; one that is there may be marked.
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
            self._replace_index()  # a folder that may only be read: what its index lacks is indexed in memory
        try:
            if not self._projector.run(patience_s, rewrite=rewrite, looked=looked):
                if not self.index.db.in_transaction:  # what others write to the index now would show through our view
                    self._read_anew()
                return False
        except DamageError as error:
            if isinstance(error, UnmergedError) or self.index.is_replaced():  # whoever did that makes the new one
                self._read_anew()
                return False
            self.damage = error
            self._index_salvaged()
            return False
        self._read_anew()
        return True

    def empty_index(self) -> Index:
        """An index in memory as one is before anything is in it."""
        return Index(None, self.store_id, self._indexer, self.view)

    def renew_derived(self, *, is_beside: bool = False) -> bool:
        """Build the index from the journal's files, which were changed otherwise than by appending; see ``journal.renewal``."""
        from periplus.journal.index.rebuild import renew

        return renew(self, is_beside=is_beside)

    # -- for ``journal.renewal``

    def projecting_alone(self, patience_s: float) -> AbstractContextManager[None]:
        """Hold the lock of who brings the derived up to date. Raises LockTimeoutError."""
        return self._projector.alone(patience_s)

    def serve_by(self, path: str) -> None:
        """Go on with the index at ``path``, the one before being closed."""
        self.index = Index(path, self.store_id, self._indexer, self.view)
        self._forget()

    def serve_scratch(self, *, is_memory: bool) -> None:
        """Go on with an empty index of this process alone, in a nameless file of the system's or in memory; see ``journal.apart``."""
        self.index.close()
        self.index = self.empty_index() if is_memory else Index.scratch(self.store_id, self.view, self._indexer)
        self.index.is_apart = True
        self._forget()

    def fill_whole(self, *patience_s: float) -> bool:
        """Have every record in the index; False where another process has the lock for long, or the disk no room. Raises DamageError."""
        return self._projector.fill_history(*patience_s)

    def fill_index(self, *, is_beside: bool = False) -> None:
        """Fill the index at hand, an empty one, from the journal's files; ``is_beside``: raises where it has no room, and no memory serves."""
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
        """What a superseded version said, for a merge. Damage is kept in ``self.damage``: it counts as empty then."""
        try:
            return payload_in(self.line_at(record), record, self.load_object)
        except DamageError as error:
            from periplus.journal.checkpoints.merge_bases import of_merge

            self.damage, said = of_merge(self, record, error)
            return said

    def _is_index_wrong(self) -> bool:
        """Whether the journal is sound when it is read without the index: then that speaks of files since replaced.

        So it is after a redaction, and in a store that was copied while it was written.
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
        """Build an index that was found damaged anew; in memory where its file may not be removed."""
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
        is_mended = self._is_salvaged and self.damage is None  # ours is of what was left, and in memory
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
        self._added_count = 0  # of records in it
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
        """How many records there are behind the index's watermark."""
        return self._taken.record_count + self._added_count

    def _step_over(self, lineage: str, end: Position, added: Added, names: Sequence[bytes] | None) -> None:
        """Have the view end at ``end``, behind ``added``, which names these entities, None for any.

        It is taken in when somebody asks for what it says.
        """
        try:
            self._seen[lineage] = end
            self._added.append(added)
            self._added_count += added.record_count
            if names is None:
                self._take_added()
            else:
                self._added_names.update(names)
        except BaseException:  # a signal's handler: a view that ends behind what it has not got would be believed
            self._forget()
            raise

    def _take_added(self) -> None:
        """Take in what others wrote and we stepped over, its checksums checked."""
        added, self._added, self._added_count = self._added, [], 0
        self._added_names.clear()
        try:
            is_whole = all(self._takes(one) for one in added)
        except (DamageError, HistoryNeededError):
            is_whole = False
        except BaseException:  # as in _step_over
            self._forget()
            raise
        if not is_whole:
            self._forget()  # it is met again, and what is to be done is done
            self.refresh()

    def _takes(self, added: Added) -> bool:
        """Whether ``added`` is whole batches of records; they are taken in then."""
        block = read_block(added.data, base=added.offset, next_seq=added.first_seq)
        if len(block.records) != added.record_count:
            return False
        for entry in block.entries():
            self._taken.add(entry, self.lineage, added.segment)
        return True

    def _to_read(self, *, is_listed: bool) -> list[str]:
        """Each lineage that is there or was, ours in any case; ``is_listed``: who asks has looked at the folder just now."""
        if self.is_one_question and not is_listed and self.lineage in self._seen:
            return [self.lineage]
        listed = self._lineages_in(self._folder.last_names) if is_listed else self.lineages()
        return sorted({*listed, *self._seen, self.lineage, self.copied_from} - {""})

    def _read_on(self, *, salvage: bool, for_writing: bool = False) -> None:
        """Read on; once more from the index's watermarks where that cannot be done or our view is of another past.

        After a failed sync records that we had read may be nobody's any more: a later segment supersedes them.
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
        """Take in what came behind the view; False where that supersedes something in it."""
        is_continued = True
        if self._own is None:
            self._own = self._find_own()
        for lineage in self._to_read(is_listed=is_listed):
            reader = self.reader(lineage)
            if not salvage and reader.is_unchanged(self._sizes.get(lineage)):
                continue
            if lineage == self.lineage:  # before the records that it speaks of
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
        """What the flush map says is durable: quickly had. Damage is never stated by its word alone."""
        return 0 if self._writer is None else self._writer.mapped_durable()

    def _marked_seq(self) -> int:
        """The seq of our own lineage that is durable as far as its mark states, or as we know ourselves."""
        mark = read_durable(self.layout.durable)
        if mark is not None and mark.lineage == self.lineage:
            self.durable_seq = max(self.durable_seq, mark.seq)
        return self.durable_seq

    def _left_seq(self, lineage: str) -> int:
        """Of a lineage that was written here before this store was copied, what the mark that came along says; else 0."""
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
        except BaseException:  # else what was taken in would be taken in once more
            self._forget()
            raise
        if chunk.size >= 0:
            inode = chunk.inode or (place_of(chunk.path) or (0, 0))[1]  # 0: moved since
            self._sizes[lineage] = (chunk.segment, chunk.size, inode)
        if lineage == self.lineage:
            self._tail = chunk.tail
