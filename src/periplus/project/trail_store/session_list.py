"""Lists of sessions, and sums of their tokens and money by agent, week and day.

The table ``sessions`` of the index has a row for each trail but the histories of repositories; it is small enough that every question reads
it whole. Trails of records behind the index's watermark are read from their objects, once each.
"""

from __future__ import annotations

__all__ = [
    "SESSION_SORTS",
    "DaySessions",
    "SessionFacets",
    "SessionFilter",
    "SessionPage",
    "SessionRow",
    "SessionSort",
    "Spent",
    "WeekSpent",
    "session_page",
    "sessions_by_day",
    "spent_by_week",
]

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Literal, get_args

from periplus.base.clock import format_ms, parse_ms
from periplus.base.errors import PeriplusError, UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.base.text.list_counts import Facet, Total, facets_of, pages_of
from periplus.memory.fulltext.list_rows import session_row

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.project.store import ProjectStore

SessionSort = Literal["newest", "oldest", "steps", "tokens", "cost", "duration", "title"]
SESSION_SORTS: Final[tuple[SessionSort, ...]] = get_args(SessionSort)
PAGE_ROWS_MAX: Final = 200
_DAY_MS: Final = 86_400_000
_WEEK_MS: Final = 7 * _DAY_MS
_MONDAY_MS: Final = 4 * _DAY_MS  # 1970-01-05
_TEXT_CHARACTERS_MAX: Final = 400


class SessionFilter(NamedTuple):
    """The sessions that are listed. Of ``agents``, ``branches`` and ``statuses`` any is meant. ``day``, ``since`` and
    ``until`` are days in UTC on which a session began, ``text`` are words that it has, in a title, a prompt, an answer
    or a command; ``with_parts`` are trails of subagents listed, too.
    """

    agents: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    day: str = ""
    since: str = ""
    until: str = ""
    text: str = ""
    with_parts: bool = False


class SessionRow(NamedTuple):
    """A session in a list. ``cost`` is in millionths of a dollar; ``parts`` counts the trails of its subagents."""

    id: str
    digest: str
    agent: str
    model: str
    title: str
    branch: str
    status: str
    format: str
    started: str
    ended: str
    duration_ms: int
    steps: int
    files: int
    tokens_in: int
    cached: int
    out: int
    cost: int
    parent: str
    parts: int


class SessionFacets(NamedTuple):
    """The counts by each value of a field, under the filters on the other fields."""

    agents: tuple[Facet, ...] = ()
    branches: tuple[Facet, ...] = ()
    statuses: tuple[Facet, ...] = ()


class Spent(NamedTuple):
    """Sums over sessions; ``cost`` is in millionths of a dollar."""

    sessions: int = 0
    steps: int = 0
    tokens_in: int = 0
    cached: int = 0
    out: int = 0
    cost: int = 0


class SessionPage(NamedTuple):
    """A page of a list; ``number`` counts from 1, ``spent`` are sums over all pages."""

    rows: tuple[SessionRow, ...]
    total: Total
    number: int
    pages: int
    facets: SessionFacets
    spent: Spent


class WeekSpent(NamedTuple):
    """The sums of an agent's sessions that began in a week; ``week`` is its Monday."""

    week: str
    agent: str
    spent: Spent


class DaySessions(NamedTuple):
    """The sums of the sessions that began on a day."""

    day: str
    spent: Spent


class _Session(NamedTuple):
    """A row of the table ``sessions``."""

    item_type: str
    item_id: str
    agent: str
    model: str
    branch: str
    status: str
    format: str
    parent: str
    digest: str
    title: str
    started: int
    ended: int
    steps: int
    files: int
    tokens_in: int
    cached: int
    out: int
    cost: int


def session_page(
    project: ProjectStore, wanted: SessionFilter, *, sort: SessionSort, number: int, size: int
) -> SessionPage:
    """See ``Project.session_page``. Raises UsageError for a wrong day or page."""
    if number < 1 or not 1 <= size <= PAGE_ROWS_MAX or sort not in SESSION_SORTS:
        raise UsageError(f"there is no page {number} of {size} rows by {sort}", mend="Pages begin with 1.")
    held = list(_sessions(project))
    parts = Counter(one.parent for one in held if one.parent)
    rest = list(_passing(project, held, wanted))
    fields = (("agent", wanted.agents), ("branch", wanted.branches), ("status", wanted.statuses))
    facets = SessionFacets(
        *(
            facets_of(Counter(getattr(one, name) for one in _chosen(rest, [two for two in fields if two[0] != name])))
            for name, _ in fields
        )
    )
    found = _sorted(_chosen(rest, fields), sort)
    first = (number - 1) * size
    total = Total(len(found))
    rows = tuple(_row(one, parts[one.item_id]) for one in found[first : first + size])
    return SessionPage(rows, total, number, pages_of(total, size), facets, _sum(found))


def spent_by_week(project: ProjectStore, weeks: int) -> tuple[WeekSpent, ...]:
    """See ``Project.spent_by_week``."""
    now_ms = project.journal.clock.now_ms()
    since = (now_ms - _MONDAY_MS) // _WEEK_MS - max(1, weeks) + 1
    found = _sums(project, since, _WEEK_MS, _MONDAY_MS)
    return tuple(
        WeekSpent(_day(_MONDAY_MS + week * _WEEK_MS), agent, spent) for (week, agent), spent in sorted(found.items())
    )


def sessions_by_day(project: ProjectStore, days: int) -> tuple[DaySessions, ...]:
    """See ``Project.sessions_by_day``."""
    since = project.journal.clock.now_ms() // _DAY_MS - max(1, days) + 1
    found: dict[int, Spent] = {}
    for (day, _), spent in _sums(project, since, _DAY_MS, 0).items():
        found[day] = _plus(found.get(day, Spent()), spent)
    return tuple(DaySessions(_day(day * _DAY_MS), spent) for day, spent in sorted(found.items()))


