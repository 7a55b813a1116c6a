"""The mark that every redaction leaves for the processes that serve the store."""

from __future__ import annotations

__all__ = ["file_mark", "mark_redaction", "redaction_mark"]

import os
from typing import TYPE_CHECKING, Final

from periplus.base.errors import environment_failure
from periplus.base.files import write_atomic

if TYPE_CHECKING:
    from periplus.project.store import ProjectStore

_REDACTED: Final = os.path.join("cache", "redacted")


def redaction_mark(root: str) -> tuple[int, int]:
    """Return a value that changes with each redaction in the store: inode and time of the file that each writes
    again.
    """
    return file_mark(os.path.join(root, _REDACTED))


def file_mark(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0  # there was none, or the cache was cleared
    return status.st_ino, status.st_mtime_ns


def mark_redaction(project: ProjectStore) -> None:
    """Let every process that serves the store see that something was redacted. Raises EnvironmentFailure."""
    path = os.path.join(project.root, _REDACTED)
    try:
        project.journal.files.make_folder(os.path.dirname(path))
        write_atomic(project.journal.files, path, os.urandom(16))
    except OSError as error:
        raise environment_failure(error, "write", path) from error
