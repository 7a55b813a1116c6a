"""Rebuilding from zero, beside nothing but reading and parsing the same files; each in a process of its own.

``state and index input`` reads every record, checks its checksum, computes its version id and folds it into the heads
and into rows for the index, which are dropped. ``with the index`` also puts them into SQLite, as opening a store without
an index does; ``native`` has the parts in C, the first row has not. The last row opens a store that has a checkpoint. The times are processor time: the files are in memory, and what else the machine does is no matter here.
"""

from __future__ import annotations

__all__ = ["measure"]

import binascii
import os
import random
from collections.abc import Iterator
from typing import Final

import msgspec

from bench.codec import forms
from bench.measure import Bench, Row, figure, in_turn, row
from bench.processes import run_child
from bench.samples import Texts
from periplus.base.clock import SystemClock, format_ms
from periplus.base.encoding.canonical import canonical
from periplus.base.files import Files
from periplus.journal import EntityType, Journal, Transaction, Writer, create_store
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.records.record import Record, encode_line, version_id
from periplus.journal.records.segment import Header, encode_header, segment_name
from periplus.journal.storage.layout import Layout

SEGMENT_BYTES: Final = 10 * 1024 * 1024
TAIL: Final = 100
_MB: Final = 1e6
_BEGIN_MS: Final = 1_767_225_600_000


def measure(bench: Bench) -> Iterator[Row]:
    count = 1_000_000 if bench.is_full else bench.size(100_000, 2_000)
    store = create_store(os.path.join(bench.folder, ".periplus"), Files(), SystemClock())
    folder = Layout(store.root).lineage_folder(store.lineage)
    written = write_history(folder, store.store_id, store.lineage, count, count // 10)
    bench.say(f"{count:,} records of {count // 10:,} entities, {written / _MB:,.0f} MB")

    def opened() -> dict[str, float]:
        for name in os.listdir(store.root):
            if name.startswith("index.sqlite"):
                os.unlink(os.path.join(store.root, name))
        return run_child("open", store.root)

    has_native = "native" in forms(bench)
    works = {
        "orjson": lambda: run_child("orjson-files", folder),
        "fold": lambda: run_child("fold", folder, form="plain"),
        "native": lambda: run_child("fold", folder),
        "open": opened,
    }
    if not has_native:
        del works["native"]
    found = in_turn(bench.size(5, 1), works, collect=False)
    times = {name: figure([one["cpu_s"] / count * 1e6 for one in found[name]]) for name in found}
    peaks = {name: figure([one["peak_bytes"] / _MB for one in found[name]]) for name in found}
    fold = f"{count:,} records, state and index input"
    labels = {"fold": fold, "native": f"{fold}, native", "open": f"{count:,} records, with the index"}
    for name, label in labels.items():
        if name not in found:
            continue
        yield row("rebuild", label, "µs each", times[name], "orjson.loads, each line", times["orjson"])
        yield row("rebuild", f"{label}, peak memory", "MB", peaks[name], "orjson.loads, each line", peaks["orjson"])
    _checkpointed(store.root, count // 10)
    short = in_turn(bench.size(5, 1), {"open": opened}, collect=False)["open"]
    yield row("rebuild", f"{count:,} records, a checkpoint and {TAIL} behind it, with the index", "ms",
              figure([one["cpu_s"] * 1e3 for one in short]), "all records, with the index",
              figure([one["cpu_s"] * 1e3 for one in found["open"]]))  # fmt: skip


def _checkpointed(root: str, entities: int) -> None:
    """Make a checkpoint of the store, and write a few records more."""
    chance = random.Random(5)

    def change(transaction: Transaction) -> None:
        for _ in range(TAIL):
            transaction.put(
                "decision", f"dec_{chance.randrange(entities):016d}", {"v": 1, "text": str(chance.random())}
            )

    types = {"decision": EntityType("decision", "dec", is_projected=False, check=lambda _: None)}
    with Journal(root, types) as journal:
        make_checkpoint(journal, Writer("bench", "who_0000000000000000"))
        journal.mutate(change, Writer("bench", "who_0000000000000000"))


def write_history(folder: str, store: str, lineage: str, count: int, entities: int) -> int:
    """Segments of one lineage: every entity is made, then any of them is changed. Gives their size in bytes."""
    texts, chance = Texts(1), random.Random(2)
    sentences = [texts.sentence(15, 40) for _ in range(2_000)]
    versions: dict[int, str] = {}
    before, written, seq = "", 0, 1
    while seq <= count:
        with open(os.path.join(folder, segment_name(seq)), "wb") as file:
            size = file.write(encode_header(Header(2, 2, store, lineage, seq, before)))
            while seq <= count and size < SEGMENT_BYTES:
                number = seq - 1 if seq <= entities else chance.randrange(entities)
                record = _record(seq, number, versions, sentences, chance)
                line, leaf = encode_line(record)
                size += file.write(line)
                before = leaf[:8].hex()
                seq += 1
        written += size
    return written


def _record(seq: int, number: int, versions: dict[int, str], sentences: list[str], chance: random.Random) -> Record:
    item_id = f"dec_{number:016d}"
    text = chance.choice(sentences)
    payload = canonical(
        {
            "v": 1,
            "text": text,
            "state": "accepted",
            "author": "bench",
            "tags": ["speed", "journal"],
            "about": [{"kind": "path", "ref": "src/bench/rebuild.py"}],
            "rationale": chance.choice(sentences)[:60],
            "provenance": {"kind": "agent", "name": "bench"},
        }
    )
    parents = (versions[number],) if number in versions else ()
    versions[number] = version_id("decision", item_id, deleted=False, payload=payload, parents=parents)
    return Record(
        v=2, seq=seq, ts=format_ms(_BEGIN_MS + seq), writer="bench", writer_id="who_0000000000000000", pid=4711,
        action="update" if parents else "create", session="bench", item_type="decision", item_id=item_id,
        parents=parents, key=f"{chance.getrandbits(80):020x}",
        salt=binascii.b2a_base64(chance.randbytes(16), newline=False).decode(), summary=f"decision: {text[:90]}",
        payload=msgspec.Raw(payload), durable=seq - 1,
    )  # fmt: skip
