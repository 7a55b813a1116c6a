"""The identity of a trail, computed straight from its bytes: commitments, leaves, tree root, receipts, digest.

No step becomes an object on the way, and nothing is kept of a step once it is hashed, so the memory taken is that of
the commitments: 32 bytes an entry. The functions read bytes that are well formed, for the builder wrote them or a
``TrailReader`` checked them; ``docs/formats/trail.md`` says what each hash covers. The tree is that of RFC 9162:
a leaf here is the hash of its leaf input, whose first byte 00 is the tree's own prefix.
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
    """The identity of a trail from the bytes of its sections."""
    commitments = commit_entries(strings, 0, len(strings))
    return trail_identity(header, steps, 0, len(steps), commitments, status)


def trail_identity(header: bytes, data: bytes, start: int, end: int, commitments: bytes, status: int) -> Identity:
    """As ``identify``, with the steps section at ``start … end`` of ``data`` and the commitments known."""
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
    roots: list[bytes] = []  # of whole subtrees of _SUBTREE_LEAVES, and at last of what is left
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
    root = root_of(roots)  # nodes of one height combine as leaves do
    return Identity(status, root, receipt, trail_digest(head, count, root, receipt, status))


def _hashed_in_bulk(data: bytes, start: int, end: int, commitments: bytes) -> tuple[bytes, bytes]:
    """The root over the leaves of the steps at ``start … end``, and the last receipt.

    Hashes that have begun are copied, for the reason that ``base.speed`` gives.
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
    """The trail digest; ``head`` is the committed header."""
    return sha256(b"".join((_DIGEST_PREFIX, head, uint_bytes(count), root, receipt, bytes((status,)))))


def commit_entries(data: bytes, start: int, end: int) -> bytes:
    """The commitments of the strings section at ``start … end`` of ``data``, 32 bytes each, in order."""
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
    contents: list[bytes] = []  # not yet committed, of a whole trail
    for index in range(count):
        form = data[at]
        at += 1
        salt = b""
        if is_redacted:
            salt = data[at : at + 32]  # of a withheld entry, its commitment
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
    """The leaf of each step of the steps section at ``start … end`` of ``data``."""
    count, at = read_uint(data, start, end)
    committed = _operands(commitments)
    while count:
        leaves: list[bytes] = []
        at = _hash_steps(data, at, min(count, _SUBTREE_LEAVES), end, committed, leaves, [])
        count -= len(leaves)
        yield from leaves


def _operands(commitments: bytes) -> list[bytes]:
    """What stands in a leaf for an operand that is an entry, for each entry: its wire and its commitment."""
    return [b"\x01" + commitments[at : at + 32] for at in range(0, len(commitments), 32)]


def _hash_steps(
    data: bytes, start: int, count: int, end: int, committed: list[bytes], leaves: list[bytes], links: list[bytes]
) -> int:
    """Add the leaves of the ``count`` steps from ``start`` on, and what each adds to the receipts; the offset behind."""
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
    """What the leaf of the step with its body at ``body … end`` hashes, the prefix of the tree included."""
    pieces = [_LEAF_PREFIX, opcode]
    _add_body(pieces, data, body, end, _operands(commitments))
    return b"".join(pieces)


def _add_body(pieces: list[bytes], data: bytes, body: int, end: int, committed: list[bytes]) -> None:
    """Add the committed body of the step with its body at ``body … end`` to ``pieces``."""
    at = body + 2
    pieces.append(data[body:at])
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
    """Where the commitments stand in the leaf input ``leaf``, in order.

    Raises FormatError where it is not one: this reads what a stranger sent.
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
    """The header section with every ref replaced by its commitment."""
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
