"""The overview: what waits for the person, who works on what, what changed, what it cost, how the store is."""

from __future__ import annotations

__all__ = ["Overview", "Section", "due", "overview", "seen"]

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.model import Asked, Done, Form, View
from periplus.web.rendering.charts import Series, chart

if TYPE_CHECKING:
    from markupsafe import Markup

    from periplus.project.care.waiting import Waiting, WaitingGroup, WaitingItem
    from periplus.project.trail_store.session_list import WeekSpent

_DAYS: Final = 90
_WEEKS: Final = 26
READER: Final = "web"


class Row(NamedTuple):
    """An entity of a section, and the page that shows it."""

    item: WaitingItem
    address: str


class Section(NamedTuple):
    """A group under its heading, with the address of the page that has all of it."""

    heading: str
    group: WaitingGroup
    rows: tuple[Row, ...]
    address: str


class Overview(NamedTuple):
    """Everything that the page shows, but the charts."""

    waiting: Waiting
    for_person: tuple[Section, ...]
    work: tuple[Section, ...]
    changes: Section


def overview(asked: Asked) -> View:
    """Show the state of the project at a glance."""
    project = asked.project
    waiting = project.waiting(READER, with_review=False)
    shown = Overview(
        waiting,
        _sections(
            ("Questions of agents", waiting.questions, "/work"), ("Mail", waiting.mail, "/work"),
            ("Conflicts", waiting.conflicts, "/memory?state=conflict"), ("Handoffs", waiting.handoffs, "/work"),
            ("Proposed memory", waiting.candidates, "/memory?type=candidate"), ("Proposed skills", waiting.skills, "/memory?type=skill_candidate"),
        ),
        _sections(
            ("Here now", waiting.present, "/work"), ("Steps under way", waiting.doing, "/work"), ("Dispatched", waiting.at_work, "/work"),
            ("Claims", waiting.claims, "/work"), ("Ready to start", waiting.ready, "/work"),
        ),
        _section("Changed since you looked", waiting.changes, "/journal"),
    )  # fmt: skip
    values = {"shown": shown, "activity": _activity(asked), "spent": _spent(asked)}
    return View("overview.html", "Overview", values, "periplus")


def due(asked: Asked) -> View:
    """Show the memory that is to be reviewed: a part of the overview that takes longer, and a page by itself."""
    from periplus.project.care.waiting import review_of

    section = _section("To review", review_of(asked.project), "/memory?stale=1")
    return View("due.html", "To review", {"section": section}, "periplus review")


def seen(asked: Asked, form: Form) -> Done:
    """Note that the person has seen all changes until now."""
    del form
    asked.project.note_look(READER)
    return Done("/", "Noted: changes until now are seen.")


def _sections(*rows: tuple[str, WaitingGroup, str]) -> tuple[Section, ...]:
    return tuple(_section(*row) for row in rows if row[1].number or row[1].is_more)


def _section(heading: str, group: WaitingGroup, address: str) -> Section:
    return Section(heading, group, tuple(Row(one, _address(one)) for one in group.first), address)


def _address(item: WaitingItem) -> str:
    match item.item_type:
        case "plan":
            return f"/work/plan/{item.item_id}"
        case "dispatch":
            return f"/work/dispatch/{item.item_id}"
        case "trail":
            return f"/sessions/{item.item_id}"
        case _:
            return f"/memory/{item.item_id}"


def _activity(asked: Asked) -> Markup | None:
    """Return the chart of records by day; None for a store without any."""
    found = asked.project.activity(_DAYS)
    if not any(day.records for day in found.days):
        return None
    series = [Series("records", tuple(day.records for day in found.days))]
    return chart("bars", [day.day for day in found.days], series, title="Records by day", unit="records")


def _spent(asked: Asked) -> tuple[Markup, Markup | None] | None:
    """Return the charts of tokens and of money by week and agent; None where no session tells."""
    weeks = asked.project.spent_by_week(_WEEKS)
    if not weeks:
        return None
    names, days = _agents(weeks), sorted({one.week for one in weeks})
    tokens = {(one.week, one.agent): (one.spent.tokens_in + one.spent.cached + one.spent.out) / 1_000 for one in weeks}
    money = {(one.week, one.agent): one.spent.cost / 1_000_000 for one in weeks}

    def series(values: dict[tuple[str, str], float]) -> list[Series]:
        return [Series(name or "unknown", tuple(values.get((day, name), 0.0) for day in days)) for name in names]

    spent = chart(
        "stacked", days, series(tokens), title="Tokens by week and agent, in thousands", unit="k tokens", digits=1
    )
    if not any(money.values()):
        return spent, None
    return spent, chart("stacked", days, series(money), title="Money by week and agent", unit="$", digits=2)


def _agents(weeks: Sequence[WeekSpent]) -> list[str]:
    """Return the agents, those with the most tokens first."""
    sums: dict[str, int] = defaultdict(int)
    for one in weeks:
        sums[one.agent] += one.spent.tokens_in + one.spent.cached + one.spent.out
    return sorted(sums, key=lambda name: (-sums[name], name))
