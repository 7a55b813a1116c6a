"""Running programs as a person or a hook does, and what each run took."""

from __future__ import annotations

__all__ = ["Spent", "checked_run", "environment", "periplus_command", "run_child", "spend"]

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from bench.samples import REPOSITORY


class Spent(NamedTuple):
    wall_s: float
    cpu_s: float


def environment() -> dict[str, str]:
    """Ours without what would change the way in which Periplus runs."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PERIPLUS_", "PYTHON"))}


def periplus_command() -> list[str]:
    """The ``periplus`` beside this interpreter; its entry point where it was not installed as a script."""
    script = os.path.join(os.path.dirname(sys.executable), "periplus")
    if os.access(script, os.X_OK):
        return [script]
    return [sys.executable, "-c", "from periplus.cli.main import run; run()"]


def checked_run(argv: Sequence[str], tree: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run once and show what went wrong, before the same is measured; with the modules in ``tree``, if one is given."""
    env = environment() if tree is None else {**environment(), "PYTHONPATH": tree}
    done = subprocess.run(argv, capture_output=True, text=True, env=env, cwd=REPOSITORY, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr.strip()}")
    return done


def spend(argv: list[str], stdin: str = os.devnull) -> Spent:
    """Wall clock from the start of the process to its end, and the processor time that it says it took."""
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (1, 2)]
    quiet.append((os.POSIX_SPAWN_OPEN, 0, stdin, os.O_RDONLY, 0))
    begun = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, environment(), file_actions=quiet)
    _, status, usage = os.wait4(pid, 0)
    wall_s = time.perf_counter() - begun
    if status:
        raise RuntimeError(f"{' '.join(argv)} ended with {os.waitstatus_to_exitcode(status)}")
    return Spent(wall_s, usage.ru_utime + usage.ru_stime)


def run_child(*arguments: str, tree: str | None = None) -> dict[str, Any]:
    """What ``bench.child`` says of one measurement made in a process of its own."""
    done = checked_run([sys.executable, "-m", "bench.child", *arguments], tree)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
