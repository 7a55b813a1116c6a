"""Tree heads, and which of them were seen: what is held must extend every head that anybody was shown.

A *tree head* sums up the first ``size`` records of a lineage in one root. ``journal/peers/<lineage>.json`` remembers for a
lineage, our own or another's, the public key that its heads are signed with (*pinned* at first sight) and the largest
head that was seen. A lineage whose records no longer lead to that head was cut short, rolled back to an older copy,
rewritten, or goes on from another past: a fork. That is told, loudly, with both sizes or both roots.

For who exchanges lineages:

* ``pin_key(journal, lineage, store, key, name="")`` at first sight of a lineage and at every later one: DamageError where
  another key was pinned before;
* ``check_head(journal, lineage)`` before and after foreign records were taken in: DamageError where what is held does
  not lead to the head remembered;
* ``remember_head(journal, head, signature=…, key=…)`` once the records of ``head`` are held: checks the signature and that
  the records lead to it, then remembers it if it is the largest so far;
* ``extends(journal, head)`` whether the records held lead to a head, which need not be remembered.

A head remembered in the store is put back together with the store when the whole of it is restored from a backup. What
finds that is a head kept elsewhere: with a peer, in a proof that was given away, in a file of ``periplus head --out``.
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
    """The lineages of which something is remembered and whose records belong here: those of another project never come."""

    def is_ours(lineage: str) -> bool:
        try:
            peer = read_peer(journal.layout, lineage)
        except (DamageError, EnvironmentFailure):
            return True
        return peer is None or peer.store in journal.stores

    return list(filter(is_ours, remembered(journal.layout)))


def pin_key(journal: StoredJournal, lineage: str, store: str, key: bytes, name: str = "") -> Peer:
    """Remember the public key (32 bytes) of ``lineage`` at first sight. Raises DamageError where it is another now."""
    if len(key) != 32 or not (lineage.startswith("lin_") and is_id(lineage)):
        raise UsageError("a key has 32 bytes and belongs to a lineage", safe="Nothing was remembered.")
    known = read_peer(journal.layout, lineage)
    if known is not None and known.store != store:
        raise DamageError(
            f"lineage {lineage} belonged to store {known.store} when it was first seen, now it says {store}",
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
    """Whether the records of ``lineage`` (our own by default) still lead to the head remembered of it.

    Gives what is remembered, None where that is nothing. Raises DamageError that names both sizes or both roots.
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

    A ``signature`` is checked with ``key``, and that with the one pinned. Raises DamageError where the records held do not
    lead to the head, or those of the head remembered before do not; RefusedError for a signature that does not hold.
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
    """Whether the records held lead to ``head``; None where fewer are held. Raises as ``LineageTree``."""
    tree = tree or LineageTree(journal, head.lineage)
    if tree.size < head.size:
        tree.refresh(at_least=head.size)
    return tree.root(head.size).hex() == head.root if head.size <= tree.size else None


def _require(journal: StoredJournal, lineage: str, size: int, root: bytes, tree: LineageTree | None) -> None:
    held = held_now(journal, lineage, size)
    if held < size:
        raise journal.damage or no_longer_extends(lineage, (size, root), held)
    tree = tree or LineageTree(journal, lineage)
    if tree.size < size:  # our own durable mark only lags: what is in a head was durable
        tree.refresh(at_least=size)
    found = tree.root(size)
    if found != root:
        raise no_longer_extends(lineage, (size, root), size, found)


def _write(journal: StoredJournal, peer: Peer) -> None:
    write_peer(journal.layout, journal.files, peer)
