"""State of git around a store, read from git's own files; git itself is never run.

A store's entity files may be tracked. While git moves files (a merge, a rebase, a checkout that holds the index) they belong to git: they
are neither read as edits nor written. Unreadable files of git count as absent; the entity files are then those of an ordinary folder.
"""

from __future__ import annotations

__all__ = [
    "GitState",
    "SparseCheckout",
    "Worktree",
    "busy_with",
    "has_moved_forward",
    "is_busy",
    "is_in_bare",
    "newest_move",
    "project_folders",
    "read_git",
    "sparse_checkout",
]

import os
import shlex
from collections.abc import Iterator
from typing import Final

from periplus.base.filesystem.git_files import Sparse, first_line, git_settings, is_on, pointed, sparse_state
from periplus.base.named_tuple import NamedTuple

_WORKTREES_MAX: Final = 1_000
_LOG_BYTES_MAX: Final = 1 << 18
_FORWARD: Final = ("pull", "merge")
_COMMIT: Final = ("commit:", "commit (amend):")
_IN_PROGRESS: Final = (
    ("MERGE_HEAD", "a merge"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase or `git am`"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("sequencer", "a series of cherry-picks or reverts"),
    ("BISECT_LOG", "a bisect"),
    ("index.lock", "a command of git that holds its index (index.lock)"),
)


class Worktree(NamedTuple):
    """A worktree of git; ``entities`` is the folder of the store's entity files in it, ``git_folder`` has its state."""

    folder: str
    git_folder: str
    entities: str


class GitState(NamedTuple):
    """The main worktree, whose entity files are written, and the linked ones, whose files are only read."""

    main: Worktree
    linked: tuple[Worktree, ...]


def read_git(root: str) -> GitState | None:
    """Return the repository that contains the store ``root``; None outside git."""
    place = _main(root)
    if place is None:
        return None
    top, git_folder = place
    main = Worktree(top, git_folder, os.path.join(root, "entities"))
    return GitState(main, tuple(_linked(git_folder, top, os.path.relpath(root, top))))


def project_folders(root: str) -> tuple[str, ...]:
    """Return the project folder of the store ``root``, and the same folder in each existing linked worktree, which shares the store."""
    own = os.path.dirname(root)
    place = _main(root)
    if place is None:
        return (own,)
    top, git_folder = place
    inside = (
        "" if top == git_folder else os.path.relpath(own, top)
    )  # in a bare repository the store belongs to the whole tree
    tops = [worktree for worktree, _ in _linked_tops(git_folder) if worktree != top]
    linked = (os.path.normpath(os.path.join(worktree, inside)) for worktree in tops)
    return (own, *(folder for folder in linked if os.path.isdir(folder)))


def checked_out(root: str) -> str:
    """Return the commit to which HEAD last moved in the store's worktree; see ``newest_move``."""
    place = _main(root)
    return newest_move(place[1]) if place is not None else ""


def is_in_bare(root: str) -> bool:
    """Return True if the store lies in a bare repository, or beside one that has its worktrees there: git keeps none of its files."""
    place = _main(root)
    return place is not None and is_on(git_settings(place[1]), "core.bare")


class SparseCheckout(NamedTuple):
    """Treatment of the store's folder by git's sparse-checkout; ``add`` is the command that makes git keep it."""

    state: Sparse
    add: str


def sparse_checkout(root: str) -> SparseCheckout:
    """Return the ``sparse_state`` of the store's folder. If it is "outside", git may remove the folder at any time, ignored files included."""
    place = _main(root)
    if place is None:
        return SparseCheckout("", "")
    inside = os.path.relpath(root, place[0])
    add = f"git -C {shlex.quote(place[0])} sparse-checkout add {shlex.quote(inside)}"
    return SparseCheckout(sparse_state(place[1], inside), add)


def is_busy(root: str) -> bool:
    """Return True if git has an operation in progress in the store's worktree."""
    place = _main(root)
    return place is not None and bool(busy_with(place[1]))


def _main(root: str) -> tuple[str, str] | None:
    """Return the worktree that contains the store, and its git folder."""
    at = os.path.dirname(root)
    while True:
        found = _git_folder(at)
        if found is not None:
            return at, found
        parent = os.path.dirname(at)
        if parent == at:
            return None
        at = parent


def newest_move(git_folder: str) -> str:
    """Return the commit to which the worktree's HEAD last moved, from its reflog; empty if it has none."""
    moves = _moves(git_folder)
    return moves[-1][0] if moves else ""


def has_moved_forward(git_folder: str, since: str) -> bool:
    """Return True if HEAD only went forward since commit ``since``, and not only by local commits.

    Git then replaced files as of ``since`` by later ones of the same history.
    """
    moves = _moves(git_folder)
    places = [at for at, (commit, _) in enumerate(moves) if commit == since]
    ways = [way for _, way in moves[places[-1] + 1 :]] if places and since else []
    return any(way.startswith(_FORWARD) for way in ways) and all(way.startswith((*_FORWARD, *_COMMIT)) for way in ways)


def _moves(git_folder: str) -> list[tuple[str, str]]:
    """Return commit and reason of HEAD's last moves, newest last."""
    path = os.path.join(git_folder, "logs", "HEAD")
    try:
        with open(path, "rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - _LOG_BYTES_MAX)
            file.seek(start)
            lines = file.read(_LOG_BYTES_MAX).decode(errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines[1:] if start else lines:
        fields, _, way = line.partition("\t")
        commits = fields.split(" ", 2)
        if len(commits) == 3:
            found.append((commits[1], way))
    return found


def busy_with(git_folder: str) -> str:
    """Return the git operation in progress in the worktree of ``git_folder``; empty if there is none."""
    for name, what in _IN_PROGRESS:
        if os.path.lexists(os.path.join(git_folder, name)):
            return what
    return ""


def _git_folder(folder: str) -> str | None:
    dot_git = os.path.join(folder, ".git")
    if os.path.isdir(dot_git):
        return dot_git
    if os.path.isfile(dot_git):
        return pointed(dot_git) or None
    if all(os.path.exists(os.path.join(folder, name)) for name in ("HEAD", "objects", "refs")):
        return folder  # a bare repository with linked worktrees; the store lies within it
    return None


def _linked(git_folder: str, main: str, inside: str) -> list[Worktree]:
    found = []
    for top, own in _linked_tops(git_folder):
        store = os.path.join(top, inside)
        if top != main and os.path.isdir(store) and not os.path.islink(store):
            found.append(Worktree(top, own, os.path.join(store, "entities")))
    return found


def _linked_tops(git_folder: str) -> Iterator[tuple[str, str]]:
    """Yield the top folder of each linked worktree, and its own git folder."""
    folder = os.path.join(git_folder, "worktrees")
    try:
        names = sorted(os.listdir(folder))[:_WORKTREES_MAX]
    except OSError:
        return
    for name in names:
        own = os.path.join(folder, name)
        dot_git = first_line(os.path.join(own, "gitdir"))
        if dot_git and (top := os.path.dirname(os.path.normpath(os.path.join(own, dot_git)))):
            yield top, own
