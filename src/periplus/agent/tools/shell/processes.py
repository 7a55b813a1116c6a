"""Processes started by tools: each in its own group, with stored output, and ended reliably.

Theory of operation
-------------------
A command that outlives its deadline is not killed: it continues as a process with an id, and its output is stored. One long-lived thread
starts all processes, because a sandbox dies with the *thread* that started it, and the threads of calls come and go. One more thread for
each process reads its output. Ending a process ends its group, and all processes that carry its mark in their environment, even outside the
group; in a sandbox with its own process ids everything inside ends.
"""

from __future__ import annotations

__all__ = ["MARK", "Process", "Processes", "kill_marked"]

import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from periplus.agent.tools.text_pages.command_output import Output, Outputs
from periplus.base.errors import NotFoundError, UsageError, environment_failure

if TYPE_CHECKING:
    import subprocess

RUNNING_MAX: Final = 32
REMEMBERED_MAX: Final = 100  # ended processes; their output stays available
MARK: Final = "PERIPLUS_COMMAND"
_GRACE_S: Final = 2.0
_PIECE_BYTES: Final = 1 << 16
_DRAIN_S: Final = 1.0
_ROUNDS_MAX: Final = 200
# The first terminal that a session leader opens becomes its controlling one, so no code of ours runs between fork and exec.
_TAKE_TERMINAL: Final = ("/bin/sh", "-c", 't=$1; shift; exec "$@" <>"$t" >&0 2>&1', "sh")


