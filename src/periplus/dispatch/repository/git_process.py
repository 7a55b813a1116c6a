"""Git as a child process that writes: worktrees, commits and refs of a repository that agents may have changed.

Theory of operation
-------------------
Git is given its folders by the environment (``GIT_DIR``, ``GIT_COMMON_DIR``, ``GIT_WORK_TREE``), so neither a ``.git``
that an agent put in its worktree nor ``core.worktree`` leads a call elsewhere. No program that the repository names is
run: hooks and monitors are switched off by name, diff programs by the options of the commands. Filters and merge
drivers have no common switch. So before each call the repository's own settings are read; each filter they define gets
back what the user's or the system's settings say of it, or names nothing. A merge driver that only the repository
defines is replaced by git's own merge of texts, because an empty one would count as a merge without conflicts.

Replace refs and grafts are ignored. A call has a time limit and a limit of output, and runs in a session of its own:
Ctrl-C in the terminal of its caller does not stop it halfway, and its time limit also ends what it has started.
"""

from __future__ import annotations

__all__ = ["BYTES_MAX", "SECONDS_MAX", "Done", "Git", "failure", "hidden_filters"]

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO, Final

from periplus.base.errors import EnvironmentFailure, environment_failure, room_advice
from periplus.base.named_tuple import NamedTuple
from periplus.code.listing.git_process import (
    FILTER_OFF,
    FILTERS_MAX,
    SAFE_SETTINGS,
    error_of,
    git_environment,
    settings_bytes,
)
from periplus.code.listing.repository import Repository as Layout

SECONDS_MAX: Final = 120.0
BYTES_MAX: Final = 256 << 20
_SAID_BYTES_MAX: Final = 64 << 10
_PIPE_BYTES: Final = 1 << 16
_SETTINGS: Final = (
    *SAFE_SETTINGS,
    "branch.autoSetupMerge=false",
    "commit.gpgSign=false",
    "core.fsync=all",
    "core.quotePath=true",
    "core.safecrlf=false",
    "gc.auto=0",
    "i18n.commitEncoding=utf-8",
    "i18n.logOutputEncoding=utf-8",
    "log.showSignature=false",
    "maintenance.auto=false",
    "merge.directoryRenames=conflict",
    "merge.renames=true",
    "merge.renormalize=false",
    "submodule.recurse=false",
    "worktree.guessRemote=false",
)
_NAMES_PROGRAMS: Final = re.compile(rb"filter|include|\[\s*merge", re.IGNORECASE)
_PROGRAMS: Final = r"^(filter|merge)\..*\.(clean|smudge|process|required|driver)$"
_OWN_SCOPES: Final = frozenset({"local", "worktree"})
_MERGE_OF_TEXTS: Final = "git merge-file -q --marker-size=%L %A %O %B || exit 1"
_OFF: Final = {**dict(FILTER_OFF), "driver": _MERGE_OF_TEXTS}
_NONE_FOUND: Final = 1


class Done(NamedTuple):
    """End of a call: its exit code, its output (``is_cut`` where there was more than asked for), its error output."""

    code: int
    out: bytes
    said: str
    is_cut: bool = False


