"""Events of a dispatch as lines of text."""

from __future__ import annotations

__all__ = ["event_line", "how_to_answer", "is_told"]

from typing import TYPE_CHECKING

from periplus.cli.common.face import Palette, visible
from periplus.cli.dispatch.table import spent_text

if TYPE_CHECKING:
    from periplus.dispatch.reports.events import Event

_GOOD = frozenset({"integrated", "done", "verified", "reviewed"})
_BAD = frozenset({"failed", "timed_out", "stopped"})


def event_line(event: Event, palette: Palette, width: int | None) -> str:
    """Return the line of an event: when, which step, what, by whom."""
    head = f"{event.ts[11:19]}  {f'{event.number:>3}.' if event.number else '    '} "
    what, rest = _words(event)
    colour = (
        palette.good
        if event.state in _GOOD
        else palette.bad
        if event.state in _BAD
        else palette.warn
        if event.event == "question"
        else ""
    )
    room = width - len(head) - len(what) - 2 if width else None
    if room is not None and room < 1:
        return visible(f"{head}{what}", width).rstrip()
    return f"{head}{colour}{what}{palette.end if colour else ''}  {visible(' '.join(rest.split()), room)}".rstrip()


def how_to_answer(event: Event) -> str:
    """Return the line with the command that answers an open question."""
    return f'{"":14}To answer: periplus dispatch answer {event.question} "…"'


def is_told(event: Event) -> bool:
    """Return True for an event that a person is told of; the others are steps on the way to it, for ``--json`` and ``watch``."""
    match event.event:
        case "assignment":
            return event.state not in ("integrated", "reviewed") and (event.state != "offered" or event.attempt > 1)
        case "run":
            return event.state not in ("started", "passed") and event.purpose not in ("oracle", "queue")
        case _:
            return True


def _words(event: Event) -> tuple[str, str]:
    """Return what happened, and the rest of the line."""
    spent = spent_text(event.tokens_in + event.cached + event.out, event.cost, event.wall_ms)
    match event.event:
        case "dispatch":
            return f"{'dispatch ' + event.state:24}", f"{event.dispatch}: {event.text}"
        case "assignment":
            attempt = f" (attempt {event.attempt})" if event.attempt > 1 and event.state == "offered" else ""
            return f"{event.state + attempt:24}", f"{event.agent}: {event.text}"
        case "run":
            who = event.agent or "periplus"
            return f"{event.purpose + ' ' + event.state:24}", f"{who}{f': {spent}' if spent else ''}"
        case "question":
            who = event.agent or "the merge queue"
            verb = {"open": "asks", "answered": "was answered"}.get(event.state, "was not answered")
            return f"{'question ' + event.state:24}", f"{who} {verb}: {event.text}"
        case "integrated":
            return f"{'merged ' + event.commit[:12]:24}", f"{event.agent}: {event.text}"
        case _:
            return f"{'note':24}", event.text
