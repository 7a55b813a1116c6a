"""Update of the projections: entity files for people and git, and the index, up to the durable end of the journal.

A process that gets the projection lock without waiting does the work for all. One that does not get it loses nothing, because every reader
replays what a projection lacks. Files are written before the watermark moves, so that it never covers a missing file; a file that cannot be
written has a row that says so, and is tried again. Files are not synced one by one: a row of the index's ``files`` is trusted only in the
boot in which its file was written, or once a sync of the file system has sealed it. A file with content that is not in the journal is not
overwritten: ``take_in`` makes a record of it, or reports why not.
"""

from __future__ import annotations

__all__ = ["Projector"]

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from periplus.base.encoding.digests import sha256
from periplus.base.errors import DamageError, EnvironmentFailure, LockTimeoutError, RefusedError
from periplus.base.files import TEMPORARY_SUFFIX, write_atomic, write_new
from periplus.base.process.locks import Lock
from periplus.journal.projections.entity_file import has_file, is_same_text, read_stamped, render_entity, stamp_of
from periplus.journal.projections.file_verdict import judge
from periplus.journal.projections.git_state import is_busy
from periplus.journal.projections.look_schedule import FILES_COMMIT, FILES_LOOKED
from periplus.journal.records.segment import Entry
from periplus.journal.state.entity import Change, Entity, change_of
from periplus.journal.state.index_values import FileRow, HistoryNeededError, Looked
from periplus.journal.storage.lineage import START, Position, read_durable
from periplus.journal.storage.progress import Progress, no_progress
from periplus.journal.storage.settings import is_written_here, read_lineage

if TYPE_CHECKING:
    from periplus.journal.index.indexed_journal import IndexedJournal

SEAL_FILES_MIN: Final = 512
HISTORY_PATIENCE_S: Final = 1.0  # enough for an update; a longer holder is rebuilding the index
_STEP_MASK: Final = 0xFF
_LEFT: Final = re.compile(rf"\..+\.json\.\d+\.[0-9a-f]{{8}}{re.escape(TEMPORARY_SUFFIX)}")


