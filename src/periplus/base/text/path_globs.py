"""Globs of paths, matched in time bounded by the product of both lengths, for any pattern."""

from __future__ import annotations

__all__ = ["glob_matches", "is_glob", "names_match"]

import re
from collections.abc import Callable, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import Final

_KEPT_MAX: Final = 4_096


def is_glob(text: str) -> bool:
    """Return whether a text is a glob. Brackets do not count: frameworks use them in file names."""
    return "*" in text or "?" in text


def glob_matches(path: str, glob: str) -> bool:
    """Return whether all of ``path`` matches: ``*`` and ``?`` within a name, ``**`` over any number of folders."""
    names = [name for name in path.split("/") if name != "."]
    return names_match(names, [one for one in glob.replace("[", "[[]").split("/") if one != "."])


def names_match(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Return whether all of ``names`` match: a pattern is one of ``fnmatch`` for a name, or ``**`` for any number of names."""
    reached = {0}
    for pattern in patterns:
        if not reached:
            return False
        if pattern == "**":
            reached = set(range(min(reached), len(names) + 1))
        else:
            matches = _name_matcher(pattern)
            reached = {at + 1 for at in reached if at < len(names) and matches(names[at])}
    return len(names) in reached


@lru_cache(maxsize=_KEPT_MAX)
def _name_matcher(pattern: str) -> Callable[[str], object]:
    """Compile a pattern for one name. ``fnmatch`` writes stars as atomic groups, so no star is tried twice."""
    return re.compile(translate(pattern)).match
