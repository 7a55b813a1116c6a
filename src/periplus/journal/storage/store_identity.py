"""Whether what stands at a store's path is still the store that was opened there.

Who has a store open for long may have it moved, removed, or replaced by a copy, an older one too. What he asks then must
not be answered with nothing, nor by another store than the one that he has read before: it was the state he read. So
he is told, and opens it anew. Nothing is remembered of it: a store that is back in its place is served on.
"""

from __future__ import annotations

__all__ = ["ReplacedError", "Standing", "place_of"]

import os

from periplus.base.errors import DamageError, EnvironmentFailure
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.settings import is_written_here, read_lineage


class ReplacedError(EnvironmentFailure):
    """The store that was opened is not at its path any more: nothing is, or another one."""


class Standing:
    """Knows the journal's folder and ``lineage.json`` as the files that they were when the store was opened."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._folder = place_of(layout.journal)[:2]
        self._lineage = place_of(layout.lineage)[:2]

    def check(self, lineage_id: str) -> None:
        """For who has seen that names in the journal's folder changed, and writes ``lineage_id``, if any. Raises ReplacedError.

        A folder in which our own ``lineage.json`` lies is ours, whoever made it. One that is the same may get another
        ``lineage.json`` of whoever writes here, or the first; what was put there from elsewhere is a copy.
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
        """For who found no folder of the journal: what to say of that; None where there was none before, as in a fresh clone."""
        if not os.path.lexists(self._layout.root):
            return ReplacedError(f"there is no store at {self._layout.root} any more: it was moved or removed",
                                 safe="What was acknowledged is in the store, wherever that is now; nothing is written until it is back.",
                                 mend="Put it back, or open it where it is.")  # fmt: skip
        if not self._folder:
            return None
        return ReplacedError(f"the journal of {self._layout.root} was moved or removed",
                             safe="What was acknowledged is in it, wherever it is now; nothing is written until it is back.",
                             mend="Put the folder `journal` back; without it, open the store anew: `periplus doctor` says what is left.")  # fmt: skip

    def replaced(self) -> ReplacedError:
        return ReplacedError(
            f"{self._layout.root} is no longer the store that was opened",
            safe="Nothing was written.",
            mend="Repeat the command. A program that has it open closes it and opens it anew.",
        )

    def _is_written_here(self, lineage_id: str) -> bool:
        """Whether ``lineage.json`` was made here, for ``lineage_id``, any where that is empty. What cannot be read is told as that."""
        try:
            found = read_lineage(self._layout)
        except DamageError:
            return True
        return found is not None and found.lineage.startswith(lineage_id) and is_written_here(self._layout, found)


def place_of(path: str) -> tuple[int, ...]:
    """Which file this is, and whether it was changed; nothing where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
