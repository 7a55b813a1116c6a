"""Samples of large matrices: a seed that changes with each commit chooses the cases of ``make test``; ``make test-all`` has all.

The seed is the commit's id, or ``PERIPLUS_SEED`` to repeat the choice of another run; the header of a run names it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
THIRDS = 3


def git_says(*words) -> str:
    """Return what git prints about this checkout; empty where git or a repository is missing."""
    try:
        done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def seed() -> str:
    """Return the seed of this run; the first call fixes it for the processes of pytest-xdist too."""
    if "PERIPLUS_SEED" not in os.environ:
        os.environ["PERIPLUS_SEED"] = git_says("rev-parse", "--short=12", "HEAD") or "0"
    return os.environ["PERIPLUS_SEED"]


def third_of_commit() -> int:
    """Return the number of this commit modulo three: three commits in a row run all slow tests between them."""
    return int(git_says("rev-list", "--count", "HEAD") or 0) % THIRDS


def is_in_third(nodeid: str, third: int) -> bool:
    return zlib.crc32(nodeid.encode()) % THIRDS == third


def chosen(cases, count):
    """Return ``count`` of ``cases``, chosen by the seed, in their order."""
    cases = list(cases)
    ranked = sorted(range(len(cases)), key=lambda at: hashlib.sha256(f"{seed()}:{len(cases)}:{at}".encode()).digest())
    return [cases[at] for at in sorted(ranked[:count])]


def sampled(cases, count):
    """Return all ``cases`` for ``parametrize``, of which those outside a sample of ``count`` are marked slow."""
    cases = list(cases)
    kept = set(chosen(range(len(cases)), count))
    return [case if at in kept else _slow(case) for at, case in enumerate(cases)]


def _slow(case):
    if isinstance(case, type(pytest.param())):
        return pytest.param(*case.values, marks=[*case.marks, pytest.mark.slow], id=case.id)
    return pytest.param(case, marks=pytest.mark.slow)
