"""Proof files: records with their paths, a tree head, and its consistency with an earlier one, checkable without the store.

A proof is a container of kind 3 (see ``periplus.base.encoding.container``): a statement in canonical JSON, the records' lines, the paths,
and a signed tree head. The file and the store's public key are enough to check it: each line's checksum and leaf (RFC 9162 §2.1.1), the
paths (§2.1.3.2 or §2.1.4.2), the signature. The paths come from tiles (``periplus.journal.proofs.tiles``), at a cost that grows with the
tree's height, not its size.

A redacted record is proved by its stub. The proof then covers only its place and its leaf hash, not the other fields of the stub, and the
verdict states that.
"""

from __future__ import annotations

__all__ = [
    "BUNDLE_RECORDS_MAX",
    "PROOF_BYTES_MAX",
    "BundleProof",
    "ConsistencyProof",
    "HeadStatement",
    "InclusionProof",
    "ProofVerdict",
    "Prover",
    "SignedHead",
    "Statement",
    "TreeHead",
    "head_message",
    "prove_consistency",
    "prove_record",
    "verify_proof",
]

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from periplus.base.encoding.canonical import canonical, decode_canonical
from periplus.base.encoding.container import KIND_PROOF, pack, unpack
from periplus.base.errors import DamageError, EnvironmentFailure, FormatError, NotFoundError, PeriplusError, UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.journal.index.indexed_journal import IndexedJournal
from periplus.journal.proofs.heads import remember_head
from periplus.journal.proofs.tiles import LineageTree
from periplus.journal.records.record import Record, decode_line
from periplus.journal.storage.keys import public_key, sign, verify_signature
from periplus.journal.storage.progress import Progress, no_progress
from periplus.journal.storage.segment_entries import entry_in_segment
from periplus.journal.storage.tree_head import TreeHead, head_message
from periplus.merkle.verify import verify_consistency, verify_inclusion

PROOF_BYTES_MAX: Final = 1 << 20
BUNDLE_RECORDS_MAX: Final = 1_000
_STATEMENT, _LINE, _PATH, _KEY, _SIGNATURE = 1, 2, 3, 4, 5
_HASH: Final = 32


class InclusionProof(msgspec.Struct, frozen=True, tag_field="kind", tag="inclusion"):
    """Statement that record ``seq`` is leaf ``seq − 1`` of the tree under ``head``."""

    head: TreeHead
    seq: int
    format: Literal[1] = 1


class ConsistencyProof(msgspec.Struct, frozen=True, tag_field="kind", tag="consistency"):
    """Statement that the tree under ``head`` begins with the ``first_size`` leaves whose root is ``first_root``."""

    head: TreeHead
    first_size: int
    first_root: str
    format: Literal[1] = 1


class BundleProof(msgspec.Struct, frozen=True, tag_field="kind", tag="bundle"):
    """Statement that records ``seqs``, ascending, are under ``head``, and so is the earlier head, unless ``first_size`` is 0.

    ``nodes`` is the number of path nodes for each record, and last for the earlier head.
    """

    head: TreeHead
    seqs: tuple[int, ...]
    first_size: int
    first_root: str
    nodes: tuple[int, ...]
    format: Literal[1] = 1


class HeadStatement(msgspec.Struct, frozen=True, tag_field="kind", tag="head"):
    """Statement of a ``head`` alone, which only its signature proves."""

    head: TreeHead
    format: Literal[1] = 1


Statement: TypeAlias = InclusionProof | ConsistencyProof | BundleProof | HeadStatement


class SignedHead(NamedTuple):
    head: TreeHead
    key: bytes
    signature: bytes


class ProofVerdict(NamedTuple):
    """The result of a check. ``holds``: the hashes and signature are valid; ``signer``: the given key or head it matches, empty if none was
    given.

    ``lines`` are those of the proved records, the first of them also ``line``; ``stubs`` the seqs of redacted ones, of which only place and
    leaf hash are proved.
    """

    holds: bool
    reason: str
    statement: Statement | None
    line: bytes
    key: bytes
    signer: str
    lines: tuple[bytes, ...] = ()
    stubs: tuple[int, ...] = ()


