"""The list of sessions: by agent, branch, day and words, with what they cost; runs that are being recorded above it."""

from __future__ import annotations

__all__ = ["sessions"]

import shlex
from typing import TYPE_CHECKING, Final, cast

from periplus.base.errors import DamageError
from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.model import Asked, View

if TYPE_CHECKING:
    from periplus.base.text.list_counts import Facet
    from periplus.project.trail_store.session_list import SessionPage, SessionSort
    from periplus.trail.recording.recorder import Run

ROWS: Final = 100
RUNS_SHOWN: Final = 20


class Column(NamedTuple):
    """A head of the table. ``sort`` is the order that a click asks for, ``is_sorted`` is said of the present one."""

    label: str
    kind: str
    sort: str = ""
    is_sorted: str = ""


class RunRow(NamedTuple):
    """A run without a trail: being recorded, or ended and left."""

    id: str
    agent: str
    title: str
    started: str
    state: str


class Sessions(NamedTuple):
    page: SessionPage
    agents: tuple[Facet, ...]
    branches: tuple[Facet, ...]
    statuses: tuple[Facet, ...]
    runs: tuple[RunRow, ...]
    runs_left_out: int
    damage: DamageError | None
    columns: tuple[Column, ...]
    is_filtered: bool
    has_more: bool


def sessions(asked: Asked) -> View:
    """List the sessions."""
    from periplus.project.trail_store.session_list import SESSION_SORTS, SessionFilter

    query = asked.query
    chosen = {name: query.text(name) for name in ("agent", "branch", "status", "day", "since", "until", "q")}
    wanted_agents, wanted_branches, wanted_statuses = (
        (chosen[name],) if chosen[name] else () for name in ("agent", "branch", "status")
    )
    wanted = SessionFilter(
        wanted_agents,
        wanted_branches,
        wanted_statuses,
        chosen["day"],
        chosen["since"],
        chosen["until"],
        chosen["q"],
        query.flag("parts"),
    )
    sort = cast("SessionSort", query.choice("sort", SESSION_SORTS))
    number = query.number("page", 1, least=1, most=1_000_000)
    page = asked.project.session_page(wanted, sort=sort, number=number, size=ROWS)
    runs, damage = _runs(asked) if number == 1 else ([], None)
    agents, branches, statuses = (tuple(one for one in facet if one.value) for facet in page.facets)
    values = Sessions(
        page, agents, branches, statuses, tuple(_run_row(run) for run in reversed(runs[-RUNS_SHOWN:])),
        max(0, len(runs) - RUNS_SHOWN), damage, _columns(sort), any(chosen.values()) or query.flag("parts"), number < page.pages,
    )  # fmt: skip
    return View("sessions/list.html", "Sessions", {"found": values}, _command(chosen["q"]))


def _runs(asked: Asked) -> tuple[list[Run], DamageError | None]:
    """Return the runs that are not sealed yet; or the damage of one of them, which is said above the sessions."""
    try:
        return asked.project.unsealed_runs(), None
    except DamageError as error:
        return [], error


def _command(text: str) -> str:
    return f"periplus recall {shlex.quote(text)}" if text else "periplus trail list"


def _columns(sort: str) -> tuple[Column, ...]:
    began = "oldest" if sort == "newest" else "newest"
    order = {"newest": "descending", "oldest": "ascending"}.get(sort, "")
    rows = (
        ("Session", "", "title", "ascending"), ("Steps", "num", "steps", "descending"), ("Took", "num", "duration", "descending"),
        ("Tokens", "num", "tokens", "descending"), ("Cost", "num", "cost", "descending"),
    )  # fmt: skip
    made = [Column(label, kind, name, way if name == sort else "") for label, kind, name, way in rows]
    return (made[0], Column("Began (UTC)", "", began, order), *made[1:], Column("Ended", ""))


def _run_row(run: Run) -> RunRow:
    from periplus.base.clock import format_ms

    return RunRow(run.id, run.facts.agent, run.facts.title, format_ms(run.started_ms), run.state)