class Process:
    """A started process. ``is_over`` once it has ended and its output was read."""

    def __init__(self, id_: str, about: str, output: Output, mark: str, *, has_terminal: bool) -> None:
        self.id, self.about, self.output, self.has_terminal = id_, about, output, has_terminal
        self.exit_code: int | None = None
        self.stopped_by = ""
        self.began = time.monotonic()
        self.ended: float | None = None
        self.mark = mark
        self._over = threading.Event()
        self._ending = threading.Lock()
        self._writing = threading.Lock()
        self._popen: subprocess.Popen[bytes] | None = None
        self._write_fd = -1

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    @property
    def seconds(self) -> float:
        return (self.ended or time.monotonic()) - self.began

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds``; return whether it is over."""
        return self._over.wait(seconds)

    def write(self, data: bytes, *, is_last: bool = False) -> None:
        """Send input. Raises UsageError if it takes none any more."""
        with self._writing:
            self._put(data, is_last=is_last)

    def _put(self, data: bytes, *, is_last: bool) -> None:
        if self._write_fd < 0 or self.is_over:
            raise UsageError(f"{self.id} takes no input: it {'has ended' if self.is_over else 'was closed'}")
        deadline = time.monotonic() + _GRACE_S
        view = memoryview(data)
        os.set_blocking(self._write_fd, False)
        try:
            while view:
                try:
                    view = view[os.write(self._write_fd, view) :]
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise UsageError(
                            f"{self.id} does not read its input; {len(view):,} bytes were left over"
                        ) from None
                    self._over.wait(0.02)
            if is_last:
                if self.has_terminal:
                    os.write(self._write_fd, b"\x04")
                else:
                    os.close(self._write_fd)
                    self._write_fd = -1
        except OSError as error:
            raise UsageError(f"{self.id} takes no input any more: {error}") from error

    def finish(self) -> None:
        """Mark it as ended, with all output read."""
        self._over.set()
        with self._writing:
            if self._write_fd >= 0:
                os.close(self._write_fd)
                self._write_fd = -1

    def stop(self, why: str) -> None:
        """End it with all processes that it started; returns when it is over."""
        with self._ending:
            if not self.is_over:
                self.stopped_by = self.stopped_by or why
                _signal(self, signal.SIGTERM)
                if not self.wait(_GRACE_S):
                    _signal(self, signal.SIGKILL)
                self.wait(_GRACE_S * 5)
            kill_marked(self.mark)


class Processes:
    """The running processes of one host. ``close`` ends them all."""

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs
        self._mark = f"{os.urandom(12).hex()}."
        self._lock = threading.Lock()
        self._all: dict[str, Process] = {}
        self._foreground: set[Process] = set()
        self._cancels = 0
        self._asked: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._starter: threading.Thread | None = None
        self._next = 1

    def start(
        self, words: Sequence[str], cwd: str, environment: Mapping[str, str], about: str, *, terminal: bool = False,
        passed: Sequence[int] = (), takes_input: bool = False,
    ) -> Process:  # fmt: skip
        """Start a program. Raises UsageError if too many run, EnvironmentFailure if it cannot be started."""
        with self._lock:
            running = [one.id for one in self._all.values() if not one.is_over]
            if len(running) >= RUNNING_MAX:
                raise UsageError(f"{RUNNING_MAX} processes run already", mend=f"Stop one: {', '.join(running[:5])}, …")
            process = Process(
                f"p{self._next}", about, self._outputs.new(), f"{self._mark}{self._next}.", has_terminal=terminal
            )
            self._next += 1
        done = threading.Event()
        trouble: list[Exception] = []

        def begin() -> None:
            try:
                _begin(
                    process,
                    words,
                    cwd,
                    {**environment, MARK: process.mark},
                    passed,
                    takes_input=takes_input or terminal,
                )
            except Exception as error:  # noqa: BLE001 - it is raised where the start was asked for; this thread serves others too
                trouble.append(error)
            done.set()

        self._ask(begin)
        done.wait()
        if trouble:
            process.output.close()
            if isinstance(trouble[0], OSError):
                raise environment_failure(trouble[0], f"start {about[:80]}") from trouble[0]
            raise trouble[0]
        with self._lock:
            self._all[process.id] = process
            ended = [one.id for one in self._all.values() if one.is_over]
            for id_ in ended[: max(0, len(ended) - REMEMBERED_MAX)]:
                del self._all[id_]
        return process

    @property
    def cancels(self) -> int:
        """The number of cancellations so far: read before a start, it shows afterwards whether the start came too late."""
        with self._lock:
            return self._cancels

    def in_foreground(self, process: Process, seconds: float, cancels: int | None = None) -> bool:
        """Wait for a process as a call does; ``cancel`` ends it, also if it came after ``cancels`` was read. Return whether it is over."""
        with self._lock:
            self._foreground.add(process)
            is_late = cancels is not None and cancels != self._cancels
        try:
            if is_late:
                process.stop("cancelled")
            return process.wait(seconds)
        finally:
            with self._lock:
                self._foreground.discard(process)

    def cancel(self) -> None:
        """End the processes that calls wait for."""
        with self._lock:
            self._cancels += 1
            waiting = list(self._foreground)
        for process in waiting:
            process.stop("cancelled")

    def get(self, id_: str) -> Process:
        with self._lock:
            process = self._all.get(id_)
        if process is None:
            raise NotFoundError(f"no process {id_!r}", mend="process(action='list') shows them.")
        return process

    def list(self) -> Sequence[Process]:
        with self._lock:
            return list(self._all.values())

    def close(self) -> None:
        threads = [
            threading.Thread(target=one.stop, args=("the session ended",)) for one in self.list() if not one.is_over
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._next > 1:
            kill_marked(self._mark)  # processes that ended commands left behind
        with self._lock:
            starter, self._starter = self._starter, None
        if starter is not None:
            self._asked.put(None)
            starter.join()

    def _ask(self, begin: Callable[[], None]) -> None:
        with self._lock:
            if self._starter is None:
                self._starter = threading.Thread(target=self._serve, name="processes", daemon=True)
                self._starter.start()
        self._asked.put(begin)

    def _serve(self) -> None:
        while (begin := self._asked.get()) is not None:
            begin()


def _begin(
    process: Process,
    words: Sequence[str],
    cwd: str,
    environment: Mapping[str, str],
    passed: Sequence[int],
    *,
    takes_input: bool,
) -> None:
    import subprocess

    if process.has_terminal:
        import pty

        ours, theirs = pty.openpty()
        try:
            _size(theirs)
            popen = subprocess.Popen(  # noqa: S603 - a list of words, no shell
                [*_TAKE_TERMINAL, os.ttyname(theirs), *words], cwd=cwd, env=dict(environment), stdin=theirs, stdout=theirs, stderr=theirs,
                start_new_session=True, pass_fds=tuple(passed),
            )  # fmt: skip
        except BaseException:  # for any exception: close what was opened, then raise
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        read_fd, process._write_fd = ours, os.dup(ours)  # noqa: SLF001 - the two belong together
    else:
        popen = subprocess.Popen(  # noqa: S603 - a list of words, no shell
            list(words), cwd=cwd, env=dict(environment), stdin=subprocess.PIPE if takes_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, pass_fds=tuple(passed),
        )  # fmt: skip
        assert popen.stdout is not None
        read_fd = os.dup(popen.stdout.fileno())
        popen.stdout.close()
        if popen.stdin is not None:
            process._write_fd = os.dup(popen.stdin.fileno())  # noqa: SLF001 - as above
            popen.stdin.close()
    process._popen = popen  # noqa: SLF001 - as above
    threading.Thread(
        target=_listen, args=(process, popen, read_fd), name=f"output of {process.id}", daemon=True
    ).start()


def _size(fd: int) -> None:
    import fcntl
    import struct
    import termios

    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))


def _listen(process: Process, popen: subprocess.Popen[bytes], fd: int) -> None:
    """Read the output until the process has ended. Its exit counts, not the end of output: something else may hold the pipe open."""
    import select

    os.set_blocking(fd, False)
    poller = select.poll()
    poller.register(fd, select.POLLIN | select.POLLHUP)
    ended_at = 0.0
    wait_ms = 5
    while True:
        has_ended = popen.poll() is not None
        if has_ended and not ended_at:
            ended_at = time.monotonic()
        state = _drain(fd, process.output)
        if state == "closed" or (has_ended and (state == "empty" or time.monotonic() > ended_at + _DRAIN_S)):
            break
        wait_ms = 5 if state == "read" else min(wait_ms * 2, 100)
        poller.poll(wait_ms)
    process.exit_code = popen.wait()
    process.ended = time.monotonic()
    os.close(fd)
    process.output.close()
    process.finish()


def _drain(fd: int, output: Output) -> str:
    state, is_alone = "empty", False
    for _ in range(64):
        try:
            piece = os.read(fd, _PIECE_BYTES)
        except BlockingIOError:
            return state
        except OSError:
            if is_alone:
                return "closed"
            # A terminal whose other side is gone. Linux checks for data before it checks for the other side, so data that came in
            # between is returned by the next read only.
            is_alone = True
            continue
        if not piece:
            return "closed"
        output.add(piece)
        state = "read"
    return state


def _signal(process: Process, number: int) -> None:
    popen = process._popen  # noqa: SLF001 - of this module
    if popen is None:
        return
    if popen.poll() is None:
        try:
            os.killpg(popen.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # ended meanwhile
    for pid in _marked(process.mark):
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def kill_marked(mark: str) -> None:
    """Kill processes with the mark until there are none; new ones may start meanwhile."""
    for _ in range(_ROUNDS_MAX):
        pids = _marked(mark)
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        time.sleep(0.01)


def _marked(mark: str) -> list[int]:
    """The processes whose mark begins so, in any group. Linux only; elsewhere the group has to do."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if any(row.startswith(wanted) for row in file.read(1 << 20).split(b"\0")):
                        found.append(int(name))
            except OSError:
                continue  # of another user, or gone
    return found
