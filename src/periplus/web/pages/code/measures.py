"""Measures that colour files: memory about them, work on them, the age of their last change, memory that is stale.

Each is a number for every path that has one; paths without one are left out. Memory and sessions name folders and symbols, too: what is
about a symbol counts for its file, what is about a folder for the folder.
"""

from __future__ import annotations

__all__ = [
    "MEASURES",
    "Measure",
    "Measured",
    "brought_up",
    "legend_of",
    "level_of",
    "measured",
    "scale_of",
    "value_text",
]

import itertools
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from periplus.base.clock import parse_ms
from periplus.base.errors import UsageError
from periplus.web.pages.code.folders import sums_by_folder
from periplus.web.rendering.text import count_text

if TYPE_CHECKING:
    from periplus.journal import Journal
    from periplus.memory.scopes import Scope
    from periplus.project import Project
    from periplus.web.pages.model import Asked

Measure: TypeAlias = Literal["memory", "work", "age", "stale"]
MEASURES: Final[tuple[Measure, ...]] = ("memory", "work", "age", "stale")
CLAIMED, PLANNED, IN_DAY, IN_WEEK, IN_MONTH = 6, 5, 4, 3, 2
_DAY_S: Final = 86_400
_PATIENCE_S: Final = 0.2
_COUNTS: Final = (0, 1, 2, 4, 8, 16)
"""The greatest counts of the levels 0 to 5."""
_AGES: Final = ((1, 6), (7, 5), (30, 4), (90, 3), (365, 2))
JUDGED_MAX: Final = 2_000
_JUDGE_S: Final = 0.5
_SCOPES_MAX: Final = 2_000
_WILD_S: Final = 0.3
_ROWS_MAX: Final = 400_000


class Measured(NamedTuple):
    """``values`` by path; those of a folder are the sum of what is in it (``is_sum``) or the greatest. ``note`` says what is not counted.
    ``whole`` has values of folders that count for everything in them.
    """

    values: Mapping[str, int]
    is_sum: bool
    note: str = ""
    whole: Mapping[str, int] = {}

    def lookup(self) -> Callable[[str], int]:
        """Return a function that gives the value of a path, and 0 where it has none."""
        sums = sums_by_folder(self.values, is_sum=self.is_sum)
        whole = self.whole

        def value_of(path: str) -> int:
            value = sums.get(path, 0)
            at = path
            while whole and at:
                at = at.rpartition("/")[0]
                value = max(value, whole.get(at, 0))
            return value

        return value_of


def brought_up(project: Project) -> None:
    """Read what was written since the last look, into the index too unless another process is at it."""
    project.look_to_answer()
    project.journal.refresh()
    project.journal.project(_PATIENCE_S)


