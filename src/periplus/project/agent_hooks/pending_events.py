"""For ``doctor``: events of hooks that wait to be taken in, and those that nobody but somebody else will take in."""

from __future__ import annotations

__all__ = ["waiting_events"]

import os
from typing import Final

from periplus.base.errors import EnvironmentFailure
from periplus.base.files import user_named
from periplus.base.filesystem.spool import Foreign, Spool
from periplus.journal.care.doctor import Problem

_OF_OTHERS: Final = "Only that user takes in what it left, with `periplus status`. What is your own under another name, chown gives to you; what nobody will take in any more may be removed."
_OPEN: Final = "Somebody else could have written that, so it is not taken in. What is your own (after a copy, say) is taken in after chmod 600; the rest may be removed."


def waiting_events(spool: Spool) -> list[Problem]:
    try:
        waiting, foreign = len(spool.waiting()), spool.foreign()
    except EnvironmentFailure as error:
        what = f"{error.wrong}: what hooks are told is not kept, and not taken in"
        return [Problem("warning", what, spool.folder, mend=f"Let {user_named(os.geteuid())} read and write there.")]
    found = []
    if waiting:
        what = f"{_events(waiting, 'waits', 'wait')} to be taken in"
        mend = f"The next command takes {'it' if waiting == 1 else 'them'} in."
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
