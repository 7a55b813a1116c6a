"""Globs of paths, matched in time bounded by the product of both lengths, for any pattern."""

from __future__ import annotations

__all__ = ["glob_matches", "is_glob"]


def is_glob(text: str) -> bool:
    """Return whether a text is a glob. Brackets do not count: frameworks use them in file names."""
    return "*" in text or "?" in text


def glob_matches(path: str, glob: str) -> bool:
    """Return whether all of ``path`` matches: ``*`` and ``?`` within a name, ``**`` over any number of folders."""
    names = [name for name in path.split("/") if name != "."]
    reached = {0}
    for pattern in glob.split("/"):
        if not reached:
            return False
        if pattern == "**":
            reached = set(range(min(reached), len(names) + 1))
        elif pattern != ".":
            reached = {at + 1 for at in reached if at < len(names) and _name_matches(names[at], pattern)}
    return len(names) in reached


def _name_matches(name: str, pattern: str) -> bool:
    """Match a name. Only the last ``*`` is extended by a character when the rest does not match; that is sufficient."""
    at = place = taken = 0
    star = -1
    while at < len(name):
        if place < len(pattern) and pattern[place] == "*":
            star, taken = place, at
            place += 1
        elif place < len(pattern) and pattern[place] in ("?", name[at]):
            at += 1
            place += 1
        elif star >= 0:
            taken += 1
            at, place = taken, star + 1
        else:
            return False
    return not pattern[place:].strip("*")
