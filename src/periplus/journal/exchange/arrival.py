"""Transfer of one lineage from a carrier into a folder: compare, stage, verify in full, then rename into place.

Theory of operation
-------------------
The copy here is a prefix of what the lineage's owner wrote. Segments that the source has beyond it are written to a staging folder, and a
``LineageReader`` reads on from the end of our copy into them. Every checksum, batch, header and the chain of segments is checked as for our
own files, and incomplete data at the end is cut off. What both sides hold must be the same bytes, or at least the same leaves (a stub and
its record have one leaf). Otherwise the lineage has forked or the copy is damaged, and nothing is taken. If a signed head covers the
records, their tree must have its root.

Only then is anything changed, in an order in which an interruption at any call leaves a valid prefix: objects before the records that name
them, segments in ascending order, each renamed as a whole, the head after the records it covers. A growing segment is replaced, never
appended to, so that no reader sees half a batch.
"""

from __future__ import annotations

__all__ = ["Arrival", "held_end"]

import os
import shlex
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import (
    ConflictError,
    DamageError,
    ForkError,
    NewerFormatError,
    PeriplusError,
    RefusedError,
    environment_failure,
)
from periplus.base.files import read_plain, write_all, write_atomic
from periplus.base.named_tuple import NamedTuple
from periplus.journal.carriers import Carrier, FolderCarrier, SignedHead
from periplus.journal.carriers.carrier import SEGMENTS_MAX
from periplus.journal.checkpoints.checkpoint_files import remove_checkpoints
from periplus.journal.checkpoints.offline_archive import check_all_here
from periplus.journal.index.index_file import discard_indexes
from periplus.journal.records.record import Record
from periplus.journal.records.segment import Entry, decode_header, scan, segment_name
from periplus.journal.records.stub import AuditedRecord, audited_record, objects_removed_by, unaudited
from periplus.journal.recovery.object_transfer import UNTOUCHED, IncomingObjects, digest_of
from periplus.journal.recovery.removed_content import TakenOut, removed_objects
from periplus.journal.state.entity import Change, change_of
from periplus.journal.storage.keys import fingerprint, keep_public_key
from periplus.journal.storage.lineage import START, Chunk, LineageReader, Position
from periplus.journal.storage.tree_head import Peer, Seen, encode_head, read_peer, write_peer
from periplus.merkle import Frontier

if TYPE_CHECKING:
    from periplus.journal.recovery.signed_audits import Audits

_TRIES_MAX: Final = 4
_EMPTYING_BYTES_MAX: Final = 64 << 20


class _Part(NamedTuple):
    """A staged segment and the number of its valid bytes."""

    segment: int
    size: int


