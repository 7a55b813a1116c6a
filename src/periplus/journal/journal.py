"""The journal of a store: ``mutate`` writes, everything else reads a prefix of whole batches.

Theory of operation
-------------------
A journal object knows a place in each lineage up to which it has read, the *view*: the index holds the records up to
its watermark, an overlay in memory those behind it. ``refresh`` reads on from there, at the cost of what came since.
Under the lock the end of the view of our own lineage *is* the validated tail: seq and versions of the next batch
follow from bytes that were just checked, never from a cache.

Rules kept here:

* one lock, one buffer, one ``write``, one sync for each mutation; nothing slow in the lock but that sync;
* nothing is acknowledged, projected or signed before it is durable;
* a failed sync poisons its segment: no process writes to it again, the next writer begins a new one;
* reading never writes and never waits: damage is kept in ``damage`` and what is sound is served.
"""

from __future__ import annotations

__all__ = ["Journal"]

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from heapq import merge
from typing import Final, Self

from periplus.base.clock import Clock, SystemClock
from periplus.base.errors import (
    DamageError,
    EnvironmentFailure,
    LockTimeoutError,
    NewerFormatError,
    OutcomeUnknownError,
    PeriplusError,
    UsageError,
    environment_failure,
)
from periplus.base.files import Files, FolderWatch
from periplus.base.ids import is_id
from periplus.base.locks import LOCK_PATIENCE_S, Lock
from periplus.journal.flush import EpochEndedError
from periplus.journal.index import HistoryNeededError, Index, IndexedRecord, Indexer, NullIndexer, View, payload_in
from periplus.journal.layout import Layout
from periplus.journal.lineage import START, Chunk, LineageReader, Position, read_durable
from periplus.journal.overlay import Overlay
from periplus.journal.projection import Looked, Progress, Projector, no_progress
from periplus.journal.reading import REPLAY_BYTES_PER_S, bytes_behind, find_entity, sound_line, sound_object
from periplus.journal.receipt import Pending, receipt_of
from periplus.journal.segment import Entry, Tail
from periplus.journal.settings import LineageFile, Settings, is_written_here, mint_lineage, read_lineage, read_settings
from periplus.journal.state import Entity, EntityType, Head
from periplus.journal.transaction import Draft, Receipt, Transaction, Writer
from periplus.journal.writing import SegmentWriter
from periplus.objects.store import ObjectStore

OVERLAY_RECORDS_MAX: Final = 2_000


