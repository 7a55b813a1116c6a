"""Records of our own lineage whose payload object is lost: replacement by stubs, and recovery of the content when it reappears.

A record whose payload cannot be read blocks writing to the journal. A repair therefore replaces it with a stub, as it does with a damaged
record, and parks the original line. The line names the object, so a later repair recognizes it. A record that was itself damaged is
recognized by its leaf hash in any copy.
"""

from __future__ import annotations

__all__ = [
    "Returned",
    "is_held_here",
    "returned",
    "still_lost",
    "stubs_for_lost_payloads",
    "unaudited_stubs",
    "write_again",
]

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Self

from periplus.base.clock import FixedClock, parse_ms
from periplus.base.encoding.canonical import JSONValue, decode_canonical
from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import DamageError, EnvironmentFailure, NotFoundError, PeriplusError
from periplus.base.files import read_plain
from periplus.base.named_tuple import NamedTuple
from periplus.journal.checkpoints.partial_history import fill_history_if_present
from periplus.journal.index.row_recovery import IndexRows
from periplus.journal.journal import Journal
from periplus.journal.records.record import Record, action_class, decode_line
from periplus.journal.records.segment import Entry
from periplus.journal.records.segment_repair import Mended, Restored
from periplus.journal.records.stub import AUDIT_MARK, AuditedRecord, make_stub, unaudited
from periplus.journal.recovery.copies import Copies
from periplus.journal.recovery.lost_records import Remembered
from periplus.journal.recovery.object_transfer import Lender
from periplus.journal.recovery.removed_content import taken_out
from periplus.journal.recovery.repair_plan import LostContent
from periplus.journal.recovery.signed_audits import audits_of, key_of, segments_of_readers
from periplus.journal.state.entity import Change, change_of
from periplus.journal.state.transaction import Transaction, Writer
from periplus.journal.storage.lineage import START
from periplus.journal.storage.parking import read_whole


class Returned(NamedTuple):
    """Recovered content of a lost record or lost payload, read here or in a copy, with its writer and time."""

    item_type: str
    item_id: str
    version: str
    parents: tuple[str, ...]
    payload: bytes
    seq: int
    writer: Writer
    ts: str

    @classmethod
    def of(cls, record: Record, change: Change) -> Self:
        writer = Writer(record.writer, record.writer_id, record.session)
        named = (record.item_type, record.item_id, change.version, change.parents, change.payload)
        return cls(*named, record.seq, writer, record.ts)

    @classmethod
    def planned(cls, one: LostContent, writer: Writer) -> Self:
        """Build it from the plan of the repair that gave the record up; ``writer`` is used if the plan does not name one."""
        said_by = Writer.named(one.writer, session=one.session) if one.writer else writer
        return cls(one.item_type, one.item_id, one.version, one.parents, one.payload.encode(), one.seq, said_by, one.ts)

    def join(self, found: dict[str, Returned]) -> None:
        """Add this to ``found`` by version. If several lost records have one version, keep the fields of the first and the seq of the last."""
        other = found.get(self.version, self)
        first = min(self, other, key=lambda one: (one.ts, one.seq))
        found[self.version] = first._replace(seq=max(self.seq, other.seq))


def stubs_for_lost_payloads(
    journal: Journal, rows: IndexRows, is_held: Callable[[bytes], bool], last: int
) -> list[tuple[str, bytes, Restored]]:
    """Return, for each segment of our lineage with such records, its path, its bytes and the intended bytes. Write nothing.

    ``is_held`` tells whether an object is here. Return an empty list if records up to ``last`` cannot be read: an audit record could not be
    written then, and a copy that repairs them may have the objects too.
    """
    lost: dict[int, list[Entry]] = {}
    read = 0
    try:
        for segment, entry in journal.entries(journal.lineage):
            read = entry.record.seq
            digest = _digest_of(entry.record)
            if digest and not is_held(digest):
                lost.setdefault(segment, []).append(entry)
    except PeriplusError:
        return []
    if read < last:
        return []
    seqs = {
        entry.record.seq for among in lost.values() for entry in among if action_class(entry.record.action) == "state"
    }
    remembered = Remembered(journal, rows, seqs)
    found = []
    for segment, among in lost.items():
        path = journal.reader(journal.lineage).path_of(segment)
        data = read_whole(path)
        if data is None:
            return []  # it is being moved to the archive; the next call finds it there
        parts, at = [], 0
        mended = []
        for entry in among:
            version = remembered.version_of(entry) if entry.record.seq in seqs else ""
            stub = make_stub(data[entry.offset : entry.offset + entry.length - 1], entry.leaf, version)
            parts += [data[at : entry.offset], stub]
            at = entry.offset + entry.length
            mended.append(Mended(entry.record.seq, entry.offset, "payload", entry.leaf, stub[:-1]))
        found.append((path, data, Restored(b"".join(parts) + data[at:], mended, 0)))
    return found


