"""Files that the dispatch places in a worktree (settings of an agent, its hooks) and that no commit may take up.

An untracked one is kept out by a file of patterns, which the agent's git gets by its environment: the shared
``info/exclude`` stays as it is. A tracked one is marked with ``skip-worktree``. Because an agent can commit both all
the same, the id that git would give to what was placed is kept in git's folder of the worktree.
"""

from __future__ import annotations

__all__ = [
    "EXCLUDES",
    "TreeEntry",
    "excludes_settings",
    "hide",
    "index_entries",
    "inside",
    "placed_ids",
    "set_entries",
    "tree_entries",
    "write_excludes",
]

import os
from collections.abc import Mapping, Sequence
from typing import Final

from periplus.base.errors import UsageError
from periplus.base.files import Files, write_atomic
from periplus.base.named_tuple import NamedTuple
from periplus.code.listing.repository import Repository as Layout
from periplus.dispatch.repository.git_process import Git
from periplus.dispatch.repository.model import RESULT_FILE

EXCLUDES: Final = "periplus-excludes"
_PLACED: Final = "periplus-placed"
_USER_BYTES_MAX: Final = 1 << 20
_PATHS_AT_ONCE: Final = 500
_SPECIAL: Final = "\\*?[]!# "


class TreeEntry(NamedTuple):
    """Mode and object id of a path, as git writes them."""

    mode: str
    oid: str


def write_excludes(git: Git, at: Layout, placed: Sequence[str], environment: Mapping[str, str]) -> str:
    """Write the file of patterns for the worktree ``at`` and note what was placed; return the file's path."""
    known = placed_ids(at)
    names = dict.fromkeys((RESULT_FILE, *(inside(path) for path in placed), *known))
    user = _user_excludes(git, at, environment)
    text = (user + "\n" if user and not user.endswith("\n") else user) + "".join(f"/{_escaped(one)}\n" for one in names)
    path = os.path.join(at.folder, EXCLUDES)
    _write(path, os.fsencode(text))
    committed = tree_entries(git, at, "HEAD", list(names))
    for name, oid in _ids_of_files(git, at, placed).items():
        # What the agent has committed meanwhile is its own: that is not what was placed.
        if name not in known or name not in committed or committed[name].oid != oid:
            known.setdefault(name, set()).add(oid)
    rows = [f"{oid} {name}" for name, oids in known.items() for oid in sorted(oids)]
    _write(os.path.join(at.folder, _PLACED), b"".join(os.fsencode(row) + b"\0" for row in rows))
    return path


def excludes_settings(at: Layout) -> dict[str, str]:
    """Return the settings of git that keep placed files out of a listing."""
    path = os.path.join(at.folder, EXCLUDES)
    return {"core.excludesFile": path} if os.path.isfile(path) else {}


def hide(git: Git, at: Layout, placed: Sequence[str]) -> None:
    """Mark those of ``placed`` that are tracked, so that a change to them is none for git."""
    names = [inside(path) for path in placed]
    tracked = list(index_entries(git, at, names))
    if tracked:
        said = b"".join(os.fsencode(path) + b"\0" for path in tracked)
        git.out(at, "update-index", "--skip-worktree", "-z", "--stdin", said=said)


def index_entries(git: Git, at: Layout, paths: Sequence[str]) -> dict[str, TreeEntry]:
    """Return the entries of ``paths`` in the index; those that it has not are left out."""
    found = {}
    for begin in range(0, len(paths), _PATHS_AT_ONCE):
        some = paths[begin : begin + _PATHS_AT_ONCE]
        for row in os.fsdecode(git.out(at, "ls-files", "--stage", "-z", "--", *some)).split("\0"):
            head, _, path = row.partition("\t")
            if path in some:
                mode, oid, _ = head.split(" ")
                found[path] = TreeEntry(mode, oid)
    return found


