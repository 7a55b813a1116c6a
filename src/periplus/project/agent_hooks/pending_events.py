"""For ``doctor``: events of hooks that wait to be imported, and those that only another user can import."""

from __future__ import annotations

__all__ = ["waiting_events"]

import os
from typing import Final

from periplus.base.errors import EnvironmentFailure
from periplus.base.files import user_named
from periplus.base.filesystem.spool import Foreign, Spool
from periplus.journal.care.doctor import Problem

_OF_OTHERS: Final = "That user imports them with `periplus status`. If they are yours under another name, chown them to you; if nobody needs them, remove them."
_OPEN: Final = "Another user may have written them, so they are not imported. If they are yours (after a copy, for instance), chmod them to 600; otherwise remove them."


def waiting_events(spool: Spool) -> list[Problem]:
    try:
        waiting, foreign = len(spool.waiting()), spool.foreign()
    except EnvironmentFailure as error:
        what = f"{error.wrong}: hook events are neither kept nor imported"
        return [Problem("warning", what, spool.folder, mend=f"Let {user_named(os.geteuid())} read and write there.")]
    found = []
    if waiting:
        what = f"{_events(waiting, 'waits', 'wait')} to be imported"
        mend = f"The next command imports {'it' if waiting == 1 else 'them'}."
        found.append(Problem("note", what, spool.folder, mend=mend))
    return [*found, *_of_others(foreign, spool.folder)]


def _of_others(foreign: list[Foreign], folder: str) -> list[Problem]:
    own = os.geteuid()
    by_user: dict[int, int] = {}
    for one in foreign:
        by_user[one.uid] = by_user.get(one.uid, 0) + 1
    is_open = by_user.pop(own, 0)
    found = [
        Problem("warning", f"{_events(count, 'was', 'were')} left by {user_named(uid)}", folder, mend=_OF_OTHERS)
        for uid, count in sorted(by_user.items())
    ]
    if is_open:
        what = f"{_events(is_open, 'is', 'are')} open to other users"
        found.append(Problem("warning", what, folder, mend=_OPEN))
    return found


def _events(count: int, one: str, several: str) -> str:
    return f"1 event of hooks {one}" if count == 1 else f"{count:,} events of hooks {several}"
