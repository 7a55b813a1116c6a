"""Space that a store takes, by kind of file."""

from __future__ import annotations

__all__ = ["SpaceKind", "measure_space"]

import os
from collections.abc import Callable, Iterator
from typing import Final

from periplus.base.named_tuple import NamedTuple

_FILES_AT_ONCE: Final = 1_000


class SpaceKind(NamedTuple):
    """Files of one kind. ``is_derived``: they are made again from the journal and the objects where they are missing."""

    name: str
    size_bytes: int
    files: int
    is_derived: bool


# The first part of a path below the store that matches counts; what matches none is "other".
_KINDS: Final[tuple[tuple[str, str, bool], ...]] = (
    ("journal/checkpoints", "checkpoints", False), ("journal/tree", "tree of hashes", True), ("journal", "journal", False),
    ("objects", "objects: trails and other content", False), ("entities", "entity files", True), ("index.sqlite", "index", True),
    ("turns.sqlite", "search of sessions", True), ("cache", "caches: code map and contexts", True), ("hooks", "events of hooks", False),
    ("parked", "files that a repair moved away", False), ("archive", "backups", False),
)  # fmt: skip
_ARCHIVE: Final = "archived segments"
_OTHER: Final = "other"


def measure_space(
    root: str, *, files_max: int = 0, progress: Callable[[int, int], None] = lambda *_: None
) -> tuple[SpaceKind, ...] | None:
    """Return the space by kind, largest first; None where there are more than ``files_max`` files (0: no limit).

    Files that are removed meanwhile do not count; links are not followed.
    """
    found: dict[tuple[str, bool], list[int]] = {}
    for number, (path, size) in enumerate(_files(root)):
        if files_max and number >= files_max:
            return None
        if not number % _FILES_AT_ONCE:
            progress(number, 0)
        sums = found.setdefault(_kind_of(path), [0, 0])
        sums[0] += size
        sums[1] += 1
    kinds = (SpaceKind(name, size, count, is_derived) for (name, is_derived), (size, count) in found.items())
    return tuple(sorted(kinds, key=lambda one: (-one.size_bytes, one.name)))


def _kind_of(path: str) -> tuple[str, bool]:
    if path.startswith("journal/lin_") and path.split("/")[2:3] == ["archive"]:
        return _ARCHIVE, False
    for prefix, name, is_derived in _KINDS:
        if path == prefix or path.startswith((prefix + "/", prefix + "-", prefix + ".")):
            return name, is_derived
    return _OTHER, False


def _files(root: str) -> Iterator[tuple[str, int]]:
    """Yield the path below ``root`` and the size of each file."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        yield entry.path[len(root) + 1 :], entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue  # removed just now, or not ours to read
