"""Sessions that a repository keeps, one after the other as a file for the importers.

The repository may be untrusted, and a colleague's. Objects are copied to a private temporary folder by git without
filters; their sizes are known before. A file lives until the next one is asked for.
"""

from __future__ import annotations

__all__ = ["KeptSession", "KeptSessions"]

import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Final, NamedTuple

from periplus.base.errors import NotFoundError, environment_failure
from periplus.interop.git_history.git_output import BlobReader
from periplus.interop.git_history.git_process import check_repository
from periplus.interop.repository_sessions.commit_notes import NOTE_BYTES_MAX, NotedPrompts
from periplus.interop.repository_sessions.entire_checkpoints import (
    TRANSCRIPT_BYTES_MAX,
    CheckpointSession,
    sessions_in_checkpoints,
)
from periplus.interop.repository_sessions.ref_listing import ENTIRE_REFS, NOTES_REFS, KeptFile, refs_of

_TRANSCRIPT: Final = "full"


class KeptSession(NamedTuple):
    """A file ``path`` with sessions, its ``place`` in the repository, which is shown to people, and the keeper's name.
    Another file has more of the sessions named in ``elsewhere``.
    """

    path: str
    place: str
    keeper: str
    elsewhere: frozenset[str] = frozenset()


class KeptSessions:
    """Iterates over the sessions that Entire and git-ai keep in the repository ``repo``.

    After the last one, ``older`` counts the earlier transcripts of the same sessions, ``bare`` the notes without
    messages, and ``unread`` the sessions, subagents and notes that are too large or missing. Raises NotFoundError where
    there is no such folder, FormatError where it is no repository or git fails, EnvironmentFailure where git cannot be
    run.
    """

    def __init__(self, repo: str) -> None:
        self.older = self.bare = self.unread = 0
        self.total = 0
        self._repo = os.path.normpath(repo)

    def __iter__(self) -> Iterator[KeptSession]:
        if not os.path.isdir(self._repo):
            raise NotFoundError(f"no folder {self._repo}")
        check_repository(self._repo)
        with tempfile.TemporaryDirectory(prefix="periplus-sessions-") as folder, BlobReader(self._repo) as blobs:
            try:
                yield from self._checkpoints(blobs, folder)
                yield from self._notes(blobs, os.path.join(folder, "session.note"))
            except OSError as error:
                raise environment_failure(error, "write", folder) from error

    def _checkpoints(self, blobs: BlobReader, folder: str) -> Iterator[KeptSession]:
        sessions = sessions_in_checkpoints(self._repo, refs_of(self._repo, ENTIRE_REFS), blobs)
        self.total += len(sessions)
        for session in sessions:
            found = self._transcript(blobs, folder, session)
            if found is not None:
                yield found
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                if os.path.isdir(path):
                    shutil.rmtree(path)
                else:
                    os.unlink(path)

    def _transcript(self, blobs: BlobReader, folder: str, session: CheckpointSession) -> KeptSession | None:
        """Copy the newest transcript that the repository has."""
        name = session.session_id or _TRANSCRIPT
        path = os.path.join(folder, f"{name}.jsonl")
        for number, parts in enumerate(session.transcripts):
            if _copy_parts(blobs, parts, path):
                self.older += len(session.transcripts) - number - 1
                self._subagents(blobs, session, os.path.join(folder, name, "subagents"))
                return KeptSession(path, f"entire/checkpoints/v1:{parts[0].path}", "entire")
        self.unread += 1
        return None

    def _subagents(self, blobs: BlobReader, session: CheckpointSession, folder: str) -> None:
        """Copy the records of the session's subagents to ``folder``, as long as they are not too large together."""
        left = TRANSCRIPT_BYTES_MAX
        for file in session.subagents:
            os.makedirs(folder, exist_ok=True)
            size = blobs.size(file.blob)
            if size is None or size > left:
                self.unread += 1
                continue
            left -= size
            _copy_parts(blobs, (file,), os.path.join(folder, os.path.basename(file.path)))

    def _notes(self, blobs: BlobReader, path: str) -> Iterator[KeptSession]:
        noted = NotedPrompts()
        notes = noted.find(self._repo, refs_of(self._repo, NOTES_REFS), blobs, path)
        self.bare += noted.bare
        self.unread += noted.unread
        self.total += len(notes)
        every = frozenset().union(*(note.sessions for note in notes))
        for note in notes:
            with open(path, "wb") as target:
                is_there = blobs.copy(note.file.blob, target, NOTE_BYTES_MAX)
            if is_there:
                commit = note.file.path.replace("/", "")
                yield KeptSession(path, f"refs/notes/ai:{commit}", "git-ai", every - note.sessions)


def _copy_parts(blobs: BlobReader, parts: tuple[KeptFile, ...], path: str) -> bool:
    """Copy a transcript of lines, which may be in several parts, to ``path``. Return False where a part is missing, or
    all of them are too large.
    """
    sizes = [blobs.size(part.blob) for part in parts]
    if None in sizes or sum(size or 0 for size in sizes) > TRANSCRIPT_BYTES_MAX:
        return False
    with open(path, "wb") as target:
        for number, part in enumerate(parts):
            if number:
                target.write(b"\n")
            if not blobs.copy(part.blob, target, TRANSCRIPT_BYTES_MAX):
                return False
    return True
