"""Program that carries one job: starts it, keeps its output, enforces its wall time, and records how it ended.

It is started by ``run_folder`` with the environment of the job and with a pipe as standard output, on which it reports
"started", "held" where another keeper has the folder, "spent" where the job was started before, or what is wrong.

::

    waits ──leader ended──▶ waits a moment for the rest ──all gone──▶ records the end
      │ │                              ▼                                  ▲
      │ └──TERM, wall time──▶ asks all to stop ──────────────all gone─────┤
      │                                └──grace over──▶ kills ──all gone──┘
      └──USR1──────────────────────────────────────────▶┘

Rules: a lock on the folder is held for life, so one keeper at a time; the marks of keeper and leader are on the disk before
the job may run, so that it never runs twice; on Linux every orphan of the job becomes a child of the keeper (prctl(2),
PR_SET_CHILD_SUBREAPER), so that "no children" proves that nothing of the job is left. It sleeps in poll(2) until there is
output, a signal or a deadline; time is that of the monotonic clock. Each import costs at every start of a job.
"""

from __future__ import annotations

__all__ = ["main"]

import errno
import fcntl
import json
import os
import select
import signal
import sys
import time

from periplus.dispatch.processes.layout import ENDED, LAUNCH, LOCK, PROCESS, PROMPT, RESERVED, TOKEN_VARIABLE
from periplus.dispatch.processes.output_files import OutputWriter
from periplus.dispatch.processes.process_tree import descendants, facts_of, signal_process

_CHUNK_BYTES = 65536
_REST_PATIENCE_S = 0.5  # a server that ends with its client needs a moment
_REST_GRACE_S = 2.0  # for processes that are left when the leader has ended by itself
_KILL_PAUSE_S = 0.02  # first pause before those are looked for that were forked while others were killed
_KILL_PAUSE_MAX_S = 1.0
_KILLING_MAX_S = 30.0  # a process that hangs in the kernel cannot be killed
_ABANDON_TRIES_MAX = 100
_DRAIN_BYTES_MAX = 64 << 20  # after the end; a pipe that leads to a process of others never ends
_BLIND_PAUSE_S = 0.05  # for some seconds at most
_POLL_MAX_S = 86_400.0  # poll(2) takes no more than 24 days
_ENDED_BYTES_MAX = 4096
_PROBLEM_CHARS_MAX = 500  # in JSON up to six bytes each
_RECORD_PAUSE_S = 1.0
_RECORD_TRIES_MAX = 600  # a full disk may be emptied
_SET_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
_NOT_STARTED = 127  # exit code of the child that could not become the job, as in shells


def main(folder: str) -> None:
    """Carry the job of this run folder, in a process of its own that is nobody's child."""
    if os.fork():
        os._exit(0)
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    code = 1
    try:
        code = _carry(folder)
    except OSError as error:
        _report(f"{error.filename or folder}: {error.strerror or error}")
    except Exception as error:  # noqa: BLE001 - the starter tells it; nobody would see what Python prints
        _report(f"{type(error).__name__}: {error}")
    os._exit(code)


def _carry(folder: str) -> int:
    lock = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # not flock: others can ask for this one without taking it
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        _report("held")
        return 3
    if any(os.path.lexists(os.path.join(folder, name)) for name in (PROCESS, ENDED)):
        _report("spent")
        return 3
    try:
        with open(os.path.join(folder, LAUNCH), encoding="utf-8") as file:
            keeper = _Keeper(folder, json.load(file))
        keeper.start()
    except BaseException:  # for any exception: whoever hears of it may start another keeper at once
        os.close(lock)
        raise
    _report("started")
    try:
        keeper.wait()
    except Exception as error:  # noqa: BLE001 - a system call that fails, or a bug, must not leave a job without its keeper
        keeper.abandon(error)
    keeper.record()
    return 0


def _report(text: str) -> None:
    """Tell the starter, then let go of its pipe."""
    try:
        os.write(1, text.encode("utf-8", "surrogateescape"))
    except OSError:
        pass  # it is gone
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


