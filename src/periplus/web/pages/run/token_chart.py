"""The tokens of each call of a session as bars, with the share of the prefix that survived as a line."""

from __future__ import annotations

__all__ = ["TokenChart", "token_chart"]

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from periplus.agent.observation import CallMetrics

BARS_MAX: Final = 120
_BARS_LEAST: Final = 24
_BAR: Final = 10
_FLOOR: Final = 120
_HIGH: Final = 100


class Bar(NamedTuple):
    kind: str
    x: int
    y: float
    height: float


class TokenChart(NamedTuple):
    """``each`` calls stand in one bar, as their mean; ``line`` are the points of the line, empty for fewer than two."""

    width: int
    bars: tuple[Bar, ...]
    line: str
    most: int
    each: int
    words: str


def token_chart(calls: Sequence[CallMetrics]) -> TokenChart | None:
    """Return the chart; None for fewer than two calls."""
    if len(calls) < 2:
        return None
    each = -(-len(calls) // BARS_MAX)
    groups = [calls[at : at + each] for at in range(0, len(calls), each)]
    means = [
        [sum(getattr(one, name) for one in group) / len(group) for name in ("cached", "fresh", "output")]
        for group in groups
    ]
    most = max(1.0, *(sum(one) for one in means))
    bars: list[Bar] = []
    line: list[str] = []
    for at, (group, mean) in enumerate(zip(groups, means, strict=True)):
        top = float(_FLOOR)
        for kind, amount in zip(("cached", "fresh", "output"), mean, strict=True):
            height = _HIGH * amount / most
            top -= height
            bars.append(Bar(kind, _BAR * at + 1, round(top, 2), round(height, 2)))
        known = [one.survival for one in group if one.survival is not None]
        if known:
            line.append(f"{_BAR * at + _BAR // 2},{_FLOOR - (_FLOOR - 4) * min(known) / 1e6:.1f}")
    last = calls[-1]
    words = (
        f"{len(calls):,} calls, at most {round(most):,} tokens; the last: {last.cached:,} cached, {last.fresh:,} fresh, {last.output:,} output"
    )  # fmt: skip
    width = _BAR * max(_BARS_LEAST, len(groups))
    return TokenChart(width, tuple(bars), " ".join(line) if len(line) > 1 else "", round(most), each, words)
