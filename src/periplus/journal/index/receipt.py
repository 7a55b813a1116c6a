"""Receipts of mutations, and their lookup by idempotency key."""

from __future__ import annotations

__all__ = ["Pending", "key_used", "payload_of", "receipt_of", "records_of", "written_by"]

from typing import TYPE_CHECKING

from periplus.base.errors import ConflictError, DamageError
from periplus.base.named_tuple import NamedTuple
from periplus.journal.state.transaction import PARENTS_MAX, Receipt

if TYPE_CHECKING:
    from periplus.journal.index.indexed_journal import IndexedJournal
    from periplus.journal.index.overlay import Overlay
    from periplus.journal.index.tables import Index
    from periplus.journal.records.record import Record
    from periplus.journal.storage.group_commit import Written
    from periplus.journal.storage.lineage import LineageReader, Position


class Pending(NamedTuple):
    """The records that must become durable before a mutation is acknowledged; ``leaf`` is that of the last record, empty if there is none."""

    batch: Written
    end: Position
    leaf: bytes


def receipt_of(key: str, overlay: Overlay, index: Index) -> Receipt | None:
    """Return the receipt of the mutation written with ``key``; None if there is none."""
    found = overlay.written_with(key)
    rows = index.records("key = ? AND key <> '' ORDER BY seq", (key,), -1)
    found += [(row.lineage, row.seq, row.version) for row in rows]
    found = found or index.kept_key(key)
    if not found:
        return None
    lineage = found[0][0]  # after a fork another lineage may have the same key
    seqs = [seq for of, seq, _ in found if of == lineage]
    versions = tuple(version for of, _, version in found if version and of == lineage)
    return Receipt(key, lineage, min(seqs), max(seqs), versions, repeated=True)


def written_by(receipt: Receipt, overlay: Overlay, index: Index, reader: LineageReader) -> list[tuple[str, str]]:
    """Return type and id for each record of a mutation, in order.

    The index may not have the records yet; one made from a checkpoint after them never gets them.
    """
    found = {
        seq: (item_type, item_id)
        for lineage, seq, item_type, item_id in overlay.named_with(receipt.key)
        if lineage == receipt.lineage
    }
    where, arguments = "lineage = ? AND seq BETWEEN ? AND ?", (receipt.lineage, receipt.first_seq, receipt.last_seq)
    found |= {row.seq: (row.item_type, row.item_id) for row in index.records(where, arguments, -1)}
    if len(found) < receipt.last_seq - receipt.first_seq + 1:
        from periplus.journal.storage.segment_entries import entries_in_segment

        for entry in entries_in_segment(reader, receipt.first_seq, receipt.last_seq):
            found.setdefault(entry.record.seq, (entry.record.item_type, entry.record.item_id))
    return [found[seq] for seq in sorted(found)]


def records_of(journal: IndexedJournal, receipt: Receipt) -> list[Record]:
    """Return the records of a mutation in order, from the index or from the segments.

    Intermediate records that only join many concurrent versions, so that the next record can name them as one, are left out. Raises
    DamageError if records are unreadable or missing.
    """
    from periplus.journal.records.record import decode_line
    from periplus.journal.storage.segment_entries import entries_in_segment

    where, span = "lineage = ? AND seq BETWEEN ? AND ? ORDER BY seq", (receipt.first_seq, receipt.last_seq)
    rows = journal.index.records(where, (receipt.lineage, *span), -1)
    if len(rows) == receipt.record_count:
        records = [decode_line(journal.line_at(row))[0] for row in rows]
    else:
        reader = journal.reader(receipt.lineage)
        records = [entry.record for entry in entries_in_segment(reader, *span)]
        if len(records) < receipt.record_count:
            raise _unread(reader, receipt)
    last = {(record.item_type, record.item_id): record.seq for record in records}
    return [
        one for one in records if len(one.parents) < PARENTS_MAX or last[one.item_type, one.item_id] == one.seq
    ]  # fmt: skip


def _unread(reader: LineageReader, receipt: Receipt) -> DamageError:
    """Return the error for a mutation whose records cannot be read: a repeated call cannot be compared with it."""
    seq = receipt.first_seq
    segment = max((first for first in reader.segments() if first <= seq), default=0)
    following = min((first for first in reader.segments() if first > seq), default=0)
    if following and not segment:
        return reader.gap_before(following, 1)
    return DamageError(f"the records written with the key {receipt.key!r} cannot be read or are missing",
                       path=reader.path_of(segment), seq=seq, safe="Nothing was written.",
                       mend="Run `periplus doctor`; put the archive back if it was moved elsewhere.")  # fmt: skip


def payload_of(journal: IndexedJournal, record: Record) -> bytes:
    """Return a record's payload from its line or its object; empty for a tombstone or a stub."""
    from msgspec import UnsetType

    if record.payload_ref is not None:
        return journal.load_object(record.payload_ref.sha256)
    return b"" if isinstance(record.payload, UnsetType) else bytes(record.payload)


def key_used(receipt: Receipt) -> ConflictError:
    """Return the error for a key that was used for another mutation."""
    span = (
        f"record {receipt.first_seq}"
        if receipt.record_count == 1
        else f"records {receipt.first_seq} to {receipt.last_seq}"
    )
    return ConflictError(f"the key {receipt.key!r} was used for something else ({span})", safe="Nothing was written.",
                         mend="Repeat without --key, or with another key.")  # fmt: skip
