"""Related work for files or a task: files that will probably change too, memory about them, and who worked on them.

Nothing is stored for it: files come from ``memory.retrieval.file_votes``, memory and work from the index's table of
touched paths (memory about a file or its folders, the sessions and commits that touched it) and, for a task, from
recall. Each answer says why.
"""

from __future__ import annotations

__all__ = ["PATHS_MAX", "Related", "related"]

from collections.abc import Callable, Collection, Sequence
from typing import Final

from periplus.base.errors import UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.base.text.token_estimate import estimate_tokens
from periplus.journal import Journal
from periplus.memory.code_anchors.anchors import Ground
from periplus.memory.entities.types import rows_of
from periplus.memory.entities.validity import holds
from periplus.memory.retrieval.file_votes import FileVote, Signal, likely_files
from periplus.memory.retrieval.recall import SURROUNDINGS, Hit, hit_of, recall
from periplus.memory.retrieval.search import Filters

PATHS_MAX: Final = 200
_ROWS_MAX: Final = 200
_ROW_TOKENS: Final = 16
_WORK: Final = ("commit", "prompt", "session")


class Related(NamedTuple):
    """Each part has the most likely first. ``left_out`` counts what is beyond the limit or the budget, of all parts.
    ``tests`` are those to run, ``commands`` run them.
    """

    paths: tuple[str, ...]
    task: str
    files: tuple[FileVote, ...]
    memory: tuple[Hit, ...]
    work: tuple[Hit, ...]
    left_out: int
    tests: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


def related(
    journal: Journal,
    paths: Sequence[str] = (),
    task: str = "",
    *,
    now_ms: int,
    ground: Ground | None = None,
    names: Collection[str] = (),
    is_there: Callable[[str], bool] | None = None,
    limit: int = 10,
    budget_tokens: int | None = None,
    more: Sequence[Signal] = (),
) -> Related:
    """Return what is related to ``paths`` (as the project names them) and to ``task``. ``names`` are existing files,
    touched by known work or not; ``is_there`` tests whether a file exists: missing files are not proposed, unless
    all are missing. ``more`` are signals for files, of what memory does not know.

    Raises UsageError where neither is given, for too many paths, and for a limit under 1.
    """
    if not paths and not task.strip():
        raise UsageError("neither files nor a task are named", mend='Name some: periplus related FILE … --task "…"')
    if len(paths) > PATHS_MAX:
        raise UsageError(f"{len(paths):,} paths; the limit is {PATHS_MAX}", mend="Ask for fewer at once.")
    if limit < 1:
        raise UsageError("a limit is at least 1")
    ground = ground or Ground("")
    files = likely_files(journal, task, paths=paths, names=names, is_there=is_there, more=more)
    memory = _memory(journal, paths, task, now_ms, ground)
    work = _work(journal, paths, task, now_ms, ground)
    counts = [min(limit, len(files)), min(limit, len(memory)), min(limit, len(work))]
    if budget_tokens is not None:
        counts = _fitting(
            [
                [estimate_tokens(" ".join((one.path, *one.why))) for one in files[: counts[0]]],
                [estimate_tokens(" ".join((hit.text, *hit.why))) for hit in memory[: counts[1]]],
                [estimate_tokens(" ".join((hit.text, *hit.why))) for hit in work[: counts[2]]],
            ],
            budget_tokens,
        )
    left_out = len(files) + len(memory) + len(work) - sum(counts)
    return Related(
        tuple(paths), task, tuple(files[: counts[0]]), tuple(memory[: counts[1]]), tuple(work[: counts[2]]), left_out
    )


def _memory(journal: Journal, paths: Sequence[str], task: str, now_ms: int, ground: Ground) -> list[Hit]:
    """Return memory about a path or a folder that it lies in, the types of greatest weight first; then what the
    task's words find.
    """
    found: dict[str, Hit] = {}
    for path in paths:
        for key in _about(journal, path):
            entity = journal.get(*key)
            if entity is None or not holds(journal, entity, now_ms):
                continue
            found.setdefault(key[1], hit_of(journal, entity, 0, (f"about {path}",), ground, now_ms))
    hits = sorted(found.values(), key=lambda hit: hit.item_id)
    hits.sort(key=lambda hit: hit.ts, reverse=True)
    rows = rows_of(journal.types)
    hits.sort(key=lambda hit: -rows[hit.item_type].weight if hit.item_type in rows else 0)
    if task.strip():
        types = tuple(name for name, row in rows.items() if row.weight and name != "trail")
        for hit in recall(journal, task, now_ms=now_ms, ground=ground, limit=50, filters=Filters(types=types)).hits:
            if hit.item_id not in found:
                hits.append(hit)
    return hits


