"""Commits as rows with lanes, as ``git log --graph`` draws them."""

from __future__ import annotations

__all__ = ["COMMITS_MAX", "Commit", "commit_lanes"]

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.web.rendering.svg import attribute, css_class, fitting, local_address, number, text_width

if TYPE_CHECKING:
    from markupsafe import Markup

COMMITS_MAX: Final = 300
_LANES_MAX: Final = 16
_COLOURS: Final = 6
_ROW, _LANE, _MARGIN, _RADIUS = 28.0, 16.0, 12.0, 4.5
_FONT: Final = 12.0
_TEXT_WIDTH: Final = 430.0
_NOTE_WIDTH: Final = 220.0


class Commit(NamedTuple):
    """``parents`` are ids, the first one that of the same line of work. ``kind`` gives the class ``commit-KIND``: a plain word of ours."""

    id: str
    text: str
    parents: tuple[str, ...] = ()
    note: str = ""
    href: str = ""
    kind: str = "plain"
    title: str = ""


class _Edge(NamedTuple):
    """A line from a row to that of a parent (the number of rows where it is not drawn), through ``lane`` in between."""

    row: int
    lane: int
    parent_row: int


def commit_lanes(commits: Iterable[Commit], *, label: str, more: int = 0) -> Markup:
    """Return a ``<figure>`` of the commits, which stand before their parents; ``more`` counts those that the caller left out."""
    from markupsafe import Markup

    every = list({one.id: one for one in commits}.values())
    shown = every[:COMMITS_MAX]
    lane_of, edges = _lanes(shown)
    lanes = max([*lane_of, *(one.lane for one in edges)], default=0) + 1
    left = 2 * _MARGIN + lanes * _LANE
    width, height = left + _TEXT_WIDTH + _NOTE_WIDTH, _ROW * max(1, len(shown))
    role = "group" if any(local_address(one.href) for one in shown) else "img"
    pieces = [
        (
            f'<figure class="picture lanes"><div class="scroll" tabindex="0" role="region" aria-label="{attribute(label)}">'
            f'<svg class="graph" width="{number(width)}" height="{number(height)}" viewBox="0 0 {number(width)} {number(height)}" '
            f'role="{role}" aria-label="{attribute(label)}">'
        )
    ]
    pieces += [_line(one, lane_of, len(shown)) for one in edges]
    for row, (commit, lane) in enumerate(zip(shown, lane_of, strict=True)):
        pieces += _row(commit, row, lane, left)
    pieces.append("</svg></div>")
    missing = len(every) - len(shown) + more
    if missing:
        pieces.append(
            f"<figcaption>{missing:,} older {'one is' if missing == 1 else 'ones are'} not drawn</figcaption>"
        )
    pieces.append("</figure>")
    return Markup("".join(pieces))  # noqa: S704  (each piece is ours or escaped)


def _lanes(commits: Sequence[Commit]) -> tuple[list[int], list[_Edge]]:
    """Return the lane of each commit and the lines to its parents. What comes in one lane too many shares the last."""
    rows = {one.id: row for row, one in enumerate(commits)}
    waiting: list[str] = []  # of each lane the commit that it leads to, empty where it is free
    lane_of: list[int] = []
    edges: list[_Edge] = []
    for row, commit in enumerate(commits):
        lane = _lane_for(waiting, commit.id)
        lane_of.append(lane)
        waiting = ["" if one == commit.id else one for one in waiting]
        for place, parent in enumerate(dict.fromkeys(commit.parents)):
            below = rows.get(parent, len(commits))
            if below <= row:
                continue  # not in order: a line upwards would lie
            if place == 0 and parent not in waiting and not waiting[lane]:
                waiting[lane] = parent
            edges.append(_Edge(row, _lane_for(waiting, parent), below))
    return lane_of, edges


def _lane_for(waiting: list[str], commit: str) -> int:
    """Return the lane that leads to ``commit``, or the first free one, which then does."""
    if commit not in waiting:
        if "" in waiting:
            waiting[waiting.index("")] = commit
        elif len(waiting) < _LANES_MAX:
            waiting.append(commit)
        else:
            return _LANES_MAX - 1
    return waiting.index(commit)


def _line(edge: _Edge, lane_of: Sequence[int], count: int) -> str:
    x, y = _middle(lane_of[edge.row], edge.row)
    through, _ = _middle(edge.lane, 0)
    path = f"M{number(x)} {number(y)}"
    at = y
    if through != x:
        at = y + _ROW
        path += f"C{number(x)} {number(y + _ROW / 2)} {number(through)} {number(y + _ROW / 2)} {number(through)} {number(at)}"
    if edge.parent_row == count:
        path += f"V{number(max(at, count * _ROW))}"
    else:
        end, bottom = _middle(lane_of[edge.parent_row], edge.parent_row)
        if end == through or at >= bottom:
            path += f"V{number(bottom)}"
        else:
            path += f"V{number(bottom - _ROW)}C{number(through)} {number(bottom - _ROW / 2)} {number(end)} {number(bottom - _ROW / 2)} {number(end)} {number(bottom)}"
    return f'<path class="lane lane-{edge.lane % _COLOURS}" d="{path}"/>'


def _middle(lane: int, row: int) -> tuple[float, float]:
    return _MARGIN + _LANE / 2 + lane * _LANE, row * _ROW + _ROW / 2


def _row(commit: Commit, row: int, lane: int, left: float) -> Iterator[str]:
    x, y = _middle(lane, row)
    address = local_address(commit.href)
    yield f'<a href="{attribute(address)}"' if address else "<g"
    yield f' class="commit commit-{css_class(commit.kind)}"><title>'
    yield attribute(commit.title or " — ".join(one for one in (commit.text, commit.note) if one))
    yield f'</title><circle class="lane-{lane % _COLOURS}" cx="{number(x)}" cy="{number(y)}" r="{number(_RADIUS)}"/>'
    text = fitting(commit.text, _FONT, _TEXT_WIDTH)
    yield f'<text x="{number(left)}" y="{number(y + 4)}">{attribute(text)}</text>'
    if commit.note:
        at = left + min(_TEXT_WIDTH, text_width(text, _FONT)) + _LANE
        yield f'<text class="note" x="{number(at)}" y="{number(y + 4)}">{attribute(fitting(commit.note, _FONT, _NOTE_WIDTH))}</text>'
    yield "</a>" if address else "</g>"
