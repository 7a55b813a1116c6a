"""``periplus trail compile``: a worklog becomes a trail."""

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
    add("--lenient", action="store_true", help="guess what is missing, leave out what is not understood, and say so")
    add("--agent", metavar="NAME", help="who ran (default: what the worklog says)")
    add("--trail-id", metavar="ID", help="what the run is called (default: what the worklog says)")
    add(
        "--status",
        choices=("success", "error", "partial", "cancelled"),
        help="how it ended (default: what the worklog says)",
    )
    add("--no-mask", action="store_true", help="leave secrets in it as they are")
    add("--secret", metavar="FILE", help="64 hexadecimal digits, the trail secret (default: of this store, else drawn)")
    add("--out", metavar="FILE", help="default: the worklog's name with .trail, or .flux with --v1, in this folder")


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
        tell(face, name, (*compiled.told, *(f"left out, for version 1 has no place for it: {one}" for one in left_out)))

    def lines() -> Iterator[str]:
        yield f"Wrote {visible(path)} ({len(trail):,} bytes): {counted(steps, 'steps')}, version {result.version}"
        yield f"  {'SHA-256' if arguments.v1 else 'digest '} {result.digest}"
        if compiled.masked:
            yield f"  {counted(compiled.masked, 'secrets')} masked"

    face.emit(result, lines)
    return 0


def _read(face: Face, name: str) -> tuple[str, bytes]:
    """The worklog and how errors name it."""
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
        raise UsageError("a worklog from standard input has no name", mend="Say where the trail goes with --out FILE.")
    stem = os.path.splitext(os.path.basename(arguments.worklog))[0]
    return f"{stem}.{'flux' if arguments.v1 else 'trail'}"
