"""What a mutation did, and how it is found again by its idempotency key."""

from __future__ import annotations

__all__ = ["Pending", "receipt_of"]

from typing import TYPE_CHECKING

from periplus.base.tuples import NamedTuple
from periplus.journal.transaction import Receipt

if TYPE_CHECKING:
    from periplus.journal.flush import Written
    from periplus.journal.index import Index
    from periplus.journal.lineage import Position
    from periplus.journal.overlay import Overlay


class Pending(NamedTuple):
    """What has to become durable before a mutation is acknowledged; ``leaf`` of its last record, if it wrote one."""

    batch: Written
    end: Position
    leaf: bytes


def receipt_of(key: str, overlay: Overlay, index: Index) -> Receipt | None:
    """What the records say that were written with ``key``; None where there are none."""
    found = overlay.written_with(key)
    rows = index.records("key = ? ORDER BY seq", (key,), -1)
    found += [(row.lineage, row.seq, row.version) for row in rows]
    found = found or index.kept_key(key)
    if not found:
        return None
    seqs = [seq for _, seq, _ in found]
    versions = tuple(version for _, _, version in found if version)
    return Receipt(key, found[0][0], min(seqs), max(seqs), versions, repeated=True)
