"""Bubblewrap: a private mount tree, and namespaces for processes, users and the network."""

from __future__ import annotations

__all__ = ["Bubblewrap"]

import os
import stat
from collections.abc import Sequence
from typing import Final

from periplus.agent.sandbox.confinement import Confinement, Layer

_APART: Final = ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")
_KERNEL: Final = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/acpi")


class Bubblewrap:
    """The bubblewrap layer. ``program`` is an absolute path. ``nested``: user namespaces inside can be forbidden (bubblewrap 0.8)."""

    def __init__(self, program: str, *, nested: bool = True) -> None:
        self._program = program
        self._nested = nested

    @property
    def layer(self) -> Layer:
        return "bubblewrap"

    @property
    def about(self) -> str:
        return "bubblewrap: only the folder is written, the home folder is hidden, no network, no other processes"

    def wrap(self, words: Sequence[str], cwd: str, confinement: Confinement) -> list[str]:
        out = [self._program, *_APART, "--die-with-parent", "--cap-drop", "ALL"]
        if self._nested:
            out.append("--disable-userns")
        if not confinement.allow_network:
            out.append("--unshare-net")
        out += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"]
        for path in _KERNEL:  # for an agent that runs as root they would be those of the machine
            out += ["--ro-bind", path, path] if os.path.exists(path) else []
        if confinement.allow_network:
            out += _names_of_hosts()
        out += ["--bind", confinement.temporary, "/tmp", "--bind", confinement.temporary, "/var/tmp"]  # noqa: S108 - mounted over
        inner = [path for path in confinement.hidden if path.startswith(f"{confinement.root}/")]
        for path in confinement.hidden:
            out += [] if path in inner else _nothing_at(path)
        for path in confinement.kept:
            out += ["--ro-bind", path, path]
        written = [confinement.temporary, *confinement.writable]
        within = [path for path in written if any(path.startswith(f"{one}/") for one in confinement.protected)]
        for path in (*(path for path in written if path not in within), confinement.root):
            out += ["--bind", path, path]
        for path in inner:  # over the mount of the folder, which would show them again
            out += _nothing_at(path)
        for path in confinement.protected:  # a mount of its own: it can neither be written nor moved out of the way
            out += ["--ro-bind", path, path]
        for path in within:  # the session's own folders may lie in the store
            out += ["--bind", path, path]
        for path in _sockets():  # last, for they may lie in the folder
            out += _nothing_at(path) if _is_seen(path, confinement, inner, written) else []
        return [*out, "--chdir", cwd, "--", *words]


def _nothing_at(path: str) -> list[str]:
    return ["--tmpfs", path] if os.path.isdir(path) else ["--ro-bind", "/dev/null", path]


def _is_seen(path: str, confinement: Confinement, inner: Sequence[str], written: Sequence[str]) -> bool:
    """Return whether the path of this machine is visible inside, and is not the session's own."""
    if _is_below(path, (*inner, *written)):
        return False
    covered = ("/run", "/tmp", "/var/tmp", *confinement.hidden)  # noqa: S108 - mounted over
    return _is_below(path, (confinement.root, *confinement.kept)) or not _is_below(path, covered)


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return path.startswith(tuple(f"{one}/" for one in folders))


def _sockets() -> list[str]:
    """Paths of UNIX sockets that this user may connect to, as far as the system lists them (proc(5), ``/proc/net/unix``): a read-only
    mount does not prevent a connection. Sockets of other network namespaces and those bound by a relative path are not listed.
    """
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.rstrip("\n").split(None, 7) for line in file]
    except OSError:
        return []
    places = {os.path.realpath(row[7]) for row in rows if len(row) == 8 and row[7].startswith("/")}
    return sorted(path for path in places if os.access(path, os.W_OK) and _is_socket(path))


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:  # gone meanwhile
        return False


def _names_of_hosts() -> list[str]:
    """The target of ``/etc/resolv.conf``, if it lies in the hidden folder."""
    target = os.path.realpath("/etc/resolv.conf")
    return ["--ro-bind", target, target] if target.startswith("/run/") and os.path.exists(target) else []
