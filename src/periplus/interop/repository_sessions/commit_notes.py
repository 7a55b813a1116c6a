"""Sessions in the notes of git-ai: for each the note with most of its messages.

A prompt stands in the note of each commit that it contributed to, with the messages until then. All notes are read once to
find the longest; most have no messages at all, and are counted.
"""

from __future__ import annotations

__all__ = ["NOTE_BYTES_MAX", "NoteSessions", "NotedPrompts"]

from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.base.errors import FormatError
from periplus.interop.importers.archives.git_ai import prompts_of
from periplus.interop.repository_sessions.ref_listing import KeptFile, files_of

if TYPE_CHECKING:
    from periplus.interop.git_history.git_output import BlobReader

NOTE_BYTES_MAX: Final = 256 << 20
_SESSIONS_MAX: Final = 100_000


class NoteSessions(NamedTuple):
    """A note, and the ids of the sessions of which no other has more messages."""

    file: KeptFile
    sessions: frozenset[str]


class NotedPrompts:
    """Sessions of the notes of a repository. ``bare`` counts the notes without messages, ``unread`` those that are too
    large or cannot be read.
    """

    def __init__(self) -> None:
        self.bare = 0
        self.unread = 0
        self._longest: dict[str, tuple[int, KeptFile]] = {}

    def find(self, repo: str, refs: list[str], blobs: BlobReader, path: str) -> list[NoteSessions]:
        """Return the notes to import. ``path`` is a file for the note being read. Raises FormatError where git fails."""
        seen: set[str] = set()
        for ref in refs:
            for file in files_of(repo, ref):
                if file.blob not in seen:
                    seen.add(file.blob)
                    self._note(file, blobs, path)
        chosen: dict[KeptFile, set[str]] = {}
        for session, (_, file) in self._longest.items():
            chosen.setdefault(file, set()).add(session)
        return [NoteSessions(file, frozenset(sessions)) for file, sessions in chosen.items()]

    def _note(self, file: KeptFile, blobs: BlobReader, path: str) -> None:
        with open(path, "wb") as target:
            is_there = blobs.copy(file.blob, target, NOTE_BYTES_MAX)
        try:
            prompts = prompts_of(path) if is_there else None
        except FormatError:
            prompts = None
        if prompts is None:
            self.unread += 1
        elif not prompts:
            self.bare += 1
        for session, count in (prompts or {}).items():
            longest = self._longest.get(session)
            if longest is None and len(self._longest) >= _SESSIONS_MAX:
                continue
            if longest is None or count > longest[0]:
                self._longest[session] = count, file
