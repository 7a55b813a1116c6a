"""Notes of the functions that a process reaches. Loaded at the start of every interpreter of an instrumented tree.

An instrumented function begins with ``number in REACHED or REACH(number)``. Both names are builtins, so that the tree
needs no further import. The process of pytest takes ``REACHED`` at the end of each test; every other process appends to a
file, because it may be killed. It finds its test by the identifier of an ancestor: no environment variable is needed,
and tests that clean the environment lose nothing.
"""

from __future__ import annotations

import builtins
import os

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mutants_notes")
REACHED: set[int] = set()
_recorder = [0, ""]  # the process of pytest, and the key of what it does now


def reach(number: int) -> None:
    REACHED.add(number)
    pid, key = _recorder
    if pid != os.getpid() and key:
        try:
            with open(os.path.join(FOLDER, f"child-{os.getpid()}"), "a", encoding="ascii") as file:
                file.write(f"{key} {number}\n")
        except OSError:  # a sandbox, or a limit that is part of the test
            pass


def record(key: str) -> None:
    """Begin what is known by ``key``, here and in the processes that are started from here."""
    _recorder[:] = os.getpid(), key
    with open(os.path.join(FOLDER, f"current-{os.getpid()}"), "w", encoding="ascii") as file:
        file.write(key)


def _inherited() -> str:
    """The key of the nearest ancestor that records; empty without one."""
    pid = os.getppid()
    while pid > 1:
        try:
            with open(os.path.join(FOLDER, f"current-{pid}"), encoding="ascii") as file:
                return file.read()
        except OSError:
            pass
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return ""


if os.path.isdir(FOLDER):
    _recorder[1] = _inherited()
    builtins.REACHED = REACHED  # type: ignore[attr-defined]
    builtins.REACH = reach  # type: ignore[attr-defined]
