"""One supervisor for a dispatch: a lock that ends with its process."""

from __future__ import annotations

__all__ = ["Ownership"]

import fcntl
import os
from typing import Self

from periplus.base.errors import RefusedError, environment_failure


class Ownership:
    """The lock of a dispatch, held while it is supervised. Raises RefusedError where another process has it."""

    def __init__(self, path: str, dispatch: str) -> None:
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise environment_failure(error, "open", path) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held = os.pread(self._fd, 100, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            raise RefusedError(
                f"{dispatch} is supervised by process {held or '?'} already", safe="Nothing was started.",
                mend=f"Watch it: periplus dispatch watch {dispatch}",
            ) from None  # fmt: skip
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
