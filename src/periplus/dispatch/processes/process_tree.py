"""Processes of a job: found in /proc, signalled by pidfd so that a reused id is never hit.

Imports nothing but modules that Python has loaded at its start, because the keeper pays for it. On systems without /proc the
searches find nothing; their callers then have the process group alone.
"""

from __future__ import annotations

__all__ = ["ProcessFacts", "descendants", "facts_of", "is_same", "signal_process", "survivors"]

import os
import signal
from collections.abc import Iterable

_STAT_BYTES_MAX = 4096
_LIST_BYTES_MAX = 65536
_ENVIRONMENT_BYTES_MAX = 1 << 20
_TREE_MAX = 100_000  # processes; bounds the walk over a tree that grows meanwhile


class ProcessFacts:
    """One reading of /proc/PID/stat (proc(5)); times in clock ticks, ``waited_ticks`` those of ended children."""

    __slots__ = ("is_dead", "parent", "pid", "session", "started", "ticks", "waited_ticks")

    def __init__(self, pid: int, fields: list[bytes]) -> None:
        self.pid = pid
        self.is_dead = fields[0] in (b"Z", b"X")
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.ticks = int(fields[11]) + int(fields[12])
        self.waited_ticks = int(fields[13]) + int(fields[14])
        self.started = fields[19].decode()


def facts_of(pid: int) -> ProcessFacts | None:
    """Read the facts of a process; None where there is none, or no /proc."""
    # After the name, which may contain anything, fields are separated by one space.
    fields = _read(f"/proc/{pid}/stat", _STAT_BYTES_MAX).rpartition(b")")[2].split()
    return ProcessFacts(pid, fields) if len(fields) > 19 else None


def is_same(pid: int, started: str) -> bool:
    """Test that the process lives and started then. On systems without /proc: that any process has the id."""
    facts = facts_of(pid)
    if facts is not None:
        return facts.started == started and not facts.is_dead
    if started:
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def descendants(root: int) -> list[ProcessFacts]:
    """Find the processes below ``root``, dead ones too, parents first."""
    if not os.path.exists("/proc/thread-self/children"):  # a kernel without CONFIG_PROC_CHILDREN
        return _below({root}, _all_processes())
    found: list[ProcessFacts] = []
    seen = {root}
    waiting = [root]
    while waiting and len(seen) < _TREE_MAX:
        for pid in _children(waiting.pop()):
            facts = facts_of(pid) if pid not in seen else None
            if facts is not None:
                seen.add(pid)
                found.append(facts)
                waiting.append(pid)
    return found


def survivors(leader: int, started: str, token: str) -> list[ProcessFacts]:
    """Find the living processes of a job whose keeper is dead, in one pass over all processes.

    These are the leader and its session, all whose environment has the token, and their descendants. The session alone
    proves nothing once the leader is dead: its number may be reused.
    """
    everything = _all_processes()
    has_leader = any(facts.pid == leader and facts.started == started and not facts.is_dead for facts in everything)
    wanted = token.encode()
    roots = set[int]()
    for facts in everything:
        if int(facts.started) < int(started or 0):
            continue
        if (has_leader and leader in (facts.pid, facts.session)) or wanted in _environment(facts.pid):
            roots.add(facts.pid)
    own = [facts for facts in everything if facts.pid in roots]
    return [facts for facts in (*own, *_below(roots, everything)) if not facts.is_dead]


def signal_process(pid: int, started: str, *numbers: int) -> bool:
    """Send the signals to the process if it is still the one that started then. False where it is gone."""
    open_process = getattr(os, "pidfd_open", None)
    send = getattr(signal, "pidfd_send_signal", None)
    try:
        fd = open_process(pid) if open_process is not None and send is not None else -1
    except ProcessLookupError:
        return False
    except OSError:
        fd = -1  # a kernel before 5.3, or a sandbox without it
    try:
        if not is_same(pid, started):  # after opening: from here on the descriptor cannot change its process
            return False
        for number in numbers:
            if fd >= 0 and send is not None:
                send(fd, number)
            else:
                os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False  # a program with the rights of another user cannot be stopped from here
    finally:
        if fd >= 0:
            os.close(fd)
    return True


def _all_processes() -> list[ProcessFacts]:
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    return [facts for name in names if name.isdigit() and (facts := facts_of(int(name))) is not None]


def _below(roots: set[int], everything: Iterable[ProcessFacts]) -> list[ProcessFacts]:
    children: dict[int, list[ProcessFacts]] = {}
    for facts in everything:
        children.setdefault(facts.parent, []).append(facts)
    found, seen, waiting = list[ProcessFacts](), set(roots), list(roots)
    while waiting:
        for facts in children.get(waiting.pop(), ()):
            if facts.pid not in seen:
                seen.add(facts.pid)
                found.append(facts)
                waiting.append(facts.pid)
    return found


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [
        int(one) for thread in threads for one in _read(f"/proc/{pid}/task/{thread}/children", _LIST_BYTES_MAX).split()
    ]


def _environment(pid: int) -> bytes:
    return _read(f"/proc/{pid}/environ", _ENVIRONMENT_BYTES_MAX)  # empty where it belongs to another user


def _read(path: str, bytes_max: int) -> bytes:
    """Read a file of /proc; empty where it is gone. ``open`` would take three times as long."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    pieces = []
    try:
        while bytes_max > 0 and (piece := os.read(fd, min(bytes_max, 16384))):
            pieces.append(piece)
            bytes_max -= len(piece)
            if len(piece) < 1024:  # the end; a page that is cut short is longer
                break
    except OSError:
        pass  # the process ended meanwhile
    finally:
        os.close(fd)
    return b"".join(pieces)
