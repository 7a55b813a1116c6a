"""Jobs by their run folders: a job is started once, and tells how it stands to whoever opens the folder.

What is true lies in the folder and in the kernel, so that any process can take over: the keeper's lock (held: it lives),
``process`` (exists: the job may have run, never start it again) and ``ended.json`` (exists: how it ended).
"""

from __future__ import annotations

__all__ = ["Ended", "Launch", "RunFolder", "Standing"]

import fcntl
import os
import select
import signal
import struct
import sys
from collections.abc import Mapping
from typing import Any, Final, Literal

from periplus.base.errors import EnvironmentFailure, UsageError, environment_failure
from periplus.base.files import Files, read_plain, write_atomic
from periplus.base.named_tuple import NamedTuple
from periplus.base.process.process_marks import process_mark
from periplus.dispatch.processes.evidence import JobProcesses, Life
from periplus.dispatch.processes.layout import ENDED, LAUNCH, LOCK, OUTPUT, PROCESS, PROMPT, TOKEN_VARIABLE
from periplus.dispatch.processes.output_files import ring_count, ring_tail
from periplus.dispatch.processes.process_tree import (
    ProcessFacts,
    descendants,
    is_same,
    signal_process,
    survivors,
)

Standing = Literal["absent", "starting", "running", "orphaned", "ended", "lost"]

_START_S: Final = 60.0  # a keeper starts in 30 ms, and syncs one small file
_SMALL_BYTES_MAX: Final = 1 << 20
_READ_BYTES_MAX: Final = 64 << 20
_KILL_PASSES_MAX: Final = 50
_KILL_PASS_MS: Final = 100
# struct flock of fcntl(2).
_FLOCK: Final = "@qqihh" if sys.platform == "darwin" else "@hhqqi"
_BOOTSTRAP: Final = (
    "import sys; sys.path.append(sys.argv[2]); from periplus.dispatch.processes.keeper import main; main(sys.argv[1])"
)


class Launch(NamedTuple):
    """A job to start. ``environment`` is all of its environment, but for a token by which its processes are found;
    ``wall_s`` 0 means no limit; between being asked to stop and being killed it has ``grace_s``; of the output beyond
    ``output_bytes_max`` only the end is kept. A program without a slash is looked for on the PATH of ``environment``.
    """

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    prompt: bytes = b""
    wall_s: float = 0
    grace_s: float = 10
    output_bytes_max: int = 32 << 20


class Ended(NamedTuple):
    """End of a job. ``code`` is its exit code, minus the number of the signal that ended it, or None where the program
    could not be started; ``left_behind`` counts processes that had to be stopped after the leader had ended; ``problem``
    says what a person must know: why it could not be started, or that output was dropped.
    """

    code: int | None
    ending: Literal["exited", "stopped", "wall"]
    wall_ms: int
    cpu_ms: int
    output_bytes: int
    left_behind: int
    problem: str = ""


class _Marks(NamedTuple):
    keeper: int
    keeper_started: str
    leader: int
    leader_started: str
    boot: str
    host: str
    space: str
    token: str


