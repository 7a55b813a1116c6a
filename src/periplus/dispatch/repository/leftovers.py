"""Work that an agent left in its worktree: shown, committed for it, and cleaned of what the dispatch had placed.

These calls are made when the agent's run has ended: lock files of a git that was killed with it are removed.
"""

from __future__ import annotations

__all__ = ["commit_rest", "commit_tree", "log_end", "uncommitted", "without_placed"]

import os
import stat
from collections.abc import Sequence
from typing import Final

from periplus.base.errors import RefusedError, SecretFoundError, environment_failure
from periplus.code.listing.repository import Repository as Layout
from periplus.dispatch.repository.comparison import FILE_BYTES_MAX, new_secrets
from periplus.dispatch.repository.git_process import Git, hidden_filters
from periplus.dispatch.repository.hidden_files import (
    excludes_settings,
    hide,
    index_entries,
    placed_ids,
    set_entries,
    tree_entries,
)
from periplus.dispatch.repository.model import RESULT_FILE, Identity, Uncommitted, oid_of
from periplus.dispatch.repository.refs import branch_at, compare_and_set, tip
from periplus.dispatch.repository.worktrees import OwnWorktree

_OPERATIONS: Final = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}
_UNMERGED: Final = frozenset({"DD", "AU", "UD", "UA", "DU", "AA", "UU"})
_STATUS: Final = (
    "status",
    "--porcelain",
    "-z",
    "--untracked-files=all",
    "--no-renames",
    "--ignore-submodules=all",
)
_LOG_END_BYTES: Final = 64 << 10
LEFT_PATHS_MAX: Final = 50_000
_REMOVE_PLACED: Final = "Remove files that Periplus placed in the worktree"


def uncommitted(git: Git, at: Layout, placed: Sequence[str] = ()) -> Uncommitted:
    """Return what no commit of the worktree has, less what was ``placed`` and the result file."""
    out = git.out(at, *_STATUS, settings=excludes_settings(at))
    left_out = {*placed, *placed_ids(at), RESULT_FILE}
    inside = tuple(f"{path}/" for path in left_out)
    changed, untracked, unmerged, nested = [], [], [], []
    for row in os.fsdecode(out).split("\0"):
        state, path = row[:2], row[3:]
        if not path or path in left_out or path.startswith(inside):
            continue
        if state in _UNMERGED:
            unmerged.append(path)
        elif state != "??":
            changed.append(path)
        elif path.endswith("/"):
            nested.append(path)
        else:
            untracked.append(path)
    running = [name for file, name in _OPERATIONS.items() if os.path.lexists(os.path.join(at.folder, file))]
    return Uncommitted(tuple(changed), tuple(untracked), tuple(unmerged), tuple(nested), running[0] if running else "")


def log_end(worktree: OwnWorktree) -> str:
    """Return the commit to which git last moved HEAD in the worktree, by its own log; empty where it has none.

    A branch that is moved from another worktree leaves no line there.
    """
    path = os.path.join(worktree.at.folder, "logs", "HEAD")
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_END_BYTES))
            lines = file.read(_LOG_END_BYTES).splitlines()
    except OSError:
        return ""
    words = lines[-1].split(b" ", 2) if lines else []
    if len(words) < 3:
        return ""
    found = (words[1] if words[1].strip(b"0") else words[0]).decode("ascii", "replace")  # its deletion leads to zeros
    return found if _is_oid(found) else ""


def _is_oid(text: str) -> bool:
    return len(text) in (40, 64) and set(text) <= set("0123456789abcdef")


