"""How well recall finds what is asked for, on real work records: ``python -m bench.recall_quality DIR``.

``DIR`` holds ``records.jsonl`` and ``trees.json`` (see its README for where they come from). Two tasks, no model:

* A: the subject of a commit → the session that made it. Every text that holds a subject is taken out before.
* B: the prompts of a task, without the paths in them → the files that its commit changes, from earlier work alone.

The sessions go into a scratch store as trails, the commits (B) as trails of git history, and the questions through
``recall`` and ``related``: what is measured is what a person gets. For B the files of the working tree before the commit are known by
name, as they are to who works in it; without them R@10 is lower by about one. Beside it stands plain FTS5 (its defaults, any of the
question's words): for A over the same texts, one document for each session; for B over prompts, answers and subjects of earlier work,
with the files of the best of it in their order.
"""

from __future__ import annotations

__all__ = [
    "Figures",
    "Store",
    "figures_of",
    "measure_files",
    "measure_plain_sessions",
    "measure_sessions",
    "plain_search",
    "table_row",
]

import argparse
import hashlib
import json
import os
import re
import sqlite3
import sys
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from periplus.base.clock import FixedClock, format_ms, parse_ms
from periplus.base.files import Files
from periplus.base.ids import derived_id
from periplus.base.text.search_terms import query_terms
from periplus.journal import Transaction, Writer, create_store
from periplus.memory import Filters
from periplus.memory.retrieval.related import related
from periplus.project import Project
from periplus.trail import Digest, Header, TrailBuilder, TrailReader

WRITER: Final = Writer("bench", "who_0000000000000000")
NOW_MS: Final = 1_772_323_200_000  # 2026-03-01, after the last record
HITS_MAX: Final = 200
BASELINE_A: Final = (55.8, 75.8, 84.9, 67.0)
BASELINE_B: Final = (27.1, 34.9, 48.3, 37.8)
PATHS_B: Final = 20.2  # R@10 of the path names alone
_SUBJECT_CHARACTERS_MIN: Final = 12
_TERMS_MIN: Final = 3
_PRIOR_MIN: Final = 20
_CHANGED_MAX: Final = 25
_ASKED_CHARACTERS: Final = 2000
_EXPLICIT_PATH: Final = re.compile(
    r"@?[\w\-./]*[\w\-]+\.(?:go|md|json|sh|ya?ml|toml|txt|py|ts)\b|@?(?:[\w\-]+/){1,}[\w\-.]+"
)
_NO_DIGEST: Final = Digest("sha256", bytes(32))

Record = dict[str, Any]


class Figures(NamedTuple):
    """Percentages over ``count`` questions: recall at three depths, and the mean reciprocal rank."""

    count: int
    at: tuple[float, float, float]
    mrr: float


