"""Rebase of a forked lineage: one side gives way, and its records after the fork are written again elsewhere.

A lineage forks when two stores write it, for example after a backup was restored in place, or a disk image was started twice. Both sides
are equal up to some record and differ after it. The side on which the rebase runs gives way:

* each batch after the fork is written again to the lineage that this store writes (a new one if the forked lineage was its own), with the
  same versions, writers, times and keys but new seqs. Versions that another lineage has already are left out, so a second run adds nothing;
* a note states where the lineage forked, and size and root of the records that were here;
* only then is the lineage cut back to the common part; the rest is parked. It is now a prefix of the other side, and an ordinary exchange
  brings the other records, with all checks.

An interruption at any point leaves a sound lineage, and each record in one of the two.
"""

from __future__ import annotations

__all__ = ["Rebased", "acknowledged", "has_given_way", "rebase"]

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from periplus.base.clock import FixedClock, parse_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import DamageError, PeriplusError, RefusedError, environment_failure
from periplus.base.files import read_plain, write_atomic
from periplus.base.named_tuple import NamedTuple
from periplus.journal.carriers import Carrier
from periplus.journal.carriers.folder import HEAD_FILE
from periplus.journal.checkpoints.checkpoint_files import remove_checkpoints
from periplus.journal.history.cursors import read_cursor, reader_names, write_cursor
from periplus.journal.index.rebuild import discard
from periplus.journal.journal import Journal
from periplus.journal.records.record import Record, action_class
from periplus.journal.records.segment import Entry, segment_name
from periplus.journal.state.entity import change_of
from periplus.journal.state.transaction import Draft, Writer
from periplus.journal.storage.lineage import SEGMENT_READ_MAX, START, LineageReader
from periplus.journal.storage.parking import Parking
from periplus.journal.storage.tree_head import read_peer, write_peer
from periplus.merkle import Frontier

_SAFE: Final = "Nothing was changed."


class Rebased(NamedTuple):
    """Result of a rebase: ``lineage`` had forked after record ``at``; of the ``cut`` records after it, ``written`` were written again to
    ``into``.

    The other records exist elsewhere already, or have no meaning elsewhere. ``into`` is empty in a dry run.
    """

    lineage: str
    at: int
    cut: int
    written: int
    into: str


class _Batch(NamedTuple):
    """A batch of ``records`` records, the first of which is ``record``, and the drafts to write again."""

    record: Record
    drafts: list[Draft]
    records: int


def rebase(journal: Journal, lineage: str, differs_at: int, stands: int = 0, *, dry_run: bool = False) -> Rebased:
    """Give way in the fork of ``lineage``, whose records differ from ``differs_at`` on. The caller keeps others from exchanging.

    The other side has ``stands`` acknowledged records. If this store wrote the lineage, it counts as having written those from now on, as a
    new copy of the other side would, and signs no others in its name.

    Raises RefusedError if the records after the fork cannot be written elsewhere, DamageError if they cannot be read.
    """
    journal.refresh()
    journal.project()
    journal.need_history()
    if journal.damage is not None:
        raise journal.damage
    at = _last_common(journal, lineage, differs_at)
    held: set[str] = set()
    cut = written = 0
    for batch in _behind(journal, lineage, at, held):
        cut += batch.records
        written += len(batch.drafts)
    if dry_run:
        return Rebased(lineage, at, cut, written, "")
    root = _root(journal, lineage)
    if lineage == journal.lineage:
        journal.leave_lineage()
    held.clear()
    written, before = 0, journal.end().next_seq - 1 if journal.lineage else 0
    for batch in _behind(journal, lineage, at, held):
        if batch.drafts:
            _write_again(journal, batch)
            written += len(batch.drafts)
    said: JSONValue = {"lineage": lineage, "at": at, "size": at + cut, "root": root}
    summary = f"{lineage} had forked: {cut} records behind record {at} gave way"
    journal.mutate(
        lambda transaction: transaction.meta("note", {"fork": said}, summary=summary),
        Writer.named("sync"),
        key=f"fork-{lineage}-{at}-{root[:16]}",
    )
    end = journal.end().next_seq - 1
    is_all_ours = end == before + written + 1
    journal.state_left(lineage, max(at, stands))
    _move_cursors(journal, lineage, at, at + cut, (before, end) if is_all_ours else (0, 0))
    _cut_back(journal, lineage, at)
    journal.renew_derived()
    return Rebased(lineage, at, cut, written, journal.lineage)


