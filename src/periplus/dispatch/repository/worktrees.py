"""Worktrees for agents: made, recognised, locked and removed.

Theory of operation
-------------------
A worktree of git has two halves: its folder, in which an agent does as it likes, and git's own folder of it under
``worktrees/`` of the repository. ``worktree_at`` finds the second from the first and believes neither: ``.git`` must be
a plain file that leads to a folder of our repository, that folder must lead back, and the branch in its lock's reason
is the one that the worktree was made for. Git is then given the folder under ``worktrees/`` by name, so that what an
agent does to ``.git`` later changes nothing.

Git itself locks a worktree with the reason "initializing" until its files are there. Only then it is locked with our
reason, which keeps ``git gc`` and ``git worktree prune`` from it. So a worktree with any other reason was not finished,
nobody has worked in it, and it is made anew.
"""

from __future__ import annotations

__all__ = [
    "OwnWorktree",
    "add_worktree",
    "branch_of",
    "doubt",
    "prune",
    "remove_files",
    "remove_folder",
    "worktree_at",
]

import fcntl
import os
import shlex
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from periplus.base.errors import (
    EnvironmentFailure,
    LockTimeoutError,
    PeriplusError,
    RefusedError,
    UsageError,
    environment_failure,
)
from periplus.base.filesystem.git_files import first_line, pointed
from periplus.base.named_tuple import NamedTuple
from periplus.code.listing.repository import Repository as Layout
from periplus.dispatch.repository.git_process import Git, failure
from periplus.dispatch.repository.model import BRANCH_PREFIX, own_branch
from periplus.dispatch.repository.refs import checkouts, commit_named, tip

_LOCKED_FOR: Final = "Periplus works here on "
_UNFINISHED: Final = "initializing"
_DETACHED: Final = "no branch"
_UNLOCKED: Final = "it is not locked by Periplus"
_LOCK_SUFFIX: Final = ".lock"
_LOCK_POLL_S: Final = 0.02
_ADD_SECONDS_MAX: Final = 1_800.0  # the files of a large repository, through the user's filters


class OwnWorktree(NamedTuple):
    """A worktree of ours and the branch it was made for; empty where it is for looking only."""

    at: Layout
    branch: str


def worktree_at(repository: Layout, path: str) -> OwnWorktree:
    """Return the worktree of ours in ``path``. Raises RefusedError where it is none, or was made to look like one."""
    why = doubt(repository, path)
    if why:
        mend = "Look into the folder; remove it by hand where nothing in it is wanted."
        if why == _UNLOCKED:
            reason = shlex.quote(_LOCKED_FOR + (_own_head(path) or "BRANCH"))
            mend = f"Type there: git worktree lock --reason {reason} {shlex.quote(path)}"
        raise RefusedError(
            f"{path} is not the worktree that was made there: {why}",
            safe="Nothing was changed. Commits on its branch are in the repository.",
            mend=mend,
        )
    folder = pointed(os.path.join(path, ".git"))
    return OwnWorktree(Layout(path, folder, repository.common), _branch_in(folder))


def _own_head(path: str) -> str:
    """Return the branch of ours that HEAD of the worktree names; empty where it names none."""
    head = first_line(os.path.join(pointed(os.path.join(path, ".git")), "HEAD")).removeprefix("ref: refs/heads/")
    return head if head.startswith(BRANCH_PREFIX) else ""


def branch_of(repository: Layout, path: str) -> str:
    """Return the branch that a worktree of ours was made for, also where its folder is gone; empty where none is known."""
    folder = _registered(repository).get(os.path.realpath(path))
    return _branch_in(folder) if folder is not None else ""


def _branch_in(folder: str) -> str:
    reason = first_line(os.path.join(folder, "locked"))
    branch = reason.removeprefix(_LOCKED_FOR) if reason.startswith(_LOCKED_FOR) else ""
    return "" if branch == _DETACHED else branch


def doubt(repository: Layout, path: str) -> str:
    """Return why ``path`` is not a finished worktree of ours; empty where it is one. Git is not run."""
    if not os.path.isabs(path):
        raise UsageError(f"{path!r} is not an absolute path", safe="Nothing was changed.")
    dot_git = os.path.join(path, ".git")
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            return "it is not a folder"
        if not stat.S_ISREG(os.lstat(dot_git).st_mode):
            return ".git in it is not the file that git wrote"
    except FileNotFoundError as error:
        return f"there is no {error.filename}"
    except OSError as error:
        raise environment_failure(error, "look at", path) from error
    folder = pointed(dot_git)
    if os.path.dirname(os.path.realpath(folder)) != os.path.join(os.path.realpath(repository.common), "worktrees"):
        return ".git in it leads to another repository"
    if not _leads_back(folder, path):
        return "git has another folder for what .git in it names"
    common = first_line(os.path.join(folder, "commondir"))
    if os.path.realpath(os.path.join(folder, common)) != os.path.realpath(repository.common):
        return "git's folder of it leads to another repository"
    reason = first_line(os.path.join(folder, "locked"))
    return "" if reason.startswith(_LOCKED_FOR) else _UNLOCKED


