"""The repository for a task within a number of tokens: the files that it likely concerns, with the signatures of what matters in them."""

from __future__ import annotations

__all__ = ["MapFile", "RepositoryMap", "rank_files", "repository_map"]

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from periplus.base.text.token_estimate import estimate_tokens
from periplus.code.index.database import joined_path
from periplus.code.queries.impact import is_test_path
from periplus.code.queries.symbol_text import Symbol, symbol_of
from periplus.code.queries.view import CodeView
from periplus.code.ranking.file_links import FileLinks, file_links
from periplus.code.ranking.page_rank import global_rank, seeded_rank
from periplus.code.ranking.task_words import TaskWords, task_words

FILES_MAX: Final = 400
BUDGET_TOKENS: Final = 4_000
_SYMBOLS_PER_FILE_MAX: Final = 24
_SHARE: Final = 0.12  # of the tokens that are left, what one file may take
_FILE_TOKENS_MIN: Final = 60
_SEEDED_MAX: Final = 60  # files that the words of the task make seeds
_WORDS, _GIVEN, _DIRTY = 1.0, 0.35, 0.15
_NEAR: Final = 0.6  # weight of the links beside that of the words themselves
_TEST_FACTOR: Final = 0.3  # without a task
_LISTS: Final = frozenset({"__all__", "__slots__"})  # names that tell nothing of a file


class MapFile(NamedTuple):
    """A file with the symbols that are shown of it, in the order of its lines; ``left_out`` counts the others."""

    path: str
    score: float
    symbols: tuple[Symbol, ...]
    left_out: int


class RepositoryMap(NamedTuple):
    """``files`` in the order in which the task needs them; ``tokens`` is an estimate for ``text``. ``files_total`` counts those of the view."""

    files: tuple[MapFile, ...]
    tokens: int
    files_total: int

    @property
    def text(self) -> str:
        """Return the map as a reader sees it."""
        return "".join(_file_text(one) for one in self.files)


