"""Which files a task will change, told from earlier work.

Four rankings, none of which is good alone, are fused by reciprocal rank: the files that commits like the task changed,
those that sessions like it touched, files whose paths have the task's words, and files that changed lately.
"""

from __future__ import annotations

__all__ = ["FileVote", "likely_files"]

from collections.abc import Callable, Iterable, Sequence
from math import log
from typing import Final, NamedTuple

from periplus.base.analysis import STOP_WORDS, query_terms, rough_stem, terms
from periplus.journal import Journal
from periplus.memory.recall import bring_up_to_date
from periplus.memory.search import TRAIL_KINDS, Candidate, Filters, search

_LIKE_MAX: Final = 15
_CANDIDATES: Final = 100
_RECENT_ROWS_MAX: Final = 3_000
_RANKED_MAX: Final = 200
_FUSION: Final = 30
_BESIDE_MAX: Final = 100
_FADING: Final = 0.97


class FileVote(NamedTuple):
    """A file and why: ``source`` is the trail, or the step ``trail#index``, that speaks for it most; empty where its path alone does."""

    path: str
    source: str
    score: int
    why: tuple[str, ...] = ()


class _Recent(NamedTuple):
    path: str
    source: str
    ts: str
    is_commit: bool


def likely_files(
    journal: Journal,
    task: str,
    *,
    paths: Sequence[str] = (),
    is_there: Callable[[str], bool] | None = None,
    most: int = _RANKED_MAX,
) -> list[FileVote]:
    """The files that ``task``, or a change of ``paths``, will likely change too, the likeliest first. Those that are not
    there any more are left away, where any is.
    """
    bring_up_to_date(journal)
    words = query_terms(task)
    found = search(journal.index.db, words, Filters(kinds=TRAIL_KINDS), _CANDIDATES)
    recent = _recent(journal)
    sources: dict[str, str] = {}
    rankings = [
        (1.0, "changed with them", _beside(journal, paths, sources)),
        (1.0, "commits like it changed it", _voted(journal, _like(found, is_commit=True), sources)),
        (1.0, "sessions like it touched it", _voted(journal, _like(found, is_commit=False), sources)),
        (1.0, "its path has words of the task", _by_path(words, recent)),
        (0.7, "it changed lately", _lately(recent) if words else []),  # says nothing of the task
    ]
    scores: dict[str, float] = {}
    why: dict[str, list[str]] = {}
    for weight, reason, ranking in rankings:
        for place, path in enumerate(ranking[:_RANKED_MAX], 1):
            scores[path] = scores.get(path, 0.0) + weight / (_FUSION + place)
            why.setdefault(path, []).append(reason)
    for one in recent:
        sources.setdefault(one.path, one.source)
    for path in paths:
        scores.pop(path, None)
    ranked = sorted(scores, key=lambda path: (-scores[path], path))
    if is_there is not None:
        ranked = [path for path in ranked if is_there(path)] or ranked
    ranked = ranked[:most]
    return [FileVote(path, sources.get(path, ""), int(scores[path] * 1_000_000), tuple(why[path])) for path in ranked]


def _beside(journal: Journal, paths: Sequence[str], sources: dict[str, str]) -> list[str]:
    """What commits and sessions that touched ``paths`` touched besides, those that touched little else counting most."""
    votes: dict[str, float] = {}
    for path in paths:
        rows = journal.index.db.execute(
            "SELECT item_id, part FROM touched WHERE path = ? AND item_type = 'trail' ORDER BY ts DESC, item_id, part LIMIT ?",
            (path, _BESIDE_MAX),
        ).fetchall()
        for item_id, part in rows:
            others = _touched_by(journal, item_id, part)
            for other in others:
                votes[other] = votes.get(other, 0.0) + 1 / len(others)
                sources.setdefault(other, item_id if part < 0 else f"{item_id}#{part}")
    return sorted((path for path in votes if path not in paths), key=lambda path: (-votes[path], path))


def _touched_by(journal: Journal, item_id: str, part: int) -> list[str]:
    rows = journal.index.db.execute(
        "SELECT path FROM touched WHERE item_type = 'trail' AND item_id = ? AND part = ? ORDER BY path LIMIT 200",
        (item_id, part),
    )
    return [str(row[0]) for row in rows]


def _like(found: list[Candidate], *, is_commit: bool) -> list[Candidate]:
    """The commits, or the sessions, that are most like the task; a session counts by its best step too."""
    best: dict[tuple[str, int], Candidate] = {}
    for one in found:
        if (one.kind == "commit") != is_commit:
            continue
        whole = one if is_commit else one._replace(part=-1)
        key = (whole.item_id, whole.part)
        if key not in best or best[key].bm25 < whole.bm25:
            best[key] = whole
    return sorted(best.values(), key=lambda one: (-one.bm25, one.item_id, one.part))[:_LIKE_MAX]


def _voted(journal: Journal, like: Iterable[Candidate], sources: dict[str, str]) -> list[str]:
    votes: dict[str, float] = {}
    for one in like:
        rows = _touched_by(journal, one.item_id, one.part)
        for path in rows:
            votes[path] = votes.get(path, 0.0) + one.bm25 / len(rows) ** 0.5
            sources.setdefault(path, one.item_id if one.part < 0 else f"{one.item_id}#{one.part}")
    return sorted(votes, key=lambda path: (-votes[path], path))


def _recent(journal: Journal) -> list[_Recent]:
    rows = journal.index.db.execute(
        "SELECT path, item_id, part, ts FROM touched WHERE item_type = 'trail'"
        " ORDER BY ts DESC, item_id, part, path LIMIT ?", (_RECENT_ROWS_MAX,),
    )  # fmt: skip
    return [_Recent(row[0], row[1] if row[2] < 0 else f"{row[1]}#{row[2]}", row[3], row[2] >= 0) for row in rows]


def _by_path(words: list[str], recent: list[_Recent]) -> list[str]:
    asked = {rough_stem(word) for word in words}
    held = {
        path: {rough_stem(term) for term in terms(path)} - STOP_WORDS
        for path in dict.fromkeys(one.path for one in recent)
    }
    counts: dict[str, int] = {}
    for stems in held.values():
        for stem in stems & asked:
            counts[stem] = counts.get(stem, 0) + 1
    scores = {
        path: sum(log(1 + len(held) / counts[stem]) for stem in sorted(stems & asked)) / (2 + len(stems)) ** 0.5
        for path, stems in held.items()
    }
    return sorted((path for path in scores if scores[path] > 0), key=lambda path: (-scores[path], path))


def _lately(recent: list[_Recent]) -> list[str]:
    """By how lately and how often commits changed them; by sessions where no commit is known."""
    rows = [one for one in recent if one.is_commit] or recent
    weights: dict[str, float] = {}
    now, seen = 1.0, ""
    for one in rows:
        if seen and one.source != seen:
            now *= _FADING
        seen = one.source
        weights[one.path] = weights.get(one.path, 0.0) + now
    return sorted(weights, key=lambda path: (-weights[path], path))
