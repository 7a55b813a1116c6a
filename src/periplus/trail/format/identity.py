"""Compute the identity of a trail from its bytes: commitments, leaves, tree root, receipts, digest.

No step becomes an object, and nothing is kept of a step once it is hashed, so the memory is that of the commitments: 32
bytes an entry. The functions read well-formed bytes, which the builder wrote or a ``TrailReader`` checked;
``docs/formats/trail.md`` says what each hash covers. The tree is that of RFC 9162: a leaf here is the hash of its leaf
input, whose first byte 00 is the tree's own prefix.
"""

from __future__ import annotations

__all__ = [
    "Identity",
    "commit_entries",
    "committed_header",
    "identify",
    "leaf_input",
    "ref_offsets",
    "step_leaves",
    "trail_digest",
    "trail_identity",
]

import hashlib
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from periplus.base.encoding.varint import read_uint, uint_bytes
from periplus.base.errors import FormatError
from periplus.base.speed import (
    IS_NATIVE,
    commit_whole,
    hash_steps,
    sha256,
    sha256_chained,
    sha256_joined,
    sha256_salted,
)
from periplus.merkle.tree import root_of
from periplus.trail.format import layout
from periplus.trail.format.batch_decoding import BatchDecodingError, leaf_inputs
from periplus.trail.format.salts import hmac_blocks

_LEAF_PREFIX: Final = b"\x00PPLT"
_SUBTREE_LEAVES: Final = 1 << 10
_COMMITTED_AT_ONCE: Final = 256
_RECEIPT_PREFIX: Final = b"PPLR"
_DIGEST_PREFIX: Final = b"PPLS/trail/2\x00"
_HEADS: Final = [_LEAF_PREFIX + bytes((code,)) for code in range(256)]
_RECEIPT_ENDS: Final = [bytes((meta & layout.OUTCOME_MASK,)) for meta in range(256)]
_WIRE: Final = [bytes((wire,)) for wire in range(4)]


class Identity(NamedTuple):
    status: int
    root: bytes
    receipt: bytes  # the last of the chain
    digest: bytes

    def receipts_section(self) -> bytes:
        return bytes((self.status,)) + self.root + self.receipt + self.digest


def identify(header: bytes, strings: bytes, steps: bytes, status: int) -> Identity:
    """Return the identity of a trail, computed from the bytes of its sections."""
    commitments = commit_entries(strings, 0, len(strings))
    return trail_identity(header, steps, 0, len(steps), commitments, status)


def trail_identity(header: bytes, data: bytes, start: int, end: int, commitments: bytes, status: int) -> Identity:
    """Compute the identity like ``identify``, with the steps section at ``start … end`` of ``data`` and known
    commitments.
    """
    count, at = read_uint(data, start, end)
    head = committed_header(header, commitments)
    if not IS_NATIVE:
        try:
            root, receipt = _hashed_in_bulk(data, at, end, commitments)
            return Identity(status, root, receipt, trail_digest(head, count, root, receipt, status))
        except BatchDecodingError:  # an opcode of a newer version
            pass
    committed: list[bytes] = []
    receipt = bytes(32)
    roots: list[bytes] = []  # of whole subtrees of _SUBTREE_LEAVES leaves; the last may have fewer
    left = count
    while left:
        taken = min(left, _SUBTREE_LEAVES)
        hashed = hash_steps(data, at, end, taken, commitments, receipt)
        if hashed is not None:
            at, root, receipt = hashed
            roots.append(root)
            left -= taken
            continue
        committed = committed or _operands(commitments)
        leaves: list[bytes] = []
        links: list[bytes] = []
        at = _hash_steps(data, at, taken, end, committed, leaves, links)
        left -= taken
        receipt = sha256_chained(_RECEIPT_PREFIX, receipt, links)
        roots.append(root_of(leaves))
    root = root_of(roots)  # subtree roots of one height combine like leaves
    return Identity(status, root, receipt, trail_digest(head, count, root, receipt, status))


