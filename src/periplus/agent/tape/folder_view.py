"""View of a folder's files for the tape: present contents, and stored earlier ones."""

from __future__ import annotations

__all__ = ["FolderView"]

from collections.abc import Callable
from typing import Final

from periplus.base.errors import PeriplusError
from periplus.base.filesystem.confined_folder import Confined

READ_BYTES_MAX: Final = 8 << 20


class FolderView:
    """Satisfies ``fold_plan.FileView``. ``keeps`` are functions from a SHA-256 to bytes (an object store's ``get``), tried in order."""

    def __init__(self, folder: Confined, *keeps: Callable[[bytes], bytes]) -> None:
        self._folder = folder
        self._keeps = keeps

    def read(self, path: str) -> bytes | None:
        try:
            entry = self._folder.stat(path)
            if entry is None or entry.kind != "file" or entry.size > READ_BYTES_MAX:
                return None
            return self._folder.read(path)
        except (OSError, PeriplusError):
            return None  # a link, a folder, or unreadable: not the file that we knew

    def kept(self, sha256: str) -> bytes | None:
        try:
            digest = bytes.fromhex(sha256)
        except ValueError:
            return None
        for keep in self._keeps:
            try:
                return keep(digest)
            except (OSError, PeriplusError):
                continue  # another may have it; if none has, the tape says that it is not kept
        return None
