"""Repair: derived data is rebuilt, damaged data is restored from copies; nothing is deleted.

Every file that is about to change is first parked, byte for byte, under ``parked/<time>/``. Records are restored by
``periplus.journal.records.segment_repair``. If a record's content is lost for good, a stub keeps its place, and an audit record states the
loss. The entity's content is then written again from a checkpoint, an entity file or the index, if one of them has exactly that version:
the same content with the same parents is the same version, so the graph is complete again. A large payload whose object is lost is restored
from index or entity file if its digest matches; otherwise ``periplus.journal.recovery.lost_payloads`` keeps the record's place. A damaged
object that nothing names is parked.
"""

from __future__ import annotations

__all__ = ["repair"]

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from typing import Final

import msgspec

from periplus.base.encoding import hashing
from periplus.base.encoding.canonical import JSONValue
from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import (
    DamageError,
    EnvironmentFailure,
    FormatError,
    LockTimeoutError,
    PeriplusError,
    environment_failure,
)
from periplus.base.files import Files, leftover, read_plain, write_atomic
from periplus.base.process.locks import LOCK_PATIENCE_S, Lock
from periplus.journal.checkpoints.checkpoint_files import checkpoint_files, usable_checkpoints
from periplus.journal.checkpoints.format import announcement_of
from periplus.journal.checkpoints.offline_archive import lacks_records, last_checkpointed_segment, twins
from periplus.journal.index.index_file import forget_turns
from periplus.journal.index.row_recovery import IndexRows
from periplus.journal.journal import Journal
from periplus.journal.projections.entity_file import has_file, read_stamped, render_entity
from periplus.journal.projections.file_verdict import judge, read_document
from periplus.journal.proofs.tile_check import check_tree
from periplus.journal.proofs.tiles import LineageTree
from periplus.journal.records.segment import Entry
from periplus.journal.records.stub import AUDIT_RECORDS_MAX, AuditedRecord, audited_record
from periplus.journal.recovery.copies import Copies
from periplus.journal.recovery.lost_payloads import (
    Returned,
    is_held_here,
    returned,
    stubs_for_lost_payloads,
    unaudited_stubs,
    write_again,
)
from periplus.journal.recovery.lost_records import payload_in_file
from periplus.journal.recovery.missing_records import Gaps, lost_lineages
from periplus.journal.recovery.object_transfer import Lender, References
from periplus.journal.recovery.plain_files import PlainFiles
from periplus.journal.recovery.removed_content import TakenOut
from periplus.journal.recovery.repair_plan import LostPlan, counted_records, lost_plans, park_checkpoints
from periplus.journal.recovery.segment_restoration import (
    PREPARED_MAX,
    known_last,
    lender,
    restore_lineage,
    write_restored,
)
from periplus.journal.recovery.signed_audits import audits_of, key_of, segments_of_readers
from periplus.journal.state.entity import change_of, entity_of_head, head_of
from periplus.journal.state.transaction import Transaction, Writer
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.lineage import START, read_durable, write_durable
from periplus.journal.storage.lineage_size import MISSING_FILE
from periplus.journal.storage.parking import Parking, Repair, leftovers, read_whole
from periplus.journal.storage.progress import Progress, no_progress
from periplus.journal.storage.segment_writer import POISON_SUFFIX
from periplus.journal.storage.store_joining import store_ids_in
from periplus.journal.storage.truncation_check import incomplete_lineages

_CHECKPOINT_BYTES_MAX: Final = 1 << 32


