"""Programs of plugins: one question, one answer, each a line of JSON, in the sandbox, within a deadline.

A program is started for each question and ended after its answer, with all processes that it started. So no plugin code runs in our
process, and nothing outlives a call. The question comes on standard input and the answer goes to standard output; standard error is shown
only on failure. Output is bounded: a program that floods, hangs, dies or gives an invalid answer has failed.
"""

from __future__ import annotations

__all__ = ["PluginError", "ProgramCancelledError", "ProgramPlace", "Programs"]

import json
import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from periplus.agent.sandbox import Confinement
from periplus.agent.tools.shell.commands import declared_environment
from periplus.agent.tools.shell.processes import MARK, kill_marked
from periplus.base.errors import PeriplusError

if TYPE_CHECKING:
    import subprocess

    from periplus.agent.sandbox import Sandbox
    from periplus.base.files import Files

PROTOCOL: Final = 1
QUESTION_BYTES_MAX: Final = 16 << 20
ANSWER_BYTES_MAX: Final = 1 << 20
_ERRORS_KEPT: Final = 2_000
_PIECE: Final = 1 << 16
_SELF: Final = "{plugin}"
_COVERED: Final = ("/tmp", "/var/tmp")  # noqa: S108 - a sandbox puts folders of its own over these


class PluginError(PeriplusError):
    """A program of a plugin failed or gave an invalid answer."""

    code = "plugin"


class ProgramCancelledError(PluginError):
    """The turn was cancelled while the program ran."""

    code = "cancelled"


class ProgramPlace(NamedTuple):
    """Folders of a program. ``folder`` is the plugin's copy, ``files`` its contents, ``own`` a folder that its programs may write in."""

    plugin: str
    folder: str
    own: str
    files: Collection[str] = ()


