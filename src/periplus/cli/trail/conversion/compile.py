"""``periplus trail compile``: compile a worklog to a trail."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.cli.common.face import Face, counted, plain, visible

if TYPE_CHECKING:
    from periplus.trail.worklogs.compiler import Target


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "worklog",
        metavar="WORKLOG",
        help="a JSON array of entries, JSON lines, or an object with entries; - reads standard input",
    )
    add("--v1", action="store_true", help="write version 1 (Trail-FLUX)")
    add("--lenient", action="store_true", help="guess what is missing, skip what is not understood, and report both")
    add("--agent", metavar="NAME", help="the agent that ran (default: from the worklog)")
    add("--trail-id", metavar="ID", help="the id of the run (default: from the worklog)")
    add(
        "--status",
        choices=("success", "error", "partial", "cancelled"),
        help="how the run ended (default: from the worklog)",
    )
    add("--no-mask", action="store_true", help="do not mask secrets")
    add(
        "--secret",
        metavar="FILE",
        help="the trail secret, 64 hexadecimal digits (default: that of this store, else a random one)",
    )
    add(
        "--out",
        metavar="FILE",
        help="the file to write (default: the worklog's name with .trail, or .flux with --v1, in this folder)",
    )


def execute(face: Face, arguments: argparse.Namespace) -> int:
    import hashlib

    from periplus.base.files import Files, write_atomic
    from periplus.cli.trail.conversion.versions import check_output, errors_naming, read_secret, tell, writing_tools
    from periplus.cli.trail.schemas import TrailCompileOut
    from periplus.trail import TrailReader
    from periplus.trail.program import trail_of_program
    from periplus.trail.v1.writer import write_flux
    from periplus.trail.worklogs.compiler import RunFacts, compile_worklog

    name, data = _read(face, arguments.worklog)
    path = face.path(arguments.out or _default_name(arguments))
    check_output(os.path.join(face.cwd, arguments.worklog), path)
    secret = read_secret(face, arguments.secret)
    names = [
        None if text is None else plain(text, "--agent and --trail-id")
        for text in (arguments.agent, arguments.trail_id)
    ]
    facts = RunFacts(names[0], names[1], arguments.status)
    target: Target = 1 if arguments.v1 else 2
    left_out: tuple[str, ...] = ()
    with errors_naming(name):
        compiled = compile_worklog(
            data, target=target, lenient=arguments.lenient, mask=not arguments.no_mask, facts=facts
        )
    if target == 1:
        trail, left_out = write_flux(compiled.program, lenient=arguments.lenient)
        digest = hashlib.sha256(trail).digest()
    else:
        with writing_tools(face, secret or compiled.secret) as tools:
            trail = trail_of_program(compiled.program, tools.secret(hashlib.sha256(data).digest()), tools.put_text)
        digest = TrailReader(trail).digest
    write_atomic(Files(), path, trail)
    steps = len(compiled.program.steps) - 2
    result = TrailCompileOut(
        path, target, digest.hex(), len(trail), steps, list(compiled.told), list(left_out), compiled.masked
    )
    if not face.as_json:
        tell(
            face, name, (*compiled.told, *(f"skipped, because version 1 cannot express it: {one}" for one in left_out))
        )

    def lines() -> Iterator[str]:
        yield f"Wrote {visible(path)} ({len(trail):,} bytes): {counted(steps, 'steps')}, version {result.version}"
        yield f"  {'SHA-256' if arguments.v1 else 'digest '} {result.digest}"
        if compiled.masked:
            yield f"  {counted(compiled.masked, 'secrets')} masked"

    face.emit(result, lines)
    return 0


def _read(face: Face, name: str) -> tuple[str, bytes]:
    """Return the worklog, and its name for errors."""
    import sys

    from periplus.cli.common.inputs import read_file
    from periplus.trail.worklogs.json_text import WORKLOG_BYTES_MAX

    if name == "-":
        face.tell_reading("the worklog")
        return "standard input", sys.stdin.buffer.read(WORKLOG_BYTES_MAX + 1)
    return name, read_file(os.path.join(face.cwd, name), WORKLOG_BYTES_MAX)


def _default_name(arguments: argparse.Namespace) -> str:
    from periplus.base.errors import UsageError

    if arguments.worklog == "-":
        raise UsageError(
            "a worklog from standard input has no file name", mend="Name the file to write with --out FILE."
        )
    stem = os.path.splitext(os.path.basename(arguments.worklog))[0]
    return f"{stem}.{'flux' if arguments.v1 else 'trail'}"