def repair(
    journal: Journal,
    writer: Writer,
    *,
    sources: Sequence[str] = (),
    references: References = lambda _entity, _lend: set(),
    all_references: References = lambda _entity, _lend: set(),
    archive_lost: bool = False,
    progress: Progress = no_progress,
) -> list[Repair]:
    """Repair what can be repaired; ``sources`` are folders that may hold copies: other clones, backups, exchange folders.

    Missing segments that a checkpoint covers are left alone if no copy has them, because their archive may lie on another disk. With
    ``archive_lost`` their records are replaced by stubs, like other lost records. ``references`` returns the objects that an entity of a
    layer above needs, read from here or from a copy; ``all_references`` also those it only names, and raises if it cannot tell. A store
    that cannot be opened at all is first treated by ``periplus.journal.recovery.store_rescue``.

    Idempotent; the next call continues after an interruption. Raises EnvironmentFailure, and DamageError if there is no journal to repair.
    """
    _refuse_other_store(journal)
    unnamed = journal.unnamed_store()
    if unnamed is not None:
        raise unnamed
    if journal.damage is not None and journal.own is None and not journal.lineages():
        raise journal.damage  # the journal was taken out of its store
    done: list[Repair] = []
    yard = Parking(journal.layout, journal.files, journal.clock)
    copies = Copies([journal.layout.root, *sources], journal.objects.packing)
    rows = IndexRows(journal.index_path)
    away = 0 if archive_lost else last_checkpointed_segment(journal)
    try:
        with journal.writing():
            for lineage in lost_lineages(journal):  # a copy may have its records, and the index their places
                journal.files.make_folder(journal.layout.lineage_folder(lineage))
        for lineage in journal.lineages():
            mended = list(restore_lineage(journal, lineage, copies, rows, yard, progress, away))
            if mended and lineage == journal.lineage:  # restored records may help to place the others
                mended += restore_lineage(journal, lineage, copies, rows, yard, progress, away)
            done += mended
        is_moved = bool(done)
        broken: set[bytes] = set()
        done += _restore_objects(journal, copies, rows, yard, references, progress, broken)
        done += _give_up_payloads(journal, rows, yard)
        done += _park_unnamed(journal, broken, all_references, lender(journal, copies), yard)
    finally:
        rows.close()
    has_gaps = lacks_records(journal)
    done += _restore_checkpoints(journal, copies, yard, has_gaps=has_gaps)
    done += _tidy(journal, yard)
    # Lost content may exist only in the index, so it is not rebuilt while records are missing and none came back.
    if is_moved or (not has_gaps and (done or journal.damage is None)):
        journal.damage = None
        done += _renew_index(journal)
    done += _park_statements(journal, yard)
    if journal.damage is None:
        given_up = list(_audit_lost(journal, writer))
        if given_up and not has_gaps:
            done += park_checkpoints(journal, yard)
            done += _renew_index(journal)
        done += given_up
        done += _bring_back(journal, copies, yard)
        done += _renew_mark(journal)
        done += _leave_unsigned(journal, yard)
        done += _renew_tiles(journal)
        done += _renew_files(journal, yard)
    return [*done, *_forget_turns(journal)]


def _renew_index(journal: Journal) -> list[Repair]:
    if journal.renew_derived(is_beside=True):
        return []
    path = journal.index_path
    return [Repair("the index is not rebuilt: the disk has no room for a second one beside it, so it stays in use; "
                   "free some space, then repeat the command", path)]  # fmt: skip


def _leave_unsigned(journal: Journal, yard: Parking) -> Iterator[Repair]:
    """Leave a lineage whose private key is lost, since it can no longer be signed, and begin another."""
    own = journal.own
    if own is None or not journal.lineage:
        return
    plain, name = PlainFiles(journal.layout.root, journal.stores), f"journal/keys/{own.lineage}.private"
    data, path = plain.read(name), os.path.join(journal.layout.root, name)
    if data is not None and not plain.judge(name, data):
        return
    if data is not None:
        yard.move(path)
    left = journal.leave_lineage()
    yield Repair(f"{left} can no longer be signed: from here on this store writes {journal.lineage}", path)


def _forget_turns(journal: Journal) -> Iterator[Repair]:
    """Remove a damaged file of session turns; the next search rebuilds it from the journal."""
    from periplus.journal.care.index_check import check_file

    path = journal.layout.turns
    if os.path.exists(path) and check_file(path):
        forget_turns(path, journal.files)
        yield Repair("the damaged file of the sessions' turns was removed: the next search rebuilds it", path)


def _refuse_other_store(journal: Journal) -> None:
    """Raise DamageError if the settings name a store that no segment names: new headers would get its id."""
    found = store_ids_in(journal.layout)
    if found and found.isdisjoint(journal.stores):
        raise DamageError(
            f"the settings name store {journal.store_id}, the segments {' and '.join(sorted(found))}",
            path=journal.layout.config,
            safe="Nothing was changed.",
            mend="Restore the config.toml that this store was made with.",
        )


