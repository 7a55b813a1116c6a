"""Proofs that leave the store: a record and its place, or a head and its descent, in one small file.

A proof is a container of kind 3 (see ``periplus.base.container``): a statement in canonical JSON, for an inclusion
the record's own line, the path, and a signed tree head. Whoever has the file and the store's public key checks it
without the store: the line's checksum and leaf (RFC 9162 §2.1.1), the path (§2.1.3.2 or §2.1.4.2), the signature.
"""

from __future__ import annotations

__all__ = [
    "PROOF_BYTES_MAX",
    "ConsistencyProof",
    "InclusionProof",
    "ProofVerdict",
    "TreeHead",
    "head_message",
    "prove_consistency",
    "prove_record",
    "verify_proof",
]

from typing import Final, Literal, NamedTuple

import msgspec

from periplus.base.canonical import JSONValue, canonical, decode_canonical
from periplus.base.container import KIND_PROOF, pack, unpack
from periplus.base.errors import DamageError, FormatError, NotFoundError, PeriplusError, UsageError
from periplus.journal.journal import Journal
from periplus.journal.keys import fingerprint, public_key, sign, verify_signature
from periplus.journal.lineage import START
from periplus.journal.record import decode_line
from periplus.journal.segment import Entry
from periplus.merkle.tree import Tree
from periplus.merkle.verify import verify_consistency, verify_inclusion

PROOF_BYTES_MAX: Final = 1 << 20
_STATEMENT, _LINE, _PATH, _KEY, _SIGNATURE = 1, 2, 3, 4, 5
_HASH: Final = 32


class TreeHead(msgspec.Struct, frozen=True):
    """The first ``size`` records of a lineage, summed up in the ``root`` of their RFC 9162 tree (hexadecimal)."""

    store: str
    lineage: str
    size: int
    root: str


class InclusionProof(msgspec.Struct, frozen=True, tag_field="kind", tag="inclusion"):
    """Record ``seq`` is leaf ``seq − 1`` of the tree under ``head``."""

    head: TreeHead
    seq: int
    format: Literal[1] = 1


class ConsistencyProof(msgspec.Struct, frozen=True, tag_field="kind", tag="consistency"):
    """The tree under ``head`` begins with the ``first_size`` leaves whose root is ``first_root``."""

    head: TreeHead
    first_size: int
    first_root: str
    format: Literal[1] = 1


class ProofVerdict(NamedTuple):
    """What a check found. ``holds``: the mathematics; ``signer``: whose it is, empty where nobody's key was given."""

    holds: bool
    reason: str
    statement: InclusionProof | ConsistencyProof | None
    line: bytes
    key: bytes
    signer: str


def head_message(head: TreeHead) -> bytes:
    """The bytes that are signed for a head."""
    fields: dict[str, JSONValue] = {"lineage": head.lineage, "root": head.root, "size": head.size, "store": head.store}
    return b"PPLS/tree-head/1\0" + canonical(fields)


def prove_record(journal: Journal, seq: int) -> bytes:
    """A proof file for record ``seq`` of our own lineage, against the head of all that is durable."""
    tree, entry, path = _read(journal, seq)
    if entry is None:
        raise NotFoundError(
            f"there is no record {seq} in this store's own lineage; it has 1 to {tree.size}", mend="See `periplus log`."
        )
    with open(path, "rb") as file:
        file.seek(entry.offset)
        line = file.read(entry.length)[:-1]
    head = _head(journal, tree)
    return _packed(journal, InclusionProof(head, seq), head, tree.inclusion(seq - 1, head.size), line)


def prove_consistency(journal: Journal, first: int, second: int | None = None) -> bytes:
    """A proof file that the first ``second`` records (default: all) begin with the first ``first``."""
    tree, _, _ = _read(journal)
    size = tree.size if second is None else second
    if not 1 <= first <= size <= tree.size:
        raise NotFoundError(f"a proof goes from 1 … {tree.size} records to as many or more, not {first} to {size}")
    head = _head(journal, tree, size)
    statement = ConsistencyProof(head, first, tree.root(first).hex())
    return _packed(journal, statement, head, tree.consistency(first, size), b"")


