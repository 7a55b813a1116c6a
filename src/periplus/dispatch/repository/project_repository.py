"""The repository of a project, as a dispatch changes it."""

from __future__ import annotations

__all__ = ["GIT_MIN", "Repository"]

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from periplus.base.errors import EnvironmentFailure, NotFoundError, RefusedError, UsageError
from periplus.base.filesystem.git_files import git_settings, is_on, sparse_state
from periplus.code.listing.git_process import find_git
from periplus.code.listing.repository import module_repository
from periplus.dispatch.repository import (
    comparison,
    file_lines,
    hidden_files,
    leftovers,
    merging,
    refs,
    tampering,
    worktrees,
)
from periplus.dispatch.repository.git_process import Git, failure, hidden_filters
from periplus.dispatch.repository.model import Changes, Conflict, Identity, Marks, Merged, Uncommitted, own_branch

GIT_MIN: Final = (2, 38)  # October 2022: `git merge-tree --write-tree`
_VERSION: Final = re.compile(r"git version (\d+)\.(\d+)")


class Repository:
    """The repository whose checkout begins at ``top``, an absolute path; git runs in ``environment``, that of its user.

    Paths of worktrees are absolute. Commits are whole ids. Raises EnvironmentFailure where git is missing, too old, or
    does not trust the repository, and UsageError where there is no checkout with a commit.
    """

    def __init__(self, top: str, environment: Mapping[str, str]) -> None:
        program = find_git(environment)
        if not program:
            raise EnvironmentFailure(
                "git is not installed", safe="Nothing was changed.", mend="Install git, then try again."
            )
        if not os.path.isabs(top):
            raise UsageError(f"{top!r} is not an absolute path", safe="Nothing was changed.")
        self.top = os.path.realpath(top)
        at = module_repository(self.top)
        if at is None:
            raise UsageError(
                f"{top} is not the top of a git checkout",
                safe="Nothing was changed.",
                mend="Name the folder that has .git in it; for a new project type there: git init, then commit once. "
                "A bare repository needs a checkout.",
            )
        self._at = at
        self._environment = dict(environment)
        self._git = Git(program, environment)
        self._check()

    @property
    def common(self) -> str:
        """The folder of git that all worktrees share."""
        return self._at.common

    def setting(self, name: str) -> str:
        """Return a setting of git, such as ``user.email``; empty where there is none."""
        done = self._git.run(self._at, "config", "--get", "--end-of-options", name)
        return os.fsdecode(done.out).strip() if done.code == 0 else ""

    def parent(self, commit: str) -> str:
        """Return the first parent of a commit; empty where it has none."""
        done = self._git.run(self._at, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^1")
        return os.fsdecode(done.out).strip() if done.code == 0 else ""

    def commit(self, name: str) -> str:
        """Return the commit that ``name``, an id or a branch, stands for; empty where there is none."""
        try:
            return refs.commit_named(self._git, self._at, name)
        except (NotFoundError, UsageError):
            return ""

    def branch(self) -> str:
        """Return the branch that is checked out at the top; empty where HEAD is detached."""
        return refs.branch_at(self._git, self._at)

    def tip(self, ref: str) -> str:
        """Return the commit of ``ref`` (a branch, or a ref in full); empty where there is none."""
        return refs.tip(self._git, self._at, ref)

    def branches(self, prefix: str) -> dict[str, str]:
        """Return the branches whose names begin with ``prefix``, with their tips."""
        return refs.branches(self._git, self._at, prefix)

    def checkouts(self, branch: str) -> list[str]:
        """Return the folders in which ``branch`` is checked out."""
        return refs.checkouts(self._git, self._at, branch)

    def remarks(self) -> list[str]:
        """Return what a person should know before agents work here."""
        return list(self._remarks())

    def add_worktree(self, path: str, branch: str, base: str) -> None:
        """Make a locked worktree in ``path`` on ``branch``, which is made at ``base`` where it does not exist.

        Without a branch it is detached at ``base``. A worktree that is there already stays as it is; one that an agent
        deleted is made again, with the commits of its branch. Raises RefusedError where the folder is anything else.
        """
        worktrees.add_worktree(self._git, self._at, path, branch, base)

    def remove_worktree(self, path: str, *, keep_branch: bool, force: bool = False) -> None:
        """Remove a worktree, and its branch unless ``keep_branch``. Nothing happens where both are gone.

        Raises RefusedError where uncommitted work, or with the branch commits that no other branch has, would be lost,
        and where the folder is not what was made there; ``force`` removes it all the same.
        """
        branch = ""
        if not force and os.path.lexists(path):
            worktree = worktrees.worktree_at(self._at, path)
            left = leftovers.uncommitted(self._git, worktree.at)
            if not left.is_clean:
                first = (
                    *left.unmerged,
                    *left.changed,
                    *left.untracked,
                    *left.nested,
                    f"an unfinished {left.operation}",
                )[0]
                raise RefusedError(
                    f"{path} has uncommitted work: {first}",
                    safe="Nothing was changed.",
                    mend="Commit it, or remove the worktree by force.",
                )
        branch = worktrees.branch_of(self._at, path)
        commit = self.tip(own_branch(branch)) if branch else ""
        if commit and not keep_branch and not force and not refs.is_merged(self._git, self._at, commit):
            raise RefusedError(
                f"{branch} has commits that no other branch has",
                safe="Nothing was changed.",
                mend="Keep the branch, or remove it by force.",
            )
        folder = worktrees.remove_files(self._git, self._at, path, force=force)
        if commit and not keep_branch:
            refs.delete(self._git, self._at, own_branch(branch), commit)
        # Last, and not by git, which would read .git once more: until then the branch is known, so that a removal that
        # was interrupted can be repeated.
        if folder:
            worktrees.remove_folder(folder)

    def drop_branch(self, branch: str, *, force: bool = False) -> str:
        """Delete one of our branches; return its last commit, by which it can be made again, or nothing where it is gone.

        Raises RefusedError where it is checked out, or has commits that no other branch has, unless ``force``.
        """
        return refs.drop_branch(self._git, self._at, branch, force=force)

    def prune(self, under: str) -> list[str]:
        """Forget our worktrees below ``under`` whose folders are gone, and what interrupted merges left; return the
        paths of the worktrees. Branches stay.
        """
        merging.sweep(self._at)
        return worktrees.prune(self._at, under)

    def log_end(self, path: str) -> str:
        """Return the commit to which git last moved HEAD in a worktree, by its own log; empty where it has none."""
        return leftovers.log_end(worktrees.worktree_at(self._at, path))

    def bring_back(self, path: str, commit: str, old: str) -> bool:
        """Move the branch of a worktree from ``old`` back to ``commit``, no file; False where it is not at ``old``."""
        worktree = worktrees.worktree_at(self._at, path)
        return refs.compare_and_set(self._git, worktree.at, own_branch(worktree.branch), commit, old)

    def describe(self, path: str) -> Uncommitted:
        """Return what no commit of the worktree has; what was placed and the result file are left out."""
        return leftovers.uncommitted(self._git, worktrees.worktree_at(self._at, path).at)

    def checkout_changes(self) -> Uncommitted:
        """Return what no commit of the checkout at the top has."""
        return leftovers.uncommitted(self._git, self._at)

    def exclude_file(self, path: str, placed: Sequence[str]) -> str:
        """Write a file of patterns: the user's own, the ``placed`` files (which must be there), the result file.

        Return its path, which the agent's git gets as core.excludesFile.
        """
        at = worktrees.worktree_at(self._at, path).at
        return hidden_files.write_excludes(self._git, at, placed, self._environment)

    def hide(self, path: str, placed: Sequence[str]) -> None:
        """Mark those of ``placed`` that are tracked, so that git sees no change to them."""
        hidden_files.hide(self._git, worktrees.worktree_at(self._at, path).at, placed)

    def commit_rest(self, path: str, message: str, author: Identity, placed: Sequence[str]) -> str | None:
        """Commit what an agent left uncommitted, on the branch of its worktree; None where nothing is left.

        ``placed`` files and repositories inside are left out. Raises SecretFoundError, and RefusedError where another
        branch is checked out, an operation of git is not finished, or a file has a filter of the repository's own.
        """
        worktree = worktrees.worktree_at(self._at, path)
        return leftovers.commit_rest(self._git, worktree, message, author, placed)

    def without_placed(self, path: str, base: str, placed: Sequence[str], author: Identity) -> str:
        """Return the tip of the worktree's branch, to which a commit was added where its commits have placed files."""
        worktree = worktrees.worktree_at(self._at, path)
        return leftovers.without_placed(self._git, worktree, base, placed, author)

    def changes(self, base: str, tip: str) -> Changes:
        """Return the differences from ``base`` to ``tip``, and the secrets that the commits between them add."""
        return comparison.changes_between(self._git, self._at, base, tip)

    def diff(self, base: str, tip: str, bytes_max: int) -> str:
        """Return the differences as text of at most ``bytes_max`` bytes and a line that says so."""
        return comparison.diff_between(self._git, self._at, base, tip, bytes_max)

    def line_counts(self, commit: str, paths: Iterable[str]) -> dict[str, int]:
        """Return the number of lines of each of ``paths`` that is in ``commit``: 0 for a folder."""
        return file_lines.line_counts(self._git, self._at, commit, paths)

    def changed_lines(self, base: str, tip: str, paths_max: int = 500) -> list[file_lines.ChangedLines]:
        """Return the lines that ``tip`` has beyond ``base``, of ``paths_max`` files at most."""
        paths = self.changes(base, tip).paths[:paths_max]
        return file_lines.changed_lines(self._git, self._at, base, tip, paths)

    def committers(self, tip: str, without: Sequence[str]) -> dict[str, str]:
        """Return the commits that ``tip`` has and none of ``without``, newest first, with the names of their committers."""
        return comparison.committers(self._git, self._at, tip, without)

    def merge_base(self, one: str, other: str) -> str:
        """Return the last commit that both have; empty where there is none."""
        return comparison.merge_base(self._git, self._at, one, other)

    def marks(self) -> Marks:
        """Return the state that agents have no business to change."""
        return tampering.marks_of(self._git, self._at)

    def tampered(self, before: Marks, moved: Mapping[str, str] | None = None) -> list[str]:
        """Return what changed since ``before``, in words; ``moved`` are refs that the caller moved, with their commits."""
        return tampering.tampered(self._git, self._at, before, moved or {})

    def merge(self, onto: str, tip: str, message: str, author: Identity, *, at_s: int) -> Merged | Conflict:
        """Merge the commit ``tip`` into the commit ``onto`` and return the commit, whose time is ``at_s``. No ref and no
        file of a checkout is changed. Raises RefusedError where the two have no history in common.
        """
        return merging.merge(self._git, self._at, onto, tip, message, author, at_s=at_s)

    def move(self, ref: str, new: str, old: str) -> bool:
        """Move ``ref`` from ``old`` (empty: it must not exist) to ``new``; False where it is at neither.

        Raises RefusedError, which says what to type, where the branch is checked out.
        """
        return refs.move(self._git, self._at, ref, new, old)

    def fast_forward(self, checkout: str, new: str, branch: str = "") -> str:
        """Move the branch that is checked out in ``checkout``, and its files, to ``new``; return why that was not done.

        The checkout must have no changes to tracked files, and be on ``branch`` where one is named.
        """
        return refs.fast_forward(self._git, self._at, checkout, new, branch)

    def _check(self) -> None:
        """Raise where agents cannot work in this repository."""
        done = self._git.discover(self._at, "version")
        found = _VERSION.search(os.fsdecode(done.out))
        if found is None or tuple(map(int, found.groups())) < GIT_MIN:
            raise EnvironmentFailure(
                f"git {'.'.join(map(str, GIT_MIN))} or later is needed for several agents, not {os.fsdecode(done.out).strip()}",
                safe="Nothing was changed.",
                mend="Install a later git, then try again.",
            )
        if self._at.folder == self._at.common and is_on(git_settings(self._at.common), "core.bare"):
            raise UsageError(
                f"{self.top} is a bare repository",
                safe="Nothing was changed.",
                mend="Name a checkout of it: git worktree add FOLDER",
            )
        done = self._git.discover(self._at, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if done.code and done.said:
            raise failure(done, "rev-parse", self.top)
        if done.code:
            raise NotFoundError(
                f"no commit is checked out in {self.top}",
                safe="Nothing was changed.",
                mend=f"Commit once: git -C {shlex.quote(self.top)} commit --allow-empty -m 'First commit'",
            )

    def _remarks(self) -> Iterator[str]:
        common, folder = self._at.common, self._at.folder
        settings = git_settings(common, folder)
        if not self.branch():
            yield "No branch is checked out (HEAD is detached): name the target branch."
        if os.path.lexists(os.path.join(self.top, ".gitmodules")) or os.path.isdir(os.path.join(common, "modules")):
            yield "Submodules are empty in worktrees: where a step needs them, set up `git submodule update --init`."
        if os.path.isfile(os.path.join(common, "shallow")):
            yield "The clone is shallow: a merge fails where the common history is missing (`git fetch --unshallow`)."
        if is_on(settings, "core.sparsecheckout") or sparse_state(folder, ""):
            yield "The checkout is sparse: worktrees have the same files."
        if any(name == "extensions.partialclone" for name in settings):
            yield "The clone is partial: contents that are missing are not fetched, and then a step fails."
        off = hidden_filters(self._git.programs_off(self._at))
        if off:
            names = ", ".join(off)
            yield f"Filters that only this repository's settings define are not run: {names}. Define them for your user to use them."
        if self._has_lfs():
            yield "Git LFS is used: each worktree has its own copies of those files, which `git lfs` of your user's settings gets."

    def _has_lfs(self) -> bool:
        # Without literal pathspecs the pattern finds the files of all folders.
        words = ("grep", "--quiet", "--no-textconv", "-I", "-e", "filter=lfs", "HEAD", "--", ":(glob)**/.gitattributes")
        return self._git.run(self._at, *words, more={"GIT_LITERAL_PATHSPECS": "0"}).code == 0