def _park_statements(journal: Journal, yard: Parking) -> Iterator[Repair]:
    """Park the notes about missing records in a store made of an incomplete copy, once none is missing."""
    for lineage in incomplete_lineages(journal):
        gaps = Gaps(journal.layout, journal.reader(lineage), known_last(journal, lineage))
        for chunk in journal.reader(lineage).read_from(START, salvage=True):
            gaps.take(chunk)
        if not gaps.end():
            path = os.path.join(journal.layout.lineage_folder(lineage), MISSING_FILE)
            yard.move(path)
            yield Repair("no record is missing any more: the note about them is parked", path)


# -- what was lost ---------------------------------------------------------------------------------------------------


def _audit_lost(journal: Journal, writer: Writer) -> Iterator[Repair]:
    """Audit the stubs of this repair and of interrupted ones; then write the lost content that was found elsewhere."""
    own = [one for one in lost_plans(journal) if one[1].lineage == journal.lineage]
    done = [one for one in lost_plans(journal, audited=True) if one[1].lineage == journal.lineage]
    if not journal.lineage or journal.damage is not None:
        return
    key = key_of(journal.layout, journal.lineage)
    said = audits_of(segments_of_readers(journal.lineages(), journal.reader), journal.lineage, key)
    taken_out = {(one.seq, one.leaf) for one in said.taken_out}
    strangers, is_audit_lost = unaudited_stubs(journal)  # the audit record itself may have been damaged since
    unnamed = set(strangers)
    done = [(path, msgspec.structs.replace(plan, records=[one for one in plan.records if AuditedRecord(*one) in unnamed]))
            for path, plan in done]  # fmt: skip
    planned = {AuditedRecord(*one) for _, plan in [*own, *done] for one in plan.records}
    rest = sorted(unnamed - planned) if is_audit_lost else []
    for at in range(0, len(rest), AUDIT_RECORDS_MAX):
        part = rest[at : at + AUDIT_RECORDS_MAX]
        said_again: dict[str, JSONValue] = {"lineage": journal.lineage, "objects": [], "reason": "redacted before; the record that said so was lost to damage",
                                            "records": [list(one) for one in part]}  # fmt: skip

        def say_again(
            transaction: Transaction, payload: dict[str, JSONValue] = said_again, part: Sequence[object] = part
        ) -> None:
            transaction.meta("redact", payload, summary=f"{counted_records(part)} redacted before")

        receipt = journal.mutate(say_again, writer)
        yield Repair(
            f"{counted_records(part)} redacted before: audited again, because the audit record is lost",
            "",
            receipt.first_seq,
        )
    for path, plan in [*own, *(one for one in done if one[1].records)]:
        parts = [
            (is_lost, among[at : at + AUDIT_RECORDS_MAX])
            for is_lost in (True, False)
            if (among := [one for one in plan.records if ((one[0], one[1]) not in taken_out) == is_lost])
            for at in range(0, len(among), AUDIT_RECORDS_MAX)
        ]

        def write(transaction: Transaction, parts: list[tuple[bool, list[tuple[int, str, str]]]] = parts) -> None:
            for is_lost, part in parts:
                payload: dict[str, JSONValue] = {
                    "lineage": journal.lineage,
                    "objects": [],
                    "reason": "lost to damage" if is_lost else "redacted before; its stub was lost to damage",
                    "records": [list(one) for one in part],
                    **({"lost": True} if is_lost else {}),
                }
                transaction.meta("redact", payload, summary=f"{counted_records(part)} lost to damage")

        journal.mutate(write, writer)
        yield from _write_contents(journal, [Returned.planned(one, writer) for one in plan.contents])
        if not path.endswith(".audited.json"):
            journal.files.replace(path, path.removesuffix(".json") + ".audited.json")
        yield Repair(f"{counted_records(plan.records)} whose content is lost: recorded as lost", path)


def _bring_back(journal: Journal, copies: Copies, yard: Parking) -> Iterator[Repair]:
    """Write the content of records given up in earlier repairs, once a copy has them or their payload objects are here."""
    lost = {
        seq: leaf
        for _, plan in lost_plans(journal, audited=True)
        if plan.lineage == journal.lineage
        for seq, leaf, _ in plan.records
    }
    again = returned(journal, copies, lender(journal, copies), lost) if lost else ()
    yield from _write_contents(journal, again)
    for path in [path for lineage in journal.lineages() for path in twins(journal.reader(lineage))]:
        yard.move(path)
        yield Repair("the segment is here and in the archive: the one there is parked", path)


