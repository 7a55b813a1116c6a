"""Journal of a store: ``mutate`` writes; ``reader`` has the reading.

Under the lock, the end of the view of our own lineage *is* the validated tail: seq and versions of the next batch follow from
bytes that were just checked, never from a cache.

Rules kept here:

* one lock, one buffer, one ``write``, one sync for each mutation; nothing slow in the lock but that sync;
* nothing is acknowledged, projected or signed before it is durable;
* a failed sync poisons its segment: no process writes to it again, and the next writer begins a new one.
"""

from __future__ import annotations

__all__ = ["Journal"]

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from periplus.base.errors import (
    DamageError,
    EnvironmentFailure,
    LockTimeoutError,
    OutcomeUnknownError,
    PeriplusError,
    UsageError,
    environment_failure,
)
from periplus.base.process.locks import LOCK_PATIENCE_S
from periplus.journal.index.connection import AtWorkError
from periplus.journal.index.overlay import Added, UnmergedError, names_in
from periplus.journal.index.receipt import Pending, receipt_of, written_by
from periplus.journal.index.tables import IndexDamageError
from periplus.journal.reader import JournalReader
from periplus.journal.state.entity import Entity, Head
from periplus.journal.state.index_values import HistoryNeededError
from periplus.journal.state.transaction import Draft, Receipt, Said, Transaction, Writer
from periplus.journal.storage.lineage import START
from periplus.journal.storage.settings import LineageFile, is_written_here, read_lineage, read_settings
from periplus.journal.storage.store_identity import place_of

if TYPE_CHECKING:
    from periplus.journal.storage.segment_writer import SegmentWriter

OVERLAY_RECORDS_MAX: Final = 2_000
_INDEXED_TOGETHER: Final = (
    64  # records indexed in one transaction, which costs little more than one for a single record
)


