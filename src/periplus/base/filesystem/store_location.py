"""Location of a project's store. Hooks look it up hundreds of times an hour, so it needs no import but ``os``."""

from __future__ import annotations

__all__ = ["STORE_FOLDER", "find_root", "name_in", "project_root", "require_settings_file", "worktree_root"]

import os
import stat
from typing import Final

from periplus.base.errors import NotAStoreError, environment_failure

STORE_FOLDER: Final = ".periplus"


def find_root(start: str, explicit: str | None = None) -> str:
    """Return the store for work in folder ``start``: ``explicit`` if given, else that of the project.

    Inside git it is ``.periplus`` of the main worktree for all worktrees, or of the bare repository; outside, that of
    the nearest parent folder. Raises NotAStoreError, naming the places, where none is found or where git does not
    tell the clone or main worktree of a worktree; EnvironmentFailure for a store that may not be read.
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
        require_settings_file(candidate)
        parent = os.path.dirname(at)
        if parent == at:
            raise NotAStoreError(
                f"no store in {folder} or any folder above it",
                safe="Nothing was changed.",
                mend="Make one with `periplus init`, or name one with --store.",
            )
        at = parent


def project_root(start: str) -> str:
    """Return the folder in which ``init`` makes the store: git's main worktree, a bare repository, outside git
    ``start``. Raises NotAStoreError like ``find_root``.
    """
    folder = os.path.abspath(start)
    return _git_main_worktree(folder) or folder


def worktree_root(folder: str, whole: str) -> str:
    """Return the root of the worktree that contains the absolute path ``whole``, among the worktrees of the project
    in ``folder``; ``folder`` itself where none does. Worktrees may lie anywhere, also within ``folder``. A statement
    about a file in any of them is about the same path of the project.
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
    """Return the absolute path ``whole`` relative to the root of its worktree of the project in ``folder``. None
    where it lies outside all of them, also after links above it are followed.
    """
    inside = os.path.relpath(whole, worktree_root(folder, whole))
    if _leads_out(inside):
        above, name = os.path.split(whole)
        real = os.path.join(os.path.realpath(above), name)
        inside = os.path.relpath(real, worktree_root(os.path.realpath(folder), real))
    return None if _leads_out(inside) else inside


def _leads_out(path: str) -> bool:
    return path == os.pardir or path.startswith(f"{os.pardir}/")


def _checked(root: str) -> str:
    if _is_store(root):
        return root
    require_settings_file(root)
    wrong = f"{root} is not a store: it has no config.toml" if os.path.isdir(root) else f"no store at {root}"
    left_out = _left_out(root)
    mend = "ake one with `periplus init`, or name another with --store."
    raise NotAStoreError(
        wrong + (", which git's sparse-checkout leaves out" if left_out else ""),
        safe="Nothing was changed.",
        mend=f"If it is in git, {left_out} restores it. Else m{mend}" if left_out else f"M{mend}",
    )


def require_settings_file(root: str) -> None:
    """Raise NotAStoreError for a folder with a journal whose settings are missing or no plain file. The settings are
    in git and the journal is not, so git may remove them alone.
    """
    config = os.path.join(root, "config.toml")
    if os.path.lexists(config) and not os.path.isfile(config):
        what = "a folder" if os.path.isdir(config) else "a dangling link" if os.path.islink(config) else "no plain file"
        raise NotAStoreError(
            f"{config} is {what}: the settings of the store belong there",
            safe="Nothing was changed.",
            mend="Move it away and restore config.toml from git; or run `periplus doctor --repair`, which parks it and makes new settings for a "
            "store with records.",
        )
    if os.path.isfile(os.path.join(root, "journal", "lineage.json")):
        left_out = _left_out(root)
        why = "git's sparse-checkout leaves it out" if left_out else "perhaps by a git checkout without it"
        raise NotAStoreError(
            f"{root} has a journal, but its config.toml is gone, {why}",
            safe="Nothing was changed, and no record is lost.",
            mend=f"Restore it from git{f': {left_out}' if left_out else ''}, or make it again with `periplus init`: the journal has the identity of the store.",
        )


