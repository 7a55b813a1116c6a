"""Run a recorded command: with consent, in its folder, in an empty environment, within limits, without a network.

The command gets its own session and is killed with all its processes when it ends, takes too long or prints too much.
Its environment is PATH, an empty home, a folder for temporary files, and nothing else. Cutting it off from the network,
and killing it reliably through a process id space, needs the namespaces of Linux; a trial shows whether they are
available. Without them, a command is refused unless the network is allowed.

This is no sandbox: a command runs as the person who allowed it and may touch what that person may. See
docs/decisions/0041-replay.md.
"""

from __future__ import annotations

__all__ = ["CommandLimits", "Ran", "Runner"]

import os
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.base.errors import EnvironmentFailure, environment_failure

if TYPE_CHECKING:
    import subprocess

_PIECE_BYTES: Final = 1 << 16
# Nothing is written to the pipe that it reads: the pipe closes when the replay ends, even by kill -9. It then kills its
# whole process id space, so it is used only if there is one.
_LIFELINE: Final = "(read -r _ <&3; kill -9 -1) &"
_PROBE_S: Final = 10
_ISOLATED: Final = ("--user", "--map-current-user", "--net", "--pid", "--fork", "--kill-child")


class CommandLimits(NamedTuple):
    """Limits of a command. ``file_bytes_max`` bounds each file that it writes, ``output_bytes_max`` its output."""

    seconds_max: float = 300.0
    output_bytes_max: int = 10 << 20
    file_bytes_max: int = 1 << 30


class Ran(NamedTuple):
    """The result of a command. ``exit_code`` is that of a shell; ``stopped`` names the limit that ended the command, or
    is empty.
    """

    exit_code: int
    output: bytes
    stopped: str = ""


class Runner:
    """Run commands; ``home`` and ``temporary`` are folders of the replay. Without ``is_guarded`` a command runs without
    namespaces, which take longer to make than most git commands: for programs that touch only the replay's own files.
    """

    def __init__(
        self,
        home: str,
        temporary: str,
        path: str,
        *,
        allow_network: bool = False,
        is_guarded: bool = True,
        limits: CommandLimits = CommandLimits(),  # noqa: B008 - immutable
    ) -> None:
        self._limits = limits
        self._allow_network = allow_network or not is_guarded
        self._is_guarded = is_guarded
        folders = [folder for folder in path.split(":") if folder.startswith("/")]  # never relative ones, such as "."
        self._environment = {
            "PATH": ":".join(folders) or os.defpath,
            "HOME": home,
            "TMPDIR": temporary,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
        }
        self._unshare = shutil.which("unshare", path=self._environment["PATH"])
        self._shell = shutil.which("bash", path=self._environment["PATH"]) or "/bin/sh"
        self._is_isolated: bool | None = None

    @property
    def environment(self) -> dict[str, str]:
        return dict(self._environment)

    def why_not(self) -> str:
        """The reason why commands cannot run under these conditions; empty if they can."""
        if self._allow_network or self._can_isolate():
            return ""
        return "this system cannot cut a command off from the network"

    def run(self, words: Sequence[str], cwd: str, *, more: dict[str, str] | None = None) -> Ran:
        """Run a program without a shell. Raises EnvironmentFailure if ``why_not`` has a reason, or if no process can be
        started.
        """
        trouble = self.why_not()
        if trouble:
            raise EnvironmentFailure(trouble)
        blocks = max(1, self._limits.file_bytes_max // 512)
        # Recorded words are arguments of this shell, never its text. The shell stays as the first process of its id space,
        # on which signals act differently.
        limited = f'exec 3<&0 </dev/null; ulimit -c 0; ulimit -f {blocks}; {{}} "$@" 3<&-; exit $?'
        if not self._is_guarded or not self._can_isolate() or self._unshare is None:
            start = ["/bin/sh", "-c", limited.format(""), "sh", *words]
        else:
            flags = [flag for flag in _ISOLATED if flag != "--net" or not self._allow_network]
            start = [self._unshare, *flags, "--", "/bin/sh", "-c", limited.format(_LIFELINE), "sh", *words]
        return self._watched(start, cwd, {**self._environment, **(more or {})})

    def shell(self, text: str, cwd: str) -> Ran:
        """Run the text of a command with bash, for which agents write, or with ``sh`` if there is no bash."""
        return self.run([self._shell, "-c", "--", text], cwd)

    def _can_isolate(self) -> bool:
        if self._is_isolated is None:
            self._is_isolated = self._probe()
        return self._is_isolated

    def _probe(self) -> bool:
        import subprocess

        if self._unshare is None:
            return False
        try:
            done = subprocess.run(  # noqa: S603 - no shell; words of our own
                [self._unshare, *_ISOLATED, "--", "/bin/sh", "-c", "exit 42"],
                env=self._environment, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_PROBE_S,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 42

    def _watched(self, words: list[str], cwd: str, environment: dict[str, str]) -> Ran:
        import subprocess

        try:
            process = subprocess.Popen(  # noqa: S603 - the person who replays asked for it
                words, cwd=cwd, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise environment_failure(error, "start a command") from error
        try:
            output, stopped = _listen(process, self._limits)
        finally:  # also on an interruption, so that no process stays behind
            _end(process)
        return Ran(process.returncode, output, stopped)


def _listen(process: subprocess.Popen[bytes], limits: CommandLimits) -> tuple[bytes, str]:
    """Return the output of the command until it ends or a limit is reached.

    The end of the process counts, not the end of its output: a background process may hold the pipe open.
    """
    import select
    import time

    assert process.stdout is not None
    fd = process.stdout.fileno()
    os.set_blocking(fd, False)
    deadline = time.monotonic() + limits.seconds_max
    pieces: list[bytes] = []
    room = limits.output_bytes_max
    is_open = True
    while True:
        has_ended = process.poll() is not None
        while is_open:
            try:
                piece = os.read(fd, _PIECE_BYTES)
            except BlockingIOError:
                break
            is_open = bool(piece)
            pieces.append(piece[:room])
            room -= len(piece)
            if room < 0:
                return b"".join(pieces), f"it printed over {limits.output_bytes_max:,} bytes"
        if has_ended:
            return b"".join(pieces), ""
        left = deadline - time.monotonic()
        if left <= 0:
            return b"".join(pieces), f"it took over {limits.seconds_max:g} s"
        if is_open:
            select.select([fd], [], [], min(left, 0.05))
        else:
            time.sleep(min(left, 0.01))  # the command closed its output: wait for its end


def _end(process: subprocess.Popen[bytes]) -> None:
    import signal

    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # the whole session has ended; macOS raises the second error
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
