"""Times at which files last changed, by the newest commits of git."""

from __future__ import annotations

__all__ = ["COMMITS_MAX", "change_times", "head_commit"]

import os
import time
from collections.abc import Mapping
from typing import Final

from periplus.base.errors import EnvironmentFailure
from periplus.code.listing.git_process import Git, find_git
from periplus.code.listing.repository import find_repository

COMMITS_MAX: Final = 1_000
_FIRST_SECONDS: Final = 5.0
_LOG: Final = (
    "log", "-z", "--format=%x01%ct", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-show-signature", "--relative",
)  # fmt: skip


def head_commit(root: str, environment: Mapping[str, str]) -> str:
    """Return the commit that is checked out in ``root``; empty where there is none, no git, or git does not answer."""
    git = _git(root, environment, _FIRST_SECONDS)
    if git is None:
        return ""
    try:
        answer = git.ask(root, ("rev-parse", "--verify", "--quiet", "HEAD"))[0]
    except EnvironmentFailure:
        return ""
    return "" if answer.problem else answer.out.decode("ascii", "replace").strip()


def change_times(
    root: str, environment: Mapping[str, str], *, commits_max: int = COMMITS_MAX, seconds_max: float = _FIRST_SECONDS
) -> dict[str, int]:
    """Return for each file below ``root`` that one of the newest ``commits_max`` commits changed the time of the last one, in seconds since
    1970. Empty where git does not answer within ``seconds_max``.
    """
    git = _git(root, environment, seconds_max)
    if git is None:
        return {}
    try:
        answer = git.ask(root, (*_LOG, "-n", str(commits_max), "HEAD", "--"))[0]
    except EnvironmentFailure:
        return {}
    found: dict[str, int] = {}
    at = 0
    for token in answer.out.split(b"\0"):
        # A header begins with a byte that no format writes; a file of such a name is at worst taken for one.
        if token[:1] == b"\x01" and token[1:].isdigit() and len(token) < 20:
            at = int(token[1:])
        elif token:
            found.setdefault(os.fsdecode(token.removeprefix(b"\n")), at)
    return found


def _git(root: str, environment: Mapping[str, str], seconds: float) -> Git | None:
    repository = find_repository(os.path.realpath(root))
    program = find_git(environment)
    if repository is None or not program:
        return None
    until = time.monotonic() + seconds
    return Git(program, environment, repository.top, repository.folder, repository.common, until)
