"""A prompt within a budget of tokens: the supervisor's own words whole, text of others fenced and cut to what is left.

Theory of operation
-------------------
A prompt is a sequence of parts. ``Own`` text is short by construction and always whole. ``Foreign`` text stands in a fence
(``agent.tape.fence``), so that nothing in it passes for a part of the prompt. The room that own text leaves is given out twice: first to
each foreign text by its ``share``, as far as it needs it; then what others did not need, to the larger shares first. A cut says how much
was left out. The same parts and budget give the same text.
"""

from __future__ import annotations

__all__ = ["BUDGET_MIN", "Foreign", "Own", "Part", "prompt_of"]

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from periplus.base.errors import UsageError
from periplus.base.text.token_estimate import estimate_tokens
from periplus.dispatch.handover.foreign_text import Keeps, plain_text

BUDGET_MIN: Final = 3_000
_NOTE_TOKENS: Final = 24  # of the line that stands for a text without room
_BLANK: Final = "\n\n"
_CHARACTERS_A_TOKEN_MAX: Final = 16
_TRIES_MAX: Final = 12


class Own(NamedTuple):
    """The supervisor's own words."""

    text: str


class Foreign(NamedTuple):
    """Text of others. ``share`` weighs its claim on the room; ``more`` says where the whole of it is, for people and agents."""

    text: str
    source: str
    share: int = 1
    keeps: Keeps = "head"
    more: str = ""


Part: TypeAlias = Own | Foreign


def prompt_of(parts: Sequence[Part], budget: int) -> str:
    """Return the prompt, of at most ``budget`` tokens by ``base.text.token_estimate``.

    Raises UsageError if the budget is too small for the supervisor's own words.
    """
    shown = [_cleaned(one) if isinstance(one, Foreign) else one for one in parts]
    foreign = [one for one in shown if isinstance(one, Foreign)]
    own = estimate_tokens(_BLANK.join(one.text for one in shown if isinstance(one, Own)))
    room = budget - own - (_NOTE_TOKENS + 1) * len(foreign)
    if budget < BUDGET_MIN or room < 0:
        raise UsageError(
            f"a prompt within {budget:,} tokens has no room for what it must say",
            safe="Nothing was started.", mend=f"Give at least {max(BUDGET_MIN, budget - min(room, 0)):,} tokens.",
        )  # fmt: skip
    needs = [_need(one, budget) for one in foreign]
    for _ in range(_TRIES_MAX):
        given = iter(_allotted(foreign, needs, room))
        text = _BLANK.join(one.text if isinstance(one, Own) else _cut(one, next(given)) for one in shown) + "\n"
        if estimate_tokens(text) <= budget:
            return text
        room = room * 9 // 10  # estimates of parts do not quite add up
    raise AssertionError("a prompt without foreign text fits its budget")


def _cleaned(part: Foreign) -> Foreign:
    text, _ = plain_text(part.text, keeps=part.keeps)
    return part._replace(text=text.strip("\n"))


def _need(part: Foreign, most: int) -> int:
    """The tokens that a text takes in its fence, without reading more of it than could have room."""
    return estimate_tokens(_fenced(part.text[: (most + 1) * _CHARACTERS_A_TOKEN_MAX], part.source))


def _allotted(parts: Sequence[Foreign], needs: Sequence[int], room: int) -> list[int]:
    shares = sum(one.share for one in parts)
    given = [min(need, room * one.share // shares) for one, need in zip(parts, needs, strict=True)]
    left = room - sum(given)
    for at in sorted(range(len(parts)), key=lambda at: -parts[at].share):
        more = min(left, needs[at] - given[at])
        given[at] += more
        left -= more
    return given


def _cut(part: Foreign, tokens: int) -> str:
    """Return the text in its fence, cut to ``tokens``; where nothing of it fits, a line that says so."""
    whole = part.text
    if len(whole) <= tokens * _CHARACTERS_A_TOKEN_MAX and estimate_tokens(_fenced(whole, part.source)) <= tokens:
        return _fenced(whole, part.source)
    low, high = 0, min(len(whole) - 1, tokens * _CHARACTERS_A_TOKEN_MAX)
    while low < high:  # the most characters that fit lie between
        middle = (low + high + 1) // 2
        if estimate_tokens(_excerpt(part, middle)) <= tokens:
            low = middle
        else:
            high = middle - 1
    kept = _at_line(whole, low, part.keeps)
    return _excerpt(part, kept) if kept > 0 else _left_out(part, 0)


def _at_line(text: str, count: int, keeps: Keeps) -> int:
    """Move a cut to the end of a line where that loses less than half."""
    at = text.rfind("\n", 0, count) if keeps == "head" else len(text) - text.find("\n", len(text) - count) - 1
    return at if count // 2 < at <= count else count


def _excerpt(part: Foreign, count: int) -> str:
    text = part.text[:count] if part.keeps == "head" else part.text[len(part.text) - count :]
    fenced, note = _fenced(text, part.source), _left_out(part, count)
    return f"{fenced}\n{note}" if part.keeps == "head" else f"{note}\n{fenced}"


def _left_out(part: Foreign, count: int) -> str:
    place = "after" if part.keeps == "head" else "before"
    where = f" {place} this" if count else f" of {part.source}"
    return f"({len(part.text) - count:,} characters{where} are left out{f'; {part.more}' if part.more else ''})"


def _fenced(text: str, source: str) -> str:
    from periplus.agent.tape.fence import fence  # the tape is heavy

    return fence(text, source)
