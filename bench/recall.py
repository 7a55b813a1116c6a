"""Recall over many documents, beside bare FTS5 over the same texts that is asked for the same words."""

from __future__ import annotations

__all__ = ["measure", "memory_store"]

import os
import random
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from bench.appends import WRITER
from bench.measure import Bench, Figure, Row, figure, in_turn, pooled, row, timed
from bench.processes import checked_run, periplus_command, spend
from bench.samples import Texts
from periplus.base.clock import SystemClock
from periplus.base.encoding.canonical import JSONValue
from periplus.base.files import Files
from periplus.base.ids import new_id
from periplus.base.text.search_terms import query_terms
from periplus.journal import Transaction, create_store
from periplus.project import Project

_BATCH: Final = 500
_ENOUGH: Final = 10
_KINDS: Final = (
    ("note", "not", 5),
    ("decision", "dec", 2),
    ("lesson", "les", 1),
    ("constraint", "con", 1),
    ("trap", "trp", 1),
)
_TABLE: Final = "CREATE VIRTUAL TABLE words USING fts5(body, tokenize='porter unicode61 remove_diacritics 2')"
_QUERY: Final = "SELECT rowid, bm25(words) AS b FROM words WHERE words MATCH ? ORDER BY b LIMIT 10"
_PROCESS: Final = f"""
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
for match in sys.argv[2:]:
    found = db.execute({_QUERY!r}, (match,)).fetchall()
    if len(found) >= {_ENOUGH}:
        break
print(found)
"""


def measure(bench: Bench) -> Iterator[Row]:
    count = bench.size(10_000, 200)
    texts = Texts(3)
    bodies = [texts.memory() for _ in range(count)]
    questions = [texts.question(body) for body in random.Random(4).sample(bodies, bench.size(120, 10))]
    root = memory_store(os.path.join(bench.folder, "recall", ".periplus"), bodies, bench.say)
    built = in_turn(
        bench.size(2, 1),
        {"ours": lambda: count / _rebuild(root), "bare": lambda: count / _bare_build(bench.folder, bodies)},
    )
    yield row("recall", f"index of {count:,} memories from nothing", "docs/s", figure(built["ours"]),
              "bare FTS5, one transaction", figure(built["bare"]), better="higher")  # fmt: skip
    yield from _in_process(bench, root, questions)
    yield from _as_processes(bench, root, questions)


def memory_store(folder: str, bodies: list[str], say: Callable[[str], None]) -> str:
    """A store in ``folder`` with each body as a memory of some type."""
    root = create_store(folder, Files(), SystemClock()).root
    kinds = [kind for *kind, share in _KINDS for _ in range(share)]
    with Project(root, WRITER) as project:
        for start in range(0, len(bodies), _BATCH):

            def write(transaction: Transaction, start: int = start) -> None:
                for number, body in enumerate(bodies[start : start + _BATCH], start):
                    name, prefix = kinds[number % len(kinds)]
                    payload: dict[str, JSONValue] = {"v": 1, "text": body, "author": "bench"}
                    transaction.put(name, new_id(prefix), payload, summary=f"{name}: {body}")

            project.journal.mutate(write, WRITER, project=False)
            say(f"{min(start + _BATCH, len(bodies)):,} of {len(bodies):,} memories written")
        project.journal.project()
    return root


def _rebuild(root: str) -> float:
    """Seconds from opening a store without an index to an index that is complete."""
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(f"{root}/index.sqlite{suffix}"):
            os.unlink(f"{root}/index.sqlite{suffix}")

    def build() -> None:
        with Project(root, WRITER) as project:
            if not project.journal.project():
                raise RuntimeError("the index could not be built")

    return timed(build)


def _bare_path(folder: str) -> str:
    return os.path.join(folder, "words.sqlite")


def _bare_build(folder: str, bodies: list[str]) -> float:
    if os.path.exists(_bare_path(folder)):
        os.unlink(_bare_path(folder))

    def build() -> None:
        db = sqlite3.connect(_bare_path(folder), isolation_level=None)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute(_TABLE)
        db.execute("BEGIN")
        db.executemany("INSERT INTO words (body) VALUES (?)", ((body,) for body in bodies))
        db.execute("COMMIT")
        db.close()

    return timed(build)


def _matches(question: str) -> list[str]:
    """The question for FTS5: all of its words, and for when they find too little, any of them."""
    words = [f'"{word}"' for word in query_terms(question)]
    return [" AND ".join(words), " OR ".join(words)]


def _in_process(bench: Bench, root: str, questions: list[str]) -> Iterator[Row]:
    db = sqlite3.connect(_bare_path(bench.folder))
    with Project(root, WRITER) as project:

        def ours(question: str) -> None:
            if not project.recall(question).hits:
                raise RuntimeError(f"nothing answers {question!r}")

        def bare(question: str) -> None:
            for match in _matches(question):
                if len(db.execute(_QUERY, (match,)).fetchall()) >= _ENOUGH:
                    return

        spent: dict[str, list[list[float]]] = {"ours": [], "bare": []}
        for turn in range(bench.size(4, 2)):  # the first turn warms caches and does not count
            bench.say(f"turn {turn} of {len(questions)} questions")
            found: dict[str, list[float]] = {"ours": [], "bare": []}
            for question in questions:
                for name, ask in (("ours", ours), ("bare", bare)):
                    begun = time.perf_counter()
                    ask(question)
                    found[name].append(time.perf_counter() - begun)
            if turn:
                for name, values in found.items():
                    spent[name].append(values)
    db.close()
    for share, words in ((0.5, "p50"), (0.95, "p95")):
        mine, theirs = (pooled(spent[name], share).scaled(1e3) for name in ("ours", "bare"))
        yield row("recall", f"Project.recall, warm, {words}", "ms", mine, "bare FTS5, the same words", theirs)


def _as_processes(bench: Bench, root: str, questions: list[str]) -> Iterator[Row]:
    asked = questions[: bench.size(21, 3)]
    periplus = periplus_command()
    checked_run([*periplus, "recall", asked[0], "--store", root])
    spent: dict[str, list[float]] = {"ours": [], "bare": []}
    bench.say(f"{len(asked)} questions, each as a process")
    for question in asked:
        bare = [sys.executable, "-c", _PROCESS, _bare_path(bench.folder), *_matches(question)]
        ours = [*periplus, "recall", question, "--store", root]
        one = in_turn(1, {"ours": partial(spend, ours), "bare": partial(spend, bare)}, collect=False)
        for name, values in one.items():
            spent[name].append(values[0].wall_s * 1e3)
    for share, words in ((0.5, "p50"), (0.95, "p95")):
        mine, theirs = (_spread(spent[name], share) for name in ("ours", "bare"))
        yield row("recall", f"periplus recall, as a process, {words}", "ms", mine, "python with bare FTS5", theirs)


def _spread(values: list[float], share: float) -> Figure:
    return pooled([values], share)._replace(low=min(values), high=max(values))
