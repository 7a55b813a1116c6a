"""What the note of a step says of a file in git: kept apart from the operands, so that every reader of trails can list the step."""

from __future__ import annotations

__all__ = [
    "NOTE_CHECKED_OUT",
    "NOTE_EXECUTABLE",
    "NOTE_LINK",
    "NOTE_MERGED",
    "NOTE_NOT_EXECUTABLE",
    "NOTE_SUBMODULE",
]

from typing import Final

# Of a FILE_WRITE: what it makes, where that is no plain file. The content of a link is the path that it leads to, that of
# a submodule its commit. Without one, a file may be run if it could before.
NOTE_LINK: Final = "symbolic link"
NOTE_SUBMODULE: Final = "submodule"
NOTE_EXECUTABLE: Final = "executable"
NOTE_NOT_EXECUTABLE: Final = "no longer executable"
# Of a CHECKPOINT: the files stand so by no step before it.
NOTE_CHECKED_OUT: Final = "checked out"
NOTE_MERGED: Final = "merged"