def _hashed_in_bulk(data: bytes, start: int, end: int, commitments: bytes) -> tuple[bytes, bytes]:
    """Return the root over the leaves of the steps at ``start … end``, and the last receipt.

    Each hash is a copy of one that was begun with the prefix; ``base.speed`` gives the reason.
    """
    begun_leaf = hashlib.sha256(_LEAF_PREFIX).copy
    begun_receipt = hashlib.sha256(_RECEIPT_PREFIX).copy
    receipt = bytes(32)
    roots: list[bytes] = []
    inputs = leaf_inputs(data, start, end, commitments)
    while True:
        leaves: list[bytes] = []
        for text, outcome in islice(inputs, _SUBTREE_LEAVES):
            hash_ = begun_leaf()
            hash_.update(text)
            leaf = hash_.digest()
            leaves.append(leaf)
            hash_ = begun_receipt()
            hash_.update(receipt + leaf + outcome)
            receipt = hash_.digest()
        if not leaves:
            return root_of(roots), receipt
        roots.append(root_of(leaves))


def trail_digest(head: bytes, count: int, root: bytes, receipt: bytes, status: int) -> bytes:
    """Return the trail digest; ``head`` is the committed header."""
    return sha256(b"".join((_DIGEST_PREFIX, head, uint_bytes(count), root, receipt, bytes((status,)))))


def commit_entries(data: bytes, start: int, end: int) -> bytes:
    """Return the commitments of the strings section at ``start … end`` of ``data``, 32 bytes each, in order."""
    is_redacted = data[start] == layout.MODE_REDACTED
    begin = start + 1
    inner = outer = b""
    if not is_redacted:
        inner, outer = hmac_blocks(data[begin : begin + layout.SECRET_BYTES])
        begin += layout.SECRET_BYTES
    count, begin = read_uint(data, begin, end)
    if not is_redacted:
        whole = commit_whole(data, begin, end, count, inner, outer)
        if whole is not None:
            return whole
    at = begin
    out: list[bytes] = []
    contents: list[bytes] = []  # contents of a trail with its secret that are not committed yet
    for index in range(count):
        form = data[at]
        at += 1
        salt = b""
        if is_redacted:
            salt = data[at : at + 32]  # the commitment itself, for a withheld entry
            at += 32
            if form == layout.FORM_WITHHELD:
                out.append(salt)
                continue
        if form == layout.FORM_TEXT:
            length = data[at]
            at += 1
            if length > 127:
                length, at = read_uint(data, at - 1, end)
            content = b"\x00" + data[at : at + length]
            at += length
        elif form == layout.FORM_TEXT_OBJECT:
            size, after = read_uint(data, at + 32, end)
            content = b"\x01" + data[at : at + 32] + size.to_bytes(8, "big")
            at = after
        else:
            length = 21 if data[at] == 2 else 33
            content = b"\x02" + data[at : at + length]
            at += length
        if is_redacted:
            out.append(sha256(salt + content))
            continue
        contents.append(content)
        if len(contents) == _COMMITTED_AT_ONCE:
            out.append(sha256_salted(inner, outer, index + 1 - len(contents), contents))
            contents.clear()
    out.append(sha256_salted(inner, outer, count - len(contents), contents) if contents else b"")
    return b"".join(out)


def step_leaves(data: bytes, start: int, end: int, commitments: bytes) -> Iterator[bytes]:
    """Yield the leaf of each step of the steps section at ``start … end`` of ``data``."""
    count, at = read_uint(data, start, end)
    committed = _operands(commitments)
    while count:
        leaves: list[bytes] = []
        at = _hash_steps(data, at, min(count, _SUBTREE_LEAVES), end, committed, leaves, [])
        count -= len(leaves)
        yield from leaves


def _operands(commitments: bytes) -> list[bytes]:
    """Return the leaf bytes of an operand for each entry: the wire type and the commitment."""
    return [b"\x01" + commitments[at : at + 32] for at in range(0, len(commitments), 32)]


def _hash_steps(
    data: bytes, start: int, count: int, end: int, committed: list[bytes], leaves: list[bytes], links: list[bytes]
) -> int:
    """Append the leaves of the ``count`` steps from ``start`` on, and their parts of the receipts; return the offset
    behind them.
    """
    joined = sha256_joined
    at = start
    for _ in range(count):
        pieces = [_HEADS[data[at]]]
        length = data[at + 1]
        body = at + 2
        if length > 127:
            length, body = read_uint(data, at + 1, end)
        at = body + length
        _add_body(pieces, data, body, at, committed)
        leaf = joined(pieces)
        leaves.append(leaf)
        links.append(leaf + _RECEIPT_ENDS[data[body]])
    return at


