"""Notes of a step about a file in git: kept apart from the operands, so that every reader of trails can list the step."""

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

# Notes of a FILE_WRITE that makes something other than a plain file. The content of a link is its target path, the content
# of a submodule is its commit. Without a note, a file keeps its executable bit.
NOTE_LINK: Final = "symbolic link"
NOTE_SUBMODULE: Final = "submodule"
NOTE_EXECUTABLE: Final = "executable"
NOTE_NOT_EXECUTABLE: Final = "no longer executable"
# Notes of a CHECKPOINT whose files no step before it wrote.
NOTE_CHECKED_OUT: Final = "checked out"
NOTE_MERGED: Final = "merged"
