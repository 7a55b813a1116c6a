"""Ranking of files for a task: words in their paths, files worked on, earlier work and commits."""

from __future__ import annotations

__all__ = ["Ranked", "Task", "ranked"]

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from periplus.base.filesystem.confined_folder import Entry
from periplus.base.text.search_terms import query_terms, rough_stem, terms

_ACTIVE: Final = 6.0
_BESIDE: Final = 0.5
_VOTED: Final = 5.0
_DEPTH: Final = 0.02


class Task(NamedTuple):
    """A task. ``votes`` come from ``memory.files`` by path: the share of the best, and why."""

    text: str = ""
    active: Sequence[str] = ()
    votes: Mapping[str, tuple[float, str]] = {}


class Ranked(NamedTuple):
    """A ranked file. ``why`` is empty if nothing connects it with the task."""

    entry: Entry
    score: float
    why: str = ""


def ranked(files: Sequence[Entry], task: Task) -> list[Ranked]:
    """Rank the files, the likeliest first; the order is total."""
    asked = {rough_stem(term) for term in query_terms(task.text)}
    named: dict[str, set[str]] = {}
    for entry in files if asked else ():
        found = asked & {rough_stem(term) for term in terms(entry.path)}
        if found:
            named[entry.path] = found
    often = {word: sum(word in words for words in named.values()) for word in asked}
    weights = {word: math.log(1 + len(files) / (1 + count)) for word, count in often.items()}
    active = set(task.active)
    beside = {path.rpartition("/")[0] for path in active}
    rows = []
    for entry in files:
        path = entry.path
        words = sum(weights[word] for word in named.get(path, ()))
        share, why = task.votes.get(path, (0.0, ""))
        score = words + _ACTIVE * (path in active) + _VOTED * share - _DEPTH * path.count("/")
        score += _BESIDE * (path.rpartition("/")[0] in beside)
        reasons = [
            "worked on in this session" if path in active else "",
            why or ("named like the task" if words else ""),
        ]
        rows.append(Ranked(entry, score, "; ".join(reason for reason in reasons if reason)))
    return sorted(rows, key=lambda row: (-row.score, row.entry.path))