def acknowledged(journal: Journal, lineage: str, other: Carrier) -> int:
    """Return the number of records of the lineage that can be taken from ``other``; 0 if it cannot be read."""
    try:
        known = other.durable_seq(lineage)
        seqs = [entry.record.seq for _, entry in _entries_of(journal, lineage, other)]
    except PeriplusError:
        return 0  # the error is reported when the lineage is taken
    return max((seq for seq in seqs if known is None or seq <= known), default=0)


def has_given_way(journal: Journal, lineage: str, differs_at: int, other: Carrier) -> bool:
    """Return True if the side of ``other`` gave way in the fork: all its records after the fork are held here in other lineages.

    If that holds for both sides, every clone chooses the same side to stay, so that repeated rebases end.
    """
    journal.refresh()
    journal.project()
    journal.need_history()
    at = _last_common(journal, lineage, differs_at)

    def load(digest: str) -> bytes:
        try:
            return journal.load_object(digest)
        except PeriplusError:
            return other.object(lineage, bytes.fromhex(digest))

    try:
        theirs = _entries_of(journal, lineage, other)
        if not _is_written_again(journal, lineage, at, theirs, load):
            return False
        ours = list(journal.entries(lineage))
    except PeriplusError:
        return False
    if not _is_written_again(journal, lineage, at, ours, journal.load_object):
        return True
    leaves = [{entry.record.seq: entry.leaf for _, entry in side}.get(differs_at, b"") for side in (ours, theirs)]
    return leaves[0] > leaves[1]


def _is_written_again(
    journal: Journal, lineage: str, at: int, entries: Iterable[tuple[int, Entry]], load: Callable[[str], bytes]
) -> bool:
    try:
        return not any(batch.drafts for batch in _behind(journal, lineage, at, set(), entries, load))
    except RefusedError:
        return False


def _entries_of(journal: Journal, lineage: str, other: Carrier) -> list[tuple[int, Entry]]:
    """Return the records that ``other`` has of the lineage; up to the signed head if it needs one."""
    head = other.head(lineage) if other.needs_heads else None
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for segment in other.segments(lineage):
            with open(os.path.join(folder, segment_name(segment)), "wb") as file:
                file.write(other.fetch(lineage, segment))
        for chunk in LineageReader(folder, journal.stores, lineage).read_from(START):
            found += [
                (chunk.segment, entry) for entry in chunk.entries if head is None or entry.record.seq <= head.head.size
            ]
    return found


def _last_common(journal: Journal, lineage: str, differs_at: int) -> int:
    """Return the last record before the fork that ends a batch."""
    last = 0
    for _, entry in journal.entries(lineage):
        if entry.record.seq >= differs_at:
            break
        if entry.record.txn is None or entry.record.txn[0] == entry.record.txn[1]:
            last = entry.record.seq
    return last


def _root(journal: Journal, lineage: str) -> str:
    tree = Frontier()
    for _, entry in journal.entries(lineage):
        if entry.record.seq > tree.size:
            tree.extend([entry.leaf])
    return tree.root().hex()


def _behind(
    journal: Journal, lineage: str, at: int, held: set[str],
    entries: Iterable[tuple[int, Entry]] | None = None, load: Callable[[str], bytes] | None = None,
) -> Iterator[_Batch]:  # fmt: skip
    """Yield the batches after record ``at`` of our records, or of ``entries``; ``held`` collects the versions seen before."""
    load = load or journal.load_object
    batch: list[tuple[int, Entry]] = []
    last = at
    for segment, entry in entries if entries is not None else journal.entries(lineage):
        record = entry.record
        if record.seq <= last:
            continue  # a later segment repeats the last records of the one before it
        last = record.seq
        batch.append((segment, entry))
        if record.txn is None or record.txn[0] == record.txn[1]:
            yield _Batch(batch[0][1].record, _drafts(journal, lineage, batch, held, load), len(batch))
            batch = []