def _left_out(root: str) -> str:
    """Return the git command that adds the folder ``root`` to a sparse checkout; empty where it is not left out."""
    from periplus.base.filesystem.git_files import pointed, sparse_state

    top = os.path.dirname(root)
    dot_git = os.path.join(top, ".git")
    if not os.path.exists(dot_git):
        return ""
    name = os.path.basename(root)
    state = sparse_state(dot_git if os.path.isdir(dot_git) else pointed(dot_git), name)
    add = {"outside": name, "patterns": f"/{name}/"}.get(state)
    if add is None:
        return ""
    import shlex  # rarely needed

    return f"`git -C {shlex.quote(top)} sparse-checkout add {add}`"


def _is_store(root: str) -> bool:
    """Test for the settings file. Raises EnvironmentFailure for an unreadable folder: no other store may replace it."""
    try:
        return stat.S_ISREG(os.stat(os.path.join(root, "config.toml")).st_mode)
    except PermissionError as error:
        if os.path.lexists(root):
            raise environment_failure(error, "read the store", root) from error
        return False
    except OSError:
        return False


def _git_main_worktree(folder: str) -> str | None:
    """Return the main worktree of the repository that contains ``folder``, from git's files, without running git."""
    at = folder
    while True:
        dot_git = os.path.join(at, ".git")
        if os.path.isdir(dot_git):
            return at
        if os.path.isfile(dot_git):
            return _main_of(at, dot_git)
        parent = os.path.dirname(at)
        if parent == at:
            return None
        at = parent


def _main_of(worktree: str, dot_git: str) -> str:
    """Return the folder with the store of ``worktree``, whose ``.git`` is a file."""
    # The .git file of a linked worktree names its own folder in the common one, whose "commondir" leads to the
    # latter. The .git file of a submodule, or of a repository with a separate git folder, has no "commondir": it is a
    # main worktree itself. Where the named folder is gone, the kind is unknown, and a store made here would be read
    # by nobody else.
    from periplus.base.filesystem.git_files import first_line, git_settings, is_on, pointed

    own = pointed(dot_git)
    if not own:
        return worktree
    if not os.path.lexists(own):
        if os.path.isdir(os.path.join(worktree, STORE_FOLDER, "journal")):
            return worktree  # it has a store of its own
        raise NotAStoreError(
            f"{dot_git} names {own}, which does not exist: the clone of this worktree was moved or removed",
            safe="Nothing was changed.",
            mend="Run `git worktree repair` in the clone at its new place; or name a store with --store.",
        )
    common = first_line(os.path.join(own, "commondir"))
    if common:
        return _main_of_linked(os.path.normpath(os.path.join(own, common)))
    if not _holds_store(worktree) and is_on(git_settings(own), "core.bare"):
        return own  # the folder that contains a bare repository and its worktrees
    return worktree


def _main_of_linked(common: str) -> str:
    """Return the folder with the store of the linked worktrees of the git folder ``common``. Raises NotAStoreError
    where git does not tell it.
    """
    from periplus.base.filesystem.git_files import git_settings, is_on, pointed

    beside = os.path.dirname(common)
    is_usual = os.path.basename(common) == ".git"
    if _holds_store(beside if is_usual else common):
        return beside if is_usual else common
    settings = git_settings(common)
    is_bare = is_on(settings, "core.bare")
    main = "" if is_bare else settings.get("core.worktree", "")
    if main:  # of a submodule, or set by hand
        main = os.path.normpath(os.path.join(common, main))
        if os.path.isdir(main):
            return main
    elif is_usual:
        return beside
    elif is_bare or "core.bare" not in settings:
        # A bare repository with linked worktrees: the store lies within it or, if it was made before, in the folder
        # whose .git leads there.
        dot_git = os.path.join(beside, ".git")
        return beside if pointed(dot_git) == common and _holds_store(beside) else common
    raise NotAStoreError(
        f"{common} does not name its main worktree, which has the store" if not main
        else f"{common} names the main worktree {main}, which does not exist",
        safe="Nothing was changed.",
        mend='Run `git config core.worktree "$PWD"` in the main worktree; or name a store with --store.',
    )  # fmt: skip


def _holds_store(folder: str) -> bool:
    root = os.path.join(folder, STORE_FOLDER)
    return _is_store(root) or os.path.isfile(os.path.join(root, "journal", "lineage.json"))