def leaf_input(data: bytes, opcode: bytes, body: int, end: int, commitments: bytes) -> bytes:
    """Return the input of the leaf hash of the step with its body at ``body … end``, the prefix of the tree included."""
    pieces = [_LEAF_PREFIX, opcode]
    _add_body(pieces, data, body, end, _operands(commitments))
    return b"".join(pieces)


def _add_body(pieces: list[bytes], data: bytes, body: int, end: int, committed: list[bytes]) -> None:
    """Append the committed body of the step with its body at ``body … end`` to ``pieces``."""
    at = body + 2
    pieces.append(data[body:at])
    # The varint reader is repeated here, as in steps_section: a call for each number would double the time.
    for _ in range(data[body + 1]):
        byte = data[at]
        at += 1
        wire = byte & 3
        number = (byte & 127) >> 2
        if byte > 127:
            shift = 5
            while True:
                byte = data[at]
                at += 1
                number |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
        if wire == 1:
            pieces.append(committed[number])
        else:
            pieces.append(_WIRE[wire])
            if wire:
                pieces.append(uint_bytes(number))
    meta = data[body]
    if meta > 7:
        _add_tail(pieces, data, meta, at, end, committed)


def _add_tail(pieces: list[bytes], data: bytes, meta: int, start: int, end: int, committed: list[bytes]) -> None:
    at = start
    if meta & layout.HAS_EXIT_CODE:
        number, after = read_uint(data, at, end)
        pieces.append(data[at:after])
        at = after
    if meta & layout.HAS_ERROR:
        number, at = read_uint(data, at, end)
        pieces.append(committed[number][1:])
    if meta & layout.HAS_RESULT:
        number, at = read_uint(data, at, end)
        _, after = read_uint(data, at, end)
        pieces.append(committed[number][1:])
        pieces.append(data[at:after])
        at = after
    if meta & layout.HAS_NOTE:
        number, at = read_uint(data, at, end)
        pieces.append(committed[number][1:])


def ref_offsets(leaf: bytes) -> list[int]:
    """Return the offsets of the commitments in the leaf input ``leaf``, in order.

    Raises FormatError for other bytes, because leaf inputs come from outside.
    """
    end = len(leaf)
    at = len(_LEAF_PREFIX) + 1
    if end < at + 2 or not leaf.startswith(_LEAF_PREFIX):
        raise FormatError("not the leaf input of a step", offset=0)
    meta, count = leaf[at], leaf[at + 1]
    at += 2
    found: list[int] = []
    for _ in range(count):
        wire = leaf[at] if at < end else layout.WIRE_SIGNED + 1
        at += 1
        if wire == layout.WIRE_ENTRY:
            found.append(at)
            at += 32
        elif wire in (layout.WIRE_UNSIGNED, layout.WIRE_SIGNED):
            _, at = read_uint(leaf, at, end)
        elif wire != layout.WIRE_ABSENT:
            raise FormatError("operand cut off or unknown", offset=at - 1)
    if meta & layout.HAS_EXIT_CODE:
        _, at = read_uint(leaf, at, end)
    for flag in (layout.HAS_ERROR, layout.HAS_RESULT, layout.HAS_NOTE):
        if meta & flag:
            found.append(at)
            at += 32
            if flag == layout.HAS_RESULT:
                _, at = read_uint(leaf, at, end)
    if at != end:
        raise FormatError("leaf input of another length", offset=min(at, end))
    return found


def committed_header(header: bytes, commitments: bytes) -> bytes:
    """Return the header section with every ref replaced by its commitment."""
    end = len(header)
    out = bytearray()
    version, at = read_uint(header, 0, end)
    out += uint_bytes(version)

    def commit(refs: int) -> None:
        nonlocal at
        for _ in range(refs):
            ref, at = read_uint(header, at, end)
            out.extend(commitments[32 * ref : 32 * ref + 32])

    commit(4)
    present = header[at]
    out.append(present)
    at += 1
    commit(present.bit_count())
    parents, at = read_uint(header, at, end)
    out += uint_bytes(parents)
    commit(parents)
    return bytes(out)
