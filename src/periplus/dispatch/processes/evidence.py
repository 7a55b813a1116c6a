"""Signs of life of a job: its output, the processor time of all its processes, their number.

The kernel adds the time of an ended process to the process that waited for it, and on Linux every orphan of the job
becomes a child of its keeper. So the sum over the living ones and what the keeper's children had used is the time of all,
also of those that have ended. To walk the tree takes a file of /proc for each process and each of its threads, 40 µs for a
few small ones and some milliseconds for a large tree. So it is walked as often as takes a hundredth of the time; in between
the known processes are read, and a new one counts from the next walk on, or when it has ended.
"""

from __future__ import annotations

__all__ = ["JobProcesses", "Life"]

import os
import time
from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.dispatch.processes.process_tree import descendants, facts_of

_WALK_SHARE: Final = 100  # of the time between two walks, that a walk may take
_WALK_PAUSE_MAX_S: Final = 2.0


class Life(NamedTuple):
    """``output_bytes`` without what a full disk dropped; ``cpu_ms`` of all processes, ended ones too; ``processes`` alive."""

    output_bytes: int
    cpu_ms: int
    processes: int


class JobProcesses:
    """Processor time and number of the processes below one, its keeper, or at and below one, its leader."""

    def __init__(self, root: int, started: str, *, is_keeper: bool) -> None:
        self._root, self._started, self._is_keeper = root, started, is_keeper
        self._known: dict[int, str] = {}
        self._next_walk_s = 0.0
        self._ticks = 0
        self._ticks_a_s = os.sysconf("SC_CLK_TCK")

    def read(self) -> tuple[int, int]:
        """Return the processor time in milliseconds and the number of living processes. The time never falls."""
        root = facts_of(self._root)
        if root is None or root.started != self._started:
            return self._cpu_ms(), 0
        now_s = time.monotonic()
        if now_s >= self._next_walk_s:
            found = descendants(self._root)
            self._known = {facts.pid: facts.started for facts in found}
            took_s = time.monotonic() - now_s
            self._next_walk_s = now_s + min(took_s * _WALK_SHARE, _WALK_PAUSE_MAX_S)
        else:
            again = [facts_of(pid) for pid in self._known]
            found = [facts for facts in again if facts is not None and self._known[facts.pid] == facts.started]
        ticks = root.waited_ticks + (0 if self._is_keeper else root.ticks)
        ticks += sum(facts.ticks + facts.waited_ticks for facts in found)
        self._ticks = max(self._ticks, ticks)  # one that ends between two readings is missed by both
        living = sum(not facts.is_dead for facts in found) + (not self._is_keeper and not root.is_dead)
        return self._cpu_ms(), living

    def _cpu_ms(self) -> int:
        return self._ticks * 1000 // self._ticks_a_s