class Arrival:
    """The records of ``lineage`` that ``source`` has beyond those in the folder ``target``; ``staging`` is a folder for this arrival alone."""

    def __init__(
        self, target: FolderCarrier, source: Carrier, lineage: str, stores: Collection[str], staging: str
    ) -> None:
        self.lineage = lineage
        self.new_bytes = 0
        self.new_records = 0
        self.emptied_seqs: set[int] = set()  # records here whose content was redacted in the source
        self.returned_seqs: set[int] = set()  # records lost here to damage that the source has
        self._audits: Audits | None = None
        self._doomed: set[bytes] = set()
        self._is_removing = False  # the source redacted objects that the target holds
        self._named: set[bytes] = (
            set()
        )  # objects redacted in the source, held here or not: one may be stored here meanwhile
        self._target = target
        self._source = source
        self._stores = stores
        self._files = target.files
        self._staging = staging
        self._reader = LineageReader(target.layout.lineage_folder(lineage), stores, lineage)
        self._staged = LineageReader(staging, stores, lineage, is_synced=source.is_synced())
        self.head: SignedHead | None = None
        self._peer: Peer | None = None
        self._key: bytes | None = None
        self.position, self._tail_leaves = held_end(self._reader)
        self._reader_start = self.position
        self.parts: list[_Part] = []
        self.end = self.position
        self._has_stubs = False
        self.awaits_head = False  # the owner's signed head precedes its audit record: nothing can be taken yet
        self.objects = IncomingObjects(target, source, lineage, self._new_chunks, self.returned_seqs)
        self.awaits_audit = False  # the audit record lies in another lineage there, which must come first

    # -- looking -----------------------------------------------------------------------------------------------------

    def examine(self) -> None:
        """Compare, stage and verify. Raises ForkError, RefusedError (the key changed), DamageError."""
        try:
            self._check_key()
            limit, required = self._limits()
            if self._stage() and (limit is None or limit >= self.position.next_seq or self._has_stubs):
                self._verify(limit, required)
            if not self.awaits_head:
                self._check_roots()
        except DamageError as error:
            raise self._refused(error) from error

    def returned(self) -> Iterator[tuple[Record, Change]]:
        """Yield the records with entity content that were lost here to damage and that the source has."""
        for chunk, entries in self._new_chunks():
            for entry in entries:
                if entry.record.seq in self.returned_seqs and not entry.record.is_stub:
                    change = change_of(
                        entry, self.lineage, chunk.segment, lambda sha256: self.objects.lend(digest_of(sha256))
                    )
                    if change is not None and change.payload:
                        yield entry.record, change

    # -- taking over -------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Rename the staged files into place, under the writers' lock of the target. Idempotent."""
        files, layout = self._files, self._target.layout
        is_emptying = self.is_emptying
        if is_emptying and self._target.is_store:
            check_all_here(layout, self._stores)
        self._remember(None)
        folder = layout.lineage_folder(self.lineage)
        try:
            for part in self.parts:
                self._finish_staged(part)
            if self.parts:
                files.make_folder(folder)
            if self._is_changing or self._named:  # after an interruption behind this line, the next arrival continues
                write_atomic(files, self._emptying_path, "".join(f"{one.hex()}\n" for one in self._doomed).encode())
            if self._is_changing:
                self._discard_index()  # it holds positions and content of records
            if self.parts:
                self._rename(folder)
                files.sync_folder(layout.journal)
        except OSError as error:
            raise environment_failure(error, "write", folder) from error
        held = self._target.head(self.lineage)
        if self.head is not None and self._covers(self.head) and (held is None or held.head.size < self.head.head.size):
            files.make_folder(folder)
            write_atomic(files, self._target.head_path(self.lineage), encode_head(self.head))
        self._remember(self.head)
        if is_emptying:
            self._remove_emptied()
        elif self._named:
            self._remove_late()
            self._end_emptying()

    @property
    def is_emptying(self) -> bool:
        """True if records held here change, now or in an interrupted arrival: their content was redacted elsewhere, or lost content is
        back.
        """
        return self._is_changing or os.path.exists(self._emptying_path)

    def doomed_here(self) -> set[bytes]:
        """Return the objects held by the target that will be removed because the incoming records state their redaction."""
        return {one for one in self._doomed | self._named if self._target.objects.has(one)}

    @property
    def _is_changing(self) -> bool:
        return bool(self.emptied_seqs or self.returned_seqs) or self._is_removing

    @property
    def _emptying_path(self) -> str:
        return self._target.layout.emptying_file(self.lineage)

    def _rename(self, folder: str) -> None:
        for _ in range(_TRIES_MAX):
            with self._target.writing():
                if held_end(self._reader)[0] != self._reader_start:
                    break
                if self.objects.is_judged():
                    self._put_in_place(folder)
                    return
            self.objects.judge_again()
        raise ConflictError(f"{self.lineage} changed while it was copied", safe=UNTOUCHED, mend="Repeat the command.")

    def _put_in_place(self, folder: str) -> None:
        # Newer segments first: they hold the audit records for the content that the older ones have lost.
        for part in sorted(self.parts, key=lambda part: part.segment < self._reader_start.segment):
            self._files.replace(self._staged_path(part.segment), self._reader.path_of(part.segment))
        self._files.sync_folder(folder)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _check_key(self) -> None:
        source, lineage = self._source, self.lineage
        self.head = source.head(lineage)
        key = source.key(lineage)
        if self.head is not None:
            said = self.head.head
            if said.lineage != lineage or said.store not in self._stores:
                raise DamageError(f"the signed head there is of {said.lineage} of store {said.store}")
            if not self.head.is_signed():
                raise DamageError("the signed head there is not signed by the key that it names")
        elif source.needs_heads or self._target.needs_heads:
            raise RefusedError(f"{source.place}: {lineage} has no signed head", safe=UNTOUCHED,
                               mend="Its owner puts it there with `periplus sync`.")  # fmt: skip
        self._peer = read_peer(self._target.layout, lineage) if self._target.is_store else None
        is_pinned = self._peer is not None and self._peer.key
        pinned = bytes.fromhex(self._peer.key) if self._peer is not None and is_pinned else self._target.key(lineage)
        if pinned is not None and key is not None and key != pinned:
            raise RefusedError(
                f"{source.place}: {lineage} comes with key {fingerprint(key)}, but was first seen with key {fingerprint(pinned)}",
                safe=UNTOUCHED,
                mend="That lineage is this store's own: somebody else wrote under its name. Remove what is there, then repeat the sync."
                if self._target.is_store and lineage == self._target.written_lineage()
                else "Ask its owner which of the two is theirs. Somebody may be writing in their name.",
            )
        self._key = pinned or key

    def _limits(self) -> tuple[int | None, int]:
        """Return ``(the last seq to take, the last seq that must exist)``."""
        known = self._source.durable_seq(self.lineage)
        if self._source.needs_heads or self._target.needs_heads:
            assert self.head is not None
            return self.head.head.size, self.head.head.size
        return known, known or 0

    def _stage(self) -> bool:
        """Write the segments that the source has beyond ours to the staging folder; return False if there are none."""
        held = set(self._reader.segments())
        last = self.position.segment
        theirs = self._source.segments(self.lineage)
        if len(theirs) > SEGMENTS_MAX:
            raise DamageError(f"over {SEGMENTS_MAX:,} segments")
        is_new = last_staged = False
        for segment in theirs:
            data = self._source.fetch(self.lineage, segment)
            if segment not in held:
                if segment != theirs[-1]:
                    _check_header(data, segment)  # fail early if the segments are invalid
                if segment < last:
                    raise DamageError(
                        f"{self._target.place}: {self.lineage}: the segment that begins at seq {segment} is missing, and {self._source.place} has it",
                        safe=UNTOUCHED,
                        mend=f"In {self._target.place}: `periplus doctor --repair --from {shlex.quote(self._source.place)}` brings it back.",
                    )
                self._write_staged(segment, data)
                is_new = True
                continue
            ours = self._target.fetch(self.lineage, segment)
            if segment == last:
                ours = ours[: self.position.offset]
            if segment != last and data == ours:
                continue
            merged, has_more = self._merged(segment, ours, data)
            if segment == last:
                self._write_staged(segment, merged)
                last_staged = True
                is_new |= has_more
            elif merged != ours:
                self._has_stubs = True
        if self._has_stubs:
            return self._stage_stubs(held, theirs)
        if is_new and last and not last_staged:
            self._write_staged(last, self._target.fetch(self.lineage, last)[: self.position.offset])
        return is_new

    def _merged(self, segment: int, ours: bytes, theirs: bytes) -> tuple[bytes, bool]:
        """Return ``(the merged bytes of the segment, whether theirs continues beyond ours)``. Raises ForkError.

        Of a record and its stub the stub is kept, except for a record lost to damage, where the record is kept. Of two different stubs the
        one that a redaction made is kept.
        """
        if theirs.startswith(ours):
            return theirs, len(theirs) > len(ours)
        if ours.startswith(theirs):
            return ours, False
        mine, other = _entries(ours, segment), _entries(theirs, segment)
        theirs_by_seq = {entry.record.seq: entry for entry in other}
        from_ours: set[int] = set()
        from_theirs: set[int] = set()
        for entry in mine:
            match = theirs_by_seq.get(entry.record.seq)
            if match is None:
                continue
            self._check_leaf(entry.record.seq, entry.leaf, match.leaf)
            seq, line, other_line = entry.record.seq, _line_of(ours, entry), _line_of(theirs, match)
            if entry.record.is_stub and match.record.is_stub and line != other_line:
                said = self._said().taken_out
                if audited_record(other_line, match.leaf, seq) in said:
                    from_theirs.add(seq)
                elif audited_record(line, entry.leaf, seq) in said:
                    from_ours.add(seq)
            if entry.record.is_stub == match.record.is_stub:
                continue
            is_lost = (seq, entry.leaf.hex()) in self._said().lost
            (from_ours if entry.record.is_stub != is_lost else from_theirs).add(seq)
            if is_lost and entry.record.is_stub:
                self.returned_seqs.add(seq)
            elif not is_lost and match.record.is_stub:
                ref = entry.record.payload_ref
                self.emptied_seqs.add(seq)
                self._doomed |= {digest_of(ref.sha256)} if ref is not None else set()
        has_more = len(other) > len(mine)
        if not from_ours and not from_theirs:
            return (theirs, True) if has_more else (ours, False)
        if not from_theirs and not has_more:
            return ours, False
        self._has_stubs = True
        if not from_ours and len(other) >= len(mine):
            return theirs, has_more
        if has_more:
            return _joined(theirs, other, ours, mine, from_ours), True
        return _joined(ours, mine, theirs, other, from_theirs), False

    def _said(self) -> Audits:
        """Return what the audit records of both sides state about the lineage."""
        if self._audits is None:
            from periplus.journal.recovery.signed_audits import audits_of, segments_of_carrier, segments_of_readers

            def segments() -> Iterator[tuple[str, int, bytes]]:
                yield from segments_of_readers(self._target.lineages(), self._target.reader)
                yield from segments_of_carrier(self._source)

            self._audits = audits_of(segments(), self.lineage, self._key or b"")
        return self._audits

    def _stage_stubs(self, held: set[int], theirs: list[int]) -> bool:
        """Stage the whole lineage, to be read from the start, because a record was redacted in the source."""
        for segment in sorted(held):
            ours = self._target.fetch(self.lineage, segment)
            data = self._source.fetch(self.lineage, segment) if segment in theirs else ours
            counted = ours if segment != self.position.segment else ours[: self.position.offset]
            self._write_staged(segment, self._merged(segment, counted, data)[0] if data != ours else ours)
        self.position = START
        return True

    def _check_leaf(self, seq: int, ours: bytes, theirs: bytes) -> None:
        if ours != theirs:
            fork = ForkError(
                f"{self.lineage} has forked: record {seq} is {ours.hex()} here and {theirs.hex()} in {self._source.place}",
                safe=UNTOUCHED,
                mend=f"Two stores wrote one lineage, for example after a backup was restored. `periplus sync --with {shlex.quote(self._source.place)} --rebase` "
                     "takes theirs, and writes again, in another lineage, what only this side has.",
            )  # fmt: skip
            fork.differs_at = seq
            raise fork

    def _verify(self, limit: int | None, required: int) -> None:
        if limit is not None:
            limit = max(limit, self._reader_start.next_seq - 1)  # keep everything held here
        end, is_cut = self.position, False
        tail: Entry | None = None
        for chunk in self._staged.read_from(self.position, required):
            taken = [entry for entry in chunk.entries if limit is None or entry.record.seq <= limit]
            for entry in taken:
                if entry.record.seq in self._tail_leaves:
                    self._check_leaf(entry.record.seq, self._tail_leaves[entry.record.seq], entry.leaf)
                self._has_stubs |= entry.record.is_stub
                if entry.record.seq >= self._reader_start.next_seq:
                    self._look_for_removed(entry)
            is_whole = len(taken) == len(chunk.entries)
            if taken:
                tail = taken[-1]
                end = Position(chunk.segment, tail.offset + tail.length, tail.record.seq + 1, tail.leaf[:8].hex())
                self.parts.append(_Part(chunk.segment, chunk.size))
                self.new_records += sum(entry.record.seq >= self._reader_start.next_seq for entry in taken)
            is_cut = not is_whole
            if is_cut:
                break
        if tail is not None and tail.record.txn is not None and tail.record.txn[0] != tail.record.txn[1]:
            raise DamageError("the head covers half a batch", seq=tail.record.seq)
        if self.parts:
            self.parts[-1] = _Part(end.segment, end.offset)
        self.end = max(end, self._reader_start, key=lambda place: place.next_seq)
        before = {self._reader_start.segment: self._reader_start.offset}
        self.new_bytes = sum(max(0, part.size - before.get(part.segment, 0)) for part in self.parts)
        if self._has_stubs:
            self._check_stubs(is_cut=is_cut)

    def _look_for_removed(self, entry: Entry) -> None:
        named = removed_objects(entry, self.lineage)
        gone = {one for one in named if self._target.objects.has(one)}
        self._named |= named
        self._doomed |= gone
        self._is_removing |= bool(gone)

    def _check_stubs(self, *, is_cut: bool) -> None:
        at = ""

        def entries() -> Iterator[Entry]:
            nonlocal at
            for path, entry in self._all_entries():
                at = path
                yield entry

        strangers = unaudited(entries(), self.lineage, lambda entry: _line(at, entry))
        if strangers:
            strangers = self._without_those_of_others(strangers)
        if strangers and is_cut:
            self.awaits_head = True
        elif strangers:
            seq = strangers[0][0].record.seq
            raise DamageError(f"the content of record {seq} was taken out and no record says so", seq=seq)

    def _without_those_of_others(
        self, strangers: list[tuple[Entry, AuditedRecord]]
    ) -> list[tuple[Entry, AuditedRecord]]:
        """Return the stubs that no audit record in another lineage names; a lineage that was left is audited in another one."""
        from periplus.journal.recovery.signed_audits import audits_elsewhere, segments_of_carrier, segments_of_readers

        if self._key is None:
            return strangers
        target = self._target
        held = audits_elsewhere(segments_of_readers(target.lineages(), target.reader), self.lineage, self._key)
        strangers = [one for one in strangers if one[1] not in held]
        if strangers:
            said = audits_elsewhere(segments_of_carrier(self._source), self.lineage, self._key)
            count = len(strangers)
            strangers = [one for one in strangers if one[1] not in said]
            self.awaits_audit = len(strangers) < count
        return strangers

    def _check_roots(self) -> None:
        """Check that the records have the root that the owner signed and the one seen earlier."""
        wanted = {}
        if self.head is not None and self._covers(self.head) and self.head.head.size:
            wanted[self.head.head.size] = self.head.head.root
        seen = self._peer.seen if self._peer is not None else None
        if seen is not None and seen.size < self.end.next_seq:
            if wanted.get(seen.size, seen.root) != seen.root:
                raise self._another_past(seen.size, wanted[seen.size])
            if seen.size >= self._reader_start.next_seq:
                wanted[seen.size] = seen.root  # seen here once, and lost since
            elif not self._has_stubs:
                wanted.pop(seen.size, None)  # it was verified when it was noted
        if not wanted:
            return
        tree = Frontier()
        for _, entry in self._all_entries():
            if entry.record.seq <= tree.size:
                continue  # a later segment supersedes the last records of the one before it
            tree.extend([entry.leaf])
            root = wanted.pop(tree.size, None)
            if root is not None and tree.root().hex() != root:
                raise self._another_past(tree.size, root)
        assert not wanted, "a head that covers more than there is"

    def _another_past(self, size: int, root: str) -> ForkError:
        return ForkError(
            f"{self.lineage} has another past: the {size:,} records do not have the root {root} of the head in {self._source.place}",
            safe=UNTOUCHED,
            mend="Two stores wrote one lineage, or records were changed: compare both with `periplus doctor`.",
        )

    def _covers(self, head: SignedHead) -> bool:
        """Return True if the target will hold all records that ``head`` covers."""
        return head.head.size < self.end.next_seq

    def _all_entries(self) -> Iterator[tuple[str, Entry]]:
        """Yield path and entry of all records the target will hold: its own up to the first staged one, then the staged ones."""
        if self.position != START:
            for chunk in self._reader.read_from(START):
                for entry in chunk.entries:
                    if entry.record.seq < self.position.next_seq:
                        yield chunk.path, entry
        for chunk, entries in self._new_chunks(from_start=True):
            for entry in entries:
                yield chunk.path, entry

    def _new_chunks(self, *, from_start: bool = False) -> Iterator[tuple[Chunk, list[Entry]]]:
        if not self.parts:
            return
        first = 1 if from_start else self._reader_start.next_seq
        for chunk in self._staged.read_from(self.position):
            entries = [
                entry
                for entry in chunk.entries
                if (first <= entry.record.seq or entry.record.seq in self.returned_seqs)
                and entry.record.seq < self.end.next_seq
            ]
            if entries:
                yield chunk, entries
            if chunk.segment == self.parts[-1].segment:
                return

    # -- files aside -------------------------------------------------------------------------------------------------

    def _staged_path(self, segment: int) -> str:
        return os.path.join(self._staging, segment_name(segment))

    def _remove_emptied(self) -> None:
        """Remove redacted content from checkpoints, objects and index too, as the owner did.

        No checkpoint is written: the next one is made when it is due, and the target may be another user's store, to which no records are
        written.
        """
        if self._target.is_store:
            remove_checkpoints(self._target.layout, self._files)
        named, gone = set[bytes](), TakenOut(self._target)
        noted = read_plain(self._emptying_path, _EMPTYING_BYTES_MAX).decode("ascii", "replace").split()
        self._doomed |= {bytes.fromhex(one) for one in noted if is_digest_text(one)}
        for lineage in self._target.lineages():
            for chunk in self._target.reader(lineage).read_from(START, salvage=True):
                for entry in chunk.entries:
                    if lineage == self.lineage:
                        self._doomed |= set(map(digest_of, objects_removed_by(entry.record, lineage)))
                    ref = entry.record.payload_ref
                    named |= {bytes.fromhex(ref.sha256)} if ref is not None and is_digest_text(ref.sha256) else set()
        gone.remove(sorted(self._doomed - named), self._target.objects, self._target.writing)
        self._discard_index()  # it may have been rebuilt meanwhile
        self._end_emptying()

    def _remove_late(self) -> None:
        """Remove redacted objects that another process stored while the audit records were arriving."""
        objects = self._target.objects
        objects.wait_for_keepers()
        there = [one for one in sorted(self._named) if objects.has(one)]
        if there:
            gone = TakenOut(self._target)
            gone.remove([one for one in there if one in gone.now()], objects, self._target.writing)

    def _end_emptying(self) -> None:
        try:
            self._files.unlink(self._emptying_path)
        except OSError as error:
            raise environment_failure(error, "remove", self._emptying_path) from error

    def _discard_index(self) -> None:
        if self._target.is_store:
            try:
                discard_indexes(self._target.layout.index)
            except OSError as error:
                raise environment_failure(error, "remove the index", self._target.layout.index) from error

    def _write_staged(self, segment: int, data: bytes) -> None:
        path = self._staged_path(segment)
        try:
            self._files.make_folder(self._staging)
            fd = self._files.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                write_all(self._files, fd, data)
            finally:
                self._files.close(fd)
        except OSError as error:
            raise environment_failure(error, "write", path) from error

    def _finish_staged(self, part: _Part) -> None:
        """Cut a staged segment to its valid bytes and sync it before it is renamed."""
        path = self._staged_path(part.segment)
        data = read_plain(path, part.size)
        if os.path.getsize(path) != part.size:
            self._write_staged(part.segment, data)
        fd = self._files.open(path, os.O_RDONLY)
        try:
            self._files.sync(fd)
        finally:
            self._files.close(fd)

    def _store(self) -> str:
        """Return the store id under which the lineage's heads are signed, among the stores that were joined."""
        if self.head is not None:
            return self.head.head.store
        if len(self._stores) == 1:
            return next(iter(self._stores))
        from periplus.journal.storage.store_joining import stated_store

        held = stated_store(self._target.layout, self.lineage)
        return held or decode_header(self._source.fetch(self.lineage, self._source.segments(self.lineage)[0]))[0].store

    def _remember(self, head: SignedHead | None) -> None:
        """Pin the owner's key at first sight, and note the largest verified head."""
        target = self._target
        if not target.is_store or self._key is None:
            return
        peer = self._peer or Peer(self.lineage, self._store())
        seen = peer.seen
        if head is not None and self._covers(head) and head.head.size > (seen.size if seen is not None else 0):
            seen = Seen(head.head.size, head.head.root, head.signature)
        peer = msgspec.structs.replace(peer, key=self._key.hex(), seen=seen, store=self._store())
        if peer != self._peer:
            write_peer(target.layout, self._files, peer)
            self._peer = peer
        keep_public_key(target.layout, self._files, self.lineage, self._key)

    def _refused(self, error: DamageError) -> DamageError:
        if error.safe == UNTOUCHED:
            return error  # it already names the place
        where = f", seq {error.seq}" if error.seq else ""
        where += f", byte {error.offset:,}" if error.offset is not None else ""
        segment = f" {os.path.basename(error.path)}" if error.path is not None else ""
        kind = type(error)
        is_newer = isinstance(error, NewerFormatError)
        return kind(
            f"{self._source.place}: {self.lineage}{segment}{where}: {error.wrong}",
            safe=UNTOUCHED,
            mend=error.mend
            if is_newer
            else "Finish or repeat the copy there; run `periplus doctor` where it came from.",
        )


