"""Files of a commit from its message, beside BM25 over the words of paths, in the same run.

Each of the last commits of this repository is asked for at its parent: the message is the task, the files that the commit changes
are the answer, a moved one under the path that it had. Only files that the code map has parsed at the parent count, for both sides;
a commit that changes none of them, or merges others, is left out. ``recent work`` gives the files of the commits before, the nearer
the more, as seeds: what a layer above the map would know.

Weights were chosen on older commits than those measured.
"""

from __future__ import annotations

__all__ = ["measure"]

import math
import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from bench.measure import Bench, Figure, Row, row
from bench.samples import REPOSITORY
from periplus.base.text.search_terms import query_terms, terms, word_root
from periplus.code.code_map import CodeMap
from periplus.code.ranking.repository_map import rank_files

_COMMITS: Final = 300
_COMMITS_QUICK: Final = 8
_RECENT: Final = 40  # commits before
_DECAY: Final = 0.9
_FILES_PER_COMMIT: Final = 30
_DEPTHS: Final = (1, 5)
_K1, _B = 1.2, 0.75


class _Commit(NamedTuple):
    id: str
    message: str
    changed: frozenset[str]


def measure(bench: Bench) -> Iterator[Row]:
    if not os.path.exists(os.path.join(REPOSITORY, ".git")):
        bench.say("left out: this is no clone of the repository")
        return
    clone = os.path.join(bench.folder, "clone")
    subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", REPOSITORY, clone], check=True)
    count = bench.size(_COMMITS, _COMMITS_QUICK)
    commits = [_commit(clone, id_) for id_ in _git(clone, "log", "--no-merges", f"-{count}", "--format=%H").split()]
    history = _history(clone)
    hits: dict[str, Counter[int]] = {"map": Counter(), "recent": Counter(), "paths": Counter()}
    asked = 0
    with CodeMap(clone, os.path.join(bench.folder, "code.sqlite"), environment=os.environ, budget_s=600.0) as code_map:
        for number, commit in enumerate(reversed(commits)):
            if number % 50 == 0:
                bench.say(f"{number} of {len(commits)} commits")
            _git(clone, "checkout", "-q", "--detach", f"{commit.id}~1")
            view = code_map.view(with_graph=True)
            ranked = [path for path, _ in rank_files(view, commit.message, {})]
            known = frozenset(ranked)
            if not commit.changed & known:
                continue
            asked += 1
            seeds = _recent(history, commit.id, known)
            answers = {
                "map": ranked,
                "recent": [path for path, _ in rank_files(view, commit.message, seeds)],
                "paths": _bm25(commit.message, sorted(ranked)),
            }
            for side, answer in answers.items():
                for depth in _DEPTHS:
                    hits[side][depth] += any(path in commit.changed for path in answer[:depth])
    for side, name in (("map", "the message alone"), ("recent", "with recent work")):
        for depth in _DEPTHS:
            # Half a hit is added to either side: of a few commits none may be found, and a ratio to nothing says nothing.
            ours, theirs = (100 * (hits[one][depth] + 0.5) / (asked + 1) for one in (side, "paths"))
            yield row(
                "code-files", f"files of the last {count} commits, {name}, Acc@{depth}", "%", Figure(ours, ours, ours), "BM25 of paths",
                Figure(theirs, theirs, theirs), better="higher",
            )  # fmt: skip


def _git(folder: str, *words: str) -> str:
    done = subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True)
    return done.stdout


def _commit(clone: str, id_: str) -> _Commit:
    words = _git(clone, "diff", "--name-status", "-M", "-z", f"{id_}~1", id_).split("\0")
    changed: set[str] = set()
    at = 0
    while at + 1 < len(words):
        status = words[at][:1]
        if status in "MDTR":
            changed.add(words[at + 1])
        at += 3 if status in "RC" else 2
    return _Commit(id_, _git(clone, "show", "-s", "--format=%B", id_), frozenset(changed))


def _history(clone: str) -> list[tuple[str, list[str]]]:
    """Return the commits with their files, the last one first."""
    found: list[tuple[str, list[str]]] = []
    log = _git(clone, "log", "--no-merges", f"-{2 * _COMMITS}", "--format=@%H", "--name-only")
    for line in log.splitlines():
        if line.startswith("@"):
            found.append((line[1:], []))
        elif line:
            found[-1][1].append(line)
    return found


def _recent(history: Sequence[tuple[str, list[str]]], before: str, known: frozenset[str]) -> dict[str, float]:
    at = next(number for number, (id_, _) in enumerate(history) if id_ == before)
    seeds: dict[str, float] = {}
    for age, (_, files) in enumerate(history[at + 1 : at + 1 + _RECENT]):
        for path in files[:_FILES_PER_COMMIT]:
            if path in known:
                seeds[path] = seeds.get(path, 0.0) + _DECAY**age
    return seeds


def _bm25(question: str, paths: Sequence[str]) -> list[str]:
    documents = [[word_root(term) for term in terms(path)] for path in paths]
    holders = Counter(word for document in documents for word in set(document))
    mean = sum(map(len, documents)) / len(documents)
    asked = {word_root(term) for term in query_terms(question)}
    scored: list[tuple[float, str]] = []
    for path, document in zip(paths, documents, strict=True):
        counts = Counter(document)
        score = 0.0
        for word in asked & counts.keys():
            rarity = math.log(1 + (len(paths) - holders[word] + 0.5) / (holders[word] + 0.5))
            often = counts[word]
            score += rarity * often * (_K1 + 1) / (often + _K1 * (1 - _B + _B * len(document) / mean))
        scored.append((-score, path))
    return [path for _, path in sorted(scored)]
