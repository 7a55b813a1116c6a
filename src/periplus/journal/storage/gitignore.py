"""Git is kept from what is a clone's own, in each commit: `.periplus/.gitignore` is a file of some commits only.

Where git goes back to a commit of before the store, it takes that file away, and `git clean`, `git stash -u` and `git add` meet a
journal that nothing says to leave alone. So the folders that cannot be derived say it themselves, in a file that ignores itself too.
"""

from __future__ import annotations

__all__ = ["GUARD_TEXT", "guard"]

import os
from typing import Final

from periplus.base.errors import EnvironmentFailure
from periplus.base.files import Files, read_plain, write_atomic
from periplus.journal.storage.layout import Layout

GUARD_TEXT: Final = b"# This clone's own: not for git, in whatever commit.\n*\n"
_BYTES_MAX: Final = 65_536


def guard(layout: Layout, files: Files) -> None:
    """Write the files that are missing, unless somebody took the journal out of what git ignores."""
    for folder in (layout.journal, layout.objects, layout.hooks):
        path = os.path.join(folder, ".gitignore")
        try:
            if os.path.lexists(path) or not os.path.isdir(folder):
                continue
            if b"*" not in read_plain(layout.ignore, _BYTES_MAX).splitlines():
                return
            write_atomic(files, path, GUARD_TEXT)
        except (OSError, EnvironmentFailure):
            return  # what is written next says what is wrong; the next one tries again