def _write_contents(journal: Journal, contents: Iterable[Returned]) -> Iterator[Repair]:
    for seq in write_again(journal, contents):
        yield Repair("the content of a lost record is written again", "", seq)


# -- objects and the rest ----------------------------------------------------------------------------------------------


def _restore_objects(
    journal: Journal, copies: Copies, rows: IndexRows, yard: Parking, references: References, progress: Progress,
    broken: set[bytes],
) -> Iterator[Repair]:  # fmt: skip
    """Restore damaged and missing objects; ``broken`` gets those that cannot be restored."""
    looked_at: set[bytes] = set()
    lend = lender(journal, copies)
    named = _payloads_named(journal)
    gone = TakenOut(journal)
    for wanted in chain([set(journal.objects.digests())], [set(named)], _named_objects(journal, references, lend)):
        for number, digest in enumerate(sorted(wanted - looked_at)):
            progress(number, len(wanted))
            if journal.objects.check(digest) is None or (digest in gone.now() and not journal.objects.has(digest)):
                continue
            data, how = copies.object(digest), "restored from a copy"
            if data is None:
                data, how = journal.objects.mended(digest), "repaired: one byte of its file had changed"
            if data is None and digest not in gone.now():
                data, how = (
                    _said_elsewhere(journal, rows, digest, named),
                    "written again from the same content elsewhere",
                )
            if data is None:
                broken.add(digest)
                continue
            if _put_back(journal, digest, data, gone, yard):
                yield Repair(f"the object is {how}", journal.objects.path_of(digest))
        looked_at |= wanted


def _put_back(journal: Journal, digest: bytes, data: bytes, gone: TakenOut, yard: Parking) -> bool:
    """Store a restored object; return False if it was redacted meanwhile. Audit records are written under the lock taken here."""
    for tried in range(PREPARED_MAX):
        gone.now()
        with journal.writing():
            if not gone.is_current() and tried < PREPARED_MAX - 1:
                continue
            if digest in gone.now() and not journal.objects.has(digest):
                return False
            path = journal.objects.path_of(digest)
            if os.path.exists(path):
                yard.park(path)
            journal.objects.put(data)
            return True
    raise AssertionError("the last try looks under the lock")


def _give_up_payloads(journal: Journal, rows: IndexRows, yard: Parking) -> list[Repair]:
    """Replace our own records whose payloads are lost by stubs. Prepared in the way of ``segment_restoration``."""
    if not journal.lineage:
        return []
    lost: set[bytes] = set()
    done: list[Repair] = []

    def is_held(digest: bytes) -> bool:
        if not is_held_here(journal, digest):
            lost.add(digest)
        return digest not in lost

    for tried in range(PREPARED_MAX):
        is_last_try = tried == PREPARED_MAX - 1
        with journal.writing() if is_last_try else nullcontext():
            lost.clear()
            given_up = stubs_for_lost_payloads(journal, rows, is_held, known_last(journal, journal.lineage))
            if not given_up:
                lost.clear()
            with journal.writing() if given_up and not is_last_try else nullcontext():
                is_as_it_was = all(read_whole(path) == data for path, data, _ in given_up)
                if is_as_it_was and not any(is_held_here(journal, digest) for digest in lost):
                    for path, data, restored in given_up:
                        plan = LostPlan(journal.lineage, [], [], [], sorted(digest.hex() for digest in lost))
                        for one in restored.mended:
                            plan.records.append(audited_record(one.line, one.leaf, one.seq))
                            plan.payloads.append(one.seq)
                        done += write_restored(journal, path, data, restored, plan, yard)
                    break
    for _, plan in lost_plans(journal):  # of an interrupted repair
        lost.update(digest for digest in map(bytes.fromhex, plan.objects) if not is_held_here(journal, digest))
    return [*done, *_park_lost(journal, lost, yard)] if lost else done


def _park_lost(journal: Journal, lost: set[bytes], yard: Parking) -> Iterator[Repair]:
    """Park the remains of ``lost`` objects, and the checkpoints that name them."""
    names = [digest.hex().encode() for digest in lost]
    for _, path in checkpoint_files(journal):
        held = read_plain(path, _CHECKPOINT_BYTES_MAX)
        if any(name in held for name in names):
            yard.move(path)
            yield Repair("a checkpoint that names a lost object is parked", path)
    unnamed = sorted(lost - _payloads_named(journal).keys())
    with journal.writing():
        for digest in unnamed:
            path = journal.objects.path_of(digest)
            if os.path.lexists(path) and not is_held_here(
                journal, digest
            ):  # another process may have stored it again meanwhile
                yard.move(path)
                yield Repair("a damaged object is parked", path)


