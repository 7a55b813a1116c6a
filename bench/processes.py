"""Running programs as a person or a hook does, and what each run took."""

from __future__ import annotations

__all__ = ["Form", "Spent", "checked_run", "environment", "module_command", "periplus_command", "run_child", "spend"]

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from bench.samples import REPOSITORY

Form: TypeAlias = Literal["plain", "native"]  # of Periplus: without its parts in C, and with them
_PLAIN: Final = """
import runpy, sys
sys.modules["periplus.base._speed"] = sys.modules["periplus.base._values"] = None  # as where none was built
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


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


def module_command(module: str, *arguments: str, form: Form = "native") -> list[str]:
    """The command that runs ``module`` as it is installed here, or in its plain form."""
    start = ["-c", _PLAIN] if form == "plain" else ["-m"]
    return [sys.executable, *start, module, *arguments]


def checked_run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run once and show what went wrong, before the same is measured."""
    done = subprocess.run(argv, capture_output=True, text=True, env=environment(), cwd=REPOSITORY, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr.strip()}")
    return done


def spend(argv: list[str], stdin: str = os.devnull, cwd: str = "") -> Spent:
    """Wall clock from the start of the process to its end, and the processor time that it says it took, with that of its children."""
    if cwd:
        before = os.getcwd()
        os.chdir(cwd)
        try:
            return spend(argv, stdin)
        finally:
            os.chdir(before)
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (1, 2)]
    quiet.append((os.POSIX_SPAWN_OPEN, 0, stdin, os.O_RDONLY, 0))
    begun = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, environment(), file_actions=quiet)
    _, status, usage = os.wait4(pid, 0)
    wall_s = time.perf_counter() - begun
    if status:
        raise RuntimeError(f"{' '.join(argv)} ended with {os.waitstatus_to_exitcode(status)}")
    return Spent(wall_s, usage.ru_utime + usage.ru_stime)


def run_child(*arguments: str, form: Form = "native", module: str = "bench.child") -> dict[str, Any]:
    """The JSON that ``module`` prints of one measurement made in a process of its own."""
    done = checked_run(module_command(module, *arguments, form=form))
    found: dict[str, Any] = json.loads(done.stdout)
    return found
