"""Questions in other words than the memory's: ``python -m bench.recall_questions``.

``data/memory_questions.json`` holds the memory of four made-up projects and questions about it, each with what answers it. The memory
goes into a store through ``Project.remember``, one store for each project, and one for all of them together; the questions go through
``Project.recall``. The same people wrote these questions and the table of senses, so a second set stands beside: two other projects, written
when the table stood, measured once, tuned on never. Beside it stands plain FTS5 over the same texts (its defaults: unicode61, BM25), asked for any of the words.
"""

from __future__ import annotations

__all__ = ["Rates", "measure", "rates"]

import argparse
import json
import os
import re
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from bench.measure import Bench, Figure, Row, row
from periplus.base.clock import FixedClock
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.project import Project

_FOLDER: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
DATA: Final = os.path.join(_FOLDER, "memory_questions.json")
LATER: Final = os.path.join(_FOLDER, "memory_questions_later.json")  # written when the senses stood
WRITER: Final = Writer("bench", "who_0000000000000000")
DEPTHS: Final = (1, 5, 10)
_NOW_MS: Final = 1_772_323_200_000


class Rates(NamedTuple):
    """Of ``count`` questions, how many percent found an answer among the first 1, 5 and 10; ``missed`` at 5, with what was asked."""

    count: int
    at: tuple[float, ...]
    missed: tuple[str, ...]


def read_projects(path: str = DATA) -> list[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        projects: list[dict[str, Any]] = json.load(file)["projects"]
    return projects


def together(projects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All of it as the memory of one project."""
    return [{name: [one for project in projects for one in project[name]] for name in ("memories", "questions")}]


def rates(projects: list[dict[str, Any]]) -> dict[str, Rates]:
    """By name of the side: ``recall`` and ``fts5``."""
    ranks: dict[str, list[tuple[str, list[str], list[str]]]] = {"recall": [], "fts5": []}
    for project in projects:
        questions = [(one["question"], one["answers"]) for one in project["questions"]]
        for side, asked in (("recall", _recalled), ("fts5", _plain)):
            found = asked(project["memories"], [question for question, _ in questions])
            ranks[side] += [(question, keys, wanted) for (question, wanted), keys in zip(questions, found, strict=True)]
    return {side: _rates(found) for side, found in ranks.items()}


def _rates(found: list[tuple[str, list[str], list[str]]]) -> Rates:
    at = tuple(100 * sum(bool({*keys[:most]} & {*wanted}) for _, keys, wanted in found) / len(found) for most in DEPTHS)
    return Rates(len(found), at, tuple(question for question, keys, wanted in found if not {*keys[:5]} & {*wanted}))


def _recalled(memories: list[dict[str, Any]], questions: list[str]) -> list[list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        clock = FixedClock(_NOW_MS, step_ms=1_000)
        root = Project.init(folder, clock=clock).root
        embeddings = os.environ.get("PERIPLUS_EMBEDDINGS", "")
        with Project(root, WRITER, clock=clock, embeddings=embeddings) as project:
            names = {}
            for one in memories:
                extra = {name: one[name] for name in ("rationale", "remedy") if name in one}
                memory = Memory(one["type"], one["text"], about=tuple(one.get("about", ())), tags=tuple(one.get("tags", ())), extra=extra)  # fmt: skip
                names[project.remember(memory).entity.item_id] = one["key"]
            return [[names[hit.item_id] for hit in project.recall(question).hits] for question in questions]


def _plain(memories: list[dict[str, Any]], questions: list[str]) -> list[list[str]]:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE words USING fts5(body)")
    for at, one in enumerate(memories):
        texts = [
            one["text"],
            one.get("rationale", ""),
            one.get("remedy", ""),
            *one.get("about", ()),
            *one.get("tags", ()),
        ]
        db.execute("INSERT INTO words (rowid, body) VALUES (?, ?)", (at, "\n".join(texts)))
    found = []
    for question in questions:
        match = " OR ".join(f'"{word}"' for word in dict.fromkeys(re.findall(r"\w+", question.lower())))
        rows = db.execute("SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words), rowid LIMIT 10", (match,))
        found.append([memories[at]["key"] for (at,) in rows])
    db.close()
    return found


def measure(bench: Bench) -> Iterator[Row]:
    projects = read_projects()
    sides = (("each project by itself", projects), ("four projects in one store", together(projects)),
             ("two projects written later", read_projects(LATER)))  # fmt: skip
    for name, some in (("one project", projects[:1]),) if bench.is_quick else sides:
        found = rates(some)
        bench.say(f"{name}: {found['recall'].count} questions")
        for place, depth in enumerate(DEPTHS):
            ours, plain = found["recall"].at[place], found["fts5"].at[place]
            what = f"memory questions in other words, {name}, found in the first {depth}"
            yield row("recall-words", what, "%", Figure(ours, ours, ours), "plain FTS5", Figure(plain, plain, plain), better="higher")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.recall_questions", description="Questions in other words.")
    parser.add_argument("--missed", action="store_true", help="list the questions that found nothing in the first 5")
    arguments = parser.parse_args()
    projects = read_projects()
    for name, some in (("each project by itself", projects), ("all in one store", together(projects)), ("later", read_projects(LATER))):  # fmt: skip
        print(name)
        for side, found in rates(some).items():
            print(f"  {side:8}{found.count:5}  " + "  ".join(f"@{depth} {rate:5.1f}" for depth, rate in zip(DEPTHS, found.at, strict=True)))  # fmt: skip
            if arguments.missed and side == "recall":
                print("\n".join(f"    {question}" for question in found.missed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
