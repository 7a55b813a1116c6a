"""The repository of git that a folder belongs to, found without running git."""

from __future__ import annotations

__all__ = ["Repository", "find_repository", "index_stamp", "module_repository"]

import os

from periplus.base.filesystem.git_files import first_line, pointed
from periplus.base.named_tuple import NamedTuple


class Repository(NamedTuple):
    """``top`` is the folder of the worktree, ``folder`` git's own folder of it, ``common`` the one shared by all its worktrees."""

    top: str
    folder: str
    common: str


def find_repository(root: str) -> Repository | None:
    """Return the repository of ``root``, an absolute path without symbolic links; None where there is none.

    A folder that is itself laid out like a bare repository belongs to none: git would follow the settings in it.
    """
    at = root
    while True:
        found = module_repository(at)
        if found is not None:
            return found
        above = os.path.dirname(at)
        if above == at or _is_git_folder(at):
            return None
        at = above


def module_repository(top: str) -> Repository | None:
    """Return the repository whose worktree begins at ``top``; None where there is no ``.git`` that git would accept."""
    dot_git = os.path.join(top, ".git")
    folder = dot_git if os.path.isdir(dot_git) else pointed(dot_git) if os.path.isfile(dot_git) else ""
    if not folder or not _is_git_folder(folder):
        return None
    shared = os.path.join(folder, "commondir")
    common = first_line(shared) if os.path.isfile(shared) else ""  # a pipe of that name is not waited for
    return Repository(top, folder, os.path.normpath(os.path.join(folder, common)) if common else folder)


def index_stamp(repository: Repository) -> tuple[int, ...]:
    """Return by what a changed index of git is recognised; empty where there is none."""
    try:
        held = os.stat(os.path.join(repository.folder, "index"))
    except OSError:
        return ()
    return held.st_size, held.st_mtime_ns, held.st_ctime_ns, held.st_ino


def _is_git_folder(path: str) -> bool:
    """Return whether a folder has the parts by which git recognises its own."""
    if not os.path.lexists(os.path.join(path, "HEAD")):
        return False
    return os.path.lexists(os.path.join(path, "commondir")) or (
        os.path.isdir(os.path.join(path, "objects")) and os.path.isdir(os.path.join(path, "refs"))
    )
