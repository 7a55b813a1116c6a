"""Verifiers of the proofs for many leaves that ``merkle.multiproof`` makes.

Written from the description of the form there only; it shares no code with the prover. It answers True or False for
every input and never raises: its arguments come from untrusted sources. Its work is bounded by its input: at most one
hash per leaf and layer.

As with inclusion paths, a root alone does not tell how many leaves it covers: take size and root from one trusted
place (a signed head, the record of a context), never the size from the prover.
"""

from __future__ import annotations

__all__ = ["verify_indices", "verify_range"]

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

_SIZE_MAX: Final = 1 << 64
_LAYERS_MAX: Final = 64


def verify_range(leaf_hashes: Sequence[bytes], start: int, size: int, nodes: Sequence[bytes], root: bytes) -> bool:
    """Verify that ``leaf_hashes`` are the leaves from ``start`` on of the tree of ``size`` leaves with ``root``.

    ``nodes`` is the proof, a list or tuple of hashes, as is ``leaf_hashes``. False for no leaves.
    """
    if not (_is_number(start) and _is_number(size) and _all_hashes(leaf_hashes) and _all_hashes(nodes)):
        return False
    if not leaf_hashes or start + len(leaf_hashes) > size or len(nodes) > 2 * _LAYERS_MAX:
        return False
    rest = list(reversed(nodes))
    row, at, count = list(leaf_hashes), start, size
    while count > 1:
        if at % 2 == 1:
            if not rest:
                return False
            row.insert(0, rest.pop())
            at -= 1
        end = at + len(row)
        if end % 2 == 1 and end < count:
            if not rest:
                return False
            row.append(rest.pop())
        joined = [sha256(b"\x01" + row[i] + row[i + 1]).digest() for i in range(0, len(row) - 1, 2)]
        if len(row) % 2 == 1:  # the last node of an odd layer goes up unchanged
            joined.append(row[-1])
        row, at, count = joined, at // 2, (count + 1) // 2
    return not rest and row == [root]


def verify_indices(leaves: Sequence[tuple[int, bytes]], size: int, nodes: Sequence[bytes], root: bytes) -> bool:
    """Verify that the leaf hashes in ``leaves`` stand at their indices in the tree of ``size`` leaves with ``root``.

    ``leaves`` is a list or tuple of pairs ``(index, leaf hash)`` with ascending indices.
    """
    if not (_is_number(size) and _all_hashes(nodes) and _are_placed(leaves, size)):
        return False
    if len(nodes) > _LAYERS_MAX * len(leaves):
        return False
    known = dict(leaves)
    used, count = 0, size
    while count > 1:
        above: dict[int, bytes] = {}
        for index, found in known.items():
            beside = index + 1 if index % 2 == 0 else index - 1
            if index // 2 in above:
                continue  # done with its left neighbour
            if beside == count:
                above[index // 2] = found
                continue
            other = known.get(beside)
            if other is None:
                if used == len(nodes):
                    return False
                other = nodes[used]
                used += 1
            pair = found + other if index % 2 == 0 else other + found
            above[index // 2] = sha256(b"\x01" + pair).digest()
        known, count = above, (count + 1) // 2
    return used == len(nodes) and known == {0: root}


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value < _SIZE_MAX


def _all_hashes(values: object) -> bool:
    return type(values) in (list, tuple) and all(type(value) is bytes and len(value) == 32 for value in values)  # type: ignore[attr-defined]  # the first test says that it is a sequence


def _are_placed(leaves: object, size: int) -> bool:
    if not isinstance(leaves, (list, tuple)) or not leaves:
        return False
    last = -1
    for leaf in leaves:
        if type(leaf) is not tuple or len(leaf) != 2 or not (_is_number(leaf[0]) and _all_hashes([leaf[1]])):
            return False
        if not last < leaf[0] < size:
            return False
        last = leaf[0]
    return True
