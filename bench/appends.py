"""Memories remembered by one writer and by eight at once, beside SQLite doing the same work; then the bare append, as a report.

*Remember* is what a program that uses the library does: one memory through an open project, durable, found by its words, with its file.
SQLite does the same: a row and its full text in one durable transaction, then the file. The project is brought up to date before a
writer's time ends, so that nothing that was remembered is left to be indexed.

Each writer is a process of its own (``bench.appender``) that makes its payloads and opens its store before it says that
it is ready, and has appended a few times, as SQLite has made its table; then all begin together. The bare loop writes and
syncs the very bytes that the journal wrote in the warm-up, SQLite inserts the fields of those records, one durable
commit each. The bare loop of one and of eight stands beside SQLite too, and a loop that writes over what was written before, where a sync need not
write the size of a file: they tell what this disk and these cores leave to win.
"""

from __future__ import annotations

__all__ = ["WRITER", "Round", "keep_lines", "measure", "run_writers"]

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from bench.measure import Bench, Row, figure, in_turn, pooled, row
from bench.processes import environment
from bench.samples import REPOSITORY
from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.journal import Writer, create_store

WRITER: Final = Writer("bench", "who_0000000000000000", "bench", os.getpid())
PROCESSES: Final = 8
_SETTLED_S: Final = 3  # a folder that changed in the last seconds is listed at every look: a store is older, usually


class Round(NamedTuple):
    """Appends per second of all writers together, and what each append took."""

    rate: float
    waits_s: list[float]


def measure(bench: Bench) -> Iterator[Row]:
    count, rounds = bench.size(400, 10), bench.size(6, 2)
    alone, crowd, whole = (_store(bench.folder, name) for name in ("alone", "crowd", "whole"))
    memory, shared_memory = (_store(bench.folder, name) for name in ("memory", "shared memory"))
    lines, rows, many_rows = (os.path.join(bench.folder, name) for name in ("lines", "one.sqlite", "many.sqlite"))
    memory_rows, shared_rows = (os.path.join(bench.folder, f"{name}.sqlite") for name in ("memory", "shared memory"))
    each = max(count // 2, 5)

    def side(kind: str, place: str, writers: int = 1) -> Callable[[], Round]:
        return lambda: run_writers(kind, place, lines, count if writers == 1 else each, writers)

    side("journal", alone)()  # the bytes for the others
    keep_lines(alone, lines)
    for kind, place in (("journal", alone), ("journal", crowd), ("whole", whole)):
        side(kind, place)()
    time.sleep(bench.size(_SETTLED_S, 0))
    sides = {
        "remember": side("remember", memory),
        "sqlite remember": side("sqlite remember", memory_rows),
        "remember eight": side("remember", shared_memory, PROCESSES),
        "sqlite remember eight": side("sqlite remember", shared_rows, PROCESSES),
        "T": side("bare", os.path.join(bench.folder, "bare")),
        "room": side("room", os.path.join(bench.folder, "room")),
        "T eight": side("bare", os.path.join(bench.folder, "bare eight"), PROCESSES),
        "one": side("journal", alone),
        "eight": side("journal", crowd, PROCESSES),
        "whole": side("whole", whole),
        "sqlite": side("sqlite", rows),
        "sqlite eight": side("sqlite", many_rows, PROCESSES),
    }
    bench.say(f"{rounds} rounds of {count} appends; {PROCESSES} processes of {each}")
    found = in_turn(rounds, sides, collect=False)
    flush_ms = pooled([one.waits_s for one in found["T"]], 0.5).value * 1e3
    bench.say(f"a flush of this disk takes {flush_ms:.2f} ms")
    beside = "SQLite: row, full text, file"
    compared = [
        ("remember, one writer", "remember", "sqlite remember", beside),
        (
            f"remember, {PROCESSES} processes",
            "remember eight",
            "sqlite remember eight",
            f"{beside}, {PROCESSES} processes",
        ),
        ("write + fdatasync", "T", "sqlite", "SQLite, WAL, FULL"),  # what any append that syncs its file can do at most
        ("write into room + fdatasync", "room", "sqlite", "SQLite, WAL, FULL"),  # and any log that is written in place
        (f"write + fdatasync, {PROCESSES} processes", "T eight", "T", "one process"),
        (f"write + fdatasync, {PROCESSES} processes", "T eight", "sqlite eight", f"SQLite, {PROCESSES} processes"),
        ("one writer", "one", "T", "write + fdatasync"),
        ("one writer", "one", "sqlite", "SQLite, WAL, FULL"),
        (f"{PROCESSES} processes", "eight", "one", "one writer"),
        (f"{PROCESSES} processes", "eight", "sqlite eight", f"SQLite, {PROCESSES} processes"),
        ("one writer, with files and index", "whole", "T", "write + fdatasync"),
    ]
    for label, ours, theirs, name in compared:
        rates = {key: figure([one.rate for one in found[key]]) for key in (ours, theirs)}
        yield row("append", label, "/s", rates[ours], name, rates[theirs], better="higher")
        if ours.startswith("remember"):  # what one of them took, as its caller sees it
            mine, other = (pooled([one.waits_s for one in found[key]], 0.95).scaled(1e3) for key in (ours, theirs))
            yield row("append", f"{label}, p95", "ms", mine, name, other)


def run_writers(kind: str, place: str, lines: str, count: int, writers: int) -> Round:
    os.sync()  # nobody pays for what another side left unsynced
    argv = [sys.executable, "-m", "bench.appender", kind, place, lines, str(count)]
    running = [
        subprocess.Popen(
            [*argv, str(number)],
            cwd=REPOSITORY,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(writers)
    ]
    for one in running:
        if one.stdout is None or one.stdout.readline() != "ready\n":
            raise RuntimeError(f"{kind}: a writer did not get ready")
    for one in running:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    said: list[dict[str, Any]] = []
    for one in running:
        text, _ = one.communicate()
        if one.returncode:
            raise RuntimeError(f"{kind}: a writer ended with {one.returncode}")
        said.append(json.loads(text))
    wall_s = max(one["ended_s"] for one in said) - min(one["begun_s"] for one in said)
    return Round(count * writers / wall_s, [wait for one in said for wait in one["waits_s"]])


def _store(folder: str, name: str) -> str:
    os.mkdir(os.path.join(folder, name))
    return create_store(os.path.join(folder, name, ".periplus"), Files(), SystemClock()).root


def keep_lines(root: str, path: str) -> None:
    """The records that the store has so far, one a line."""
    from periplus.project import Project

    with Project(root, WRITER) as project, open(path, "wb") as file:
        journal = project.journal
        for segment, entry in journal.entries(journal.lineage):
            with open(journal.reader(journal.lineage).path_of(segment), "rb") as source:
                source.seek(entry.offset)
                file.write(source.read(entry.length))
