"""What the file system under a path can be relied on for.

Theory of operation
-------------------
Some file systems (Btrfs, ZFS, bcachefs, APFS) write a changed page elsewhere than it was. Others have blocks smaller than
a page of memory (ext4 on a small disk, or where pages are larger than 4 KiB): of a page that was written to, some may have
no place yet. Where nothing is left to write it to, a process that changes memory mapped from a file gets no error from any call: it is ended by SIGBUS, in
the middle of a store. That is so of our own map (``journal/flush``) and of the one that SQLite keeps beside a database
in WAL mode. So nobody maps files for writing on such a disk once it is nearly full, and says sooner than the disk
would that there is no map; what does without one is slower, and right.
"""

from __future__ import annotations

__all__ = [
    "MappingSpace",
    "file_system_id",
    "file_system_in",
    "file_system_of",
    "has_volatile_device_number",
    "is_room_for_maps",
]

import os
import sys
import time
from typing import Final

_IN_PLACE: Final = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "jfs", "tmpfs", "vfat", "exfat", "ntfs3", "nfs", "nfs4"}
)  # a page that was written once has its place for good
_LEAST_BYTES: Final = 32 << 20
_LEAST_PART: Final = 10  # of a small disk, the tenth part
_LOOK_S: Final = 0.02  # in which few fill that much


class MappingSpace:
    """Whether the disk of ``folder`` has room for what is mapped from it; asks it now and then, so that one may ask often."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._until_s = 0.0
        self._is_enough = True
        self._is_in_place: bool | None = None

    def is_enough(self) -> bool:
        now_s = time.monotonic()
        if now_s >= self._until_s:
            self._is_enough = self._look()
            self._until_s = now_s + _LOOK_S
        return self._is_enough

    def _look(self) -> bool:
        if not _is_nearly_full(self._folder):
            return True
        if self._is_in_place is None:
            self._is_in_place = file_system_of(self._folder) in _IN_PLACE and _has_whole_pages(self._folder)
        return self._is_in_place


def is_room_for_maps(folder: str) -> bool:
    """Whether memory that is mapped from files in ``folder`` can be written to without being ended for want of room."""
    return MappingSpace(folder).is_enough()


def file_system_id(path: str) -> str:
    """What the file system under ``path`` calls itself (statfs(2), ``f_fsid``), 16 hexadecimal digits; nothing where it does not.

    On Btrfs each subvolume has its own, which it keeps through mounts, and no snapshot has that of what it was taken from; ext4
    makes it of the UUID, XFS of the device's number. Raises OSError.
    """
    found = os.statvfs(path).f_fsid if sys.platform == "linux" else 0
    return f"{found & (1 << 64) - 1:016x}" if found else ""


def has_volatile_device_number(device: int) -> bool:
    """Whether ``device`` (``st_dev``) is a number that was given out at the mount, as to each subvolume of Btrfs, and names no disk."""
    return sys.platform == "linux" and os.major(device) == 0


def file_system_of(path: str) -> str:
    """The type of the file system that ``path`` lies on, where the system tells it; else nothing."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            return file_system_in(file.read(), os.path.realpath(path))
    except OSError:
        return ""


def file_system_in(mountinfo: str, path: str) -> str:
    """The same by what ``/proc/self/mountinfo`` says (proc(5))."""
    best = ("", "")
    for fields in map(str.split, mountinfo.splitlines()):
        point = fields[4].replace("\\040", " ")
        if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best[0]):
            best = (point, fields[fields.index("-") + 1])
    return best[1]


def _has_whole_pages(folder: str) -> bool:
    """Whether a page of memory that has a place at all has one for all of its bytes."""
    try:
        return os.statvfs(folder).f_bsize >= os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return False


def _is_nearly_full(folder: str) -> bool:
    try:
        found = os.statvfs(folder)
    except OSError:
        return False  # nobody can tell
    least = min(_LEAST_BYTES, found.f_blocks * found.f_frsize // _LEAST_PART)
    return found.f_bavail * found.f_frsize < least
