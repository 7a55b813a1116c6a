"""Merges in the object store of git, without a worktree.

``git merge-tree`` works in an empty folder of git's own, so that no file of a checkout is touched. It looks for
``.gitattributes`` in its working folder: those of the target are written there, so that the result does not depend on
the checkout. The commit has no signature, and a time that the caller gives: the same merge has the same id.
"""

from __future__ import annotations

__all__ = ["merge", "sweep"]

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from periplus.base.errors import RefusedError, environment_failure
from periplus.code.listing.repository import Repository as Layout
from periplus.dispatch.repository.comparison import diff_between, merge_base
from periplus.dispatch.repository.git_process import Git, failure
from periplus.dispatch.repository.leftovers import commit_tree
from periplus.dispatch.repository.model import Conflict, Identity, Merged, oid_of
from periplus.dispatch.repository.worktrees import remove_folder

DIFF_BYTES_MAX: Final = 64 << 10
DIFF_PATHS_MAX: Final = 200
_SCRATCH: Final = "periplus-merge-"
_SCRATCH_AGE_S: Final = 86_400.0
_ATTRIBUTES: Final = ".gitattributes"
_CONFLICT: Final = 1


def merge(
    git: Git, at: Layout, onto: str, tip: str, message: str, author: Identity, *, at_s: int, bytes_max: int = DIFF_BYTES_MAX
) -> Merged | Conflict:  # fmt: skip
    """Merge the commit ``tip`` into the commit ``onto``. No ref is moved.

    A conflict has each side's changes to the paths in question, of at most ``bytes_max`` bytes a side. Raises
    RefusedError where the two have no history in common.
    """
    onto, tip = oid_of(onto), oid_of(tip)
    base = merge_base(git, at, onto, tip)
    if not base:
        raise RefusedError(
            f"{tip[:12]} and {onto[:12]} have no history in common",
            safe="Nothing was changed.",
            mend="Merge them by hand.",
        )
    if base == tip:
        return Merged(onto)
    with _scratch(git, at, onto) as scratch:
        done = git.run(scratch, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", onto, tip)
    if done.code not in (0, _CONFLICT):
        raise failure(done, "merge-tree", at.top)
    tree, *rest = os.fsdecode(done.out).split("\0")
    if done.code == 0:
        return Merged(commit_tree(git, at, tree, (onto, tip), message, author, at_s))
    paths = tuple(dict.fromkeys(path for path in rest if path))
    shown = paths[:DIFF_PATHS_MAX]
    ours, theirs = (diff_between(git, at, base, side, bytes_max, shown) for side in (onto, tip))
    return Conflict(paths, ours, theirs)


def sweep(at: Layout) -> None:
    """Remove the folders of merges that were interrupted a day ago or earlier."""
    with os.scandir(at.common) as entries:
        old = [entry.path for entry in entries if entry.name.startswith(_SCRATCH) and _is_old(entry)]
    for path in old:
        remove_folder(path)


def _is_old(entry: os.DirEntry[str]) -> bool:
    try:
        return time.time() - entry.stat(follow_symlinks=False).st_mtime > _SCRATCH_AGE_S
    except FileNotFoundError:
        return False


@contextmanager
def _scratch(git: Git, at: Layout, commit: str) -> Iterator[Layout]:
    """Give a folder that has the ``.gitattributes`` files of a commit and nothing else."""
    try:
        folder = tempfile.mkdtemp(prefix=_SCRATCH, dir=at.common)
    except OSError as error:
        raise environment_failure(error, "make a folder in", at.common) from error
    try:
        for path, oid in _attributes(git, at, commit):
            place = os.path.join(folder, path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "xb") as file:
                file.write(git.out(at, "cat-file", "blob", oid))
        yield Layout(folder, at.folder, at.common)
    except OSError as error:
        raise environment_failure(error, "write in", folder) from error
    finally:
        remove_folder(folder)


def _attributes(git: Git, at: Layout, commit: str) -> Iterator[tuple[str, str]]:
    for row in os.fsdecode(git.out(at, "ls-tree", "-r", "-z", "--full-tree", commit)).split("\0"):
        head, _, path = row.partition("\t")
        if path == _ATTRIBUTES or path.endswith("/" + _ATTRIBUTES):
            mode, kind, oid = head.split(" ")
            parts = path.split("/")
            if kind == "blob" and mode != "120000" and not {"", ".", ".."} & {*parts}:
                yield path, oid
