"""Lines of files in commits: how many a file has, and which of them a change added."""

from __future__ import annotations

__all__ = ["ChangedLines", "changed_lines", "line_counts"]

import os
import re
from collections.abc import Iterable, Sequence
from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.code.listing.repository import Repository as Layout
from periplus.dispatch.repository.comparison import FILE_BYTES_MAX, PLAIN, contents
from periplus.dispatch.repository.git_process import Git
from periplus.dispatch.repository.model import oid_of

_HUNK: Final = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class ChangedLines(NamedTuple):
    """Lines of a file that a change added or rewrote, both inclusive; ``first`` 0 where none is left of what it changed."""

    path: str
    first: int
    last: int


def line_counts(git: Git, at: Layout, commit: str, paths: Iterable[str]) -> dict[str, int]:
    """Return the number of lines of each of ``paths`` that is in ``commit``: 0 for a folder, and for a file too large to read."""
    commit = oid_of(commit)
    wanted = sorted({path for path in paths if path and "\n" not in path and "\0" not in path})
    if not wanted:
        return {}
    said = git.out(at, "cat-file", "--batch-check", said=b"".join(os.fsencode(f"{commit}:{path}\n") for path in wanted))
    oids: dict[str, str] = {}
    counts = {"": 0}
    for path, row in zip(wanted, said.decode("utf-8", "surrogateescape").splitlines(), strict=True):
        oid, _, rest = row.partition(" ")
        if rest.startswith("blob "):
            oids[path] = oid
        elif rest.startswith("tree "):
            oids[path] = ""
    counts |= {oid: _count(data or b"") for oid, data in contents(git, at, set(oids.values()) - {""})}
    return {path: counts[oid] for path, oid in oids.items()}


def changed_lines(git: Git, at: Layout, base: str, tip: str, paths: Sequence[str]) -> list[ChangedLines]:
    """Return the lines that ``tip`` has beyond ``base`` in each of ``paths``, the files that differ."""
    found = []
    for path in paths:
        words = ("diff", "--unified=0", "--no-renames", *PLAIN, oid_of(base), oid_of(tip), "--", path)
        done = git.run(at, *words, bytes_max=FILE_BYTES_MAX)
        ranges = _added(done.out) if done.code == 0 else []
        found += [ChangedLines(path, first, last) for first, last in ranges] or [ChangedLines(path, 0, 0)]
    return found


def _added(diff: bytes) -> list[tuple[int, int]]:
    """Return the added ranges of one file's diff. The lines of a hunk are counted, since text of a file may look like a head."""
    found, skipped = [], 0
    for row in diff.split(b"\n"):
        if row.startswith(b"\\"):
            continue
        if skipped:
            skipped -= 1
            continue
        match = _HUNK.match(row)
        if match is None:
            continue
        removed, first, added = int(match[1] or 1), int(match[2]), int(match[3] or 1)
        skipped = removed + added
        if added:
            found.append((first, first + added - 1))
    return found


def _count(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") if data else 0)
