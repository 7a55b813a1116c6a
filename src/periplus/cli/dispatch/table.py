"""The board of a dispatch as lines of text, on a terminal, in a pipe, and in `watch`."""

from __future__ import annotations

__all__ = [
    "board_lines",
    "heading_lines",
    "money_text",
    "question_lines",
    "row_lines",
    "spent_text",
    "time_text",
    "tokens_text",
]

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Palette, columns, visible

if TYPE_CHECKING:
    from periplus.dispatch.reports.board import Board, Heading, OpenQuestion, Row

_NARROW: Final = 90  # below this a step takes two lines
_HEAD: Final = f"{'#':>3}  {'state':10} {'agent':12} {'tokens':>6} {'money':>7} {'time':>6}  "
_TEXT_MIN: Final = 16  # columns; a text with less room gets a line of its own
_STEP_SHARE: Final = 0.5
_GOOD: Final = frozenset({"integrated", "done", "verified", "reviewed"})
_BAD: Final = frozenset({"failed", "timed_out", "left"})
_WARN: Final = frozenset({"waiting", "blocked", "taken"})


def board_lines(board: Board, palette: Palette, width: int | None) -> Iterator[str]:
    """Yield the lines of a whole board; with ``width`` none is longer."""
    yield from heading_lines(board.heading, palette, width)
    yield column_line(palette, width)
    for row in board.rows:
        yield from row_lines(row, palette, width)
    if not board.rows:
        yield visible("     no steps", width)
    yield from question_lines(board.questions, palette, width)


def column_line(palette: Palette, width: int | None) -> str:
    """Return the names of the columns; on a narrow terminal those of the first of two lines."""
    head = f"{_HEAD}step" if width is None or width >= _NARROW else f"{'#':>3}  {'state':10} agent"
    return f"{palette.dim}{visible(head, width)}{palette.end}"


def heading_lines(heading: Heading, palette: Palette, width: int | None) -> Iterator[str]:
    """Yield two lines about a dispatch as a whole, or three on a narrow terminal."""
    state = heading.state
    if state == "open":
        state = {True: "running", False: "open, no supervisor", None: "open"}[heading.is_carried]
    colour = palette.warn if state.endswith("supervisor") else palette.good if state == "done" else ""
    shown = f"{colour}{state}{palette.end if colour else ''}"
    room = width - len(heading.dispatch) - len(state) - 4 if width else None
    if room is not None and room < _TEXT_MIN:
        yield f"{palette.name}{visible(heading.dispatch, width)}{palette.end}"
        yield visible(f"  {state}: {_one_line(heading.text)}", width)
    else:
        yield f"{palette.name}{heading.dispatch}{palette.end} {shown}: {_one_line(heading.text, room)}"
    sums = heading.sums
    counts = ", ".join(f"{count} {name or 'to do'}" for name, count in sorted(sums.states.items())) or "no steps"
    spent = spent_text(sums.tokens, sums.cost, sums.wall_ms)
    why = f"; {' '.join(heading.reason.split())}" if heading.reason else ""
    yield visible(
        f"  {counts}{'; ' if spent else ''}{spent}; {', '.join(heading.agents)} for {heading.target or '-'}{why}", width
    )


def row_lines(row: Row, palette: Palette, width: int | None, *, elapsed_ms: int = 0) -> Iterator[str]:
    """Yield one line for a step, or two on a narrow terminal; ``elapsed_ms`` is added to the time of a run that goes on."""
    wall_ms = row.wall_ms + (elapsed_ms if row.is_going else 0)
    colour = (
        palette.good
        if row.state in _GOOD
        else palette.bad
        if row.state in _BAD
        else palette.warn
        if row.state in _WARN
        else ""
    )
    state = f"{colour}{visible(row.state, 10):10}{palette.end if colour else ''}"
    agent = _padded(row.agent, 12)
    act = row.act or (f"waits for {', '.join(row.waits_for)}" if row.waits_for else "")
    if row.rounds and row.state != "integrated":
        act = f"round {row.rounds + 1}: {act}"
    if row.attempt > 1:
        act = f"attempt {row.attempt}, {act}" if act else f"attempt {row.attempt}"
    if width is not None and width < _NARROW:
        yield f"{row.number:>3}  {state} {visible(row.agent, max(1, width - 16))}".rstrip()
        spent = " ".join(filter(None, (tokens_text(row.tokens), money_text(row.cost), time_text(wall_ms))))
        told = visible(
            " ".join(filter(None, (_one_line(row.text), act))), max(1, width - 5 - (len(spent) + 2 if spent else 0))
        )
        yield f"     {told}{f'  {palette.dim}{spent}{palette.end}' if spent else ''}"
        return
    head = f"{row.number:>3}  {state} {agent} {tokens_text(row.tokens):>6} {money_text(row.cost):>7} {time_text(wall_ms):>6}  "
    if width is None:
        yield f"{head}{_one_line(row.text)}{f'  ({visible(act)})' if act else ''}"
        return
    room = width - len(_HEAD)
    step = _one_line(row.text, max(10, int(room * _STEP_SHARE)) if act else room)
    left = room - columns(step) - 2
    yield f"{head}{step}{f'  {palette.dim}{visible(act, left)}{palette.end}' if act and left > 3 else ''}"


def question_lines(questions: Sequence[OpenQuestion], palette: Palette, width: int | None) -> Iterator[str]:
    for one in questions:
        asks = f"{visible(one.asker) if one.asker else 'the merge queue'} asks: "
        room = width - len(one.question) - columns(asks) - 4 if width else None
        if room is not None and room < _TEXT_MIN:
            yield f"{palette.warn}?{palette.end} {palette.name}{visible(one.question, width and width - 2)}{palette.end}"
            yield visible(f"  {asks}{_one_line(one.text)}", width)
        else:
            yield f"{palette.warn}?{palette.end} {palette.name}{one.question}{palette.end} {asks}{_one_line(one.text, room)}"
        if one.options:
            yield visible(f"    one of: {', '.join(one.options)}", width)
        yield visible(f'    periplus dispatch answer {one.question} "…"', width)


def spent_text(tokens: int, cost: int, wall_ms: int) -> str:
    """Format what was spent, without what is nothing."""
    parts = (f"{tokens_text(tokens)} tokens" if tokens else "", money_text(cost), time_text(wall_ms))
    return ", ".join(part for part in parts if part)


def tokens_text(count: int) -> str:
    """Format a number of tokens in at most six characters; nothing for none."""
    if count < 1_000:
        return str(count) if count else ""
    for unit, size in (("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)):
        if count < 999.5 * size:
            return f"{count / size:.1f}{unit}" if count < 99.95 * size else f"{count / size:.0f}{unit}"
    return f"{count / 1e12:.1f}T"


def money_text(cost: int) -> str:
    """Format an amount in millionths of a dollar; nothing for none."""
    return f"${cost / 1e6:,.2f}" if cost >= 5_000 else f"${cost / 1e6:.4f}" if cost else ""


def time_text(ms: int) -> str:
    """Format a duration in at most six characters; nothing below a second."""
    seconds = ms // 1000
    if seconds < 60:
        return f"{seconds}s" if seconds else ""
    minutes = seconds // 60
    if minutes < 60:
        return f"{minutes}m{seconds % 60:02d}s"
    return f"{minutes // 60}h{minutes % 60:02d}m" if minutes < 6_000 else f"{minutes // 1440}d"


def _one_line(text: str, width: int | None = None) -> str:
    return visible(" ".join(text.split()), max(1, width) if width is not None else None)


def _padded(text: str, width: int) -> str:
    shown = visible(text, width)
    return shown + " " * (width - columns(shown))