def returned(journal: Journal, copies: Copies, lend: Lender, lost: Mapping[int, str]) -> Iterator[Returned]:
    """Yield the content of our ``lost`` records (leaf hashes by seq) that can be read again and that no record holds, except redacted
    content.
    """
    said = audits_of(
        segments_of_readers(journal.lineages(), journal.reader),
        journal.lineage,
        key_of(journal.layout, journal.lineage),
    )
    lost = {seq: leaf for seq, leaf in lost.items() if (seq, leaf) in said.lost}
    removed = taken_out(journal) if lost else ()
    found: dict[str, Returned] = {}
    for seq, line in copies.lines_of(journal.lineage, lost):
        record, leaf = decode_line(line)
        if record.is_stub or leaf.hex() != lost[seq]:
            continue
        ref = record.payload_ref
        if ref is not None and (not is_digest_text(ref.sha256) or bytes.fromhex(ref.sha256) in removed):
            continue
        try:
            change = change_of(
                Entry(record, 0, len(line) + 1, leaf), journal.lineage, 0, lambda sha256: lend(bytes.fromhex(sha256))
            )
        except PeriplusError:
            continue  # its payload is still missing
        if change is not None and change.payload:
            Returned.of(record, change).join(found)
    if found:
        for version in _told_of(journal, found.values(), lost.keys()):
            found.pop(version, None)
    yield from found.values()


def still_lost(journal: Journal) -> dict[str, list[int]]:
    """Return by lineage the seqs of records lost to damage whose content no record here holds."""
    segments = [one for one in segments_of_readers(journal.lineages(), journal.reader) if AUDIT_MARK in one[2]]
    found: dict[str, list[int]] = {}
    for lineage in journal.lineages():
        lost = dict(audits_of(segments, lineage, key_of(journal.layout, lineage)).lost)
        stubs = [entry.record for _, entry in _readable(journal, lineage) if entry.record.is_stub] if lost else []
        for record in (one for one in stubs if lost.get(one.seq) == one.leaf):
            fill_history_if_present(
                journal
            )  # a record with the same content may lie before the checkpoint at which the index begins
            where = "version = ? AND version <> '' AND NOT (lineage = ? AND seq = ?)"
            if not journal.index.records(where, (record.version, lineage, record.seq), 1):
                found.setdefault(lineage, []).append(record.seq)
    return found


def unaudited_stubs(journal: Journal) -> tuple[list[AuditedRecord], bool]:
    """Return the stubs of our own lineage that no audit record of it names, and whether an audit record itself was lost and is a stub."""
    lines: dict[int, bytes] = {}
    is_audit_lost = False

    def entries() -> Iterator[Entry]:
        nonlocal is_audit_lost
        for chunk in journal.reader(journal.lineage).read_from(START, salvage=True):
            for entry in chunk.entries:
                if entry.record.is_stub:
                    is_audit_lost |= entry.record.action == "redact"
                    lines[entry.record.seq] = read_plain(chunk.path, entry.length, entry.offset)[:-1]
                yield entry

    found = [wanted for _, wanted in unaudited(entries(), journal.lineage, lambda entry: lines[entry.record.seq])]
    return found, is_audit_lost


def write_again(journal: Journal, contents: Iterable[Returned]) -> Iterator[int]:
    """Write the lost content again and yield the new seqs. The same content with the same parents is the same version.

    The record gets the writer and time of the lost one, so this clone shows the version as other clones do that still have the original.
    Each loss is restored once; content that was written again and lost again has another seq.
    """
    for content in contents:
        if content.item_type not in journal.types:
            continue
        journal.need_history()  # its parents may lie before the checkpoint at which the index begins
        value = decode_canonical(content.payload)
        assert isinstance(value, dict)

        def write(transaction: Transaction, content: Returned = content, value: dict[str, JSONValue] = value) -> None:
            transaction.place(
                "import", content.item_type, content.item_id, value, content.parents, summary="restored after damage"
            )

        clock, journal.clock = journal.clock, FixedClock(parse_ms(content.ts) or journal.clock.now_ms())
        try:
            receipt = journal.mutate(write, content.writer, key=f"restore {content.version} of {content.seq}")
        finally:
            journal.clock = clock
        if not receipt.repeated:
            yield receipt.first_seq


def _told_of(journal: Journal, among: Iterable[Returned], lost: Collection[int]) -> Iterator[str]:
    """Yield the versions that any record has, or had before it was redacted, except our records with seqs in ``lost``."""
    keys = {(one.item_type, one.item_id) for one in among}
    for lineage in journal.lineages():
        for segment, entry in _readable(journal, lineage):
            record = entry.record
            if (record.item_type, record.item_id) in keys and not (lineage == journal.lineage and record.seq in lost):
                try:
                    change = change_of(entry, lineage, segment, journal.load_object)
                except PeriplusError:
                    continue
                if change is not None:
                    yield change.version


def _digest_of(record: Record) -> bytes:
    """Return the digest of the payload's object; empty if there is none, or if a stub would change what the record does."""
    ref = record.payload_ref
    if ref is None or not is_digest_text(ref.sha256) or action_class(record.action) not in ("state", "observation"):
        return b""
    return bytes.fromhex(ref.sha256)


def _readable(journal: Journal, lineage: str) -> Iterator[tuple[int, Entry]]:
    try:
        yield from journal.entries(lineage, salvage=True)
    except PeriplusError:
        return


def is_held_here(journal: Journal, digest: bytes) -> bool:
    """Return True if the object is here, or if the disk cannot be read, because then it is not certain that the object is lost."""
    try:
        journal.objects.get(digest)
    except EnvironmentFailure:
        return True
    except (NotFoundError, DamageError):
        return False
    return True
