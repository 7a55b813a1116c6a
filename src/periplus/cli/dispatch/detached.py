"""A supervisor in the background: the same command in a session of its own, with its output in a file."""

from __future__ import annotations

__all__ = ["start_detached"]

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, visible

if TYPE_CHECKING:
    import subprocess

    from periplus.dispatch.supervision import SupervisorOptions

_PATIENCE_S: Final = 30.0
_LOOK_S: Final = 0.05
_TAIL_BYTES: Final = 2_000
_LOG: Final = "supervisor.log"


def start_detached(face: Face, root: str, dispatch: str, options: SupervisorOptions, *, with_spans: bool) -> int:
    """Start a supervisor for ``dispatch`` that outlives this process; return once it carries it."""
    from periplus.base.errors import RefusedError
    from periplus.cli.dispatch.schemas import DetachedOut
    from periplus.dispatch.places import Places

    folder = Places.of(options.state, root).run(dispatch)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    log = os.path.join(folder, _LOG)
    words = [
        *options.command,
        "dispatch",
        "start",
        "--resume",
        dispatch,
        "--store",
        root,
        "--color",
        "never",
        "--as",
        face.writer().name,
    ]
    words += ["--otel"] if with_spans else []
    process = _started(words, face, log)
    if not _is_carried(face, process, dispatch):
        raise RefusedError(
            f"the supervisor ended with {process.returncode}: {_tail(log)}", safe=f"The dispatch {dispatch} is kept.",
            mend=f"See {log}, then: periplus dispatch start --resume {dispatch}",
        )  # fmt: skip
    result = DetachedOut(dispatch, process.pid, log)

    def lines() -> Iterator[str]:
        yield f"{dispatch} is carried by process {process.pid}; its output goes to {visible(log)}"
        yield f"Watch it: periplus dispatch watch {dispatch}"
        yield f"Stop it:  periplus dispatch stop {dispatch}"

    return face.emit(result, lines)


def _started(words: list[str], face: Face, log: str) -> subprocess.Popen[bytes]:
    import subprocess

    from periplus.base.errors import environment_failure

    try:
        with open(log, "ab") as output:
            return subprocess.Popen(  # noqa: S603 - our own program; no shell
                words, cwd=face.cwd, env=dict(face.environment), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        raise environment_failure(error, "start", words[0]) from error


def _is_carried(face: Face, process: subprocess.Popen[bytes], dispatch: str) -> bool:
    """Wait until the records name the process as supervisor, or it has ended well."""
    from periplus.dispatch.reports.stored import dispatch_of
    from periplus.memory.coordination.dispatches import find_dispatch

    until = time.monotonic() + _PATIENCE_S
    with face.open() as project:
        while time.monotonic() < until:
            one = dispatch_of(find_dispatch(project.journal, dispatch).value)
            if one.process is not None and one.process.pid == process.pid:
                return True
            if process.poll() is not None:
                return process.returncode in (0, 1) and one.state != "open"
            time.sleep(_LOOK_S)
    return process.poll() is None


def _tail(log: str) -> str:
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            said = file.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    return " ".join(line.removeprefix("periplus: ") for line in said.splitlines()[-2:])
