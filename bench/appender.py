"""One process that appends: made ready, started by a line on its standard input, it says what each append took."""

from __future__ import annotations

__all__: list[str] = []

import fcntl
import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.files import Files
from periplus.base.ids import new_id

_WARM: Final = 3  # appends before it is ready: what is loaded once, and the first look at all that is there
_COLUMNS: Final = (
    "seq ts writer writer_id pid action session item_type item_id parents key salt summary payload durable".split()
)


def _bare(place: str, lines: list[bytes]) -> Iterator[Callable[[], object]]:
    fd, sync = os.open(place, os.O_CREAT | os.O_WRONLY | os.O_APPEND), Files().sync_data

    def append(line: bytes) -> None:
        os.write(fd, line)
        sync(fd)

    for line in lines:
        yield lambda line=line: append(line)


def _room(place: str, lines: list[bytes]) -> Iterator[Callable[[], object]]:
    """As ``_bare``, into room that was written and synced before: no size of a file changes, as in SQLite's log once it has gone round."""
    fd, sync = os.open(place, os.O_CREAT | os.O_WRONLY), Files().sync_data
    os.write(fd, bytes(sum(map(len, lines))))
    os.fsync(fd)

    def append(line: bytes, offset: int) -> None:
        os.pwrite(fd, line, offset)
        sync(fd)

    offset = 0
    for line in lines:
        yield lambda line=line, offset=offset: append(line, offset)
        offset += len(line)


def _database(place: str) -> sqlite3.Connection:
    """Open the database one process after the other: who changes its journal mode at once with another does not wait, but fails."""
    with open(f"{place}.turn", "wb") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        db = sqlite3.connect(place, timeout=60, isolation_level=None)
        db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    return db


def _sqlite(place: str, lines: list[bytes]) -> Iterator[Callable[[], object]]:
    db = _database(place)
    db.execute(f"CREATE TABLE IF NOT EXISTS records (id INTEGER PRIMARY KEY, {', '.join(_COLUMNS)})")
    statement = f"INSERT INTO records ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
    for values in [_values(line) for line in lines]:
        yield lambda values=values: db.execute(statement, values)


def _values(line: bytes) -> list[Any]:
    import orjson

    record = orjson.loads(line)
    values = [record.get(column) for column in _COLUMNS]
    return [orjson.dumps(value) if isinstance(value, dict | list) else value for value in values]


def _journal(place: str, count: int, seed: int, *, project: bool) -> Iterator[Callable[[], object]]:
    from bench.samples import Texts
    from periplus.journal import ABSENT, EntityType, Journal, Transaction, Writer

    texts = Texts(seed)
    writer = Writer("bench", "who_0000000000000000", "bench", os.getpid())
    if project:
        from periplus.project import Project

        journal = Project(place, writer).journal
    else:  # what a payload must be like is said by the layers above
        journal = Journal(place, {"decision": EntityType("decision", "dec", is_projected=True, check=lambda _: None)})
    journal.project(patience_s=60)  # what an earlier round left to be indexed is no part of this one

    def append(item_id: str, payload: dict[str, JSONValue]) -> None:
        def write(transaction: Transaction) -> None:
            transaction.put("decision", item_id, payload, expect=ABSENT, summary=f"decision: {payload['text']}")

        journal.mutate(write, writer, project=project)

    decisions: list[tuple[str, dict[str, JSONValue]]] = [
        (
            new_id("dec"),
            {
                "v": 1,
                "text": texts.sentence(15, 40),
                "state": "accepted",
                "author": "bench",
                "tags": list[JSONValue](texts.several(2)),
                "about": [{"kind": "path", "ref": texts.path()}],
                "rationale": texts.sentence(5, 20),
                "provenance": {"kind": "agent", "name": "bench"},
            },
        )
        for _ in range(count)
    ]
    for item_id, payload in decisions:
        yield lambda item_id=item_id, payload=payload: append(item_id, payload)


def _remember(place: str, count: int, seed: int) -> Iterator[Callable[[], object]]:
    """One memory after the other through an open project, as a program that uses the library calls it."""
    from periplus.journal import Writer
    from periplus.memory.writing.remember import Memory
    from periplus.project import Project

    project = Project(place, Writer("bench", "who_0000000000000000", "bench", os.getpid()))
    for text, tags, path, rationale in _memories(count, seed):
        memory = Memory("decision", text, tags, (path,), extra={"rationale": rationale}, provenance=("agent", "bench"))
        yield lambda memory=memory: project.remember(memory)
    yield lambda: project.journal.project(patience_s=60)  # what is left to be indexed