def rank_files(view: CodeView, task: str, seeds: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return the parsed files, those first that ``task`` likely concerns, with scores. ``seeds`` are files with weights that the caller
    knows of: open ones, recent work, what memory names.
    """
    return _ranked(view, task, seeds)[0]


def repository_map(
    view: CodeView, task: str = "", budget_tokens: int = BUDGET_TOKENS, seeds: Mapping[str, float] | None = None
) -> RepositoryMap:
    """Return the map for ``task``; without one, that of the whole repository."""
    ranked, words = _ranked(view, task, seeds or {})
    shown: list[MapFile] = []
    spent = 0
    for path, score in ranked[:FILES_MAX]:
        left = budget_tokens - spent
        one = _shown(view, path, score, words, max(_FILE_TOKENS_MIN, int(left * _SHARE)))
        tokens = estimate_tokens(_file_text(one))
        if tokens > left:
            one = MapFile(path, score, (), one.left_out + len(one.symbols))
            tokens = estimate_tokens(_file_text(one))
            if tokens > left:
                break
        shown.append(one)
        spent += tokens
    return RepositoryMap(tuple(shown), spent, len(ranked))


def _ranked(view: CodeView, task: str, seeds: Mapping[str, float]) -> tuple[list[tuple[str, float]], TaskWords]:
    known = file_links(view)
    words = task_words(view, task, known.paths)
    numbers = {path: at for at, path in enumerate(known.paths)}
    said = _share(words.files)
    given = _share({path: weight for path, weight in seeds.items() if path in numbers})
    near = _near(view, known, numbers, said, given)
    alone = global_rank(known.links) if not said and not given else []
    greatest = max(alone, default=1.0)
    scores: list[tuple[str, float]] = []
    for at, path in enumerate(known.paths):
        score = said.get(path, 0.0) + _GIVEN * given.get(path, 0.0) + _NEAR * near.get(at, 0.0)
        if alone:
            score += alone[at] / greatest * (_TEST_FACTOR if is_test_path(path) else 1.0)
        scores.append((path, score))
    scores.sort(key=lambda one: (-one[1], one[0]))
    return scores, words


def _near(
    view: CodeView, known: FileLinks, numbers: Mapping[str, int], said: Mapping[str, float], given: Mapping[str, float]
) -> dict[int, float]:
    """Return what the links bring, beside the greatest of it."""
    weights: dict[int, float] = {}
    best = sorted(said.items(), key=lambda one: (-one[1], one[0]))[:_SEEDED_MAX]
    for part, weight in ((best, _WORDS), (given.items(), _GIVEN), (_dirty(view, numbers), _DIRTY)):
        rows = [(path, value) for path, value in part if path in numbers]
        total = sum(value for _, value in rows)
        for path, value in rows:
            weights[numbers[path]] = weights.get(numbers[path], 0.0) + weight * value / total
    found = seeded_rank(known.links, weights)
    greatest = max(found.values(), default=1.0)
    return {at: rank / greatest for at, rank in found.items()}


def _dirty(view: CodeView, numbers: Mapping[str, int]) -> list[tuple[str, float]]:
    """Return the files that differ from what git has."""
    rows = view.database.execute(
        "SELECT f.path, e.name FROM entry e JOIN folder f ON f.id = e.folder WHERE e.view = ? AND e.stamp IS NOT NULL", (view.id,)
    )  # fmt: skip
    paths = [path for folder, name in rows if (path := joined_path(folder, name)) in numbers]
    return [(path, 1.0) for path in sorted(paths)[:_SEEDED_MAX]]


def _share(scores: Mapping[str, float]) -> dict[str, float]:
    """Return ``scores`` as parts of the greatest."""
    greatest = max(scores.values(), default=0.0)
    return {path: score / greatest for path, score in scores.items() if score > 0} if greatest > 0 else {}


# -- what is shown -------------------------------------------------------------------------------------------------------


def _shown(view: CodeView, path: str, score: float, words: TaskWords, tokens_max: int) -> MapFile:
    file = view.file(path)
    if file is None:
        return MapFile(path, score, (), 0)
    used = _uses(view, path)
    ranked: list[tuple[float, int]] = []
    for number, one in enumerate(file.definitions):
        if (
            one.name in _LISTS
            or one.kind in ("field", "property")
            or (one.parent >= 0 and file.definitions[one.parent].kind in ("function", "method"))
        ):
            continue
        weight = math.log2(1 + used.get(one.qualified, 0)) + 2 * words.score_of_name(one.name)
        ranked.append((-(weight + one.is_exported - (one.parent >= 0) * 0.5), number))
    ranked.sort()
    chosen: list[Symbol] = []
    spent = estimate_tokens(path)
    for _, number in ranked[:_SYMBOLS_PER_FILE_MAX]:
        symbol = symbol_of(view, file, number)
        spent += estimate_tokens(_symbol_text(symbol))
        if spent > tokens_max:
            break
        chosen.append(symbol)
    chosen.sort(key=lambda one: (one.start_line, one.id))
    return MapFile(path, score, tuple(chosen), len(file.definitions) - len(chosen))


def _uses(view: CodeView, path: str) -> dict[str, int]:
    """Return how many other files name the symbols of a file."""
    graph = view.graph
    number = graph.store.file_id(path) if graph is not None else None
    if graph is None or number is None:
        return {}
    counts = graph.store.user_counts(number)
    return {name: counts.get(local, 0) for name, local in graph.symbols_in(number).items()}


def _file_text(one: MapFile) -> str:
    return f"{one.path}\n{''.join(map(_symbol_text, one.symbols))}"


def _symbol_text(symbol: Symbol) -> str:
    indent = "  " * (1 + symbol.id.name.count("."))
    return f"{indent}{symbol.line}: {symbol.signature}\n"
