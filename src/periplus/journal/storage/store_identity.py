"""Detect that the store folder was replaced while it was open.

A store that is open for long may be moved, removed, or replaced by a copy, perhaps an older one. Its readers must not get an
empty answer then, nor one from another store than before. So an error tells them to open the store again. Nothing is
remembered of it: a store that is back in its place is served on.
"""

from __future__ import annotations

__all__ = ["ReplacedError", "Standing", "place_of"]

import os

from periplus.base.errors import DamageError, EnvironmentFailure
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.settings import is_written_here, read_lineage


class ReplacedError(EnvironmentFailure):
    """The store that was opened is no longer at its path."""


class Standing:
    """Remembers the journal's folder and ``lineage.json`` as the files that they were when the store was opened."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._folder = place_of(layout.journal)[:2]
        self._lineage = place_of(layout.lineage)[:2]

    def check(self, lineage_id: str) -> None:
        """Check the store after names in the journal's folder changed. Raises ReplacedError.

        ``lineage_id`` is the lineage that the caller writes, if any. A folder that has our own ``lineage.json`` is ours. The same
        folder may get another ``lineage.json`` from a writer here, or its first one; one that came from elsewhere is a copy.
        """
        folder, lineage = place_of(self._layout.journal)[:2], place_of(self._layout.lineage)[:2]
        is_same = folder == self._folder or not self._folder
        if (lineage and lineage == self._lineage) or (is_same and not (lineage and self._lineage)):
            self._folder, self._lineage = folder, lineage or self._lineage
            return
        if not self._is_written_here("" if is_same else lineage_id or "none"):
            raise self.replaced()
        self._folder, self._lineage = folder, lineage

    def absent(self) -> ReplacedError | None:
        """Return the error for a journal folder that does not exist; None if there was none before, as in a fresh clone."""
        if not os.path.lexists(self._layout.root):
            return ReplacedError(f"there is no store at {self._layout.root} any more: it was moved or removed",
                                 safe="Acknowledged records are in the moved store; nothing is written until it is back.",
                                 mend="Put it back, or open it where it is.")  # fmt: skip
        if not self._folder:
            return None
        return ReplacedError(f"the journal of {self._layout.root} was moved or removed",
                             safe="Acknowledged records are in the moved folder; nothing is written until it is back.",
                             mend="Put the folder `journal` back. Without it, open the store again: `periplus doctor` reports what is left.")  # fmt: skip

    def replaced(self) -> ReplacedError:
        return ReplacedError(
            f"{self._layout.root} is no longer the store that was opened",
            safe="Nothing was written.",
            mend="Repeat the command. A program that has the store open must close it and open it again.",
        )

    def _is_written_here(self, lineage_id: str) -> bool:
        """Return True if ``lineage.json`` was made here, for ``lineage_id`` (any if empty), or if it is unreadable, which is reported elsewhere."""
        try:
            found = read_lineage(self._layout)
        except DamageError:
            return True
        return found is not None and found.lineage.startswith(lineage_id) and is_written_here(self._layout, found)


def place_of(path: str) -> tuple[int, ...]:
    """Return device, inode, time and size of a file, by which a change is seen; empty if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