def verify_proof(data: bytes, *, key: bytes | None = None, head: tuple[int, bytes] | None = None) -> ProofVerdict:
    """Check a proof file, needing nothing else; ``key`` (32 bytes) or ``head`` (size, root) says whose it must be.

    Never raises for a bad proof: the verdict names the reason.
    """
    try:
        statement, line, path, signer_key, signature = _unpacked(data)
    except (FormatError, DamageError) as error:
        return ProofVerdict(False, str(error), None, b"", b"", "")

    def refused(reason: str) -> ProofVerdict:
        return ProofVerdict(False, reason, statement, line, signer_key, "")

    reason = _mathematics(statement, line, path)
    if reason:
        return refused(reason)
    if signature and not verify_signature(signer_key, signature, head_message(statement.head)):
        return refused("the signature is not of the key that the proof names")
    if head is not None and (statement.head.size, bytes.fromhex(statement.head.root)) != head:
        return refused("the proof is of another tree head than the one given")
    if key is not None and (not signature or key != signer_key):
        return refused("the proof is not signed by the key given")
    signer = "head" if head is not None else ""
    signer = f"key {fingerprint(key)}" if key is not None else signer
    return ProofVerdict(True, "", statement, line, signer_key, signer)


def _mathematics(statement: InclusionProof | ConsistencyProof, line: bytes, path: list[bytes]) -> str:
    """Why the proof does not hold, or nothing."""
    head = statement.head
    root = bytes.fromhex(head.root)
    if isinstance(statement, ConsistencyProof):
        first_root = bytes.fromhex(statement.first_root)
        if not verify_consistency(statement.first_size, head.size, path, first_root, root):
            return "the later tree does not begin with the earlier one"
        return ""
    try:
        record, leaf = decode_line(line)
    except PeriplusError as error:
        return f"the record is not what was written: {error}"
    if record.seq != statement.seq:
        return f"the record is number {record.seq}, the proof speaks of {statement.seq}"
    if not verify_inclusion(leaf, statement.seq - 1, head.size, path, root):
        return "the record is not in the tree under that head"
    return ""


def _read(journal: Journal, wanted: int = 0) -> tuple[Tree, Entry | None, str]:
    """The tree of our own lineage up to its durable end; record ``wanted`` and its segment's path, where it is there.

    From the records, not from the index: a head is signed, and what is derived may have been damaged since.
    """
    tree = Tree()
    found: tuple[Entry | None, str] = (None, "")
    for chunk in journal.reader(journal.lineage).read_from(START, journal.durable_seq):
        durable = [entry for entry in chunk.entries if entry.record.seq <= journal.durable_seq]
        tree.extend([entry.leaf for entry in durable])
        for entry in durable:
            if entry.record.seq == wanted:
                found = (entry, chunk.path)
    return tree, *found


def _head(journal: Journal, tree: Tree, size: int | None = None) -> TreeHead:
    count = tree.size if size is None else size
    return TreeHead(journal.store_id, journal.lineage, count, tree.root(count).hex())


def _packed(
    journal: Journal, statement: InclusionProof | ConsistencyProof, head: TreeHead, path: list[bytes], line: bytes
) -> bytes:
    sections = {
        _STATEMENT: canonical(msgspec.to_builtins(statement)),
        _PATH: b"".join(path),
        _KEY: public_key(journal.layout, journal.lineage),
        _SIGNATURE: sign(journal.layout, journal.lineage, head_message(head)),
    }
    if line:
        sections[_LINE] = line
    return pack(KIND_PROOF, sections)


def _unpacked(data: bytes) -> tuple[InclusionProof | ConsistencyProof, bytes, list[bytes], bytes, bytes]:
    if len(data) > PROOF_BYTES_MAX:
        raise FormatError(f"over {PROOF_BYTES_MAX:,} bytes, too large for a proof", offset=0)
    sections = {tag: data[start:end] for tag, (start, end) in unpack(data, KIND_PROOF).items()}
    places = {tag: start for tag, (start, _) in unpack(data, KIND_PROOF).items()}
    if _STATEMENT not in sections or _PATH not in sections:
        raise FormatError("a proof without statement or path", offset=6)
    try:
        value = decode_canonical(sections[_STATEMENT])
        statement = msgspec.convert(value, InclusionProof | ConsistencyProof)
        if canonical(msgspec.to_builtins(statement)) != sections[_STATEMENT]:
            raise FormatError("a statement with fields of its own", offset=places[_STATEMENT])
        roots = [statement.head.root]
        if isinstance(statement, ConsistencyProof):
            roots.append(statement.first_root)
        if any(len(bytes.fromhex(root)) != _HASH for root in roots):
            raise FormatError("a root that is not 32 bytes", offset=places[_STATEMENT])
    except (msgspec.ValidationError, ValueError, UsageError) as error:
        raise FormatError(f"the statement cannot be read: {error}", offset=places[_STATEMENT]) from error
    path = sections[_PATH]
    if len(path) % _HASH:
        raise FormatError("a path that is not of 32-byte nodes", offset=places[_PATH])
    nodes = [path[at : at + _HASH] for at in range(0, len(path), _HASH)]
    return statement, sections.get(_LINE, b""), nodes, sections.get(_KEY, b""), sections.get(_SIGNATURE, b"")