def held_end(reader: LineageReader) -> tuple[Position, dict[int, bytes]]:
    """Return the end of a copy of a lineage and the leaves of its newest segment by seq. Raises DamageError."""
    segments = reader.segments()
    if not segments:
        return START, {}
    newest = segments[-1]
    path = reader.path_of(newest)
    try:
        data = read_plain(path, 1 << 30)
    except OSError as error:
        raise environment_failure(error, "read", path) from error
    try:
        _, start = decode_header(data)
    except PeriplusError as error:
        raise DamageError(error.wrong, path=path, offset=0, seq=newest, mend="Run `periplus doctor`.") from error
    found = scan(data[start:], base=start, next_seq=newest)
    if found.damages:
        worst = found.damages[0]
        raise DamageError(
            worst.reason, path=path, offset=worst.offset, seq=worst.first_seq, mend="Run `periplus doctor`."
        )
    if not found.entries:
        return Position(newest, start, newest, data[start - 19 : start - 3].decode("ascii", "replace")), {}
    last = found.entries[-1]
    end = Position(newest, last.offset + last.length, last.record.seq + 1, last.leaf[:8].hex())
    return end, {entry.record.seq: entry.leaf for entry in found.entries}


def _line(path: str, entry: Entry) -> bytes:
    try:
        return read_plain(path, entry.length, entry.offset)[:-1]
    except OSError as error:
        raise environment_failure(error, "read", path) from error


