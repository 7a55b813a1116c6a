"""The innermost operations of the codecs, in Python, and in C (``_speed.c``) where it was built.

Installation builds the C part wherever a compiler and Python's headers are. It is optional: both forms have the same
functions and give the same results, bit for bit.
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
    """Return the SHA-256 of ``data``. For short data; long data is fed to hashlib in place."""
    return hashlib.sha256(data).digest()


def _sha256_joined(pieces: list[bytes]) -> bytes:
    """Return the SHA-256 of all pieces, one after the other."""
    return hashlib.sha256(b"".join(pieces)).digest()


def _sha256_chained(prefix: bytes, first: bytes, items: list[bytes]) -> bytes:
    """Return the last hash of a chain that begins with ``first``: each is the SHA-256 of prefix, previous hash and
    item.
    """
    hasher = hashlib.sha256
    last = first
    for item in items:
        last = hasher(prefix + last + item).digest()
    return last


def _sha256_salted(inner: bytes, outer: bytes, first: int, contents: list[bytes]) -> bytes:
    """Return the SHA-256 of each of ``contents`` after its own salt, joined.

    The salt of item *i* is HMAC-SHA-256(key, ``first`` + *i* as u64, big-endian); ``inner`` and ``outer`` are the two
    blocks of 64 bytes that RFC 2104 derives from the key.
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
    """Return the hashes of the Merkle tree nodes (RFC 9162 §2.1.1) over pairs of child hashes.

    A started hash is copied: OpenSSL looks up its algorithm for each new one, which costs as much as the hashing. The
    work goes by blocks, so that results are joined while they are in the processor's cache.
    """
    begun = hashlib.sha256(b"\x01").copy
    found = bytearray()
    for at in range(0, len(children), _BLOCK):
        pairs = _pairs(children[at : at + _BLOCK])
        found += b"".join([hash_.digest() for (pair,) in pairs if not (hash_ := begun()).update(pair)])  # type: ignore[func-returns-value,redundant-expr]  # None, always
    return bytes(found)


def _sealed_leaves(lines: list[bytes], before: bytes, after: bytes) -> list[bytes]:
    """Return the leaf hashes (RFC 9162 §2.1.1) of sealed lines, up to the first line that is not sealed.

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
    # Compared as one text, with the hashes between ``before`` and ``after``.
    sums = b"".join([leaf[:8] for leaf in leaves]).hex(",", 8).encode().replace(b",", after + before)
    if not lines or before + sums + after == b"".join([line[-size:] for line in lines]):
        return leaves
    is_sealed = (line[-size:] == b"%b%b%b" % (before, leaf[:8].hex().encode(), after)
                 for line, leaf in zip(lines, leaves, strict=True))  # fmt: skip
    return leaves[: sum(takewhile(bool, is_sealed))]


def _needle_plan(exact: tuple[str, ...], folded: tuple[str, ...]) -> bytes:
    """Return the plan by which ``needles_in`` searches: up to 64 needles of 3 to 16 ASCII characters, ``folded`` in
    either case.
    """
    return "\0".join((*exact, *(needle.lower() for needle in folded), str(len(exact)))).encode("ascii")


def _needles_in(plan: bytes, text: str) -> int:
    """Return a bit for each needle of the plan, the exact ones first: set where it occurs in the text."""
    *needles, exact = plan.decode("ascii").split("\0")
    lower = text.encode("latin-1", "replace").lower().decode("latin-1")
    texts = [text] * int(exact) + [lower] * (len(needles) - int(exact))
    return sum((needle in text) << number for number, (needle, text) in enumerate(zip(needles, texts, strict=True)))


def _left_to_the_caller(*_: object) -> None:
    """Placeholder for a loop over the bytes of a trail that is written in C (see ``_speed.pyi``).

    None tells the caller to run its own loop: always here, and in C for any irregularity, so that one place decides
    what an error is and where.
    """


def _text_at(data: bytes, at: int, /) -> str:
    """Return the text of a checked entry; its length stands at ``at``."""
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
    record = tuple.__new__  # makes an instance of any subclass of tuple

IS_NATIVE: Final = sha256 is not _sha256
FORM: Final = "native" if IS_NATIVE else "plain Python"  # as shown to people
