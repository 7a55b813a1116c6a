"""Files that say the words of a task: in their paths, in the names that they define, in the names that they use."""

from __future__ import annotations

__all__ = ["TaskWords", "task_words"]

import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from periplus.base.text.search_terms import query_terms, terms, word_root
from periplus.code.index.database import joined_path
from periplus.code.queries.view import CodeView
from periplus.code.search import name_index

WORDS_MAX: Final = 32
NAMES_MAX: Final = 4_000  # names that hold one word
_WHOLE_MAX: Final = 3  # letters up to which a word counts only as a whole part of a name
_STEM, _FOLDER, _DEFINED, _USED = 2.5, 1.0, 1.5, 0.6
_HALF: Final = 2.0  # definitions with a word that give half of what any number of them gives
_DEFINITIONS_MAX: Final = 400_000


class TaskWords(NamedTuple):
    """``files`` have a score by path; ``words`` are the roots of the task's words with their rarity."""

    files: dict[str, float]
    words: dict[str, float]

    def score_of_name(self, name: str) -> float:
        """Return the rarities of the words that ``name`` holds."""
        return sum(self.words.get(root, 0.0) for root in _roots(name))


def task_words(view: CodeView, task: str, paths: Sequence[str]) -> TaskWords:
    """Return the scores of ``paths``, the parsed files of the view, for ``task``."""
    roots = list(dict.fromkeys(root for term in query_terms(task) if (root := word_root(term))))[:WORDS_MAX]
    if not roots:
        return TaskWords({}, {})
    by_path = _by_path(paths, frozenset(roots))
    places = _places(view)
    scores: dict[str, float] = defaultdict(float)
    rarities: dict[str, float] = {}
    for root in roots:
        stems, folders = by_path[root]
        names = _names(view, root)
        defined, used = _files(view, "definition", names, places), _files(view, "mention", names, places)
        holders = len(stems | folders | defined.keys() | used.keys())
        if not holders:
            continue
        rarity = rarities[root] = math.log(1 + len(paths) / holders)
        for path in stems:
            scores[path] += rarity * _STEM
        for path in folders - stems:
            scores[path] += rarity * _FOLDER
        for path, number in defined.items():
            scores[path] += rarity * _DEFINED * number / (number + _HALF)
        for path in used:
            scores[path] += rarity * _USED
    return TaskWords(dict(scores), rarities)


def _by_path(paths: Sequence[str], roots: frozenset[str]) -> dict[str, tuple[set[str], set[str]]]:
    """Return for each root the paths with it in the name of the file, and those with it in the name of a folder."""
    found: dict[str, tuple[set[str], set[str]]] = {root: (set(), set()) for root in roots}
    for path in paths:
        folder, _, base = path.rpartition("/")
        for root in roots & _roots(os.path.splitext(base)[0]):
            found[root][0].add(path)
        for root in roots & _roots(folder):
            found[root][1].add(path)
    return found


@lru_cache(1 << 15)
def _roots(text: str) -> frozenset[str]:
    return frozenset(map(word_root, terms(text)))


def _names(view: CodeView, root: str) -> list[int]:
    """Return the numbers of the names of definitions that have a part which begins with ``root``."""
    database = view.database
    if database.execute("SELECT 1 FROM name WHERE is_defined = 1 LIMIT 1").fetchone() is not None:
        with database.write():
            name_index.read_names(database.connection)
    expression = f'"p{root}"{"*" if len(root) > _WHOLE_MAX else ""}'
    rows = database.execute(
        "SELECT rowid FROM symbol_name_terms WHERE symbol_name_terms MATCH ? ORDER BY rowid LIMIT ?",
        (expression, NAMES_MAX),
    )
    return [row[0] for row in rows]


def _files(view: CodeView, table: str, names: Iterable[int], places: dict[int, list[str]]) -> Counter[str]:
    """Return the files with one of ``names`` in ``table``, and how many."""
    listed = f"[{','.join(map(str, names))}]"
    rows = view.database.execute(
        f"SELECT blob, count(*) FROM {table} WHERE name IN (SELECT value FROM json_each(?)) GROUP BY blob",  # noqa: S608 - names of our own
        (listed,),
    )
    found: Counter[str] = Counter()
    for blob, number in rows:
        for path in places.get(blob, ()):
            found[path] += number
    return found


def _places(view: CodeView) -> dict[int, list[str]]:
    """Return the paths of each content."""
    found: dict[int, list[str]] = defaultdict(list)
    rows = view.database.execute(
        "SELECT e.blob, f.path, e.name FROM entry e JOIN folder f ON f.id = e.folder WHERE e.view = ? AND e.blob IS NOT NULL",
        (view.id,),
    )
    for blob, folder, name in rows:
        found[blob].append(joined_path(folder, name))
    return found
