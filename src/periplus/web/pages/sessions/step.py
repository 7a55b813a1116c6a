"""One step of a session whole: all that the trail says of it and its place in the session."""

from __future__ import annotations

__all__ = ["step"]

from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.model import Asked, View
from periplus.web.pages.sessions.opened import Opened, address_of, number_in, opened, overview, window_start
from periplus.web.pages.sessions.related import Child, children
from periplus.web.sessions.facts import title_of
from periplus.web.sessions.timeline import step_item
from periplus.web.sessions.values import FULL, Item

RAW_CHARACTERS_MAX: Final = 40_000


class StepValues(NamedTuple):
    """``raw`` are the lines of the step in the listing of its trail."""

    id: str
    title: str
    item: Item
    total: int
    earlier: str
    later: str
    place: str
    raw: str
    child: Child | None


def step(asked: Asked) -> View:
    """Show step N."""
    one, number = opened(asked, asked.path["id"]), number_in(asked, "number")
    about = overview(asked, one)
    item = step_item(one.source, number, FULL)
    base, count = address_of(one.id), about.totals.steps
    parts = children(asked.project, one.trail) if item.child and one.trail is not None else ()
    child = next((child for child in parts if child.digest == item.child), None)
    values = StepValues(
        one.id, title_of(one.source, about), item, count, f"{base}/step/{number - 1}" if number else "",
        f"{base}/step/{number + 1}" if number + 1 < count else "", f"{base}?from={window_start(number)}#s{number}",
        _raw(one, number), child,
    )  # fmt: skip
    return View(
        "sessions/step.html",
        f"Step {number:,} of {values.title}",
        {"page": values},
        f"periplus trail show {one.id} --at {number} --form verbose",
    )


def _raw(one: Opened, number: int) -> str:
    from periplus.trail.listings.step_listing import step_lines
    from periplus.trail.listings.value_text import View as Shown

    for moment in one.source.moments():
        if moment.number == number:
            return "\n".join(step_lines(number, moment.step, Shown()))[:RAW_CHARACTERS_MAX]
    return ""
