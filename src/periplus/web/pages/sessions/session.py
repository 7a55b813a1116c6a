"""One session: facts, outline, timeline in windows of steps, search inside, what it asked of memory."""

from __future__ import annotations

__all__ = ["session"]

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.model import Asked, Done, View
from periplus.web.pages.sessions.opened import WINDOW_STEPS, Opened, address_of, opened, overview, window_start
from periplus.web.pages.sessions.related import Child, children, journal_mark
from periplus.web.sessions.facts import Fact, facts_of, title_of
from periplus.web.sessions.overview import Overview
from periplus.web.sessions.search import Found, search
from periplus.web.sessions.timeline import timeline
from periplus.web.sessions.values import IN_PAGE, Item

if TYPE_CHECKING:
    from collections.abc import Mapping

OTHERS_SHOWN: Final = 30
_BAR_WIDTH: Final = 6
_BAR_HEIGHT: Final = 48


class Bar(NamedTuple):
    """Tokens of some model calls as a bar: heights from the bottom, in the units of the picture."""

    x: int
    cached: int
    fresh: int
    title: str
    address: str


class Command(NamedTuple):
    name: str
    text: str


class Choice(NamedTuple):
    id: str
    title: str


class SessionValues(NamedTuple):
    """``first`` to ``end`` are the steps of this window; ``earlier`` and ``later`` are the addresses of those beside it."""

    id: str
    title: str
    is_live: bool
    parent: str
    facts: tuple[Fact, ...]
    overview: Overview
    items: tuple[Item, ...]
    first: int
    end: int
    total: int
    earlier: str
    later: str
    question: str
    found: Found | None
    bars: tuple[Bar, ...]
    children: tuple[Child, ...]
    child_of: Mapping[str, Child]
    others: tuple[Choice, ...]
    commands: tuple[Command, ...]
    skipped_of_hooks: int


def session(asked: Asked) -> View | Done:
    """Show a window of a session; ``?from=STEP`` chooses it, ``?q=`` searches in the whole session."""
    one = opened(asked, asked.path["id"])
    if one.id != asked.path["id"]:
        return Done(address_of(one.id), "")
    about = overview(asked, one)
    count = about.totals.steps
    last = window_start(max(count - 1, 0))
    first = asked.query.number("from", last if one.is_live else 0, most=max(count - 1, 0))
    end = min(first + WINDOW_STEPS, count)
    question = asked.query.text("q")
    parts = _children(asked, one)
    values = SessionValues(
        one.id, title_of(one.source, about), one.is_live, one.parent, tuple(_facts(one, about)), about,
        tuple(timeline(one.source, IN_PAGE, first, end)), first, end, count,
        asked.link(**{"from": max(0, first - WINDOW_STEPS)}) if first else "", asked.link(**{"from": end}) if end < count else "",
        question, search(one.source, question) if question else None, tuple(_bars(one.id, about)), parts,
        {child.digest: child for child in parts}, _others(asked, one.id),
        tuple(_commands(one)), _skipped_of_hooks(one),
    )  # fmt: skip
    return View("sessions/session.html", values.title, {"page": values}, f"periplus trail show {one.id}")


def _children(asked: Asked, one: Opened) -> tuple[Child, ...]:
    """Return the subagents of a session, kept until the journal changes."""
    trail = one.trail
    if trail is None:
        return ()
    key = ("session parts", trail.item_id, journal_mark(asked.project))
    return asked.context.cache.get(key, lambda: children(asked.project, trail))


def _facts(one: Opened, about: Overview) -> Iterator[Fact]:
    card = one.trail.value if one.trail is not None else {}
    for fact in facts_of(one.source, about):
        if one.is_live and fact.name in ("Ended", "Digest"):
            continue
        yield fact
        if fact.name == "Ended":
            more = (("Branch", card.get("branch")), ("Format", card.get("format")))
            yield from (Fact(name, text[:200]) for name, text in more if isinstance(text, str) and text)


def _skipped_of_hooks(one: Opened) -> int:
    skipped = one.trail.value.get("skipped") if one.trail is not None else None
    count = skipped.get("text of a hook") if isinstance(skipped, dict) else 0
    return count if isinstance(count, int) else 0


def _bars(item_id: str, about: Overview) -> Iterator[Bar]:
    most = max((one.usage.given for one in about.costs), default=0)
    for place, one in enumerate(about.costs if most and len(about.costs) > 1 else ()):
        usage = one.usage
        cached, fresh = (round(_BAR_HEIGHT * part / most) for part in (usage.cached, usage.fresh))
        title = (
            f"from step {one.number:,}: {usage.given:,} tokens in, {usage.cached_percent} % cached, {usage.out:,} out"
        )
        yield Bar(
            place * _BAR_WIDTH,
            cached,
            fresh,
            title,
            f"{address_of(item_id)}?from={window_start(one.number)}#s{one.number}",
        )


def _others(asked: Asked, item_id: str) -> tuple[Choice, ...]:
    """Return other sessions to compare with, the newest first."""
    rows = asked.context.cache.get(
        ("sessions to compare", journal_mark(asked.project)),
        lambda: asked.project.session_page(size=OTHERS_SHOWN + 1).rows,
    )
    others = [Choice(row.id, f"{row.started[:10]} {row.agent}: {row.title}"[:90]) for row in rows if row.id != item_id]
    return tuple(others[:OTHERS_SHOWN])


def _commands(one: Opened) -> Iterator[Command]:
    if one.is_live:
        yield Command("End it and make its trail", f"periplus trail seal {one.id}")
        return
    yield Command("Share as one file", f"periplus trail export {one.id} --format html --with-trail --out {one.id}.html")
    yield Command("Verify", f"periplus trail verify {one.id}")
    yield Command("Redact before sharing", f"periplus trail redact {one.id} --secrets --out {one.id}.pplt")
    yield Command("Replay without effects", f"periplus trail replay {one.id}")
    yield Command("Propose memory from it", f"periplus reflect {one.id}")
