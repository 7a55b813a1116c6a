"""Choice of the sandbox layer by a trial: an installed program may be forbidden, and a kernel feature may be off."""

from __future__ import annotations

__all__ = ["Unconfined", "find_sandbox", "landlock_version"]

import os
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

from periplus.agent.sandbox.bubblewrap import Bubblewrap
from periplus.agent.sandbox.confinement import Confinement, Layer, Sandbox
from periplus.agent.sandbox.landlock import Landlock

_PROBE_S: Final = 20
_CHECK: Final = 'touch "$1/ok" && ! touch "$2/no" 2>/dev/null && exit 42'


class Unconfined:
    """No layer: a command may touch what the person may. Each command needs consent."""

    def __init__(self, why: str = "") -> None:
        self._why = why

    @property
    def layer(self) -> Layer:
        return "none"

    @property
    def about(self) -> str:
        return f"no sandbox{f': {self._why}' if self._why else ''}"

    def wrap(self, words: Sequence[str], cwd: str, confinement: Confinement) -> list[str]:
        del cwd, confinement
        return list(words)


def find_sandbox(path: str, *, layers: Sequence[Layer] = ("bubblewrap", "landlock")) -> Sandbox:
    """Return the first of ``layers`` that keeps a trial command from writing outside. Programs are searched in ``path``."""
    import shutil

    tried = []
    for layer in layers:
        found: list[Sandbox] = []
        if layer == "bubblewrap":
            folders = ":".join(folder for folder in path.split(":") if folder.startswith("/"))
            program = shutil.which("bwrap", path=folders) if folders else None
            found = [Bubblewrap(program), Bubblewrap(program, nested=False)] if program else []
        elif layer == "landlock":
            version = landlock_version()
            found = [Landlock(version)] if version >= 1 else []
        for sandbox in found:
            if _works(sandbox):
                return sandbox
        tried.append(f"{layer} {'does not work here' if found else 'is not there'}")
    return Unconfined(", ".join(tried))


def landlock_version() -> int:
    """The version of the kernel's Landlock interface; 0 without one."""
    if sys.platform != "linux":
        return 0
    import ctypes

    try:
        return max(0, int(ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1)))
    except (OSError, AttributeError):
        return 0


def _works(sandbox: Sandbox) -> bool:
    import subprocess

    with tempfile.TemporaryDirectory() as folder:
        inner, outer, temporary = (os.path.join(os.path.realpath(folder), name) for name in ("in", "out", "tmp"))
        for path in (inner, outer, temporary):
            os.mkdir(path)
        words = sandbox.wrap(["/bin/sh", "-c", _CHECK, "sh", inner, outer], inner, Confinement(inner, temporary))
        try:
            done = subprocess.run(  # noqa: S603 - words of our own
                words,
                env={"PATH": os.defpath},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=_PROBE_S,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 42 and os.listdir(inner) == ["ok"] and not os.listdir(outer)