def _joined(data: bytes, entries: list[Entry], others: bytes, of_others: list[Entry], seqs: Collection[int]) -> bytes:
    """Return the segment ``data`` with the lines of ``seqs`` replaced by those in ``others``."""
    lines = {entry.record.seq: entry for entry in of_others if entry.record.seq in seqs}
    parts, at = [], 0
    for entry in entries:
        other = lines.get(entry.record.seq)
        if other is not None:
            parts += [data[at : entry.offset], others[other.offset : other.offset + other.length]]
            at = entry.offset + entry.length
    return b"".join([*parts, data[at:]])


def _line_of(data: bytes, entry: Entry) -> bytes:
    return data[entry.offset : entry.offset + entry.length - 1]


def _check_header(data: bytes, segment: int) -> None:
    """Raise DamageError if this is not a segment; a newer format is reported when the segment is read."""
    try:
        decode_header(data)
    except NewerFormatError:
        return
    except PeriplusError as error:
        raise DamageError(error.wrong, offset=0, seq=segment) from error


def _entries(data: bytes, segment: int) -> list[Entry]:
    """Return the sound records in a segment's bytes; the caller checks that none is missing."""
    try:
        _, start = decode_header(data)
    except PeriplusError as error:
        raise DamageError(error.wrong, offset=0, seq=segment) from error
    return scan(data[start:], base=start, next_seq=segment, salvage=True).entries
