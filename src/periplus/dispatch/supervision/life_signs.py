"""Signs of life of a job: output, processor time, files. A job is judged silent only where all of them are missing."""

from __future__ import annotations

__all__ = ["DiskUse", "LifeSigns", "files_mark"]

import os
import time
from collections.abc import Callable
from typing import Final

from periplus.dispatch.processes import Life

_CPU_SHARE: Final = 0.02  # of a core since the last sign; timers of an idle program take less
_FILES_MAX: Final = 200_000
_DISK_S: Final = 60.0  # between two measures of the same worktree; less while its job is young
_DISK_MIN_S: Final = 0.5
_DISK_SHARE: Final = 200  # and as many times as long as the last one took


class LifeSigns:
    """The last sign of one job, on a monotonic clock: a clock that is set changes nothing."""

    def __init__(self, now_s: float) -> None:
        self._at_s = self._since_s = now_s
        self._output = -1
        self._cpu_ms = 0
        self._files = 0

    def note(self, life: Life, now_s: float) -> None:
        """Note what the job is seen to do."""
        if life.output_bytes != self._output or life.cpu_ms - self._cpu_ms > 1_000 * _CPU_SHARE * max(
            now_s - self._at_s, 1.0
        ):
            self._output, self._cpu_ms, self._at_s = life.output_bytes, life.cpu_ms, now_s

    def is_silent(self, now_s: float, silence_s: float, places: Callable[[], tuple[str, ...]]) -> bool:
        """Return True where the job gave no sign for ``silence_s``. Before that is said, ``places`` (files and folders) are
        searched for one that changed since the last search.
        """
        if not silence_s or now_s - self._at_s < silence_s:
            return False
        files = sum(files_mark(place) for place in places())
        if files != self._files:
            self._files, self._at_s = files, now_s
            return False
        return True

    def watched_s(self, now_s: float) -> float:
        """Return the seconds since the job was seen first."""
        return now_s - self._since_s

    def age_s(self, now_s: float) -> float:
        """Return the seconds since the last sign."""
        return now_s - self._at_s


class DiskUse:
    """The size of a worktree, measured seldom: each measure looks at every file."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._begun_s = self._due_s = time.monotonic()

    def is_over(self, bytes_max: int) -> bool:
        """Return True where the files take more than ``bytes_max`` (0: no limit), as far as it is time to measure."""
        now_s = time.monotonic()
        if not bytes_max or now_s < self._due_s:
            return False
        size = used_bytes(self._folder)
        age_s, taken_s = now_s - self._begun_s, time.monotonic() - now_s
        self._due_s = now_s + max(_DISK_MIN_S, min(_DISK_S, age_s), _DISK_SHARE * taken_s)
        return size > bytes_max


def used_bytes(folder: str) -> int:
    """Return the bytes that the files below a folder take on the disk; links are not followed."""
    size = count = 0
    waiting = [folder]
    while waiting and count < _FILES_MAX:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue  # it was removed meanwhile
    return size


def files_mark(path: str) -> int:
    """Return a number that changes with the time or the size of a file, or of anything below a folder; links are not followed.

    Not the newest time: after the clock was set back, what is written is not newer than what was there.
    """
    try:
        mark = _mark(os.lstat(path))
    except OSError:
        return 0
    count = 0
    waiting = [path] if os.path.isdir(path) else []
    while waiting and count < _FILES_MAX:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    mark += _mark(entry.stat(follow_symlinks=False))
                    if entry.is_dir(follow_symlinks=False) and entry.name != ".git":
                        waiting.append(entry.path)
        except OSError:
            continue  # it was removed meanwhile, which is a change of the folder above
    return mark


def _mark(found: os.stat_result) -> int:
    return found.st_mtime_ns + found.st_size + found.st_ino
