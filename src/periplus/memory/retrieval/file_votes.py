"""Predict the files that a task will change, from earlier work.

No signal is good alone: files that similar commits changed, that similar sessions touched, that sessions with a
similar step touched, files whose paths have words of the task, files that changed recently, and, where files are
given, what changed together with them. Each signal is scaled to its own best, weighted and added; ``why`` says which
signals an answer comes from. Older work counts a little less for each commit since, for code moves on. A file and its
tests support each other.
"""

from __future__ import annotations

__all__ = ["FileVote", "Signal", "likely_files"]

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import log
from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.base.text.search_terms import STOP_WORDS, query_terms, rough_stem, terms
from periplus.journal import Journal
from periplus.memory.retrieval.recall import bring_up_to_date
from periplus.memory.retrieval.search import Candidate, Filters, search

_LIKE_MAX: Final = 15
_CANDIDATES: Final = 100
_RECENT_ROWS_MAX: Final = 3_000
_TOUCHED_MAX: Final = 200
_RANKED_MAX: Final = 200
_BESIDE_MAX: Final = 100
_FADING: Final = 0.995  # lost of the signal of similar work, for each commit since
_LATELY_FADING: Final = 0.97  # weight of having changed at all
_LATELY_WEIGHT: Final = 0.5  # independent of the task
_PAIR_WEIGHT: Final = 0.3
_TEST_WORDS: Final = frozenset({"test", "tests", "spec", "specs"})


class FileVote(NamedTuple):
    """A file, its ``score`` in millionths, and why. ``source`` is the trail, or the step ``trail#index``, that
    supports it most; empty where no work does.
    """

    path: str
    source: str
    score: int
    why: tuple[str, ...] = ()


class _Recent(NamedTuple):
    path: str
    source: str
    ts: str
    is_commit: bool


class Signal(NamedTuple):
    """One reason for files: the vote for each, scaled to the greatest of them and then to ``weight``, and the work that supports it."""

    why: str
    weight: float
    votes: Mapping[str, float]
    sources: Mapping[str, str] = {}


def likely_files(
    journal: Journal,
    task: str,
    *,
    paths: Sequence[str] = (),
    names: Collection[str] = (),
    is_there: Callable[[str], bool] | None = None,
    most: int = _RANKED_MAX,
    more: Sequence[Signal] = (),
) -> list[FileVote]:
    """Return the files that ``task``, or a change of ``paths``, will probably change, the most likely first.
    ``names`` are files that exist, of which one that no work has touched may match by its name. Files that are
    gone are left out where any is there. ``more`` are further signals, of what memory does not know.
    """
    bring_up_to_date(journal)
    words = query_terms(task, of_end=0)  # a piece of work counts from its beginning
    recent = _recent(journal)
    signals = [_beside(journal, paths)] if paths else []
    if words:
        signals += _of_task(journal, words, recent, names)
    signals += more
    if is_there is not None:
        signals = _of_those(signals, is_there)
    scores, why, sources = _added(signals)
    known = {*names, *(one.path for one in recent)}
    scores = _with_pairs(
        scores, why, dict.fromkeys(paths, 1.0), {path for path in known if not is_there or is_there(path)}
    )
    for path in paths:
        scores.pop(path, None)
    ranked = sorted(scores, key=lambda path: (-scores[path], path))
    last: dict[str, str] = {}
    for one in recent:
        last.setdefault(one.path, one.source)
    return [
        FileVote(path, sources.get(path) or last.get(path, ""), int(scores[path] * 1_000_000), tuple(why[path]))
        for path in ranked[:most]
    ]


