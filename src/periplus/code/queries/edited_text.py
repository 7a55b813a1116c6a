"""Places that an edit of a file changes, as far as its text tells without parsing it. Loaded by hooks: it imports nothing expensive."""

from __future__ import annotations

__all__ = ["changed_lines", "heads_changed", "words_near"]

import re
from collections.abc import Sequence
from typing import Final

_WORD: Final = re.compile(r"[^\W\d]\w*")
_COMMENT: Final = re.compile(r"(?:#|//)[^\n]*")
_TRAILING: Final = re.compile(r",(?=[)\]}>])")
_LINES_ABOVE_MAX: Final = 40
_WORDS_MAX: Final = 400


def changed_lines(before: Sequence[str], after: Sequence[str]) -> tuple[int, int] | None:
    """Return the first and the last line (from 1) of ``before`` that ``after`` has not; where lines were only added, those around
    them. None where nothing changed.
    """
    if before == after:
        return None
    least = min(len(before), len(after))
    end = 0
    while end < least and before[-1 - end] == after[-1 - end]:
        end += 1
    start = 0
    while start < least - end and before[start] == after[start]:
        start += 1
    first, last = start + 1, len(before) - end
    return (first, last) if first <= last else (max(1, last), min(len(before), first))


def words_near(lines: Sequence[str], first: int, last: int) -> list[str]:
    """Return the words of the lines ``first`` to ``last``, and of those above that open a bracket which is still open there: the name of a
    definition whose parameters take several lines stands on the first of them.
    """
    near = list(lines[first - 1 : last])
    depth = lowest = 0
    for line in reversed(lines[max(0, first - 1 - _LINES_ABOVE_MAX) : first - 1]):
        depth += line.count(")") + line.count("]") - line.count("(") - line.count("[")
        if depth < lowest:
            lowest = depth
            near.append(line)
    return list(dict.fromkeys(word for line in near for word in _WORD.findall(line)))[:_WORDS_MAX]


def heads_changed(heads: Sequence[str], before: str, after: str) -> list[bool]:
    """Return for each head of a definition in ``before`` whether ``after`` has it fewer times. White space, comments and trailing commas do
    not count.
    """
    plain_before, plain_after = _plain(before), _plain(after)
    found = []
    for head in heads:
        plain = _plain(head)
        found.append(bool(plain) and plain_after.count(plain) < plain_before.count(plain))
    return found


def _plain(text: str) -> str:
    return _TRAILING.sub("", "".join(_COMMENT.sub("", text).split()))
