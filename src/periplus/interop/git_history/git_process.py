"""Git as a child process, safe on untrusted repositories.

Git runs without a shell; programs named by the repository's configuration (hooks, pagers, filters, diff drivers,
monitors, signature programs) are not run, nothing is fetched, and the commands used here write nothing.
"""

from __future__ import annotations

__all__ = [
    "GIT_TIMEOUT_S",
    "ask",
    "cannot_run",
    "check_repository",
    "command",
    "environment",
    "is_installed",
    "run_git",
    "status",
]

import os
import shlex
from typing import TYPE_CHECKING, Final

from periplus.base.errors import EnvironmentFailure, FormatError, environment_failure

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

GIT_TIMEOUT_S: Final = 300.0
_SETTINGS: Final = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.untrackedCache=false",
    "diff.orderFile=/dev/null",
    "diff.relative=false",
    "log.follow=false",
    "log.showRoot=true",
    "log.showSignature=false",
    "protocol.allow=never",
)
_NO_FILTER: Final = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))


def check_repository(repo: str) -> None:
    finished = run_git(repo, "rev-parse", "--git-dir")
    if finished.returncode == 0:
        return
    said = finished.stderr.decode("utf-8", "replace")
    if "dubious ownership" in said:
        raise EnvironmentFailure(
            f"git does not trust {repo}: it belongs to another user",
            safe="Nothing was read.",
            mend=f"If you trust it: git config --global --add safe.directory {shlex.quote(os.path.abspath(repo))}",
        )
    raise FormatError(
        "not a git repository",
        path=repo,
        safe="Nothing was imported.",
        mend="Name the folder of one: periplus trail import --git REPOSITORY",
    )


def ask(repo: str, *arguments: str, work_tree: str = "") -> bytes:
    """Return git's output; empty where it fails."""
    finished = run_git(repo, *arguments, work_tree=work_tree)
    return finished.stdout if finished.returncode == 0 else b""


def run_git(
    repo: str,
    *arguments: str,
    work_tree: str = "",
    said: bytes = b"",
    timeout_s: float = GIT_TIMEOUT_S,
    more: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run git in the folder ``repo``. ``work_tree`` overrides the repository's setting, ``said`` is the standard
    input, ``more`` is added to the environment. Raises EnvironmentFailure where git cannot be run, or takes longer
    than ``timeout_s``.
    """
    import subprocess

    own = {**environment(), **({"GIT_WORK_TREE": work_tree} if work_tree else {}), **(more or {})}
    try:
        return subprocess.run(  # noqa: S603 - a list of arguments, no shell
            command(repo, arguments), env=own, input=said, capture_output=True, check=False,
            timeout=timeout_s,
        )  # fmt: skip
    except OSError as error:
        raise cannot_run(error) from error
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFailure(
            f"git took longer than {timeout_s:.0f} s in {repo}", safe="Nothing was changed.", mend="Try again."
        ) from error


def status(repo: str, *, timeout_s: float = GIT_TIMEOUT_S) -> list[str]:
    """Return the lines of ``git status --porcelain=v2 --branch``; none where git fails.

    To compare files git runs the filters that the repository's configuration names, so each of them is overridden to
    name nothing. Submodules have configurations of their own and are left out.
    """
    names = run_git(repo, "config", "--null", "--name-only", "--get-regexp", r"^filter\.", timeout_s=timeout_s).stdout
    keys = sorted({name.rpartition(".")[0] for name in names.decode("utf-8", "surrogateescape").split("\0") if name})
    # By the environment: an option's name ends at its first "=", and a filter's name may contain one.
    pairs = [(f"{key}.{part}", value) for key in keys for part, value in _NO_FILTER]
    off = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for at, (key, value) in enumerate(pairs):
        off |= {f"GIT_CONFIG_KEY_{at}": key, f"GIT_CONFIG_VALUE_{at}": value}
    words = ("status", "--porcelain=v2", "--branch", "--untracked-files=normal", "--ignore-submodules=all")
    said = run_git(repo, *words, work_tree=repo, timeout_s=timeout_s, more=off)
    return said.stdout.decode("utf-8", "replace").splitlines() if said.returncode == 0 else []


def is_installed() -> bool:
    """Test that git can be run."""
    import shutil

    return shutil.which("git", path=environment()["PATH"]) is not None


def command(repo: str, arguments: tuple[str, ...]) -> list[str]:
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    return ["git", "--no-pager", "-C", repo, *settings, *arguments]


def environment() -> dict[str, str]:
    # Git is found by PATH and its user's settings by HOME; variables that a hook of git sets are left out, and so are
    # relative folders in PATH: a program called git in the repository itself must not run.
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    folders = [folder for folder in kept.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]
    return kept | {
        "PATH": os.pathsep.join(folders) or os.defpath,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }


def cannot_run(error: OSError) -> EnvironmentFailure:
    if isinstance(error, FileNotFoundError):
        return EnvironmentFailure("git is not installed", mend="Install git, then repeat the command.")
    return environment_failure(error, "run git")
