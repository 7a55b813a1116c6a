"""Reading one entity in a process that holds the store open, in a small store and in a large one.

A read is of an entity chosen at random among all, so that in a large store next to nothing is left of an earlier read, neither
with us nor with SQLite; where it says ``again`` among 100, as by somebody who works on something. ``refresh`` is the look
whether another process wrote; it comes before each read where it is named.
"""

from __future__ import annotations

__all__ = ["measure"]

import os
import random
import sqlite3
from collections.abc import Callable, Iterator
from typing import Final

from bench.measure import Bench, Figure, Row, figure, in_turn, row, timed
from bench.rebuild import write_history
from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.journal import EntityType, Journal, Transaction, Writer, create_store
from periplus.journal.storage.layout import Layout

BEHIND: Final = 200
WHATS: Final = ("get", "refresh + get", "refresh + get again")
_TYPES: Final = {"decision": EntityType("decision", "dec", is_projected=False, check=lambda _: None)}
_WRITER: Final = Writer("bench", "who_0000000000000000")
_BARE: Final = "bare SELECT by primary key"


def measure(bench: Bench) -> Iterator[Row]:
    sizes = (100, bench.size(100_000, 1_000))
    reads = bench.size(4_000, 200)
    found: dict[tuple[str, int], dict[str, Figure]] = {}
    for size in sizes:
        for behind in (0, BEHIND):
            where = f", {behind} records behind the index" if behind else ""
            found[where, size] = _read(bench, size, behind, reads)
            bench.say(f"read {reads:,} of {size:,} entities{where}")
    for where in dict.fromkeys(where for where, _ in found):
        for what in WHATS:
            for size in sizes:
                one = found[where, size]
                yield row("read", f"{what}, {size:,} entities{where}", "µs each", one[what], _BARE, one["bare"])
            small, large = (found[where, size][what] for size in sizes)
            yield row("read", f"{what}, {sizes[1]:,} entities{where}, by size", "µs each", large,
                      f"{what}, {sizes[0]:,} entities", small)  # fmt: skip


def _read(bench: Bench, size: int, behind: int, reads: int) -> dict[str, Figure]:
    store = create_store(os.path.join(bench.folder, f"{size}-{behind}", ".periplus"), Files(), SystemClock())
    write_history(Layout(store.root).lineage_folder(store.lineage), store.store_id, store.lineage, size, size)
    chance = random.Random(6)
    with Journal(store.root, _TYPES) as journal:
        ids = [entity.item_id for entity in journal.entities("decision")]

        def change(transaction: Transaction) -> None:
            for number in range(behind):
                item_id = chance.choice(ids)
                transaction.put("decision", item_id, {"v": 1, "text": f"changed by number {number}"})

        if behind:
            journal.mutate(change, _WRITER, project=False)
    bare = _bare(os.path.join(bench.folder, f"{size}-{behind}", "bare.sqlite"), store.root)
    chosen = [chance.choice(ids) for _ in range(reads)]
    few = chance.sample(ids, 100)
    again = [chance.choice(few) for _ in range(reads)]
    with Journal(store.root, _TYPES) as journal:

        def get() -> None:
            for item_id in chosen:
                journal.get("decision", item_id)

        def look_and_get(wanted: list[str]) -> None:
            for item_id in wanted:
                journal.refresh()
                journal.get("decision", item_id)

        sides: dict[str, Callable[[], None]] = {
            "get": get,
            "refresh + get": lambda: look_and_get(chosen),
            "refresh + get again": lambda: look_and_get(again),
            "bare": lambda: _select(bare, chosen),
        }
        took = in_turn(bench.size(9, 2), {name: lambda work=work: timed(work) for name, work in sides.items()})
    bare.close()
    return {name: figure([seconds / reads * 1e6 for seconds in times]) for name, times in took.items()}


def _bare(path: str, root: str) -> sqlite3.Connection:
    """A table of ids and contents, and nothing else."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE entities (id TEXT PRIMARY KEY, payload BLOB NOT NULL)")
    db.execute("ATTACH ? AS held", (Layout(root).index,))
    db.execute("INSERT INTO entities SELECT item_id, payload FROM held.heads ORDER BY item_id")
    db.execute("DETACH held")
    db.execute("BEGIN")
    return db


def _select(db: sqlite3.Connection, chosen: list[str]) -> None:
    for item_id in chosen:
        db.execute("SELECT payload FROM entities WHERE id = ?", (item_id,)).fetchone()
