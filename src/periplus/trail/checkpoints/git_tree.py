"""Git ids of files and folders, computed without git: no filter, hook or setting has an influence.

Paths are relative with ``/``, decoded as UTF-8 with ``surrogateescape``, so that any name that git holds is kept.
"""

from __future__ import annotations

__all__ = ["EXECUTABLE", "FILE", "LINK", "SUBMODULE", "TreeEntry", "blob_id", "folder_id", "git_algorithm", "tree_id"]

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from periplus.base.errors import UsageError
from periplus.trail.model import DigestAlgorithm

FILE: Final = "100644"
EXECUTABLE: Final = "100755"
LINK: Final = "120000"
SUBMODULE: Final = "160000"
_FOLDER: Final = b"40000"
_DEPTH_MAX: Final = 512


class TreeEntry(NamedTuple):
    """A file of a tree: its git mode, and the id of its blob (of a submodule, its commit)."""

    mode: str
    blob: bytes


def git_algorithm(name: bytes) -> DigestAlgorithm:
    """Return the hash algorithm of a git id, by its length."""
    return "git-sha1" if len(name) == 20 else "git-sha256"


def blob_id(data: bytes, algorithm: DigestAlgorithm) -> bytes:
    return _hashed(b"blob", data, algorithm)


def tree_id(entries: Mapping[str, TreeEntry], algorithm: DigestAlgorithm) -> bytes:
    """Return the id of the tree that holds these files. Raises UsageError if a path is a file and a folder at once."""
    folders: dict[bytes, dict[bytes, tuple[bytes, bytes]]] = {b"": {}}
    depths: dict[bytes, int] = {b"": 0}

    def folder_of(path: bytes) -> dict[bytes, tuple[bytes, bytes]]:
        found = folders.get(path)
        if found is None:
            parent, _, name = path.rpartition(b"/")
            inner = folder_of(parent)
            depths[path] = depths[parent] + 1
            if depths[path] > _DEPTH_MAX or not name or name in inner:
                raise UsageError(f"{path[:80]!r} cannot be a folder of a tree")
            inner[name] = (_FOLDER, b"")
            found = folders[path] = {}
        return found

    for text, entry in entries.items():
        path = text.encode("utf-8", "surrogateescape")
        parent, _, name = path.rpartition(b"/")
        inner = folder_of(parent)
        if not name or name in (b".", b"..") or name in inner:
            raise UsageError(f"{text[:80]!r} cannot be a file of a tree")
        inner[name] = (entry.mode.encode(), entry.blob)
    for path in sorted(folders, key=lambda path: -depths[path]):
        name = folder_id(folders[path], algorithm)
        if not path:
            return name
        parent, _, own = path.rpartition(b"/")
        folders[parent][own] = (_FOLDER, name)
    raise AssertionError("every tree has a root")


def folder_id(folder: Mapping[bytes, tuple[bytes, bytes]], algorithm: DigestAlgorithm) -> bytes:
    """Return the id of the tree with these names, each with its mode and id."""
    return _hashed(b"tree", _encoded(folder), algorithm)


def _encoded(folder: Mapping[bytes, tuple[bytes, bytes]]) -> bytes:
    # Git sorts folders as if their names ended with a slash.
    names = sorted(folder, key=lambda name: name + b"/" if folder[name][0] == _FOLDER else name)
    return b"".join(b"%b %b\0%b" % (folder[name][0], name, folder[name][1]) for name in names)


def _hashed(kind: bytes, data: bytes, algorithm: DigestAlgorithm) -> bytes:
    begin = b"%b %d\0" % (kind, len(data))
    if algorithm == "git-sha1":
        return hashlib.sha1(begin + data, usedforsecurity=False).digest()
    return hashlib.sha256(begin + data).digest()
