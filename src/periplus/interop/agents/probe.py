"""Whether what a config file starts really works: the server answers, a hook says nothing where it has nothing to say."""

from __future__ import annotations

__all__ = ["Probed", "probe_hook", "probe_server"]

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import subprocess

ANSWER_S: Final = 2.0
_END_S: Final = 2.0
_BYTES_MAX: Final = 1 << 20
_SAID_MAX: Final = 300
_HELLO: Final = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "periplus-connect", "version": "1"}},
}  # fmt: skip


class Probed(NamedTuple):
    """``wrong`` is empty where it works; ``seconds`` is how long it took."""

    wrong: str
    seconds: float


def probe_server(
    command: Sequence[str], *, cwd: str, environment: Mapping[str, str], answer_s: float = ANSWER_S
) -> Probed:
    """Start the server and greet it, as an agent does."""
    import selectors
    import subprocess

    begun = time.monotonic()
    try:
        process = subprocess.Popen(  # noqa: S603 - the words of a config file of this person, which his agent runs too; no shell
            list(command), cwd=cwd, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )  # fmt: skip
    except OSError as error:
        return Probed(f"it cannot be started: {error.strerror}", 0.0)
    assert process.stdin is not None
    assert process.stdout is not None
    with process, selectors.DefaultSelector() as selector:
        try:
            process.stdin.write(json.dumps(_HELLO).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # what it says, or that it says nothing, is told below
        selector.register(process.stdout, selectors.EVENT_READ)
        said, is_over = b"", False
        while b"\n" not in said and len(said) < _BYTES_MAX and not is_over:
            left = begun + answer_s - time.monotonic()
            if left <= 0 or not selector.select(left):
                break
            piece = os.read(process.stdout.fileno(), 1 << 16)
            said += piece
            is_over = not piece
        seconds = time.monotonic() - begun
        wrong = _judged(said, is_over=is_over, answer_s=answer_s)
        told = _end(process)
        return Probed(f"{wrong}{f': {told}' if told and is_over else ''}" if wrong else "", seconds)


def _judged(said: bytes, *, is_over: bool, answer_s: float) -> str:
    try:
        answer = json.loads(said.partition(b"\n")[0])
    except ValueError:
        answer = None
    if isinstance(answer, dict) and answer.get("id") == 1 and isinstance(answer.get("result"), dict):
        return ""
    if is_over:
        return "it ended without an answer"
    return "it says what no server says" if said else f"no answer within {answer_s:g} s"


def _end(process: subprocess.Popen[bytes]) -> str:
    """Close its input, which ends it, or end it; the last line that it said of itself."""
    import subprocess

    try:
        _, told = process.communicate(timeout=_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        _, told = process.communicate()
    except BrokenPipeError:
        process.kill()
        told = b""
    lines = told.decode("utf-8", "replace").strip().splitlines()
    return lines[0][:_SAID_MAX] if lines else ""


def probe_hook(command: Sequence[str], *, cwd: str, environment: Mapping[str, str], end_s: float = 10.0) -> Probed:
    """Run a hook in ``cwd``, a folder of no project, where it has nothing to say and must end well."""
    import subprocess

    begun = time.monotonic()
    try:
        environment = {**environment, "XDG_STATE_HOME": cwd}  # what it notes there is not this person's trouble
        done = subprocess.run(  # noqa: S603 - as above
            list(command), cwd=cwd, env=environment, input=b"{}", capture_output=True, check=False, timeout=end_s
        )
    except OSError as error:
        return Probed(f"it cannot be started: {error.strerror}", 0.0)
    except subprocess.TimeoutExpired:
        return Probed(f"it did not end within {end_s:g} s", end_s)
    seconds = time.monotonic() - begun
    said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    if done.returncode:
        return Probed(f"it ended with {done.returncode}{f': {said[0][:_SAID_MAX]}' if said else ''}", seconds)
    return Probed(f"it spoke where it has nothing to say: {said[0][:_SAID_MAX]}" if said else "", seconds)
