"""Git as child processes that list files, safe on untrusted repositories and cheap to start.

No program that a repository names is run. Hooks and monitors are switched off by name. Filters (``filter.<name>.clean``)
have no common switch, and git runs them to compare a file whose time stamps do not suffice: so each filter that the
repository's own settings define, and that of Git LFS, is overridden to name nothing. Those settings are searched for
the word first, which saves a process where there is none. Filters in the settings of the user remain: they are
programs that the user chose.

``posix_spawn`` is called directly, because importing ``subprocess`` takes as long as listing thousands of files.
"""

from __future__ import annotations

__all__ = [
    "BYTES_MAX",
    "FILTERS_MAX",
    "FILTER_OFF",
    "SAFE_SETTINGS",
    "SECONDS_MAX",
    "Answer",
    "Git",
    "error_of",
    "find_git",
    "git_environment",
    "settings_bytes",
]

import os
import select
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from periplus.base.errors import EnvironmentFailure
from periplus.base.named_tuple import NamedTuple

SECONDS_MAX: Final = 60.0
BYTES_MAX: Final = 64 << 20
FILTERS_MAX: Final = 1_000
_SETTINGS_BYTES_MAX: Final = 1 << 20
_STDERR_BYTES_MAX: Final = 16_384
_READ_BYTES: Final = 1 << 18
_KEPT: Final = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM"})
SAFE_SETTINGS: Final = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.untrackedCache=false",
    "diff.orderFile=/dev/null",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
    "sparse.expectFilesOutsideOfPatterns=true",  # so that the marks of files are those in the index, whatever is on the disk
)
_NONE_FOUND: Final = "git failed with exit code 1"
FILTER_OFF: Final = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
_ALWAYS_OFF: Final = "filter.lfs"
_FILTER_NAMES: Final = ("config", "--null", "--name-only", "--get-regexp", r"^filter\.")
_WORDS_OF_FILTERS: Final = (b"filter", b"include")


class Answer(NamedTuple):
    """Output of one process; ``problem`` says why it is not whole, empty where it is. ``said`` is what it wrote to its error output."""

    out: bytes
    problem: str
    said: bytes = b""


class Git:
    """Git in the worktree ``top``, whose git folder is ``folder`` and whose shared settings are in ``common``.

    ``until`` is the deadline of all calls on the monotonic clock; without one, each call may take SECONDS_MAX.
    """

    def __init__(
        self, program: str, environment: Mapping[str, str], top: str, folder: str, common: str, until: float | None = None
    ) -> None:  # fmt: skip
        self._program = program
        self._environment = git_environment(environment, top)
        self._set_filters_off([_ALWAYS_OFF])
        self._settings = settings_bytes(common, folder)
        self._is_checked = False
        self._deadline = until

    @property
    def algorithm(self) -> Literal["sha1", "sha256"]:
        """The hash algorithm of the repository's object ids."""
        text = b"".join(self._settings.lower().split())
        return "sha256" if b"objectformat=sha256" in text or b'objectformat="sha256"' in text else "sha1"

    def ask(self, folder: str, *commands: Sequence[str]) -> list[Answer]:
        """Run git in ``folder`` with each of ``commands``, all at the same time.

        Raises EnvironmentFailure where they have not ended at the deadline.
        """
        if not self._is_checked:
            problem = self._find_filters(folder)
            if problem:
                return [Answer(b"", problem)] * len(commands)
            self._is_checked = True
        return _run([self._line(folder, command) for command in commands], self._environment, self._until())

    def _find_filters(self, folder: str) -> str:
        """Switch off the filters that the repository's own settings define; return what prevented it."""
        if not any(word in self._settings.lower() for word in _WORDS_OF_FILTERS):
            return ""
        answer = _run([self._line(folder, _FILTER_NAMES)], self._environment, self._until())[0]
        if answer.problem and answer.problem != _NONE_FOUND:
            return answer.problem
        names = answer.out.decode("utf-8", "surrogateescape").split("\0")
        keys = sorted({name.rpartition(".")[0] for name in names if name} | {_ALWAYS_OFF})
        if len(keys) > FILTERS_MAX:
            return f"the settings of git define over {FILTERS_MAX:,} filters"
        self._set_filters_off(keys)
        return ""

    def _until(self) -> float:
        return time.monotonic() + SECONDS_MAX if self._deadline is None else self._deadline

    def _set_filters_off(self, keys: Iterable[str]) -> None:
        # By the environment: an option's name ends at its first "=", and a filter's name may contain one.
        pairs = [(f"{key}.{part}", value) for key in keys for part, value in FILTER_OFF]
        self._environment["GIT_CONFIG_COUNT"] = str(len(pairs))
        for at, (key, value) in enumerate(pairs):
            self._environment |= {f"GIT_CONFIG_KEY_{at}": key, f"GIT_CONFIG_VALUE_{at}": value}

    def _line(self, folder: str, command: Sequence[str]) -> list[str]:
        settings = [word for setting in SAFE_SETTINGS for word in ("-c", setting)]
        return [self._program, "--no-pager", "-C", folder, *settings, *command]


def find_git(environment: Mapping[str, str]) -> str:
    """Return the path of the program git; empty where it is not installed."""
    for folder in _safe_path(environment):
        path = os.path.join(folder, "git")
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return ""


