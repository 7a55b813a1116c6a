"""Run folders that nobody needs any more: trails and records say what happened in them."""

from __future__ import annotations

__all__ = ["forget_runs"]

import os
import time
from typing import TYPE_CHECKING, Final

from periplus.dispatch.repository.worktrees import remove_folder
from periplus.memory.coordination.assignments import OPEN_STATES
from periplus.memory.fulltext.links import linked

if TYPE_CHECKING:
    from periplus.dispatch.supervision.workplace import Workplace

RUN_DAYS_MAX: Final = 14
_DAY_S: Final = 86_400


def forget_runs(at: Workplace) -> int:
    """Remove the folders of runs that ended two weeks ago and that no assignment at work names; return how many."""
    needed = {str(one.value.get("run", "")) for one in linked(at.journal, "assignment", "state", *sorted(OPEN_STATES))}
    before_s = time.time() - RUN_DAYS_MAX * _DAY_S
    removed = 0
    with os.scandir(os.path.dirname(at.places.run("x"))) as entries:
        old = [entry for entry in entries if entry.is_dir(follow_symlinks=False) and entry.stat().st_mtime < before_s]
    for entry in old:
        if entry.name not in needed and at.run_folder(entry.name).standing() in ("absent", "ended", "lost"):
            remove_folder(entry.path)
            removed += 1
    return removed
