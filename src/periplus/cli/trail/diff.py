"""``periplus trail diff``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.cli.common.face import Face, counted, number, visible
from periplus.cli.trail.inputs import guarded, named_trail, trail_readers
from periplus.cli.trail.step_selection import add_filters, selection_of

if TYPE_CHECKING:
    from periplus.cli.trail.schemas import DiffSideOut
    from periplus.project import TrailFile
    from periplus.trail import OperandValue, Selection, TrailReader
    from periplus.trail.listings.comparison import Difference, HeaderChange, Line
    from periplus.trail.listings.value_text import Piece, View

_JSON_LINES_MAX: Final = 10_000
_STYLES: Final = {" ": "plain", "-": "bad", "+": "good", "~": "changed"}


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("first", metavar="A", help="an id, a digest (or a prefix of either), or a file")
    add("second", metavar="B", help="the trail to compare with")
    add(
        "--context",
        type=number(0, 1000),
        default=3,
        metavar="N",
        help="equal steps to show around a difference (default: 3)",
    )
    add("--results", action="store_true", help="also compare the results of steps")
    add(
        "--no-pager",
        action="store_true",
        help="do not page long output (default: use PAGER, or less)",
    )
    add_filters(parser, steps=False)


class _Side(NamedTuple):
    found: TrailFile
    readers: tuple[TrailReader, ...]

    @property
    def digest(self) -> bytes:
        from periplus.trail import Parts

        return self.readers[0].digest if len(self.readers) == 1 else Parts(self.found.data).digest


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.common.pager import page
    from periplus.trail.listings.comparison import compare, header_changes

    selection = selection_of(arguments)
    first, second = (_side(face, name) for name in (arguments.first, arguments.second))
    found = compare(first.readers, second.readers, selection=selection, results=arguments.results)
    changes = list(header_changes(first.readers, second.readers)) if not selection.is_choosy else []
    is_same = first.digest == second.digest and _is_what_it_says(first) and _is_what_it_says(second)
    has_parted = not found.is_equal or bool(changes) or len(first.readers) != len(second.readers)
    is_equal = is_same or not (has_parted or found.unknown)
    if face.as_json:
        _emit(face, arguments, first, second, found, changes, selection, is_same=is_same, is_equal=is_equal)
    else:
        lines = _lines(face, arguments, first, second, found, changes, selection, is_same=is_same)
        page(face, guarded(lines, first.found), is_wanted=not arguments.no_pager)
    return 0 if is_equal else 1


def _side(face: Face, name: str) -> _Side:
    found, _ = named_trail(face, name)
    return _Side(found, trail_readers(found))


def _is_what_it_says(side: _Side) -> bool:
    return all(reader.computed_identity() == reader.stored_identity for reader in side.readers)


# Text


def _lines(
    face: Face,
    arguments: argparse.Namespace,
    first: _Side,
    second: _Side,
    found: Difference,
    changes: list[HeaderChange],
    selection: Selection,
    *,
    is_same: bool,
) -> Iterator[str]:
    from periplus.trail.listings.comparison import lines_of
    from periplus.trail.listings.value_text import View, line_of

    view = View(face.width, bool(face.palette.bold))
    if is_same:
        yield "The same trail: equal digests" + _hidden(first, second)
        return
    for mark, side in (("-", first), ("+", second)):
        steps = sum(reader.step_count for reader in side.readers)
        told = f"{mark * 3} {visible(side.found.name)}  {steps:,} steps  digest {side.digest.hex()[:16]}…"
        yield line_of([(_STYLES[mark], told)], view)
    if len(first.readers) != len(second.readers):
        yield f"  parts      {len(first.readers)} → {len(second.readers)}"
    for change in changes:
        label = f"{change.name} of part {change.part + 1}" if len(first.readers) > 1 else change.name
        yield line_of(
            [("dim", f"  {label:<12} "), ("plain", f"{_value(change.a, view)} → {_value(change.b, view)}")], view
        )
    has_parts = max(len(first.readers), len(second.readers)) > 1
    parted: Line | None = None
    shown = lines_of(found, first.readers, second.readers, selection=selection, context=arguments.context)
    for line in shown:
        if line is None:
            yield line_of([("name", "@@")], view)
            continue
        parted = parted or (line if line.mark != " " else None)
        yield line_of(_pieces(line, view, has_parts=has_parts, results=arguments.results), view)
    if parted is not None:
        places = [
            f"step {_place(at, has_parts=has_parts)} of {name}" for name, at in (("A", parted.a), ("B", parted.b)) if at
        ]
        yield f"The first difference is at {' and '.join(places)}."
    yield _summary(found, changes)


def _hidden(first: _Side, second: _Side) -> str:
    from periplus.trail.format.layout import FORM_WITHHELD

    counts = [sum(one.strings.forms.count(FORM_WITHHELD) for one in side.readers) for side in (first, second)]
    return f"; A withholds {counted(counts[0], 'strings')}, B {counts[1]:,}." if any(counts) else "."


def _summary(found: Difference, changes: list[HeaderChange]) -> str:
    parts = [f"{found.same:,} steps are the same"]
    for count, what in ((found.changed, "ended otherwise"), (found.removed, "only in A"), (found.added, "only in B")):
        if count:
            parts.append(f"{count:,} {what}")
    if changes:
        parts.append(f"{counted(len(changes), 'fields')} of the header {'differ' if len(changes) > 1 else 'differs'}")
    if found.unknown:
        parts.append(f"{found.unknown:,} cannot be compared, because both withhold strings")
    return ", ".join(parts) + "."


def _place(at: tuple[int, int] | None, *, has_parts: bool) -> str:
    if at is None:
        return ""
    return f"{at[0] + 1}:{at[1]}" if has_parts else str(at[1])


def _pieces(line: Line, view: View, *, has_parts: bool, results: bool) -> list[Piece]:
    from periplus.trail.listings.value_text import step_pieces

    style = _STYLES[line.mark]
    step = line.step_b if line.step_b is not None else line.step_a
    assert step is not None
    columns = (_place(at, has_parts=has_parts) for at in (line.a, line.b))
    head = line.mark + "".join(f"{column:>6}" for column in columns) + "  "
    if line.mark == " ":
        return [("dim", head), *step_pieces(step, view, 0)]
    if line.mark != "~":
        return [(style, head + "".join(text for _, text in step_pieces(step, view, 0)))]
    assert line.step_a is not None
    assert line.step_b is not None
    said = "; ".join(_turned(line, view, results=results))
    told = "".join(
        text for _, text in step_pieces(step._replace(outcome="ok", exit_code=None, error=None, note=None), view, 0)
    )
    return [(style, f"{head}{told}"), ("plain", "  "), ("bad", f"[{said}]")]


def _turned(line: Line, view: View, *, results: bool) -> Iterator[str]:
    a, b = line.step_a, line.step_b
    assert a is not None
    assert b is not None
    if (a.outcome, a.exit_code) != (b.outcome, b.exit_code):
        exits = [f", exit {one.exit_code}" if one.exit_code is not None else "" for one in (a, b)]
        yield f"{a.outcome}{exits[0]} → {b.outcome}{exits[1]}"
    pairs = [("error", a.error, b.error), ("note", a.note, b.note)]
    for name, was, is_now in pairs:
        if was != is_now:
            yield f"{name} {_value(was, view)} → {_value(is_now, view)}"
    if results and (a.result, a.result_size) != (b.result, b.result_size):
        yield f"result of {a.result_size:,} → {b.result_size:,} bytes"


def _value(value: OperandValue, view: View) -> str:
    from periplus.trail.listings.value_text import shown

    return "none" if value is None else shown(value, view, is_quoted=True)


# JSON


def _emit(
    face: Face,
    arguments: argparse.Namespace,
    first: _Side,
    second: _Side,
    found: Difference,
    changes: list[HeaderChange],
    selection: Selection,
    *,
    is_same: bool,
    is_equal: bool,
) -> None:
    from periplus.cli.trail.schemas import DiffFieldOut, DiffLineOut, TrailDiffOut
    from periplus.trail.listings.comparison import lines_of
    from periplus.trail.listings.step_listing import plain_step, plain_value
    from periplus.trail.listings.value_text import View

    view = View()

    lines: list[DiffLineOut] = []
    left_out = 0
    for line in lines_of(found, first.readers, second.readers, selection=selection, context=arguments.context):
        if line is None:
            continue
        if len(lines) >= _JSON_LINES_MAX:
            left_out += 1
            continue
        steps = [
            plain_step(at[1], step, view) if at is not None and step is not None else None
            for at, step in ((line.a, line.step_a), (line.b, line.step_b))
        ]
        parts = [at[0] + 1 if at is not None else None for at in (line.a, line.b)]
        lines.append(DiffLineOut(line.mark, parts[0], parts[1], steps[0], steps[1]))
    fields = [
        DiffFieldOut(change.part + 1, change.name, plain_value(change.a, view), plain_value(change.b, view))
        for change in changes
    ]
    counts = (found.same, found.changed, found.removed, found.added, found.unknown)
    sides = (_side_out(first), _side_out(second))
    face.emit(TrailDiffOut(is_equal, is_same, *sides, fields, *counts, lines, left_out), lambda: ())


def _side_out(side: _Side) -> DiffSideOut:
    from periplus.cli.trail.schemas import DiffSideOut

    steps = sum(reader.step_count for reader in side.readers)
    return DiffSideOut(side.found.name, side.digest.hex(), len(side.readers), steps)
