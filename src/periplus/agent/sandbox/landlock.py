"""Landlock: the kernel restricts a process and its children to the paths that it named itself. No privilege is needed.

Landlock can only allow, whole folders at a time. So hidden and protected paths are those that are *not* named: if a folder contains one,
its other entries are named one by one, and nothing new can be created in it. Gaps of Landlock (sockets other than TCP, signals before its
sixth version) are closed by a filter of system calls, see ``sandbox.landlock_child``.
"""

from __future__ import annotations

__all__ = ["Landlock", "allowed_paths"]

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from periplus.agent.sandbox.confinement import Confinement, Layer

_ENTRIES_MAX: Final = 5_000
_DEVICES: Final = (
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
)


class Landlock:
    """The Landlock layer. ``version`` of the kernel's interface; 4 and later know TCP, 6 and later signals."""

    def __init__(self, version: int, python: str = sys.executable) -> None:
        self._version = version
        self._python = python

    @property
    def layer(self) -> Layer:
        return "landlock"

    @property
    def about(self) -> str:
        return (
            f"Landlock {self._version} and a filter of system calls: only the folder is written, the home folder is hidden, no sockets;"
            " nothing new is made directly in a folder that holds .git or .periplus"
        )

    def wrap(self, words: Sequence[str], cwd: str, confinement: Confinement) -> list[str]:
        import json

        from periplus.agent.sandbox import landlock_child

        reading = allowed_paths("/", (*confinement.hidden, *_UNREAD))
        reading += [path for path in (*confinement.kept, "/proc") if os.path.isdir(path)]
        reading += [*allowed_paths(confinement.root, confinement.hidden), *confinement.protected]
        writing = [path for folder in (confinement.temporary, *confinement.writable, confinement.root)
                   for path in allowed_paths(folder, (*confinement.protected, *_within(confinement.hidden, confinement.root)))]  # fmt: skip
        asked = {
            "version": self._version, "read": reading, "write": writing,
            "devices": [path for path in _DEVICES if os.path.exists(path)], "network": confinement.allow_network,
            "cwd": cwd,
        }  # fmt: skip
        return [self._python, "-I", str(landlock_child.__file__), json.dumps(asked), *words]


_UNREAD: Final = ("/dev", "/proc", "/run", "/sys/kernel/debug", "/sys/fs/cgroup")


def _within(paths: Iterable[str], folder: str) -> list[str]:
    return [path for path in paths if path.startswith(folder.rstrip("/") + "/")]


def allowed_paths(folder: str, left_out: Iterable[str]) -> list[str]:
    """``folder`` if nothing below it is left out; otherwise its entries, recursively, that are not left out."""
    inner = [path for path in left_out if path == folder or path.startswith(folder.rstrip("/") + "/")]
    if not inner:
        return [folder]
    if folder in inner:
        return []
    found: list[str] = []
    try:
        names = sorted(os.listdir(folder))[:_ENTRIES_MAX]
    except OSError:
        return []
    for name in names:
        path = os.path.join(folder, name)
        if not os.path.islink(path):  # the target of a link is judged in its own place
            found += allowed_paths(path, inner)
    return found
