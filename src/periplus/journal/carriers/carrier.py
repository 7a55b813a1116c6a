"""Carrier protocol: the place that an exchange reads lineages from, and the signed head that accompanies a copy.

A carrier only transports. Nothing from it is trusted: ``periplus.journal.exchange.sync`` checks every byte. The carrier itself only
enforces limits, so that no answer takes more memory than expected.
"""

from __future__ import annotations

__all__ = ["LINEAGES_MAX", "SEGMENTS_MAX", "Carrier", "is_lineage_name"]

from collections.abc import Collection
from typing import Final, Protocol

from periplus.base.ids import is_id
from periplus.journal.storage.tree_head import SignedHead

LINEAGES_MAX: Final = 10_000
SEGMENTS_MAX: Final = 1_000_000


class Carrier(Protocol):
    """A place that holds copies of lineages. Every method may raise EnvironmentFailure and DamageError.

    ``place`` is its name for people. ``needs_heads``: only records covered by a signed head count, because anybody may have written to the
    place.
    """

    place: str
    needs_heads: bool

    def store_id(self) -> str:
        """Return the id of the store of the copies; empty if there are none yet."""
        ...

    def store_ids(self) -> frozenset[str]:
        """Return all store ids that the copies may name: several if stores were joined."""
        ...

    def takes(self, store: str) -> bool:
        """Return True if records that name this store may be put there: the clone there must know that it was joined to its own."""
        ...

    def of_others(self, stores: Collection[str]) -> dict[str, str]:
        """Return the lineages there that name none of ``stores``, with the store that each names."""
        ...

    def written_lineage(self) -> str:
        """Return the lineage that the place's own writers write, and that nobody else may change; empty if there are no writers."""
        ...

    def lineages(self) -> list[str]: ...

    def head(self, lineage: str) -> SignedHead | None: ...

    def key(self, lineage: str) -> bytes | None:
        """Return the owner's public key if the place has it."""
        ...

    def durable_seq(self, lineage: str) -> int | None:
        """Return the last record that is durable at its owner; None if everything there is."""
        ...

    def is_synced(self) -> bool:
        """Return False for a store with the policy ``never``, where records, not a mark, state what was acknowledged."""
        ...

    def segments(self, lineage: str) -> list[int]:
        """Return the first seqs of the segments, ascending."""
        ...

    def fetch(self, lineage: str, segment: int) -> bytes:
        """Return the present bytes of a segment, at most SEGMENT_READ_MAX."""
        ...

    def object(self, lineage: str, digest: bytes) -> bytes:
        """Return the object's bytes, verified. Raises NotFoundError."""
        ...


def is_lineage_name(name: str) -> bool:
    return name.startswith("lin_") and is_id(name)
