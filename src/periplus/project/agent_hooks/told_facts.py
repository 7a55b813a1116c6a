"""Facts that hooks already gave to an agent's session, so that a fact about a file is given when it is first read,
and again only where it changed.

A file for each session (and subagent, which has a context of its own) in ``.periplus/hooks/told`` holds a short
digest of each line that was given. It is cleared when the agent's context is: at the begin of a session that is not
resumed, and before a compaction. A file counts only where this user wrote it and nobody else could have.
"""

from __future__ import annotations

__all__ = ["FOLDER", "Told", "remove_old"]

import os
import stat
import time
from collections.abc import Iterable, Sequence
from typing import Final

from periplus.base.encoding.digests import sha256

FOLDER: Final = "told"
_DIGITS: Final = 16
_BYTES_MAX: Final = 1 << 18
_OLD_S: Final = 7 * 86_400
_REMOVED_MAX: Final = 1_000


class Told:
    """The lines that were given to ``session`` of ``agent``, or to its subagent ``sub``; ``hooks`` is the store's
    folder for hooks.
    """

    def __init__(self, hooks: str, agent: str, session: str, sub: str = "") -> None:
        self.path = os.path.join(hooks, FOLDER, sha256(f"{agent}\0{session}\0{sub}".encode()).hex()[:24])
        self._held: set[bytes] | None = None
        self._size = 0

    def fresh(self, lines: Iterable[str]) -> list[str]:
        """Return those of ``lines`` that were not given before."""
        held = self._read()
        return [line for line in lines if _digest(line) not in held]

    def add(self, lines: Sequence[str]) -> None:
        """Note that ``lines`` were given; nothing where there are too many. Raises OSError."""
        new = list(dict.fromkeys(_digest(line) for line in self.fresh(lines)))
        if not new or self._size + len(new) * (_DIGITS + 1) > _BYTES_MAX:
            return
        os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if _is_private(os.fstat(fd)):
                os.write(fd, b"".join(one + b"\n" for one in new))
        finally:
            os.close(fd)
        self._held = None

    def forget(self) -> None:
        """Clear the notes. Raises OSError."""
        self._held = None
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass

    def _read(self) -> set[bytes]:
        if self._held is None:
            self._held, self._size = set(), 0
            try:
                fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError:
                return self._held
            try:
                if _is_private(os.fstat(fd)):
                    data = os.read(fd, _BYTES_MAX)
                    self._held, self._size = set(data.split()), len(data)
            except OSError:
                pass  # no notes
            finally:
                os.close(fd)
        return self._held


def remove_old(hooks: str) -> None:
    """Remove the notes of sessions that are over: untouched for a week."""
    folder = os.path.join(hooks, FOLDER)
    try:
        names = os.listdir(folder)[:_REMOVED_MAX]
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        try:
            if time.time() - os.lstat(path).st_mtime > _OLD_S:
                os.unlink(path)
        except OSError:
            continue  # gone meanwhile, or not ours to remove


def _digest(line: str) -> bytes:
    return sha256(line.encode("utf-8", "replace")).hex()[:_DIGITS].encode()


def _is_private(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
