"""Tree heads as values, and the files that keep them: ``peers/<lineage>.json`` and ``head.json``."""

from __future__ import annotations

__all__ = [
    "HEAD_BYTES_MAX",
    "Peer",
    "Pinned",
    "Seen",
    "SignedHead",
    "TreeHead",
    "decode_head",
    "encode_head",
    "encode_peer",
    "head_message",
    "parse_peer",
    "peers",
    "pinned_key",
    "read_peer",
    "remembered",
    "write_peer",
]

import os
from typing import Final

import msgspec

from periplus.base.encoding.canonical import JSONValue, canonical
from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import (
    DamageError,
    NewerFormatError,
    NotFoundError,
    environment_failure,
)
from periplus.base.files import Files, read_plain, write_atomic
from periplus.base.ids import is_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal.records.record import seal_line, unseal_line
from periplus.journal.storage.keys import public_key, verify_signature
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.settings import read_lineage

_PEER_BYTES_MAX: Final = 65_536


class TreeHead(msgspec.Struct, frozen=True):
    """A tree head: the first ``size`` records of a lineage and the ``root`` of their RFC 9162 tree (hexadecimal)."""

    store: str
    lineage: str
    size: int
    root: str


class Seen(msgspec.Struct, frozen=True):
    """The largest head seen; ``root`` and ``signature`` in hexadecimal, the signature empty if there was none."""

    size: int
    root: str
    signature: str = ""


class Peer(msgspec.Struct, frozen=True):
    """Facts remembered of a lineage. ``own``: this store wrote it at that time; ``name`` is for people."""

    lineage: str
    store: str
    key: str = ""
    seen: Seen | None = None
    own: bool = False
    name: str = ""
    v: int = 1


class Pinned(NamedTuple):
    """The key that heads of a lineage must be signed with; ``whose`` describes it to people."""

    key: bytes
    whose: str


def head_message(head: TreeHead) -> bytes:
    """Return the bytes that are signed for a head."""
    fields: dict[str, JSONValue] = {"lineage": head.lineage, "root": head.root, "size": head.size, "store": head.store}
    return b"PPLS/tree-head/1\0" + canonical(fields)


def read_peer(layout: Layout, lineage: str) -> Peer | None:
    """Read what is remembered of ``lineage``; None if there is nothing. Raises DamageError for a file that is not valid."""
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
            "not a valid peer file",
            path=path,
            safe="The records are untouched.",
            mend="Restore the file. Without it the pinned key and the last seen head are lost.",
        )
    return peer


def parse_peer(data: bytes, lineage: str) -> Peer | None:
    """Parse a peer file of ``lineage``; None if it is not valid or its checksum is wrong."""
    try:
        peer = msgspec.json.decode(data, type=Peer)
        is_sealed = data.endswith(b"\n") and unseal_line(data[:-1]) is not None
        is_sound = is_sealed or data == _body(peer) + b"\n"  # the form of earlier versions, without a checksum
        is_sound &= peer.lineage == lineage and len(bytes.fromhex(peer.key)) in (0, 32)
        if peer.seen is not None:
            is_sound &= len(bytes.fromhex(peer.seen.root)) == 32 and peer.seen.size > 0
            is_sound &= len(bytes.fromhex(peer.seen.signature)) in (0, 64)
    except ValueError:  # from msgspec or fromhex
        return None
    return peer if is_sound else None


def peers(layout: Layout) -> list[Peer]:
    """Return all that is remembered, by lineage. Raises as ``read_peer``."""
    return [peer for lineage in remembered(layout) if (peer := read_peer(layout, lineage)) is not None]


def remembered(layout: Layout) -> list[str]:
    """Return the lineages of which something is remembered."""
    try:
        names = sorted(os.listdir(layout.peers))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise environment_failure(error, "list", layout.peers) from error
    lineages = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    return [name for name in lineages if name.startswith("lin_") and is_id(name)]


def pinned_key(layout: Layout, lineage: str) -> Pinned | None:
    """Return the key by which this store knows ``lineage``: its own, or one pinned at first sight. Raises as ``read_peer``."""
    own = read_lineage(layout)
    if own is not None and own.lineage == lineage:
        return Pinned(public_key(layout, lineage), "this store's own")
    if own is not None and own.wrote(lineage):
        try:
            return Pinned(public_key(layout, lineage), "this store's own before it was copied, moved or restored")
        except NotFoundError:
            pass  # the store was copied without its keys
    peer = read_peer(layout, lineage)
    if peer is None or not peer.key:
        return None
    return Pinned(bytes.fromhex(peer.key), f"pinned for {peer.name or lineage}")


def write_peer(layout: Layout, files: Files, peer: Peer) -> None:
    """Replace what is remembered of a lineage. Raises EnvironmentFailure."""
    try:
        files.make_folder(layout.peers)
    except OSError as error:
        raise environment_failure(error, "make", layout.peers) from error
    write_atomic(files, layout.peer_file(peer.lineage), encode_peer(peer))


def encode_peer(peer: Peer) -> bytes:
    """Return the content of the file that remembers ``peer``."""
    return seal_line(_body(peer)[:-1])[0]


def _body(peer: Peer) -> bytes:
    return canonical(msgspec.to_builtins(peer))


HEAD_BYTES_MAX: Final = 16_384
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
        """Return True if the signature was made with ``key``. Whose key that is, is not checked."""
        return verify_signature(self.public_key, bytes.fromhex(self.signature), head_message(self.head))


class _Made(msgspec.Struct):
    format: int


def encode_head(head: SignedHead) -> bytes:
    return msgspec.json.format(msgspec.json.encode(head), indent=2) + b"\n"


def decode_head(data: bytes, path: str) -> SignedHead:
    """Decode a signed head. Raises DamageError if it is none, NewerFormatError for a later version; does not check the signature."""
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
