"""Examination of files that others may replace meanwhile.

A redaction, a repair and a sync replace segments and remove objects that records named before. Reading one file before that and another
after it sees a state that never existed. So an examination that found problems is repeated if segments were replaced meanwhile.
"""

from __future__ import annotations

__all__ = ["examine_stable"]

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from periplus.journal.care.problem import Problem

if TYPE_CHECKING:
    from periplus.journal.care.doctor import Examination
    from periplus.journal.journal import Journal

_TRIES_MAX: Final = 3
_Places: TypeAlias = frozenset[tuple[str, int, int, int]]


def examine_stable(journal: Journal, examine: Callable[[], Examination]) -> Examination:
    """Return the result of ``examine`` for a time without replaced segments; if there never is one, add a note about it."""
    for tried in range(1, _TRIES_MAX + 1):
        before = _places(journal)
        found = examine()
        # Appended records and new segments do not matter.
        if found.exit_code == 0 or before <= _places(journal):
            return found
        if tried == _TRIES_MAX:
            return found._replace(problems=[*found.problems, _never_at_rest(journal)])
    raise AssertionError("the last try returns")


def _never_at_rest(journal: Journal) -> Problem:
    return Problem(
        "note",
        "segments were replaced during each attempt, as by a redaction or a sync: the problems may come from that",
        journal.layout.journal,
        mend="Repeat the command when they are done.",
    )


def _places(journal: Journal) -> _Places:
    """Return the identity of each segment's file and of the index."""
    found = set[tuple[str, int, int, int]]()
    paths = [("", 0, journal.index_path)]
    for lineage in journal.lineages():
        reader = journal.reader(lineage)
        paths += [(lineage, segment, reader.path_of(segment)) for segment in reader.segments()]
    for lineage, segment, path in paths:
        try:
            at = os.stat(path)
        except OSError:
            continue  # moved or removed just now, which the comparison shows
        found.add((lineage, segment, at.st_dev, at.st_ino))
    return frozenset(found)
