"""Test run of configured commands: the server answers, a hook without a project prints nothing, a program tells its version."""

from __future__ import annotations

__all__ = ["Probed", "probe_hook", "probe_server", "program_version"]

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import subprocess

ANSWER_S: Final = 2.0
_END_S: Final = 2.0
_BYTES_MAX: Final = 1 << 20
_SAID_MAX: Final = 300
_ERRORS_KEPT: Final = 4_096
_CARD_BYTES_MAX: Final = 1 << 20
_CARD_LEVELS: Final = 4  # node_modules/@scope/name/bin/program
_VERSION: Final = re.compile(r"(?<![\d.])\d{1,6}\.\d{1,6}(?:\.\d{1,12})?(?:[-+][\w.]{1,40})?")
_HELLO: Final = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "periplus-connect", "version": "1"}},
}  # fmt: skip


class Probed(NamedTuple):
    """Result of a test run: ``wrong`` is empty on success; ``seconds`` is the time taken."""

    wrong: str
    seconds: float


class _Heard(NamedTuple):
    """Output of a process: the beginnings of stdout and stderr. ``is_over``: it closed its output."""

    said: bytes
    errors: bytes
    is_over: bool


def probe_server(
    command: Sequence[str], *, cwd: str, environment: Mapping[str, str], answer_s: float = ANSWER_S
) -> Probed:
    """Start the server and initialize it like an agent. The server and its children are killed afterwards."""
    begun = time.monotonic()
    try:
        process = _started(command, cwd, environment)
    except OSError as error:
        return Probed(f"it cannot be started: {error.strerror}", 0.0)
    try:
        heard = _listen(process, json.dumps(_HELLO).encode() + b"\n", begun + answer_s, is_line=True)
        seconds = time.monotonic() - begun
        wrong = _judged(heard.said, is_over=heard.is_over, answer_s=answer_s)
        _close(process.stdin)
        if heard.is_over or not wrong:
            _wait(process, _END_S)
    finally:
        _end(process)
    told = _first_line(heard.errors) if heard.is_over else ""
    return Probed(f"{wrong}{f': {told}' if told else ''}" if wrong else "", seconds)


def probe_hook(command: Sequence[str], *, cwd: str, environment: Mapping[str, str], end_s: float = 10.0) -> Probed:
    """Run a hook in ``cwd``, a folder outside of projects, where it must print nothing and succeed."""
    begun = time.monotonic()
    try:
        # Keeps its notes out of the person's state folder.
        process = _started(command, cwd, {**environment, "XDG_STATE_HOME": cwd})
    except OSError as error:
        return Probed(f"it cannot be started: {error.strerror}", 0.0)
    try:
        heard = _listen(process, b"{}", begun + end_s, is_line=False)
        has_ended = _wait(process, max(0.0, begun + end_s - time.monotonic()))
        seconds = time.monotonic() - begun
    finally:
        _end(process)
    said = _first_line(heard.errors) or _first_line(heard.said)
    if not has_ended:
        return Probed(f"it did not end within {end_s:g} s", end_s)
    if process.returncode:
        return Probed(f"it ended with {process.returncode}{f': {said}' if said else ''}", seconds)
    return Probed(f"it printed output without a project: {said}" if said else "", seconds)


def program_version(program: str, *, cwd: str, environment: Mapping[str, str], end_s: float = 5.0) -> str:
    """Return the version of a program: that of the npm package that holds it, else the first number that ``--version`` prints.
    Empty where neither tells one within ``end_s``.
    """
    return _packaged_version(program) or _printed_version(program, cwd, environment, end_s)


def _packaged_version(program: str) -> str:
    """Return the version in the ``package.json`` that is nearest above a script and names it as a program."""
    place = os.path.dirname(os.path.realpath(program))
    for _ in range(_CARD_LEVELS):
        try:
            with open(os.path.join(place, "package.json"), "rb") as file:
                card = json.loads(file.read(_CARD_BYTES_MAX))
        except (OSError, ValueError, RecursionError):
            card = None
        if isinstance(card, dict) and card.get("bin"):
            match = _VERSION.fullmatch(str(card.get("version", "")))
            return match[0] if match is not None else ""
        place = os.path.dirname(place)
    return ""


def _printed_version(program: str, cwd: str, environment: Mapping[str, str], end_s: float) -> str:
    try:
        process = _started((program, "--version"), cwd, environment)
    except OSError:
        return ""
    try:
        heard = _listen(process, b"", time.monotonic() + end_s, is_line=False)
    finally:
        _end(process)
    match = _VERSION.search(heard.said.decode("utf-8", "replace")) if heard.is_over else None
    return match[0] if match is not None else ""


def _started(command: Sequence[str], cwd: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a process in its own group, so that its children can be killed with it. Raises OSError."""
    import subprocess

    return subprocess.Popen(  # noqa: S603 - the words of a config file of this person, which his agent runs too; no shell
        list(command), cwd=cwd, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def _listen(process: subprocess.Popen[bytes], question: bytes, until: float, *, is_line: bool) -> _Heard:
    """Send a question and return the answer: a line, or all output up to its end. At most _BYTES_MAX, and until
    ``until``.
    """
    import selectors

    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        process.stdin.write(question)
        process.stdin.flush()
    except BrokenPipeError:
        pass  # the caller reports the missing answer
    if not is_line:
        _close(process.stdin)
    said, errors = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, said)
        selector.register(process.stderr, selectors.EVENT_READ, errors)
        while selector.get_map() and len(said) < _BYTES_MAX and not (is_line and b"\n" in said):
            left = until - time.monotonic()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                break
            for key, _ in ready:
                piece = os.read(key.fd, 1 << 16)
                if not piece:
                    selector.unregister(key.fileobj)
                elif key.data is said or len(errors) < _ERRORS_KEPT:
                    key.data.extend(piece)
        is_over = process.stdout not in {key.fileobj for key in selector.get_map().values()}
    return _Heard(bytes(said), bytes(errors), is_over)


def _judged(said: bytes, *, is_over: bool, answer_s: float) -> str:
    try:
        answer = json.loads(said.partition(b"\n")[0])
    except ValueError:
        answer = None
    if isinstance(answer, dict) and answer.get("id") == 1 and isinstance(answer.get("result"), dict):
        return ""
    if is_over:
        return "it ended without an answer"
    return "its answer is not that of an MCP server" if said else f"no answer within {answer_s:g} s"


def _wait(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the end; return False after ``seconds``."""
    import subprocess

    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its group; do not wait for its open files."""
    import signal

    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # all of it has ended
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        _close(pipe)


def _close(pipe: IO[bytes] | None) -> None:
    try:
        if pipe is not None:
            pipe.close()
    except BrokenPipeError:
        pass  # nobody needs the rest of the output


def _first_line(data: bytes) -> str:
    lines = data.decode("utf-8", "replace").strip().splitlines()
    return lines[0][:_SAID_MAX] if lines else ""