class Git:
    """Git by its path ``program``, in the environment of its user."""

    def __init__(self, program: str, environment: Mapping[str, str]) -> None:
        self._program = program
        self._environment = dict(environment)
        self.listed: dict[str, tuple[str, str]] = {}  # settings of a file as they were listed, with its mark

    def run(
        self,
        at: Layout,
        *words: str,
        said: bytes = b"",
        more: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        bytes_max: int = BYTES_MAX,
        timeout_s: float = SECONDS_MAX,
        kept_fds: Sequence[int] = (),
    ) -> Done:
        """Run git in the worktree ``at`` and return how it ended.

        ``said`` is its standard input, ``more`` is added to its environment, ``settings`` to its settings. Output beyond ``bytes_max`` is not waited
        for. ``kept_fds`` stay open in git, so that a lock is held as long as it runs. Raises EnvironmentFailure where git cannot be run, or takes longer than ``timeout_s``.
        """
        until = time.monotonic() + timeout_s
        values = {**(settings or {}), **self._programs(at, until)[0]}
        more = {**(more or {}), "GIT_CONFIG_COUNT": str(len(values))}
        for number, (key, value) in enumerate(values.items()):
            more |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return self._call(at, words, said, more, bytes_max, until, kept_fds=kept_fds)

    def out(
        self,
        at: Layout,
        *words: str,
        said: bytes = b"",
        more: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        timeout_s: float = SECONDS_MAX,
    ) -> bytes:
        """Return the whole output of git; EnvironmentFailure where it fails."""
        done = self.run(at, *words, said=said, more=more, settings=settings, timeout_s=timeout_s)
        if done.code:
            raise failure(done, words[0], at.top)
        if done.is_cut:
            raise EnvironmentFailure(
                f"git {words[0]} returned more than {BYTES_MAX:,} bytes in {at.top}", safe="Nothing was changed."
            )
        return done.out

    def discover(self, at: Layout, *words: str) -> Done:
        """Run git so that it finds the repository itself: only then it checks the repository's owner."""
        return self._call(at, words, b"", {}, BYTES_MAX, time.monotonic() + SECONDS_MAX, is_told=False)

    def programs_off(self, at: Layout) -> frozenset[str]:
        """Return the filters and merge drivers (``filter.NAME``) that only the repository defines: they are not run."""
        return self._programs(at, time.monotonic() + SECONDS_MAX)[1]

    def _programs(self, at: Layout, until: float) -> tuple[dict[str, str], frozenset[str]]:
        """Return the settings that take away the repository's own programs, and the names of those left without any."""
        if _NAMES_PROGRAMS.search(settings_bytes(at.common, at.folder)) is None:
            return {}, frozenset()
        words = ("config", "--null", "--show-scope", "--get-regexp", _PROGRAMS)
        done = self._call(at, words, b"", {}, BYTES_MAX, until)
        if done.code not in (0, _NONE_FOUND):
            raise failure(done, "config", at.top)
        fields = done.out.decode("utf-8", "surrogateescape").split("\0")
        users: dict[str, str] = {}
        own: set[str] = set()
        for scope, setting in zip(fields[::2], fields[1::2], strict=False):
            key, _, value = setting.partition("\n")
            if scope in _OWN_SCOPES:
                own.add(key)
            else:
                users[key] = value
        names = {key.rpartition(".")[0] for key in own}
        if len(names) > FILTERS_MAX:
            raise EnvironmentFailure(
                f"the settings of git in {at.common} define over {FILTERS_MAX:,} filters", safe="Nothing was changed."
            )
        # An empty ``process`` also keeps git from ``clean`` and ``smudge``: a filter that gets one is off.
        off = {name for name in names if f"{name}.process" in own - users.keys() or not _has_program(name, users)}
        own |= {f"{name}.{part}" for name in off for part in _parts(name)}
        values = {}
        for key in sorted(own):
            name, _, part = key.rpartition(".")
            values[key] = _OFF[part] if name in off else users.get(key, dict(FILTER_OFF).get(part, ""))
        return values, frozenset(off)

    def _call(
        self, at: Layout, words: tuple[str, ...], said: bytes, more: Mapping[str, str], bytes_max: int, until: float,
        *, is_told: bool = True, kept_fds: Sequence[int] = (),
    ) -> Done:  # fmt: skip
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        environment = git_environment(self._environment, at.top)
        environment.pop("GIT_ATTR_NOSYSTEM")  # line ends are those that the user's git writes
        environment |= {"GIT_GRAFT_FILE": os.devnull, "GIT_LITERAL_PATHSPECS": "1"}
        if is_told:
            environment |= {"GIT_COMMON_DIR": at.common, "GIT_DIR": at.folder}
        try:
            process = subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
                [self._program, "--no-pager", *settings, *words],
                cwd=at.top, env={**environment, **more}, start_new_session=True, pass_fds=kept_fds,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        except OSError as error:
            raise environment_failure(error, "run git in", at.top) from error
        with process:
            try:
                out, told, is_cut = _exchange(process, said, bytes_max, until)
                if is_cut:
                    _end(process)
                code = process.wait(max(0.0, until - time.monotonic()))
            except (subprocess.TimeoutExpired, TimeoutError) as error:
                _end(process)
                raise EnvironmentFailure(
                    f"git {words[0]} took too long in {at.top}", safe="Nothing is lost.", mend="Try again."
                ) from error
            except BaseException:  # also an interrupt: no process is left behind
                _end(process)
                raise
        return Done(0 if is_cut else code, out, told.decode("utf-8", "replace"), is_cut)


def _parts(name: str) -> tuple[str, ...]:
    return ("driver",) if name.startswith("merge.") else tuple(part for part, _ in FILTER_OFF)


def _has_program(name: str, settings: Mapping[str, str]) -> bool:
    return any(settings.get(f"{name}.{part}") for part in _parts(name) if part != "required")


def failure(done: Done, command: str, where: str) -> EnvironmentFailure:
    """Return the error for a call of ``command`` in ``where`` that failed."""
    reason = error_of(done.said, done.code).removeprefix("git failed: ")
    wrong = f"git {command} failed in {where}: {reason}"
    if "No space left on device" in done.said or "Disk quota exceeded" in done.said:
        return EnvironmentFailure(wrong, safe="What was committed before is safe.", mend=room_advice(where))
    if ".lock': File exists" in done.said:
        return EnvironmentFailure(
            wrong,
            safe="Nothing was changed.",
            mend="Another git works there, or was killed. Where none runs any more, remove that lock file and try again.",
        )
    return EnvironmentFailure(wrong, safe="What was committed before is safe.")


def hidden_filters(names: frozenset[str]) -> list[str]:
    """Return the names of the filters among what ``programs_off`` returned."""
    return sorted(name.removeprefix("filter.") for name in names if name.startswith("filter."))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill git and what it has started: the process is not waited for yet, so that its number is still its own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # it has ended
        pass


def _exchange(process: subprocess.Popen[bytes], said: bytes, most: int, until: float) -> tuple[bytes, bytes, bool]:
    """Write ``said`` and read both outputs, without waiting for one while the other is full."""
    import selectors

    assert process.stdin
    assert process.stdout
    assert process.stderr
    out, told, left = bytearray(), bytearray(), memoryview(said)
    with selectors.DefaultSelector() as selector:
        for file in (process.stdout, process.stderr):
            selector.register(file, selectors.EVENT_READ)
        if left:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        else:
            process.stdin.close()
        while selector.get_map():
            wait_s = until - time.monotonic()
            if wait_s <= 0:
                raise TimeoutError
            for key, _ in selector.select(wait_s):
                if key.fileobj is process.stdin:
                    left = _write(process.stdin, left)
                    if not left:
                        selector.unregister(process.stdin)
                        process.stdin.close()
                    continue
                data = os.read(key.fd, _PIPE_BYTES)
                if not data:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    out += data
                    if len(out) > most:
                        return bytes(out[:most]), bytes(told), True
                elif len(told) < _SAID_BYTES_MAX:
                    told += data
    return bytes(out), bytes(told), False


def _write(file: IO[bytes], left: memoryview) -> memoryview:
    try:
        return left[os.write(file.fileno(), left[:_PIPE_BYTES]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:  # git has read enough, or failed: its exit code tells
        return left[:0]