def commit_rest(git: Git, worktree: OwnWorktree, message: str, author: Identity, placed: Sequence[str]) -> str | None:
    """Commit what the agent left, on the branch of its worktree; return the commit, or None where nothing is left.

    Files that were ``placed`` and repositories inside the worktree are left out. Raises SecretFoundError where a file has
    a secret, and RefusedError where the worktree is not on its branch, an operation of git is not finished, or a file
    has a filter that is not run.
    """
    at = worktree.at
    _remove_locks(worktree)
    head = _head_on_branch(git, worktree)
    rest = uncommitted(git, at, placed)
    if rest.operation or rest.unmerged:
        raise RefusedError(
            f"a {rest.operation or 'merge'} is not finished in {at.top}",
            safe="Nothing was changed; the files are as the agent left them.",
            mend="Finish or abort it there (git status says how), then try again.",
        )
    paths = [*rest.changed, *rest.untracked]
    if len(paths) > LEFT_PATHS_MAX:
        raise RefusedError(
            f"{len(paths):,} files are not committed in {at.top}, over {LEFT_PATHS_MAX:,}",
            safe="Nothing was changed; the files are as the agent left them.",
            mend="Have git ignore what is generated (.gitignore), then try again.",
        )
    _refuse_secrets(git, at, head, paths)
    _refuse_filters(git, at, paths)
    placed_now = sorted({*placed, *placed_ids(at)})
    if paths:
        said = b"".join(os.fsencode(path) + b"\0" for path in paths)
        git.out(at, "update-index", "--add", "--remove", "--replace", "-z", "--stdin", said=said)
    is_staged = _take_back(git, at, head, placed_now)
    if not paths and not is_staged:
        return None
    tree = git.out(at, "write-tree").decode().strip()
    if tree == git.out(at, "rev-parse", "--verify", f"{head}^{{tree}}").decode().strip():
        return None
    return _commit(git, worktree, tree, head, message, author)


def without_placed(git: Git, worktree: OwnWorktree, base: str, placed: Sequence[str], author: Identity) -> str:
    """Return the tip of the worktree's branch, to which a commit was added where its commits have what was placed.

    A file counts where it is as it was placed, and not as in ``base``; one that the agent changed further is its work.
    """
    at = worktree.at
    _remove_locks(worktree)
    head = _head_on_branch(git, worktree)
    known = placed_ids(at)
    paths = sorted({*placed, *known, RESULT_FILE})
    before, after = tree_entries(git, at, oid_of(base), paths), tree_entries(git, at, head, paths)
    wrong = [
        path
        for path in paths
        if path in after
        and before.get(path) != after[path]
        and (path == RESULT_FILE or after[path].oid in known.get(path, ()))
    ]
    if not wrong:
        return head
    index = os.path.join(at.folder, "periplus-index")
    more = {"GIT_INDEX_FILE": index}
    try:
        git.out(at, "read-tree", head, more=more)
        set_entries(git, at, wrong, before, more)
        tree = git.out(at, "write-tree", more=more).decode().strip()
    finally:
        if os.path.lexists(index):
            os.unlink(index)
    commit = _commit(git, worktree, tree, head, _REMOVE_PLACED, author)
    set_entries(git, at, wrong, before)
    hide(git, at, wrong)
    return commit


def _take_back(git: Git, at: Layout, head: str, placed: Sequence[str]) -> bool:
    """Give what was placed, and the result file, the entries of ``head`` in the index; False where they have them."""
    paths = [*placed, RESULT_FILE]
    before, now = tree_entries(git, at, head, paths), index_entries(git, at, paths)
    wrong = [path for path in paths if before.get(path) != now.get(path)]
    set_entries(git, at, wrong, before)
    hide(git, at, wrong)
    return bool(wrong)


def _commit(git: Git, worktree: OwnWorktree, tree: str, parent: str, message: str, author: Identity) -> str:
    commit = commit_tree(git, worktree.at, tree, (parent,), message, author)
    if not compare_and_set(git, worktree.at, f"refs/heads/{worktree.branch}", commit, parent):
        raise RefusedError(
            f"{worktree.branch} was moved meanwhile",
            safe="Nothing was changed; the files are as the agent left them.",
            mend="Try again.",
        )
    return commit