class Programs:
    """Runs programs for one session. ``unread`` returns paths that no program may read. ``cancel`` and ``close`` may be called from any
    thread.
    """

    def __init__(
        self, sandbox: Sandbox, *, root: str, environment: Mapping[str, str], home: str, hidden: Sequence[str], files: Files,
        unread: Callable[[], Sequence[str]] = tuple,
    ) -> None:  # fmt: skip
        self._sandbox, self._root, self._files = sandbox, root, files
        self._environment, self._home, self._hidden, self._unread = environment, home, tuple(hidden), unread
        self._mark = f"{os.urandom(12).hex()}."
        self._started_count = 0
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._cancels = 0

    def cancel(self) -> None:
        """Stop the running programs."""
        with self._lock:
            self._cancels += 1
            running = list(self._running)
        for one in running:
            _kill(one)

    def close(self) -> None:
        self.cancel()
        kill_marked(self._mark)

    def ask(
        self, place: ProgramPlace, command: Sequence[str], question: Mapping[str, Any], *, deadline_s: float,
        reach: Collection[str] = (), known: Collection[str] = (),
    ) -> dict[str, Any]:  # fmt: skip
        """Return the answer, an object with no other fields than ``known``. Raises PluginError."""
        data = json.dumps({"v": PROTOCOL, **question}).encode() + b"\n"
        if len(data) > QUESTION_BYTES_MAX:
            raise self._failed(
                place, command, f"its input would have {len(data):,} bytes, at most {QUESTION_BYTES_MAX:,}"
            )
        with self._lock:
            cancels = self._cancels
            self._started_count += 1
            mark = f"{self._mark}{self._started_count}."
        popen = self._started(place, command, reach, mark)
        with self._lock:
            self._running.add(popen)
            is_late = self._cancels != cancels
        if is_late:
            _kill(popen)  # ``cancel`` came before it was registered
        said, errors, how = self._run(popen, mark, data, deadline_s)
        with self._lock:
            if self._cancels != cancels:
                raise ProgramCancelledError(f"the turn was cancelled while a program of the plugin {place.plugin} ran")
        tail = errors.decode("utf-8", "replace").strip()
        if how:
            raise self._failed(place, command, how, tail)
        return self._answer(place, command, said, known, tail)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _started(
        self, place: ProgramPlace, command: Sequence[str], reach: Collection[str], mark: str
    ) -> subprocess.Popen[bytes]:
        import subprocess
        import sys

        temporary, home, work = (os.path.join(place.own, name) for name in ("tmp", "home", "work"))
        for folder in (place.own, temporary, home, work):
            self._files.make_folder(folder, 0o700)
        environment = declared_environment(
            self._environment, home=home, temporary=temporary, more={MARK: mark, "PYTHONDONTWRITEBYTECODE": "1"}
        )
        kept = [place.folder, *(path for path in (sys.prefix, sys.base_prefix) if os.path.isdir(path))]
        is_writer = "write" in reach
        unread = list(self._unread()) if self._sandbox.layer != "none" else []
        if "read" in reach and not is_writer:
            if unread and any(
                _is_within(self._root, one) for one in (os.path.realpath(self._home or "/root"), *_COVERED)
            ):
                raise self._failed(place, command, "your rules forbid reading files here that it would see")
            kept += [] if unread else [self._root]
        confinement = Confinement.of(
            self._root if is_writer else work, temporary, self._home, writable=(home, work) if is_writer else (home,), kept=kept,
            hidden=(*self._hidden, *unread), allow_network="network" in reach,
        )  # fmt: skip
        words = [word.replace(_SELF, place.folder) for word in command]
        if "/" in words[0] or words[0] in place.files:
            words[0] = os.path.normpath(os.path.join(place.folder, words[0]))
        try:
            return subprocess.Popen(  # noqa: S603 - words of a plugin that its user trusts, in the sandbox
                self._sandbox.wrap(words, place.folder, confinement), cwd=place.folder, env=environment, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise self._failed(place, command, f"it cannot be started: {error.strerror}") from error

    def _run(
        self, popen: subprocess.Popen[bytes], mark: str, data: bytes, deadline_s: float
    ) -> tuple[bytes, bytes, str]:
        """Return the output, the end of standard error, and a description of the failure (empty without one)."""
        try:
            return _talk(popen, data, deadline_s)  # nothing is read after an answer
        finally:
            _kill(popen)
            popen.wait()
            kill_marked(mark)  # processes that left its group
            for pipe in (popen.stdin, popen.stdout, popen.stderr):
                if pipe is not None:
                    _close(pipe)
            with self._lock:
                self._running.discard(popen)

    def _answer(
        self, place: ProgramPlace, command: Sequence[str], said: bytes, known: Collection[str], tail: str
    ) -> dict[str, Any]:
        try:
            answer = json.loads(said.partition(b"\n")[0])
        except (ValueError, RecursionError):
            raise self._failed(place, command, f"its answer is not JSON: {said[:80]!r}", tail) from None
        if not isinstance(answer, dict):
            raise self._failed(place, command, "its answer is not an object", tail)
        strange = [name for name in answer if name not in known]
        if strange:
            raise self._failed(
                place, command, f"its answer has a field {strange[0][:60]!r}, and may have {', '.join(known)}", tail
            )
        return answer

    def _failed(self, place: ProgramPlace, command: Sequence[str], how: str, tail: str = "") -> PluginError:
        said = f"; its errors end with: {tail}" if tail else ""
        return PluginError(f"the plugin {place.plugin}: {' '.join(command)[:200]}: {how}{said}",
                           mend=f"Fix it, or turn it off: periplus plugins untrust {place.plugin}")  # fmt: skip


def _is_within(path: str, folder: str) -> bool:
    return bool(folder) and path.startswith(folder.rstrip("/") + "/")


def _talk(popen: subprocess.Popen[bytes], data: bytes, deadline_s: float) -> tuple[bytes, bytes, str]:
    """Write the question and read to the end of the answer's line, in either order."""
    import selectors
    import time

    assert popen.stdin is not None
    assert popen.stdout is not None
    assert popen.stderr is not None
    left, said, errors = memoryview(data), bytearray(), bytearray()
    deadline = time.monotonic() + deadline_s
    with selectors.DefaultSelector() as selector:
        for pipe, event in (
            (popen.stdin, selectors.EVENT_WRITE),
            (popen.stdout, selectors.EVENT_READ),
            (popen.stderr, selectors.EVENT_READ),
        ):
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, event)
        while popen.stdout in {key.fileobj for key in selector.get_map().values()} and b"\n" not in said:
            wait = deadline - time.monotonic()
            if wait <= 0:
                return bytes(said), bytes(errors), f"it did not answer within {deadline_s:g} s"
            for key, _ in selector.select(wait):
                if key.fileobj is popen.stdin:
                    left = _written(popen.stdin.fileno(), left)
                    if not left:
                        selector.unregister(popen.stdin)
                        _close(popen.stdin)
                    continue
                piece = _read(key.fd)
                if piece == b"":
                    selector.unregister(key.fileobj)
                elif key.fileobj is popen.stderr:
                    errors += piece or b""
                    del errors[:-_ERRORS_KEPT]
                else:
                    said += piece or b""
                    if len(said) > ANSWER_BYTES_MAX:
                        return b"", bytes(errors), f"it printed more than {ANSWER_BYTES_MAX:,} bytes"
        if popen.stderr in {key.fileobj for key in selector.get_map().values()}:
            errors += _read(popen.stderr.fileno()) or b""
    if b"\n" in said or said.strip():
        return bytes(said), bytes(errors[-_ERRORS_KEPT:]), ""
    return _ended(popen, bytes(errors[-_ERRORS_KEPT:]), deadline - time.monotonic())


def _ended(popen: subprocess.Popen[bytes], errors: bytes, seconds: float) -> tuple[bytes, bytes, str]:
    """Handle a program that closed its output without an answer: how it ended, if it did."""
    import subprocess

    try:
        code = popen.wait(max(0.0, min(seconds, 1.0)))
    except subprocess.TimeoutExpired:
        return b"", errors, "it closed its output without an answer and keeps running"
    return b"", errors, f"it ended with {code} and no answer"


def _written(fd: int, left: memoryview) -> memoryview:
    try:
        return left[os.write(fd, left[:_PIECE]) :]
    except BlockingIOError:
        return left
    except OSError:
        return left[len(left) :]  # it does not read its question; its answer decides whether that matters


def _read(fd: int) -> bytes | None:
    """Read what is there: None for nothing yet, empty at the end."""
    try:
        return os.read(fd, _PIECE)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _kill(popen: subprocess.Popen[bytes]) -> None:
    import signal

    try:
        os.killpg(popen.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _close(pipe: Any) -> None:
    try:
        pipe.close()
    except OSError:
        return  # it does not read the rest
