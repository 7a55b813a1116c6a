"""What a mutation did, and how it is found again by its idempotency key."""

from __future__ import annotations

__all__ = ["Pending", "receipt_of", "written_by"]

from typing import TYPE_CHECKING

from periplus.base.tuples import NamedTuple
from periplus.journal.transaction import Receipt

if TYPE_CHECKING:
    from periplus.journal.flush import Written
    from periplus.journal.index import Index
    from periplus.journal.lineage import LineageReader, Position
    from periplus.journal.overlay import Overlay


class Pending(NamedTuple):
    """What has to become durable before a mutation is acknowledged; ``leaf`` of its last record, if it wrote one."""

    batch: Written
    end: Position
    leaf: bytes


def receipt_of(key: str, overlay: Overlay, index: Index) -> Receipt | None:
    """What the records say that were written with ``key``; None where there are none."""
    found = overlay.written_with(key)
    rows = index.records("key = ? AND key <> '' ORDER BY seq", (key,), -1)
    found += [(row.lineage, row.seq, row.version) for row in rows]
    found = found or index.kept_key(key)
    if not found:
        return None
    seqs = [seq for _, seq, _ in found]
    versions = tuple(version for _, _, version in found if version)
    return Receipt(key, found[0][0], min(seqs), max(seqs), versions, repeated=True)


def written_by(receipt: Receipt, overlay: Overlay, index: Index, reader: LineageReader) -> list[tuple[str, str]]:
    """Type and id of what each record of a mutation is of, in their order.

    The index may not have taken them in yet, and one that was made from a checkpoint behind them never did.
    """
    found = {
        seq: (item_type, item_id)
        for lineage, seq, item_type, item_id in overlay.named_with(receipt.key)
        if lineage == receipt.lineage
    }
    where, arguments = "lineage = ? AND seq BETWEEN ? AND ?", (receipt.lineage, receipt.first_seq, receipt.last_seq)
    found |= {row.seq: (row.item_type, row.item_id) for row in index.records(where, arguments, -1)}
    if len(found) < receipt.last_seq - receipt.first_seq + 1:
        from periplus.journal.tiles import entries_in_segment

        for entry in entries_in_segment(reader, receipt.first_seq, receipt.last_seq):
            found.setdefault(entry.record.seq, (entry.record.item_type, entry.record.item_id))
    return [found[seq] for seq in sorted(found)]
