"""Running git on a repository that may be anybody's.

Git runs without a shell; nothing that the repository's configuration names is run (hooks, pagers, filters, diff drivers,
monitors, signature programs), nothing is fetched, and the commands that are used here write nothing.
"""

from __future__ import annotations

__all__ = ["GIT_TIMEOUT_S", "ask", "cannot_run", "check_repository", "command", "environment", "run_git"]

import os
from typing import TYPE_CHECKING, Final

from periplus.base.errors import EnvironmentFailure, FormatError, environment_failure

if TYPE_CHECKING:
    import subprocess

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


def check_repository(repo: str) -> None:
    finished = run_git(repo, "rev-parse", "--git-dir")
    if finished.returncode == 0:
        return
    said = finished.stderr.decode("utf-8", "replace")
    if "dubious ownership" in said:
        raise EnvironmentFailure(
            f"git does not trust {repo}: it belongs to somebody else",
            safe="Nothing was read.",
            mend=f"If you do: git config --global --add safe.directory {os.path.abspath(repo)}",
        )
    raise FormatError("not a git repository", path=repo, safe="Nothing was imported.")


def ask(repo: str, *arguments: str, work_tree: str = "") -> bytes:
    """What git answers; nothing where it says no."""
    finished = run_git(repo, *arguments, work_tree=work_tree)
    return finished.stdout if finished.returncode == 0 else b""


def run_git(
    repo: str, *arguments: str, work_tree: str = "", said: bytes = b"", timeout_s: float = GIT_TIMEOUT_S
) -> subprocess.CompletedProcess[bytes]:
    """Run git in the folder ``repo``; ``work_tree`` stands above what the repository says of its own, ``said`` is what git
    reads. Raises EnvironmentFailure where it cannot be run, or takes longer than ``timeout_s``.
    """
    import subprocess

    more = {"GIT_WORK_TREE": work_tree} if work_tree else {}
    try:
        return subprocess.run(  # noqa: S603 - a list of arguments, no shell
            command(repo, arguments), env=environment() | more, input=said, capture_output=True, check=False,
            timeout=timeout_s,
        )  # fmt: skip
    except OSError as error:
        raise cannot_run(error) from error
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFailure(
            f"git took longer than {timeout_s:.0f} s in {repo}", safe="Nothing was changed.", mend="Try again."
        ) from error


def command(repo: str, arguments: tuple[str, ...]) -> list[str]:
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    return ["git", "--no-pager", "-C", repo, *settings, *arguments]


def environment() -> dict[str, str]:
    # Git is found by PATH and its user's settings by HOME; what a hook of git puts into the environment is left out.
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return kept | {
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