class Prover:
    """Makes proofs of our own lineage against the head of all durable records; keep it to make several.

    Every proof raises DamageError if the records no longer lead to a head seen before, and the head it is signed with is remembered.
    """

    def __init__(self, journal: IndexedJournal, progress: Progress = no_progress) -> None:
        self._journal = journal
        self._progress = progress
        self._tree: LineageTree | None = None
        self._signed: SignedHead | None = None

    def head(self) -> SignedHead:
        """Return the newest head, signed; the tree may have grown meanwhile. Raises NotFoundError if there is no durable record yet."""
        tree, journal = self._current(), self._journal
        if not tree.size:
            held = journal.end().next_seq - 1
            raise NotFoundError(
                f"none of the {held:,} records of this store's own lineage is known to be on disk"
                if held else "this store has no records of its own yet",
                mend='Write once more, with sync = "mutation" in config.toml.' if held else "See `periplus log`.",
            )  # fmt: skip
        if self._signed is None or self._signed.head.size != tree.size:
            head = TreeHead(journal.store_of(journal.lineage), journal.lineage, tree.size, tree.head_root.hex())
            signed = _sign(journal, head)
            try:
                remember_head(journal, head, signature=signed.signature, key=signed.key, tree=tree)
            except EnvironmentFailure:
                pass  # a read-only folder: proofs are made without remembering the head
            self._signed = signed
        return self._signed

    def head_file(self, signed: SignedHead | None = None) -> bytes:
        """Return a file with a head alone, the newest by default."""
        signed = signed or self.head()
        return _packed(HeadStatement(signed.head), signed, [], [])

    def record(self, seq: int) -> bytes:
        """Return a proof file for record ``seq``. Raises NotFoundError if there is no such durable record."""
        tree = self._current()
        self._check_seq(tree, seq)
        signed = self.head()
        line, leaf = self._line(seq)
        return _packed(InclusionProof(signed.head, seq), signed, tree.inclusion(leaf, seq, signed.head.size), [line])

    def growth(self, first: int, second: int | None = None) -> bytes:
        """Return a proof file that the first ``second`` records (default: all) begin with the first ``first``."""
        tree = self._current()
        size = tree.size if second is None else second
        if not tree.size:
            self.head()  # raises NotFoundError: there is nothing to prove yet
        if not 1 <= first <= size <= tree.size:
            raise NotFoundError(f"a proof goes from 1 … {tree.size} records to as many or more, not {first} to {size}")
        signed = self._head_at(tree, size)
        statement = ConsistencyProof(signed.head, first, tree.root(first).hex())
        return _packed(statement, signed, tree.consistency(first, size), [])

    def bundle(self, seqs: Sequence[int], first: int = 0) -> bytes:
        """Return one file that proves several records and, unless ``first`` is 0, that the journal only grew since it had ``first``
        records.

        Raises UsageError if that is too much for a file.
        """
        tree = self._current()
        wanted = sorted(set(seqs))
        if len(wanted) > BUNDLE_RECORDS_MAX:
            raise UsageError(
                f"{len(wanted):,} records are too many for one proof", mend=f"Take {BUNDLE_RECORDS_MAX:,} at a time."
            )
        for seq in wanted:
            self._check_seq(tree, seq)
        if not 0 <= first <= tree.size:
            raise NotFoundError(f"a proof goes from 1 … {tree.size} records on, not from {first}")
        signed = self.head()
        lines, paths = [], []
        for seq in wanted:
            line, leaf = self._line(seq)
            lines.append(line)
            paths.append(tree.inclusion(leaf, seq, signed.head.size))
        if first:
            paths.append(tree.consistency(first, signed.head.size))
        statement = BundleProof(
            signed.head, tuple(wanted), first, tree.root(first).hex() if first else "", tuple(map(len, paths))
        )
        data = _packed(statement, signed, [node for path in paths for node in path], lines)
        if len(data) > PROOF_BYTES_MAX:
            raise UsageError(f"{len(data):,} bytes are too many for one proof", mend="Take fewer records at a time.")
        return data

    def _current(self) -> LineageTree:
        """Return the tree of the records durable now."""
        self._journal.refresh()
        if self._tree is None or self._tree.lineage != self._journal.lineage:
            self._tree = LineageTree(self._journal, progress=self._progress)
        else:
            self._tree.refresh()
        return self._tree

    def _check_seq(self, tree: LineageTree, seq: int) -> None:
        if not 1 <= seq <= tree.size:
            copied = self._journal.copied_from
            raise NotFoundError(
                f"there is no record {seq} in this store's own lineage; it has {f'1 to {tree.size:,}' if tree.size else 'none'}"
                + f": the records here were written by the store it was copied from, as lineage {copied}"
                * bool(copied),
                mend="Prove it there." if copied else "See `periplus log`.",
            )

    def _head_at(self, tree: LineageTree, size: int) -> SignedHead:
        signed = self.head()
        if size == signed.head.size:
            return signed
        return _sign(self._journal, msgspec.structs.replace(signed.head, size=size, root=tree.root(size).hex()))

    def _line(self, seq: int) -> tuple[bytes, bytes]:
        """Return the record's line without its newline, read from its segment, and its leaf hash.

        The index only gives the position; if it lacks it or is wrong, the segment is searched.
        """
        journal = self._journal
        rows = journal.index.records("lineage = ? AND seq = ?", (journal.lineage, seq), 1)
        for row in rows:
            try:
                return journal.line_at(row), row.leaf
            except DamageError:
                break
        return _line_in_segment(journal, seq, rows[0].segment if rows else 0)


