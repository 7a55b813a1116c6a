"""Which entity files stand in git's way: it pulls nothing over files that it has not got, or that differ from what it has.

What `sync` brought is in the files at once, and in the files that others commit, too; so of two clones that exchange both ways, each pull meets
them. The journal has all that they say, and they are written again whenever they are missing: whoever removes them makes room.
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
    """The entity files over which a `git pull` of what was fetched would not write, as paths from the store's parent folder.

    Nothing is fetched; where git cannot be asked, or is in the middle of something, there are none.
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
    """Whether the file is there and not as git has it; ``blob`` is the id of what git has, None where it has nothing."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return False
    if blob is None:
        return True
    digest = hashlib.sha256 if len(blob) > 40 else _sha1
    forms = (data, data.replace(b"\r\n", b"\n"))  # git keeps the latter of a file to which it gave line ends of its own
    return blob not in (digest(b"blob %d\0" % len(form) + form).hexdigest().encode() for form in forms)


def _sha1(data: bytes) -> hashlib._Hash:
    return hashlib.sha1(data, usedforsecurity=False)