class RunFolder:
    """One job. Every method can be called in any state, by any process of the same user."""

    def __init__(self, path: str, files: Files) -> None:
        if not os.path.isabs(path):
            raise UsageError(f"{path} is no absolute path of a run folder")
        self.path = path
        self._files = files
        self._marks_read: _Marks | None = None
        self._processes: JobProcesses | None = None
        self._processes_root = 0

    def start(self, launch: Launch) -> None:
        """Start the job, unless it was started before. Raises EnvironmentFailure where it could not be started.

        Killed at any point, the folder stands as "absent", and start has to be called again, or the job runs. A program
        or folder that does not exist is no failure of this call: the job has ended, with a ``problem``.
        """
        if not launch.argv:
            raise UsageError("a job without a program")
        if self.standing() != "absent":
            return
        files = self._files
        files.make_folder(self.path, 0o700)
        files.sync_folder(os.path.dirname(self.path))
        # Not durable: the keeper reads them now, and after a power cut the job is either marked as started or not.
        write_atomic(files, self._file(PROMPT), launch.prompt, durable=False, mode=0o600)
        write_atomic(files, self._file(LAUNCH), self._launch_json(launch), durable=False, mode=0o600)
        answer = self._start_keeper(launch.environment)
        if answer not in ("started", "held", "spent"):
            reason = answer.strip()[-500:] or "its keeper ended before"
            raise EnvironmentFailure(
                f"cannot start the job of {self.path}: {reason}", safe="Nothing of it has run.", mend="Start it again."
            )

    def standing(self) -> Standing:
        """Find how the job stands. "absent": start it; "starting": a keeper has it and it does not run yet; "orphaned":
        its keeper was killed and processes of it live; "lost": none lives and nothing says how it ended, because the
        keeper was killed, the machine or container was restarted, or the disk refused the record.
        """
        if self.ended() is not None:
            return "ended"
        is_held = self._is_held()
        marks = self._marks()
        if is_held:
            return "running" if marks is not None else "starting"
        if self.ended() is not None:  # it ended between the two looks
            return "ended"
        if marks is None:
            return "absent" if not os.path.lexists(self._file(PROCESS)) else "lost"
        return "orphaned" if self._has_survivors(marks) else "lost"

    def ended(self) -> Ended | None:
        found = self._read_json(ENDED)
        if found is None:
            return None
        return Ended(
            found["code"], found["ending"], found["wall_ms"], found["cpu_ms"], found["output_bytes"],
            found["left_behind"], found["problem"],
        )  # fmt: skip

    def ask_to_stop(self) -> None:
        """Ask all processes of the job to stop (SIGTERM). Those of a keeper that lives are killed after their grace."""
        marks = self._marks()
        if marks is None:
            return
        if self._is_held():
            signal_process(marks.keeper, marks.keeper_started, signal.SIGTERM, signal.SIGCONT)
            return
        self._signal_survivors(marks, signal.SIGTERM, signal.SIGCONT)

    def kill(self) -> None:
        """Kill all processes of the job (SIGKILL). A keeper that lives records the end; of an orphan nobody does.

        Returns before they are gone, and does nothing while the job is "starting": repeat it until ``standing`` tells the
        end. What another service started for the job (cron, a container engine) is not found.
        """
        marks = self._marks()
        if marks is None:
            return
        if self._is_held():
            signal_process(marks.keeper, marks.keeper_started, signal.SIGUSR1, signal.SIGCONT)
            for facts in descendants(marks.keeper):  # a keeper that hangs at a disk would not
                signal_process(facts.pid, facts.started, signal.SIGKILL)
            return
        for _ in range(_KILL_PASSES_MAX):
            found = self._signal_survivors(marks, signal.SIGKILL)
            if not found:
                return
            _await_end(found)

    def life(self) -> Life:
        """Measure signs of life; after the end those of the whole job."""
        ended = self.ended()
        if ended is not None:
            return Life(ended.output_bytes, ended.cpu_ms, 0)
        try:
            size = os.stat(self._file(OUTPUT)).st_size
        except OSError:
            size = 0
        output_bytes = size + ring_count(self.path)
        marks = self._marks()
        if marks is None:
            return Life(output_bytes, 0, 0)
        is_held = self._is_held()
        root, started = (marks.keeper, marks.keeper_started) if is_held else (marks.leader, marks.leader_started)
        if self._processes is None or self._processes_root != root:
            self._processes, self._processes_root = JobProcesses(root, started, is_keeper=is_held), root
        cpu_ms, processes = self._processes.read()
        return Life(output_bytes, cpu_ms, processes)

    def read(self, offset: int, most: int = 1 << 20) -> bytes:
        """Return at most ``most`` bytes of output from ``offset`` on; none beyond ``output_bytes_max``, see ``tail``."""
        try:
            return read_plain(self._file(OUTPUT), min(most, _READ_BYTES_MAX), offset)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise environment_failure(error, "read", self._file(OUTPUT)) from error

    def tail(self, most: int = 4096) -> bytes:
        """Return the last ``most`` bytes of the output, as far as they are kept."""
        found = ring_tail(self.path)
        if len(found) < most and ring_count(self.path) == len(found):
            try:
                size = os.stat(self._file(OUTPUT)).st_size
            except OSError:
                size = 0
            wanted = min(most - len(found), size)
            found = self.read(size - wanted, wanted) + found
        return found[-most:] if most > 0 else b""

    def waitable_fd(self) -> int | None:
        """Open a descriptor that becomes readable when the keeper ends (pidfd_open(2)); the caller closes it. None where
        there is no keeper, or no such call.
        """
        marks = self._marks()
        if marks is None or not self._is_held():
            return None
        return _open_process(marks.keeper, marks.keeper_started)

    def _file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _launch_json(self, launch: Launch) -> bytes:
        import json

        here = process_mark(os.getpid(), self._files)
        return json.dumps(
            {
                "v": 1,
                "argv": [_utf8(word) for word in launch.argv],
                "cwd": _utf8(launch.cwd),
                "environment": sorted(_utf8(name) for name in launch.environment if name != TOKEN_VARIABLE),
                "wall_s": launch.wall_s,
                "grace_s": launch.grace_s,
                "output_bytes_max": launch.output_bytes_max,
                "boot": here.boot,
                "host": here.host,
                "space": here.space,
            }
        ).encode()

    def _start_keeper(self, environment: Mapping[str, str]) -> str:
        """Start the keeper and return what it reports.

        Isolated (-I) and without site (-S): the job's environment must not reach into the keeper's Python, and this starts
        in half the time. UTF-8 mode makes paths independent of the job's locale. The keeper is found at the end of the
        path, where it hides no module of Python.
        """
        import subprocess

        import periplus

        source = os.path.dirname(os.path.dirname(os.path.abspath(periplus.__file__)))
        command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _BOOTSTRAP, self.path, source]
        try:
            with subprocess.Popen(  # noqa: S603 - a list of words, no shell
                command, cwd="/", env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True,
            ) as started:  # fmt: skip
                try:
                    answer = started.communicate(timeout=_START_S)[0]
                except subprocess.TimeoutExpired:
                    started.kill()
                    return f"its keeper did not report within {_START_S:g} s"
        except OSError as error:
            raise environment_failure(error, "start", sys.executable) from error
        return answer.decode("utf-8", "backslashreplace")

    def _read_json(self, name: str) -> dict[str, Any] | None:
        """Return the object in the file; None where there is none, or something else."""
        import json

        try:
            found = json.loads(read_plain(self._file(name), _SMALL_BYTES_MAX))
        except FileNotFoundError:
            return None
        except ValueError:
            return None  # damaged: nothing says how it ended
        except OSError as error:
            raise environment_failure(error, "read", self._file(name)) from error
        return found if isinstance(found, dict) else None

    def _marks(self) -> _Marks | None:
        if self._marks_read is None and (found := self._read_json(PROCESS)) is not None:
            keeper, leader = found["keeper"], found["leader"]
            self._marks_read = _Marks(
                keeper["pid"], keeper["started"], leader["pid"], leader["started"],
                found["boot"], found["host"], found["space"], found["token"],
            )  # fmt: skip
        return self._marks_read

    def _is_held(self) -> bool:
        """Ask for the keeper's lock without taking it: a keeper that starts meanwhile must find it free."""
        try:
            fd = os.open(self._file(LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise environment_failure(error, "open the lock", self._file(LOCK)) from error
        try:
            return _is_locked(fd)
        except OSError as error:
            raise environment_failure(error, "ask for the lock", self._file(LOCK)) from error
        finally:
            os.close(fd)

    def _has_survivors(self, marks: _Marks) -> bool:
        if not self._is_here(marks):
            return False
        return is_same(marks.leader, marks.leader_started) or bool(
            survivors(marks.leader, marks.leader_started, marks.token)
        )

    def _is_here(self, marks: _Marks) -> bool:
        """Test that the marks are of this run of this machine and of this container: else all of them are gone.

        A namespace of processes ends with all its processes, and a keeper that lived in another would hold the lock.
        """
        here = process_mark(os.getpid(), self._files)
        is_known = not (marks.boot.startswith("unknown") or here.boot.startswith("unknown"))
        return (not is_known or marks.boot == here.boot) and (marks.host, marks.space) == (here.host, here.space)

    def _signal_survivors(self, marks: _Marks, *numbers: int) -> list[ProcessFacts]:
        if not self._is_here(marks):
            return []
        found = survivors(marks.leader, marks.leader_started, marks.token)
        for facts in found:
            signal_process(facts.pid, facts.started, *numbers)
        if not found and not marks.leader_started and _leads_session(marks.leader):
            for number in numbers:  # a system without /proc: the group of the leader
                os.killpg(marks.leader, number)
        return found


def _is_locked(fd: int) -> bool:
    kind, zero = fcntl.F_WRLCK, 0
    asked = (zero, zero, zero, kind, os.SEEK_SET) if sys.platform == "darwin" else (kind, os.SEEK_SET, zero, zero, zero)
    found = fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack(_FLOCK, *asked) + bytes(8))
    return bool(struct.unpack_from(_FLOCK, found)[3 if sys.platform == "darwin" else 0] != fcntl.F_UNLCK)


def _leads_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except OSError:
        return False


def _open_process(pid: int, started: str) -> int | None:
    if sys.platform != "linux":
        return None
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
    if not is_same(pid, started):
        os.close(fd)
        return None
    return fd


def _await_end(processes: list[ProcessFacts]) -> None:
    """Wait until they have ended, or for a tenth of a second."""
    poll, opened = select.poll(), list[int]()
    for facts in processes:
        fd = _open_process(facts.pid, facts.started)
        if fd is not None:
            opened.append(fd)
            poll.register(fd, select.POLLIN)
    poll.poll(_KILL_PASS_MS)
    for fd in opened:
        os.close(fd)


def _utf8(text: str) -> str:
    """Return the text that has, in UTF-8, the bytes that the system sees."""
    return os.fsencode(text).decode("utf-8", "surrogateescape")
