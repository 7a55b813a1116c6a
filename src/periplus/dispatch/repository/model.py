"""Values that the repository of a dispatch returns, and the names it gives."""

from __future__ import annotations

__all__ = [
    "BRANCH_PREFIX",
    "RESULT_FILE",
    "Changes",
    "Conflict",
    "FoundSecret",
    "Identity",
    "Marks",
    "Merged",
    "Uncommitted",
    "full_ref",
    "oid_of",
    "own_branch",
]

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from periplus.base.errors import UsageError
from periplus.base.named_tuple import NamedTuple

BRANCH_PREFIX: Final = "periplus/"
RESULT_FILE: Final = ".periplus-result.json"
_OID: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")

Identity: TypeAlias = tuple[str, str]  # name, email


class FoundSecret(NamedTuple):
    """A secret that commits add: the path, or the commit whose message has it, and the kind of secret."""

    path: str
    kind: str


class Changes(NamedTuple):
    """Differences between two commits. ``unsearched`` are paths too large to be searched for secrets."""

    paths: tuple[str, ...]
    additions: int
    deletions: int
    commits: int
    secrets: tuple[FoundSecret, ...]
    unsearched: tuple[str, ...]


class Uncommitted(NamedTuple):
    """Work in a worktree that no commit has. ``nested`` are repositories inside it, which no commit takes up;
    ``operation`` is what git has not finished there, such as a rebase.
    """

    changed: tuple[str, ...]
    untracked: tuple[str, ...]
    unmerged: tuple[str, ...]
    nested: tuple[str, ...]
    operation: str

    @property
    def is_clean(self) -> bool:
        return not (self.changed or self.untracked or self.unmerged or self.nested or self.operation)


class Merged(NamedTuple):
    """The commit that has both sides: a new one, or the target's tip where that has the other side already."""

    commit: str


class Conflict(NamedTuple):
    """Paths that both sides changed, and what each side did to them since their last common commit, as diffs."""

    paths: tuple[str, ...]
    ours: str
    theirs: str


class Marks(NamedTuple):
    """State of a repository that agents have no business to change: digests of its files by path, digests of its
    settings by name, refs with their commits, and what is checked out.
    """

    files: Mapping[str, str]
    settings: Mapping[str, str]
    refs: Mapping[str, str]
    head: str


def oid_of(text: str, what: str = "commit") -> str:
    """Return ``text``, which must be the whole id of an object. Raises UsageError."""
    if _OID.fullmatch(text) is None:
        raise UsageError(f"{text!r} is not the whole id of a {what}", safe="Nothing was changed.")
    return text


def own_branch(branch: str) -> str:
    """Return the ref of ``branch``, which must be one of ours. Raises UsageError."""
    name = branch.removeprefix("refs/heads/")
    if not name.startswith(BRANCH_PREFIX) or "\0" in name or "\n" in name:
        raise UsageError(f"{branch!r} is not a branch of {BRANCH_PREFIX}", safe="Nothing was changed.")
    return f"refs/heads/{name}"


def full_ref(ref: str) -> str:
    """Return ``ref`` in full; a short name is that of a branch. Raises UsageError for what cannot be one."""
    if not ref or "\0" in ref or "\n" in ref:
        raise UsageError(f"{ref!r} is not the name of a branch", safe="Nothing was changed.")
    return ref if ref.startswith("refs/") else f"refs/heads/{ref}"
