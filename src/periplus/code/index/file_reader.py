"""Files of a worktree read without leaving it: no link on the way is followed, nothing but plain files is opened."""

from __future__ import annotations

__all__ = ["FileReader"]

import os
import stat
from typing import Final, Self

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FileReader:
    """Reads below ``root``. Close it, or use it as a context manager."""

    def __init__(self, root: str) -> None:
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._folder = ("", -1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._leave()
        os.close(self._root)

    def read(self, path: str, size_max: int) -> bytes | None:
        """Return the contents of a plain file, None where it is larger. Raises OSError where it is not there or no plain file."""
        folder, _, name = path.rpartition("/")
        fd = os.open(name, _FILE, dir_fd=self._enter(folder))
        with open(fd, "rb", buffering=0) as file:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise FileNotFoundError(path)
            if found.st_size > size_max:
                return None
            data = file.read(size_max + 1) or b""
            while len(data) <= size_max and (more := file.read(size_max + 1 - len(data))):
                data += more
            return data if len(data) <= size_max else None

    def head(self, path: str, size: int) -> bytes:
        """Return the first ``size`` bytes of a plain file; empty where it cannot be read."""
        folder, _, name = path.rpartition("/")
        try:
            fd = os.open(name, _FILE, dir_fd=self._enter(folder))
            with open(fd, "rb", buffering=0) as file:
                return (file.read(size) or b"") if stat.S_ISREG(os.fstat(fd).st_mode) else b""
        except OSError:
            return b""

    def _enter(self, folder: str) -> int:
        """Return the descriptor of ``folder``; that of the last one is kept open, since files come folder by folder."""
        if not folder:
            return self._root
        if self._folder[0] == folder:
            return self._folder[1]
        at = self._root
        try:
            for name in folder.split("/"):
                inner = os.open(name, _FOLDER, dir_fd=at)
                if at != self._root:
                    os.close(at)
                at = inner
        except OSError:
            if at != self._root:
                os.close(at)
            raise
        self._leave()
        self._folder = (folder, at)
        return at

    def _leave(self) -> None:
        if self._folder[1] >= 0:
            os.close(self._folder[1])
        self._folder = ("", -1)
