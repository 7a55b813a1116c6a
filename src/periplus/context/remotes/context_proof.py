"""Proofs about a single context: that it has an atom, and that its first atoms are a prefix of more (PROVE of the
wire).

The leaves are the context's own atoms, with their annotations, in their order; an atom that an older context of the
chain brought is proved for that context, which is the ``origin`` of the entry. The proof includes the record, whose
hash is the digest of the context, and which has the root.
"""

from __future__ import annotations

__all__ = ["check_consistency", "check_inclusion", "prove_consistency", "prove_inclusion"]

from hashlib import sha256

from periplus.base.errors import FormatError, NotFoundError
from periplus.context.model import ContextHeader, annotation_record
from periplus.context.records import record
from periplus.context.records.pages import PAGE_ATOMS, leaf_hashes
from periplus.context.records.record import GetObject, RecordView
from periplus.context.wire.payloads import Proof
from periplus.merkle import PagedTree, leaf_hash, verify_consistency, verify_inclusion


def prove_inclusion(context: bytes, atom: bytes, get: GetObject) -> Proof:
    """Prove that ``context`` itself adds or annotates the atom of identity ``atom``. Raises NotFoundError if it does
    not.
    """
    data = get(context)
    view = record.read_header(data)
    for page in view.pages(get):
        held = view.page_of(page, get)
        digests = held.digests()
        if atom in digests:
            place = digests.index(atom)
            index = page.start + place
            size = view.header.atom_count
            path = tuple(_tree(view, get).inclusion(index))
            leaf = annotation_record(atom, held.atoms[place])
            return Proof("inclusion", index, size, root=view.header.atoms_root, path=path, leaf=leaf, record=data)
    raise NotFoundError(f"context {context.hex()[:16]} does not add atom {atom.hex()}: ask for the context that did")


def prove_consistency(context: bytes, size: int, size_later: int, get: GetObject) -> Proof:
    """Prove that the first ``size`` atoms of ``context`` are the first of its first ``size_later`` (0 for all). Raises
    UsageError.
    """
    data = get(context)
    view = record.read_header(data)
    tree = _tree(view, get)
    later = size_later or tree.size
    path = tuple(tree.consistency(size, later))
    return Proof(
        "consistency", 0, size, later, root=tree.root(size), root_later=tree.root(later), path=path, record=data
    )


def check_inclusion(proof: Proof, context: bytes, atom: bytes) -> ContextHeader:
    """Return the header of ``context`` if ``proof`` shows that it brings ``atom`` with the annotation ``proof.leaf``.
    Raises FormatError.
    """
    header = _header(proof, context)
    if (
        proof.kind != "inclusion"
        or proof.leaf[: len(atom)] != atom
        or (proof.root, proof.size) != (header.atoms_root, header.atom_count)
        or not verify_inclusion(leaf_hash(proof.leaf), proof.index, proof.size, proof.path, proof.root)
    ):
        raise FormatError(f"the proof does not show that context {context.hex()} adds atom {atom.hex()}")
    return header


def check_consistency(proof: Proof, context: bytes) -> ContextHeader:
    """Return the header of ``context`` if ``proof`` shows that a tree of its first atoms extends to all of them. Raises
    FormatError.
    """
    header = _header(proof, context)
    if (
        proof.kind != "consistency"
        or (proof.root_later, proof.size_later) != (header.atoms_root, header.atom_count)
        or not verify_consistency(proof.size, proof.size_later, proof.path, proof.root, proof.root_later)
    ):
        raise FormatError(f"the proof does not show that the first atoms of context {context.hex()} are a prefix")
    return header


def _header(proof: Proof, context: bytes) -> ContextHeader:
    if sha256(proof.record).digest() != context:
        raise FormatError(f"the record that came with the proof is not that of context {context.hex()}")
    return record.read_header(proof.record).header


def _tree(view: RecordView, get: GetObject) -> PagedTree:
    pages = view.pages(get)

    def leaves(number: int) -> list[bytes]:
        held = view.page_of(pages[number], get)
        return leaf_hashes(held.digests(), held.atoms)

    return PagedTree(view.header.atom_count, [page.root for page in pages], leaves, PAGE_ATOMS)
