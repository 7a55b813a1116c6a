"""Find entity files that block ``git pull``: it does not overwrite untracked or changed files.

What `sync` brings is written to the files at once, and others commit the same files; so where two clones exchange
both ways, each pull meets them. The journal has all their contents, and writes missing files again: removing them
makes room.
"""

from __future__ import annotations

__all__ = ["files_blocking_pull"]

import hashlib
import os
from typing import Final

from periplus.base.errors import PeriplusError
from periplus.journal.projections.git_state import busy_with, read_git

_TIMEOUT_S: Final = 10.0


def files_blocking_pull(root: str) -> list[str]:
    """Return the entity files that a `git pull` of fetched commits would not overwrite, as paths from the store's
    parent folder. Nothing is fetched; where git cannot be asked, or is in the middle of an operation, there are
    none.
    """
    state = read_git(root)
    folder, inside = os.path.dirname(root), f"{os.path.basename(root)}/entities"
    if state is None or busy_with(state.main.git_folder):
        return []
    from periplus.interop.git_history.git_process import run_git

    def asked(*words: str) -> list[bytes]:
        done = run_git(folder, *words, "-z", "--", f":(literal){inside}", timeout_s=_TIMEOUT_S)
        return [part for part in done.stdout.split(b"\0") if part] if done.returncode == 0 else []

    try:
        theirs = asked("diff", "--relative", "--name-only", "--no-renames", "HEAD...@{upstream}")
        staged = asked("ls-files", "--stage") if theirs else []
    except PeriplusError:
        return []
    held = {path: line.split(b" ")[1] for line, _, path in (part.partition(b"\t") for part in staged)}
    found = [path for path in theirs if _is_in_the_way(os.path.join(os.fsencode(folder), path), held.get(path))]
    return [os.fsdecode(path) for path in found]


def _is_in_the_way(path: bytes, blob: bytes | None) -> bool:
    """Return True where the file exists and differs from git's; ``blob`` is the id of git's version, None where it
    has none.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return False
    if blob is None:
        return True
    digest = hashlib.sha256 if len(blob) > 40 else _sha1
    forms = (data, data.replace(b"\r\n", b"\n"))  # git keeps these sizes for a file whose line ends it converted
    return blob not in (digest(b"blob %d\0" % len(form) + form).hexdigest().encode() for form in forms)


def _sha1(data: bytes) -> hashlib._Hash:
    return hashlib.sha1(data, usedforsecurity=False)
