"""The page of a session of our own agent: the list of its steps and one of them whole, or a piece of a long text."""

from __future__ import annotations

__all__ = ["run"]

import re
import urllib.parse
from typing import TYPE_CHECKING, Final

from periplus.base.errors import DamageError, NotFoundError, UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.model import Asked, View
from periplus.web.pages.run.session_reader import Session, SessionReader, SessionReaders
from periplus.web.pages.run.step_values import PART_CHARACTERS, Part, Step
from periplus.web.pages.run.token_chart import TokenChart, token_chart

if TYPE_CHECKING:
    from periplus.web.pages.model import LiveRun

STEPS_SHOWN: Final = 100  # of the list
_KEY: Final = re.compile(r"(\d{1,9})\.(\d{1,9})", re.ASCII)
_PHASES: Final = {"idle": "ready", "ask": "the model is asked", "act": "tools run", "settle": "its answer is weighed"}
_NUMBER_MAX: Final = 10**12


class RunPage(NamedTuple):
    """All values of the page. ``is_followed``: no step was chosen, so the newest is shown. ``growing`` is the answer in progress."""

    name: str
    session: Session
    state: str
    is_live: bool
    is_followed: bool
    chosen: tuple[int, int] | None
    step: Step | None
    growing: str
    chart: TokenChart | None
    survival: str
    record: str
    problem: str
    earlier: int


def run(asked: Asked) -> View:
    """Return the page of a session. Query: ``step`` is TURN.STEP, ``from`` the first step of the list, ``earlier`` a page of
    its messages, ``what`` (with ``place`` and
    ``start``) a text of the step to be shown whole. Raises NotFoundError, DamageError.
    """
    name = asked.path["session"]
    chosen = _key(asked.query.text("step"))
    reader, problem = _reader(asked, name)
    if asked.query.text("what"):
        return _text(asked, reader, chosen)
    is_followed = chosen is None
    shown = chosen or reader.newest()
    first = asked.query.number("from", 0, most=_NUMBER_MAX) if asked.query.text("from") else None
    held = reader.overview(STEPS_SHOWN, first, chosen)
    earlier = asked.query.number("earlier", 0, most=_NUMBER_MAX)
    live = asked.context.run if _is_live(asked.context.run, name) else None
    is_pending = held.pending is not None and shown == held.pending
    page = RunPage(
        name, held, _state(held, is_live=live is not None), live is not None, is_followed, shown,
        reader.step(asked.project, *shown, earlier) if shown is not None else None, live.growing_text() if live is not None and is_pending else "",
        token_chart(held.calls), _percent(held.survival), _record(name), problem, earlier,
    )  # fmt: skip
    return View(
        "run/session.html", held.title or name, {"page": page, "percent": _percent, "seconds": _seconds, "price": _price},
        f"periplus run --stats {_quoted(name)}",
    )  # fmt: skip


# -- inside ------------------------------------------------------------------------------------------------------------


def _reader(asked: Asked, name: str) -> tuple[SessionReader, str]:
    """Return the reader, up to date, and what is wrong where it could be read only in part."""
    readers = asked.context.cache.get("readers of sessions", SessionReaders)
    reader = readers.reader(asked.project.journal.lineage, name)
    try:
        has_episodes = reader.refresh(asked.project)
    except DamageError as error:
        if reader.newest() is None:
            raise
        return reader, f"{error} {error.safe} {error.mend}".strip()
    if not has_episodes and not _is_live(asked.context.run, name):
        raise NotFoundError(f"the agent has no session {name[:80]!r}", mend="See `periplus run --list`.")
    return reader, ""


def _is_live(live: LiveRun | None, name: str) -> bool:
    return live is not None and live.session == name


def _text(asked: Asked, reader: SessionReader, chosen: tuple[int, int] | None) -> View:
    if chosen is None:
        raise UsageError("step must be TURN.STEP, such as 1.2")
    query = asked.query
    place, start = query.number("place", 0, most=_NUMBER_MAX), query.number("start", 0, most=_NUMBER_MAX)
    part: Part = reader.part(asked.project, *chosen, query.text("what"), place, start)
    before = max(0, start - PART_CHARACTERS)
    values = {"part": part, "name": reader.name, "chosen": chosen, "what": query.text("what"), "before": before}
    return View("run/text.html", f"{query.text('what')} of step {chosen[0]}.{chosen[1]}", values)


def _key(text: str) -> tuple[int, int] | None:
    """Return turn and step; None for an empty text. Raises UsageError for any other."""
    if not text:
        return None
    found = _KEY.fullmatch(text)
    if found is None:
        raise UsageError(f"step must be TURN.STEP, such as 1.2, not {text[:40]!r}")
    return int(found[1]), int(found[2])


def _state(session: Session, *, is_live: bool) -> str:
    if is_live:
        return _PHASES.get(session.phase, session.phase)
    return "from the store" if session.phase == "idle" else "not over"


def _record(name: str) -> str:
    from periplus.memory.claim_status import session_id

    return f"/memory/{urllib.parse.quote(session_id(name), safe='')}"


def _percent(millionths: int | None) -> str:
    return f"{millionths / 1e4:.1f} %" if millionths is not None else "–"


def _seconds(milliseconds: int | None) -> str:
    return f"{milliseconds / 1000:.{2 if milliseconds < 10_000 else 1}f} s" if milliseconds is not None else "–"


def _price(millionths: int | None) -> str:
    return f"${millionths / 1e6:.4f}" if millionths is not None else "price not known"


def _quoted(name: str) -> str:
    import shlex

    return shlex.quote(name)