def _safe_path(environment: Mapping[str, str]) -> list[str]:
    """Return the folders of PATH that are absolute: a program called git in the project itself must not run."""
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    return [folder for folder in folders if os.path.isabs(folder)]


def git_environment(environment: Mapping[str, str], top: str) -> dict[str, str]:
    """Return the environment in which git works in the worktree ``top``, and nowhere else."""
    # Within a hook of git, variables would lead git to the hook's repository. GIT_WORK_TREE overrides the repository's
    # setting, which may name any folder; the ceiling keeps git from another repository further up, where this one is
    # damaged. GIT_DIR would do the same, but git checks the owner of a repository only where it found it itself.
    kept = {key: value for key, value in environment.items() if not key.startswith("GIT_") or key in _KEPT}
    return kept | {
        "PATH": os.pathsep.join(_safe_path(environment)) or os.defpath,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": os.path.dirname(top),
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_WORK_TREE": top,
        "LC_ALL": "C",
    }


def settings_bytes(common: str, folder: str) -> bytes:
    """Return the repository's own settings, or a text that names filters where they are too long to be searched."""
    found = []
    for path in (os.path.join(common, "config"), os.path.join(folder, "config.worktree")):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            said = os.read(fd, _SETTINGS_BYTES_MAX)
        except OSError:  # a folder of that name, which git does not read either
            said = b""
        finally:
            os.close(fd)
        found.append(said if len(said) < _SETTINGS_BYTES_MAX else said + b"filter")
    return b"\n".join(found)


def _run(lines: Sequence[Sequence[str]], environment: Mapping[str, str], until: float) -> list[Answer]:
    """Run several processes at the same time and return what each said, in their order."""
    children: list[_Child] = []
    try:
        children += [_Child(line, environment) for line in lines]
        _read(children, until)
        return [child.answer() for child in children]
    except OSError as error:
        return [Answer(b"", f"git cannot be run: {error.strerror or error}")] * len(lines)
    finally:
        for child in children:
            child.end()


class _Child:
    """A process with its output as far as it was read."""

    def __init__(self, line: Sequence[str], environment: Mapping[str, str]) -> None:
        self.out, self.said, self.problem = bytearray(), bytearray(), ""
        self._status: int | None = None
        out, out_end = os.pipe()
        self.open = {out: self.out}
        try:
            said, said_end = os.pipe()
        except OSError:
            os.close(out)
            os.close(out_end)
            raise
        self.open[said] = self.said
        actions = (
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, out_end, 1),
            (os.POSIX_SPAWN_DUP2, said_end, 2),
        )
        try:
            self._pid = os.posix_spawn(
                line[0], list(line), environment, file_actions=actions, setsigdef=(signal.SIGPIPE,)
            )
        except BaseException:  # also an interrupt: nothing half done is left
            os.close(out)
            os.close(said)
            raise
        finally:
            os.close(out_end)
            os.close(said_end)

    def take(self, fd: int) -> None:
        """Read what has come from ``fd``."""
        data = os.read(fd, _READ_BYTES)
        held = self.open[fd]
        if not data:
            del self.open[fd]
            os.close(fd)
        elif held is self.out:
            held += data
            if len(held) > BYTES_MAX:
                self.stop(f"git returned more than {BYTES_MAX:,} bytes")
        elif len(held) < _STDERR_BYTES_MAX:
            held += data

    def stop(self, problem: str) -> None:
        self.problem = problem
        self.end()

    def end(self) -> None:
        """Close its ends and wait for it; a process that still writes is killed."""
        if self.open and self._status is None:
            os.kill(self._pid, signal.SIGKILL)
        for fd in self.open:
            os.close(fd)
        self.open.clear()
        if self._status is None:
            try:
                self._status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
            except ChildProcessError:  # this process ignores the end of its children
                self._status = 0

    def answer(self) -> Answer:
        self.end()
        if not self.problem and self._status:
            self.problem = error_of(self.said.decode("utf-8", "replace"), self._status)
        return Answer(bytes(self.out), self.problem, bytes(self.said))


def _read(children: Sequence[_Child], until: float) -> None:
    poll = select.poll()
    owners: dict[int, _Child] = {}
    for child in children:
        for fd in child.open:
            owners[fd] = child
            poll.register(fd, select.POLLIN)
    while owners:
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise EnvironmentFailure(
                "git took too long to list the files", safe="Nothing was changed.", mend="Try again."
            )
        for fd, _ in poll.poll(left_s * 1_000):
            child = owners[fd]
            if fd in child.open:
                child.take(fd)
        for fd in [fd for fd, child in owners.items() if fd not in child.open]:
            del owners[fd]
            poll.unregister(fd)


def error_of(said: str, status: int) -> str:
    """Return the first error that git told in ``said``, or how it ended."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("fatal:", "error:"))]
    if "dubious ownership" in said:
        return (
            "git does not trust this repository: it belongs to another user (see safe.directory in `git help config`)"
        )
    if errors or lines:
        return f"git failed: {(errors or lines)[0][:300]}"
    return f"git was ended by signal {-status}" if status < 0 else f"git failed with exit code {status}"