def add_worktree(git: Git, repository: Layout, path: str, branch: str, base: str) -> None:
    """Make a worktree in ``path`` on ``branch``, which is made at ``base`` where it does not exist; lock it.

    With an empty ``branch`` the worktree is detached at ``base``. Where the worktree is there already, nothing is done;
    where its folder was deleted, it is made again, with what the branch has by now. Raises RefusedError where the folder
    is anything else.
    """
    wanted = own_branch(branch).removeprefix("refs/heads/") if branch else ""
    _restore_dot_git(repository, path)
    if not doubt(repository, path):
        present = worktree_at(repository, path)
        if present.branch != wanted:
            raise RefusedError(
                f"{path} is a worktree for {present.branch or _DETACHED}, not for {wanted or _DETACHED}",
                safe="Nothing was changed.",
            )
        if not wanted:
            _refuse_other_commit(git, present.at, commit_named(git, repository, base))
        return
    with _lock(path) as fd:
        _make(git, repository, path, wanted, base, fd)


def _refuse_other_commit(git: Git, at: Layout, commit: str) -> None:
    head = git.run(at, "rev-parse", "--verify", "--quiet", "HEAD").out.decode().strip()
    if head != commit:
        raise RefusedError(
            f"{at.top} is a worktree at {head[:12]}, not at {commit[:12]}",
            safe="Nothing was changed.",
            mend="Remove that worktree first.",
        )


def _make(git: Git, repository: Layout, path: str, branch: str, base: str, lock: int) -> None:
    _clear_unfinished(git, repository, path)
    if os.path.lexists(path) and not _is_empty_folder(path):
        raise RefusedError(
            f"{path} exists and is not a worktree of Periplus: {doubt(repository, path)}",
            safe="Nothing was changed.",
            mend="Move that folder away, then try again.",
        )
    commit = commit_named(git, repository, base)
    if not branch:
        how: tuple[str, ...] = ("--detach", "--", path, commit)
    elif tip(git, repository, f"refs/heads/{branch}"):
        how = ("--", path, branch)
    else:
        how = ("-b", branch, "--no-track", "--", path, commit)
    words = ("worktree", "add", "--quiet", *how)
    done = git.run(repository, *words, timeout_s=_ADD_SECONDS_MAX, kept_fds=(lock,))
    if done.code:
        raise _no_worktree(git, repository, branch, failure(done, "worktree add", repository.top))
    git.out(repository, "worktree", "lock", "--reason", _LOCKED_FOR + (branch or _DETACHED), "--", path)


@contextmanager
def _lock(path: str) -> Iterator[int]:
    """Hold the lock of making ``path``. Git gets its descriptor: where this process is killed, the lock lasts until git
    has ended, which removes the folder when it fails.
    """
    name = path + _LOCK_SUFFIX
    until = time.monotonic() + _ADD_SECONDS_MAX
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        while True:
            fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                _wait_for(fd, name, until)
                if _is_file(fd, name):  # else its holder has removed it, and another may have the new one
                    break
            except BaseException:  # also an interrupt: nothing half done is left
                os.close(fd)
                raise
            os.close(fd)
    except OSError as error:
        raise environment_failure(error, "lock", name) from error
    try:
        yield fd
    finally:
        # Removed while it is held: a program that a filter left running keeps the descriptor, but no lock that counts.
        if os.path.lexists(name):
            os.unlink(name)
        os.close(fd)


def _wait_for(fd: int, name: str, until: float) -> None:
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise LockTimeoutError(
                    f"git still makes the worktree of {name}",
                    safe="Nothing was changed.",
                    mend="Wait for it, then try again.",
                ) from None
            time.sleep(_LOCK_POLL_S)
        else:
            return


def _is_file(fd: int, name: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(name))
    except FileNotFoundError:
        return False


def _no_worktree(git: Git, repository: Layout, branch: str, error: EnvironmentFailure) -> PeriplusError:
    """Return the error for a worktree that git did not make, with what to type where the reason is known."""
    if not branch:
        return error
    above = BRANCH_PREFIX.rstrip("/")
    if tip(git, repository, f"refs/heads/{above}"):
        return RefusedError(
            f"a branch {above} exists, so that git can have none in {BRANCH_PREFIX}",
            safe="Nothing was changed.",
            mend=f"Give it another name: git branch -m {above} NAME",
        )
    folders = checkouts(git, repository, branch)
    if folders:
        return RefusedError(
            f"{branch} is checked out in {folders[0]}",
            safe="Nothing was changed.",
            mend=f"Type there: git -C {shlex.quote(folders[0])} switch --detach",
        )
    return error