def _park_unnamed(
    journal: Journal, broken: Iterable[bytes], all_references: References, lend: Lender, yard: Parking
) -> Iterator[Repair]:
    """Park damaged objects that nothing names, if that is certain: everything that could name them can be read."""
    paths = {digest: path for digest in broken if os.path.lexists(path := journal.objects.path_of(digest))}
    if not paths or incomplete_lineages(journal):
        return
    try:
        for lineage in journal.lineages():
            last = 0
            for segment, entry in journal.entries(lineage):
                last = entry.record.seq
                ref = entry.record.payload_ref
                if ref is not None and is_digest_text(ref.sha256):
                    paths.pop(bytes.fromhex(ref.sha256), None)
                change = change_of(entry, lineage, segment, journal.load_object)
                for digest in all_references(entity_of_head(head_of(change, 0)), lend) if change is not None else ():
                    paths.pop(digest, None)
            if last < known_last(journal, lineage):
                return
    except PeriplusError:
        return  # unreadable records may name them
    for path in sorted(paths.values()):
        yard.move(path)
        yield Repair("a damaged object that nothing names is parked", path)


def _restore_checkpoints(journal: Journal, copies: Copies, yard: Parking, *, has_gaps: bool) -> Iterator[Repair]:
    """Replace checkpoints that differ from their announcement by a copy's, or park them.

    If records are missing and no copy is better, the checkpoint stays: it shows that something covered them.
    """
    usable = {one.path for one in usable_checkpoints(journal)}
    announced = {}
    for _, entry in _readable(journal, journal.lineage) if journal.lineage else ():
        found = announcement_of(entry.record)
        if found is not None:
            announced[found.seq] = found.sha256
    for seq, path in checkpoint_files(journal):
        if path in usable or seq not in announced:
            continue
        data = copies.checkpoint(os.path.basename(path), announced[seq])
        if data is None and has_gaps:
            continue
        yard.move(path)
        if data is not None:
            write_atomic(journal.files, path, data)
        yield Repair(f"the checkpoint is {'restored from a copy' if data is not None else 'parked'}", path)


def _named_objects(journal: Journal, references: References, lend: Lender) -> Iterator[set[bytes]]:
    """Yield the objects that entities name; the payload objects of records must be restored first."""
    found: set[bytes] = set()
    for lineage in journal.lineages():
        for segment, entry in _readable(journal, lineage):
            try:
                change = change_of(entry, lineage, segment, journal.load_object)
                if change is not None:
                    found |= references(entity_of_head(head_of(change, 0)), lend)
            except PeriplusError:
                continue  # its payload is missing; doctor reports it
    yield found


def _payloads_named(journal: Journal) -> dict[bytes, list[tuple[str, str]]]:
    """Return the payload objects of records, each with the entities that have it."""
    found: dict[bytes, list[tuple[str, str]]] = {}
    for lineage in journal.lineages():
        for _, entry in _readable(journal, lineage):
            record = entry.record
            if record.payload_ref is not None and is_digest_text(record.payload_ref.sha256):
                found.setdefault(bytes.fromhex(record.payload_ref.sha256), []).append(
                    (record.item_type, record.item_id)
                )
    return found


def _said_elsewhere(
    journal: Journal, rows: IndexRows, digest: bytes, named: Mapping[bytes, Iterable[tuple[str, str]]]
) -> bytes | None:
    """Return a lost payload object from the index or the entity's file, if one of them has the same bytes."""
    for item_type, item_id in named.get(digest, ()):
        for payload in (*rows.payloads(item_type, item_id), payload_in_file(journal, item_type, item_id)):
            if hashing.sha256(payload).digest() == digest:
                return payload
    return None


def _readable(journal: Journal, lineage: str) -> Iterator[tuple[int, Entry]]:
    try:
        yield from journal.entries(lineage, salvage=True)
    except PeriplusError:
        return  # unreadable records are reported elsewhere


# -- what is derived -----------------------------------------------------------------------------------------------------