def _of_task(journal: Journal, words: list[str], recent: list[_Recent], names: Collection[str]) -> list[Signal]:
    times = sorted({one.ts for one in recent if one.is_commit} or {one.ts for one in recent})

    def faded(found: Iterable[Candidate]) -> list[tuple[float, Candidate]]:
        """Return the best few, each piece of work once, older ones with less weight."""
        best: dict[tuple[str, int], tuple[float, Candidate]] = {}
        for one in found:
            whole = one if one.kind == "commit" else one._replace(part=-1)
            score = one.bm25 * _FADING ** (len(times) - bisect_right(times, one.ts))
            if score > best.get((whole.item_id, whole.part), (0.0, one))[0]:
                best[whole.item_id, whole.part] = score, whole
        return sorted(best.values(), key=lambda pair: (-pair[0], pair[1].item_id, pair[1].part))[:_LIKE_MAX]

    def like(*kinds: str) -> list[tuple[float, Candidate]]:
        return faded(search(journal.index.db, words, Filters(kinds=kinds, with_rewritten=False), _CANDIDATES))

    return [
        _voted(journal, "similar commits changed it", like("commit")),
        _voted(journal, "similar sessions touched it", like("session")),
        _voted(journal, "similar prompts or answers concern it", like("prompt", "answer")),
        Signal("its path has words of the task", 1.0, _by_path(words, {*names, *(one.path for one in recent)}), {}),
        Signal("it changed recently", _LATELY_WEIGHT, _lately(recent), {}),
    ]


def _voted(journal: Journal, why: str, like: Iterable[tuple[float, Candidate]]) -> Signal:
    votes: dict[str, float] = {}
    sources: dict[str, str] = {}
    for score, one in like:
        touched = _touched_by(journal, one.item_id, one.part)
        for path in touched:
            votes[path] = votes.get(path, 0.0) + score / len(touched) ** 0.5
            sources.setdefault(path, _source(one.item_id, one.part))
    return Signal(why, 1.0, votes, sources)


def _beside(journal: Journal, paths: Sequence[str]) -> Signal:
    """Return what commits and sessions that touched ``paths`` touched besides; those that touched few files count
    most.
    """
    votes: dict[str, float] = {}
    sources: dict[str, str] = {}
    for path in paths:
        rows = journal.index.db.execute(
            "SELECT item_id, part FROM touched WHERE path = ? AND item_type = 'trail' ORDER BY ts DESC, item_id, part LIMIT ?",
            (path, _BESIDE_MAX),
        ).fetchall()
        for item_id, part in rows:
            others = _touched_by(journal, item_id, part)
            for other in others:
                votes[other] = votes.get(other, 0.0) + 1 / len(others)
                sources.setdefault(other, _source(item_id, part))
    return Signal(
        "changed together with these files", 1.0, {path: votes[path] for path in votes if path not in paths}, sources
    )


def _touched_by(journal: Journal, item_id: str, part: int) -> list[str]:
    rows = journal.index.db.execute(
        "SELECT path FROM touched WHERE item_type = 'trail' AND item_id = ? AND part = ? ORDER BY path LIMIT ?",
        (item_id, part, _TOUCHED_MAX),
    )
    return [str(row[0]) for row in rows]


def _source(item_id: str, part: int) -> str:
    return item_id if part < 0 else f"{item_id}#{part}"


def _recent(journal: Journal) -> list[_Recent]:
    rows = journal.index.db.execute(
        "SELECT path, item_id, part, ts FROM touched WHERE item_type = 'trail'"
        " ORDER BY ts DESC, item_id, part, path LIMIT ?", (_RECENT_ROWS_MAX,),
    )  # fmt: skip
    return [_Recent(row[0], _source(row[1], row[2]), row[3], row[2] >= 0) for row in rows]


def _by_path(words: list[str], paths: Iterable[str]) -> dict[str, float]:
    """Score paths by the words of the task in them, rare words more; long paths have some by chance."""
    asked = {rough_stem(word) for word in words}
    held = {path: {rough_stem(term) for term in terms(path)} - STOP_WORDS for path in sorted(paths)}
    counts: dict[str, int] = {}
    for stems in held.values():
        for stem in stems & asked:
            counts[stem] = counts.get(stem, 0) + 1
    return {
        path: sum(log(1 + len(held) / counts[stem]) for stem in sorted(stems & asked)) / (2 + len(stems)) ** 0.5
        for path, stems in held.items()
        if stems & asked
    }


