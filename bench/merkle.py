"""Merkle trees, beside bare hashing and beside proofs by the definition."""

from __future__ import annotations

__all__ = ["measure"]

import random
from collections.abc import Iterator
from hashlib import sha256

from bench.measure import Bench, Row, figure, in_turn, row, timed
from periplus.merkle import Tree, leaf_hash, node_hash, verify_inclusion


def measure(bench: Bench) -> Iterator[Row]:
    count = bench.size(100_000, 2_000)
    leaves = [leaf_hash(b"%d" % number) for number in range(count)]
    tree = Tree(leaves)
    root = tree.root()
    chosen = random.Random(6)
    rounds = bench.size(5, 2)
    bench.say(f"{rounds} rounds over {count:,} leaves")

    def build() -> float:
        found: list[bytes] = []
        spent = timed(lambda: found.append(Tree(leaves).root()))
        if found != [root]:
            raise RuntimeError("two trees over the same leaves differ")
        return count / spent

    built = in_turn(rounds, {"ours": build, "bare": lambda: count / timed(lambda: _hashes(count - 1))})
    yield row("merkle", f"tree over {count:,} leaves", "leaves/s", figure(built["ours"]),
              "bare hashlib, as many hashes", figure(built["bare"]), better="higher")  # fmt: skip

    proofs = bench.size(2_000, 50)
    steps = len(tree.inclusion(0))

    def prove() -> float:
        places = [chosen.randrange(count) for _ in range(proofs)]
        return timed(lambda: [tree.inclusion(place) for place in places]) / proofs

    def define() -> float:
        place = chosen.randrange(count)
        found: list[list[bytes]] = []
        spent = timed(lambda: found.append(_path(place, leaves)))
        if found[0] != tree.inclusion(place):
            raise RuntimeError(f"the proof of leaf {place} is not the one of the definition")
        return spent

    def check() -> float:
        places = [chosen.randrange(count) for _ in range(proofs)]
        paths = [(place, tree.inclusion(place)) for place in places]
        held: list[bool] = []
        spent = timed(lambda: held.extend(verify_inclusion(leaves[at], at, count, path, root) for at, path in paths))
        if not all(held):
            raise RuntimeError("a proof does not hold")
        return spent / proofs

    proved = in_turn(rounds, {"ours": prove, "bare": define})
    yield row("merkle", "inclusion proof", "µs", figure(proved["ours"]).scaled(1e6),
              "RFC 9162, by its definition", figure(proved["bare"]).scaled(1e6))  # fmt: skip
    checked = in_turn(rounds, {"ours": check, "bare": lambda: timed(lambda: _hashes(steps * proofs)) / proofs})
    yield row("merkle", "proof verified", "µs", figure(checked["ours"]).scaled(1e6),
              f"bare hashlib, {steps} hashes", figure(checked["bare"]).scaled(1e6))  # fmt: skip


def _hashes(count: int) -> None:
    node = bytes(65)
    for _ in range(count):
        sha256(node).digest()


def _root(leaves: list[bytes]) -> bytes:
    """MTH of RFC 9162 §2.1.1, word for word, over leaf hashes."""
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return node_hash(_root(leaves[:split]), _root(leaves[split:]))


def _path(place: int, leaves: list[bytes]) -> list[bytes]:
    """PATH of RFC 9162 §2.1.3.1, word for word."""
    if len(leaves) == 1:
        return []
    split = 1 << (len(leaves) - 1).bit_length() - 1
    if place < split:
        return [*_path(place, leaves[:split]), _root(leaves[split:])]
    return [*_path(place - split, leaves[split:]), _root(leaves[:split])]