def prove_record(journal: IndexedJournal, seq: int) -> bytes:
    """Return a proof file for record ``seq`` of our own lineage, against the head of all durable records."""
    return Prover(journal).record(seq)


def prove_consistency(journal: IndexedJournal, first: int, second: int | None = None) -> bytes:
    """Return a proof file that the first ``second`` records (default: all) begin with the first ``first``."""
    return Prover(journal).growth(first, second)


def verify_proof(data: bytes, *, key: bytes | None = None, head: tuple[int, bytes] | None = None) -> ProofVerdict:
    """Check a proof file without anything else; ``key`` (32 bytes) or ``head`` (size, root) states what it must be signed by or belong to.

    Never raises for an invalid proof: the verdict has the reason.
    """
    try:
        statement, lines, path, signer_key, signature = _unpacked(data)
    except (FormatError, DamageError) as error:
        return ProofVerdict(False, str(error), None, b"", b"", "")
    line = lines[0] if lines else b""

    def refused(reason: str) -> ProofVerdict:
        return ProofVerdict(False, reason, statement, line, signer_key, "", lines)

    reason, stubs = _mathematics(statement, lines, path)
    if reason:
        return refused(reason)
    if isinstance(statement, HeadStatement) and not signature:
        return refused("the head is not signed")
    if signature and not verify_signature(signer_key, signature, head_message(statement.head)):
        return refused("the signature does not match the key in the proof")
    if head is not None and (statement.head.size, bytes.fromhex(statement.head.root)) != head:
        return refused("the proof is for another tree head than the one given")
    if key is not None and (not signature or key != signer_key):
        return refused("the proof is not signed by the key given")
    signer = "head" if head is not None else ""
    signer = f"key {key.hex()[:16]}…" if key is not None else signer
    return ProofVerdict(True, "", statement, line, signer_key, signer, lines, stubs)


def _mathematics(statement: Statement, lines: tuple[bytes, ...], path: list[bytes]) -> tuple[str, tuple[int, ...]]:
    """Return why the proof is invalid, or an empty text, and the seqs of its stubs."""
    seqs, first_size, first_root = _claims(statement)
    nodes = statement.nodes if isinstance(statement, BundleProof) else (len(path),)
    paths, at = [], 0
    for count in nodes:
        paths.append(path[at : at + max(count, 0)])
        at += max(count, 0)
    claims = len(seqs) + (first_size > 0)
    if len(lines) != len(seqs) or at != len(path) or len(nodes) != max(claims, isinstance(statement, HeadStatement)):
        return "the number of records or paths does not match the statement", ()
    if list(seqs) != sorted(set(seqs)) or (not claims and at):
        return "records out of order, or a path without a record", ()
    head, root = statement.head, bytes.fromhex(statement.head.root)
    stubs = []
    for seq, line, one in zip(seqs, lines, paths, strict=False):
        try:
            record, leaf = decode_line(line)
        except PeriplusError as error:
            return f"the record is invalid: {error}", ()
        if record.seq != seq:
            return f"the record has seq {record.seq}, the proof states {seq}", ()
        if not verify_inclusion(leaf, seq - 1, head.size, one, root):
            return "the record is not in the tree under that head", ()
        if record.is_stub:
            if not _is_bare(record):
                return "the record has a content that its leaf hash does not cover", ()
            stubs.append(seq)
    if first_size and not verify_consistency(first_size, head.size, paths[-1], bytes.fromhex(first_root), root):
        return "the later tree does not begin with the earlier one", ()
    return "", tuple(stubs)


