"""Finding the transcripts that agents left in a home folder, and in the project's own."""

from __future__ import annotations

__all__ = ["SESSIONS_MAX", "find_sessions"]

import hashlib
import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final, NamedTuple

from periplus.base.errors import PeriplusError
from periplus.interop.conversion.source import is_within
from periplus.interop.formats import FORMATS, Format, Place, Shape
from periplus.interop.model import FoundSession, SourceFormat
from periplus.interop.readers.json_values import path_of_url

SESSIONS_MAX: Final = 1000
_ENTRIES_MAX: Final = 200_000
_HEADS_MAX: Final = 20_000
_HEAD_BYTES: Final = 64 << 10
_FAR_BYTES_MAX: Final = 64 << 20  # as far as a file is read for the folder that its beginning does not name
_MEMBER_BYTES_MAX: Final = 32 << 10
_FAR_FILES_MAX: Final = 4096
_HASHED: Final = "projectHash"


class _File(NamedTuple):
    mtime_ms: int
    size: int
    path: str
    format: SourceFormat
    place: Place
    shape: Shape


def find_sessions(home: str, *folders: str, codex: str = "") -> list[FoundSession]:
    """The newest ``SESSIONS_MAX`` transcripts under ``home``, newest first; with ``folders`` only those of sessions that
    were held in one of them or below it, and the ones that lie in them. ``codex`` is Codex's folder, where that is another than ``.codex`` of ``home``.

    What cannot be read is left out: a session of somebody else is none of this person's. A session of which it is not
    known where it was held is of no folder.
    """
    files: list[_File] = []
    budget = [_ENTRIES_MAX]
    for row in FORMATS:
        for place in row.places:
            for root in folders if place.in_project else (home,):
                start = os.path.join(root, *place.folder)
                if codex and place.folder[:1] == (".codex",):
                    start = os.path.join(codex, *place.folder[1:])
                for entry in _walk(start, place.depth, budget):
                    if fnmatchcase(entry.name, place.pattern) and not fnmatchcase(entry.name, place.not_pattern):
                        _note(entry, row, place, files)
    files.sort(key=lambda one: (-one.mtime_ms, one.path))
    found: list[FoundSession] = []
    for file in files[:_HEADS_MAX]:
        cwd = _cwd(file, folders)
        if not folders or (cwd is not None and any(is_within(cwd, folder) for folder in folders)):
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


def _note(entry: os.DirEntry[str], row: Format, place: Place, files: list[_File]) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return
    if status.st_size:
        files.append(_File(status.st_mtime_ns // 1_000_000, status.st_size, entry.path, row.name, place, row.shape))


def _cwd(file: _File, folders: tuple[str, ...]) -> str | None:
    """The folder that the session says it was held in, read from the beginning of the file where that tells it."""
    place = file.place
    if place.in_project or not place.held_in:
        return next((folder for folder in folders if is_within(file.path, folder)), next(iter(folders), None))
    path = file.path
    if place.card[0]:
        path = path.removesuffix(place.card[0]) + place.card[1]
    if file.shape == "document":
        named = _member_of_document(path, place.held_in, file.size, file.mtime_ms)
    else:
        named = _member(path, place.held_in)
        if named is None and place.is_far and file.size > _HEAD_BYTES:
            named = _far_member(path, place.held_in, file.size, file.mtime_ms)
    if place.held_in != _HASHED:
        return path_of_url(named)
    return next((folder for folder in folders if named in _hashes(folder)), None)


def _hashes(folder: str) -> set[str]:
    paths = {os.path.abspath(folder), os.path.realpath(folder)}
    return {hashlib.sha256(os.fsencode(path)).hexdigest() for path in paths}


def _member(path: str, name: str) -> str | None:
    """The text of the first member ``name`` in the beginning of the file. One within a text has its quotes escaped."""
    try:
        with open(path, "rb") as file:
            return _text_in(file.read(_HEAD_BYTES), name)
    except OSError:
        return None


@lru_cache(maxsize=_FAR_FILES_MAX)
def _far_member(path: str, name: str, _size: int, _mtime_ms: int) -> str | None:
    """The same from anywhere in the file: a picture in the first prompt may stand before the folder. A file that did not
    change is read once, however often sessions are looked for.
    """
    try:
        with open(path, "rb") as file:
            end, left = b"", _FAR_BYTES_MAX
            while left > 0 and (block := file.read(_MEMBER_BYTES_MAX * 32)):
                named = _text_in(end + block, name)
                if named is not None:
                    return named
                end, left = block[-_MEMBER_BYTES_MAX:], left - len(block)
    except OSError:
        pass
    return None


@lru_cache(maxsize=_FAR_FILES_MAX)
def _member_of_document(path: str, name: str, _size: int, _mtime_ms: int) -> str | None:
    """The text of the first member ``name`` that does not stand in a list of records: those hold what tools gave back, and the
    facts of a session may stand behind all of them.
    """
    from periplus.interop.conversion.source import LISTS
    from periplus.interop.readers.json_stream import JsonWalker

    try:
        with open(path, "rb") as file:
            for element in JsonWalker(file.read, path, [(name,) for name in LISTS]):
                if not element.path:
                    named = _text_in(b'"%s":%s' % (element.name.encode("utf-8", "replace"), element.data), name)
                    if named is not None:
                        return named
    except (OSError, PeriplusError):
        pass
    return None


def _text_in(data: bytes, name: str) -> str | None:
    import orjson

    match = re.search(rb'"%s"\s*:\s*("(?:[^"\\]|\\.)*")' % name.encode(), data)
    try:
        value = orjson.loads(match.group(1)) if match is not None else None
    except ValueError:
        return None
    return value if isinstance(value, str) and value else None
