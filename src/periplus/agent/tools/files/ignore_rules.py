"""Ignore rules: files named by ``.gitignore``, and folders of build products, which a search skips.

Our reading of gitignore's rules gives the same answer with or without git: patterns with ``*``, ``?``, ``**`` and ``[…]``, a slash that
anchors to the folder, a final slash for folders only, ``!`` to re-include. Matching time is bounded by the lengths, whoever wrote the file.
"""

from __future__ import annotations

__all__ = ["Ignores", "Rule", "parse_rules"]

import re
from collections.abc import Sequence
from glob import escape
from typing import Final, NamedTuple

from periplus.base.text.path_globs import names_match

RULES_MAX: Final = 2_000
MADE_FOLDERS: Final = frozenset({
    ".git", ".hg", ".svn", ".periplus", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache",
    ".pytest_cache", ".ruff_cache", ".hypothesis", ".gradle", ".terraform", ".next", ".nuxt", ".cache", ".idea",
})  # fmt: skip
_OTHERWISE: Final = re.compile(r"\\(.)|\[\^")  # what fnmatch reads in another way


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
        names = [_as_fnmatch(name) for name in row.split("/") if name]
        if not names:
            continue
        if "/" not in row.rstrip("/"):
            names.insert(0, "**")
        if names[-1] == "**":
            names.append("*")  # what lies in a folder, not the folder itself
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
            if names_match(names[len(rule.base) :], rule.names):
                return not rule.is_taken_back
        return False


def _as_fnmatch(name: str) -> str:
    """Write a part of a pattern for ``fnmatch``: without backslashes, and ``[!…]`` for ``[^…]``."""
    return _OTHERWISE.sub(lambda found: "[!" if found[1] is None else escape(found[1]), name)
