"""The files of a folder without git: a walk that follows no symbolic link and leaves out what tools made.

Folders are left out by a name that only one tool uses, and by the marks that tools leave in their folders: a
``pyvenv.cfg`` (a virtual environment of Python, whatever its name), a ``CACHEDIR.TAG`` with its signature (the
specification of cache folders, kept by cargo, pytest, mypy, ruff and others). Names such as ``build``, ``dist``,
``out``, ``target`` and ``vendor`` do not count: projects also use them for their own code.
"""

from __future__ import annotations

__all__ = ["DERIVED_FOLDERS", "Walk", "lstat_stamp", "walk_folder"]

import os
import stat
from itertools import islice
from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.code.listing.model import FILES_MAX, Stamp

DERIVED_FOLDERS: Final = frozenset({
    ".git", ".hg", ".svn", ".jj", ".bzr", "CVS", ".periplus", "node_modules", "bower_components", "__pycache__", ".venv", "venv",
    ".tox", ".nox", ".eggs", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".ipynb_checkpoints", ".gradle",
    ".terraform", ".next", ".nuxt", ".svelte-kit", ".parcel-cache", ".turbo", ".cache", ".idea", ".vs", ".dart_tool", "Pods", "DerivedData",
})  # fmt: skip
ENTRIES_MAX: Final = 2_000_000
_CACHE_SIGNATURE: Final = b"Signature: 8a477f597d28d172789f06886806bc55"
_VIRTUAL_ENVIRONMENT: Final = "pyvenv.cfg"
_CACHE_TAG: Final = "CACHEDIR.TAG"


class Walk(NamedTuple):
    """Files by path; ``left_out`` counts those beyond the limit, ``unread`` the folders that could not be read."""

    files: dict[str, Stamp]
    left_out: int
    unread: int
    is_whole: bool


def walk_folder(root: str, files_max: int = FILES_MAX, entries_max: int = ENTRIES_MAX) -> Walk:
    """Return the regular files below ``root`` in a fixed order: of each folder first its files by name, then its folders."""
    files: dict[str, Stamp] = {}
    left_out = unread = seen = 0
    waiting = [(os.fsencode(root), "")]
    while waiting and seen <= entries_max:
        folder, prefix = waiting.pop()
        entries = _entries(folder, entries_max - seen + 1)
        if entries is None:
            unread += 1
            continue
        seen += len(entries) + 1
        names = {entry.name for entry in entries}
        if prefix and _is_derived(folder, names):
            continue
        below = []
        for entry in entries:
            name = entry.name.decode("utf-8", "surrogateescape")
            if _is_folder(entry):
                if name not in DERIVED_FOLDERS:
                    below.append((entry.path, f"{prefix}{name}/"))
                continue
            stamp = lstat_stamp(entry.path)
            if stamp is None:
                continue
            if len(files) < files_max:
                files[prefix + name] = stamp
            else:
                left_out += 1
        waiting += reversed(below)
    return Walk(files, left_out, unread, not waiting)


def lstat_stamp(path: bytes) -> Stamp | None:
    """Return the stamp of a regular file; None for anything else, symbolic links included."""
    try:
        held = os.lstat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(held.st_mode):
        return None
    return held.st_size, held.st_mtime_ns, held.st_ctime_ns, held.st_ino


def _entries(folder: bytes, most: int) -> list[os.DirEntry[bytes]] | None:
    try:
        with os.scandir(folder) as found:
            return sorted(islice(found, most), key=lambda entry: entry.name)
    except OSError:
        return None


def _is_folder(entry: os.DirEntry[bytes]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_derived(folder: bytes, names: set[bytes]) -> bool:
    """Return whether a tool left its mark in the folder."""
    if _VIRTUAL_ENVIRONMENT.encode() in names:
        return True
    tag = _CACHE_TAG.encode()
    if tag not in names or lstat_stamp(os.path.join(folder, tag)) is None:
        return False
    try:
        with open(os.path.join(folder, tag), "rb") as file:
            return file.read(len(_CACHE_SIGNATURE)) == _CACHE_SIGNATURE
    except OSError:
        return False
