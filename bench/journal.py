"""Durable appends by one writer, beside the bare system calls and beside SQLite with the same rows.

The bare loop writes and syncs the very bytes that the journal wrote in the round before; SQLite inserts the fields of
those records, one durable commit each.
"""

from __future__ import annotations

__all__ = ["measure"]

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from bench.measure import Bench, Row, figure, in_turn, pooled, row
from bench.samples import Texts
from periplus.base.canonical import JSONValue
from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.base.ids import new_id
from periplus.journal import ABSENT, Transaction, Writer, create_store
from periplus.project import Project

WRITER: Final = Writer("bench", "who_0000000000000000", "bench", os.getpid())
_COLUMNS: Final = (
    "seq ts writer writer_id pid action session item_type item_id parents key salt summary payload durable".split()
)


def measure(bench: Bench) -> Iterator[Row]:
    count, rounds = bench.size(200, 10), bench.size(8, 2)
    sides = _Sides(bench.folder, count)
    try:
        in_turn(1, {"alone": sides.alone, **sides.table})  # the first bytes for the bare loop, and warm files
        bench.say(f"{rounds} rounds of {count} appends")
        found = in_turn(rounds, sides.table)
    finally:
        sides.close()
    for ours, label in (("alone", "append, journal alone"), ("whole", "append, with entity file and index")):
        for other, name in (("bare", "write + fdatasync"), ("sqlite", "SQLite, WAL, FULL")):
            rates = {side: figure([len(values) / sum(values) for values in found[side]]) for side in (ours, other)}
            yield row("journal", label, "/s", rates[ours], name, rates[other], better="higher")
            for share, words in ((0.5, "p50"), (0.95, "p95"), (1.0, "max")):
                mine, theirs = (pooled(found[side], share).scaled(1e3) for side in (ours, other))
                yield row("journal", f"{label}, {words}", "ms", mine, name, theirs)


class _Sides:
    """The four ways to write. Each gives the seconds of every single append of a round."""

    def __init__(self, folder: str, count: int) -> None:
        self._count = count
        self._texts = Texts(1)
        self._alone = _open(os.path.join(folder, "alone"))
        self._whole = _open(os.path.join(folder, "whole"))
        self._files = Files()
        self._fd = os.open(os.path.join(folder, "bare"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        self._db = sqlite3.connect(os.path.join(folder, "rows.sqlite"), isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute(f"CREATE TABLE records (id INTEGER PRIMARY KEY, {', '.join(_COLUMNS)})")
        self.table: dict[str, Callable[[], list[float]]] = {
            "alone": self.alone,
            "bare": self._bare,
            "sqlite": self._sqlite,
            "whole": lambda: self._mutate(self._whole, project=True),
        }

    def close(self) -> None:
        self._alone.close()
        self._whole.close()
        os.close(self._fd)
        self._db.close()

    def alone(self) -> list[float]:
        return self._mutate(self._alone, project=False)

    def _mutate(self, project_of: Project, *, project: bool) -> list[float]:
        os.sync()  # nobody pays for what another side left unsynced
        spent = []
        for item_id, payload in [_decision(self._texts) for _ in range(self._count)]:

            def write(
                transaction: Transaction, item_id: str = item_id, payload: dict[str, JSONValue] = payload
            ) -> None:
                transaction.put("decision", item_id, payload, expect=ABSENT, summary=f"decision: {payload['text']}")

            begun = time.perf_counter()
            project_of.journal.mutate(write, WRITER, project=project)
            spent.append(time.perf_counter() - begun)
        return spent

    def _lines(self) -> list[bytes]:
        """The lines that the journal alone wrote last."""
        journal = self._alone.journal
        with open(journal.reader(journal.lineage).path_of(journal.end().segment), "rb") as file:
            return file.read().splitlines(keepends=True)[-self._count :]

    def _bare(self) -> list[float]:
        lines, fd, sync = self._lines(), self._fd, self._files.sync_data
        os.sync()
        spent = []
        for line in lines:
            begun = time.perf_counter()
            os.write(fd, line)
            sync(fd)
            spent.append(time.perf_counter() - begun)
        return spent

    def _sqlite(self) -> list[float]:
        rows = [_values(line) for line in self._lines()]
        statement = f"INSERT INTO records ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
        os.sync()
        spent = []
        for values in rows:
            begun = time.perf_counter()
            self._db.execute(statement, values)
            spent.append(time.perf_counter() - begun)
        return spent


def _open(folder: str) -> Project:
    os.mkdir(folder)
    return Project(create_store(os.path.join(folder, ".periplus"), Files(), SystemClock()).root, WRITER)


def _decision(texts: Texts) -> tuple[str, dict[str, JSONValue]]:
    return new_id("dec"), {
        "v": 1,
        "text": texts.sentence(15, 40),
        "state": "accepted",
        "author": "bench",
        "tags": list[JSONValue](texts.several(2)),
        "about": [{"kind": "path", "ref": texts.path()}],
        "rationale": texts.sentence(5, 20),
        "provenance": {"kind": "agent", "name": "bench"},
    }


def _values(line: bytes) -> list[Any]:
    import orjson

    record = orjson.loads(line)
    values = [record.get(column) for column in _COLUMNS]
    return [orjson.dumps(value) if isinstance(value, dict | list) else value for value in values]
