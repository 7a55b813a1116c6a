"""The code map of the working folder, with or without a store."""

from __future__ import annotations

__all__ = ["go_on_detached", "map_path", "open_map", "warn_of_freshness", "worktree_of"]

import os
import sys
from typing import TYPE_CHECKING, Final

from periplus.base.errors import NotAStoreError
from periplus.cli.common.face import Face, visible
from periplus.journal.storage.layout import Layout, find_root

if TYPE_CHECKING:
    from periplus.code.code_map import CodeMap
    from periplus.code.index.refresh import Freshness

_KEPT: Final = 24


def worktree_of(face: Face) -> str:
    """Return the worktree whose code is asked about: that of git around the working folder, else the project's, else the folder itself."""
    from periplus.code.listing.repository import find_repository

    found = find_repository(os.path.realpath(face.cwd))
    if found is not None:
        return found.top
    try:
        return os.path.realpath(os.path.dirname(find_root(face.cwd, face.store)))
    except NotAStoreError:
        if face.store:
            raise
        return os.path.realpath(face.cwd)


def map_path(face: Face, worktree: str) -> str:
    """Return the file of the index: in the store, which all worktrees share, or in the user's cache folder where there is none."""
    try:
        return Layout(find_root(face.cwd, face.store)).code
    except NotAStoreError:
        if face.store:
            raise
    import hashlib

    cache = face.environment.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        cache = os.path.join(face.home, ".cache")
    name = hashlib.sha256(os.fsencode(worktree)).hexdigest()[:_KEPT]
    return os.path.join(cache, "periplus", "code", f"{name}.sqlite")


def open_map(face: Face, budget_s: float) -> CodeMap:
    """Open the code map. What the budget does not suffice for, a detached process does."""
    from periplus.code.code_map import CodeMap

    worktree = worktree_of(face)
    return CodeMap(
        worktree, map_path(face, worktree), environment=face.environment, budget_s=budget_s, progress=face.progress("parsing"),
        go_on=lambda: go_on_detached(face, worktree),
    )  # fmt: skip


def go_on_detached(face: Face, worktree: str) -> None:
    """Start ``periplus code index`` in a session of its own; it ends by itself."""
    import subprocess

    words = [
        sys.executable,
        "-P",  # the worktree's own modules are not on the path, whatever they are called
        "-m",
        "periplus",
        *(["--store", face.store] if face.store else []),
        "code",
        "index",
        "--quiet",
    ]
    subprocess.Popen(  # noqa: S603 - our own program, a list of words
        words, cwd=worktree, env=dict(face.environment), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip


def warn_of_freshness(face: Face, freshness: Freshness) -> None:
    """Say on standard error what is missing in an answer."""
    if freshness.waiting:
        files = "1 file that changed is" if freshness.waiting == 1 else f"{freshness.waiting:,} files that changed are"
        face.clear_progress()
        face.stderr.write(
            f"periplus: {files} not in this answer yet; another process goes on. Repeat the command, or wait: --wait 600\n"
        )
    if freshness.why:
        face.stderr.write(f"periplus: {visible(freshness.why)}\n")
