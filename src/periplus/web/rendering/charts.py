"""Charts over days: numbers that the browser draws, and the same numbers as a table.

The numbers stand in a ``<script type="application/json">``, which is data: the content security policy needs no exception for it.
``static/charts.js`` draws them. Without scripts, and for screen readers, the table below says the same.
"""

from __future__ import annotations

__all__ = ["POINTS_MAX", "SERIES_MAX", "ChartKind", "Series", "chart"]

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, get_args

from periplus.web.rendering.svg import attribute, plain_line

if TYPE_CHECKING:
    from markupsafe import Markup

ChartKind: TypeAlias = Literal["bars", "lines", "stacked"]
POINTS_MAX: Final = 800
SERIES_MAX: Final = 6
_NAME_CHARACTERS_MAX: Final = 60
_TITLE_CHARACTERS_MAX: Final = 200
_UNIT_CHARACTERS_MAX: Final = 30
_OTHERS: Final = "others"


class Series(NamedTuple):
    """Values of one thing, one for each day; None where there is none."""

    name: str
    values: tuple[float | None, ...]


def chart(
    kind: ChartKind, days: Sequence[str], series: Sequence[Series], *, title: str, unit: str = "", digits: int = 0
) -> Markup:
    """Return a ``<figure>`` of ``series`` over ``days`` (ISO dates, ascending; of a week its first day).

    ``unit`` stands behind numbers ("sessions") or before them ("$"). The last POINTS_MAX days count; series over SERIES_MAX are summed
    up as "others", so the important ones come first. Raises ValueError for days that are no dates, and for series of another length.
    """
    from markupsafe import Markup

    assert kind in get_args(ChartKind), kind
    if any(len(one.values) != len(days) for one in series):
        raise ValueError("a series needs one value for each day")
    days, title, unit = days[-POINTS_MAX:], plain_line(title)[:_TITLE_CHARACTERS_MAX], unit[:_UNIT_CHARACTERS_MAX]
    shown = [Series(plain_line(one.name)[:_NAME_CHARACTERS_MAX], one.values[-POINTS_MAX:]) for one in _bounded(series)]
    data = {
        "kind": kind, "title": title, "unit": unit, "digits": digits, "times": [_seconds(day) for day in days],
        "series": [{"name": one.name, "values": list(one.values)} for one in shown],
    }  # fmt: skip
    return Markup(  # noqa: S704  (each piece is ours or escaped)
        f'<figure class="chart" data-chart="{kind}"><figcaption>{attribute(title)}</figcaption>'
        f'<div class="chart-area" aria-hidden="true"></div><script type="application/json">{_embedded(data)}</script>'
        f"<details><summary>{attribute(title)} as a table</summary>{_table(days, shown, title, unit, digits)}</details></figure>"
    )


def _bounded(series: Sequence[Series]) -> list[Series]:
    if len(series) <= SERIES_MAX:
        return list(series)
    rest = series[SERIES_MAX - 1 :]
    summed = tuple(
        sum(known) if (known := [one for one in values if one is not None]) else None
        for values in zip(*(one.values for one in rest), strict=True)
    )
    return [*series[: SERIES_MAX - 1], Series(_OTHERS, summed)]


def _seconds(day: str) -> int:
    found = date.fromisoformat(day)
    return int(datetime(found.year, found.month, found.day, tzinfo=UTC).timestamp())


def _embedded(data: object) -> str:
    """Return JSON in which nothing can end the element around it."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _table(days: Sequence[str], series: Sequence[Series], title: str, unit: str, digits: int) -> str:
    """Return the days with a value as rows, the newest first."""
    heads = "".join(f'<th scope="col" class="num">{attribute(one.name)}</th>' for one in series)
    rows = []
    for number in range(len(days) - 1, -1, -1):
        values = [one.values[number] for one in series]
        if any(values):
            cells = "".join(f'<td class="num">{_shown(one, unit, digits)}</td>' for one in values)
            rows.append(f'<tr><th scope="row">{attribute(days[number])}</th>{cells}</tr>')
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{attribute(title)}"><table><caption class="sr">{attribute(title)}</caption>'
        f'<thead><tr><th scope="col">Day</th>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def _shown(value: float | None, unit: str, digits: int) -> str:
    if value is None:
        return ""
    return f"{attribute(unit)}{value:,.{digits}f}" if unit == "$" else f"{value:,.{digits}f}"
