"""Parts of a repository that agents must not change, compared before and after a run.

Settings are compared by name and digest of value, because a value may be a secret. Refs of our branches are left out:
they are the agents' work. What the supervisor moved itself is given by the caller.
"""

from __future__ import annotations

__all__ = ["marks_of", "tampered"]

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from typing import Final

from periplus.base.errors import EnvironmentFailure, environment_failure
from periplus.base.filesystem.git_files import first_line
from periplus.code.listing.repository import Repository as Layout
from periplus.dispatch.repository.git_process import Git
from periplus.dispatch.repository.model import BRANCH_PREFIX, Marks

_FILES: Final = ("config", "config.worktree", "shallow", "objects/info/alternates", "objects/info/http-alternates")
_FOLDERS: Final = ("hooks", "info")
_ENTRIES_MAX: Final = 10_000
_FILE_BYTES_MAX: Final = 4 << 20
_OURS: Final = f"refs/heads/{BRANCH_PREFIX}"
_SHOWN_MAX: Final = 50


def marks_of(git: Git, at: Layout) -> Marks:
    """Return the present state of the repository."""
    files = dict(_files(at))
    rows = os.fsdecode(git.out(at, "for-each-ref", "--format=%(objectname)%(symref) %(refname)")).split("\n")
    refs = {
        name: value for value, _, name in (row.partition(" ") for row in rows) if name and not name.startswith(_OURS)
    }
    return Marks(files, _settings(git, at), refs, first_line(os.path.join(at.folder, "HEAD")))


def tampered(git: Git, at: Layout, before: Marks, moved: Mapping[str, str]) -> list[str]:
    """Return what changed since ``before``, in words; ``moved`` are the refs that the supervisor moved, with their
    present commits.
    """
    try:
        now = marks_of(git, at)
    except EnvironmentFailure as error:
        # An agent may have made a file unreadable: such a file is reported with the reason.
        now = Marks(dict(_files(at)), before.settings, {**before.refs, **moved}, before.head)
        if dict(before.files) == now.files:
            raise
        unread = [f"git does not work there any more: {error}"]
    else:
        unread = []
    said = [
        f"{name} in git's folder was {how}" for name, how in _differences(before.files, now.files) if name != "config"
    ]
    settings = [f"the setting {name} was {how}" for name, how in _differences(before.settings, now.settings)]
    if before.files.get("config") != now.files.get("config") and not settings:
        settings = ["config in git's folder was changed"]
    expected = {**before.refs, **moved}
    refs = [f"{_title(name)} was {how}" for name, how in _differences(expected, now.refs)]
    if before.head != now.head:
        refs.append(f"the checkout {at.top} was switched from {_shown(before.head)} to {_shown(now.head)}")
    found = unread + said + settings + refs
    more = len(found) - _SHOWN_MAX
    return [*found[:_SHOWN_MAX], f"and {more:,} more"] if more > 0 else found


def _differences(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if old != new:
            yield name, "added" if old is None else "removed" if new is None else "changed"


def _title(ref: str) -> str:
    if ref.startswith("refs/replace/"):
        return f"a replacement of {ref.removeprefix('refs/replace/')[:12]}"
    for prefix, kind in (
        ("refs/heads/", "the branch"),
        ("refs/tags/", "the tag"),
        ("refs/remotes/", "the remote branch"),
    ):
        if ref.startswith(prefix):
            return f"{kind} {ref.removeprefix(prefix)}"
    return f"the ref {ref}"


def _shown(head: str) -> str:
    return head.removeprefix("ref: ").removeprefix("refs/heads/")


def _settings(git: Git, at: Layout) -> dict[str, str]:
    """Return digests of the settings in the repository's own files and those that they include."""
    found: dict[str, str] = {}
    for name in ("config", "config.worktree"):
        path = os.path.join(at.common if name == "config" else at.folder, name)
        if not os.path.isfile(path):
            continue
        for row in _listed(git, at, path).split("\0"):
            key, _, value = row.partition("\n")
            if key:
                found[key] = _digest((found.get(key, "") + value).encode("utf-8", "surrogateescape"))
    return found


def _listed(git: Git, at: Layout, path: str) -> str:
    """Return the settings of a file as git lists them; those of a file that includes no others are read again only where it
    has changed.
    """
    mark = _file_mark(path)
    if git.listed.get(path, ("", ""))[0] == mark != "":
        return git.listed[path][1]
    said = os.fsdecode(git.out(at, "config", "--file", path, "--includes", "--null", "--list"))
    if "\0include" not in f"\0{said}".lower():
        git.listed[path] = (mark, said)
    return said


def _files(at: Layout) -> Iterator[tuple[str, str]]:
    for name in _FILES:
        mark = _file_mark(os.path.join(at.common, name))
        if mark:
            yield name, mark
    if at.folder != at.common and (mark := _file_mark(os.path.join(at.folder, "config.worktree"))):
        yield "config.worktree of this worktree", mark
    seen = 0
    for above in _FOLDERS:
        place = os.path.join(at.common, above)
        if os.path.islink(place):
            yield above, f"link {os.readlink(place)}"
        for folder, _, names in os.walk(place):
            for name in sorted(names):
                path = os.path.join(folder, name)
                seen += 1
                if seen > _ENTRIES_MAX:
                    return
                yield os.path.relpath(path, at.common), _file_mark(path)


def _file_mark(path: str) -> str:
    """Return kind, mode and digest of a file; empty where there is none."""
    try:
        held = os.lstat(path)
        if stat.S_ISLNK(held.st_mode):
            return f"link {os.readlink(path)}"
        if not stat.S_ISREG(held.st_mode):
            return f"kind {stat.S_IFMT(held.st_mode):o}"
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            data = file.read(_FILE_BYTES_MAX)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise environment_failure(error, "read", path) from error
    return f"{held.st_mode & 0o777:o} {held.st_size} {_digest(data)}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