def remove_files(git: Git, repository: Layout, path: str, *, force: bool = False) -> str:
    """Remove the folder of a worktree with all that is in it; return git's folder of it, which is left to the caller and
    is empty where there is none.

    ``force`` also removes a folder that an agent made to look like something else, where git knows it as ours.
    """
    _clear_unfinished(git, repository, path)
    folder = _registered(repository).get(os.path.realpath(path), "")
    is_known = bool(folder) and first_line(os.path.join(folder, "locked")).startswith(_LOCKED_FOR)
    if not os.path.lexists(path):
        return folder
    why = doubt(repository, path)
    if why and (os.path.islink(path) or not (force and is_known)):
        raise RefusedError(
            f"{path} is not the worktree that was made there: {why}",
            safe="Nothing was changed.",
            mend="Remove that folder by hand where nothing in it is wanted, then try again.",
        )
    remove_folder(path)
    return folder


def prune(repository: Layout, under: str) -> list[str]:
    """Remove git's part of worktrees of ours below ``under`` whose folders are gone; return their paths."""
    above = os.path.realpath(under) + os.sep
    # Those that are not finished are left: another dispatch may be making one.
    gone = [
        (path, folder)
        for path, folder in _registered(repository).items()
        if path.startswith(above)
        and not os.path.lexists(path)
        and first_line(os.path.join(folder, "locked")).startswith(
            _LOCKED_FOR
        )  # another dispatch may be making one that is not finished
    ]
    for _, folder in gone:
        remove_folder(folder)
    return sorted(path for path, _ in gone)


def remove_folder(path: str) -> None:
    """Remove a folder with its contents, also of folders that forbid writing; links in it are not followed."""
    import shutil

    try:
        try:
            shutil.rmtree(path)
        except PermissionError:
            _open_up(path)
            shutil.rmtree(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise environment_failure(error, "remove", error.filename or path) from error


def _open_up(path: str) -> None:
    """Let the owner change all folders below ``path``."""
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        os.chmod(folder, 0o700)
        with os.scandir(folder) as entries:
            waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def _restore_dot_git(repository: Layout, path: str) -> None:
    """Write the ``.git`` of a worktree of ours again where an agent removed that file alone."""
    dot_git = os.path.join(path, ".git")
    if os.path.islink(path) or not os.path.isdir(path) or os.path.lexists(dot_git):
        return
    folder = _registered(repository).get(os.path.realpath(path))
    if folder is None or not first_line(os.path.join(folder, "locked")).startswith(_LOCKED_FOR):
        return
    try:
        with open(dot_git, "xb") as file:
            file.write(b"gitdir: " + os.fsencode(folder) + b"\n")
    except OSError as error:
        raise environment_failure(error, "write", dot_git) from error


def _clear_unfinished(git: Git, repository: Layout, path: str) -> None:
    """Remove what was left where making a worktree was interrupted, or where its folder was deleted since."""
    folder = _registered(repository).get(os.path.realpath(path))
    if folder is None:
        return
    reason = first_line(os.path.join(folder, "locked"))
    if os.path.lexists(path):
        dot_git = os.path.join(path, ".git")
        is_ours = not os.path.lexists(dot_git) or pointed(dot_git) == folder
        if (
            os.path.islink(path)
            or not is_ours
            or not (reason == _UNFINISHED or _is_unlocked(git, repository, path, folder))
        ):
            return
        remove_folder(path)
    elif not reason.startswith((_LOCKED_FOR, _UNFINISHED)):
        return
    remove_folder(folder)


def _is_unlocked(git: Git, repository: Layout, path: str, folder: str) -> bool:
    """Test for a worktree that git finished and that was not locked yet: it has no changes, and was made by us."""
    if os.path.lexists(os.path.join(folder, "locked")) or pointed(os.path.join(path, ".git")) != folder:
        return False
    head = first_line(os.path.join(folder, "HEAD")).removeprefix("ref: ")
    if head.startswith("refs/") and not head.startswith(f"refs/heads/{BRANCH_PREFIX}"):
        return False
    at = Layout(path, folder, repository.common)
    done = git.run(at, "status", "--porcelain", "-z", "--untracked-files=all", "--ignore-submodules=all")
    return done.code == 0 and not done.out


def _registered(repository: Layout) -> dict[str, str]:
    """Return git's folders of the repository's worktrees by the real paths of the worktrees."""
    above = os.path.join(repository.common, "worktrees")
    try:
        names = os.listdir(above)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise environment_failure(error, "read", above) from error
    found = {}
    for name in names:
        folder = os.path.join(above, name)
        dot_git = first_line(os.path.join(folder, "gitdir"))
        if dot_git and not os.path.islink(folder):
            found[os.path.realpath(os.path.dirname(os.path.join(folder, dot_git)))] = folder
    return found


def _leads_back(folder: str, path: str) -> bool:
    back = first_line(os.path.join(folder, "gitdir"))
    return bool(back) and os.path.realpath(os.path.dirname(os.path.join(folder, back))) == os.path.realpath(path)


def _is_empty_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path) and not os.listdir(path)
