"""Verifiers of RFC 9162 §2: inclusion and consistency proofs.

Written from the RFC's verification algorithms only. It shares no code with the provers, so that a mistake in one
shows in the other. It answers True or False for every input and never raises: its arguments come from untrusted sources.

A root does not tell how many leaves it covers: an inclusion path holds for every size that puts the leaf at the same
place relative to the right edge. A signed tree head binds size and root together; only then the size is proved.
"""

from __future__ import annotations

__all__ = ["PATH_NODES_MAX", "verify_consistency", "verify_inclusion"]

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

PATH_NODES_MAX: Final = 64
_SIZE_MAX: Final = 1 << 64
_HASH_BYTES: Final = 32


def verify_inclusion(leaf_hash: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Verify that ``path`` proves the leaf at ``index`` (from 0) of the tree of ``size`` leaves with ``root``.

    RFC 9162 §2.1.3.2. ``path`` is a list or tuple of hashes, lowest node first.
    """
    if not (_is_count(index) and _is_count(size) and _is_hash(leaf_hash) and _is_hash(root) and _is_path(path)):
        return False
    if index >= size:
        return False
    at = index
    last = size - 1
    found = leaf_hash
    for node in path:
        if last == 0:
            return False
        if at & 1 or at == last:
            found = sha256(b"\x01" + node + found).digest()
            while not at & 1 and at:
                at >>= 1
                last >>= 1
        else:
            found = sha256(b"\x01" + found + node).digest()
        at >>= 1
        last >>= 1
    return last == 0 and found == root


def verify_consistency(first: int, second: int, path: Sequence[bytes], first_root: bytes, second_root: bytes) -> bool:
    """Verify that ``path`` proves that the tree of ``second`` leaves extends the tree of ``first`` leaves.

    RFC 9162 §2.1.4.2 for 0 < first < second. In addition, equal sizes need equal roots and an empty path, and every
    tree extends the empty one, whose root must be that of no leaves.
    """
    if not (_is_count(first) and _is_count(second) and _is_path(path)):
        return False
    if not (_is_hash(first_root) and _is_hash(second_root)) or first > second:
        return False
    if first in (0, second):
        return not path and _is_trivial(first, second, first_root, second_root)
    if not path:
        return False
    nodes = list(path)
    if first & (first - 1) == 0:
        nodes.insert(0, first_root)
    at = first - 1
    last = second - 1
    while at & 1:
        at >>= 1
        last >>= 1
    old = new = nodes[0]
    for node in nodes[1:]:
        if last == 0:
            return False
        if at & 1 or at == last:
            old = sha256(b"\x01" + node + old).digest()
            new = sha256(b"\x01" + node + new).digest()
            while not at & 1 and at:
                at >>= 1
                last >>= 1
        else:
            new = sha256(b"\x01" + new + node).digest()
        at >>= 1
        last >>= 1
    return last == 0 and old == first_root and new == second_root


def _is_trivial(first: int, second: int, first_root: bytes, second_root: bytes) -> bool:
    if first == 0 and first_root != sha256(b"").digest():
        return False
    return first != second or first_root == second_root


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _SIZE_MAX


def _is_hash(value: object) -> bool:
    return type(value) is bytes and len(value) == _HASH_BYTES


def _is_path(value: object) -> bool:
    return type(value) in (list, tuple) and len(value) <= PATH_NODES_MAX and all(map(_is_hash, value))  # type: ignore[arg-type,call-overload]  # the first test says that it is a sequence