def read_records(folder: str) -> list[Record]:
    with open(os.path.join(folder, "records.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


# ---- the store


class Store:
    """A scratch store that takes in sessions and commits as trails."""

    def __init__(self, folder: str) -> None:
        clock = FixedClock(NOW_MS)
        self.project = Project(
            create_store(os.path.join(folder, ".periplus"), Files(), clock).root, WRITER, clock=clock
        )

    def close(self) -> None:
        self.project.close()

    def put(self, trails: Iterable[tuple[str, dict[str, Any]]]) -> None:
        def write(transaction: Transaction) -> None:
            for item_id, card in trails:
                transaction.put("trail", item_id, card, action="import", summary=f"trail: {card['title']}")

        self.project.journal.mutate(write, WRITER)

    def delete(self, item_ids: list[str]) -> None:
        def write(transaction: Transaction) -> None:
            for item_id in item_ids:
                transaction.delete("trail", item_id)

        if item_ids:
            self.project.journal.mutate(write, WRITER)

    def session(self, name: str, records: list[Record], subjects: frozenset[str]) -> tuple[str, dict[str, Any]]:
        """The trail of a session's records, without the texts that hold a subject."""
        builder = TrailBuilder(hashlib.sha256(name.encode()).digest(), self.project.journal.objects.put)
        title = ""
        seen: set[str] = set()
        for record in records:
            at_ms = parse_ms(record["created_at"])
            for kind, text in _in_turn(record):
                if not text.strip() or _gives_away(text, subjects):
                    continue
                if kind in ("PROMPT", "SAY"):
                    if text in seen:
                        continue
                    seen.add(text)
                    title = title or " ".join(text.split())[:120] * (kind == "PROMPT")
                _add(builder, kind, text, at_ms)
        return self.card(name, "claude-code", title, builder, _times(records))

    def commit(self, record: Record) -> tuple[str, dict[str, Any]]:
        """The trail of one commit."""
        builder = TrailBuilder(hashlib.sha256(record["commit"].encode()).digest(), self.project.journal.objects.put)
        at_ms = parse_ms(record["commit_date"])
        for status, path in record["changed"]:
            if status == "D":
                builder.add("FILE_DELETE", path, at_ms=at_ms)
            else:
                builder.add("FILE_WRITE", path, _NO_DIGEST, at_ms=at_ms)
        builder.add("GIT_COMMIT", "cli", record["subject"], at_ms=at_ms)
        return self.card(record["commit"], "git", record["subject"], builder, _times([record]))

    def card(
        self, name: str, source_format: str, title: str, builder: TrailBuilder, times: list[int]
    ) -> tuple[str, dict[str, Any]]:
        """Id and card of the trail that ``builder`` holds; its steps are of ``times``, in milliseconds."""
        trail = builder.finish(Header("claude-code", name))
        reader = TrailReader(trail)
        card = {
            "v": 1,
            "digest": reader.digest.hex(),
            "object": self.project.journal.objects.put(trail).hex(),
            "bytes": len(trail),
            "format": source_format,
            "agent": "claude-code",
            "session_id": name,
            "source_sha256": hashlib.sha256(name.encode()).hexdigest(),
            "title": title,
            "started": format_ms(min(times)),
            "ended": format_ms(max(times)),
        }
        return derived_id("trl", source_format, name, ""), card


def _times(records: list[Record]) -> list[int]:
    return [parse_ms(record["created_at"]) or 0 for record in records]


def _in_turn(record: Record) -> Iterator[tuple[str, str]]:
    """Prompts, answers and calls, spread over each other: the records keep the order within a kind only."""
    placed: list[tuple[float, int, str, str]] = []
    calls = [(name, argument) for name, argument in record["tools"] if "git commit" not in argument]
    for order, items in enumerate(
        (
            [("PROMPT", text) for text in record["prompts"]],
            [("SAY", text) for text in record["assistant"]],
            calls,
        )
    ):
        placed += [(index / max(1, len(items)), order, kind, text) for index, (kind, text) in enumerate(items)]
    for _, _, kind, text in sorted(placed, key=lambda item: item[:2]):
        yield kind, text


def _add(builder: TrailBuilder, kind: str, text: str, at_ms: int | None) -> None:
    if kind == "Read":
        builder.add("FILE_READ", text, at_ms=at_ms)
    elif kind == "Write":
        builder.add("FILE_WRITE", text, _NO_DIGEST, at_ms=at_ms)
    elif kind == "Edit":
        builder.add("FILE_EDIT", text, "", "", at_ms=at_ms)
    elif kind == "Bash":
        builder.add("COMMAND_RUN", text, at_ms=at_ms)
    elif kind == "Task":
        builder.add("AGENT_SPAWN", "agent", text, at_ms=at_ms)
    elif kind == "Glob":
        builder.add("FILE_LIST", text, at_ms=at_ms)
    elif kind in ("PROMPT", "SAY"):
        builder.add(kind, text, at_ms=at_ms)
    else:
        builder.add("TOOL_CALL", "", kind, json.dumps({"argument": text}), at_ms=at_ms)


def _gives_away(text: str, subjects: frozenset[str]) -> bool:
    lower = text.lower()
    return any(subject in lower for subject in subjects)


# ---- task A


def _task_of_sessions(
    records: list[Record],
) -> tuple[dict[str, list[Record]], frozenset[str], list[tuple[str, set[str]]]]:
    """The records of each session, the subjects that would give it away, and what is asked with what answers it."""
    subjects = frozenset(
        record["subject"].lower() for record in records if len(record["subject"]) >= _SUBJECT_CHARACTERS_MIN
    )
    sessions: dict[str, list[Record]] = {}
    for record in records:
        sessions.setdefault(record["session"], []).append(record)
    asked: dict[str, tuple[str, set[str]]] = {}
    for record in records:
        subject = record["subject"]
        if not subject.startswith("Merge") and len(query_terms(subject)) >= _TERMS_MIN:
            asked.setdefault(record["commit"], (subject, set()))[1].add(record["session"])
    return sessions, subjects, list(asked.values())


def measure_sessions(folder: str, *, kinds: tuple[str, ...] = ()) -> Figures:
    """Task A. ``kinds`` narrows the hits, as ``recall --kind`` does."""
    sessions, subjects, asked = _task_of_sessions(read_records(folder))
    with tempfile.TemporaryDirectory() as scratch:
        store = Store(scratch)
        names: dict[str, str] = {}
        for name, parts in sessions.items():
            item_id, card = store.session(name, parts, subjects)
            names[item_id] = name
            store.put([(item_id, card)])
        ranks = []
        for subject, wanted in asked:
            found = store.project.recall(subject, limit=HITS_MAX, filters=Filters(kinds=kinds))
            ranks.append((list(dict.fromkeys(names[hit.item_id] for hit in found.hits)), wanted))
        store.close()
    return figures_of(ranks, (1, 5, 10))


def measure_plain_sessions(folder: str) -> Figures:
    """Task A by plain FTS5 over the same texts."""
    sessions, subjects, asked = _task_of_sessions(read_records(folder))
    names = list(sessions)
    texts = [
        "\n".join(text for record in parts for _, text in _in_turn(record) if not _gives_away(text, subjects))
        for parts in sessions.values()
    ]
    ranks = [([names[at] for at in plain_search(texts, subject)], wanted) for subject, wanted in asked]
    return figures_of(ranks, (1, 5, 10))


# ---- task B


def measure_files(folder: str) -> tuple[Figures, Figures]:
    """Task B: ours, and plain FTS5."""
    records = read_records(folder)
    with open(os.path.join(folder, "trees.json"), encoding="utf-8") as file:
        listing = json.load(file)
    paths, trees = listing["paths"], listing["trees"]
    ranks, plain = [], []
    with tempfile.TemporaryDirectory() as scratch:
        store = Store(scratch)
        known: list[tuple[Record, list[tuple[str, dict[str, Any]]]]] = []
        pending = sorted(records, key=lambda record: str(record["commit_date"]))
        for record in sorted(records, key=lambda record: str(record["commit_date"])):
            while pending and pending[0]["commit_date"] < record["commit_date"]:
                earlier = pending.pop(0)
                trails = [
                    store.session(
                        f"{earlier['session']} {earlier['checkpoint']} {earlier['idx']}", [earlier], frozenset()
                    ),
                    store.commit(earlier),
                ]
                known.append((earlier, trails))
                store.put(trails)
            if str(record["parent"]) not in trees:
                continue
            tree = {paths[at] for at in trees[record["parent"]]}
            wanted = {path for status, path in record["changed"]
                      if status in "MD" and path in tree and not path.startswith(".beads")}  # fmt: skip
            task = _EXPLICIT_PATH.sub(" ", "\n".join(record["prompts"])[:_ASKED_CHARACTERS])
            own = [trails for earlier, trails in known if earlier["session"] == record["session"]]
            prior = len(known) - len(own)
            if not wanted or len(wanted) > _CHANGED_MAX or prior < _PRIOR_MIN or len(query_terms(task)) < _TERMS_MIN:
                continue
            kept = {
                item_id for earlier, trails in known if earlier["session"] != record["session"] for item_id, _ in trails
            }
            hidden = [trail for trails in own for trail in trails if trail[0] not in kept]
            store.delete(list({item_id for item_id, _ in hidden}))
            found = related(
                store.project.journal, task=task, now_ms=NOW_MS, names=tree, is_there=tree.__contains__, limit=HITS_MAX
            )
            ranks.append(([vote.path for vote in found.files], wanted))
            earlier_work = [earlier for earlier, _ in known if earlier["session"] != record["session"]]
            plain.append((_plain_files(earlier_work, task, tree), wanted))
            if hidden:
                store.put(dict(hidden).items())
        store.close()
    return figures_of(ranks, (5, 10, 20)), figures_of(plain, (5, 10, 20))


def _plain_files(earlier: list[Record], task: str, tree: set[str]) -> list[str]:
    texts = ["\n".join((*record["prompts"], *record["assistant"], record["subject"])) for record in earlier]
    changed = (path for at in plain_search(texts, task) for _, path in earlier[at]["changed"])
    return [path for path in dict.fromkeys(changed) if path in tree]


def plain_search(texts: list[str], question: str) -> list[int]:
    """The places of ``texts`` that FTS5 finds with its defaults, the best first."""
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE words USING fts5(body)")
    db.executemany("INSERT INTO words (rowid, body) VALUES (?, ?)", enumerate(texts))
    match = " OR ".join(f'"{word}"' for word in dict.fromkeys(re.findall(r"\w+", question.lower())))
    rows = db.execute("SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words), rowid", (match,)).fetchall()
    db.close()
    return [at for (at,) in rows]


def figures_of(ranks: list[tuple[list[str], set[str]]], depths: tuple[int, int, int]) -> Figures:
    count = max(1, len(ranks))
    at = [
        100 * sum(len({*found[:depth]} & wanted) / len(wanted) for found, wanted in ranks) / count for depth in depths
    ]
    first = [next((1 / place for place, name in enumerate(found, 1) if name in wanted), 0.0) for found, wanted in ranks]
    return Figures(len(ranks), (at[0], at[1], at[2]), 100 * sum(first) / count)


# ---- the table


def table_row(name: str, values: Iterable[float | None]) -> str:
    return f"{name:58}" + " ".join("     –" if value is None else f"{value:6.1f}" for value in values)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.recall_quality", description="How well recall finds.")
    parser.add_argument("folder", metavar="DIR", help="the folder with records.jsonl and trees.json")
    parser.add_argument("--only", choices=("A", "B"))
    arguments = parser.parse_args()
    if arguments.only != "B":
        mixed, sessions = measure_sessions(arguments.folder), measure_sessions(arguments.folder, kinds=("session",))
        print(f"A: commit subject → session ({mixed.count} commits)")
        print(f"{'':58}" + " ".join(f"{name:>6}" for name in ("R@1", "R@5", "R@10", "MRR")))
        print(table_row("BM25 over prompts, answers and tool arguments (baseline)", BASELINE_A))
        bare = measure_plain_sessions(arguments.folder)
        print(table_row("plain FTS5 over the same texts", (*bare.at, bare.mrr)))
        print(table_row("recall, sessions by their best hit", (*mixed.at, mixed.mrr)))
        print(table_row("recall --kind session", (*sessions.at, sessions.mrr)))
    if arguments.only != "A":
        files, plain = measure_files(arguments.folder)
        print(f"B: prompts → files that the commit changes ({files.count} tasks)")
        print(f"{'':58}" + " ".join(f"{name:>6}" for name in ("R@5", "R@10", "R@20", "MRR")))
        print(table_row("path names alone (baseline)", (None, PATHS_B, None, None)))
        print(table_row("four signals fused (baseline)", BASELINE_B))
        print(table_row("plain FTS5 over earlier work", (*plain.at, plain.mrr)))
        print(table_row("related --task", (*files.at, files.mrr)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