class _Keeper:
    def __init__(self, folder: str, launch: dict[str, object]) -> None:
        self._folder = folder
        self._launch = launch
        self._token = os.urandom(16).hex()
        self._grace_s = float(str(launch["grace_s"]))
        self._leader = 0
        self._status: int | None = None  # of the leader, once it has ended
        self._ending = "exited"
        self._problem = ""
        self._has_failed = False  # to become the job
        self._is_resting = False  # the leader has ended by itself
        self._is_stopping = False
        self._is_killing = False
        self._next_s: float | None = None  # when more has to be done than waiting
        self._gives_up_s = 0.0
        self._pause_s = _KILL_PAUSE_S
        self._left = set[tuple[int, str]]()
        self._unkilled = 0
        self._has_all = _become_subreaper()
        self._has_sight = facts_of(os.getpid()) is not None
        self._poll = select.poll()
        self._signals, signals = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if sys.platform == "linux" else _open_pipe()
        signal.set_wakeup_fd(signals, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCHLD):
            signal.signal(number, _note)
        self._output = OutputWriter(folder, int(str(launch["output_bytes_max"])))
        self._reserved = _reserve(folder)

    def start(self) -> None:
        """Start the job once its marks are on the disk. Raises OSError."""
        text = os.open(os.path.join(self._folder, PROMPT), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._pipe, output = os.pipe()
        self._failure, failure = os.pipe()
        gate, opened = os.pipe()
        self._began_s = time.monotonic()
        self._leader = os.fork()
        if not self._leader:
            os.close(opened)
            _become_job(self._launch, self._token, gate, (text, output), failure)
        for fd in (text, output, failure, gate):
            os.close(fd)
        self._write_marks()
        try:
            os.write(opened, b"+")
        except BrokenPipeError:
            pass  # it was killed already, which is found below
        os.close(opened)
        wall_s = float(str(self._launch["wall_s"]))
        self._wall_s = self._began_s + wall_s if wall_s > 0 else None
        for fd in (self._pipe, self._failure, self._signals):
            os.set_blocking(fd, False)
            self._poll.register(fd, select.POLLIN)

    def wait(self) -> None:
        """Return when nothing of the job is left, or cannot be killed."""
        heard = {int(signal.SIGCHLD)}
        while True:
            if {signal.SIGTERM, signal.SIGINT} & heard:  # before the end that it may have caused already
                self._stop("stopped", self._grace_s)
            if signal.SIGUSR1 in heard:
                self._kill()
            if (heard or self._is_killing or self._is_blind) and self._reap():
                return
            if self._act(time.monotonic()):
                return
            heard = self._sleep()

    def abandon(self, error: Exception) -> None:
        """Kill the job, because this keeper cannot go on, and say so."""
        self._add_problem(f"its keeper failed: {type(error).__name__}: {error}")
        for _ in range(_ABANDON_TRIES_MAX):
            self._kill()
            self._signal(signal.SIGKILL)
            if self._reap():
                return
            time.sleep(_KILL_PAUSE_S)

    def record(self) -> None:
        """Write how the job ended. Where the disk refuses it is tried again for some minutes."""
        wall_s = time.monotonic() - self._began_s
        self._drain()
        self._output.sync()
        times, status, output = os.times(), self._status, self._output
        if output.dropped:
            self._add_problem(f"{output.dropped} bytes of its output could not be written: {output.failure}")
        if self._unkilled:
            self._add_problem(f"{self._unkilled} of its processes could not be killed")
        ended = {
            "v": 1,
            "code": os.waitstatus_to_exitcode(status) if status is not None and not self._has_failed else None,
            "ending": self._ending,
            "wall_ms": round(wall_s * 1000),
            "cpu_ms": round((times.children_user + times.children_system) * 1000),
            "output_bytes": output.total,
            "left_behind": len(self._left),
            "problem": self._problem[:_PROBLEM_CHARS_MAX],
        }
        data = json.dumps(ended).encode() + b"\n"
        for _ in range(_RECORD_TRIES_MAX):
            try:
                self._publish(data)
            except OSError:
                if not os.path.isdir(self._folder):
                    return  # it was removed
                time.sleep(_RECORD_PAUSE_S)
            else:
                return

    def _publish(self, data: bytes) -> None:
        path = os.path.join(self._folder, RESERVED)
        os.pwrite(self._reserved, data, 0)
        os.ftruncate(self._reserved, len(data))
        os.fsync(self._reserved)
        os.replace(path, os.path.join(self._folder, ENDED))
        try:
            _sync_folder(self._folder)
        except OSError:
            pass  # it is there; after a power cut the job may be lost

    def _write_marks(self) -> None:
        launch = self._launch
        marks = {
            "v": 1,
            **{name: {"pid": pid, "started": facts.started if (facts := facts_of(pid)) is not None else ""}
               for name, pid in (("keeper", os.getpid()), ("leader", self._leader))},
            **{name: launch[name] for name in ("boot", "host", "space")},
            "token": self._token,
        }  # fmt: skip
        path = os.path.join(self._folder, PROCESS)
        temporary = os.path.join(self._folder, f".{PROCESS}.tmp")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            data = json.dumps(marks).encode()
            if os.write(fd, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), temporary)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
        try:
            _sync_folder(self._folder)
        except OSError:
            os.unlink(path)  # the job has not run and will not
            raise

    def _sleep(self) -> set[int]:
        """Wait for output, signals or the next deadline; return the numbers of the signals."""
        has_limit = self._status is None and not self._is_stopping
        wanted = [at for at in (self._next_s, self._wall_s if has_limit else None) if at is not None]
        if self._is_blind:
            wanted.append(time.monotonic() + _BLIND_PAUSE_S)
        wait_s = min(max(min(wanted) - time.monotonic(), 0), _POLL_MAX_S) if wanted else None
        heard = set[int]()
        for fd, _ in self._poll.poll(None if wait_s is None else int(wait_s * 1000) + 1):
            data = _read(fd, _CHUNK_BYTES)
            if fd == self._signals:
                heard.update(data or b"")
            elif data == b"":
                self._poll.unregister(fd)
            elif fd == self._pipe:
                self._output.write(data or b"")
            else:
                self._note_failure(data or b"")
        return heard

    @property
    def _is_blind(self) -> bool:
        """Processes of the job may be left whose end no signal tells, because they are not children of this one."""
        return self._status is not None and not self._has_all

    def _reap(self) -> bool:
        """Take the ended children from the kernel. True where nothing of the job is left."""
        while True:
            try:
                pid, status, _ = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                return False
            if pid == self._leader:
                self._status = status
        # Without a subreaper the group tells whether something is left, as far as it did not leave the group.
        return self._status is not None and (self._has_all or not _has_group(self._leader))

    def _act(self, now_s: float) -> bool:
        """Do what is due. True where the rest cannot be killed."""
        if self._wall_s is not None and now_s >= self._wall_s and self._status is None:
            self._stop("wall", self._grace_s)
        if self._status is not None and not (self._is_resting or self._is_stopping):
            self._is_resting = True
            self._next_s = now_s + _REST_PATIENCE_S
        if self._next_s is None or now_s < self._next_s:
            return False
        if not self._is_stopping:
            self._stop("exited", min(self._grace_s, _REST_GRACE_S))
            return False
        if not self._is_killing:
            self._kill()
            return False
        if now_s >= self._gives_up_s:
            self._unkilled = sum(not facts.is_dead for facts in descendants(os.getpid())) or 1
            return True
        self._signal(signal.SIGKILL)
        self._pause_s = min(self._pause_s * 2, _KILL_PAUSE_MAX_S)
        self._next_s = now_s + self._pause_s
        return False

    def _stop(self, ending: str, grace_s: float) -> None:
        if self._is_stopping:
            return
        self._is_stopping = True
        if self._status is None:
            self._ending = ending
        self._next_s = time.monotonic() + grace_s
        self._signal(signal.SIGTERM, signal.SIGCONT)  # one that was halted hears it, too

    def _kill(self) -> None:
        if self._is_killing:
            return
        if not self._is_stopping and self._status is None:
            self._ending = "stopped"
        self._is_stopping = self._is_killing = True
        self._signal(signal.SIGKILL)
        now_s = time.monotonic()
        self._gives_up_s = now_s + _KILLING_MAX_S
        self._next_s = now_s + self._pause_s

    def _signal(self, *numbers: int) -> None:
        has_leader = self._status is None
        found = [facts for facts in descendants(os.getpid()) if not facts.is_dead]
        for facts in found:
            if signal_process(facts.pid, facts.started, *numbers) and not has_leader:
                self._left.add((facts.pid, facts.started))
        if self._has_all and self._has_sight:
            return
        try:
            for number in numbers:
                os.killpg(self._leader, number)
        except OSError:
            return  # none left
        if not (has_leader or found):
            self._left.add((self._leader, ""))

    def _drain(self) -> None:
        """Take what is still in the pipes."""
        self._note_failure(_read(self._failure, _CHUNK_BYTES) or b"")
        end = self._output.total + _DRAIN_BYTES_MAX
        while self._output.total < end and (data := _read(self._pipe, _CHUNK_BYTES)):
            self._output.write(data)

    def _note_failure(self, data: bytes) -> None:
        if data:
            self._has_failed = True
            self._problem = data.decode("utf-8", "backslashreplace")

    def _add_problem(self, text: str) -> None:
        self._problem = f"{self._problem}; {text}" if self._problem else text


