"""A diff within a budget of tokens: every file is named, small changes are whole, large ones are cut."""

from __future__ import annotations

__all__ = ["diff_excerpt"]

import re
from collections.abc import Sequence
from typing import Final

from periplus.base.text.token_estimate import estimate_tokens

FILES_MAX: Final = 2_000
_FILE_TOKENS_MIN: Final = 40  # with less of it, a file is only named
_NOTE_TOKENS: Final = 20
_NAMED_MAX: Final = 200
_CHARACTERS_A_TOKEN_MAX: Final = 16
_START: Final = re.compile(r"^(?=diff --(?:git|cc|combined) )", re.MULTILINE)


def diff_excerpt(diff: str, tokens_max: int) -> str:
    """Return ``diff`` in at most about ``tokens_max`` tokens.

    The room is given to the smallest files first, so that a generated file of a megabyte does not hide the change that matters. Files
    stand in the order of the diff; what was cut from one says so in its place.
    """
    if len(diff) <= tokens_max * _CHARACTERS_A_TOKEN_MAX and estimate_tokens(diff) <= tokens_max:
        return diff
    files = [one for one in _START.split(diff) if one.strip()]
    kept, rest = files[:FILES_MAX], files[FILES_MAX:]
    sizes = [_size(one, tokens_max) for one in kept]
    given = _shares(sizes, tokens_max - _names_cost(len(kept)))
    shown, unshown = [], []
    for one, size, room in zip(kept, sizes, given, strict=True):
        if size <= room:
            shown.append(one.rstrip("\n"))
        elif room >= _FILE_TOKENS_MIN:
            shown.append(_cut(one, room))
        else:
            unshown.append(_name(one))
    named = [f"not shown: {one}" for one in unshown[:_NAMED_MAX]]
    more = len(unshown) - len(named) + len(rest)
    return "\n".join([*shown, *named, *([f"not shown: {more:,} more files"] if more else [])])


def _names_cost(count: int) -> int:
    return _NOTE_TOKENS * min(count, _NAMED_MAX) // 4


def _size(text: str, most: int) -> int:
    """The tokens of a file's part, read no further than could have room."""
    return estimate_tokens(text[: (most + 1) * _CHARACTERS_A_TOKEN_MAX]) + 1


def _shares(sizes: Sequence[int], room: int) -> list[int]:
    """Give each file what it needs, smallest first, at most an equal part of what is left."""
    given = [0] * len(sizes)
    left = max(room, 0)
    for count, at in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        given[at] = min(sizes[at], left // (len(sizes) - count))
        left -= given[at]
    return given


def _cut(text: str, tokens: int) -> str:
    lines = text[: tokens * _CHARACTERS_A_TOKEN_MAX].split("\n")
    total = text.count("\n")
    low, high = 0, len(lines) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens("\n".join(lines[:middle])) <= tokens - _NOTE_TOKENS:
            low = middle
        else:
            high = middle - 1
    return "\n".join([*lines[:low], f"… {max(total - low, 1):,} lines of this file left out"])


def _name(text: str) -> str:
    return text.partition("\n")[0][:400]
