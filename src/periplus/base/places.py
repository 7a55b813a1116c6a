"""Where the store of a project lies. Hooks ask this hundreds of times an hour: it needs no more than ``os``."""

from __future__ import annotations

__all__ = ["STORE_FOLDER", "find_root", "name_in", "project_root", "refuse_without_settings", "worktree_top"]

import os
import stat
from typing import Final

from periplus.base.errors import NotAStoreError, environment_failure

STORE_FOLDER: Final = ".periplus"
_GIT_POINTER_MAX: Final = 4096


def find_root(start: str, explicit: str | None = None) -> str:
    """The store for work in folder ``start``: ``explicit`` if given, else the project's.

    Inside git that is the main worktree's ``.periplus``, for every worktree alike; outside, the nearest parent
    folder's. Raises NotAStoreError that says where it looked, or that a worktree's clone is not where it was; EnvironmentFailure for
    one that may not be read.
    """
    if explicit is not None:
        root = os.path.abspath(explicit)
        if os.path.basename(root) != STORE_FOLDER and os.path.isdir(os.path.join(root, STORE_FOLDER)):
            root = os.path.join(root, STORE_FOLDER)
        return _checked(root)
    folder = os.path.abspath(start)
    git = _git_main_worktree(folder)
    if git is not None:
        return _checked(os.path.join(git, STORE_FOLDER))
    at = folder
    while True:
        candidate = os.path.join(at, STORE_FOLDER)
        if _is_store(candidate):
            return candidate
        refuse_without_settings(candidate)
        parent = os.path.dirname(at)
        if parent == at:
            raise NotAStoreError(
                f"no store in {folder} or any folder above it",
                safe="Nothing was changed.",
                mend="Make one with `periplus init`, or name one with --store.",
            )
        at = parent


def project_root(start: str) -> str:
    """The folder that ``init`` makes the store in: git's main worktree, outside git ``start`` itself. Raises NotAStoreError for a
    worktree whose clone is not where it was.
    """
    folder = os.path.abspath(start)
    return _git_main_worktree(folder) or folder


def worktree_top(folder: str, whole: str) -> str:
    """The top of that worktree of the project in ``folder`` which the absolute path ``whole`` lies in, ``folder`` where in none: what is
    said of a file in any of them is said of the same path of the project. They may lie anywhere, within ``folder`` too.
    """
    at = whole
    while at != folder and os.path.dirname(at) != at:
        if (
            os.path.isfile(os.path.join(at, ".git")) and project_root(at) == folder
        ):  # that of a submodule leads elsewhere
            return at
        at = os.path.dirname(at)
    return folder


def name_in(folder: str, whole: str) -> str | None:
    """The absolute path ``whole`` as the project in ``folder`` names it: from the top of its worktree; None where it lies outside of
    all of them, also once links above it are followed.
    """
    inside = os.path.relpath(whole, worktree_top(folder, whole))
    if _leads_out(inside):
        above, name = os.path.split(whole)
        real = os.path.join(os.path.realpath(above), name)
        inside = os.path.relpath(real, worktree_top(os.path.realpath(folder), real))
    return None if _leads_out(inside) else inside


def _leads_out(path: str) -> bool:
    return path == os.pardir or path.startswith(f"{os.pardir}/")


def _checked(root: str) -> str:
    if _is_store(root):
        return root
    refuse_without_settings(root)
    wrong = f"{root} is not a store: it has no config.toml" if os.path.isdir(root) else f"no store at {root}"
    raise NotAStoreError(
        wrong,
        safe="Nothing was changed.",
        mend="Make one with `periplus init`, or name another with --store.",
    )


def refuse_without_settings(root: str) -> None:
    """Raises NotAStoreError where a journal lies: its settings are in git, it is not, and so git takes them alone."""
    if os.path.isfile(os.path.join(root, "journal", "lineage.json")):
        raise NotAStoreError(
            f"{root} has a journal, but its config.toml is gone, perhaps with a commit of git that does not have it",
            safe="Nothing was changed, and no record is lost.",
            mend="Bring it back from git, or make it again with `periplus init`: the journal says which store it is.",
        )


def _is_store(root: str) -> bool:
    """Raises EnvironmentFailure for a folder that may not be entered: another store must not be taken in its place."""
    try:
        return stat.S_ISREG(os.stat(os.path.join(root, "config.toml")).st_mode)
    except PermissionError as error:
        if os.path.lexists(root):
            raise environment_failure(error, "read the store", root) from error
        return False
    except OSError:
        return False


def _git_main_worktree(folder: str) -> str | None:
    """The main worktree of the repository that ``folder`` lies in, read from git's own files without running it."""
    at = folder
    while True:
        dot_git = os.path.join(at, ".git")
        if os.path.isdir(dot_git):
            return at
        if os.path.isfile(dot_git):
            return _main_of_linked(at, dot_git) or at
        parent = os.path.dirname(at)
        if parent == at:
            return None
        at = parent


def _main_of_linked(worktree: str, dot_git: str) -> str | None:
    # A linked worktree's .git file names its own folder in the common one, whose "commondir" leads to the latter;
    # a submodule's has no "commondir": it is a main worktree of its own. Where the folder that is named is gone, nobody can tell
    # which of the two it is, and what was written here would lie in a store that nobody else reads.
    pointer = _first_line(dot_git)
    if not pointer.startswith("gitdir: "):
        return None
    own = os.path.normpath(os.path.join(worktree, pointer.removeprefix("gitdir: ")))
    if not os.path.lexists(own):
        if os.path.isdir(os.path.join(worktree, STORE_FOLDER, "journal")):
            return None  # it has a store of its own
        raise NotAStoreError(
            f"{dot_git} leads to {own}, which is not there: the clone of this worktree was moved or removed",
            safe="Nothing was changed.",
            mend="Run `git worktree repair` in the clone, where it lies now; or name a store with --store.",
        )
    common = _first_line(os.path.join(own, "commondir"))
    if not common:
        return None
    common_folder = os.path.normpath(os.path.join(own, common))
    if os.path.basename(common_folder) == ".git":
        return os.path.dirname(common_folder)
    return common_folder  # a bare repository with linked worktrees: the store lies within it


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_GIT_POINTER_MAX).partition("\n")[0].strip()
    except OSError:
        return ""
