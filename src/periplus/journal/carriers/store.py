"""Our own store as a carrier, which signs the heads of what it sends."""

from __future__ import annotations

__all__ = ["StoreCarrier", "sign_head", "sign_left"]

from typing import TYPE_CHECKING

from periplus.base.errors import (
    DamageError,
    EnvironmentFailure,
    NotFoundError,
)
from periplus.base.files import write_atomic
from periplus.journal.carriers.folder import FolderCarrier
from periplus.journal.journal import Journal
from periplus.journal.proofs.heads import remember_head
from periplus.journal.proofs.tiles import LineageTree
from periplus.journal.storage.keys import public_key, sign, sign_as_left
from periplus.journal.storage.lineage_creation import left_behind
from periplus.journal.storage.tree_head import SignedHead, TreeHead, encode_head, head_message
from periplus.merkle import Frontier

if TYPE_CHECKING:
    from periplus.journal.journal import Journal
    from periplus.journal.storage.tree_head import Peer


def sign_head(journal: Journal, *, remembers: bool = True) -> SignedHead:
    """Sign the head of all durable records of our own lineage; of all records if none is known to be durable.

    A sent head is remembered and must be extended from then on; without ``remembers`` nothing is written.
    """
    lineage = journal.lineage
    size = journal.end().next_seq - 1
    if journal.settings.journal.sync != "never":
        known = FolderCarrier.durable_seq(StoreCarrier(journal), lineage) or 0
        size = min(size, max(known, journal.durable_seq))
    if remembers:
        tiles = LineageTree(journal)
        tiles.refresh(at_least=size)
        root = tiles.root(size)
    else:
        tree = Frontier()
        for _, entry in journal.entries(lineage):
            if tree.size < entry.record.seq <= size:
                tree.extend([entry.leaf])
        root = tree.root()
    head, key = TreeHead(journal.store_of(lineage), lineage, size, root.hex()), public_key(journal.layout, lineage)
    signature = sign(journal.layout, lineage, head_message(head))
    if remembers and size:
        remember_head(journal, head, signature=signature, key=key)
    return SignedHead(1, head, key.hex(), signature.hex())


def sign_left(journal: Journal, lineage: str, size: int, *, remembers: bool = True) -> SignedHead | None:
    """Sign the head of the first ``size`` records, the acknowledged ones, of a lineage that was written here and left.

    Its owner may be gone: a removed container, a machine with another name. If it is not, it has these records too. Return None if the
    records or the key are missing. A batch is signed as a whole or not at all.
    """
    tree = Frontier()
    batch: list[bytes] = []
    try:
        for _, entry in journal.entries(lineage):
            record = entry.record
            if tree.size + len(batch) < record.seq <= size:
                batch.append(entry.leaf)
                if record.txn is None or record.txn[0] == record.txn[1]:
                    tree.extend(batch)
                    batch = []
        if not tree.size:
            return None
        head = TreeHead(journal.store_of(lineage), lineage, tree.size, tree.root().hex())
        signed = SignedHead(1, head, public_key(journal.layout, lineage).hex(),
                            sign_as_left(journal.layout, lineage, head_message(head)).hex())  # fmt: skip
    except (NotFoundError, DamageError):
        return None
    if remembers:
        write_atomic(journal.files, StoreCarrier(journal).head_path(lineage), encode_head(signed))
    return signed


class StoreCarrier(FolderCarrier):
    """Our own store with its open journal; it signs the heads of what it sends, and remembers them unless ``remembers`` is False."""

    def __init__(self, journal: Journal, *, remembers: bool = True) -> None:
        packing = journal.objects.packing
        super().__init__(
            journal.layout.root, journal.files, store=journal.settings.store, is_store=True, packing=packing
        )
        self._journal = journal
        self._remembers = remembers
        self._signed: SignedHead | None = None

    def written_lineage(self) -> str:
        return self._journal.lineage

    @property
    def left(self) -> dict[str, int]:
        """The lineages written here before, with the number of records that their owners had acknowledged.

        Also those of a copy that has not written yet: nobody else may be there, and its first command may be an exchange.
        """
        own = self._journal.own
        if own is None and self._journal.copied_from:
            return left_behind(self.layout, self._journal.copied_from)
        return own.left if own is not None else {}

    def head(self, lineage: str) -> SignedHead | None:
        if not lineage or lineage != self._journal.lineage:
            known = super().head(lineage)
            if lineage not in self.left or (known is not None and known.head.size >= self.left[lineage]):
                return known or self._head_seen(lineage)

            signed = sign_left(self._journal, lineage, self.left[lineage], remembers=self._remembers)
            return signed or known or self._head_seen(lineage)
        if self._signed is None:
            self._signed = sign_head(self._journal, remembers=self._remembers)
        return self._signed

    def was_written(self, lineage: str) -> bool:
        """Return True if this store, or the one from which it was restored, wrote the lineage before."""
        peer = self._peer(lineage)
        return lineage != self._journal.lineage and peer is not None and peer.own

    def _head_seen(self, lineage: str) -> SignedHead | None:
        """Return the signed head seen of a lineage written before whose key is gone: perhaps nobody else can sign it."""
        from periplus.journal.storage.tree_head import TreeHead

        peer = self._peer(lineage)
        if peer is None or not peer.own or peer.seen is None or not peer.seen.signature:
            return None
        head = TreeHead(peer.store, lineage, peer.seen.size, peer.seen.root)
        return SignedHead(1, head, peer.key, peer.seen.signature)

    def _peer(self, lineage: str) -> Peer | None:
        from periplus.journal.storage.tree_head import read_peer

        try:
            return read_peer(self.layout, lineage)
        except (DamageError, EnvironmentFailure):
            return None  # `periplus doctor` reports it

    def durable_seq(self, lineage: str) -> int | None:
        known = super().durable_seq(lineage)
        if known is None or lineage != self._journal.lineage:
            return known
        return max(known, self._journal.durable_end())
