"""Search for agents' transcripts in a home folder and in project folders."""

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
from periplus.interop.readers.json_values import path_of_url, text_of

SESSIONS_MAX: Final = 1000
_ENTRIES_MAX: Final = 200_000
_HEADS_MAX: Final = 20_000
_HEAD_BYTES: Final = 64 << 10
_TOLD_BYTES: Final = 4 << 20  # pictures in the first prompt may precede the words
_FAR_BYTES_MAX: Final = 64 << 20  # limit for reading a file whose beginning does not name the folder
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
    """Return the newest ``SESSIONS_MAX`` transcripts under ``home``, newest first; with ``folders`` only sessions
    held in one of them or below, and transcripts stored there. ``codex`` replaces Codex's folder ``.codex`` of
    ``home``.

    Unreadable files are left out. A session without a known folder matches no folder.
    """
    files: list[_File] = []
    budget = [_ENTRIES_MAX]
    for row in FORMATS:
        for place in row.places:
            for root in folders if place.in_project else (home,):
                start, parts = root, place.folder
                if codex and parts[:1] == (".codex",):
                    start, parts = codex, parts[1:]
                for entry in (
                    one for folder in _folders(start, parts, budget) for one in _walk(folder, place.depth, budget)
                ):
                    if _is_session(entry, place):
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


def _is_session(entry: os.DirEntry[str], place: Place) -> bool:
    is_named = fnmatchcase(entry.name, place.pattern) and not fnmatchcase(entry.name, place.not_pattern)
    return is_named and entry.path.endswith(place.card[0])


def _folders(root: str, parts: tuple[str, ...], budget: list[int]) -> list[str]:
    """Return the folders of a place below ``root``; the part ``*`` stands for every folder there. Links are not followed
    at such a part.
    """
    found = [root]
    for part in parts:
        if part == "*":
            found = [inner for folder in found for inner in _subfolders(folder, budget)]
        else:
            found = [os.path.join(folder, part) for folder in found]
    return found


def _subfolders(folder: str, budget: list[int]) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = sorted((entry.name for entry in entries if entry.is_dir(follow_symlinks=False)), reverse=True)
    except OSError:
        return []
    budget[0] -= len(names)
    return [os.path.join(folder, name) for name in names] if budget[0] >= 0 else []


def _walk(folder: str, depth: int, budget: list[int]) -> Iterator[os.DirEntry[str]]:
    """Yield the files in ``folder`` down to ``depth`` folders below; links are not followed."""
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
    """Return the folder in which the session was held, as the file names it."""
    place = file.place
    if place.in_project or not place.held_in:
        return next((folder for folder in folders if is_within(file.path, folder)), next(iter(folders), None))
    path = file.path
    if place.told_as:
        return _told_in(path, place.told_as)
    if place.card[0]:
        path = path.removesuffix(place.card[0]) + place.card[1]
    if place.beside:
        path = os.path.normpath(os.path.join(os.path.dirname(path), place.beside))
    if place.beside or file.shape == "document":
        named = _member_of_document(path, place.held_in, file.size, file.mtime_ms)
    else:
        named = _member(path, place.held_in)
        if named is None and place.is_far and file.size > _HEAD_BYTES:
            named = _far_member(path, place.held_in, file.size, file.mtime_ms)
    if place.held_in != _HASHED:
        return path_of_url(named)
    return next((folder for folder in folders if named in _hashes(folder)), None)


def _told_in(path: str, pattern: str) -> str | None:
    """Return the folder that a text near the beginning of the file names."""
    import orjson

    try:
        with open(path, "rb") as file:
            match = re.search(pattern.encode(), file.read(_TOLD_BYTES))
        return text_of(orjson.loads(b'"%s"' % match.group(1))) or None if match is not None else None
    except (OSError, ValueError):
        return None


def _hashes(folder: str) -> set[str]:
    paths = {os.path.abspath(folder), os.path.realpath(folder)}
    return {hashlib.sha256(os.fsencode(path)).hexdigest() for path in paths}


def _member(path: str, name: str) -> str | None:
    """Return the text of the first member ``name`` near the beginning of the file. A member within a string has its
    quotes escaped.
    """
    try:
        with open(path, "rb") as file:
            return _text_in(file.read(_HEAD_BYTES), name)
    except OSError:
        return None


@lru_cache(maxsize=_FAR_FILES_MAX)
def _far_member(path: str, name: str, _size: int, _mtime_ms: int) -> str | None:
    """Search the whole file for the member: a picture in the first prompt may precede it. The result is cached as
    long as the file is unchanged.
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
    """Return the text of the first member ``name`` outside the lists of records: those hold tool results, and the
    facts of a session may follow them.
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

    names = name.encode()
    # A member of JSON, or a value of TOML on a line of its own: a string of JSON has no line ends.
    match = re.search(rb'(?:"(?:%s)"\s*:|^(?:%s)[ \t]*=)\s*("(?:[^"\\]|\\.)*")' % (names, names), data, re.MULTILINE)
    try:
        value = orjson.loads(match.group(1)) if match is not None else None
    except ValueError:
        return None
    return value if isinstance(value, str) and value else None
