"""What git is doing around a store, read from git's own files; git itself is never run.

A store's entity files may be tracked. While git moves files about (a merge, a rebase, a checkout that holds the index)
they belong to git: they are neither read as edits nor written. Files of git that cannot be read count as absent: then
the entity files are an ordinary folder's.
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
    """``entities`` is where the store's entity files are in this worktree; ``git_folder`` says what git does in it."""

    folder: str
    git_folder: str
    entities: str


class GitState(NamedTuple):
    """The main worktree, whose entity files are written, and the linked ones, whose are only read."""

    main: Worktree
    linked: tuple[Worktree, ...]


def read_git(root: str) -> GitState | None:
    """The repository that the store ``root`` lies in; None outside git."""
    place = _main(root)
    if place is None:
        return None
    top, git_folder = place
    main = Worktree(top, git_folder, os.path.join(root, "entities"))
    return GitState(main, tuple(_linked(git_folder, top, os.path.relpath(root, top))))


def project_folders(root: str) -> tuple[str, ...]:
    """The folder that the store ``root`` is of, and the same one in each linked worktree that is there: they share the store."""
    own = os.path.dirname(root)
    place = _main(root)
    if place is None:
        return (own,)
    top, git_folder = place
    inside = (
        "" if top == git_folder else os.path.relpath(own, top)
    )  # of a bare repository the store is of all that is in it
    tops = [worktree for worktree, _ in _linked_tops(git_folder) if worktree != top]
    linked = (os.path.normpath(os.path.join(worktree, inside)) for worktree in tops)
    return (own, *(folder for folder in linked if os.path.isdir(folder)))


def checked_out(root: str) -> str:
    """The commit that HEAD moved to last in the worktree that the store ``root`` lies in, as ``newest_move``."""
    place = _main(root)
    return newest_move(place[1]) if place is not None else ""


def is_in_bare(root: str) -> bool:
    """Whether the store ``root`` lies in a bare repository, or beside one that has its worktrees there: git keeps none of its files."""
    place = _main(root)
    return place is not None and is_on(git_settings(place[1]), "core.bare")


class SparseCheckout(NamedTuple):
    """What git's sparse-checkout does with the folder of a store: ``add`` is the command by which it is to keep it."""

    state: Sparse
    add: str


def sparse_checkout(root: str) -> SparseCheckout:
    """As ``sparse_state``, of the store's worktree. Where that is "outside" git removes the folder at any time, with all it ignores there."""
    place = _main(root)
    if place is None:
        return SparseCheckout("", "")
    inside = os.path.relpath(root, place[0])
    add = f"git -C {shlex.quote(place[0])} sparse-checkout add {shlex.quote(inside)}"
    return SparseCheckout(sparse_state(place[1], inside), add)


def is_busy(root: str) -> bool:
    """Whether the store's files are git's for now: it has begun something in their worktree and not ended it."""
    place = _main(root)
    return place is not None and bool(busy_with(place[1]))


def _main(root: str) -> tuple[str, str] | None:
    """The worktree that the store lies in, and its git folder."""
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
    """The commit that the worktree's HEAD moved to last, as git's log of it says; empty where it keeps none."""
    moves = _moves(git_folder)
    return moves[-1][0] if moves else ""


def has_moved_forward(git_folder: str, since: str) -> bool:
    """Whether from commit ``since`` on HEAD went forward only, and not by commits of ours alone.

    Then git replaced a file that was as ``since`` has it by a later one of the same history.
    """
    moves = _moves(git_folder)
    places = [at for at, (commit, _) in enumerate(moves) if commit == since]
    ways = [way for _, way in moves[places[-1] + 1 :]] if places and since else []
    return any(way.startswith(_FORWARD) for way in ways) and all(way.startswith((*_FORWARD, *_COMMIT)) for way in ways)


def _moves(git_folder: str) -> list[tuple[str, str]]:
    """Commit and way of the last moves of HEAD, the newest last."""
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
    """What git has begun and not ended in the worktree of ``git_folder``; empty where nothing."""
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
        return folder  # a bare repository with linked worktrees: the store lies within it
    return None


def _linked(git_folder: str, main: str, inside: str) -> list[Worktree]:
    found = []
    for top, own in _linked_tops(git_folder):
        store = os.path.join(top, inside)
        if top != main and os.path.isdir(store) and not os.path.islink(store):
            found.append(Worktree(top, own, os.path.join(store, "entities")))
    return found


def _linked_tops(git_folder: str) -> Iterator[tuple[str, str]]:
    """The top of each linked worktree, and its own git folder."""
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
