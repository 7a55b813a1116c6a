"""Keep git away from files of this clone alone, in every commit: `.periplus/.gitignore` exists in some commits only.

If git checks out a commit from before the store, it removes that file, and `git clean`, `git stash -u` and `git add` would
take the journal. So the folders that cannot be derived contain a `.gitignore` of their own, which also ignores itself.
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
    """Write the `.gitignore` files that are missing, unless somebody stopped ignoring the journal on purpose."""
    for folder in (layout.journal, layout.objects, layout.hooks):
        path = os.path.join(folder, ".gitignore")
        try:
            if os.path.lexists(path) or not os.path.isdir(folder):
                continue
            if b"*" not in read_plain(layout.ignore, _BYTES_MAX).splitlines():
                return
            write_atomic(files, path, GUARD_TEXT)
        except (OSError, EnvironmentFailure):
            return  # the next write reports the error; the next mutation tries again