def _lately(recent: list[_Recent]) -> dict[str, float]:
    """Score paths by how recently and how often commits changed them; by sessions where no commit is known."""
    rows = [one for one in recent if one.is_commit] or recent
    weights: dict[str, float] = {}
    now, seen = 1.0, ""
    for one in rows:
        if seen and one.source != seen:
            now *= _LATELY_FADING
        seen = one.source
        weights[one.path] = weights.get(one.path, 0.0) + now
    return weights


def _of_those(signals: list[Signal], is_there: Callable[[str], bool]) -> list[Signal]:
    """Keep the files that exist; unchanged where none exists, for then the work was done elsewhere."""
    there = {path for path in dict.fromkeys(path for signal in signals for path in signal.votes) if is_there(path)}
    if not there:
        return signals
    return [
        signal._replace(votes={path: vote for path, vote in signal.votes.items() if path in there})
        for signal in signals
    ]


def _added(signals: Iterable[Signal]) -> tuple[dict[str, float], dict[str, list[str]], dict[str, str]]:
    """Return the sums, and for each file its signals, the greatest first, with the work that supports it."""
    parts: dict[str, list[tuple[float, str, str]]] = {}
    for signal in signals:
        most = max(signal.votes.values(), default=0.0)
        for path, vote in signal.votes.items():
            part = signal.weight * vote / most
            parts.setdefault(path, []).append((-part, signal.why, signal.sources.get(path, "")))
    scores, why, sources = dict[str, float](), dict[str, list[str]](), dict[str, str]()
    for path, found in parts.items():
        found.sort()
        scores[path] = -sum(part for part, _, _ in found)
        why[path] = [words for _, words, _ in found]
        sources[path] = next((source for _, _, source in found if source), "")
    return scores, why, sources


def _with_pairs(
    scores: Mapping[str, float], why: dict[str, list[str]], asked: Mapping[str, float], known: Collection[str]
) -> dict[str, float]:
    """Raise the score of a file with that of its tests and the other way round, and where it was asked for."""
    of_subject: dict[tuple[str, str], list[tuple[str, bool]]] = {}
    for path in sorted({*known, *scores, *asked}):
        subject, is_test = _subject(path)
        of_subject.setdefault(subject, []).append((path, is_test))
    lifted = dict(scores)
    for path, score in {**scores, **asked}.items():
        subject, is_test = _subject(path)
        for other in _counterparts(path, is_test, of_subject.get(subject, [])):
            lifted[other] = lifted.get(other, 0.0) + _PAIR_WEIGHT * score
            why.setdefault(other, []).append(f"{path} tests it" if is_test else f"it tests {path}")
    return lifted


def _counterparts(path: str, is_test: bool, namesakes: list[tuple[str, bool]]) -> list[str]:  # noqa: FBT001 - as in the pairs
    """Return the counterparts in the same folder; elsewhere only where no other file could be meant."""
    others = [other for other, is_other_test in namesakes if is_other_test != is_test]
    folder = path.rpartition("/")[0]
    beside = [other for other in others if other.rpartition("/")[0] == folder]
    return beside or (others if len(namesakes) == 2 else [])


def _subject(path: str) -> tuple[tuple[str, str], bool]:
    """Return the name that a file is about, with its suffix, and whether it is a test: ``a/test_x.py`` and ``b/x.py``
    have one subject.
    """
    name = path.rpartition("/")[2]
    stem, dot, ending = name.partition(".")
    *middle, last = ending.split(".")
    parts = [part for part in stem.replace("-", "_").split("_") if part]
    kept = [part for part in parts if part.lower() not in _TEST_WORDS]
    is_test = len(kept) < len(parts) or any(part.lower() in _TEST_WORDS for part in middle)
    if not is_test and kept and kept[-1].endswith("Test") and kept[-1] != "Test":
        kept[-1], is_test = kept[-1][: -len("Test")], True
    return ("_".join(kept), last if dot else ""), is_test
