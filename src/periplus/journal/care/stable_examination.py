"""An examination of files that others may change otherwise than by appending to them.

A redaction, a repair and a sync put segments in the place of others, and take out objects that records named until then. Who reads one file before
that and another one behind it sees what never stood together. So what was not found sound while segments were replaced is looked at again.
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
    """What ``examine`` finds where nobody replaces segments meanwhile; where somebody always does, it says so."""
    for tried in range(1, _TRIES_MAX + 1):
        before = _places(journal)
        found = examine()
        # What was appended meanwhile is no difference, nor are segments that came.
        if found.exit_code == 0 or before <= _places(journal):
            return found
        if tried == _TRIES_MAX:
            return found._replace(problems=[*found.problems, _never_at_rest(journal)])
    raise AssertionError("the last try returns")


def _never_at_rest(journal: Journal) -> Problem:
    return Problem(
        "note",
        "others replaced segments each time that they were looked at, as a redaction and a sync do: what is told may come of that",
        journal.layout.journal,
        mend="Repeat the command when they are done.",
    )


def _places(journal: Journal) -> _Places:
    """Each segment with its file, wherever it lies, and the index."""
    found = set[tuple[str, int, int, int]]()
    paths = [("", 0, journal.index_path)]
    for lineage in journal.lineages():
        reader = journal.reader(lineage)
        paths += [(lineage, segment, reader.path_of(segment)) for segment in reader.segments()]
    for lineage, segment, path in paths:
        try:
            at = os.stat(path)
        except OSError:
            continue  # moved or removed just now: the others tell
        found.add((lineage, segment, at.st_dev, at.st_ino))
    return frozenset(found)
