"""Restrictions on reading by permission rules: such files are left out by tools that look at many files, and hidden from commands in the
sandbox.

A rule ``deny read(secrets/**)`` for the tool ``read`` alone would protect nothing: search, list, a program or a command would show the same
bytes. So all of them ask here for its paths. Not covered are git's own folder, copies elsewhere, and commands that somebody let out of the
sandbox.
"""

from __future__ import annotations

__all__ = ["ReadRestrictions"]

import os
from collections.abc import Iterator, Sequence
from typing import Final

from periplus.agent.policies.permission import path_matches
from periplus.agent.tools.files.folder_walk import Walk
from periplus.base.errors import RefusedError
from periplus.base.filesystem.confined_folder import Confined

MASKED_MAX: Final = 1_000
_WALK_SECONDS_MAX: Final = 5.0
_WILD: Final = frozenset("*?[")


class ReadRestrictions:
    """``denied`` and ``asked`` are the paths of rules, as globs from the folder. Call it with a path: it returns whether the path is kept
    back.
    """

    def __init__(self, denied: Sequence[str] = (), asked: Sequence[str] = ()) -> None:
        self._denied = tuple(dict.fromkeys(denied))
        self._all = (*self._denied, *asked)

    def __call__(self, path: str) -> bool:
        return any(path_matches(path, glob) for glob in self._all)

    def covers(self, path: str, root: str) -> bool:
        """Return whether the absolute ``path`` is kept back, by rules with absolute paths or with paths from the folder ``root``."""
        inner = [path[len(one) + 1 :] for one in {root, os.path.realpath(root)} if path.startswith(f"{one}/")]
        return any(self(one) for one in (path, *inner))

    def masked(self, folder: Confined) -> list[str]:
        """The files and folders that a command must not see now, as full paths, none inside another.

        Raises RefusedError if they cannot all be found, or are more than a sandbox can hide: then nothing may be run.
        """
        found: dict[str, None] = {}
        for glob in self._denied:
            for path in self._found(folder, glob):
                full = os.path.realpath(os.path.join(folder.root, path))
                if os.path.lexists(full):
                    found[full] = None
                if len(found) > MASKED_MAX:
                    raise _refused(glob, f"it matches over {MASKED_MAX:,} paths")
        return [path for path in found if not any(above in found for above in _above(path))]

    def _found(self, folder: Confined, glob: str) -> Iterator[str]:
        plain = glob.removesuffix("/**")
        if not _WILD & set(plain):
            yield plain
            return
        if glob.startswith("/"):
            raise _refused(glob, "outside the folder only full paths can be hidden")
        names = plain.split("/")
        first = next(place for place, name in enumerate(names) if _WILD & set(name))
        start = "/".join(names[:first]) or "."
        entry = folder.stat(start)
        if entry is None or entry.kind != "folder":
            return
        walk = Walk(folder, with_ignored=True, seconds=_WALK_SECONDS_MAX)
        for one in walk.entries(start):
            if path_matches(one.path, glob):
                yield one.path
        if walk.stopped or walk.unread:
            raise _refused(glob, walk.stopped or walk.unread[0])


def _above(path: str) -> Iterator[str]:
    while (path := os.path.dirname(path)) != "/":
        yield path


def _refused(glob: str, why: str) -> RefusedError:
    return RefusedError(
        f"the rule “deny read({glob})” cannot be kept for commands: {why}", safe="Nothing was run.",
        mend="Write it with its folder: deny read(secrets/**)",
    )  # fmt: skip
