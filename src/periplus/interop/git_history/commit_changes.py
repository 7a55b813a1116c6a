"""Changes of a commit as steps that can be carried out one after the other on its parent's files.

Git lists all changes of a commit at once by path; steps run in order. So deletions come first, then moves, then
writes: a file may replace a folder, and the other way round. A move that conflicts with another change becomes a
deletion and a write; so does one into or out of the store, whose files are not replayed.
"""

from __future__ import annotations

__all__ = ["FileChange", "read_change", "write_changes"]

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.base.errors import FormatError
from periplus.interop.git_history.git_names import git_digest, git_path
from periplus.journal import STORE_FOLDER
from periplus.trail.checkpoints.file_notes import NOTE_EXECUTABLE, NOTE_LINK, NOTE_NOT_EXECUTABLE, NOTE_SUBMODULE
from periplus.trail.checkpoints.git_tree import EXECUTABLE, LINK, SUBMODULE

if TYPE_CHECKING:
    from periplus.interop.conversion.intake import Intake
    from periplus.trail.model import OperandValue

_NOTES: Final = {LINK: NOTE_LINK, SUBMODULE: NOTE_SUBMODULE, EXECUTABLE: NOTE_EXECUTABLE}


class FileChange(NamedTuple):
    """``path`` is deleted, or holds ``blob`` from now on; ``source`` is its path before a move, ``is_same`` means
    unchanged bytes.
    """

    path: str
    blob: str
    mode: str
    mode_before: str
    is_gone: bool = False
    source: str = ""
    is_same: bool = False

    @property
    def note(self) -> str | None:
        was_executable = self.mode_before == EXECUTABLE
        return _NOTES.get(self.mode) or (NOTE_NOT_EXECUTABLE if was_executable else None)


def read_change(intake: Intake, meta: bytes, tokens: Iterator[bytes]) -> FileChange:
    """Parse one file of a commit: ``:MODE MODE ID ID STATUS``, for a merge with more modes and ids, one per parent."""
    words = meta.decode("ascii", "replace").split()
    parents = len(words[0]) - len(words[0].lstrip(":"))
    if len(words) != 2 * parents + 3:
        raise FormatError(f"unexpected output of git: {meta[:80]!r}")
    mode, blob, status = words[parents], words[2 * parents + 1], words[-1]
    path = git_path(intake, next(tokens, b""))
    target = git_path(intake, next(tokens, b"")) if status[:1] in ("R", "C") and parents == 1 else ""
    change = FileChange(target or path, blob, mode, words[0].lstrip(":"), is_gone=status.endswith("D"))
    return change._replace(source=path, is_same=status == "R100") if target and status[0] == "R" else change


def write_changes(intake: Intake, changes: Sequence[FileChange]) -> None:
    """Add the steps of one commit."""
    gone = {change.source or change.path for change in changes if change.is_gone or change.source}
    over_gone = {above for path in gone for above in _above(path)}
    moved = [change for change in changes if change.source and not _is_in_the_way(change, gone, over_gone)]
    kept = {change.source for change in moved}
    for path in (change.source or change.path for change in changes if change.is_gone or change.source):
        if path not in kept:
            _put(intake, "FILE_DELETE", path)
    for change in moved:
        _put(intake, "FILE_MOVE", change.source, change.path)
    for change in changes:
        is_moved = change.source in kept
        if not change.is_gone and not (is_moved and change.is_same and change.mode == change.mode_before):
            note = change.note if is_moved or not change.source else _NOTES.get(change.mode)
            _put(intake, "FILE_WRITE", change.path, git_digest(change.blob), note=note)


def _is_in_the_way(change: FileChange, gone: set[str], over_gone: set[str]) -> bool:
    """Detect a move that another change must precede (a file replaces a folder, or the other way round), or that
    concerns the store.
    """
    if change.path in over_gone or not gone.isdisjoint(_above(change.path)):
        return True
    return STORE_FOLDER in (change.source.split("/")[0], change.path.split("/")[0])


def _above(path: str) -> list[str]:
    """Return the parent folders of a file."""
    return [path[:at] for at, char in enumerate(path) if char == "/"]


def _put(intake: Intake, op: str, *operands: OperandValue, note: str | None = None) -> None:
    intake.note_files(op, operands)
    intake.step(op, *operands, note=note)
