"""Branches and their tips: read, moved by compare-and-set, dropped. No call changes a file of a checkout but
``fast_forward``.
"""

from __future__ import annotations

__all__ = [
    "branch_at",
    "branches",
    "checkouts",
    "commit_named",
    "compare_and_set",
    "delete",
    "drop_branch",
    "fast_forward",
    "is_merged",
    "move",
    "tip",
]

import os
import re
import shlex

from periplus.base.errors import NotFoundError, RefusedError, UsageError
from periplus.code.listing.repository import Repository as Layout
from periplus.code.listing.repository import module_repository
from periplus.dispatch.repository.git_process import Git, failure
from periplus.dispatch.repository.model import BRANCH_PREFIX, full_ref, oid_of, own_branch

_PLAIN_REF = re.compile(r"refs/heads(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)+")
_OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REF_BYTES_MAX = 100
_UPDATE_REASON = "periplus dispatch"


def branch_at(git: Git, at: Layout) -> str:
    """Return the branch that is checked out in ``at``; empty where HEAD is detached."""
    done = git.run(at, "symbolic-ref", "--quiet", "HEAD")
    return _text(done.out).strip("\n").removeprefix("refs/heads/") if done.code == 0 else ""


def tip(git: Git, at: Layout, ref: str) -> str:
    """Return the commit of ``ref`` (a branch, or a ref in full); empty where there is none."""
    found = _loose_tip(at, full_ref(ref))
    if found:
        return found
    done = git.run(at, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{full_ref(ref)}^{{commit}}")
    return _text(done.out).strip() if done.code == 0 else ""


def _loose_tip(at: Layout, ref: str) -> str:
    """Return the commit of a branch that has a file of its own, if the object has one, too; empty where git has to say.

    It saves a process: a step asks for tips about twenty times.
    """
    if not _PLAIN_REF.fullmatch(ref) or ".." in ref:
        return ""
    try:
        fd = os.open(os.path.join(at.common, ref), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        said = os.read(fd, _REF_BYTES_MAX).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)
    oid = said.removesuffix("\n")
    is_there = _OID.fullmatch(oid) and os.path.isfile(os.path.join(at.common, "objects", oid[:2], oid[2:]))
    return oid if is_there else ""


def branches(git: Git, at: Layout, prefix: str) -> dict[str, str]:
    """Return the branches whose names begin with ``prefix``, with their tips."""
    # Without a pattern: a prefix may end inside a name, and git's patterns have characters of their own.
    said = git.out(at, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/")
    pairs = (line.partition(" ") for line in _text(said).split("\n") if line)
    names = ((name.removeprefix("refs/heads/"), commit) for commit, _, name in pairs)
    return {name: commit for name, commit in names if name.startswith(prefix)}


def checkouts(git: Git, at: Layout, branch: str) -> list[str]:
    """Return the folders of the worktrees in which ``branch`` is checked out."""
    found, folder, ref = [], "", full_ref(branch)
    for line in _text(git.out(at, "worktree", "list", "--porcelain", "-z")).split("\0"):
        if line.startswith("worktree "):
            folder = line.removeprefix("worktree ")
        elif line == f"branch {ref}":
            found.append(folder)
    return found


def move(git: Git, at: Layout, ref: str, new: str, old: str) -> bool:
    """Move ``ref`` from the commit ``old`` (empty: it must not exist) to ``new``; False where it is at neither.

    Raises RefusedError where the branch is checked out: its files would no longer be those of its tip.
    """
    ref, new = full_ref(ref), oid_of(new)
    before = tip(git, at, ref)
    if before == new:
        return True
    if before != old:
        return False
    if ref.startswith("refs/heads/") and (folders := checkouts(git, at, ref)):
        raise RefusedError(
            f"{ref.removeprefix('refs/heads/')} is checked out in {folders[0]}",
            safe="Nothing was changed; the commit is in the repository.",
            mend=f"Type there: git -C {shlex.quote(folders[0])} merge --ff-only {new}",
        )
    if git.run(at, "symbolic-ref", "--quiet", ref).code == 0:
        raise RefusedError(
            f"{ref} is a symbolic ref", safe="Nothing was changed.", mend="Name the branch it stands for."
        )
    return compare_and_set(git, at, ref, new, old)


def compare_and_set(git: Git, at: Layout, ref: str, new: str, old: str) -> bool:
    """Move ``ref`` in full from ``old`` to ``new``, whatever is checked out; False where it was not at ``old``."""
    expected = oid_of(old) if old else "0" * len(new)
    done = git.run(at, "update-ref", "--no-deref", "-m", _UPDATE_REASON, ref, oid_of(new), expected)
    if done.code == 0:
        return True
    present = tip(git, at, ref)
    if present not in (old, new):
        return False  # somebody was faster
    raise failure(done, "update-ref", at.top)


def fast_forward(git: Git, repository: Layout, checkout: str, new: str, branch: str = "") -> str:
    """Move the branch that is checked out in ``checkout``, and its files, to ``new``; return why that was not done.

    The checkout must be without changes to tracked files, and on ``branch`` where one is named.
    """
    new = oid_of(new)
    at = module_repository(os.path.realpath(checkout))
    if at is None or os.path.realpath(at.common) != os.path.realpath(repository.common):
        return f"{checkout} is not a checkout of {repository.top} any more"
    present = branch_at(git, at)
    if not present:
        return f"no branch is checked out in {checkout}"
    if branch and present != branch.removeprefix("refs/heads/"):
        return f"{present} is checked out in {checkout}, not {branch}"
    if tip(git, at, f"refs/heads/{present}") == new:
        return ""
    status = git.run(at, "status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=all")
    if status.code:
        return str(failure(status, "status", checkout))
    if status.out:
        return f"{checkout} has uncommitted changes"
    words = ("merge", "--ff-only", "--no-verify-signatures", "--no-autostash", "--no-stat", "--quiet", new)
    done = git.run(at, *words)
    return "" if done.code == 0 else str(failure(done, "merge --ff-only", checkout))


def drop_branch(git: Git, at: Layout, branch: str, *, force: bool = False) -> str:
    """Delete one of our branches and return its last commit, by which it can be brought back; empty where it is gone.

    Raises RefusedError where it is checked out, or has commits that no other branch has, unless ``force``.
    """
    ref = own_branch(branch)
    commit = tip(git, at, ref)
    if not commit:
        return ""
    folders = checkouts(git, at, ref)
    if folders:
        raise RefusedError(
            f"{branch} is checked out in {folders[0]}", safe="Nothing was changed.", mend="Remove that worktree first."
        )
    if not force and not is_merged(git, at, commit):
        raise RefusedError(
            f"{branch} has commits that no other branch has",
            safe="Nothing was changed.",
            mend=f"Merge it, or drop it by force. Its last commit is {commit}.",
        )
    delete(git, at, ref, commit)
    return commit


def delete(git: Git, at: Layout, ref: str, commit: str) -> None:
    """Delete ``ref`` in full, whatever is checked out. Raises EnvironmentFailure where it is at another commit by now."""
    done = git.run(at, "update-ref", "--no-deref", "-d", ref, oid_of(commit))
    if done.code and tip(git, at, ref):
        raise failure(done, "update-ref", at.top)


def is_merged(git: Git, at: Layout, commit: str) -> bool:
    """Test that a ref other than our branches leads to ``commit``."""
    said = git.out(
        at, "for-each-ref", "--contains", oid_of(commit), "--format=%(refname)", "refs/heads/", "refs/remotes/"
    )
    return any(name and not name.startswith(f"refs/heads/{BRANCH_PREFIX}") for name in _text(said).split("\n"))


def commit_named(git: Git, at: Layout, text: str) -> str:
    """Return the whole id of a commit that a caller names by id or branch. Raises NotFoundError, UsageError."""
    if not text or text.startswith("-") or "\0" in text:
        raise UsageError(f"{text!r} does not name a commit", safe="Nothing was changed.")
    done = git.run(at, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}")
    if done.code:
        raise NotFoundError(f"there is no commit {text} in {at.top}", safe="Nothing was changed.")
    return _text(done.out).strip()


def _text(said: bytes) -> str:
    return os.fsdecode(said)
