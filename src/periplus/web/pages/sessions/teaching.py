"""Memory that a session taught, or one step of it: asked for by itself, because all memory is searched for it."""

from __future__ import annotations

__all__ = ["teaching"]

from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.model import Asked, View
from periplus.web.pages.sessions.opened import opened, overview
from periplus.web.pages.sessions.related import TaughtRow, journal_mark, taught
from periplus.web.sessions.facts import title_of

_STEP_MAX: Final = 10**9


class Teaching(NamedTuple):
    id: str
    title: str
    step: int | None
    rows: tuple[TaughtRow, ...]


def teaching(asked: Asked) -> View:
    """List the memory that names the session as evidence or was written in it; with ``?step=N`` what names that step."""
    one = opened(asked, asked.path["id"])
    rows: tuple[TaughtRow, ...] = ()
    if one.trail is not None:
        trail = one.trail
        key = ("session taught", trail.item_id, journal_mark(asked.project))
        rows = asked.context.cache.get(key, lambda: taught(asked.project, trail))
    step = asked.query.number("step", 0, most=_STEP_MAX) if asked.query.text("step") else None
    if step is not None:
        rows = tuple(row for row in rows if step in row.steps)
    title = title_of(one.source, overview(asked, one))
    return View(
        "sessions/teaching.html",
        f"Taught by {title}",
        {"page": Teaching(one.id, title, step, rows)},
        f"periplus show {one.id}",
    )