def commit_tree(
    git: Git, at: Layout, tree: str, parents: Sequence[str], message: str, author: Identity, at_s: int | None = None
) -> str:
    """Write a commit without a signature and return its id. The same arguments with ``at_s``, a time in seconds since
    1970, give the same commit.
    """
    more = {f"GIT_{role}_{part}": text for role in ("AUTHOR", "COMMITTER") for part, text in zip(("NAME", "EMAIL"), author, strict=True)}  # fmt: skip
    if at_s is not None:
        more |= {"GIT_AUTHOR_DATE": f"@{at_s} +0000", "GIT_COMMITTER_DATE": f"@{at_s} +0000"}
    words = [word for parent in parents for word in ("-p", oid_of(parent))]
    said = message if message.endswith("\n") else message + "\n"
    out = git.out(at, "commit-tree", "--no-gpg-sign", *words, "-F", "-", oid_of(tree), said=said.encode("utf-8", "replace"), more=more)  # fmt: skip
    return oid_of(out.decode().strip())


def _head_on_branch(git: Git, worktree: OwnWorktree) -> str:
    """Return the commit that the worktree is at. Raises RefusedError where that is not the tip of its branch."""
    present = branch_at(git, worktree.at)
    head = tip(git, worktree.at, f"refs/heads/{worktree.branch}") if worktree.branch else ""
    if head and present == worktree.branch:
        return head
    if worktree.branch and not head:
        raise RefusedError(
            f"the branch {worktree.branch} was deleted",
            safe="Nothing was changed; the files are as the agent left them, and git log -g in that folder shows its commits.",
            mend=f"Make it again at its last commit: git branch {worktree.branch} COMMIT",
        )
    where = f"{present} is checked out" if present else "no branch is checked out"
    raise RefusedError(
        f"{where} in {worktree.at.top}, not {worktree.branch or 'a branch of Periplus'}",
        safe="Nothing was changed; the files are as the agent left them.",
        mend=f"Type in that folder: git switch {worktree.branch}",
    )


def _refuse_secrets(git: Git, at: Layout, head: str, paths: Sequence[str]) -> None:
    for path in paths:
        now = _contents(os.path.join(at.top, path))
        kinds = new_secrets(b"", now)
        if kinds:
            old = git.run(at, "cat-file", "blob", f"{head}:{path}")
            kinds = new_secrets(old.out if old.code == 0 else b"", now)
        if kinds:
            raise SecretFoundError(
                f"{path} in {at.top} has a secret ({', '.join(kinds)})",
                safe="Nothing was committed; the files are as the agent left them.",
                mend="Remove the secret from that file, or have git ignore the file, then try again.",
            )


def _contents(path: str) -> bytes:
    """Return what git would commit of ``path``, at most the first FILE_BYTES_MAX bytes; none where there is no file."""
    try:
        kind = os.lstat(path).st_mode
        if stat.S_ISLNK(kind):
            return os.fsencode(os.readlink(path))
        if not stat.S_ISREG(kind):
            return b""
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read(FILE_BYTES_MAX)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise environment_failure(error, "read", path) from error


def _refuse_filters(git: Git, at: Layout, paths: Sequence[str]) -> None:
    """Refuse files with a filter of the repository's own: without it git would commit what the filter hides."""
    off = set(hidden_filters(git.programs_off(at)))
    if not off or not paths:
        return
    said = b"".join(os.fsencode(path) + b"\0" for path in paths)
    fields = os.fsdecode(git.out(at, "check-attr", "-z", "--stdin", "filter", said=said)).split("\0")
    for path, _, name in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        if name in off:
            raise RefusedError(
                f"{path} in {at.top} is to pass the filter {name!r}, which only this repository's settings define",
                safe="The filter was not run and nothing was committed.",
                mend=f"Commit it there by hand, or define filter.{name} in your own settings (git config --global).",
            )


def _remove_locks(worktree: OwnWorktree) -> None:
    """Remove lock files that a killed git of the agent left; without them the files say what is true."""
    at, ref = worktree.at, os.path.join("refs", "heads", worktree.branch)
    for path in (os.path.join(at.folder, "index.lock"), os.path.join(at.folder, "HEAD.lock"), os.path.join(at.common, f"{ref}.lock")):  # fmt: skip
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise environment_failure(error, "remove", path) from error
