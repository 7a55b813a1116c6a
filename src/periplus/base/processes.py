"""Which process it was, so that a later one can tell whether it still runs.

A process id alone comes again. With the start of the machine, the process's own start and its namespace it is one
process and no other; what cannot be told on a system is left empty and nothing is concluded from it.
"""

from __future__ import annotations

__all__ = ["ProcessMark", "is_gone", "process_mark"]

import os

from periplus.base.files import Files
from periplus.base.tuples import NamedTuple

_STAT_BYTES_MAX = 4096
_STARTED_FIELD = 22 - 3  # of /proc/PID/stat, counted behind the name, which may hold anything


class ProcessMark(NamedTuple):
    """``started`` in the system's own words, empty where it does not say; ``space`` names the namespace of ``pid``."""

    pid: int
    started: str
    boot: str
    host: str
    space: str


def process_mark(pid: int, files: Files) -> ProcessMark:
    """The mark of a process that runs now."""
    return ProcessMark(pid, _started(pid), files.boot_id(), os.uname().nodename, _space())


def is_gone(mark: ProcessMark, files: Files) -> bool:
    """Whether that process has surely ended; False also where it cannot be told from here."""
    if mark.host != os.uname().nodename:
        return False
    boot = files.boot_id()
    if "unknown" in (mark.boot[:7], boot[:7]):
        return False
    if mark.boot != boot:
        return True
    if mark.space != _space():
        return False
    try:
        os.kill(mark.pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False  # it runs, as somebody else's
    return _started(mark.pid) != mark.started or _is_dead(mark.pid)


def _stat_fields(pid: int) -> list[bytes]:
    """What Linux tells of a process, from its state on; nothing elsewhere."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read(_STAT_BYTES_MAX).rpartition(b")")[2].split()
    except OSError:
        return []


def _started(pid: int) -> str:
    fields = _stat_fields(pid)
    return fields[_STARTED_FIELD].decode() if len(fields) > _STARTED_FIELD else ""


def _is_dead(pid: int) -> bool:
    """Whether it has ended and only waits for its parent to look."""
    return _stat_fields(pid)[:1] in ([b"Z"], [b"X"])


def _space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
