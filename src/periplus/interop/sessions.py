"""Finding the transcripts that agents left in a home folder."""

from __future__ import annotations

__all__ = ["SESSIONS_MAX", "find_sessions"]

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from periplus.interop.formats import FORMATS
from periplus.interop.model import FoundSession, SourceFormat

SESSIONS_MAX: Final = 1000
_ENTRIES_MAX: Final = 200_000
_HEAD_BYTES: Final = 64 << 10
_CWD: Final = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')


def find_sessions(home: str) -> list[FoundSession]:
    """The newest ``SESSIONS_MAX`` transcripts under ``home``, newest first.

    What cannot be read is left out: a session of somebody else is none of this person's.
    """
    found: list[tuple[int, int, str, SourceFormat]] = []
    budget = [_ENTRIES_MAX]
    for row in FORMATS:
        for place in row.places:
            for entry in _walk(os.path.join(home, *place.folder), place.depth, budget):
                if fnmatchcase(entry.name, place.pattern) and not fnmatchcase(entry.name, place.not_pattern):
                    _note(entry, row.name, found)
    found.sort(key=lambda one: (-one[0], one[2]))
    return [FoundSession(path, kind, mtime, size, _cwd(path)) for mtime, size, path, kind in found[:SESSIONS_MAX]]


def _walk(folder: str, depth: int, budget: list[int]) -> Iterator[os.DirEntry[str]]:
    """The files in ``folder`` down to ``depth`` folders below; links are not followed."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name, reverse=True)
    except OSError:
        return
    for entry in entries:
        budget[0] -= 1
        if budget[0] < 0:
            return
        try:
            is_folder, is_file = entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False)
        except OSError:
            continue
        if is_file:
            yield entry
        elif is_folder and depth > 0:
            yield from _walk(entry.path, depth - 1, budget)


def _note(entry: os.DirEntry[str], kind: SourceFormat, found: list[tuple[int, int, str, SourceFormat]]) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return
    if status.st_size:
        found.append((status.st_mtime_ns // 1_000_000, status.st_size, entry.path, kind))


def _cwd(path: str) -> str | None:
    """The folder that the session says it began in, read from the beginning of the file only."""
    import orjson

    try:
        with open(path, "rb") as file:
            match = _CWD.search(file.read(_HEAD_BYTES))
    except OSError:
        return None
    try:
        folder = orjson.loads(match.group(1)) if match is not None else None
    except ValueError:
        return None
    return folder if isinstance(folder, str) and folder else None