def placed_ids(at: Layout) -> dict[str, set[str]]:
    """Return the ids of what was placed, by paths; several where it was placed in several forms."""
    try:
        with open(os.path.join(at.folder, _PLACED), "rb") as file:
            rows = os.fsdecode(file.read(_USER_BYTES_MAX)).split("\0")
    except OSError:
        return {}
    found: dict[str, set[str]] = {}
    for oid, _, path in (row.partition(" ") for row in rows if row):
        found.setdefault(path, set()).add(oid)
    return found


def tree_entries(git: Git, at: Layout, tree: str, paths: Sequence[str]) -> dict[str, TreeEntry]:
    """Return the entries of ``paths`` in a tree or commit; those that it has not are left out."""
    found = {}
    for begin in range(0, len(paths), _PATHS_AT_ONCE):
        some = paths[begin : begin + _PATHS_AT_ONCE]
        for row in os.fsdecode(git.out(at, "ls-tree", "-z", "--full-tree", tree, "--", *some)).split("\0"):
            head, _, path = row.partition("\t")
            if path in some:
                mode, _, oid = head.split(" ")
                found[path] = TreeEntry(mode, oid)
    return found


def set_entries(
    git: Git, at: Layout, paths: Sequence[str], entries: Mapping[str, TreeEntry], more: Mapping[str, str] | None = None
) -> None:
    """Give ``paths`` the ``entries`` in the index; those without one are taken out of it. No file is touched."""
    rows = [f"{entries[path].mode} {entries[path].oid}\t{path}" for path in paths if path in entries]
    gone = [path for path in paths if path not in entries]
    for words, said in (("--index-info",), rows), (("--force-remove", "--stdin"), gone):
        if said:
            data = b"".join(os.fsencode(row) + b"\0" for row in said)
            git.out(at, "update-index", "-z", *words, said=data, more=more)


def inside(path: str) -> str:
    """Return ``path``, which must name a file in a worktree, in the form that git gives it. Raises UsageError."""
    parts = path.split("/")
    if os.path.isabs(path) or "\0" in path or "\n" in path or any(part in ("", ".", "..") for part in parts):
        raise UsageError(f"{path!r} is not a path inside a worktree", safe="Nothing was changed.")
    return path


def _ids_of_files(git: Git, at: Layout, placed: Sequence[str]) -> dict[str, str]:
    """Return the ids that git would give to the files and links as they are now."""
    found: dict[str, str] = {}
    plain = []
    for path in placed:
        place = os.path.join(at.top, path)
        if os.path.islink(place):
            said = os.fsencode(os.readlink(place))
            found[path] = git.out(at, "hash-object", "--stdin", said=said).decode().strip()
        elif os.path.isfile(place):
            plain.append(path)
    if plain:
        said = os.fsencode("".join(f"{path}\n" for path in plain))
        oids = git.out(at, "hash-object", "--stdin-paths", said=said).decode().split()
        found |= zip(plain, oids, strict=True)
    return found


def _user_excludes(git: Git, at: Layout, environment: Mapping[str, str]) -> str:
    """Return the patterns of the user's own file of excludes."""
    done = git.run(at, "config", "--type=path", "--get", "core.excludesFile")
    path = os.fsdecode(done.out).rstrip("\n") if done.code == 0 else ""
    if not path:
        home = environment.get("HOME", "")
        settings = environment.get("XDG_CONFIG_HOME", "") or (os.path.join(home, ".config") if home else "")
        path = os.path.join(settings, "git", "ignore") if settings else ""
    if not path:
        return ""
    place = os.path.join(at.top, path)
    try:
        if not os.path.isfile(place):  # a pipe of that name is not waited for
            return ""
        with open(place, "rb") as file:
            return os.fsdecode(file.read(_USER_BYTES_MAX))
    except OSError:  # git does not read it either
        return ""


def _escaped(path: str) -> str:
    return "".join(f"\\{char}" if char in _SPECIAL else char for char in path)


def _write(path: str, data: bytes) -> None:
    write_atomic(Files(), path, data)
