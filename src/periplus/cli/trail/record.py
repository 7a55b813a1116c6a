"""``periplus trail record``: read steps as lines of JSON, and acknowledge each as a line of JSON."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, counted, number, plain, visible

if TYPE_CHECKING:
    from periplus.project import Project
    from periplus.project.trail_store.recording import Recording
    from periplus.trail.recording.recorder import Acknowledged

LINE_BYTES_MAX: Final = 128 << 20  # the largest file that is kept, as base64, and its step
_STATUSES: Final = ("success", "error", "partial", "cancelled")


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--agent", metavar="NAME", help="the agent that runs (default: the name you write under)")
    add("--title", metavar="TEXT", default="", help="what the run is about")
    add("--model", metavar="NAME", default="", help="the model of the agent")
    add("--run", metavar="RUN", help="continue an open run instead of beginning one")
    add("--keep-open", action="store_true", help="leave the run open at the end of the input; --run continues it")
    add("--status", choices=_STATUSES, default="success", help="how the run ended (default: success)")
    add(
        "--no-checkpoints",
        action="store_true",
        help="do not record the state of git's files at the beginning and the end",
    )
    add(
        "--pid",
        type=number(1),
        metavar="PID",
        help="the process of the run; when it ends, the run counts as abandoned",
    )


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError

    if arguments.run is not None and (arguments.agent or arguments.title or arguments.model or arguments.pid):
        raise UsageError("--run continues a run, which already has its agent, title, model and process",
                         safe="Nothing was written.", mend="Omit those options, or --run.")  # fmt: skip
    with face.open() as project:
        run = _run(face, project, arguments)
        _say(face, {"run": run.id})
        face.tell_reading("steps, one JSON object a line,")
        try:
            for line_number, line in _lines(run):
                _say(face, _acknowledged(_recorded(run, line, line_number)))
            if arguments.keep_open:
                return 0
            if not arguments.no_checkpoints:
                run.checkpoint()
            sealed = run.seal(arguments.status)
        except KeyboardInterrupt:
            run.seal("cancelled")
            raise
        from periplus.cli.trail.documents import sealed_out

        result = sealed_out(sealed)
    face.emit(result, lambda: [_final(result)])
    return 0


def _run(face: Face, project: Project, arguments: argparse.Namespace) -> Recording:
    checkpoints = not arguments.no_checkpoints
    if arguments.run is not None:
        return project.recording(plain(arguments.run, "RUN"), checkpoints=checkpoints)
    pid = arguments.pid or (0 if arguments.keep_open else os.getpid())
    return project.record(
        agent=plain(arguments.agent or "", "--agent"), title=plain(arguments.title, "--title"),
        model=plain(arguments.model, "--model"), folder=face.cwd, pid=pid, checkpoints=checkpoints,
    )  # fmt: skip


def _lines(run: Recording) -> Iterator[tuple[int, bytes]]:
    """Yield the non-empty lines of standard input with their numbers."""
    stream = sys.stdin.buffer
    line_number = 0
    while line := stream.readline(LINE_BYTES_MAX + 1):
        line_number += 1
        if len(line) > LINE_BYTES_MAX:
            raise _refused(run, line_number, f"over {LINE_BYTES_MAX >> 20} MiB", "")
        if line.strip():
            yield line_number, line


def _recorded(run: Recording, line: bytes, line_number: int) -> Acknowledged:
    import orjson

    from periplus.base.errors import ConflictError, UsageError

    try:
        values = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _refused(run, line_number, f"not JSON: {error}", "") from error
    if not isinstance(values, dict):
        raise _refused(run, line_number, "a step must be a JSON object", "")
    op, key = values.pop("op", None), values.pop("key", "")
    try:
        if not isinstance(op, str):
            raise UsageError("op: a string is required")  # noqa: TRY301 - told as what the recorder refuses
        if not isinstance(key, str):
            raise UsageError("key: a string is expected")  # noqa: TRY301 - likewise
        if op.upper() == "CHECKPOINT" and not values:
            found = run.checkpoint(key=key)
            if found is None:
                raise UsageError("state: required, because this is not a git worktree")  # noqa: TRY301 - likewise
            return found
        return run.add(op, values, key=key)
    except (ConflictError, UsageError) as error:
        raise _refused(run, line_number, error.wrong, error.mend) from error


def _refused(run: Recording, line_number: int, wrong: str, mend: str) -> Exception:
    """Return the error for a line that is not a step. The run stays open for a corrected one."""
    from periplus.base.errors import FormatError

    run.detach()
    more = f"Continue with `periplus trail record --run {run.id}`, or end it with `periplus trail seal {run.id}`."
    return FormatError(wrong, line=line_number, safe=f"Run {run.id} is intact and still open; every acknowledged step is durable.",
                       mend=f"{mend} {more}".strip())  # fmt: skip


def _acknowledged(found: Acknowledged) -> dict[str, object]:
    return {"index": found.place, "seq": found.seq, "repeated": found.is_repeated}


def _say(face: Face, document: dict[str, object]) -> None:
    """Print one line and flush it: the sender waits for it."""
    import orjson

    face.out(orjson.dumps(document).decode())
    face.stdout.flush()


def _final(result: object) -> str:
    from periplus.cli.trail.schemas import TrailSealedOut

    assert isinstance(result, TrailSealedOut)
    return f"{result.trail}  {result.status}, {counted(result.steps, 'steps')}, digest {visible(result.digest)}"
