"""Schedule of looks at the entity files, from the cost of the last one; checked before ``external_edits`` is loaded."""

from __future__ import annotations

__all__ = ["FILES_COMMIT", "FILES_LOOKED", "LOOK_SHARE", "PAUSE_NS_MAX", "is_due"]

import time
from typing import TYPE_CHECKING, Final

from periplus.journal.projections.git_state import checked_out

if TYPE_CHECKING:
    from periplus.journal.index.indexed_journal import IndexedJournal


FILES_COMMIT: Final = "files_commit"
FILES_LOOKED: Final = "files_looked"
LOOK_SHARE: Final = 20  # looks may take a twentieth of the time
PAUSE_NS_MAX: Final = 60_000_000_000


def is_due(journal: IndexedJournal) -> bool:
    """Return True if a process that only reads should look at the files; False soon after an expensive look."""
    boot, _, due = journal.index.meta(FILES_LOOKED).partition(" ")
    if not due.isdecimal() or boot != journal.files.boot_id():
        return True
    now = time.monotonic_ns()
    is_recent = now < int(due) <= now + PAUSE_NS_MAX
    return not is_recent or checked_out(journal.layout.root) != journal.index.meta(FILES_COMMIT)
