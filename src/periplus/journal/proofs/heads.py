"""Tree heads seen of each lineage: the records held must extend every head that was shown to anybody.

A *tree head* sums up the first ``size`` records of a lineage in one root. ``journal/peers/<lineage>.json`` stores for a lineage, our own or
another's, the public key that signs its heads (*pinned* at first sight) and the largest head seen. If the records of a lineage no longer
lead to that head, it was truncated, restored to an older copy, rewritten, or forked. This is reported with both sizes or both roots.

For code that exchanges lineages:

* ``pin_key(journal, lineage, store, key, name="")`` at first and every later sight of a lineage: DamageError if another key was pinned before;
* ``check_head(journal, lineage)`` before and after foreign records are taken in: DamageError if the records held do not lead to the head
  remembered;
* ``remember_head(journal, head, signature=…, key=…)`` once the records of ``head`` are held: checks the signature and that the records lead
  to it, then remembers it if it is the largest so far;
* ``extends(journal, head)`` checks whether the records held lead to a head, which need not be remembered.

A head remembered in the store is restored together with the store when all of it comes from a backup. Only a head kept elsewhere detects
that: with a peer, in a proof that was given away, in a file of ``periplus head --out``.
"""

from __future__ import annotations

__all__ = ["awaited", "check_head", "extends", "pin_key", "remember_head"]

import msgspec

from periplus.base.errors import (
    DamageError,
    EnvironmentFailure,
    RefusedError,
    UsageError,
)
from periplus.base.ids import is_id
from periplus.journal.proofs.tiles import LineageTree, held_now, no_longer_extends
from periplus.journal.storage.keys import fingerprint, verify_signature
from periplus.journal.storage.stored_journal import StoredJournal
from periplus.journal.storage.tree_head import Peer, Seen, TreeHead, head_message, read_peer, remembered, write_peer


def awaited(journal: StoredJournal) -> list[str]:
    """Return the remembered lineages whose records belong here, without those of other projects."""

    def is_ours(lineage: str) -> bool:
        try:
            peer = read_peer(journal.layout, lineage)
        except (DamageError, EnvironmentFailure):
            return True
        return peer is None or peer.store in journal.stores

    return list(filter(is_ours, remembered(journal.layout)))


def pin_key(journal: StoredJournal, lineage: str, store: str, key: bytes, name: str = "") -> Peer:
    """Pin the public key (32 bytes) of ``lineage`` at first sight. Raises DamageError if another key is pinned."""
    if len(key) != 32 or not (lineage.startswith("lin_") and is_id(lineage)):
        raise UsageError("a key has 32 bytes and belongs to a lineage", safe="Nothing was remembered.")
    known = read_peer(journal.layout, lineage)
    if known is not None and known.store != store:
        raise DamageError(
            f"lineage {lineage} belonged to store {known.store} when it was first seen, now it names {store}",
            safe="Nothing was taken in.",
        )
    if known is not None and known.key and known.key != key.hex():
        raise DamageError(
            f"the key of lineage {lineage} is {fingerprint(key)} now; {fingerprint(bytes.fromhex(known.key))} was "
            "pinned when it was first seen",
            path=journal.layout.peer_file(lineage),
            safe="Nothing was taken in.",
            mend="Ask its owner. If the key was changed on purpose, remove that file.",
        )
    peer = known or Peer(lineage, store, own=lineage == journal.lineage)
    changed = msgspec.structs.replace(peer, key=key.hex(), name=name or peer.name)
    if changed != known:
        _write(journal, changed)
    return changed


def check_head(journal: StoredJournal, lineage: str = "", tree: LineageTree | None = None) -> Peer | None:
    """Check that the records of ``lineage`` (our own by default) lead to the head remembered of it.

    Return the peer file, None if there is none. Raises DamageError with both sizes or both roots.
    """
    lineage = lineage or journal.lineage
    peer = read_peer(journal.layout, lineage) if lineage else None
    if peer is None or peer.seen is None:
        return peer
    _require(journal, lineage, peer.seen.size, bytes.fromhex(peer.seen.root), tree)
    return peer


def remember_head(
    journal: StoredJournal, head: TreeHead, *, signature: bytes = b"", key: bytes = b"", tree: LineageTree | None = None
) -> Peer:
    """Remember ``head``, whose records must be held, if it is the largest of its lineage so far.

    A ``signature`` is checked with ``key``, and the key against the pinned one. Raises DamageError if the records held do not lead to the
    head or to the one remembered before; RefusedError for an invalid signature.
    """
    own = head.lineage == journal.lineage
    known = read_peer(journal.layout, head.lineage)
    if signature or key:
        if not verify_signature(key, signature, head_message(head)):
            raise RefusedError("the head is not signed by the key that came with it", safe="Nothing was remembered.")
        known = pin_key(journal, head.lineage, head.store, key)
    tree = tree or LineageTree(journal, head.lineage)
    known = check_head(journal, head.lineage, tree) or known
    _require(journal, head.lineage, head.size, bytes.fromhex(head.root), tree)
    peer = known or Peer(head.lineage, head.store, own=own)
    if head.size > (peer.seen.size if peer.seen is not None else 0):
        peer = msgspec.structs.replace(peer, seen=Seen(head.size, head.root, signature.hex()), own=own)
        _write(journal, peer)
    return peer


def extends(journal: StoredJournal, head: TreeHead, tree: LineageTree | None = None) -> bool | None:
    """Return True if the records held lead to ``head``; None if fewer are held. Raises as ``LineageTree``."""
    tree = tree or LineageTree(journal, head.lineage)
    if tree.size < head.size:
        tree.refresh(at_least=head.size)
    return tree.root(head.size).hex() == head.root if head.size <= tree.size else None


def _require(journal: StoredJournal, lineage: str, size: int, root: bytes, tree: LineageTree | None) -> None:
    held = held_now(journal, lineage, size)
    if held < size:
        raise journal.damage or no_longer_extends(lineage, (size, root), held)
    tree = tree or LineageTree(journal, lineage)
    if tree.size < size:  # the durable mark lags; records in a head were durable
        tree.refresh(at_least=size)
    found = tree.root(size)
    if found != root:
        raise no_longer_extends(lineage, (size, root), size, found)


def _write(journal: StoredJournal, peer: Peer) -> None:
    write_peer(journal.layout, journal.files, peer)
