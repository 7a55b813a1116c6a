"""Prove one step of a trail to somebody who does not have the trail.

The proof holds the leaf input of the step, in which every string is a commitment, the path from its leaf to the tree
root, and the openings of the commitments that the trail reveals. The trail digest, and so a signature, covers the root
and the number of steps; the proof alone shows that this step is in *that* tree, at that place.
"""

from __future__ import annotations

__all__ = ["Opening", "StepProof", "holds", "step_proof"]

import hashlib
from typing import NamedTuple

from periplus.base.encoding.varint import read_uint
from periplus.base.errors import FormatError, NotFoundError
from periplus.merkle.tree import Tree
from periplus.merkle.verify import verify_inclusion
from periplus.trail.format import layout
from periplus.trail.format.identity import leaf_input, ref_offsets, step_leaves
from periplus.trail.format.reader import TrailReader


class Opening(NamedTuple):
    """The opening of a commitment: commitment = SHA-256(salt ‖ form ‖ content)."""

    salt: bytes
    form: int
    content: bytes


class StepProof(NamedTuple):
    """The proof of a step. ``openings`` has one for each commitment in the leaf input, in order; None for a withheld
    one.
    """

    step_index: int
    step_count: int
    leaf_input: bytes
    path: tuple[bytes, ...]
    root: bytes
    openings: tuple[Opening | None, ...]

    @property
    def leaf(self) -> bytes:
        return hashlib.sha256(self.leaf_input).digest()


def step_proof(reader: TrailReader, index: int) -> StepProof:
    """Return the proof of step ``index``, counted from 0. Raises NotFoundError if there is no such step."""
    if not 0 <= index < reader.step_count:
        raise NotFoundError(f"no step {index}: the trail has {reader.step_count:,}", mend="Steps count from 0.")
    data = reader.to_bytes()
    start, end = reader.span(layout.TAG_STEPS)
    commitments = reader.commitments()
    tree = Tree(step_leaves(data, start, end, commitments))
    _, at = read_uint(data, start, end)
    for _ in range(index):
        length, at = read_uint(data, at + 1, end)
        at += length
    length, body = read_uint(data, at + 1, end)
    preimage = leaf_input(data, data[at : at + 1], body, body + length, commitments)
    entry_by_commitment = {commitments[32 * entry : 32 * entry + 32]: entry for entry in range(len(reader.strings))}
    openings: list[Opening | None] = []
    for place in ref_offsets(preimage):
        form, content, salt = reader.strings.entry(entry_by_commitment[preimage[place : place + 32]])
        # The content of an entry has its lengths as varints in the file, and fixed or left out in the commitment.
        openings.append(None if salt is None else Opening(salt, form, committed_content(form, content)))
    return StepProof(index, reader.step_count, preimage, tuple(tree.inclusion(index)), tree.root(), tuple(openings))


def committed_content(form: int, content: bytes) -> bytes:
    """Return the bytes that a commitment covers, for an entry whose bytes in the file are ``content``."""
    if form == layout.FORM_TEXT:
        length, at = read_uint(content, 0, len(content))
        return content[at : at + length]
    if form == layout.FORM_TEXT_OBJECT:
        length, _ = read_uint(content, 32, len(content))
        return content[:32] + length.to_bytes(8, "big")
    return content


def holds(proof: StepProof) -> bool:
    """Return whether the step is in the tree of ``proof.root`` and each opening matches its commitment. Never raises."""
    try:
        places = ref_offsets(proof.leaf_input)
    except FormatError:
        return False
    if len(places) != len(proof.openings):
        return False
    for place, opening in zip(places, proof.openings, strict=True):
        if opening is None:
            continue
        salt, form, content = opening
        if len(salt) != 32 or not 0 <= form <= layout.FORM_DIGEST:
            return False
        commitment = hashlib.sha256(salt + bytes((form,)) + content).digest()
        if commitment != proof.leaf_input[place : place + 32]:
            return False
    return verify_inclusion(proof.leaf, proof.step_index, proof.step_count, proof.path, proof.root)
