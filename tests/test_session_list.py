"""Pages of sessions and their sums say what a plain computation says."""

from __future__ import annotations

import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

from periplus.base.clock import FixedClock, parse_ms
from periplus.base.errors import UsageError
from periplus.base.text.list_counts import Total, facets_of
from periplus.journal import Entity, Transaction, Writer
from periplus.project import Project
from periplus.project.trail_store.model_costs import trail_costs
from periplus.project.trail_store.session_list import SESSION_SORTS, SessionFilter, SessionRow, SessionSort, Spent

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.web_store import make_web_store, sizes_at

ANN = Writer.named("ann")
NOW_MS = 1_782_000_000_000  # some days after the last session
FILTERS = (
    SessionFilter(),
    SessionFilter(agents=("codex", "gemini")),
    SessionFilter(branches=("main",)),
    SessionFilter(statuses=("partial", "error")),
    SessionFilter(since="2026-02-01", until="2026-03-31"),
    SessionFilter(agents=("codex",), statuses=("success",), since="2026-02-01"),
    SessionFilter(agents=("nobody",)),
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("sessions") / "project"
    return make_web_store(str(folder), sizes_at(0)._replace(sessions=60, records=600))


@pytest.fixture
def project(root: str) -> Iterator[Project]:
    with Project(root, ANN, clock=FixedClock(NOW_MS)) as found:
        yield found


def plainly(project: Project, wanted: SessionFilter, *, but: str = "") -> list[Entity]:
    def passes(card: dict[str, str]) -> bool:
        day = card["started"][:10]
        return all((
            but == "agent" or not wanted.agents or card["agent"] in wanted.agents,
            but == "branch" or not wanted.branches or card["branch"] in wanted.branches,
            but == "status" or not wanted.statuses or card["status"] in wanted.statuses,
            not wanted.since or day >= wanted.since,
            not wanted.until or day <= wanted.until,
            not wanted.day or day == wanted.day,
        ))  # fmt: skip

    return [one for one in project.journal.entities("trail") if passes(one.value)]


def plain_row(project: Project, trail: Entity) -> SessionRow:
    card = trail.value
    took = (parse_ms(card["ended"]) or 0) - (parse_ms(card["started"]) or 0)
    return SessionRow(
        trail.item_id, card["digest"], card["agent"], card["model"], card["title"], card["branch"], card["status"], card["format"],
        card["started"], card["ended"], took, card["counts"]["steps"], card["counts"]["files"],
        *trail_costs(project, trail.item_id), "", 0,
    )  # fmt: skip


def plain_sum(rows: list[SessionRow]) -> Spent:
    sums = [sum(getattr(row, name) for row in rows) for name in ("steps", "tokens_in", "cached", "out", "cost")]
    return Spent(len(rows), *sums)


def in_order(rows: list[SessionRow], sort: SessionSort) -> list[SessionRow]:
    def key(row: SessionRow) -> tuple[int | str, str]:
        told: dict[str, int | str] = {
            "steps": row.steps, "tokens": row.tokens_in + row.cached + row.out, "cost": row.cost,
            "duration": row.duration_ms, "title": row.title.casefold(),
        }  # fmt: skip
        return told.get(sort, row.started), row.id

    return sorted(rows, key=key, reverse=sort not in ("oldest", "title"))


@pytest.mark.parametrize("wanted", FILTERS, ids=str)
@pytest.mark.parametrize("sort", SESSION_SORTS)
def test_pages_are_as_computed_plainly(project: Project, wanted: SessionFilter, sort: SessionSort) -> None:
    expected = in_order([plain_row(project, one) for one in plainly(project, wanted)], sort)
    first = project.session_page(wanted, sort=sort, size=17)
    pages = [
        first,
        *(project.session_page(wanted, sort=sort, size=17, number=one) for one in range(2, first.pages + 1)),
    ]
    assert [row for page in pages for row in page.rows] == expected
    assert {page.total for page in pages} == {Total(len(expected))}
    assert {page.spent for page in pages} == {plain_sum(expected)}


@pytest.mark.parametrize("wanted", FILTERS, ids=str)
def test_facets_are_counted_under_the_other_filters(project: Project, wanted: SessionFilter) -> None:
    facets = project.session_page(wanted).facets
    for name, found in (("agent", facets.agents), ("branch", facets.branches), ("status", facets.statuses)):
        assert found == facets_of(Counter(one.value[name] for one in plainly(project, wanted, but=name)))


def test_day_and_words_are_found(project: Project) -> None:
    trail = plainly(project, SessionFilter())[7]
    day, title = trail.value["started"][:10], trail.value["title"]
    expected = {one.item_id for one in plainly(project, SessionFilter(day=day))}
    assert {row.id for row in project.session_page(SessionFilter(day=day)).rows} == expected
    assert trail.item_id in {row.id for row in project.session_page(SessionFilter(text=title)).rows}
    assert not project.session_page(SessionFilter(text=f"{title} xylophone")).rows
    assert not project.session_page(SessionFilter(text='"*^')).rows


def test_sums_by_week_and_by_day(project: Project) -> None:
    weeks: dict[tuple[str, str], list[SessionRow]] = defaultdict(list)
    days: dict[str, list[SessionRow]] = defaultdict(list)
    for row in (plain_row(project, one) for one in plainly(project, SessionFilter())):
        began = date.fromisoformat(row.started[:10])
        weeks[(began - timedelta(began.weekday())).isoformat(), row.agent].append(row)
        days[row.started[:10]].append(row)
    assert {one[:2]: one.spent for one in project.spent_by_week(60)} == {
        key: plain_sum(rows) for key, rows in weeks.items()
    }
    assert [(one.day, one.spent) for one in project.sessions_by_day(400)] == [
        (day, plain_sum(rows)) for day, rows in sorted(days.items())
    ]
    today = date(2026, 6, 21)
    assert {one.day for one in project.sessions_by_day(60)} == {
        day for day in days if day > (today - timedelta(60)).isoformat()
    }
    monday = today - timedelta(today.weekday())
    assert {one.week for one in project.spent_by_week(9)} == {
        week for week, _ in weeks if week > (monday - timedelta(weeks=9)).isoformat()
    }


def test_parts_and_histories_are_left_out(root: str, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / ".periplus")
    with Project(str(tmp_path / ".periplus"), ANN, clock=FixedClock(NOW_MS)) as project:
        first, second, third = plainly(project, SessionFilter())[:3]

        def change(transaction: Transaction) -> None:
            transaction.put("trail", second.item_id, {**second.value, "parent": first.item_id})
            transaction.put("trail", third.item_id, {**third.value, "format": "git"})

        project.journal.mutate(change, ANN)
        rows = {row.id: row for row in project.session_page().rows}
        assert len(rows) == 58
        assert (rows[first.item_id].parts, second.item_id in rows, third.item_id in rows) == (1, False, False)
        parts = {row.id: row.parent for row in project.session_page(SessionFilter(with_parts=True)).rows}
        assert (len(parts), parts[second.item_id]) == (59, first.item_id)
        assert sum(one.spent.sessions for one in project.sessions_by_day(400)) == 59


def test_numbers_beyond_measure_can_be_summed(root: str, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / ".periplus")
    with Project(str(tmp_path / ".periplus"), ANN, clock=FixedClock(NOW_MS)) as project:
        trails = plainly(project, SessionFilter())

        def change(transaction: Transaction) -> None:
            for trail in trails:
                counts = {**trail.value["counts"], "steps": (1 << 53) - 1, "files": -3}
                transaction.put("trail", trail.item_id, {**trail.value, "counts": counts})

        project.journal.mutate(change, ANN)
        page = project.session_page()
        assert {(row.steps, row.files) for row in page.rows} == {(1 << 48, 0)}
        assert page.spent.steps == sum(one.spent.steps for one in project.spent_by_week(60)) == 60 << 48


def test_unreadable_trail_is_listed_without_costs(root: str, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / ".periplus")
    with Project(str(tmp_path / ".periplus"), ANN) as project:
        trail = plainly(project, SessionFilter())[0]
        project.journal.mutate(
            lambda transaction: transaction.put(
                "trail", trail.item_id, {**trail.value, "object": "0" * 64, "title": "lost"}
            ),
            ANN,
        )
        row = next(row for row in project.session_page().rows if row.id == trail.item_id)
        assert (row.title, row.steps, row.tokens_in, row.cost) == ("lost", trail.value["counts"]["steps"], 0, 0)


def test_sessions_behind_the_index_are_listed(root: str, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / ".periplus")
    with Project(str(tmp_path / ".periplus"), ANN) as project:
        trail = plainly(project, SessionFilter())[0]
        before = {row.id: row for row in project.session_page().rows}
        project.journal.index.is_writable = False  # as in a store that may only be read
        project.journal.mutate(
            lambda transaction: transaction.put("trail", trail.item_id, {**trail.value, "title": "later"}),
            ANN,
            project=False,
        )
        rows = {row.id: row for row in project.session_page().rows}
        assert project.journal.unindexed() == [("trail", trail.item_id)]
        assert rows == before | {trail.item_id: before[trail.item_id]._replace(title="later")}
        assert sum(one.spent.sessions for one in project.sessions_by_day(3_000)) == len(before)
        assert sum(one.spent.cost for one in project.spent_by_week(500)) == sum(row.cost for row in before.values())


@pytest.mark.parametrize("wrong", [{"number": 0}, {"size": 0}, {"size": 201}, {"sort": "sideways"}])
def test_wrong_pages_are_refused(project: Project, wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="there is no page"):
        project.session_page(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("day", ["yesterday", "2026-02-30", "2026-03-01T00:00:00Z", "26"])
def test_wrong_days_are_refused(project: Project, day: str) -> None:
    with pytest.raises(UsageError, match="is not a day"):
        project.session_page(SessionFilter(day=day))
