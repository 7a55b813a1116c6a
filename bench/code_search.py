"""How well code is found by meaning and by name, and at what cost, beside plain FTS5 in the same run.

Quality: CoSQA (Huang et al., ACL 2021), questions that people typed into a web search, each with the one of thousands of
Python functions that answers it; the measure is the mean reciprocal rank of the answer, cut at ``DEPTH``. Failures were read on
one half of the questions, drawn at random (``chosen on``). The other half (``apart``) was measured beside it while some
hundred settings were compared, so it is not untouched: expect somewhat less of new questions. The questions are
evaluation data and not part of this repository: without them this part says so.

Names: made from a fixed seed out of parts of words, as many as a repository of a million symbols has distinct ones.
"""

from __future__ import annotations

__all__ = ["DATA", "measure"]

import ast
import json
import os
import random
import re
import sqlite3
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from bench.measure import Bench, Figure, Row, in_turn, pooled, row
from bench.samples import REPOSITORY
from periplus.base.errors import UsageError
from periplus.base.text.search_terms import query_terms, terms
from periplus.code.search import name_index, symbol_index
from periplus.code.search.documents import SymbolText, document_of
from periplus.code.search.name_match import folded
from periplus.code.search.ranking import Hit, reranked
from periplus.memory.text.word_vectors import open_meaning

DATA: Final = os.path.join(os.path.dirname(REPOSITORY), "shared", "code")
DEPTH: Final = 100
_SEED: Final = 7
_MODEL: Final = "wordllama"  # the package whose model `PERIPLUS_EMBEDDINGS` may name
_COMPARED: Final = 200
_WORD: Final = re.compile(r"\w+")
_NAMED: Final = re.compile(r"def\s+(\w+)")
_SYLLABLES: Final = "ba con de er fi gra hel in jo ka lo mer ne or pa qui re sta tu ver wo ex yi zo".split()

Question = tuple[str, int]


def measure(bench: Bench) -> Iterator[Row]:
    yield from _names(bench)
    if not os.path.isfile(os.path.join(DATA, "functions.jsonl")):
        bench.say(f"left out: there are no questions in {DATA}")
        return
    if bench.is_quick:
        bench.say("left out: how well questions are answered does not depend on the size, and takes half a minute")
        return
    yield from _meaning(bench)


# ---- by meaning


def _meaning(bench: Bench) -> Iterator[Row]:
    bench.say("documents of the functions")
    sources = [one["code"] for one in _lines("functions.jsonl")]
    questions: list[Question] = [(one["question"], one["answer"]) for one in _lines("questions.jsonl")]
    documents = [document_of(_symbol(source)) for source in sources]
    ours = _database(symbol_index.SCHEMA)
    symbol_index.add_documents(ours, enumerate(documents))
    ours.commit()
    plain = _database(("CREATE VIRTUAL TABLE t USING fts5(code)",))
    plain.executemany("INSERT INTO t(rowid, code) VALUES (?, ?)", enumerate(sources))
    plain.commit()
    like = _likeness(bench, sources)
    sides: dict[str, Callable[[str], Sequence[int]]] = {
        "ours": lambda asked: [hit.row for hit in symbol_index.search(ours, asked, DEPTH)],
        "plain": lambda asked: _plain(plain, asked),
    }
    if like is not None:
        sides["vectors"] = lambda asked: like(asked, symbol_index.search(ours, asked, _COMPARED))
    bench.say(f"{len(questions)} questions")
    measured = in_turn(1, {name: lambda find=find: _asked(find, questions) for name, find in sides.items()})
    ranks = {name: rounds[0][0] for name, rounds in measured.items()}
    times = {name: [rounds[0][1]] for name, rounds in measured.items()}
    order = list(range(len(questions)))
    random.Random(_SEED).shuffle(order)
    half = len(order) // 2
    for what, some in (("all", order), ("chosen on", order[:half]), ("apart", order[half:])):
        mine, theirs = (_mean_reciprocal([ranks[name][at] for at in some]) for name in ("ours", "plain"))
        yield row("code-search", f"questions to functions, {len(some)} {what}, MRR", "%", Figure(mine, mine, mine), "plain FTS5",
                  Figure(theirs, theirs, theirs), better="higher")  # fmt: skip
    if like is not None:
        mine, theirs = (_mean_reciprocal(ranks[name]) for name in ("vectors", "plain"))
        yield row("code-search", f"the same with word vectors, {len(order)} all, MRR", "%", Figure(mine, mine, mine), "plain FTS5",
                  Figure(theirs, theirs, theirs), better="higher")  # fmt: skip
    for share, label in ((0.5, "p50"), (0.95, "p95")):
        yield row("code-search", f"a question, {len(sources):,} functions, {label}", "ms", pooled(times["ours"], share).scaled(1e3),
                  "plain FTS5", pooled(times["plain"], share).scaled(1e3))  # fmt: skip
    size, source_size = float(_size(ours)), float(sum(len(source.encode()) for source in sources))
    yield row("code-search", "index of meaning, bytes", "", Figure(size, size, size), "source",
              Figure(source_size, source_size, source_size))  # fmt: skip