def _drafts(
    journal: Journal, lineage: str, batch: list[tuple[int, Entry]], held: set[str], load: Callable[[str], bytes]
) -> list[Draft]:
    key = batch[0][1].record.key
    if key and journal.index.records("key = ? AND key <> '' AND lineage <> ?", (key, lineage), 1):
        return []  # already written again
    drafts = []
    for segment, entry in batch:
        record = entry.record
        kind = action_class(record.action)
        if record.action == "checkpoint":
            continue  # it covers records of this lineage, which change
        if record.action == "redact" or kind == "unknown":
            what = "redacts records of" if record.action == "redact" else "comes from a later version of Periplus, on"
            raise RefusedError(
                f"{lineage}: record {record.seq} {what} the side that would give way",
                safe=_SAFE,
                mend="Run the sync with --rebase on the other side instead.",
            )
        change = change_of(entry, lineage, segment, load)
        version = change.version if change is not None else ""
        if version and (version in held or _is_elsewhere(journal, lineage, version)):
            continue
        held.add(version)
        payload = change.payload or None if change is not None else _payload(record, load)
        drafts.append(
            Draft(record.action, record.item_type, record.item_id, record.parents, payload, record.deleted, record.summary,
                  version, record.after)
        )  # fmt: skip
    return drafts


def _is_elsewhere(journal: Journal, lineage: str, version: str) -> bool:
    return bool(journal.index.records("version = ? AND version <> '' AND lineage <> ?", (version, lineage), 1))


def _payload(record: Record, load: Callable[[str], bytes]) -> bytes | None:
    if record.payload_ref is not None:
        return load(record.payload_ref.sha256)
    return None if isinstance(record.payload, msgspec.UnsetType) else bytes(record.payload)


def _write_again(journal: Journal, batch: _Batch) -> None:
    record = batch.record
    writer = Writer(record.writer, record.writer_id, record.session, record.pid)
    clock, journal.clock = journal.clock, FixedClock(parse_ms(record.ts) or journal.clock.now_ms())
    try:
        journal.write_again(batch.drafts, writer, record.key)
    finally:
        journal.clock = clock


def _move_cursors(journal: Journal, lineage: str, at: int, last: int, again: tuple[int, int]) -> None:
    """Reset every reader's cursor to the fork, so that it sees the other side's records.

    A reader that had seen all records that gave way, up to ``last``, does not see the records again that were written from ``again[0]`` to
    ``again[1]`` of our own lineage.
    """
    for name in reader_names(journal.layout):
        try:
            cursor = read_cursor(journal.layout, name)
        except DamageError:
            continue  # `periplus doctor` reports it
        seen = cursor.last_seq if cursor is not None else {}
        if seen.get(lineage, 0) > at:
            has_all = seen[lineage] >= last and seen.get(journal.lineage, 0) >= again[0] and again[1]
            write_cursor(journal, name, {**seen, lineage: at, **({journal.lineage: again[1]} if has_all else {})})


def _cut_back(journal: Journal, lineage: str, at: int) -> None:
    """Cut the lineage back to record ``at``, from its end, so that it is sound after any interruption."""
    layout, files = journal.layout, journal.files
    reader = journal.reader(lineage)
    last, end = 0, 0  # the segment that holds record ``at``, and the record's end in it
    for chunk in reader.read_from(START):
        for entry in chunk.entries:
            if entry.record.seq == at:
                last, end = chunk.segment, entry.offset + entry.length
    if at and not last:
        raise DamageError(f"record {at} of {lineage} is gone", safe="It was not cut back.", mend="Repeat the command.")
    yard = Parking(layout, files, journal.clock)
    remove_checkpoints(layout, files)
    with journal.writing():
        discard(journal)
        peer = read_peer(layout, lineage)
        if peer is not None and peer.seen is not None and peer.seen.size > at:
            yard.park(layout.peer_file(lineage))
            write_peer(layout, files, msgspec.structs.replace(peer, seen=None))
        folder = layout.lineage_folder(lineage)
        head = os.path.join(folder, HEAD_FILE)
        if os.path.lexists(head):
            yard.move(head)
        try:
            _forget_tiles(journal, lineage)
            for segment in reversed(reader.segments()):
                path = reader.path_of(segment)
                if segment > at:
                    yard.move(path)
                elif segment == last:
                    data = read_plain(path, SEGMENT_READ_MAX)
                    if end < len(data):
                        yard.park(path)
                        write_atomic(files, path, data[:end])
            files.sync_folder(folder)
        except OSError as error:
            raise environment_failure(error, "cut back", folder) from error


def _forget_tiles(journal: Journal, lineage: str) -> None:
    folder = journal.layout.tree_folder(lineage)
    if os.path.isdir(folder):
        for name in sorted(os.listdir(folder)):
            journal.files.unlink(os.path.join(folder, name))
        journal.files.remove_folder(folder)
