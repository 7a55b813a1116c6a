"""A look at the entity files, beside the bare listing and ``stat`` of the same folder."""

from __future__ import annotations

__all__ = ["measure"]

import os
import time
from collections.abc import Iterator

from bench.appends import WRITER
from bench.measure import Bench, Row, figure, in_turn, row
from bench.samples import Texts
from periplus.base.clock import SystemClock
from periplus.base.encoding.canonical import JSONValue
from periplus.base.files import Files
from periplus.base.ids import new_id
from periplus.journal import Transaction, create_store
from periplus.project import Project


def measure(bench: Bench) -> Iterator[Row]:
    count, rounds = bench.size(20_000, 200), bench.size(7, 2)
    bench.say(f"{count} entity files, {rounds} looks")
    with Project(create_store(os.path.join(bench.folder, ".periplus"), Files(), SystemClock()).root, WRITER) as project:
        _fill(project, count)
        folder = os.path.join(project.journal.layout.entities, "decision")
        begun = time.perf_counter()
        project.look()  # reads each once: their stamps were too young to be believed when they were written
        first = time.perf_counter() - begun
        found = in_turn(rounds, {"look": lambda: _timed(project.look), "bare": lambda: _timed(lambda: _stats(folder))})
    looks, bare = (figure([values[0] for values in found[side]]) for side in ("look", "bare"))
    label = f"a look at {count:,} entity files"
    yield row("files", label, "ms", looks.scaled(1e3), "scandir + stat", bare.scaled(1e3))
    yield row("files", f"{label}, the first", "ms", figure([first]).scaled(1e3), "scandir + stat", bare.scaled(1e3))


def _fill(project: Project, count: int) -> None:
    texts = Texts(1)
    for start in range(0, count, 1_000):
        items: list[tuple[str, dict[str, JSONValue]]] = [
            (new_id("dec"), {"v": 1, "text": texts.sentence(15, 40)}) for _ in range(min(1_000, count - start))
        ]

        def write(transaction: Transaction, items: list[tuple[str, dict[str, JSONValue]]] = items) -> None:
            for item_id, payload in items:
                transaction.put("decision", item_id, payload)

        project.journal.mutate(write, WRITER)


def _timed(call: object) -> list[float]:
    assert callable(call)
    begun = time.perf_counter()
    call()
    return [time.perf_counter() - begun]


def _stats(folder: str) -> int:
    with os.scandir(folder) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