class Projector:
    """Writer of the projections of one journal."""

    def __init__(self, journal: IndexedJournal, progress: Progress = no_progress) -> None:
        self._journal = journal
        self._progress = progress
        self._lock = Lock(journal.layout.projection_lock)
        self.is_alone = False  # this process holds the lock
        self.untaken: set[tuple[str, str]] = set()
        self.unwritten: dict[str, str] = {}  # files that could not be written, with the reason

    @property
    def is_held(self) -> bool:
        """True if its lock is held or waited for."""
        return self._lock.is_held

    def close(self) -> None:
        self._lock.close()

    @contextmanager
    def alone(self, patience_s: float) -> Iterator[None]:
        """Hold the lock; reentrant for the same projector. Raises LockTimeoutError."""
        if self.is_alone:
            yield
            return
        with self._lock.holding(patience_s):
            self.is_alone = True
            try:
                yield
            finally:
                self.is_alone = False

    def run(
        self,
        patience_s: float = 0.0,
        *,
        rewrite: Iterable[tuple[str, str]] = (),
        looked: Looked | None = None,
    ) -> bool:
        """Bring files and index up to date; return False if another process is still at it after ``patience_s``, or the folder cannot be
        written.

        ``rewrite`` names entities whose files are compared although no record touched them, ``looked`` the files found in order (see
        ``take_in``).
        """
        index = self._journal.index
        if index.is_memory:
            try:
                self._apply()
            except HistoryNeededError:
                self._apply(is_whole=True)
            return True
        if not index.is_writable:
            return False
        try:
            with self.alone(patience_s):
                try:
                    self._apply(rewrite=rewrite, looked=looked)
                except HistoryNeededError:
                    self._apply(rewrite=rewrite, looked=looked, is_whole=True)
        except LockTimeoutError:
            return False  # our snapshot of the index is kept
        except (EnvironmentFailure, OSError):
            index.end()  # derived state lags behind, which its watermark shows
            if not self._journal.index.is_memory:
                return False
            self._apply()  # the disk is full; the index is now in memory
        return True

    def fill(self) -> None:
        """Fill the current index, an empty one that nobody else has open. Raises EnvironmentFailure, DamageError."""
        try:
            self._apply()
        except HistoryNeededError:
            self._apply(is_whole=True)

    def fill_history(self, patience_s: float = HISTORY_PATIENCE_S) -> bool:
        """Index every record, including those before the checkpoint from which the index was loaded.

        Return False if another process keeps the lock for ``patience_s``, or the disk has no room. Raises DamageError.
        """
        index = self._journal.index
        if index.is_memory:
            self._apply(is_whole=True)
            return True
        try:
            with self.alone(patience_s):
                index.end()
                if index.has_floors:  # otherwise another process did it meanwhile
                    self._apply(is_whole=True)
        except (LockTimeoutError, EnvironmentFailure):
            return False
        return True

    def salvage(self) -> None:
        """Fill an index in memory with the sound part of a damaged journal."""
        assert self._journal.index.is_memory
        self._apply(salvage=True)

    def _apply(
        self,
        *,
        salvage: bool = False,
        is_whole: bool = False,
        rewrite: Iterable[tuple[str, str]] = (),
        looked: Looked | None = None,
    ) -> None:
        import sqlite3

        journal, index = self._journal, self._journal.index
        try:
            index.begin_write()
            limits = self._limits()
            touched = self._take_in(limits, salvage=salvage, is_whole=is_whole)
            if not limits and (limits := self._limits()):
                # Another process began to write meanwhile, and records read from it may not be durable.
                index.begin_write()
                touched = self._take_in(limits, salvage=salvage, is_whole=is_whole)
            index.finish(touched, self._progress)
            self._write_files({*touched, *rewrite}, looked.settled if looked is not None else {})
            if looked is not None:
                index.set_looked_at(looked.linked)
                index.set_meta(FILES_COMMIT, looked.commit)
                index.set_meta(FILES_LOOKED, looked.looked)
            if not salvage:
                self._refuse_damage()
            index.commit()
        except sqlite3.Error as error:
            path = journal.index_path
            index.end()
            index.give_way(error)
            raise EnvironmentFailure(
                f"the index {path} cannot be written: {error}", safe="The journal is untouched."
            ) from error
        except BaseException:  # no transaction may stay open, whatever ended it
            index.end()
            raise

    def _take_in(self, limits: Mapping[str, int], *, salvage: bool, is_whole: bool) -> set[tuple[str, str]]:
        """Index the records after the watermarks, up to ``limits`` by lineage; return the entities that they touch."""
        journal, index = self._journal, self._journal.index
        watermarks = index.watermarks()
        if is_whole:
            index.clear()
        touched: set[tuple[str, str]] = set()
        if is_whole or (not watermarks and not salvage):
            from periplus.journal.checkpoints.index_filling import (
                load_journal,  # lazy: loads checkpoints, not needed by each mutation
            )

            touched = load_journal(journal, index, limits, is_whole=is_whole, progress=self._progress)
            if not index.is_memory:
                self._sweep()
        else:
            for lineage in journal.lineages():
                position = watermarks.get(lineage, START)
                touched |= self._index_lineage(lineage, position, limits.get(lineage), salvage=salvage)
        return touched

    def _refuse_damage(self) -> None:
        """Raise the journal's damage, so that nothing is kept that was merged without unreadable superseded versions."""
        if self._journal.damage is not None:
            raise self._journal.damage

    def _limits(self) -> dict[str, int]:
        """Return the highest seq known to be durable, for the lineage written here.

        The mark of a lineage that was left, or that a copy came with, is no limit: records that arrive in that lineage now were durable
        elsewhere.
        """
        journal = self._journal
        if not journal.syncs:
            return {}
        mark = read_durable(journal.layout.durable)
        if mark is None:  # nothing was synced yet, or the mark was lost; the flush map may know
            known = self._mapped()
            before = (
                journal.reader(journal.lineage).newest() - 1 if known is not None else 0
            )  # records of earlier segments are durable
            return {} if known is None else {journal.lineage: max(known, before, journal.durable_seq)}
        if mark.lineage != journal.lineage:  # the lineage was left, or changed by another process
            try:
                own = read_lineage(journal.layout)
            except DamageError:  # the mark's lineage cannot be checked
                own = None
            if own is not None and not (own.lineage == mark.lineage and is_written_here(journal.layout, own)):
                return {}
            return {mark.lineage: mark.seq}
        durable_seq = max(mark.seq, journal.durable_seq)
        if durable_seq < journal.end().next_seq - 1:  # a leader that synced for others marks only its own records
            known = self._mapped()
            if known is None:
                from periplus.journal.storage.group_commit import is_of_earlier_start

                if is_of_earlier_start(journal.layout.flush, journal.lineage, journal.files):
                    return {}
            durable_seq = max(durable_seq, known or 0)
        return {mark.lineage: durable_seq}

    def _mapped(self) -> int | None:
        """Return the durable seq in the flush map for the lineage written here; None if it has none."""
        from periplus.journal.storage.group_commit import surely_durable

        journal = self._journal
        return surely_durable(journal.layout.flush, journal.lineage, journal.files) if journal.lineage else None

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

    def _sweep(self) -> None:
        """Remove temporary files of killed processes: they may hold content redacted since, and git would include them."""
        files, top = self._journal.files, self._journal.layout.entities
        for folder, _, names in os.walk(top):
            for name in names:
                if _LEFT.fullmatch(name):
                    try:
                        files.unlink(os.path.join(folder, name))
                    except OSError:
                        continue  # doctor reports it

    # -- entity files ------------------------------------------------------------------------------------------------

    def add_file(self, entity: Entity) -> None:
        """Write the file of an entity that was just created, before the index has it; an existing file is not touched.

        If it cannot be written, or git is at work, indexing the record writes it later. Takes no lock, because the file is new.
        """
        journal = self._journal
        if (
            journal.index.is_memory
            or not journal.index.is_writable
            or not has_file(journal.types, entity.item_type, entity.item_id)
        ):
            return
        if is_busy(journal.layout.root):
            return
        path = journal.layout.entity_file(entity.item_type, entity.item_id)
        try:
            journal.files.make_folder(os.path.dirname(path))
            write_new(journal.files, path, render_entity(entity), durable=False)
        except (RefusedError, EnvironmentFailure, OSError):
            pass  # indexing tries again and reports it

    def _write_files(self, touched: Iterable[tuple[str, str]], settled: Mapping[tuple[str, str], bytes]) -> None:
        """Bring the files of ``touched`` up to date; ``settled`` are stamps of files whose bytes were just compared."""
        journal, index = self._journal, self._journal.index
        if index.is_memory:
            return
        wanted = sorted(key for key in touched if has_file(journal.types, *key))
        if wanted and is_busy(journal.layout.root):
            # Git is using them. A row without digest and stamp makes the next look examine the file.
            for key in wanted:
                index.set_file(*key, FileRow(b"", b"", ""))
            return
        boot = journal.files.boot_id()
        written = 0
        for number, key in enumerate(wanted):
            if not number & _STEP_MASK:
                self._progress(number, len(wanted))
            written += self._try_file(*key, boot)
        index.settle_files(settled, boot)
        if written >= SEAL_FILES_MIN and journal.files.sync_everything(journal.layout.entities):
            index.seal_files()

    def _try_file(self, item_type: str, item_id: str, boot: str) -> bool:
        """Write a file if needed; return True if it was written.

        A file that cannot be written (a folder or link in its place, another owner, a full disk) does not keep others from being indexed;
        the next look tries again and reports it.
        """
        path = self._journal.layout.entity_file(item_type, item_id)
        try:
            is_written = self._write_file(item_type, item_id, boot)
        except (EnvironmentFailure, OSError) as error:
            self._journal.index.set_file(item_type, item_id, FileRow(b"", b"", ""))
            self.unwritten[path] = str(getattr(error, "strerror", None) or error)
            return False
        self.unwritten.pop(path, None)
        return is_written

    def _write_file(self, item_type: str, item_id: str, boot: str) -> bool:
        """Write or remove a file if needed; return True if that was done. A file with content that is not in the journal stays for
        ``take_in``.

        Raises EnvironmentFailure, OSError, and DamageError if the entity's merge base cannot be read.
        """
        journal, index = self._journal, self._journal.index
        entity = index.entity(item_type, item_id)
        self._refuse_damage()  # before writing; an untouched entity is merged only now
        path = journal.layout.entity_file(item_type, item_id)
        wanted = render_entity(entity) if entity is not None and not entity.deleted else None
        try:
            found, stamp = read_stamped(path)
        except FileNotFoundError:
            found, stamp = None, b""
        row = index.file_row(item_type, item_id)
        is_foreign = found is not None and found != wanted and (row is None or sha256(found) != row.sha256)
        if is_foreign and judge(journal, item_type, item_id, found or b"").kind not in ("held", "torn"):
            self.untaken.add((item_type, item_id))
            index.set_file(item_type, item_id, FileRow(b"", b"", ""))
            return False
        if found is None and wanted is None:
            index.set_file(item_type, item_id, None)
            return False
        if found is not None and wanted is not None and is_same_text(found, wanted):
            digest = sha256(found)
            if row is None or row.sha256 != digest:  # otherwise stamp and boot stay valid
                index.set_file(item_type, item_id, FileRow(digest, b"", boot))
            return False
        if found is not None and stamp_of(path) != stamp:
            self.untaken.add((item_type, item_id))  # changed since it was read
            index.set_file(item_type, item_id, FileRow(b"", b"", ""))
            return False
        if wanted is None:
            journal.files.unlink(path)  # safe: there is a tombstone, and the journal holds the bytes
            index.set_file(item_type, item_id, None)
            return True
        journal.files.make_folder(os.path.dirname(path))
        write_atomic(journal.files, path, wanted, durable=False)
        index.set_file(item_type, item_id, FileRow(sha256(wanted), b"", boot))
        return True


def _after(entry: Entry, segment: int) -> Position:
    return Position(segment, entry.offset + entry.length, entry.record.seq + 1, entry.leaf[:8].hex())