def _renew_mark(journal: Journal) -> Iterator[Repair]:
    """Write a missing or torn durable mark anew, after a sync of the segment."""
    path, end = journal.layout.durable, journal.end()
    if not journal.lineage or not journal.syncs or end.next_seq == 1:
        return
    mark = read_durable(path)
    if mark is None or mark.lineage != journal.lineage:
        segment = journal.reader(journal.lineage).path_of(end.segment)
        leaf = journal.reader(journal.lineage).leaf_at(end)
        if not leaf or os.path.exists(segment + POISON_SUFFIX):
            return  # no record since the last roll, or a sync failed and later syncs prove nothing
        try:
            with journal.writing(), _opened(journal.files, segment, os.O_RDWR) as fd:
                journal.files.sync_data(fd)
                with _opened(journal.files, path, os.O_WRONLY | os.O_CREAT) as mark_fd:
                    write_durable(journal.files, mark_fd, journal.lineage, end, leaf)
        except OSError as error:
            raise environment_failure(error, "sync", segment) from error
        yield Repair("the durable mark is written anew", path)


@contextmanager
def _opened(files: Files, path: str, flags: int) -> Iterator[int]:
    fd = files.open(path, flags)
    try:
        yield fd
    finally:
        files.close(fd)


def _renew_tiles(journal: Journal) -> Iterator[Repair]:
    for lineage in journal.lineages():
        folder = journal.layout.tree_folder(lineage)
        if not os.path.isdir(folder):
            continue
        leaves = b"".join([entry.leaf for _, entry in _readable(journal, lineage)])
        wrong = [one for one in check_tree(journal, lineage, leaves) if os.path.dirname(one.path) == folder]
        if not wrong or any(one.is_error for one in wrong):
            continue  # an error means that the records are wrong
        for name in sorted(os.listdir(folder)):
            journal.files.unlink(os.path.join(folder, name))
        LineageTree(journal, lineage).refresh(at_least=journal.end(lineage).next_seq - 1)
        yield Repair("the tiles are made anew from the records", folder)


def _renew_files(journal: Journal, yard: Parking) -> Iterator[Repair]:
    """Park unreadable entity files, and write missing and outdated ones."""
    rewrite = []
    for entity in journal.entities():
        key = (entity.item_type, entity.item_id)
        if not has_file(journal.types, *key):
            continue
        path = journal.layout.entity_file(*key)
        try:
            data = read_stamped(path)[0]
        except FileNotFoundError:
            rewrite.append(key)
            continue
        except OSError:
            continue  # misplaced entries are parked already; unreadable files are reported by doctor
        if data == render_entity(entity):
            continue
        if judge(journal, *key, data).kind == "left" and not _is_document(data, *key):
            yard.move(path)
            yield Repair("an entity file that cannot be read is parked and written anew", path)
        rewrite.append(key)
    if rewrite:
        journal.project(patience_s=LOCK_PATIENCE_S, rewrite=rewrite)


def _is_document(data: bytes, item_type: str, item_id: str) -> bool:
    try:
        read_document(data, item_type, item_id)
    except FormatError:
        return False
    return True


def _is_moved(layout: Layout, yard: Parking, path: str) -> bool:
    """Park the temporary file; return False if it is in use, or its write has ended since it was listed."""
    lock = Lock(layout.checkpoint_lock) if os.path.dirname(path) == layout.checkpoints else None
    try:
        with lock.holding(0.0) if lock is not None else nullcontext(), leftover(path) as is_left:
            if is_left:
                yard.move(path)
            return is_left
    except LockTimeoutError:
        return False
    except EnvironmentFailure as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        return False
    finally:
        if lock is not None:
            lock.close()


def _tidy(journal: Journal, yard: Parking) -> Iterator[Repair]:
    layout = journal.layout
    left = list(leftovers(layout.root))
    with journal.writing() if left else nullcontext():
        for path in left:
            if _is_moved(layout, yard, path):
                yield Repair("a temporary file of an interrupted write is parked", path)
    for name in sorted(os.listdir(layout.keys)) if os.path.isdir(layout.keys) else []:
        path = os.path.join(layout.keys, name)
        if ".public" not in name and (at := os.stat(path)).st_mode & 0o077 and os.geteuid() in (0, at.st_uid):
            os.chmod(path, 0o600)
            yield Repair("a private key is readable by its owner only again", path)