class Journal:
    """Open with ``Journal(root, types, …)``; close when done (also a context manager)."""

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
        self.layout = Layout(root)
        self.layout.refuse_links()
        self.types = types
        self.files = files or Files()
        self.clock = clock or SystemClock()
        self.random = random
        self.settings: Settings = read_settings(self.layout)
        self.objects = ObjectStore(self.layout.objects, self.files)
        self.damage: DamageError | None = None
        self.after_mutation: Callable[[], None] | None = None  # who keeps something beside the store; raises nothing
        self._indexer = indexer or NullIndexer()
        self._lock = Lock(self.layout.lock)
        self.copied_from = (
            ""  # the lineage that lineage.json names, where this store is a copy: nothing is written to it
        )
        self._own = self._find_own()
        self._own_place = _place(self.layout.lineage)
        self._own_names: list[str] | None = None
        self.durable_seq = 0  # of our own lineage: known to be on disk
        self._writer: SegmentWriter | None = None
        self._watches: dict[str, FolderWatch] = {}
        self._readers: dict[str, LineageReader] = {}
        self._folder = FolderWatch(self.layout.journal)
        self._listed: tuple[list[str], str, list[str]] = ([], "", [])
        self._is_salvaged = False
        self._read_through_types = frozenset(name for name, kind in types.items() if kind.reads_through)
        self.is_stale = False  # records that are there, or were when they were looked for, are not served
        self.view = View({name: kind.sets for name, kind in types.items()}, self._payload_at)
        self.index = self._open_index()
        self._projector = Projector(self, progress)
        self._forget()
        if not self._seen and self.lineages():
            self.project()  # there is no index: filling it straight from the files costs less than a view of everything
        self.refresh(within_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self.index.close()
        self._lock.close()
        self._projector.close()

    @property
    def own(self) -> LineageFile | None:
        """Who writes here; None before this clone's first write."""
        return self._own

    @property
    def lineage(self) -> str:
        """Our own lineage's id; empty before this clone's first write."""
        return self._own.lineage if self._own is not None else ""

    @property
    def syncs(self) -> bool:
        """Whether a mutation is on the disk when it is acknowledged; under the policy ``never`` nothing is known to be."""
        return self.settings.journal.sync == "mutation"

    @property
    def store_id(self) -> str:
        return self.settings.store.id

    # -- reading ---------------------------------------------------------------------------------------------------

    def refresh(self, within_s: float | None = None) -> None:
        """Take in what was written since the last look. Damage is kept in ``self.damage``; what is sound is served.

        What would take longer than ``within_s`` is not taken in; ``is_stale`` says so until a look takes it in. Types that
        are never served stale are not bound by it.
        """
        if within_s is not None and bytes_behind(self) > within_s * REPLAY_BYTES_PER_S:
            self.is_stale = True
            return
        try:
            self._read_on(salvage=False)
        except NewerFormatError:
            raise
        except DamageError as error:
            if self._is_index_wrong():
                self.renew_derived()
                return
            self.damage = error
            self._forget()
            self._read_on(salvage=True)

    def get(self, item_type: str, item_id: str) -> Entity | None:
        """The live entity, or None. Of a type that reads through, as the journal's tail has it now."""
        self._read_through(item_type)
        return self._live(item_type, item_id)

    def find(self, prefix: str) -> Entity:
        """The entity whose id begins with ``prefix``. Raises NotFoundError, or UsageError naming the candidates."""
        return find_entity(self, prefix)

    def ids_with_prefix(self, prefix: str) -> list[tuple[str, str]]:
        """Type and id of entities, deleted ones too, whose id begins with ``prefix``: all where they are few."""
        found = {key for key in self._overlay.touched if key[1].startswith(prefix)}
        try:
            found.update(self.index.ids_with_prefix(prefix))
        except UnicodeEncodeError:
            pass  # half a character: no id has one
        return sorted(found)

    def entities(self, item_type: str | None = None) -> Iterator[Entity]:
        """Every live entity (of one type), by type and id. Of types that read through, as the journal's tail has them now."""
        self._read_through(item_type)
        mine = {key for key in self._overlay.touched if item_type in (None, key[0])}
        held = (
            entity
            for entity in self.index.entities(item_type)
            if (entity.item_type, entity.item_id) not in mine and not entity.deleted
        )
        newer = (entity for key in sorted(mine) if (entity := self._live(*key)) is not None)
        return merge(held, newer, key=lambda entity: (entity.item_type, entity.item_id))

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

    def end(self, lineage: str | None = None) -> Position:
        """The end of what was read of ``lineage`` (our own by default)."""
        return self._seen.get(self.lineage if lineage is None else lineage, START)

    def lineages(self) -> list[str]:
        """Every lineage that the store holds records of, our own first."""
        try:
            return list(self._lineages_in(self._folder.names()))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise environment_failure(error, "list", self.layout.journal) from error

    def _lineages_in(self, names: list[str]) -> list[str]:
        if names is not self._listed[0] or self.lineage != self._listed[1]:
            found = sorted(name for name in names if name.startswith("lin_") and is_id(name))
            self._listed = (names, self.lineage, sorted(found, key=lambda name: name != self.lineage))
        return self._listed[2]

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
            folder = self.layout.lineage_folder(lineage)
            found = self._readers[lineage] = LineageReader(folder, self.store_id, lineage, self.watch(lineage))
        return found

    def entries(self, lineage: str, *, salvage: bool = False) -> Iterator[tuple[int, Entry]]:
        """``(segment, entry)`` of every record of a lineage, read from its files."""
        for chunk in self.reader(lineage).read_from(START, salvage=salvage):
            for entry in chunk.entries:
                yield chunk.segment, entry

    def line_at(self, record: IndexedRecord) -> bytes:
        """The record's own line without its newline, checked. Raises DamageError where it is not sound."""
        return sound_line(self.reader(record.lineage), record)

    def load_object(self, sha256: str) -> bytes:
        """A payload that a record names. Raises DamageError where its object is missing or damaged."""
        return sound_object(self.objects, sha256)

    # -- writing ---------------------------------------------------------------------------------------------------

    def mutate(
        self,
        fn: Callable[[Transaction], object],
        writer: Writer,
        *,
        key: str = "",
        durable: bool = True,
        project: bool = True,
        patience_s: float = LOCK_PATIENCE_S,
    ) -> Receipt:
        """Run ``fn`` under the lock and write what it put, all or nothing; durable when this returns.

        ``durable=False`` leaves the sync to the next mutation, for observations only; ``project=False`` leaves files
        and index to a later ``project``. A ``key`` that was written before makes this a repetition: ``fn`` is not run and the first receipt comes back.
        Raises what ``fn`` raises, LockTimeoutError, DamageError (nothing was written), EnvironmentFailure (nothing
        was acknowledged), OutcomeUnknownError (repeat with its key).
        """
        if not key.isascii():
            raise UsageError(f"a key is ASCII text, not {ascii(key)[:80]}")
        if key and self.index.has_floors and self._receipt_of(key) is None:
            self.need_history()  # it may be older than the keys that a checkpoint keeps
        segment = self.end().segment
        if not self._lock.is_open and not os.path.isdir(self.layout.journal):
            read_settings(self.layout)  # raises where the whole store is gone: none is made in its place
            self.files.make_folder(self.layout.journal)
        with self._lock.holding(patience_s, self._read_ahead):
            self._own_lineage()
            self._read_on(salvage=False, for_writing=True)
            self._leave_poisoned()
            receipt, pending = self._write(fn, writer, key, durable=durable)
        if pending is not None:
            self._make_durable(pending, receipt, patience_s)
        if receipt.repeated or not receipt.record_count:
            return receipt
        if project or self._overlay.record_count > OVERLAY_RECORDS_MAX:
            try:
                self.project()
                if project and self._projector.untaken:
                    self._take_in()
            except EnvironmentFailure:
                pass  # the mutation is durable; what is derived from it is brought up to date by the next one
        if segment and self.end().segment != segment:
            self._checkpoint(writer)
        if self.after_mutation is not None:
            self.after_mutation()
        return receipt

    def leave_lineage(self) -> str:
        """Write to a lineage of our own from now on; gives the one that is left, which stays as it is.

        For a store that was put back to an earlier state: others hold records of its lineage that it has not got.
        """
        with self._lock.holding():
            left = self._own_lineage()
            if self._writer is not None:
                self._writer.close()
            self.copied_from, self.durable_seq = left, 0
            self._own = self._mint()
            self._own_place = _place(self.layout.lineage)
            self._forget()
        self.refresh()
        return left

    def project(
        self,
        patience_s: float = 0.0,
        *,
        rewrite: Collection[tuple[str, str]] = (),
        looked: Looked | None = None,
    ) -> bool:
        """Bring files and index up to the durable end, unless another process is at it: then False, nothing lost.

        With damage in the journal both stay as they are; what is sound is indexed in memory, for this process.
        ``rewrite`` and ``looked`` are what ``take_in`` found out about the files.
        """
        if self.damage is not None:
            self._index_salvaged()
            return False
        if self._seen and not self._overlay.record_count and not rewrite and looked is None:
            return True
        if not self.index.is_writable and not self.index.is_memory:
            self._replace_index()  # a folder that may only be read: what its index lacks is indexed in memory
        try:
            if not self._projector.run(patience_s, rewrite=rewrite, looked=looked):
                if not self.index.db.in_transaction:  # what others write to the index now would show through our view
                    self._forget()
                    self.refresh()
                return False
        except DamageError as error:
            self.damage = error
            self._index_salvaged()
            return False
        self._forget()
        self.refresh()
        return True

    def writing(self, patience_s: float = LOCK_PATIENCE_S) -> AbstractContextManager[None]:
        """Hold the writers' lock, for what changes the journal's files without a mutation."""
        return self._lock.holding(patience_s)

    def roll(self) -> None:
        """Begin a new segment: what was written so far lies in files that nobody writes to any more."""
        with self._lock.holding():
            lineage = self._own_lineage()
            self._read_on(salvage=False, for_writing=True)
            self._leave_poisoned()
            end = self.end(lineage)
            if end.next_seq == max(end.segment, 1):
                return  # the newest segment is empty
            self._writer_of(lineage).roll(end)
            self.durable_seq = end.next_seq - 1
            self._forget()
            self._read_on(salvage=False, for_writing=True)

    def discard_index(self) -> None:
        """Throw the index away; an empty one takes its place. Raises EnvironmentFailure."""
        self.index.close()
        try:
            Index.discard(self.layout.index)
        except OSError as error:
            raise environment_failure(error, "remove the index", self.layout.index) from error
        self.index = self._open_index()
        self._forget()

    def renew_derived(self) -> None:
        """Throw the index away and build it from the journal's files, which were changed otherwise than by appending."""
        self.discard_index()
        self.project(patience_s=LOCK_PATIENCE_S)
        self.refresh()

    def _checkpoint(self, writer: Writer) -> None:
        """After a roll, outside the lock: a checkpoint where one is due. The mutation is durable whatever comes of it."""
        from periplus.journal.checkpointing import WORK_BYTES_MAX, make_checkpoint, work_due

        try:
            if 0 < work_due(self) <= WORK_BYTES_MAX:
                make_checkpoint(self, writer)
        except PeriplusError:
            pass  # derived: the next roll tries again, `doctor --compact` tells why it cannot be made

    def _take_in(self) -> None:
        """A file that this mutation would have written over holds what is not in the journal."""
        from periplus.journal.takein import take_in

        self._projector.untaken.clear()
        take_in(self)

    def _live(self, item_type: str, item_id: str) -> Entity | None:
        entity = self._overlay.entity(item_type, item_id)
        return None if entity is None or entity.deleted else entity

    def _read_through(self, item_type: str | None) -> None:
        if item_type in self._read_through_types or (item_type is None and self._read_through_types):
            self.refresh()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _open_index(self) -> Index:
        return Index(self.layout.index, self.store_id, self._indexer, self.view)

    def _payload_at(self, record: IndexedRecord) -> bytes:
        """What a superseded version said, for a merge. Damage is kept in ``self.damage``: it counts as empty then."""
        try:
            return payload_in(self.line_at(record), record, self.load_object)
        except DamageError as error:
            self.damage = self.damage or error
            return b""

    def _is_index_wrong(self) -> bool:
        """Whether the journal is sound when it is read without the index: then that speaks of files since replaced.

        So it is after a redaction, and in a store that was copied while it was written.
        """
        if not self.index.is_writable or self.index.is_memory or not self.index.watermarks():
            return False
        try:
            for lineage in self.lineages():
                for _ in self.reader(lineage).read_from(START, self._marked_seq() if lineage == self.lineage else 0):
                    pass
        except DamageError:
            return False
        return True

    def _index_salvaged(self) -> None:
        if self._is_salvaged:
            return
        self._is_salvaged = True
        self._replace_index()
        self._projector.salvage()
        self._forget()
        self._read_on(salvage=True)

    def _replace_index(self) -> None:
        """Go on with an empty index in memory, for this process alone."""
        self.index.close()
        self.index = Index(None, self.store_id, self._indexer, self.view)

    def _forget(self) -> None:
        """Begin a new view at the index's watermarks."""
        if self.index.is_replaced():
            self.index.close()
            self.index = self._open_index()
        self.index.end()
        self.index.begin()
        self._seen: dict[str, Position] = dict(self.index.watermarks())
        self._sizes: dict[str, tuple[int, int, int]] = {}
        self._tail: Tail | None = None
        self._overlay = Overlay(self.index, self.load_object)

    def _to_read(self, *, is_listed: bool) -> list[str]:
        """Each lineage that is there or was; ``is_listed``: who asks has looked at the folder just now."""
        listed = self._lineages_in(self._folder.last_names) if is_listed else self.lineages()
        return sorted({*listed, *self._seen})

    def _read_on(self, *, salvage: bool, for_writing: bool = False) -> None:
        """Read on; once more from the index's watermarks where that cannot be done or our view is of another past.

        After a failed sync records that we had read may be nobody's any more: a later segment supersedes them.
        """
        self.is_stale = False
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
        self._projector.fill_history()
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
            durable_seq = 0
            if lineage == self.lineage:  # before the records that it speaks of
                durable_seq = (by_map and self._mapped_seq()) or self._marked_seq()
            for chunk in reader.read_from(self._seen.get(lineage, START), durable_seq, salvage=salvage):
                seen = self.end(lineage)
                is_continued &= not seen.segment < chunk.segment < seen.next_seq
                self._absorb(lineage, chunk, salvage=salvage)
        return is_continued

    def _mapped_seq(self) -> int:
        """What the flush map says is durable: quickly had. Damage is never stated by its word alone."""
        return 0 if self._writer is None else self._writer.mapped_durable()

    def durable_end(self) -> int:
        """The highest seq of our own lineage that is known to be durable now, by whichever process made it so.

        Under the policy ``never`` nobody knows, and what was written counts.
        """
        held = self.end().next_seq - 1
        if not self.syncs:
            return held
        found = max(self._marked_seq(), self._mapped_seq()) or self.reader(self.lineage).durable_at(self.end())
        self.durable_seq = max(self.durable_seq, min(found, held))
        return self.durable_seq

    def _marked_seq(self) -> int:
        """The seq of our own lineage that is durable as far as its mark states, or as we know ourselves."""
        mark = read_durable(self.layout.durable)
        if mark is not None and mark.lineage == self.lineage:
            self.durable_seq = max(self.durable_seq, mark.seq)
        return self.durable_seq

    def _absorb(self, lineage: str, chunk: Chunk, *, salvage: bool) -> None:
        for entry in chunk.entries:
            self._overlay.add(entry, lineage, chunk.segment, salvage=salvage)
        self._seen[lineage] = chunk.end
        if chunk.size >= 0:
            inode = chunk.inode or (_place(chunk.path) or (0, 0))[1]  # 0: moved since
            self._sizes[lineage] = (chunk.segment, chunk.size, inode)
        if lineage == self.lineage:
            self._tail = chunk.tail

    def _find_own(self) -> LineageFile | None:
        """Who writes here; None in a fresh clone and in a copy of a store, which writes a lineage of its own."""
        found = read_lineage(self.layout)
        is_own = found is None or is_written_here(self.layout, found)
        self.copied_from = "" if found is None or is_own else found.lineage
        return found if is_own else None

    def _mint(self) -> LineageFile:
        previous, self.copied_from = self.copied_from, ""
        return mint_lineage(self.layout, self.files, self.clock, self.store_id, previous=previous)

    def _own_lineage(self) -> str:
        if self._own is None:
            if read_settings(self.layout).store.id != self.store_id:
                raise self._replaced()
            self._own = self._find_own() or self._mint()
            self.lineages()
        else:
            names = self._folder.names()
            if names is self._own_names:
                return self._own.lineage
            place = _place(self.layout.lineage)
            if place != self._own_place:
                found = read_lineage(self.layout)
                if found is None or (found.lineage, found.store) != (self._own.lineage, self._own.store):
                    raise self._replaced()
                self._own_place = place
            self._own_names = names  # as long as the folder has not changed, the file in it is that one
        if self._own.store != self.store_id:
            raise DamageError(
                f"lineage.json belongs to store {self._own.store}, config.toml says {self.store_id}",
                path=self.layout.lineage,
                safe="Nothing was written.",
                mend="Restore the config.toml that this store was made with.",
            )
        return self._own.lineage

    def _replaced(self) -> EnvironmentFailure:
        return EnvironmentFailure(
            f"{self.layout.root} is no longer the store that was opened",
            safe="Nothing was written.",
            mend="Repeat the command.",
        )

    def _write(
        self, fn: Callable[[Transaction], object], writer: Writer, key: str, *, durable: bool
    ) -> tuple[Receipt, Pending | None]:
        """Under the lock: what a mutation writes, and what has to become durable before it is acknowledged."""
        lineage = self.lineage
        done = self._receipt_of(key) if key else None
        if done is not None:
            return done, self._unsettled(done.lineage, done.last_seq)
        key = key or self.random(10).hex()
        transaction = Transaction(self.types, self._overlay.heads_of, self._overlay.shown)
        fn(transaction)
        if self.damage is not None:  # seen by what a merge reads of the past
            raise self.damage
        if not transaction.drafts:
            last = self.end(lineage).next_seq - 1
            receipt = Receipt(key, lineage, last + 1, last, (), repeated=False)
            return receipt, self._unsettled(lineage, last) if durable else None
        if not durable and any(draft.action != "observe" for draft in transaction.drafts):
            raise UsageError("only observations may be written without a sync of their own")
        receipt, pending = self._append(transaction.drafts, writer, key)
        return receipt, pending if durable and self.syncs else None

    def _unsettled(self, lineage: str, last_seq: int) -> Pending | None:
        """Before records are acknowledged that somebody else wrote: he may have stopped before their sync."""
        if lineage != self.lineage or last_seq <= self.durable_seq or not self.syncs:
            return None
        end = self.end(lineage)
        return Pending(self._writer_of(lineage).settled(end, last_seq), end, self.reader(lineage).leaf_at(end))

    def _make_durable(self, pending: Pending, receipt: Receipt, patience_s: float) -> None:
        """Outside the lock: when this returns, the records of ``receipt`` are on the disk."""
        writer = self._writer_of(self.lineage)
        try:
            try:
                writer.wait(pending.batch, receipt.key, pending.end, pending.leaf)
            except EpochEndedError:
                self._ask_journal(receipt, patience_s)
        except BaseException:  # whatever it was: that descriptor is not used again, what lies there is looked at anew
            writer.close()
            self._forget()
            self._try_refresh()
            raise

    def _ask_journal(self, receipt: Receipt, patience_s: float) -> None:
        """The map is another by now (a segment was left or replaced, the map was damaged): what became of ``receipt``?"""
        unknown = OutcomeUnknownError(
            "cannot tell whether the write reached the disk: the journal was changed before it was known",
            key=receipt.key,
            safe="Everything acknowledged before is durable.",
            mend=f"Repeat the command with --key {receipt.key}: it will not be written twice.",
        )
        try:
            with self._lock.holding(patience_s):
                self._own_lineage()
                self._read_on(salvage=False, for_writing=True)
                self._leave_poisoned()
                is_held = not receipt.record_count or self._receipt_of(receipt.key) == receipt._replace(repeated=True)
                if not is_held:
                    raise unknown
                batch = self._writer_of(self.lineage).settled(self.end(), receipt.last_seq)._replace(epoch=0)
                self._writer_of(self.lineage).wait(batch, receipt.key, self.end(), b"")
        except (LockTimeoutError, DamageError) as error:
            raise unknown from error

    def _leave_poisoned(self) -> None:
        """Have the newest segment be one that every sync of succeeded; the flush map agrees with its end then."""
        for _ in range(2):
            writer, end = self._writer_of(self.lineage), self.end()
            if writer.attach(end) and not writer.is_poisoned(end.segment):
                return
            try:
                writer.leave_poisoned(end.segment)
            except OSError as error:
                folder = self.layout.lineage_folder(self.lineage)
                raise environment_failure(error, "begin a new segment in", folder) from error
            self._forget()
            self._read_on(salvage=False, for_writing=True)

    def _writer_of(self, lineage: str) -> SegmentWriter:
        if self._writer is None or self._writer.lineage != lineage:
            self._writer = SegmentWriter(self, lineage)
        return self._writer

    def _read_ahead(self) -> None:
        """While the lock is waited for: what is read now need not be read under it."""
        try:
            self._read_on(salvage=False)
        except PeriplusError:
            pass  # under the lock it is met again, and told

    def _try_refresh(self) -> None:
        try:
            self.refresh()
        except PeriplusError:
            pass  # the error that brought us here is the one to tell; the next refresh reads again

    def _receipt_of(self, key: str) -> Receipt | None:
        return receipt_of(key, self._overlay, self.index)

    def _append(self, drafts: list[Draft], writer: Writer, key: str) -> tuple[Receipt, Pending]:
        lineage = self.lineage
        position = self.end(lineage)
        try:
            known = self._sizes.get(lineage)  # as it was validated with under this lock
            inode = known[2] if known is not None else 0
            done = self._writer_of(lineage).append(drafts, writer, key, position, self._tail, inode)
        except BaseException:  # whatever stopped the write, what lies there now is not what we knew
            self._writer_of(lineage).close()
            self._forget()  # what lies behind the last batch is looked at anew
            self._try_refresh()
            raise
        entries, end = done.entries, done.end
        for entry, draft in zip(entries, drafts, strict=True):
            self._overlay.add(entry, lineage, end.segment, version=draft.version)
        self._seen[lineage] = end
        self._sizes[lineage] = (end.segment, end.offset, done.inode)
        self._tail = None
        versions = tuple(draft.version for draft in drafts if draft.version)
        first = entries[0].record.seq
        receipt = Receipt(key, lineage, first, first + len(entries) - 1, versions, repeated=False)
        return receipt, Pending(done.batch, end, entries[-1].leaf)


def _place(path: str) -> tuple[int, ...]:
    """Which file this is, and whether it was changed; nothing where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