def _symbol(source: str) -> SymbolText:
    """Return the function as the code map would give it; one in the syntax of Python 2 without its documentation."""
    try:
        node = ast.parse(textwrap.dedent(source)).body[0]
    except SyntaxError:
        found = _NAMED.search(source)
        return SymbolText(found[1] if found else "", kind="function", source=source)
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return SymbolText("", source=source)
    signature = f"({ast.unparse(node.args)}) -> {ast.unparse(node.returns) if node.returns else ''}"
    doc = ast.get_docstring(node, clean=False) or ""
    return SymbolText(node.name, node.name, "function", "", signature, doc, source)


def _likeness(bench: Bench, sources: Sequence[str]) -> Callable[[str, Sequence[Hit]], list[int]] | None:
    """Return what ranks hits again by word vectors of their names and summaries; None without a model."""
    try:
        meaning = open_meaning(_MODEL)
    except UsageError as error:
        bench.say(f"without word vectors: {error}")
        return None
    symbols = [_symbol(source) for source in sources]
    texts = [" ".join([*terms(one.name), *one.doc.strip().split("\n")[:1]]) for one in symbols]

    def ranked(asked: str, hits: Sequence[Hit]) -> list[int]:
        first, *others = meaning.vectors_of([" ".join(query_terms(asked)), *(texts[hit.row] for hit in hits)])
        likeness = {hit.row: float(other @ first) for hit, other in zip(hits, others, strict=True)}
        return [hit.row for hit in reranked(hits, likeness)][:DEPTH]

    return ranked


def _plain(db: sqlite3.Connection, asked: str) -> list[int]:
    match = " OR ".join(f'"{word}"' for word in _WORD.findall(asked))
    found = db.execute("SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank LIMIT ?", (match, DEPTH)).fetchall()
    return [number for (number,) in found]


def _asked(find: Callable[[str], Sequence[int]], questions: Sequence[Question]) -> tuple[list[int], list[float]]:
    """Return the rank of each answer, 0 where it is not found, and the seconds that each question took."""
    ranks, times = list[int](), list[float]()
    for question, answer in questions:
        begun = time.perf_counter()
        found = find(question)
        times.append(time.perf_counter() - begun)
        ranks.append(found.index(answer) + 1 if answer in found else 0)
    return ranks, times


def _mean_reciprocal(ranks: Sequence[int]) -> float:
    return 100 * sum(1 / rank for rank in ranks if 0 < rank <= DEPTH) / len(ranks)


# ---- by name


def _names(bench: Bench) -> Iterator[Row]:
    count = 1_000_000 if bench.is_full else bench.size(200_000, 2_000)
    names = _made_names(count)
    bench.say(f"{count:,} names")
    db = _database((*name_index.NAMES, *name_index.SCHEMA))
    db.executemany(
        "INSERT OR IGNORE INTO name (text, folded, is_defined) VALUES (?, ?, 1)",
        ((name, folded(name)) for name in names),
    )
    name_index.read_names(db)
    db.commit()
    chosen = random.Random(_SEED).sample(names, min(200, count))
    asked = {
        "same": chosen,
        "beginning": [name[: max(3, 2 * len(name) // 3)] for name in chosen],
        "parts": ["_".join(name.split("_")[1:]) for name in chosen if name.count("_") > 1],
        "misspelled": [f"{name[:2]}{name[3]}{name[2]}{name[4:]}" for name in chosen if len(name) > 4],
    }
    for what, queries in asked.items():
        sides: dict[str, Callable[[], list[float]]] = {
            "ours": lambda queries=queries: _times(queries, lambda query: name_index.find_names(db, query, 20)),
            "select": lambda: _times(chosen, lambda name: db.execute(_SELECT, (name,)).fetchall()),
        }
        measured = in_turn(3, sides)
        yield row("code-search", f"a name, {what}, {count:,} names, p50", "ms", pooled(measured["ours"], 0.5).scaled(1e3), "bare SELECT",
                  pooled(measured["select"], 0.5).scaled(1e3))  # fmt: skip


_SELECT: Final = "SELECT id FROM name WHERE folded = ? AND is_defined"


def _times(queries: Sequence[str], find: Callable[[str], object]) -> list[float]:
    found: list[float] = []
    for query in queries:
        begun = time.perf_counter()
        find(query)
        found.append(time.perf_counter() - begun)
    return found


def _made_names(count: int) -> list[str]:
    made = random.Random(_SEED)
    words = ["".join(made.choices(_SYLLABLES, k=made.choice((1, 2, 2, 3)))) for _ in range(6_000)]
    names: dict[str, None] = {}
    while len(names) < count:
        parts = [
            words[min(int(made.expovariate(1 / 600)), len(words) - 1)] for _ in range(made.choice((1, 2, 2, 3, 3, 4)))
        ]
        names["_".join(parts)] = None
    return list(names)


# ---- both


def _lines(name: str) -> Iterator[dict[str, object]]:
    with open(os.path.join(DATA, name), encoding="utf-8") as file:
        yield from map(json.loads, file)


def _database(schema: Sequence[str]) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:")
    for statement in schema:
        db.execute(statement)
    return db


def _size(db: sqlite3.Connection) -> int:
    db.execute("INSERT INTO symbol_words(symbol_words) VALUES ('optimize')")
    db.commit()
    db.execute("VACUUM")
    pages, size = (db.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "page_size"))
    return int(pages) * int(size)
