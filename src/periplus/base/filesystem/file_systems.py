"""Properties of file systems: whether files can be mapped for writing, and the identity of a file system.

Theory of operation
-------------------
Copy-on-write file systems (Btrfs, ZFS, bcachefs, APFS) write a changed page to a new place. Others have blocks smaller than
a page of memory (ext4 on a small disk, or a system with pages larger than 4 KiB), so that a page of a file may lack some of
its blocks. If such a disk is full, a process that changes mapped memory gets no error from any call: SIGBUS ends it
in the middle of a store. This affects our own mapping (``journal.storage.group_commit``) and the one that SQLite keeps beside a
database in WAL mode. So no file is mapped for writing on such a disk once it is nearly full. The code without a
mapping is slower and correct.
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
)  # a page that was written once keeps its place
_LEAST_BYTES: Final = 32 << 20
_LEAST_PART: Final = 10  # a tenth of a small disk
_LOOK_S: Final = 0.02  # too short a time to fill that much


class MappingSpace:
    """Checks that the disk of ``folder`` has space for mapped pages. The answer is kept for _LOOK_S, so frequent
    calls are cheap.
    """

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
    """Return True where writing to memory mapped from files in ``folder`` cannot raise SIGBUS for lack of space."""
    return MappingSpace(folder).is_enough()


def file_system_id(path: str) -> str:
    """Return the id of the file system under ``path`` (statfs(2), ``f_fsid``) as 16 hexadecimal digits, empty where
    it has none.

    On Btrfs each subvolume has its own id, which survives mounts and differs from that of its snapshots; ext4 derives
    it from the UUID, XFS from the device number. Raises OSError.
    """
    found = os.statvfs(path).f_fsid if sys.platform == "linux" else 0
    return f"{found & (1 << 64) - 1:016x}" if found else ""


def has_volatile_device_number(device: int) -> bool:
    """Return True for a ``device`` number (``st_dev``) that is assigned at mount, as for Btrfs subvolumes, and
    identifies no disk.
    """
    return sys.platform == "linux" and os.major(device) == 0


def file_system_of(path: str) -> str:
    """Return the type of the file system under ``path``, empty where the system does not tell."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            return file_system_in(file.read(), os.path.realpath(path))
    except OSError:
        return ""


def file_system_in(mountinfo: str, path: str) -> str:
    """Find the type of the file system under ``path`` in the text of ``/proc/self/mountinfo`` (proc(5))."""
    best = ("", "")
    for fields in map(str.split, mountinfo.splitlines()):
        point = fields[4].replace("\\040", " ")
        if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best[0]):
            best = (point, fields[fields.index("-") + 1])
    return best[1]


def _has_whole_pages(folder: str) -> bool:
    """Return True where a block covers at least a page, so that no page has only some of its blocks."""
    try:
        return os.statvfs(folder).f_bsize >= os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return False


def _is_nearly_full(folder: str) -> bool:
    try:
        found = os.statvfs(folder)
    except OSError:
        return False  # unknown
    least = min(_LEAST_BYTES, found.f_blocks * found.f_frsize // _LEAST_PART)
    return found.f_bavail * found.f_frsize < least