def _sqlite_remember(place: str, count: int, seed: int) -> Iterator[Callable[[], object]]:
    """The same in SQLite: a row and its full text in one durable transaction, then the file, renamed into place."""
    db = _database(place)
    db.execute("CREATE TABLE IF NOT EXISTS memories (id TEXT PRIMARY KEY, type, state, author, created, text, payload)")
    db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(body, path, context, tokenize='porter unicode61')")
    folder = f"{place} files"
    os.makedirs(folder, exist_ok=True)

    def remember(text: str, tags: tuple[str, ...], path: str, rationale: str) -> None:
        import orjson

        item_id, now = new_id("dec"), format_ms(time.time_ns() // 1_000_000)
        payload = {
            "v": 1, "text": text, "author": "bench", "created": now, "updated": now, "confidence": 100,
            "provenance": {"kind": "agent", "name": "bench"}, "state": "accepted", "session": "bench",
            "tags": tags, "about": [{"kind": "path", "ref": path}], "rationale": rationale,
        }  # fmt: skip
        row = (item_id, "decision", "accepted", "bench", now, text, orjson.dumps(payload))
        db.execute("BEGIN IMMEDIATE")
        inserted = db.execute("INSERT INTO memories VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        words = (inserted.lastrowid, text, path, f"{rationale} {' '.join(tags)}")
        db.execute("INSERT INTO words (rowid, body, path, context) VALUES (?, ?, ?, ?)", words)
        db.execute("COMMIT")
        document = {"id": item_id, "type": "decision", "entity": payload}
        data = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
        temporary = os.path.join(folder, f".{item_id}.tmp")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(fd, data)
        os.close(fd)
        os.replace(temporary, os.path.join(folder, f"{item_id}.json"))

    for memory in _memories(count, seed):
        yield lambda memory=memory: remember(*memory)


def _memories(count: int, seed: int) -> list[tuple[str, tuple[str, ...], str, str]]:
    """Text, tags, path and rationale of ``count`` memories, other ones in each process."""
    from bench.samples import Texts

    texts = Texts(seed ^ os.getpid() << 8)
    return [
        (texts.sentence(15, 40), tuple(texts.several(2)), texts.path(), texts.sentence(5, 20)) for _ in range(count)
    ]


def main(kind: str, place: str, lines_path: str, count_text: str, number_text: str) -> None:
    count, number = int(count_text), int(number_text)
    lines: list[bytes] = []
    if kind in ("bare", "room", "sqlite"):
        with open(lines_path, "rb") as file:
            kept = file.read().splitlines(keepends=True)
        lines = [kept[(number * count + at) % len(kept)] for at in range(_WARM + count)]
    if kind == "bare":
        work = list(_bare(place, lines))
    elif kind == "room":
        work = list(_room(place, lines))
    elif kind == "sqlite":
        work = list(_sqlite(place, lines))
    elif kind == "remember":
        work = list(_remember(place, _WARM + count, number + 1))
    elif kind == "sqlite remember":
        work = list(_sqlite_remember(place, _WARM + count, number + 1))
    else:
        work = list(_journal(place, _WARM + count, number + 1, project=kind == "whole"))
    end = work.pop() if kind == "remember" else None
    for append in work[:_WARM]:
        append()
    if end is not None:
        end()
    print("ready", flush=True)
    sys.stdin.readline()
    clock = time.perf_counter  # CLOCK_MONOTONIC: the same for all processes
    waits_s = []
    cpu_s = time.process_time()
    begun_s = now_s = clock()
    for append in work[_WARM:]:
        append()
        then_s, now_s = now_s, clock()
        waits_s.append(now_s - then_s)
    if end is not None:
        end()
        now_s = clock()
    cpu_s = time.process_time() - cpu_s
    print(json.dumps({"begun_s": begun_s, "ended_s": now_s, "cpu_s": cpu_s, "waits_s": waits_s}))


if __name__ == "__main__":
    main(*sys.argv[1:])
