"""Identity of a process across time, to tell later whether it still runs.

Process ids are reused. Together with the boot id, the start time of the process and its namespace an id is unique. A
part that the system does not tell is empty, and nothing is concluded from it.
"""

from __future__ import annotations

__all__ = ["ProcessMark", "client_mark", "is_gone", "mark_of_text", "process_mark", "text_of_mark"]

import os

from periplus.base.files import Files
from periplus.base.named_tuple import NamedTuple

_STAT_BYTES_MAX = 4096
# Programs between a client and the process it starts, by their names in /proc.
_BETWEEN = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "busybox", "env", "timeout", "nice", "setsid", "periplus"}
)
_ANCESTORS_MAX = 8
_AGE_MIN_S = 2.0  # a process started more recently may be a short-lived helper
_STARTED_FIELD = 22 - 3  # of /proc/PID/stat, counted after the name, which may contain anything


class ProcessMark(NamedTuple):
    """``started`` as the system gives it, empty if unknown; ``space`` names the namespace of ``pid``."""

    pid: int
    started: str
    boot: str
    host: str
    space: str


def process_mark(pid: int, files: Files) -> ProcessMark:
    """Return the mark of a running process."""
    return ProcessMark(pid, _started(pid), files.boot_id(), os.uname().nodename, _space())


def client_mark(files: Files) -> ProcessMark | None:
    """Return the mark of the program that started this process, skipping shells and the like (proc(5)). None where it
    is unknown or has just been started itself.
    """
    pid = os.getppid()
    for _ in range(_ANCESTORS_MAX):
        fields = _stat_fields(pid)
        if pid <= 1 or len(fields) <= _STARTED_FIELD:
            return None
        if _name(pid) not in _BETWEEN:
            break
        pid = int(fields[1])
    else:
        return None
    with open("/proc/uptime", "rb") as file:
        up_s = float(file.read(64).split()[0])
    if up_s - int(fields[_STARTED_FIELD]) / os.sysconf("SC_CLK_TCK") < _AGE_MIN_S:
        return None
    return process_mark(pid, files)


def text_of_mark(mark: ProcessMark) -> str:
    return " ".join(map(str, mark))


def mark_of_text(text: str) -> ProcessMark | None:
    """Parse a mark that ``text_of_mark`` wrote; None for other text."""
    parts = text.split(" ")
    if len(parts) != len(ProcessMark._fields) or not parts[0].isdigit() or len(parts[0]) > 10:
        return None
    return ProcessMark(int(parts[0]), *parts[1:])


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read(64).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def is_gone(mark: ProcessMark, files: Files) -> bool:
    """Return True where the process has certainly ended; False also where that cannot be told from here."""
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
        return False  # it runs under another user
    return _started(mark.pid) != mark.started or _is_dead(mark.pid)


def _stat_fields(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the state on; none on other systems."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read(_STAT_BYTES_MAX).rpartition(b")")[2].split()
    except OSError:
        return []


def _started(pid: int) -> str:
    fields = _stat_fields(pid)
    return fields[_STARTED_FIELD].decode() if len(fields) > _STARTED_FIELD else ""


def _is_dead(pid: int) -> bool:
    """Detect a process that has ended and whose parent has not waited for it."""
    return _stat_fields(pid)[:1] in ([b"Z"], [b"X"])


def _space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
