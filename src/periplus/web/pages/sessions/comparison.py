"""Two sessions compared: the steps that both have, and those that only one has or that ended otherwise."""

from __future__ import annotations

__all__ = ["compare_sessions"]

from itertools import islice
from typing import TYPE_CHECKING, Final

from periplus.base.errors import UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.model import Asked, View
from periplus.web.pages.sessions.opened import Opened, address_of, opened, overview
from periplus.web.sessions.facts import title_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from periplus.trail.listings.comparison import Difference, Line

ROWS_MAX: Final = 400
CONTEXT_MAX: Final = 20
_LINE_COLUMNS: Final = 200


class Side(NamedTuple):
    id: str
    title: str
    address: str
    steps: int


class Row(NamedTuple):
    """A step of one session or of both; ``mark`` is empty for steps that are left out. ``turned`` says how its ends differ."""

    mark: str
    a: int | None
    b: int | None
    text: str
    turned: str = ""


class HeaderRow(NamedTuple):
    name: str
    a: str
    b: str


class Comparison(NamedTuple):
    a: Side
    b: Side
    same: int
    changed: int
    removed: int
    added: int
    unknown: int
    headers: tuple[HeaderRow, ...]
    rows: tuple[Row, ...]
    has_more: bool


def compare_sessions(asked: Asked) -> View:
    """Compare session ``a`` with session ``b``. Raises UsageError where one is not named."""
    from periplus.trail.listings.comparison import compare, header_changes, lines_of

    names = [asked.query.text(name) for name in ("a", "b")]
    if not all(names):
        raise UsageError("a comparison needs two sessions", mend="Choose the second on the page of the first.")
    first, second = (opened(asked, name) for name in names)
    pair = (first.source.readers, second.source.readers)
    found: Difference = asked.context.cache.get(("session comparison", first.mark, second.mark), lambda: compare(*pair))
    context = asked.query.number("context", 2, most=CONTEXT_MAX)
    lines = lines_of(found, *pair, context=context)
    rows = list(map(_row, islice(lines, ROWS_MAX + 1)))
    headers = [HeaderRow(one.name, _value(one.a), _value(one.b)) for one in islice(header_changes(*pair), 40)]
    values = Comparison(
        _side(asked, first), _side(asked, second), found.same, found.changed, found.removed, found.added, found.unknown,
        tuple(headers), tuple(rows[:ROWS_MAX]), len(rows) > ROWS_MAX,
    )  # fmt: skip
    return View(
        "sessions/compare.html", "Two sessions", {"page": values}, f"periplus trail diff {first.id} {second.id}"
    )


def _side(asked: Asked, one: Opened) -> Side:
    about = overview(asked, one)
    return Side(one.id, title_of(one.source, about), address_of(one.id), about.totals.steps)


def _value(value: object) -> str:
    from periplus.interop.exports.trail_source import text_of

    return text_of(value)[:_LINE_COLUMNS]  # type: ignore[arg-type]  # a status is a text


def _row(line: Line | None) -> Row:
    from periplus.trail.listings.value_text import View as Shown
    from periplus.trail.listings.value_text import line_of, step_pieces

    if line is None:
        return Row("", None, None, "")
    step = line.step_b if line.step_b is not None else line.step_a
    assert step is not None
    if line.mark == "~":
        step = step._replace(outcome="ok", exit_code=None, error=None, note=None)
    text = line_of(step_pieces(step, Shown(_LINE_COLUMNS), 0), Shown(_LINE_COLUMNS))
    return Row(line.mark, line.a[1] if line.a else None, line.b[1] if line.b else None, text, "; ".join(_turned(line)))


def _turned(line: Line) -> Iterator[str]:
    a, b = line.step_a, line.step_b
    if line.mark != "~" or a is None or b is None:
        return
    if (a.outcome, a.exit_code) != (b.outcome, b.exit_code):
        yield " → ".join(
            f"{one.outcome}{f', exit {one.exit_code}' if one.exit_code is not None else ''}" for one in (a, b)
        )
    if a.error != b.error:
        yield "another error"
    if a.note != b.note:
        yield "another note"
