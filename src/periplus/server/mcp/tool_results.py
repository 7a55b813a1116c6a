"""Results of tools: text for a model and the same as data, both within the requested token budget.

A result has entries, the most important first. As many as fit are shown; the rest is counted, with the call that shows it. If not
even the first entry fits, its beginning is shown.
"""

from __future__ import annotations

__all__ = ["Answer", "Entry", "Fitted", "fit"]

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from periplus.base.text.token_estimate import estimate_tokens

_FEW: Final = 12


class Entry(NamedTuple):
    """``text`` are its lines; ``data`` is the same for machines, with the long part, if any, under ``text``."""

    text: str
    data: dict[str, Any]


class Answer(NamedTuple):
    """``more(shown)`` is the call that shows the entries after the first ``shown``; ``left_out`` counts entries that are in no list."""

    head: str = ""
    entries: tuple[Entry, ...] = ()
    data: dict[str, Any] = {}  # noqa: RUF012 - never modified
    left_out: int = 0
    more: Callable[[int], str] | None = None
    foot: str = ""


class Fitted(NamedTuple):
    text: str
    data: dict[str, Any]


def fit(answer: Answer, budget: int) -> Fitted:
    """Fit ``answer`` into ``budget`` tokens, as text and as data each."""
    import json

    costs = [
        max(estimate_tokens(entry.text), estimate_tokens(json.dumps(entry.data, ensure_ascii=False))) + 2
        for entry in answer.entries
    ]
    shown, spent = 0, 0
    while shown < len(costs) and spent + costs[shown] <= budget:
        spent += costs[shown]
        shown += 1
    while True:
        fitted = _rendered(answer, answer.entries[:shown], shown)
        if _cost(fitted) <= budget:
            break
        if shown == 0:
            return _cut(fitted, budget)
        shown -= 1
    if shown == 0 and answer.entries:
        first = _beginning(answer, budget)
        return first if first is not None else fitted
    return fitted


def _rendered(answer: Answer, entries: tuple[Entry, ...], shown: int) -> Fitted:
    left_out = answer.left_out + len(answer.entries) - shown
    data: dict[str, Any] = {**answer.data, "entries": [entry.data for entry in entries], "left_out": left_out}
    parts = [answer.head, *(entry.text for entry in entries)]
    if left_out:
        call = answer.more(shown) if answer.more is not None else "ask with a larger budget"
        data["more"] = call
        parts.append(f"{left_out:,} more: {call}")
    parts.append(answer.foot)
    return Fitted("\n".join(part for part in parts if part), data)


def _beginning(answer: Answer, budget: int) -> Fitted | None:
    """Return the answer with its first entry cut; None if not even its beginning fits."""
    first = answer.entries[0]
    body = str(first.data.get("text", ""))
    room = len(first.text)
    while room > _FEW:
        room //= 2
        data = {**first.data, "text": f"{body[:room]}…"} if len(body) > room else first.data
        fitted = _rendered(answer, (Entry(f"{first.text[:room]}…", data),), 1)
        fitted = fitted._replace(data={**fitted.data, "cut": True})
        if _cost(fitted) <= budget:
            return fitted
    return None


def _cut(fitted: Fitted, budget: int) -> Fitted:
    """Cut a head that is too long by itself, and reduce its data to that note."""
    text = fitted.text
    while text and estimate_tokens(f"{text}…") > budget:
        text = text[: len(text) * 3 // 4]
    return Fitted(f"{text}…", {"entries": [], "left_out": fitted.data["left_out"], "cut": True})


def _cost(fitted: Fitted) -> int:
    import json

    return max(estimate_tokens(fitted.text), estimate_tokens(json.dumps(fitted.data, ensure_ascii=False)))
