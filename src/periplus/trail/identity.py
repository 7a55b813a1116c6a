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
    "entry_salt",
    "identify",
    "leaf_input",
    "ref_offsets",
    "salting",
    "step_leaves",
    "trail_digest",
    "trail_identity",
]

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.base.errors import FormatError
from periplus.base.varint import read_uint, uint_bytes
from periplus.merkle.tree import root_of
from periplus.trail import layout

if TYPE_CHECKING:
    from collections.abc import Callable

_LEAF_PREFIX: Final = b"\x00PPLT"
_SUBTREE_LEAVES: Final = 1 << 12
_RECEIPT_PREFIX: Final = b"PPLR"
_DIGEST_PREFIX: Final = b"PPLS/trail/2\x00"
_HMAC_BLOCK_BYTES: Final = 64


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
    sha256 = hashlib.sha256
    count, _ = read_uint(data, start, end)
    receipt = bytes(32)
    roots: list[bytes] = []  # of whole subtrees of _SUBTREE_LEAVES, and at last of what is left
    leaves: list[bytes] = []
    for leaf, outcome in step_leaves(data, start, end, commitments):
        receipt = sha256(_RECEIPT_PREFIX + receipt + leaf + outcome).digest()
        leaves.append(leaf)
        if len(leaves) == _SUBTREE_LEAVES:
            roots.append(root_of(leaves))
            leaves.clear()
    if leaves:
        roots.append(root_of(leaves))
    root = root_of(roots)  # nodes of one height combine as leaves do
    head = committed_header(header, commitments)
    return Identity(status, root, receipt, trail_digest(head, count, root, receipt, status))


def trail_digest(head: bytes, count: int, root: bytes, receipt: bytes, status: int) -> bytes:
    """The trail digest; ``head`` is the committed header."""
    return hashlib.sha256(b"".join((_DIGEST_PREFIX, head, uint_bytes(count), root, receipt, bytes((status,))))).digest()


def salting(secret: bytes) -> Callable[[int], bytes]:
    """The function that gives the salt of entry *i*: HMAC-SHA-256(secret, i as u64)."""
    key = secret.ljust(_HMAC_BLOCK_BYTES, b"\0")
    inner = hashlib.sha256(key.translate(bytes(byte ^ 0x36 for byte in range(256))))
    outer = hashlib.sha256(key.translate(bytes(byte ^ 0x5C for byte in range(256))))

    def salt(index: int) -> bytes:
        message = inner.copy()
        message.update(index.to_bytes(8, "big"))
        whole = outer.copy()
        whole.update(message.digest())
        return whole.digest()

    return salt


def entry_salt(secret: bytes, index: int) -> bytes:
    return salting(secret)(index)


def commit_entries(data: bytes, start: int, end: int) -> bytes:
    """The commitments of the strings section at ``start … end`` of ``data``, 32 bytes each, in order."""
    sha256 = hashlib.sha256
    redacted = data[start] == layout.MODE_REDACTED
    at = start + 1
    salt_of = None
    if not redacted:
        salt_of = salting(data[at : at + layout.SECRET_BYTES])
        at += layout.SECRET_BYTES
    count, at = read_uint(data, at, end)
    out = bytearray()
    for index in range(count):
        form = data[at]
        at += 1
        if form == layout.FORM_WITHHELD:
            out += data[at : at + 32]
            at += 32
            continue
        if salt_of is not None:
            salt = salt_of(index)
        else:
            salt = data[at : at + 32]
            at += 32
        if form == layout.FORM_TEXT:
            length = data[at]
            at += 1
            if length > 127:
                length, at = read_uint(data, at - 1, end)
            out += sha256(salt + b"\x00" + data[at : at + length]).digest()
            at += length
        elif form == layout.FORM_TEXT_OBJECT:
            length, after = read_uint(data, at + 32, end)
            out += sha256(salt + b"\x01" + data[at : at + 32] + length.to_bytes(8, "big")).digest()
            at = after
        else:
            size = 21 if data[at] == 2 else 33
            out += sha256(salt + b"\x02" + data[at : at + size]).digest()
            at += size
    return bytes(out)


def step_leaves(data: bytes, start: int, end: int, commitments: bytes) -> Iterator[tuple[bytes, bytes]]:
    """``(leaf, outcome u8)`` of each step of the steps section at ``start … end`` of ``data``."""
    sha256 = hashlib.sha256
    count, at = read_uint(data, start, end)
    for _ in range(count):
        length = data[at + 1]
        body = at + 2
        if length > 127:
            length, body = read_uint(data, at + 1, end)
        opcode = data[at : at + 1]
        at = body + length
        yield sha256(leaf_input(data, opcode, body, at, commitments)).digest(), _OUTCOME[data[body] & 7]


_OUTCOME: Final = tuple(bytes((code,)) for code in range(8))
_WIRE: Final = tuple(bytes((wire,)) for wire in range(4))


def leaf_input(data: bytes, opcode: bytes, body: int, end: int, commitments: bytes) -> bytes:
    """What the leaf of the step with its body at ``body … end`` hashes, the prefix of the tree included."""
    meta = data[body]
    pieces = [_LEAF_PREFIX, opcode, data[body : body + 2]]
    at = body + 2
    for _ in range(data[body + 1]):
        number = data[at]
        at += 1
        if number > 127:
            number &= 127
            shift = 7
            while True:
                byte = data[at]
                at += 1
                number |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
        wire = number & 3
        number >>= 2
        if wire == 1:
            pieces.append(b"\x01")
            pieces.append(commitments[32 * number : 32 * number + 32])
        else:
            pieces.append(_WIRE[wire])
            if wire:
                pieces.append(uint_bytes(number))
    if meta > 7:
        _commit_tail(pieces, data, meta, at, end, commitments)
    return b"".join(pieces)


def _commit_tail(pieces: list[bytes], data: bytes, meta: int, at: int, end: int, commitments: bytes) -> None:
    for flag in (layout.HAS_EXIT_CODE, layout.HAS_ERROR, layout.HAS_RESULT, layout.HAS_NOTE):
        if not meta & flag:
            continue
        number, after = read_uint(data, at, end)
        if flag == layout.HAS_EXIT_CODE:
            pieces.append(data[at:after])
        else:
            pieces.append(commitments[32 * number : 32 * number + 32])
        at = after
        if flag == layout.HAS_RESULT:
            _, after = read_uint(data, at, end)
            pieces.append(data[at:after])
            at = after


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