def measured(asked: Asked, by: Measure, files: Mapping[str, bool]) -> Measured:
    """Return the measure ``by`` of the project. ``files`` are its paths, with whether each differs from git's."""
    project = asked.project
    brought_up(project)
    mark = tuple((name, project.journal.end(name)) for name in project.journal.lineages())
    now_s = asked.context.now_ms() // 1000
    match by:
        case "memory":
            return asked.context.cache.get(("code memory", mark), lambda: _memory(project, files))
        case "work":
            return _work(project, files, now_s)
        case "age":
            return _age(asked, mark, files, now_s)
        case "stale":
            return asked.context.cache.get(("code stale", mark, now_s // 30), lambda: _stale(project, files))


def scale_of(by: Measure, greatest: int) -> int:
    """Return the factor by which the levels of counts are stretched so that ``greatest`` is not far beyond the last; 1 for other measures."""
    scale = 1
    while by in ("memory", "stale") and greatest > 2 * _COUNTS[-1] * scale:
        scale *= 2
    return scale


def level_of(by: Measure, value: int, now_s: int, scale: int = 1) -> int:
    """Return the colour class of a value, 0 to 6."""
    if by == "work":
        return value
    if by == "age":
        if not value:
            return 0
        days = (now_s - value) / _DAY_S
        return next((level for most, level in _AGES if days <= most), 1)
    return next((level for level, most in enumerate(_COUNTS) if value <= most * scale), 6)


def legend_of(by: Measure, scale: int = 1) -> list[tuple[int, str]]:
    """Return the levels with the values that they stand for."""
    if by == "work":
        return [
            (0, "none of late"),
            (IN_MONTH, "a month"),
            (IN_WEEK, "a week"),
            (IN_DAY, "a day"),
            (PLANNED, "an open step"),
            (CLAIMED, "claimed now"),
        ]
    if by == "age":
        return list(enumerate(("not known", "older", "a year", "a quarter", "a month", "a week", "a day")))
    ranges = [(low * scale + 1, most * scale) for low, most in itertools.pairwise(_COUNTS)]
    return [
        (0, "none"),
        *((level, f"{low:,}–{most:,}" if low < most else f"{low:,}") for level, (low, most) in enumerate(ranges, 1)),
        (6, "more"),
    ]


def value_text(by: Measure, value: int, now_s: int) -> str:
    """Return a value as a person reads it."""
    if by == "memory":
        return f"{value:,} about it" if value else "no memory"
    if by == "stale":
        return f"{value:,} stale" if value else "none stale"
    if by == "work":
        return {
            CLAIMED: "claimed now", PLANNED: "an open step is about it", IN_DAY: "worked on within a day",
            IN_WEEK: "worked on within a week", IN_MONTH: "worked on within a month",
        }.get(value, "no work of late")  # fmt: skip
    if not value:
        return "not known"
    days = max(0, now_s - value) // _DAY_S
    return "today" if not days else f"{count_text(days, 'day')} ago"


# -- memory ------------------------------------------------------------------------------------------------------------


def _memory(project: Project, files: Collection[str]) -> Measured:
    """Count the memory in force about each path, as far as the index knows."""
    journal = project.journal
    where, names = _remembered(journal)
    rows = journal.index.db.execute(
        f"SELECT t.path, count(*) FROM touched t JOIN documents d ON d.item_type = t.item_type AND d.item_id = t.item_id"  # noqa: S608 - ours
        f" WHERE t.part < 0 AND d.part < 0 AND {where} GROUP BY t.path LIMIT {_ROWS_MAX}",
        names,
    )
    found: Counter[str] = Counter()
    for path, count in rows:
        if _file_of(str(path), files) == path:  # what is about a symbol has a row for its file, too
            found[path] += count
    return Measured(found, is_sum=True)


def _remembered(journal: Journal) -> tuple[str, tuple[str, ...]]:
    """Return a condition on a row ``d`` of documents: what ``remember`` writes, in a state that is no end."""
    from periplus.memory.entities.types import NOT_REMEMBERED, rows_of

    parts: list[str] = []
    values: list[str] = []
    for name, row in rows_of(journal.types).items():
        if name not in NOT_REMEMBERED:
            ended = sorted(row.ended_states)
            parts.append(f"(d.item_type = ? AND d.state NOT IN ({', '.join('?' * len(ended))}))")
            values += [name, *ended]
    return f"({' OR '.join(parts)})", tuple(values)


def _file_of(path: str, files: Collection[str]) -> str:
    """Return the file of a symbol, ``src/a.py`` of ``src/a.py:Login.check``; another path as it is."""
    if path in files or ":" not in path:
        return path
    at = path.find(":")
    while at >= 0:
        if path[:at] in files:
            return path[:at]
        at = path.find(":", at + 1)
    return path


def _stale(project: Project, files: Collection[str]) -> Measured:
    """Count stale memory about each path: of the newest JUDGED_MAX with an anchor, as far as time suffices."""
    journal = project.journal
    where, names = _remembered(journal)
    rows = journal.index.db.execute(
        f"SELECT d.item_type, d.item_id FROM documents d WHERE d.part < 0 AND d.anchored <> 0 AND {where}"  # noqa: S608 - ours
        " ORDER BY d.id DESC LIMIT ?",
        (*names, JUDGED_MAX + 1),
    ).fetchall()
    ground = project.ground()
    until = time.monotonic() + _JUDGE_S
    found: Counter[str] = Counter()
    judged = 0
    for item_type, item_id in rows[:JUDGED_MAX]:
        if time.monotonic() > until:
            break
        judged += 1
        entity = journal.get(item_type, item_id)
        if entity is not None:
            found.update({one.anchor.path for one in ground.standings(entity) if one.is_stale})
    is_cut = judged < len(rows)
    return Measured(
        {_file_of(path, files): count for path, count in found.items()},
        is_sum=True,
        note=f"Only the newest {judged:,} memories about code were compared with it." if is_cut else "",
    )


# -- work and age ------------------------------------------------------------------------------------------------------


def _work(project: Project, files: Mapping[str, bool], now_s: int) -> Measured:
    """Return for each path the strongest sign of work: a claim, an open step, a session of late."""
    found: dict[str, int] = {}
    times = _session_times(project.journal, now_s - 30 * _DAY_S)
    for path, at in times.items():
        age = now_s - at
        level = IN_DAY if age <= _DAY_S else IN_WEEK if age <= 7 * _DAY_S else IN_MONTH
        name = _file_of(path, files)
        found[name] = max(level, found.get(name, 0))
    folders = {path.rpartition("/")[0] for path in files}
    whole: dict[str, int] = {}
    is_cut = False
    for level, scopes in ((CLAIMED, _claimed_scopes(project, now_s)), (PLANNED, _open_scopes(project))):
        covered, is_late = _covered(scopes[:_SCOPES_MAX], files, folders)
        is_cut = is_cut or is_late or len(scopes) > _SCOPES_MAX
        for path in covered:
            found[path] = max(level, found.get(path, 0))
            if path not in files:
                whole[path] = max(level, whole.get(path, 0))
    note = "There are more claims and open steps, or wider ones, than were compared with all files." if is_cut else ""
    return Measured(found, is_sum=False, note=note, whole=whole)


def _session_times(journal: Journal, since_s: int) -> dict[str, int]:
    """Return for each path the time at which a session or an imported commit touched it last, since ``since_s``."""
    from periplus.base.clock import format_ms

    rows = journal.index.db.execute(
        "SELECT path, max(ts) FROM touched WHERE ts >= ? AND item_type = 'trail' GROUP BY path LIMIT ?",
        (format_ms(since_s * 1000), _ROWS_MAX),
    )
    return {str(path): at // 1000 for path, ts in rows if (at := parse_ms(str(ts))) is not None}


def _claimed_scopes(project: Project, now_s: int) -> list[Scope]:
    from periplus.memory.claim_status import live_claims, scopes_of

    return [scope for claim in live_claims(project.journal, now_s * 1000) for scope in scopes_of(claim)]


def _open_scopes(project: Project) -> list[Scope]:
    from periplus.memory.coordination.plans import scopes_of_step
    from periplus.memory.fulltext.links import open_entities

    return [scope for step in open_entities(project.journal, "step") for scope in scopes_of_step(step)]


def _covered(scopes: list[Scope], files: Collection[str], folders: Collection[str]) -> tuple[list[str], bool]:
    """Return the files and folders that ``scopes`` name, and True where time did not suffice for all. A plain folder is returned itself, not
    with what is in it.
    """
    found: list[str] = []
    wild: list[Scope] = []
    for scope in dict.fromkeys(scopes):
        if scope.is_wild or len(scope.paths) != 1:
            wild.append(scope)
            continue
        path = "/".join(part for part in scope.paths[0] if isinstance(part, str))
        if not path or path in files or path in folders:
            found.append(path)
    until = time.monotonic() + _WILD_S
    for scope in wild:
        matched, is_whole = _matched(scope, files, folders, until)
        found += matched
        if not is_whole:
            return found, True
    return found, False


def _matched(scope: Scope, files: Collection[str], folders: Collection[str], until: float) -> tuple[list[str], bool]:
    """Return the files that a scope with globs matches, and False where that was not done ``until`` then."""
    from periplus.memory.scopes import literal_scope, overlap

    def meets(path: str, *, is_file: bool) -> bool:
        try:
            return overlap(literal_scope(path, is_file=is_file), scope)
        except UsageError:  # a name that is no UTF-8: no scope has it
            return False

    heads = tuple("/".join(itertools.takewhile(lambda part: isinstance(part, str), path[:-1])) for path in scope.paths)  # type: ignore[arg-type]  # only str are taken
    near: set[str] = set()
    for folder in folders:
        if time.monotonic() > until:
            return [], False
        is_below = any(f"{folder}/".startswith(f"{head}/") for head in heads if head) or "" in heads
        if is_below and meets(f"{folder}/" if folder else ".", is_file=False):
            near.add(folder)
    found: list[str] = []
    for path in files:
        if path.rpartition("/")[0] in near:
            if time.monotonic() > until:
                return found, False
            if meets(path, is_file=True):
                found.append(path)
    return found, True


def _age(asked: Asked, mark: object, files: Mapping[str, bool], now_s: int) -> Measured:
    """Return for each path the time of its last change in seconds: by git's newest commits, by sessions, and now where git has other contents."""
    from periplus.code.queries.change_times import COMMITS_MAX, change_times, head_commit

    project, environment = asked.project, asked.context.environment
    head = head_commit(project.top, environment)
    of_git = (
        asked.context.cache.get(("code ages", project.top, head), lambda: change_times(project.top, environment))
        if head
        else {}
    )
    of_sessions = asked.context.cache.get(("code touched", mark), lambda: _session_times(project.journal, 0))
    found = dict(of_git)
    for path, at in of_sessions.items():
        name = _file_of(path, files)
        if name in files:
            found[name] = max(at, found.get(name, 0))
    found |= {path: now_s for path, is_changed in files.items() if is_changed}
    note = (
        f"By the newest {COMMITS_MAX:,} commits and the sessions that are known."
        if head
        else "By the sessions that are known: there is no git."
    )
    return Measured({path: at for path, at in found.items() if path in files}, is_sum=False, note=note)
