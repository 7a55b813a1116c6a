"""Finding the transcripts that agents left in a home folder, and in the project's own."""

from __future__ import annotations

__all__ = ["SESSIONS_MAX", "find_sessions"]

import hashlib
import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from periplus.interop.formats import FORMATS, Place
from periplus.interop.model import FoundSession, SourceFormat
from periplus.interop.source import is_within

SESSIONS_MAX: Final = 1000
_ENTRIES_MAX: Final = 200_000
_HEADS_MAX: Final = 20_000
_HEAD_BYTES: Final = 64 << 10
_HASHED: Final = "projectHash"
_FILE_URL: Final = "file://"


class _File(NamedTuple):
    mtime_ms: int
    size: int
    path: str
    format: SourceFormat
    place: Place


def find_sessions(home: str, folder: str | None = None) -> list[FoundSession]:
    """The newest ``SESSIONS_MAX`` transcripts under ``home``, newest first; with ``folder`` only those of sessions that
    were held in it or below it, and the ones that lie in it.

    What cannot be read is left out: a session of somebody else is none of this person's. A session of which it is not
    known where it was held is of no folder.
    """
    files: list[_File] = []
    budget = [_ENTRIES_MAX]
    for row in FORMATS:
        for place in row.places:
            if place.in_project and folder is None:
                continue
            root = folder if place.in_project and folder is not None else home
            for entry in _walk(os.path.join(root, *place.folder), place.depth, budget):
                if fnmatchcase(entry.name, place.pattern) and not fnmatchcase(entry.name, place.not_pattern):
                    _note(entry, row.name, place, files)
    files.sort(key=lambda one: (-one.mtime_ms, one.path))
    found: list[FoundSession] = []
    for file in files[:_HEADS_MAX]:
        cwd = _cwd(file, folder)
        if folder is None or (cwd is not None and is_within(cwd, folder)):
            found.append(FoundSession(file.path, file.format, file.mtime_ms, file.size, cwd))
            if len(found) >= SESSIONS_MAX:
                break
    return found


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


def _note(entry: os.DirEntry[str], kind: SourceFormat, place: Place, files: list[_File]) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return
    if status.st_size:
        files.append(_File(status.st_mtime_ns // 1_000_000, status.st_size, entry.path, kind, place))


def _cwd(file: _File, folder: str | None) -> str | None:
    """The folder that the session says it was held in, read from the beginning of the file only."""
    place = file.place
    if place.in_project or not place.held_in:
        return folder
    path = file.path
    if place.card[0]:
        path = path.removesuffix(place.card[0]) + place.card[1]
    named = _member(path, place.held_in)
    if place.held_in != _HASHED:
        return _path_of(named) if named is not None and named.startswith(_FILE_URL) else named
    if folder is not None and named in _hashes(folder):
        return folder
    return None


def _path_of(url: str) -> str:
    from urllib.parse import unquote

    return unquote(url.removeprefix(_FILE_URL))


def _hashes(folder: str) -> set[str]:
    paths = {os.path.abspath(folder), os.path.realpath(folder)}
    return {hashlib.sha256(os.fsencode(path)).hexdigest() for path in paths}


def _member(path: str, name: str) -> str | None:
    """The text of the first member ``name`` in the beginning of the file. One within a text has its quotes escaped."""
    import orjson

    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return None
    match = re.search(rb'"%s"\s*:\s*("(?:[^"\\]|\\.)*")' % name.encode(), head)
    try:
        value = orjson.loads(match.group(1)) if match is not None else None
    except ValueError:
        return None
    return value if isinstance(value, str) and value else None
