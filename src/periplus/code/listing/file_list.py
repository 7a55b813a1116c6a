"""The files of a folder: by git where it is a worktree of git, by a walk otherwise."""

from __future__ import annotations

__all__ = ["list_files"]

import os
import stat
from collections.abc import Mapping, Sequence

from periplus.base.errors import UsageError, environment_failure
from periplus.code.listing.folder_walk import walk_folder
from periplus.code.listing.git_listing import list_worktree
from periplus.code.listing.git_process import SECONDS_MAX, find_git
from periplus.code.listing.model import FILES_MAX, IndexState, Listing
from periplus.code.listing.repository import find_repository


def list_files(
    root: str, environment: Mapping[str, str], known: Sequence[IndexState] = (), *,
    files_max: int = FILES_MAX, seconds_max: float = SECONDS_MAX,
) -> Listing:  # fmt: skip
    """Return the files of ``root``, a folder.

    ``environment`` is the one to find and run git in, ``known`` the ``indexes`` of an earlier listing of the same
    folder: where they are still right, ``base`` is not read. Where git cannot list a worktree, the folder is walked
    and ``why`` gives the reason. Raises UsageError for what is no folder, EnvironmentFailure
    where it cannot be read or where git takes longer than ``seconds_max``: then an earlier listing is nearer to the truth than
    a walk.
    """
    try:
        root = os.path.realpath(root, strict=True)
        is_folder = stat.S_ISDIR(os.stat(root).st_mode)
    except OSError as error:
        raise environment_failure(error, "list the files of", root) from error
    if not is_folder:
        raise UsageError(f"{root} is not a folder", safe="Nothing was changed.")
    repository = find_repository(root)
    if repository is None:
        return _walked(root, files_max, "")
    program = find_git(environment)
    if not program:
        return _walked(root, files_max, "git is not installed, so that its rules on ignored files are not applied")
    found = list_worktree(root, repository, program, environment, known, files_max, seconds_max)
    return found if isinstance(found, Listing) else _walked(root, files_max, found)


def _walked(root: str, files_max: int, why: str) -> Listing:
    walk = walk_folder(root, files_max)
    reasons = [why] if why else []
    if walk.unread:
        reasons.append(f"{walk.unread:,} folders cannot be read")
    if not walk.is_whole:
        reasons.append("the folder has too many entries, of which the first were read")
    return Listing("folder", (), {}, walk.files, "sha1", walk.left_out, "; ".join(reasons))
