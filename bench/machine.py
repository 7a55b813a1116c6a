"""What the numbers were measured on."""

from __future__ import annotations

__all__ = ["Machine", "machine"]

import os
import platform
import sqlite3
import subprocess
import sys
from typing import NamedTuple

from bench.samples import REPOSITORY


class Machine(NamedTuple):
    cpu: str
    cores: int
    kernel: str
    python: str
    sqlite: str
    file_system: str
    commit: str
    has_changes: bool


def machine(folder: str) -> Machine:
    """This machine, the file system that ``folder`` lies on, and the commit that is measured."""
    status = _git("status", "--porcelain")
    return Machine(
        _cpu(),
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        f"{platform.system()} {platform.release()}",
        f"{platform.python_implementation()} {platform.python_version()}",
        sqlite3.sqlite_version,
        _file_system(folder),
        _git("rev-parse", "HEAD") or "unknown",
        bool(status),
    )


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _file_system(folder: str) -> str:
    """Its type, by the mount point that is the longest beginning of the path."""
    best = ("", f"unknown ({sys.platform})")
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            for line in file:
                _, point, kind, *_ = line.split()
                inside = point == "/" or f"{os.path.realpath(folder)}/".startswith(f"{point}/")
                if inside and len(point) >= len(best[0]):
                    best = (point, kind)
    except OSError:
        pass  # a system without /proc: its name must do
    return best[1]


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
