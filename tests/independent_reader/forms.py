"""Canonical JSON, sealed lines, RFC 9162 trees, containers, signatures: what the formats have in common."""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

SEAL = re.compile(rb',"sum":"([0-9a-f]{16})"\}\Z')
_INTEGER_MAX = 2**53 - 1
_DEPTH_MAX = 64
_PROOF_BYTES_MAX = 1 << 20


class Refused(Exception):  # noqa: N818 - of the reader's one verdict
    """What was read is not what the page says."""


def need(holds: object, what: str) -> None:
    """Refuse, with *what* is wrong, unless it *holds*."""
    if not holds:
        raise Refused(what)


def canonical(value: object) -> bytes:
    """The one form of *value* (page: Canonical JSON)."""
    _check(value, 1)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _check(value: object, depth: int) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, int):
        need(abs(value) <= _INTEGER_MAX, "an integer beyond 2^53 - 1")
    elif isinstance(value, str):
        need(not any("\ud800" <= c <= "\udfff" for c in value), "half a character")
    elif isinstance(value, list):
        need(depth <= _DEPTH_MAX, "nested over 64 deep")
        for part in value:
            _check(part, depth + 1)
    elif isinstance(value, dict):
        need(depth <= _DEPTH_MAX, "nested over 64 deep")
        for key, part in value.items():
            need(all(c < "\ud800" for c in key), "a key beyond U+D7FF")
            _check(part, depth + 1)
    else:
        raise Refused(f"{type(value).__name__} has no canonical form")


def _no_fraction(text: str) -> object:
    raise Refused(f"a floating-point number: {text}")


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    need(len(found) == len(pairs), "a key twice")
    return found


def parse(data: bytes) -> Any:
    """JSON without fractions and repeated keys."""
    try:
        return json.loads(
            data.decode(),
            parse_float=_no_fraction,
            parse_constant=_no_fraction,
            object_pairs_hook=_no_key_twice,
        )
    except (ValueError, RecursionError) as error:
        raise Refused(f"no JSON: {error}") from error


def parse_canonical(data: bytes) -> Any:
    """JSON that re-encodes to itself."""
    value = parse(data)
    need(canonical(value) == data, "not canonical")
    return value


def leaf_hash(data: bytes) -> bytes:
    """SHA-256(00 ‖ data): a leaf, and what the checksum of a sealed line is taken of."""
    return hashlib.sha256(b"\0" + data).digest()


def unseal(line: bytes) -> tuple[dict[str, Any], bytes]:
    """A sealed line without its newline: its object, and its leaf hash."""
    seal = SEAL.search(line)
    need(seal, "no sum at the end")
    assert seal is not None
    leaf = leaf_hash(line[: seal.start()])
    need(leaf.hex()[:16] == seal[1].decode(), "the sum is another")
    value = parse(line)
    need(isinstance(value, dict), "no object")
    return value, leaf


def sealed_canonical(line: bytes) -> dict[str, Any]:
    """Canonical JSON, sealed: the bytes before `,"sum"` with the closing brace are canonical."""
    if b',"sum":"' not in line:
        return dict(parse_canonical(line))
    said, _ = unseal(line)
    del said["sum"]
    need(canonical(said) == line[: line.rindex(b',"sum":"')] + b"}", "not canonical")
    return said


