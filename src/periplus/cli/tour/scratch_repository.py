"""Repositories of the tour: made for it, and removed with it."""

from __future__ import annotations

__all__ = ["commit_all"]

from typing import Final

_PERSON: Final = ("-c", "user.name=tour", "-c", "user.email=tour@example.org", "-c", "commit.gpgsign=false")


def commit_all(folder: str, message: str) -> bool:
    """Make a repository of a folder and commit its files; False where git is not installed."""
    from periplus.base.errors import PeriplusError
    from periplus.interop.git_history.git_process import run_git

    try:
        return all(
            run_git(folder, *words).returncode == 0
            for words in (("init", "-q"), ("add", "-A"), (*_PERSON, "commit", "-qm", message))
        )
    except PeriplusError:
        return False
