"""Detection of files that a command changed: the folder before and after, so that changes are reported and undone with the turn.

Before a command the digest of every file that is not ignored is known and its content stored; files that were read before and did not
change since are not read again. The differences afterwards are one change of the turn, like one of a tool. A folder that is too large is
not watched, and that is reported.
"""

from __future__ import annotations

__all__ = ["TreeWatch"]

import os
import threading
import time
from typing import Any, Final, NamedTuple

from periplus.agent.tools.files.change_log import Change, effect_of
from periplus.agent.tools.files.folder_walk import Walk
from periplus.agent.tools.files.workspace import Workspace
from periplus.base.encoding.digests import sha256
from periplus.base.errors import PeriplusError

FILES_MAX: Final = 5_000
BYTES_MAX: Final = 128 << 20
FILE_BYTES_MAX: Final = 8 << 20
WALK_SECONDS_MAX: Final = 5.0
_SETTLED_NS: Final = 2_500_000_000  # file times may have a resolution of two seconds


class _Known(NamedTuple):
    """A file as it was read: ``stamp`` changes with it; None if it had changed just before."""

    stamp: tuple[int, ...] | None
    digest: bytes
    mode: int


class TreeWatch:
    """The files of one workspace. ``why_not`` says why they are not watched; empty if they are."""

    def __init__(self, work: Workspace, *, files_max: int = FILES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._work, self._files_max, self._bytes_max = work, files_max, bytes_max
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()
        self.why_not = ""

    def before(self) -> None:
        """Take the state before a command starts: changes so far belong to others."""
        with self._lock:
            found = self._look()
            self._known = found if found is not None else {}

    def after(self) -> tuple[dict[str, Any], ...]:
        """Take the state after it ended or went to the background: its changes, in the form of ``ToolResult.effects``."""
        with self._lock:
            if self.why_not:
                return ()
            found = self._look()
            if found is None:
                return ()
            held, self._known = self._known, found
            changes, modes = [], {}
            for path in sorted(held.keys() | found.keys()):
                old, new = held.get(path), found.get(path)
                is_same_mode = old is None or new is None or old.mode == new.mode
                if (old.digest if old else None) == (new.digest if new else None) and is_same_mode:
                    continue
                before, after = self._bytes(old), self._bytes(new)
                if old is not None and new is None and self._work.folder.stat(path) is not None:
                    continue  # it still exists, but is ignored now, or too large
                changes.append(Change(path, before, after, mode=new.mode if new else None))
                if old is not None:
                    modes[path] = old.mode
            if changes:
                self._work.note_changed(changes, modes)
            return tuple(effect_of(change) for change in changes)

    def _bytes(self, known: _Known | None) -> bytes | None:
        return None if known is None else self._work.changes.content(known.digest.hex())

    def _look(self) -> dict[str, _Known] | None:
        """Every watched file; None, with ``why_not``, if there are too many."""
        walk = Walk(self._work.folder, seconds=WALK_SECONDS_MAX)
        found: dict[str, _Known] = {}
        size = 0
        for entry in walk.files():
            if entry.size > FILE_BYTES_MAX:
                continue
            size += entry.size
            if len(found) >= self._files_max or size > self._bytes_max:
                limit = f"{self._files_max:,} files" if len(found) >= self._files_max else f"{self._bytes_max >> 20} MB"
                self.why_not = f"the folder has over {limit}"
                return None
            known = self._seen(entry.path)
            if known is not None:
                found[entry.path] = known
        self.why_not = f"looking through the folder took {walk.stopped}" if walk.stopped else ""
        return None if walk.stopped else found

    def _seen(self, path: str) -> _Known | None:
        try:
            status = os.lstat(os.path.join(self._work.root, path))
        except OSError:
            return None  # gone meanwhile
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode)
        held = self._known.get(path)
        if held is not None and held.stamp == stamp:
            return held
        try:
            data = self._work.folder.read(path)
        except PeriplusError:
            return None
        digest = sha256(data)
        if held is None or held.digest != digest:
            self._work.changes.keep(data, durable=False)
        is_settled = max(status.st_mtime_ns, status.st_ctime_ns) < time.time_ns() - _SETTLED_NS
        return _Known(stamp if is_settled else None, digest, status.st_mode & 0o777)