# -- RFC 9162 -------------------------------------------------------------------------------------------------------


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(01 ‖ left ‖ right)."""
    return hashlib.sha256(b"\1" + left + right).digest()


def tree_root(leaves: Sequence[bytes]) -> bytes:
    """The root over leaf hashes (RFC 9162 §2.1.1)."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    level = list(leaves)
    while len(level) > 1:
        paired = [node_hash(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = paired + level[len(level) & ~1 :]
    return level[0]


def check_inclusion(index: int, size: int, leaf: bytes, path: Iterable[bytes], root: bytes) -> None:
    """RFC 9162 §2.1.3.2."""
    need(index < size, "no such leaf")
    fn, sn, r = index, size - 1, leaf
    for p in path:
        need(sn, "the path is too long")
        if fn & 1 or fn == sn:
            r = node_hash(p, r)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            r = node_hash(r, p)
        fn, sn = fn >> 1, sn >> 1
    need(sn == 0 and r == root, "the path leads elsewhere")


def check_consistency(first: int, second: int, old: bytes, new: bytes, path: Sequence[bytes]) -> None:
    """RFC 9162 §2.1.4.2; from size 0, and to the same size, the path is empty."""
    need(first <= second, "the first tree is the larger one")
    if first in (0, second):
        need(not path, "nodes to spare")
        need(old == (new if first else tree_root([])), "another root of the same tree")
        return
    nodes = list(path) if first & (first - 1) else [old, *path]
    need(nodes, "the path is empty")
    fn, sn = first - 1, second - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    fr = sr = nodes[0]
    for c in nodes[1:]:
        need(sn, "the path is too long")
        if fn & 1 or fn == sn:
            fr, sr = node_hash(c, fr), node_hash(c, sr)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            sr = node_hash(sr, c)
        fn, sn = fn >> 1, sn >> 1
    need(sn == 0 and fr == old and sr == new, "the path leads elsewhere")


# -- containers, heads, proofs ----------------------------------------------------------------------------------------


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A LEB128 number in its shortest form, and where it ends."""
    value = shift = 0
    while True:
        need(at < len(data) and shift < 70, "a number without an end")
        byte = data[at]
        at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
        if not byte & 0x80:
            need(byte or shift == 7, "a number longer than it must be")
            return value, at


def sections(data: bytes, kind: int) -> dict[int, bytes]:
    """The sections of a container of *kind*, its digest checked (docs/formats/trail.md)."""
    need(data[:6] == b"PPLS\x02" + bytes([kind]), "no container of this kind")
    need(hashlib.sha256(data[:-32]).digest() == data[-32:], "the container's digest is another")
    need(data[-34:-32] == b"\xff\x20", "no last section")
    found: dict[int, bytes] = {}
    at, end = 6, len(data) - 34
    while at < end:
        tag = data[at]
        need(tag > max(found, default=0), "tags that do not rise")
        size, at = varint(data, at + 1)
        need(at + size <= end, "a section beyond the end")
        found[tag], at = data[at : at + size], at + size
    return found


def check_head(head: dict[str, Any], key: bytes, signature: bytes) -> None:
    """A signed tree head."""
    need(sorted(head) == ["lineage", "root", "size", "store"], "no tree head")
    check_signature(key, signature, b"PPLS/tree-head/1\0" + canonical(head))


def check_signature(key: bytes, signature: bytes, message: bytes) -> None:
    """An Ed25519 signature."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError) as error:
        raise Refused("the signature does not hold") from error


def check_proof(data: bytes) -> dict[str, Any]:
    """Check a proof file with nothing else at hand; its statement, with `leaves` {seq: leaf hash} and `signed_by` added."""
    need(len(data) <= _PROOF_BYTES_MAX, "over 1 MiB")
    part = sections(data, 3)
    need(set(part) <= {1, 2, 3, 4, 5} and len(part.get(3, b"")) % 32 == 0, "other sections")
    said = parse_canonical(part[1])
    need(said["format"] == 1, "another format")
    head, kind = said["head"], said["kind"]
    need((4 in part) == (5 in part), "half a signature")
    if 4 in part:
        check_head(head, part[4], part[5])
    else:
        need(kind != "head", "a head alone counts only with its signature")
    raw = part.get(3, b"")
    nodes = [raw[i : i + 32] for i in range(0, len(raw), 32)]
    lines = part[2].split(b"\n") if 2 in part else []
    counts = said.get("nodes", [len(nodes)])
    need(sum(counts) == len(nodes), "other nodes than it counts")
    paths = [nodes[sum(counts[:i]) : sum(counts[: i + 1])] for i in range(len(counts))]
    seqs = [said["seq"]] if kind == "inclusion" else said.get("seqs", [])
    need(len(seqs) == len(lines) and seqs == sorted(set(seqs)), "other records than it names")
    root, size = bytes.fromhex(head["root"]), head["size"]
    said["leaves"] = {}
    for seq, line, path in zip(seqs, lines, paths, strict=False):
        record, leaf = unseal(line)
        if "leaf" in record:
            need(not {"payload", "summary", "salt"} & set(record), "a stub with content")
            leaf = bytes.fromhex(record["leaf"])
        need(record["seq"] == seq, "the record has another seq")
        check_inclusion(seq - 1, size, leaf, path, root)
        said["leaves"][seq] = leaf
    if kind in ("consistency", "bundle") and (said["first_size"] or said["first_root"]):
        old = bytes.fromhex(said["first_root"])
        check_consistency(said["first_size"], size, old, root, paths[-1])
    else:
        need(kind == "head" or len(paths) == len(lines), "nodes to spare")
    said["signed_by"] = part[4].hex() if 4 in part else None
    return dict(said)
