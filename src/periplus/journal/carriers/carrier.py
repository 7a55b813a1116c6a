"""What the exchange asks of a place where lineages are: the protocol, and the signed head that goes with a copy.

A carrier only carries. What comes from it is believed by nobody: ``periplus.journal.exchange`` checks every byte, and
a carrier's own duty ends with limits, so that no answer takes more memory than is asked for.
"""

from __future__ import annotations

__all__ = [
    "HEAD_BYTES_MAX",
    "LINEAGES_MAX",
    "SEGMENTS_MAX",
    "Carrier",
    "SignedHead",
    "decode_head",
    "encode_head",
    "is_lineage_name",
]

from collections.abc import Collection
from typing import Final, Protocol

import msgspec

from periplus.base.digests import is_digest_text
from periplus.base.errors import DamageError, NewerFormatError
from periplus.base.ids import is_id
from periplus.journal.heads import TreeHead, head_message

HEAD_BYTES_MAX: Final = 16_384
LINEAGES_MAX: Final = 10_000
SEGMENTS_MAX: Final = 1_000_000
_FORMAT: Final = 1


class SignedHead(msgspec.Struct, frozen=True):
    """``head.json`` beside a lineage's segments: how many records its owner vouches for, and with which key."""

    format: int
    head: TreeHead
    key: str
    signature: str

    @property
    def public_key(self) -> bytes:
        return bytes.fromhex(self.key)

    def is_signed(self) -> bool:
        """Whether the signature is that of ``key``: whose key it is, is another question."""
        from periplus.journal.keys import verify_signature

        return verify_signature(self.public_key, bytes.fromhex(self.signature), head_message(self.head))


class _Made(msgspec.Struct):
    format: int


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


def encode_head(head: SignedHead) -> bytes:
    return msgspec.json.format(msgspec.json.encode(head), indent=2) + b"\n"


def decode_head(data: bytes, path: str) -> SignedHead:
    """Raises DamageError for what is no signed head, NewerFormatError for one of a later version; whether it is signed rightly is not
    looked at.
    """
    try:
        if (made := msgspec.json.decode(data, type=_Made).format) > _FORMAT:
            raise NewerFormatError(
                f"a signed head of format {made}, which a later Periplus wrote", path=path, safe="Nothing was taken from there.",
                mend="Update Periplus, then repeat the command.",
            )  # fmt: skip
        head = msgspec.json.decode(data, type=SignedHead)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamageError(f"not a signed head: {error}", path=path, safe="Nothing was taken from there.") from error
    is_whole = (
        head.format == _FORMAT
        and is_digest_text(head.head.root)
        and is_digest_text(head.key)
        and len(head.signature) == 128
        and is_digest_text(head.signature[:64])
        and is_digest_text(head.signature[64:])
        and 0 <= head.head.size < 2**53
    )
    if not is_whole:
        raise DamageError("not a signed head of this format", path=path, safe="Nothing was taken from there.")
    return head
