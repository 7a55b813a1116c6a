"""Where a store's files lie, and how the store of a project is found."""

from __future__ import annotations

__all__ = ["CONTEXT_SOCKET", "FORMAT_VERSION", "PARKED_FOLDER", "STORE_FOLDER", "Layout", "find_root", "project_root"]

import os
import stat
from typing import Final

from periplus.base.errors import DamageError, NotAStoreError, environment_failure

STORE_FOLDER: Final = ".periplus"
CONTEXT_SOCKET: Final = "contexts.sock"  # where a context server listens
PARKED_FOLDER: Final = "parked"  # what had to give way to a repair; nobody reads it
FORMAT_VERSION: Final = 2
_GIT_POINTER_MAX: Final = 4096


class Layout:
    """The paths of one store; ``root`` is the absolute path of its ``.periplus`` folder."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.config = os.path.join(root, "config.toml")
        self.ignore = os.path.join(root, ".gitignore")
        self.entities = os.path.join(root, "entities")
        self.journal = os.path.join(root, "journal")
        self.keys = os.path.join(self.journal, "keys")
        self.lineage = os.path.join(self.journal, "lineage.json")
        self.lock = os.path.join(self.journal, "lock")
        self.projection_lock = os.path.join(self.journal, "projection.lock")
        self.durable = os.path.join(self.journal, "durable")
        self.checkpoints = os.path.join(self.journal, "checkpoints")
        self.checkpoint_lock = os.path.join(self.journal, "checkpoint.lock")
        self.tree = os.path.join(self.journal, "tree")
        self.peers = os.path.join(self.journal, "peers")
        self.flush = os.path.join(self.journal, "flush")
        self.objects = os.path.join(root, "objects")
        self.cursors = os.path.join(root, "cursors")
        self.index = os.path.join(root, "index.sqlite")

    def refuse_links(self) -> None:
        """Raise DamageError where one of the store's folders or files is a link.

        A store may come with a repository that anybody made; following its links would write where they lead.
        """
        for folder in (
            self.root,
            self.journal,
            self.keys,
            self.checkpoints,
            self.tree,
            self.peers,
            self.entities,
            self.objects,
            self.cursors,
        ):
            try:
                with os.scandir(folder) as entries:
                    link = next((entry.path for entry in entries if entry.is_symlink()), None)
            except OSError:
                continue  # not there yet, or whoever reads it will say what is wrong
            if link is not None:
                raise DamageError(
                    "a symbolic link; nothing within a store is one",
                    path=link,
                    safe="It was not followed and nothing was changed.",
                    mend="See where it leads; remove it, or put in its place what belongs there.",
                )

    def lineage_folder(self, lineage: str) -> str:
        return os.path.join(self.journal, lineage)

    def tree_folder(self, lineage: str) -> str:
        return os.path.join(self.tree, lineage)

    def peer_file(self, lineage: str) -> str:
        return os.path.join(self.peers, f"{lineage}.json")

    def entity_file(self, item_type: str, item_id: str) -> str:
        return os.path.join(self.entities, item_type, f"{item_id}.json")


def find_root(start: str, explicit: str | None = None) -> str:
    """The store for work in folder ``start``: ``explicit`` if given, else the project's.

    Inside git that is the main worktree's ``.periplus``, for every worktree alike; outside, the nearest parent
    folder's. Raises NotAStoreError that says where it looked, EnvironmentFailure for one that may not be read.
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
        parent = os.path.dirname(at)
        if parent == at:
            raise NotAStoreError(
                f"no store in {folder} or any folder above it",
                safe="Nothing was changed.",
                mend="Make one with `periplus init`, or name one with --store.",
            )
        at = parent


def project_root(start: str) -> str:
    """The folder that ``init`` makes the store in: git's main worktree, outside git ``start`` itself."""
    folder = os.path.abspath(start)
    return _git_main_worktree(folder) or folder


def _checked(root: str) -> str:
    if _is_store(root):
        return root
    wrong = f"{root} is not a store: it has no config.toml" if os.path.isdir(root) else f"no store at {root}"
    raise NotAStoreError(
        wrong,
        safe="Nothing was changed.",
        mend="Make one with `periplus init`, or name another with --store.",
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
    # a submodule's has no "commondir": it is a main worktree of its own.
    pointer = _first_line(dot_git)
    if not pointer.startswith("gitdir: "):
        return None
    own = os.path.normpath(os.path.join(worktree, pointer.removeprefix("gitdir: ")))
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
