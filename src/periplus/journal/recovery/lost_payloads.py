"""Records of ours whose payload lay in an object that is lost: their places are kept, and their content when it turns up.

A record that cannot say what it said keeps the journal from being written to. So a repair puts a stub in its place, as for
a record that is damaged. The line as it was is parked; it names the object, by which a later repair knows it again. A record that
was damaged itself is known again by its leaf hash, in whichever copy turns up.
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
    """What a record said that was lost, or whose payload was, and that is here again, or in a copy; and who said it when."""

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
        """What a repair held when it gave the record up; ``writer`` is named where the plan does not know who said it."""
        said_by = Writer.named(one.writer, session=one.session) if one.writer else writer
        return cls(one.item_type, one.item_id, one.version, one.parents, one.payload.encode(), one.seq, said_by, one.ts)

    def join(self, found: dict[str, Returned]) -> None:
        """Of several lost records with one version the first speaks for it, and the last says which loss this is."""
        other = found.get(self.version, self)
        first = min(self, other, key=lambda one: (one.ts, one.seq))
        found[self.version] = first._replace(seq=max(self.seq, other.seq))


def stubs_for_lost_payloads(
    journal: Journal, rows: IndexRows, is_held: Callable[[bytes], bool], last: int
) -> list[tuple[str, bytes, Restored]]:
    """For each segment of ours with such records its path, its bytes and what they should be; nothing is written.

    ``is_held`` says of an object whether it is here. Nothing where records up to ``last`` cannot be read: no audit record could be
    written then, and a copy that mends them may have the objects, too.
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
            return []  # on its way to the archive: whoever asks again finds it there
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
    """What of our ``lost`` records (leaf hashes by seq) can be read again and is held by no record; what was redacted is not."""
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
            continue  # its payload is still nowhere
        if change is not None and change.payload:
            Returned.of(record, change).join(found)
    if found:
        for version in _told_of(journal, found.values(), lost.keys()):
            found.pop(version, None)
    yield from found.values()


def still_lost(journal: Journal) -> dict[str, list[int]]:
    """By lineage the seqs of records that were lost to damage, where nothing here says any more what they said."""
    segments = [one for one in segments_of_readers(journal.lineages(), journal.reader) if AUDIT_MARK in one[2]]
    found: dict[str, list[int]] = {}
    for lineage in journal.lineages():
        lost = dict(audits_of(segments, lineage, key_of(journal.layout, lineage)).lost)
        stubs = [entry.record for _, entry in _readable(journal, lineage) if entry.record.is_stub] if lost else []
        for record in (one for one in stubs if lost.get(one.seq) == one.leaf):
            fill_history_if_present(
                journal
            )  # what says it once more may lie before the checkpoint that the index begins at
            where = "version = ? AND version <> '' AND NOT (lineage = ? AND seq = ?)"
            if not journal.index.records(where, (record.version, lineage, record.seq), 1):
                found.setdefault(lineage, []).append(record.seq)
    return found


def unaudited_stubs(journal: Journal) -> tuple[list[AuditedRecord], bool]:
    """The stubs of our own lineage that no audit record of it names, and whether an audit record itself is a stub, for it was lost."""
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
    """The lost content once more, and the seqs it gets: a version of the same content from the same parents is the same version.

    Its record says who said it when, as the lost one did: so this clone shows the version as those do that still have that one.
    Each loss is made good once; what was written again and lost again has another seq.
    """
    for content in contents:
        if content.item_type not in journal.types:
            continue
        journal.need_history()  # it was made from versions that may lie before the checkpoint that the index begins at
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
    """The versions that a record has, or had until it was redacted: all but the records of ours that are ``lost``."""
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
    """The object that has the payload; empty where none has, or where a stub would change what the record does."""
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
    """Whether the object is here; also where the disk does not say, for then it is not certain that it is lost."""
    try:
        journal.objects.get(digest)
    except EnvironmentFailure:
        return True
    except (NotFoundError, DamageError):
        return False
    return True
