"""The folder ``parked/``, which keeps files that a repair moved away. Nothing in it is deleted or read."""

from __future__ import annotations

__all__ = ["Parking", "Repair", "leftovers", "read_whole"]

import os
from collections.abc import Iterator

from periplus.base.clock import Clock, format_ms
from periplus.base.errors import DamageError, EnvironmentFailure, environment_failure
from periplus.base.files import Files, is_temporary, read_around, read_at, read_plain, write_atomic
from periplus.base.named_tuple import NamedTuple
from periplus.journal.storage.layout import COPIES_FOLDER, PARKED_FOLDER, Layout
from periplus.journal.storage.lineage import SEGMENT_READ_MAX, is_unreadable


class Repair(NamedTuple):
    """One repaired thing: what it was, in which file, of which record (0 if of none)."""

    what: str
    path: str
    seq: int = 0


class Parking:
    """Keeps files under ``parked/<time>/`` with their path within the store."""

    def __init__(self, layout: Layout, files: Files, clock: Clock) -> None:
        self._root = layout.root
        self._files = files
        stamp = format_ms(clock.now_ms()).replace(":", "").replace("-", "")
        self._folder = os.path.join(layout.root, PARKED_FOLDER, stamp)
        self._plans = 0

    def park(self, path: str) -> None:
        """Keep a durable copy of ``path``; keep the file itself if the disk does not return all of it."""
        try:
            data = read_whole(path)
        except EnvironmentFailure as error:
            if not is_unreadable(error):
                raise
            self._keep(path)
            return
        if data is not None:
            self._write(self._place(path), data)

    def _keep(self, path: str) -> None:
        target = self._place(path)
        try:
            self._files.make_folder(os.path.dirname(target))
            self._files.link(path, target)
            self._files.sync_folder(os.path.dirname(target))
        except OSError as error:
            raise environment_failure(error, "park", path) from error

    def move(self, path: str) -> str:
        """Move ``path`` there; return its new path within the store."""
        target = self._place(path)
        try:
            self._files.make_folder(os.path.dirname(target))
            self._files.replace(path, target)
        except OSError as error:
            raise environment_failure(error, "park", path) from error
        return os.path.relpath(target, self._root)

    def write(self, name: str, data: bytes) -> None:
        self._plans += 1
        stem, suffix = os.path.splitext(name)
        self._write(os.path.join(self._folder, f"{stem}-{self._plans}{suffix}"), data)

    def _place(self, path: str) -> str:
        return os.path.join(self._folder, os.path.relpath(path, self._root))

    def _write(self, path: str, data: bytes) -> None:
        try:
            self._files.make_folder(os.path.dirname(path))
        except OSError as error:
            raise environment_failure(error, "create", os.path.dirname(path)) from error
        write_atomic(self._files, path, data)


def leftovers(root: str) -> Iterator[str]:
    """Yield the temporary files below a store's folder, except backups of other programs' files and parked files."""
    archive = os.path.join(root, "archive")
    for folder, folders, names in os.walk(root):
        if folder == root and PARKED_FOLDER in folders:
            folders.remove(PARKED_FOLDER)
        if os.path.dirname(folder) == archive and COPIES_FOLDER in folders:
            folders.remove(COPIES_FOLDER)
        yield from (os.path.join(folder, name) for name in sorted(names) if is_temporary(name))


def read_whole(path: str, *, around: bool = False) -> bytes | None:
    """Return the bytes of a file of at most a segment's size; None if there is no such file.

    With ``around``, bytes that the disk does not return are zeros.
    """
    try:
        data = read_plain(path, SEGMENT_READ_MAX + 1, read=read_around if around else read_at)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise environment_failure(error, "read", path) from error
    if len(data) > SEGMENT_READ_MAX:
        raise DamageError(f"a file over {SEGMENT_READ_MAX:,} bytes", path=path, safe="It was not touched.")
    return data
