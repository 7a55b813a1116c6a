"""Ignore rules: files named by ``.gitignore``, and folders of build products, which a search skips.
Our reading of gitignore's rules gives the same answer with or without git: patterns with ``*``, ``?``, ``**`` and ``[…]``, a slash that
anchors to the folder, a final slash for folders only, ``!`` to re-include. Matching time is bounded by the lengths, whoever wrote the
file.
"""

from __future__ import annotations

__all__ = ["Ignores", "Rule", "parse_rules"]

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

RULES_MAX: Final = 2_000
MADE_FOLDERS: Final = frozenset({
    ".git", ".hg", ".svn", ".periplus", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache",
    ".pytest_cache", ".ruff_cache", ".hypothesis", ".gradle", ".terraform", ".next", ".nuxt", ".cache", ".idea",
})  # fmt: skip


class Rule(NamedTuple):
    """One line: ``names`` are the parts of its pattern, from the folder ``base``."""

    base: tuple[str, ...]
    names: tuple[str, ...]
    is_taken_back: bool
    is_for_folders: bool


def parse_rules(text: str, base: Sequence[str] = ()) -> list[Rule]:
    """Parse a ``.gitignore`` in the folder ``base``."""
    rules = []
    for line in text.splitlines()[: RULES_MAX * 2]:
        row = line.rstrip() if not line.endswith("\\ ") else line
        if not row or row.startswith("#") or len(row) > 500:
            continue
        is_taken_back = row.startswith("!")
        row = row[1:] if is_taken_back else row
        is_for_folders = row.endswith("/")
        names = [name for name in row.split("/") if name]
        if not names:
            continue
        if "/" not in row.rstrip("/"):
            names.insert(0, "**")
        rules.append(Rule(tuple(base), tuple(names), is_taken_back, is_for_folders))
    return rules[:RULES_MAX]


class Ignores:
    """The rules of a folder: those of the folders above it, then its own; the last match decides."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self._rules = tuple(rules)

    def within(self, rules: Sequence[Rule]) -> Ignores:
        return Ignores((*self._rules, *rules)) if rules else self

    def leaves_out(self, names: Sequence[str], *, is_folder: bool) -> bool:
        """Return whether the file or folder is ignored. Its parents are checked first."""
        if is_folder and names[-1] in MADE_FOLDERS:
            return True
        for rule in reversed(self._rules):
            if rule.is_for_folders and not is_folder:
                continue
            if _fits(tuple(names[len(rule.base) :]), rule.names):
                return not rule.is_taken_back
        return False


def _fits(names: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    reached = {0}
    for place, part in enumerate(pattern):
        if part == "**":
            low = min(reached)
            last = place == len(pattern) - 1
            reached = set(range(low + 1 if last else low, len(names) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(names) and _name_fits(names[at], part)}
        if not reached:
            return False
    return len(names) in reached


@lru_cache(maxsize=65_536)
def _name_fits(name: str, pattern: str) -> bool:
    at = place = taken = 0
    star = -1
    while at < len(name):
        if pattern[place : place + 1] == "*":
            star, taken = place, at
            place += 1
        elif place < len(pattern) and (size := _one_fits(name[at], pattern, place)):
            at += 1
            place += size
        elif star >= 0:
            taken += 1
            at, place = taken, star + 1
        else:
            return False
    return not pattern[place:].strip("*")


def _one_fits(char: str, pattern: str, place: int) -> int:
    """The length of the part of the pattern that matches this character; 0 if none does."""
    part = pattern[place]
    if part == "?":
        return 1
    if part == "\\" and place + 1 < len(pattern):
        return 2 if pattern[place + 1] == char else 0
    end = pattern.find("]", place + 2) if part == "[" else -1
    if end < 0:
        return 1 if part == char else 0
    inner = pattern[place + 1 : end]
    is_negated = inner[:1] in ("!", "^")
    inner = inner[is_negated:]
    is_in, at = False, 0
    while at < len(inner):
        if inner[at + 1 : at + 2] == "-" and at + 2 < len(inner):
            is_in = is_in or inner[at] <= char <= inner[at + 2]
            at += 3
        else:
            is_in = is_in or inner[at] == char
            at += 1
    return end + 1 - place if is_in != is_negated else 0
