"""What the exchange asks of a place where lineages are: the protocol, and the signed head that goes with a copy.

A carrier only carries. What comes from it is believed by nobody: ``periplus.journal.exchange.sync`` checks every byte, and
a carrier's own duty ends with limits, so that no answer takes more memory than is asked for.
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

    ``place`` is what people call it. ``needs_heads``: records count only as far as a signed head covers them, as in a
    place that anybody may have written to.
    """

    place: str
    needs_heads: bool

    def store_id(self) -> str:
        """Of which store the copies are; empty where there are none yet."""
        ...

    def store_ids(self) -> frozenset[str]:
        """All ids of stores that the copies may name: several where stores were joined."""
        ...

    def takes(self, store: str) -> bool:
        """Whether records that name this store may be put there: a clone has to know that it was joined to its own."""
        ...

    def of_others(self, stores: Collection[str]) -> dict[str, str]:
        """The lineages there that name none of ``stores``, each with the store that it names."""
        ...

    def written_lineage(self) -> str:
        """The lineage that the place's own writers write: nobody else may touch it. Empty where there are no writers."""
        ...

    def lineages(self) -> list[str]: ...

    def head(self, lineage: str) -> SignedHead | None: ...

    def key(self, lineage: str) -> bytes | None:
        """The owner's public key as far as the place has it."""
        ...

    def durable_seq(self, lineage: str) -> int | None:
        """The last record that is on disk for good at its owner's; None where all that is there is."""
        ...

    def is_synced(self) -> bool:
        """False in a store under the policy ``never``, where records say what was acknowledged and no mark does."""
        ...

    def segments(self, lineage: str) -> list[int]:
        """First seqs, rising."""
        ...

    def fetch(self, lineage: str, segment: int) -> bytes:
        """The bytes of a segment as they are there now. At most SEGMENT_READ_MAX."""
        ...

    def object(self, lineage: str, digest: bytes) -> bytes:
        """The object's bytes, verified. Raises NotFoundError."""
        ...


def is_lineage_name(name: str) -> bool:
    return name.startswith("lin_") and is_id(name)