def _become_job(launch: dict[str, object], token: str, gate: int, streams: tuple[int, int], failure: int) -> None:
    """Turn this child of the keeper into the leader of the job; never returns."""
    doing = "start the job"
    try:
        os.setsid()
        for number in range(1, signal.NSIG):
            try:
                signal.signal(number, signal.SIG_DFL)  # Python ignores some, the starter perhaps others
            except (OSError, ValueError):
                pass  # of the C library, or KILL and STOP
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for source, target in ((streams[0], 0), (streams[1], 1), (streams[1], 2)):
            os.dup2(source, target)
        names, argv = launch["environment"], launch["argv"]
        assert isinstance(names, list)
        assert isinstance(argv, list)
        # Python may add variables of the locale at its start.
        environment = {name: os.environ[name] for name in names if name in os.environ} | {TOKEN_VARIABLE: token}
        if os.read(gate, 1):  # else the keeper is gone, before the disk has the marks
            doing = f"enter the folder {launch['cwd']}"
            os.chdir(str(launch["cwd"]))
            doing = f"start {argv[0]}"
            os.execvpe(argv[0], argv, environment)  # noqa: S606 - a list of words, no shell
    except OSError as error:
        reason = error.strerror or ""
        if error.errno == errno.ENOENT and doing.startswith("start "):
            reason = "not found, or its interpreter is not"
        os.write(failure, f"cannot {doing}: {reason}".encode("utf-8", "surrogateescape"))
    finally:
        os._exit(_NOT_STARTED)


def _become_subreaper() -> bool:
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        return not ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (AttributeError, OSError):
        return False


def _reserve(folder: str) -> int:
    """Take disk space for the record of the end while there is some. Raises OSError."""
    path = os.path.join(folder, RESERVED)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    if os.write(fd, b" " * _ENDED_BYTES_MAX) < _ENDED_BYTES_MAX:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    return fd


def _sync_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _has_group(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


def _open_pipe() -> tuple[int, int]:
    ends = os.pipe()
    for fd in ends:
        os.set_blocking(fd, False)
    return ends


def _read(fd: int, count: int) -> bytes | None:
    """Return bytes, none at the end, None where there is nothing yet."""
    try:
        return os.read(fd, count)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _note(*_: object) -> None:
    """Do nothing: the number comes through the wake-up pipe, and a signal without a handler would not."""