def _claims(statement: Statement) -> tuple[tuple[int, ...], int, str]:
    """Return the records that a proof covers, and the earlier head."""
    if isinstance(statement, InclusionProof):
        return (statement.seq,), 0, ""
    if isinstance(statement, ConsistencyProof):
        return (), statement.first_size, statement.first_root
    if isinstance(statement, BundleProof):
        return statement.seqs, statement.first_size, statement.first_root
    return (), 0, ""


def _is_bare(stub: Record) -> bool:
    """Return True if a stub has none of the removed fields, which could hold forged content."""
    is_empty = isinstance(stub.payload, msgspec.UnsetType) and stub.payload_ref is None
    return is_empty and not stub.summary and not stub.salt


def _line_in_segment(journal: IndexedJournal, seq: int, supposed: int) -> tuple[bytes, bytes]:
    """Find the record in its segment; ``supposed`` is the segment according to the index, 0 if unknown."""
    reader = journal.reader(journal.lineage)
    found = entry_in_segment(reader, seq)
    if found is not None:
        return found.line, found.entry.leaf
    path = reader.path_of(max((first for first in reader.segments() if first <= seq), default=0))
    raise reader.absence_of(seq, supposed) or DamageError(
        "the record cannot be read", path=path, seq=seq, safe="Other records stay readable.",
        mend="Run `periplus doctor`.",
    )  # fmt: skip


def _sign(journal: IndexedJournal, head: TreeHead) -> SignedHead:
    key = public_key(journal.layout, journal.lineage)
    return SignedHead(head, key, sign(journal.layout, journal.lineage, head_message(head)))


def _packed(statement: Statement, signed: SignedHead, path: list[bytes], lines: list[bytes]) -> bytes:
    sections = {
        _STATEMENT: canonical(msgspec.to_builtins(statement)),
        _PATH: b"".join(path),
        _KEY: signed.key,
        _SIGNATURE: signed.signature,
    }
    if lines:
        sections[_LINE] = b"\n".join(lines)
    return pack(KIND_PROOF, sections)


def _unpacked(data: bytes) -> tuple[Statement, tuple[bytes, ...], list[bytes], bytes, bytes]:
    if len(data) > PROOF_BYTES_MAX:
        raise FormatError(f"over {PROOF_BYTES_MAX:,} bytes, too large for a proof", offset=0)
    sections = {tag: data[start:end] for tag, (start, end) in unpack(data, KIND_PROOF).items()}
    places = {tag: start for tag, (start, _) in unpack(data, KIND_PROOF).items()}
    if _STATEMENT not in sections or _PATH not in sections:
        raise FormatError("a proof without statement or path", offset=6)
    try:
        value = decode_canonical(sections[_STATEMENT])
        statement = msgspec.convert(value, Statement)
        if canonical(msgspec.to_builtins(statement)) != sections[_STATEMENT]:
            raise FormatError("a statement with unknown fields", offset=places[_STATEMENT])
        roots = [statement.head.root]
        _, first_size, first_root = _claims(statement)
        if first_size or first_root or isinstance(statement, ConsistencyProof):
            roots.append(first_root)
        if any(len(bytes.fromhex(root)) != _HASH for root in roots):
            raise FormatError("a root that is not 32 bytes", offset=places[_STATEMENT])
    except (msgspec.ValidationError, ValueError, UsageError) as error:
        raise FormatError(f"the statement cannot be read: {error}", offset=places[_STATEMENT]) from error
    path = sections[_PATH]
    if len(path) % _HASH:
        raise FormatError("a path that is not of 32-byte nodes", offset=places[_PATH])
    nodes = [path[at : at + _HASH] for at in range(0, len(path), _HASH)]
    lines = tuple(sections[_LINE].split(b"\n")) if _LINE in sections else ()
    return statement, lines, nodes, sections.get(_KEY, b""), sections.get(_SIGNATURE, b"")
