"""The rows as a table for a terminal, as Markdown, and as the JSON that is kept."""

from __future__ import annotations

__all__ = ["Result", "markdown", "plain", "to_json"]

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from bench.machine import Machine
from bench.measure import Figure, Row

SCHEMA: Final = "periplus.bench/1"
_ARROWS: Final = {"higher": "↑", "lower": "↓"}
_NOTE: Final = (
    "× is ours ÷ baseline; ↑ more is better, ↓ less is better; in brackets the lowest and highest of a round."
)


class Result(NamedTuple):
    started: str
    seconds: float
    is_quick: bool
    load_before: tuple[float, float, float]
    load_after: tuple[float, float, float]
    notes: tuple[str, ...]
    machine: Machine
    rows: tuple[Row, ...]


def to_json(result: Result) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        **result._asdict(),
        "machine": result.machine._asdict(),
        "rows": [
            {**row._asdict(), "ours": row.ours._asdict(), "baseline": row.baseline._asdict()} for row in result.rows
        ],
    }


def plain(result: Result) -> Iterator[str]:
    """The table in columns, a heading for each part."""
    cells = [_cells(row) for row in result.rows]
    widths = [max((len(line[at]) for line in cells), default=0) for at in range(5)]
    part = ""
    for row, (what, ours, ratio, baseline, name) in zip(result.rows, cells, strict=True):
        if row.part != part:
            part = row.part
            yield part
        yield (
            f"  {what:<{widths[0]}}  {ours:>{widths[1]}}  {ratio:>{widths[2]}}  {baseline:>{widths[3]}}  {name}"
        ).rstrip()
    yield ""
    yield _NOTE
    yield from _facts(result)


def markdown(result: Result) -> Iterator[str]:
    """The same as a page of documentation."""
    yield "# Benchmarks"
    yield ""
    yield "Each number stands beside a baseline that was measured in the same run, in turn with ours. Run it with"
    yield f"`make bench`. {_NOTE}"
    for part in dict.fromkeys(row.part for row in result.rows):
        yield from ("", f"## {part.capitalize()}", "", "| what | ours | × | baseline | measured against |")
        yield "|---|--:|--:|--:|---|"
        for row in result.rows:
            if row.part == part:
                yield f"| {' | '.join(_cells(row))} |"
    yield from ("", "## Measured on", "")
    for fact in _facts(result):
        yield f"- {fact}"


def _facts(result: Result) -> Iterator[str]:
    on = result.machine
    yield f"{on.cpu}, {on.cores} cores; {on.kernel}, {on.file_system}; {on.python}, SQLite {on.sqlite}"
    changed = " with changes" if on.has_changes else ""
    yield f"commit {on.commit[:12]}{changed}; {result.started}, {result.seconds:.0f} s{', quick' if result.is_quick else ''}"
    yield f"load average {result.load_before[0]:.2f} before, {result.load_after[0]:.2f} after"
    yield from result.notes


def _cells(row: Row) -> tuple[str, str, str, str, str]:
    return (
        row.what,
        f"{_shown(row.ours, row.unit)} {_ARROWS[row.better]}",
        f"{_number(row.ratio)} ×",
        _shown(row.baseline, row.unit),
        row.baseline_name,
    )


def _shown(found: Figure, unit: str) -> str:
    if not unit:
        return f"{found.value:,.0f}"
    between = "" if found.low == found.high else f" ({_number(found.low)} … {_number(found.high)})"
    return f"{_number(found.value)}{'' if unit.startswith('/') else ' '}{unit}{between}"


def _number(value: float) -> str:
    """Three digits that count, and thousands apart."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"