def _about(journal: Journal, path: str) -> list[tuple[str, str]]:
    """Return memory about ``path``, about something in it, a symbol of it, or a folder that it lies in; the path
    itself first.
    """
    parts = path.rstrip("/").split("/")
    wholes = ["/".join(parts[:end]) + slash for end in range(len(parts), 0, -1) for slash in ("", "/")]
    marks = ", ".join("?" * len(wholes))
    whole = wholes[0]
    rows = journal.index.db.execute(
        "SELECT item_type, item_id, path FROM touched WHERE item_type <> 'trail' AND part < 0"  # noqa: S608 - question marks
        f" AND (path IN ({marks}) OR path > ? AND path < ? OR path > ? AND path < ?) ORDER BY ts DESC, item_id LIMIT ?",
        (*wholes, f"{whole}:", f"{whole};", f"{whole}/", f"{whole}0", _ROWS_MAX),
    ).fetchall()
    rows.sort(key=lambda row: -len(row[2]))
    return list(dict.fromkeys((str(row[0]), str(row[1])) for row in rows))


def _work(journal: Journal, paths: Sequence[str], task: str, now_ms: int, ground: Ground) -> list[Hit]:
    """Return sessions and commits that touched the paths, those that touched most of them first, then the newest;
    then those similar to the task.
    """
    touched: dict[tuple[str, int], list[str]] = {}
    times: dict[tuple[str, int], str] = {}
    for path in paths:
        whole = path.rstrip("/")
        rows = journal.index.db.execute(
            "SELECT item_id, part, ts FROM touched WHERE item_type = 'trail' AND (path = ? OR path > ? AND path < ?)"
            " ORDER BY ts DESC, item_id, part LIMIT ?", (whole, f"{whole}/", f"{whole}0", _ROWS_MAX),
        )  # fmt: skip
        for item_id, part, ts in rows:
            named = touched.setdefault((item_id, part), [])
            if path not in named:
                named.append(path)
            times[item_id, part] = str(ts)
    keys = sorted(touched)
    keys.sort(key=lambda key: times[key], reverse=True)
    keys.sort(key=lambda key: -len(touched[key]))
    hits: dict[tuple[str, int], Hit] = {}
    for key in keys[:_ROWS_MAX]:
        hit = _step(journal, *key, f"touched {', '.join(touched[key][:3])}", ground, now_ms)
        if hit is not None:
            hits[key] = hit
    if task.strip():
        for hit in recall(
            journal, task, now_ms=now_ms, ground=ground, limit=50, filters=Filters(kinds=_WORK, with_rewritten=False)
        ).hits:
            if hit.why != SURROUNDINGS:
                hits.setdefault((hit.item_id, hit.part), hit)
    return list(hits.values())


def _step(journal: Journal, item_id: str, part: int, why: str, ground: Ground, now_ms: int) -> Hit | None:
    """Return a session as a whole, or one commit, as a hit."""
    entity = journal.get("trail", item_id)
    row = journal.index.db.execute(
        "SELECT kind, ts, text FROM documents JOIN passages USING (id) WHERE item_type = 'trail' AND item_id = ? AND part = ?",
        (item_id, part),
    ).fetchone()
    if entity is None or row is None:
        return None
    more = f"periplus trail show {item_id}" + (f" --at {part}" if part >= 0 else "")
    return hit_of(journal, entity, 0, (why,), ground, now_ms)._replace(
        kind=row[0], part=part, ts=row[1], text=row[2], more=more
    )


def _fitting(costs: list[list[int]], budget_tokens: int) -> list[int]:
    """Return how many of each part fit, when the best of each part are taken in turn."""
    kept = [0] * len(costs)
    for depth in range(max(map(len, costs), default=0)):
        for at, part in enumerate(costs):
            if depth < len(part):
                budget_tokens -= part[depth] + _ROW_TOKENS
                if budget_tokens < 0:
                    return kept
                kept[at] += 1
    return kept
