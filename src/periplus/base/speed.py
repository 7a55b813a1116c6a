"""The few operations that the codecs do millions of times: here in Python, and in C (``_speed.c``) where an installation has it.

Setup builds the C part wherever a compiler and Python's headers are. Nobody needs it: the functions are the same and so are their results, bit for bit.
"""

from __future__ import annotations

__all__ = [
    "FORM", "IS_NATIVE", "check_entries", "commit_whole", "hash_steps", "needle_plan", "needles_in", "record", "sealed_leaves",
    "sha256", "sha256_chained", "sha256_joined", "sha256_nodes", "sha256_salted", "sound_steps", "take_steps", "text_at",
]  # fmt: skip

import hashlib
import struct
from itertools import takewhile
from typing import Final

_BLOCK: Final = 1 << 15
_pairs: Final = struct.Struct("64s").iter_unpack


def _sha256(data: bytes) -> bytes:
    """The SHA-256 of ``data``; for short ones: what is long is fed to hashlib in place."""
    return hashlib.sha256(data).digest()


def _sha256_joined(pieces: list[bytes]) -> bytes:
    """The SHA-256 of all pieces, one after the other."""
    return hashlib.sha256(b"".join(pieces)).digest()


def _sha256_chained(prefix: bytes, first: bytes, items: list[bytes]) -> bytes:
    """The last hash of a chain that begins with ``first``: each is the SHA-256 of prefix, hash before it, and item."""
    hasher = hashlib.sha256
    last = first
    for item in items:
        last = hasher(prefix + last + item).digest()
    return last


def _sha256_salted(inner: bytes, outer: bytes, first: int, contents: list[bytes]) -> bytes:
    """The SHA-256 of each of ``contents`` behind a salt of its own, joined.

    The salt of item *i* is HMAC-SHA-256(key, ``first`` + *i* as u64, big-endian); ``inner`` and ``outer`` are the two
    blocks of 64 bytes that RFC 2104 makes of the key.
    """
    begun_inner, begun_outer, begun = (hashlib.sha256(block).copy for block in (inner, outer, b""))
    out = []
    for index, content in enumerate(contents, first):
        hash_ = begun_inner()
        hash_.update(index.to_bytes(8, "big"))
        salt = begun_outer()
        salt.update(hash_.digest())
        hash_ = begun()
        hash_.update(salt.digest() + content)
        out.append(hash_.digest())
    return b"".join(out)


def _sha256_nodes(children: bytes) -> bytes:
    """The hashes of the nodes of a Merkle tree (RFC 9162 §2.1.1) over their children's hashes, two by two.

    A hash that has begun is copied: OpenSSL looks its algorithm up for each new one, which costs as much as the hashing.
    By blocks, so that what is made is joined while the processor's cache still holds it.
    """
    begun = hashlib.sha256(b"\x01").copy
    found = bytearray()
    for at in range(0, len(children), _BLOCK):
        pairs = _pairs(children[at : at + _BLOCK])
        found += b"".join([hash_.digest() for (pair,) in pairs if not (hash_ := begun()).update(pair)])  # type: ignore[func-returns-value,redundant-expr]  # None, always
    return bytes(found)


def _sealed_leaves(lines: list[bytes], before: bytes, after: bytes) -> list[bytes]:
    """The leaf hashes (RFC 9162 §2.1.1) of sealed lines, up to the first that is none.

    A sealed line is a text, ``before``, the first 16 hexadecimal digits of the text's leaf hash, and ``after``.
    """
    begun = hashlib.sha256(b"\0").copy
    size = len(before) + 16 + len(after)
    leaves: list[bytes] = []
    put = leaves.append
    for line in lines:
        hash_ = begun()
        hash_.update(line[:-size])
        put(hash_.digest())
    # As one text: sums between what stands before and behind them.
    sums = b"".join([leaf[:8] for leaf in leaves]).hex(",", 8).encode().replace(b",", after + before)
    if not lines or before + sums + after == b"".join([line[-size:] for line in lines]):
        return leaves
    is_sealed = (line[-size:] == b"%b%b%b" % (before, leaf[:8].hex().encode(), after)
                 for line, leaf in zip(lines, leaves, strict=True))  # fmt: skip
    return leaves[: sum(takewhile(bool, is_sealed))]


def _needle_plan(exact: tuple[str, ...], folded: tuple[str, ...]) -> bytes:
    """What ``needles_in`` takes to look for these: up to 64 of 3 to 16 ASCII characters, the ``folded`` in either case."""
    return "\0".join((*exact, *(needle.lower() for needle in folded), str(len(exact)))).encode("ascii")


def _needles_in(plan: bytes, text: str) -> int:
    """A bit for each needle of the plan, the exact ones first: whether it stands in the text."""
    *needles, exact = plan.decode("ascii").split("\0")
    lower = text.encode("latin-1", "replace").lower().decode("latin-1")
    texts = [text] * int(exact) + [lower] * (len(needles) - int(exact))
    return sum((needle in text) << number for number, (needle, text) in enumerate(zip(needles, texts, strict=True)))


def _left_to_the_caller(*_: object) -> None:
    """In place of a loop over the bytes of a trail that is written in C (``_speed.pyi`` has them).

    None says that the caller's own loop has to do it: always here, in C where anything is odd, so that one place
    decides what a fault is and where it stands.
    """


def _text_at(data: bytes, at: int, /) -> str:
    """The text of a checked entry, its length at ``at``."""
    size = data[at]
    at += 1
    if size > 127:
        size = size & 127 | data[at] << 7  # a text has at most 4,096 bytes
        at += 1
    return data[at : at + size].decode()


try:
    from periplus.base._speed import (
        check_entries,
        commit_whole,
        hash_steps,
        needle_plan,
        needles_in,
        record,
        sealed_leaves,
        sha256,
        sha256_chained,
        sha256_joined,
        sha256_nodes,
        sha256_salted,
        sound_steps,
        take_steps,
        text_at,
    )
except ImportError:
    check_entries = commit_whole = hash_steps = sound_steps = take_steps = _left_to_the_caller
    text_at = _text_at
    needle_plan, needles_in = _needle_plan, _needles_in
    sha256, sha256_joined = _sha256, _sha256_joined
    sha256_chained, sha256_nodes, sha256_salted = _sha256_chained, _sha256_nodes, _sha256_salted
    sealed_leaves = _sealed_leaves
    record = tuple.__new__  # makes an instance of any of its subclasses

IS_NATIVE: Final = sha256 is not _sha256
FORM: Final = "native" if IS_NATIVE else "plain Python"  # as people are told it
