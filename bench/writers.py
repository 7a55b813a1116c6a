"""Two processes that write memory at once, beside one that writes as much: how fast, and whether anything is lost."""

from __future__ import annotations

__all__ = ["measure"]

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

from bench.measure import Bench, Figure, Row, figure, in_turn, row
from bench.processes import environment
from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.journal import Writer, create_store
from periplus.project import Project

_WRITES: Final = """
import sys
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.project import Project
with Project(sys.argv[1], Writer.named(sys.argv[2])) as project:
    for number in range(int(sys.argv[3])):
        project.remember(Memory("lesson", f"{sys.argv[2]} learned the {number}th thing"))
"""


def measure(bench: Bench) -> Iterator[Row]:
    count = bench.size(1_000, 20)
    kept: list[int] = []
    rounds = bench.size(3, 1)
    bench.say(f"{rounds} rounds of {count:,} writes by each of two processes")
    found = in_turn(
        rounds,
        {
            "two": lambda: _rate(bench, ["ada", "bob"], count, kept),
            "one": lambda: _rate(bench, ["ada"], 2 * count, kept),
        },
        collect=False,
    )
    name = f"2 processes × {count:,} memories"
    yield row(
        "writers", name, "/s", figure(found["two"]), "one process, as many", figure(found["one"]), better="higher"
    )
    least, all_ = float(min(kept)), float(2 * count)
    yield row("writers", f"{name}, there in the end", "", Figure(least, least, least), "acknowledged", Figure(all_, all_, all_),
              better="higher")  # fmt: skip


def _rate(bench: Bench, names: list[str], count: int, kept: list[int]) -> float:
    folder = os.path.join(bench.folder, f"store-{len(kept)}")
    root = create_store(os.path.join(folder, ".periplus"), Files(), SystemClock()).root
    begun = time.perf_counter()
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITES, root, name, str(count)], env=environment()) for name in names
    ]
    codes = [writer.wait() for writer in writers]
    if any(codes):
        raise RuntimeError("a writer failed")
    spent = time.perf_counter() - begun
    with Project(root, Writer.named("bench")) as project:
        kept.append(sum(1 for _ in project.journal.entities("lesson")))
    return len(names) * count / spent