def _sums(project: ProjectStore, since: int, length_ms: int, start_ms: int) -> dict[tuple[int, str], Spent]:
    """Return the sums by span and agent, from span ``since`` on; spans of ``length_ms`` are counted from ``start_ms``."""
    project.refresh_index()
    newer = _newer(project)
    rows = project.journal.index.db.execute(
        "SELECT (started - ?1) / ?2, agent, COUNT(*), SUM(steps), SUM(tokens_in), SUM(cached), SUM(out), SUM(cost) FROM sessions"
        " WHERE started >= ?3 AND item_id NOT IN (SELECT value FROM json_each(?4)) GROUP BY 1, 2",
        (start_ms, length_ms, start_ms + since * length_ms, json.dumps(sorted(newer))),
    )
    found = {(span, agent): Spent(*sums) for span, agent, *sums in rows.fetchall()}
    for one in _unindexed_sessions(project, newer):
        key = ((one.started - start_ms) // length_ms, one.agent)
        if key[0] >= since:
            found[key] = _plus(found.get(key, Spent()), _sum([one]))
    return found


def _plus(first: Spent, second: Spent) -> Spent:
    return Spent(*map(int.__add__, first, second))


def _newer(project: ProjectStore) -> set[str]:
    """Return the ids of the trails of records behind the index's watermark."""
    return {item_id for item_type, item_id in project.journal.unindexed() if item_type == "trail"}


def _sessions(project: ProjectStore) -> Iterator[_Session]:
    """Yield all sessions, those that the index does not know yet too."""
    project.refresh_index()
    newer = _newer(project)
    for row in project.journal.index.db.execute("SELECT * FROM sessions"):
        one = _Session(*row)
        if one.item_id not in newer:
            yield one
    yield from _unindexed_sessions(project, newer)


def _unindexed_sessions(project: ProjectStore, newer: Iterable[str]) -> Iterator[_Session]:
    for item_id in sorted(newer):
        entity = project.journal.as_read("trail", item_id)
        if entity is not None and entity.value.get("format") != "git":
            yield _unindexed(project, entity)


def _unindexed(project: ProjectStore, trail: Entity) -> _Session:
    from periplus.project.trail_store.model_costs import TrailCosts, trail_costs

    try:
        costs = trail_costs(project, trail.item_id)
    except PeriplusError:
        costs = TrailCosts()  # its object cannot be read: doctor reports it
    return _Session(*session_row(trail, costs))  # type: ignore[arg-type]  # as the columns hold it


def _passing(project: ProjectStore, held: Iterable[_Session], wanted: SessionFilter) -> Iterator[_Session]:
    """Yield the sessions that pass the filters which facets do not count."""
    since, until = 0, 1 << 62
    for day, is_first, is_last in ((wanted.day, True, True), (wanted.since, True, False), (wanted.until, False, True)):
        if day:
            begins = _day_ms(day)
            since = max(since, begins) if is_first else since
            until = min(until, begins + _DAY_MS) if is_last else until
    saying = _saying(project, wanted.text) if wanted.text.strip() else None
    for one in held:
        is_listed = wanted.with_parts or not one.parent
        if is_listed and since <= one.started < until and (saying is None or one.item_id in saying):
            yield one


def _saying(project: ProjectStore, text: str) -> set[str]:
    """Return the ids of the sessions that have all words of ``text``, as far as the index knows."""
    from periplus.base.text.search_terms import query_terms

    words = query_terms(text[:_TEXT_CHARACTERS_MAX])
    if not words:
        return set()
    match = " AND ".join(f'"{word}"' for word in words)
    rows = project.journal.index.db.execute(
        "SELECT item_id FROM session_words JOIN documents ON documents.id = session_words.rowid WHERE session_words MATCH ?",
        (match,),
    )
    return {str(row[0]) for row in rows}


def _chosen(held: Iterable[_Session], fields: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[_Session]:
    chosen = [(name, frozenset(values)) for name, values in fields if values]
    return (one for one in held if all(getattr(one, name) in values for name, values in chosen))


def _sorted(held: Iterable[_Session], sort: SessionSort) -> list[_Session]:
    def key(one: _Session) -> tuple[int, str]:
        values = {
            "steps": one.steps,
            "tokens": one.tokens_in + one.cached + one.out,
            "cost": one.cost,
            "duration": one.ended - one.started,
        }
        return values.get(sort, one.started), one.item_id

    if sort == "title":
        return sorted(held, key=lambda one: (one.title.casefold(), one.item_id))
    return sorted(held, key=key, reverse=sort != "oldest")


def _row(one: _Session, parts: int) -> SessionRow:
    return SessionRow(
        one.item_id, one.digest, one.agent, one.model, one.title, one.branch, one.status, one.format, format_ms(one.started),
        format_ms(one.ended), one.ended - one.started, one.steps, one.files, one.tokens_in, one.cached, one.out, one.cost,
        one.parent, parts,
    )  # fmt: skip


def _sum(held: Iterable[_Session]) -> Spent:
    sessions = steps = fresh = cached = out = cost = 0
    for one in held:
        sessions, steps = sessions + 1, steps + one.steps
        fresh, cached, out, cost = fresh + one.tokens_in, cached + one.cached, out + one.out, cost + one.cost
    return Spent(sessions, steps, fresh, cached, out, cost)


def _day(ms: int) -> str:
    return format_ms(ms)[:10]


def _day_ms(day: str) -> int:
    found = parse_ms(day) if len(day) == len("2026-01-01") else None
    if found is None:
        raise UsageError(f"{day!r} is not a day", mend="Write it as 2026-03-01.")
    return found