class Journal(JournalReader):
    """The journal of a store for reading and writing: open with ``Journal(root, types, …)``, close it or use it in ``with``.

    It belongs to the thread that opened it; another thread gets WrongThreadError, a UsageError. Any number of threads and
    processes may have one each and use them at once.
    """

    _owes_index = False  # this process has records to be indexed later
    _index_due = _INDEXED_TOGETHER  # index when so many records are behind

    def mutate(
        self,
        fn: Callable[[Transaction], object],
        writer: Writer,
        *,
        key: str = "",
        key_ms: int | None = None,
        durable: bool = True,
        project: bool = True,
        patience_s: float = LOCK_PATIENCE_S,
    ) -> Receipt:
        """Run ``fn`` under the lock and write what it put, all or nothing; durable when this returns.

        ``durable=False`` leaves the sync to the next mutation, for observations only. ``project=False`` leaves files and index to a
        later ``project``. With a ``key`` that was written before this is a repetition: ``fn`` is not run and the first receipt is
        returned. ``key_ms`` is when the key was made, if known: it was not used before, so older records are not searched for it.

        Raises what ``fn`` raises, LockTimeoutError (at once for a mutation within ``fn``), DamageError (nothing was written),
        EnvironmentFailure (nothing was acknowledged), OutcomeUnknownError (repeat with its key).
        """
        self._enter()
        if key:
            if not key.isascii():
                raise UsageError(f"a key is ASCII text, not {ascii(key)[:80]}")
            if self.index.has_floors and self._receipt_of(key) is None:
                self._need_keys(key, key_ms)  # the key may be older than those that a checkpoint keeps
        if self.check_said is not None:
            self._check_who(writer, key)
        segment = self.end().segment
        if self._is_mutating:
            raise _within_itself()
        self._pass_over()
        try:
            self._is_mutating = True
            receipt = self._mutate(fn, writer, key, durable=durable, patience_s=patience_s)
        finally:
            self._is_mutating = False
        if receipt.repeated or not receipt.record_count:
            return receipt
        # Nothing is derived from records that wait for a sync.
        if (durable or not self.syncs) and (project or self._behind > OVERLAY_RECORDS_MAX):
            try:
                self.project()
                if project and self._projector.untaken:
                    self._take_in()
            except EnvironmentFailure:
                # The mutation is durable; the next one updates what is derived.
                if self.end(receipt.lineage).next_seq <= receipt.last_seq:
                    self.rest()  # the next call reads it again, and raises if it cannot
        if segment and self.end().segment != segment:
            self._checkpoint(writer)
        if self.after_mutation is not None:
            self.after_mutation()
        return receipt

    def index_later(self, item_type: str, item_id: str) -> None:
        """After a mutation with ``project=False`` that created this entity: write its file, and index it together with later ones.

        Until then every reader finds it behind the index, like recent records of other processes.
        """
        self._owes_index = True
        try:
            entity = self.get(item_type, item_id)
        except IndexDamageError:
            self.refresh()  # the record is durable; the index is rebuilt
            entity = self.get(item_type, item_id)
        if entity is not None and self.damage is None:
            self._projector.add_file(entity)
        if self._behind < self._index_due:
            return
        try:
            is_done = self.project(spared=_INDEXED_TOGETHER // 2)  # another process has indexed most of them
            if self._projector.untaken:
                self._take_in()
        except EnvironmentFailure:
            is_done = False  # see ``mutate``
        self._index_due = _INDEXED_TOGETHER if is_done else self._behind + _INDEXED_TOGETHER

    def _check_who(self, writer: Writer, key: str) -> None:
        """Check the writer, the session and the key of the records with ``check_said``."""
        assert self.check_said is not None
        if key:
            self.check_said(Said("key", key))
        if writer is not self._checked_writer:
            self.check_said(Said("writer", writer.name))
            self.check_said(Said("session", writer.session))
            self._checked_writer = writer

    def leave_lineage(self) -> str:
        """Begin a new lineage of our own; return the id of the old one, which stays as it is.

        For a store that was restored to an earlier state: other clones hold records of its lineage that it does not have.
        """
        with self._lock.holding():
            left = self._own_lineage()
            if self._writer is not None:
                self._start_over(self._writer)
            self.copied_from, self.durable_seq = left, 0
            self._own = self._mint()
            self._own_place = place_of(self.layout.lineage)
            self._forget()
        self.refresh()
        return left

    def state_left(self, lineage: str, records: int) -> None:
        """Note that ``lineage``, which was written here before, is acknowledged up to its first ``records`` and no further."""
        from periplus.journal.storage.lineage_creation import restate_left

        with self._lock.holding():
            self._own_lineage()
            assert self._own is not None
            if self._own.left.get(lineage, records) != records:
                self._own = restate_left(self.layout, self.files, self._own, lineage, records)
                self._own_place = place_of(self.layout.lineage)

    def writing(self, patience_s: float = LOCK_PATIENCE_S) -> AbstractContextManager[object]:
        """Hold the writers' lock to change the journal's files without a mutation."""
        self._enter()
        self._have_folder()
        return self._lock.holding(patience_s)

    def roll(self) -> None:
        """Begin a new segment, so that everything written so far is in files that no process writes to."""
        self._enter()
        with self._lock.holding():
            lineage = self._own_lineage()
            self._read_on(salvage=False, for_writing=True)
            self._leave_poisoned()
            end = self.end(lineage)
            if end.next_seq == max(end.segment, 1):
                return  # the newest segment is still empty
            self._writer_of(lineage).roll(end)
            self.durable_seq = end.next_seq - 1
            self._forget()
            self._read_on(salvage=False, for_writing=True)

    def settle(self, writer: Writer) -> None:
        """Make sure that what was written counts as durable, as when the marks are gone or lag; otherwise it would not be exchanged."""
        if self.damage is not None or not self.lineage or self.durable_end() >= self.end().next_seq - 1:
            return
        try:
            self.mutate(lambda _: None, writer)
        except PeriplusError:
            pass  # a store that cannot be written exchanges what is known to be durable

    # -- inside --------------------------------------------------------------------------------------------------------

    def _pass_over(self) -> None:
        """Clear an error of a merge whose bases are elsewhere: it concerns one entity, and a write of that entity meets it again."""
        if isinstance(self.damage, UnmergedError):
            self.damage = None
            self._forget()
            self.refresh()

    def _need_keys(self, key: str, made_ms: int | None) -> None:
        """Make sure that an earlier use of ``key``, however old, is known, without waiting for a process that rebuilds the index."""
        from periplus.journal.checkpoints.history_fallback import are_keys_known, is_new_key

        if are_keys_known(self, made_ms):
            return
        if self.fill_whole(0.0):
            self._forget()
            self.refresh()
        elif not is_new_key(self, key):
            self.need_history()

    def _mutate(
        self, fn: Callable[[Transaction], object], writer: Writer, key: str, *, durable: bool, patience_s: float
    ) -> Receipt:
        """Write the records of ``mutate`` and make them durable, without what follows from them."""
        self._have_folder()
        if self._taken.has_floors:
            self._read_ahead()  # reading the history takes long, so not under the lock
        with self._lock.holding(patience_s, self._read_ahead, self._is_in_place) as is_in_place:
            if not is_in_place or not self._is_caught_up():
                self._validate()
            receipt, pending = self._write(fn, writer, key, durable=durable)
        if pending is not None:
            self._make_durable(pending, receipt, patience_s)
        return receipt

    def _have_folder(self) -> None:
        """Make sure that the lock's folder exists; a fresh clone has none before its first write."""
        if self._lock.is_open:
            return
        if os.path.isdir(self.layout.journal):
            from periplus.journal.storage.gitignore import guard

            guard(self.layout, self.files)
            return
        read_settings(self.layout)  # raises if the whole store is gone: no other is made in its place
        self.refresh()
        if self.damage is not None:  # the journal was moved out of its store
            raise self.damage
        self.files.make_folder(self.layout.journal)

    def write_again(self, drafts: list[Draft], writer: Writer, key: str) -> Receipt:
        """Write records of another lineage, with the key that they have there, without checking whether it was used before."""
        self._enter()
        self._have_folder()
        with self._lock.holding():
            self._validate()
            receipt, pending = self._write_drafts(self.lineage, drafts, writer, key, durable=True)
        if pending is not None:
            self._make_durable(pending, receipt, LOCK_PATIENCE_S)
        return receipt

    def close(self) -> None:
        self.check_idle()
        if self._owes_index:
            try:
                self.project()
            except (PeriplusError, OSError):
                pass  # the next process that opens the store does it
        super().close()

    def _start_over(self, appender: SegmentWriter) -> None:
        """After a failed write: close its descriptors and read again what is there."""
        appender.close()
        self._forget()
        self._try_refresh()

    def _checkpoint(self, writer: Writer) -> None:
        """After a roll, outside the lock: make a checkpoint if one is due. The mutation is durable in any case."""
        from periplus.journal.checkpoints.creation import make_due

        try:
            make_due(self, writer)
        except PeriplusError:
            pass  # derived: the next roll tries again, `doctor --compact` reports the reason

    def _take_in(self) -> None:
        """Take in a file that this mutation would have overwritten although it holds content that the journal does not have."""
        from periplus.journal.projections.external_edits import take_in

        self._projector.untaken.clear()
        take_in(self)

    def _mint(self) -> LineageFile:
        from periplus.journal.storage.lineage_creation import create_lineage

        previous, self.copied_from = self.copied_from, ""
        return create_lineage(self.layout, self.files, self.clock, self.store_id, previous=previous)

    def _own_lineage(self) -> str:
        if self._own is None:
            if read_settings(self.layout).store.id != self.store_id:
                raise self._standing.replaced()
            self._own = self._find_own()
            if self._own is None and self.damage is not None:
                raise self.damage  # before a lineage is begun beside a damaged one
            self._own = self._own or self._mint()
            self.lineages()
        else:
            try:
                names = self._folder.names()
            except FileNotFoundError:  # removed since the lock was taken
                raise self._standing.replaced() from None
            except OSError as error:
                raise environment_failure(error, "list", self.layout.journal) from error
            if names is self._own_names:
                return self._own.lineage
            place = place_of(self.layout.lineage)
            if place != self._own_place:
                found = read_lineage(self.layout)
                if found is None or (found.lineage, found.store) != (self._own.lineage, self._own.store):
                    raise self._standing.replaced()
                if not is_written_here(self.layout, found):
                    raise self._standing.replaced()  # a copy took its place: opening that begins a new lineage
                self._own, self._own_place = found, place
            self._own_names = names  # while the folder is unchanged, so is the file in it
        if self._own.store not in self.stores:
            from periplus.journal.storage.store_joining import of_another_store

            raise of_another_store(self.layout, self.settings.store, self._own.store)
        return self._own.lineage

    def _is_in_place(self) -> bool:
        """Under the lock: return True if the names are those that this process validated, and its view covers all that was there."""
        writer = self._writer
        if writer is None or self._own is None or self.is_stale or self.damage is not None or self._tail is not None:
            return False
        return writer.is_in_place()

    def _is_caught_up(self) -> bool:
        """Under the lock, with all in place: move the end of the view to the end of the journal without decoding others' records.

        Return False if there is more than whole batches of other processes.
        """
        lineage, writer = self.lineage, self._writer
        end = self._seen.get(lineage)
        if end is None or writer is None:
            return False
        if writer.is_as_left(end):
            return True
        found = writer.added(end) if not self._taken.has_floors else None
        if found is None:
            return False
        if found[1]:
            count = found[0].next_seq - end.next_seq
            added = Added(end.segment, end.offset, end.next_seq, count, found[1])
            self._step_over(lineage, found[0], added, names_in(added.data))
        return True

    def _validate(self) -> None:
        """Under the lock: bring the view to the end of the journal, and make sure that the newest segment can be written to."""
        if self._writer is None or not self._writer.is_settled or not self._read_added():
            self._own_lineage()
            try:
                self._read_on(salvage=False, for_writing=True)
            except DamageError as error:
                raise self.unnamed_store() or error from None
        self._leave_poisoned()
        writer = self._writer_of(self.lineage)
        if not writer.is_settled and self.syncs and self._to_read(is_listed=True) == [self.lineage]:
            writer.settle(self._folder, self._lock)

    def _read_added(self) -> bool:
        """Take in what other processes added if no name has changed; return False if a full read is needed."""
        lineage = self.lineage
        position = self._seen.get(lineage, START)
        if not position.segment or self._tail is not None or self.damage is not None or self.is_stale:
            return False
        chunk = self.reader(lineage).read_added(position, self._mapped_seq() or self._marked_seq())
        if chunk is None:
            return False
        try:
            self._absorb(lineage, chunk, salvage=False)
        except (DamageError, HistoryNeededError):
            return False  # the full read meets it again and handles it
        return True

    def _write(
        self, fn: Callable[[Transaction], object], writer: Writer, key: str, *, durable: bool
    ) -> tuple[Receipt, Pending | None]:
        """Under the lock: write the records of a mutation; return the receipt and what has to become durable first."""
        lineage = self.lineage
        done = self._receipt_of(key) if key else None
        if done is not None:
            return done, self._unsettled(done.lineage, done.last_seq)
        transaction = Transaction(self.types, self._heads_to_write, self._shown, self.check_said)
        fn(transaction)
        self._owner.check()  # a child forked within ``fn`` does not hold the lock
        return self._write_drafts(lineage, transaction.drafts, writer, key, durable=durable)

    def _write_drafts(
        self, lineage: str, drafts: list[Draft], writer: Writer, key: str, *, durable: bool
    ) -> tuple[Receipt, Pending | None]:
        """Under the lock: write what ``fn`` put; see ``_write``."""
        key = key or self.random(10).hex()
        if self.damage is not None:  # found while a merge read older versions
            raise self.damage
        if not drafts:
            last = self.end(lineage).next_seq - 1
            receipt = Receipt(key, lineage, last + 1, last, (), repeated=False)
            return receipt, self._unsettled(lineage, last) if durable else None
        if not durable and any(draft.action != "observe" for draft in drafts):
            raise UsageError("only observations may be written without a sync")
        receipt, pending = self._append(lineage, drafts, writer, key)
        return receipt, pending if durable and self.syncs else None

    def _heads_to_write(self, item_type: str, item_id: str) -> list[Head]:
        """Return what ``heads_of`` does, without decoding records of other processes that do not name the entity."""
        if self._added and item_id.encode() in self._added_names:
            self._take_added()
        return self._taken.heads_of(item_type, item_id)

    def _shown(self, item_type: str, heads: list[Head]) -> Entity | None:
        return self._taken.shown(item_type, heads)

    def _unsettled(self, lineage: str, last_seq: int) -> Pending | None:
        """Return what has to become durable before records of another process are acknowledged: it may have stopped before its sync."""
        if lineage != self.lineage or last_seq <= self.durable_seq or not self.syncs:
            return None
        end = self.end(lineage)
        return Pending(self._writer_of(lineage).settled(end, last_seq), end, self.reader(lineage).leaf_at(end))

    def _make_durable(self, pending: Pending, receipt: Receipt, patience_s: float) -> None:
        """Outside the lock: wait until the records of ``receipt`` are on disk."""
        from periplus.journal.storage.group_commit import EpochEndedError

        writer = self._writer_of(self.lineage)
        try:
            try:
                writer.wait(pending.batch, receipt.key, pending.end, pending.leaf)
            except EpochEndedError:
                self._ask_journal(receipt, patience_s)
        except BaseException:  # after an interrupt, too, the state of the file is unknown
            self._start_over(writer)
            raise

    def _ask_journal(self, receipt: Receipt, patience_s: float) -> None:
        """Find out what became of ``receipt`` after the flush map changed: a segment was left or replaced, or the map was damaged."""
        unknown = OutcomeUnknownError(
            "cannot tell whether the write reached the disk: the journal was changed meanwhile",
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
        """Make sure that every sync of the newest segment succeeded and that the flush map agrees with its end."""
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
            from periplus.journal.storage.segment_writer import (
                SegmentWriter,  # imported here: a process that only reads never needs it
            )

            self._writer = SegmentWriter(self, lineage)
            self._lock.bell = self._writer.bell
        return self._writer

    def _read_ahead(self) -> None:
        """While waiting for the lock: read what is new, if it is much, so that it need not be read under the lock."""
        if self._writer is not None and not self._taken.has_floors and self._writer.is_near(self.end()):
            return
        try:
            self._read_on(salvage=False)
        except AtWorkError:
            raise  # a signal handler wants to close the journal and ends the wait
        except PeriplusError:
            pass  # it is met again and reported under the lock

    def _try_refresh(self) -> None:
        try:
            self.refresh()
        except AtWorkError:
            raise
        except PeriplusError:
            pass  # the first error is the one to report; the next refresh reads again

    def written_by(self, receipt: Receipt) -> list[tuple[str, str]]:
        """Return type and id of the entity of each record of a mutation, in order; two empty texts for a record of none."""
        return written_by(receipt, self._overlay, self.index, self.reader(receipt.lineage))

    def _receipt_of(self, key: str) -> Receipt | None:
        return receipt_of(key, self._overlay, self.index)

    def _append(self, lineage: str, drafts: list[Draft], writer: Writer, key: str) -> tuple[Receipt, Pending]:
        position = self._seen.get(lineage, START)
        appender = self._writer_of(lineage)
        try:
            known = self._sizes.get(lineage)  # the file that was validated under this lock
            inode = known[2] if known is not None else 0
            entries, end, inode, batch = appender.append(drafts, writer, key, position, self._tail, inode)
            add, segment = self._taken.add, end.segment
            for entry, draft in zip(entries, drafts, strict=True):
                add(entry, lineage, segment, version=draft.version)
            self._seen[lineage] = end
            self._sizes[lineage] = (segment, end.offset, inode)
            self._tail = None
        except BaseException:  # after any failure the file is no longer as we knew it
            self._start_over(appender)
            raise
        versions = tuple([draft.version for draft in drafts if draft.version])
        last = end.next_seq - 1
        receipt = Receipt(key, lineage, last - len(entries) + 1, last, versions, repeated=False)
        return receipt, Pending(batch, end, entries[-1].leaf)


def _within_itself() -> LockTimeoutError:
    """Return the error for a mutation within another mutation of the same journal, which would wait for itself."""
    return LockTimeoutError(
        "a mutation was started within another mutation of the same journal",
        safe="The inner mutation changed nothing.",
        mend="Do everything in one function passed to `mutate`, or start the second mutation after the first.",
    )
