"""Proofs from tiles in a journal of a million records, beside what the tree in memory takes."""

from __future__ import annotations

__all__ = ["measure"]

import os
import random
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256

from bench.measure import Bench, Row, figure, in_turn, pooled, row, timed
from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.journal import Journal, create_store
from periplus.journal.proofs.proof_file import Prover, verify_proof
from periplus.journal.records.record import Record, encode_line
from periplus.journal.records.segment import Header, encode_header, segment_name
from periplus.journal.storage.lineage import Position, write_durable
from periplus.journal.storage.settings import SEGMENT_BYTES
from periplus.merkle import Tree


def measure(bench: Bench) -> Iterator[Row]:
    count = bench.size(1_000_000, 2_000)
    bench.say(f"a journal of {count:,} records")
    root = create_store(os.path.join(bench.folder, ".periplus"), Files(), SystemClock()).root
    with Journal(root, {}) as journal:
        folder, store, lineage = journal.reader(journal.lineage).folder, journal.store_id, journal.lineage
        leaves = _write(folder, store, lineage, count, journal.layout.durable)
    with Journal(root, {}) as journal:
        yield from _measure(bench, journal, leaves, folder)


def _measure(bench: Bench, journal: Journal, leaves: list[bytes], folder: str) -> Iterator[Row]:
    count, rounds = len(leaves), bench.size(5, 2)
    tree = Tree(leaves)
    files = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    prover = Prover(journal)
    bench.say("tiles from the records")
    built = timed(prover.head)
    if prover.head().head.root != tree.root().hex():
        raise RuntimeError("the tiles do not have the root of the records")
    bare = timed(lambda: _hash_lines(files))
    yield row("proofs", f"tiles of {count:,} records, built", "records/s", figure([count / built]),
              "bare read + SHA-256, each line", figure([count / bare]), better="higher")  # fmt: skip
    tiles = journal.layout.tree_folder(journal.lineage)
    held = sum(os.path.getsize(os.path.join(tiles, name)) for name in os.listdir(tiles))
    yield row("proofs", "tiles, on disk", "bytes a record", figure([held / count]),
              "a leaf hash", figure([32.0]))  # fmt: skip

    chosen, proofs = random.Random(16), bench.size(500, 20)
    key = prover.head().key

    def each(prove: Callable[[int], object]) -> list[float]:
        return [timed(partial(prove, 1 + chosen.randrange(count))) for _ in range(proofs)]

    for seq in (1, count // 2, count):
        if not verify_proof(prover.record(seq), key=key).holds:
            raise RuntimeError(f"the proof of record {seq} does not hold")
    bench.say(f"{rounds} rounds of {proofs} proofs")
    sides = {
        "warm": lambda: each(prover.record),
        "fresh": lambda: each(lambda seq: Prover(journal).record(seq)),
        "memory": lambda: each(lambda seq: tree.inclusion(seq - 1)),
    }
    taken = in_turn(rounds, sides)
    for what, name in (("proof of a record, warm", "warm"), ("proof of a record, first of a prover", "fresh")):
        for share, label in ((0.5, "p50"), (0.95, "p95")):
            yield row("proofs", f"{what}, {label}", "µs", pooled(taken[name], share).scaled(1e6),
                      "path alone, whole tree in memory", pooled(taken["memory"], share).scaled(1e6))  # fmt: skip


def _write(folder: str, store: str, lineage: str, count: int, durable: str) -> list[bytes]:
    """Segments of ``count`` observations, as a writer leaves them; gives their leaf hashes."""
    leaves: list[bytes] = []
    buffer, first, previous = b"", 0, ""
    lines: list[bytes] = []
    size = 0
    for seq in range(1, count + 1):
        if not lines:
            first = seq
            lines = [encode_header(Header(2, 2, store, lineage, first, previous))]
            size = len(lines[0])
        record = Record(
            2, seq, "2026-01-31T09:30:00.000Z", "ada", "who_0000000000000000", 4711, "observe",
            session="bench", key=f"{seq:020x}", salt="AAAAAAAAAAAAAAAAAAAAAA==", summary=f"step {seq} of a long day",
        )  # fmt: skip
        line, leaf = encode_line(record)
        lines.append(line)
        leaves.append(leaf)
        size += len(line)
        previous = leaf[:8].hex()
        if size >= SEGMENT_BYTES or seq == count:
            buffer = b"".join(lines)
            with open(os.path.join(folder, segment_name(first)), "wb") as file:
                file.write(buffer)
            lines = []
    files = Files()
    fd = files.open(durable, os.O_WRONLY | os.O_CREAT)
    try:
        write_durable(files, fd, lineage, Position(first, len(buffer), count + 1, previous), leaves[-1])
    finally:
        files.close(fd)
    return leaves


def _hash_lines(paths: list[str]) -> None:
    for path in paths:
        with open(path, "rb") as file:
            for line in file:
                sha256(line).digest()
