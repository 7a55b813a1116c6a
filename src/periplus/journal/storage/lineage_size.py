"""The number of records that a lineage had, by signed heads and by ``missing.json`` of a store restored with gaps."""

from __future__ import annotations

__all__ = [
    "MISSING_FILE",
    "SignedSize",
    "encode_missing",
    "missing_size",
    "parse_missing",
    "read_missing",
    "seen_size",
    "size_in_head",
    "size_in_peer",
]

import hashlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.encoding.canonical import canonical
from periplus.base.errors import DamageError
from periplus.base.files import read_plain
from periplus.base.named_tuple import NamedTuple
from periplus.journal.storage.keys import verify_signature
from periplus.journal.storage.layout import Layout

if TYPE_CHECKING:
    from periplus.journal.storage.tree_head import Peer, SignedHead


MISSING_FILE: Final = "missing.json"
_BYTES_MAX: Final = 1 << 24


class _Statement(msgspec.Struct, forbid_unknown_fields=True):
    lineage: str
    missing: list[tuple[int, int]]
    size: int
    sum: str


def missing_size(layout: Layout, lineage: str) -> int:
    """Return how many records the lineage had according to ``missing.json``; 0 if there is no such file."""
    found = read_missing(layout, lineage)
    return 0 if found is None else found[0]


def read_missing(layout: Layout, lineage: str) -> tuple[int, list[tuple[int, int]]] | None:
    """Read size and ranges from ``missing.json``; None if there is none or it is not valid."""
    try:
        data = read_plain(os.path.join(layout.lineage_folder(lineage), MISSING_FILE), _BYTES_MAX)
    except OSError:
        return None
    return parse_missing(data, lineage)


def encode_missing(lineage: str, size: int, ranges: list[tuple[int, int]]) -> bytes:
    """Return the ``missing.json`` of a lineage that had ``size`` records and lacks those in ``ranges``."""
    statement = _Statement(lineage, ranges, size, _sum(lineage, ranges, size))
    return canonical(msgspec.to_builtins(statement)) + b"\n"


def parse_missing(data: bytes, lineage: str) -> tuple[int, list[tuple[int, int]]] | None:
    """Return size and ranges of a ``missing.json``; None if it is not a valid one for ``lineage``."""
    try:
        found = msgspec.json.decode(data, type=_Statement)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if found.lineage != lineage or found.sum != _sum(lineage, found.missing, found.size):
        return None
    return found.size, found.missing


def _sum(lineage: str, ranges: Sequence[tuple[int, int]], size: int) -> str:
    said = canonical([lineage, [list(one) for one in ranges], size])
    return hashlib.sha256(said).hexdigest()[:16]


_FILE_BYTES_MAX: Final = 1 << 20


def seen_size(layout: Layout, lineage: str) -> int:
    """Return how many records the lineage had in the largest validly signed head that was seen, or by ``missing.json``."""
    sizes = [missing_size(layout, lineage)]
    for name, read in (
        (f"journal/peers/{lineage}.json", size_in_peer),
        (f"journal/{lineage}/head.json", size_in_head),
    ):
        try:
            found = read(read_plain(os.path.join(layout.root, name), _FILE_BYTES_MAX), lineage)
        except OSError:
            continue  # there is none
        if found is not None and found.signed[0] and verify_signature(found.key, found.signed[0], found.signed[1]):
            sizes.append(found.size)
    return max(sizes)


class SignedSize(NamedTuple):
    """A size and the key that is said to have signed it: ``(signature, message)``, the signature empty if there is none."""

    key: bytes
    store: str
    size: int
    signed: tuple[bytes, bytes]


def size_in_peer(data: bytes, lineage: str) -> SignedSize | None:
    """Return the size in a peer file with what proves it; None if the file is not valid."""
    from periplus.journal.storage.tree_head import TreeHead, head_message, parse_peer

    peer: Peer | None = parse_peer(data, lineage)
    if peer is None:
        return None
    if peer.seen is None:
        return SignedSize(bytes.fromhex(peer.key), peer.store, 0, (b"", b""))
    message = head_message(TreeHead(peer.store, lineage, peer.seen.size, peer.seen.root))
    return SignedSize(
        bytes.fromhex(peer.key), peer.store, peer.seen.size, (bytes.fromhex(peer.seen.signature), message)
    )


def size_in_head(data: bytes, lineage: str) -> SignedSize | None:
    """Return the size in a ``head.json`` with what proves it; None if the file is not valid."""
    from periplus.journal.storage.tree_head import decode_head, head_message

    try:
        head: SignedHead = decode_head(data, "")
    except DamageError:
        return None
    if head.head.lineage != lineage:
        return None
    return SignedSize(
        bytes.fromhex(head.key),
        head.head.store,
        head.head.size,
        (bytes.fromhex(head.signature), head_message(head.head)),
    )
