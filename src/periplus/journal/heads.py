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

__all__ = [
    "Peer",
    "Pinned",
    "Seen",
    "TreeHead",
    "awaited",
    "check_head",
    "encode_peer",
    "extends",
    "head_message",
    "parse_peer",
    "peers",
    "pin_key",
    "pinned_key",
    "read_peer",
    "remember_head",
    "remembered",
    "write_peer",
]

import os
from typing import Final

import msgspec

from periplus.base.canonical import JSONValue, canonical
from periplus.base.errors import (
    DamageError,
    EnvironmentFailure,
    NotFoundError,
    RefusedError,
    UsageError,
    environment_failure,
)
from periplus.base.files import Files, read_plain, write_atomic
from periplus.base.ids import is_id
from periplus.base.tuples import NamedTuple
from periplus.journal.journal import Journal
from periplus.journal.keys import fingerprint, public_key, verify_signature
from periplus.journal.layout import Layout
from periplus.journal.record import seal_line, unseal_line
from periplus.journal.settings import read_lineage
from periplus.journal.tiles import LineageTree, held_now, no_longer_extends

_PEER_BYTES_MAX: Final = 65_536


class TreeHead(msgspec.Struct, frozen=True):
    """The first ``size`` records of a lineage, summed up in the ``root`` of their RFC 9162 tree (hexadecimal)."""

    store: str
    lineage: str
    size: int
    root: str


class Seen(msgspec.Struct, frozen=True):
    """The largest head seen: ``root`` and ``signature`` in hexadecimal, the latter empty where there was none."""

    size: int
    root: str
    signature: str = ""


class Peer(msgspec.Struct, frozen=True):
    """What is remembered of a lineage. ``own``: it was this store's own when it was written; ``name`` is for people."""

    lineage: str
    store: str
    key: str = ""
    seen: Seen | None = None
    own: bool = False
    name: str = ""
    v: int = 1


class Pinned(NamedTuple):
    """The key that heads of a lineage must be signed with; ``whose`` says it to people."""

    key: bytes
    whose: str


def head_message(head: TreeHead) -> bytes:
    """The bytes that are signed for a head."""
    fields: dict[str, JSONValue] = {"lineage": head.lineage, "root": head.root, "size": head.size, "store": head.store}
    return b"PPLS/tree-head/1\0" + canonical(fields)


def read_peer(layout: Layout, lineage: str) -> Peer | None:
    """What is remembered of ``lineage``; None where that is nothing. Raises DamageError for a file that is no such one."""
    path = layout.peer_file(lineage)
    try:
        data = read_plain(path, _PEER_BYTES_MAX)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise environment_failure(error, "read", path) from error
    peer = parse_peer(data, lineage)
    if peer is None:
        raise DamageError(
            "not what is remembered of a lineage",
            path=path,
            safe="The records are untouched.",
            mend="Restore the file; without it the key and the head that were seen are forgotten.",
        )
    return peer


def parse_peer(data: bytes, lineage: str) -> Peer | None:
    """What ``data`` remembers of ``lineage``; None where it is no such thing, or its checksum does not hold."""
    try:
        peer = msgspec.json.decode(data, type=Peer)
        is_sealed = data.endswith(b"\n") and unseal_line(data[:-1]) is not None
        is_sound = is_sealed or data == _body(peer) + b"\n"  # just so they were before they had a checksum
        is_sound &= peer.lineage == lineage and len(bytes.fromhex(peer.key)) in (0, 32)
        if peer.seen is not None:
            is_sound &= len(bytes.fromhex(peer.seen.root)) == 32 and peer.seen.size > 0
            is_sound &= len(bytes.fromhex(peer.seen.signature)) in (0, 64)
    except ValueError:  # of msgspec and of fromhex
        return None
    return peer if is_sound else None


def peers(layout: Layout) -> list[Peer]:
    """All that is remembered, by lineage. Raises as ``read_peer``."""
    return [peer for lineage in remembered(layout) if (peer := read_peer(layout, lineage)) is not None]


def remembered(layout: Layout) -> list[str]:
    """The lineages of which something is remembered."""
    try:
        names = sorted(os.listdir(layout.peers))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise environment_failure(error, "list", layout.peers) from error
    lineages = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    return [name for name in lineages if name.startswith("lin_") and is_id(name)]


def awaited(journal: Journal) -> list[str]:
    """The lineages of which something is remembered and whose records belong here: those of another project never come."""

    def is_ours(lineage: str) -> bool:
        try:
            peer = read_peer(journal.layout, lineage)
        except (DamageError, EnvironmentFailure):
            return True
        return peer is None or peer.store in journal.stores

    return list(filter(is_ours, remembered(journal.layout)))


def pin_key(journal: Journal, lineage: str, store: str, key: bytes, name: str = "") -> Peer:
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


def pinned_key(layout: Layout, lineage: str) -> Pinned | None:
    """The key by which this store knows ``lineage``: its own, or one pinned at first sight. Raises as ``read_peer``."""
    own = read_lineage(layout)
    if own is not None and own.lineage == lineage:
        return Pinned(public_key(layout, lineage), "this store's own")
    if own is not None and own.wrote(lineage):
        try:
            return Pinned(public_key(layout, lineage), "this store's own before it was copied, moved or restored")
        except NotFoundError:
            pass  # of a store that was copied without its keys
    peer = read_peer(layout, lineage)
    if peer is None or not peer.key:
        return None
    return Pinned(bytes.fromhex(peer.key), f"pinned for {peer.name or lineage}")


def check_head(journal: Journal, lineage: str = "", tree: LineageTree | None = None) -> Peer | None:
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
    journal: Journal, head: TreeHead, *, signature: bytes = b"", key: bytes = b"", tree: LineageTree | None = None
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


def extends(journal: Journal, head: TreeHead, tree: LineageTree | None = None) -> bool | None:
    """Whether the records held lead to ``head``; None where fewer are held. Raises as ``LineageTree``."""
    tree = tree or LineageTree(journal, head.lineage)
    if tree.size < head.size:
        tree.refresh(at_least=head.size)
    return tree.root(head.size).hex() == head.root if head.size <= tree.size else None


def _require(journal: Journal, lineage: str, size: int, root: bytes, tree: LineageTree | None) -> None:
    held = held_now(journal, lineage, size)
    if held < size:
        raise journal.damage or no_longer_extends(lineage, (size, root), held)
    tree = tree or LineageTree(journal, lineage)
    if tree.size < size:  # our own durable mark only lags: what is in a head was durable
        tree.refresh(at_least=size)
    found = tree.root(size)
    if found != root:
        raise no_longer_extends(lineage, (size, root), size, found)


def write_peer(layout: Layout, files: Files, peer: Peer) -> None:
    """Remember ``peer`` in the place of what was remembered. Raises EnvironmentFailure."""
    try:
        files.make_folder(layout.peers)
    except OSError as error:
        raise environment_failure(error, "make", layout.peers) from error
    write_atomic(files, layout.peer_file(peer.lineage), encode_peer(peer))


def encode_peer(peer: Peer) -> bytes:
    """The file that remembers ``peer``."""
    return seal_line(_body(peer)[:-1])[0]


def _body(peer: Peer) -> bytes:
    return canonical(msgspec.to_builtins(peer))


def _write(journal: Journal, peer: Peer) -> None:
    write_peer(journal.layout, journal.files, peer)
