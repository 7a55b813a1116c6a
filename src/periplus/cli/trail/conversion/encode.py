"""``periplus trail encode``: write a trail in version 2 or version 1."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import hashlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.base.named_tuple import NamedTuple
from periplus.cli.common.face import Face, counted, visible
from periplus.cli.trail.inputs import named_trail, trail_reader

if TYPE_CHECKING:
    from periplus.cli.trail.schemas import FaultOut
    from periplus.project import TrailFile
    from periplus.trail.program import Program


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("trail", metavar="TRAIL", help="output of `decode`, or a trail of version 1 or 2: an id, a digest, or a file")
    add("--v1", action="store_true", help="write version 1 (Trail-FLUX)")
    add("--lenient", action="store_true", help="with --v1: skip what version 1 cannot express, and report it")
    add(
        "--secret",
        metavar="FILE",
        help="the trail secret, 64 hexadecimal digits (default: that of the input, else that of this store)",
    )
    add("--out", metavar="FILE", required=True, help="the file to write")


class _Source(NamedTuple):
    program: Program
    secret: bytes | None
    told: tuple[str, ...] = ()
    faults: tuple[FaultOut, ...] = ()
    fault_count: int = 0


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.files import Files, write_atomic
    from periplus.cli.trail.conversion.versions import check_output, read_secret, tell, writing_tools
    from periplus.cli.trail.schemas import TrailEncodeOut
    from periplus.trail import TrailReader
    from periplus.trail.program import trail_of_program
    from periplus.trail.v1.reader import FluxReader
    from periplus.trail.v1.writer import write_flux

    path = face.path(arguments.out)
    check_output(os.path.join(face.cwd, arguments.trail), path)
    secret = read_secret(face, arguments.secret)
    found, _ = named_trail(face, arguments.trail)
    source = _source(found, is_flux_wanted=arguments.v1, lenient=arguments.lenient)
    left_out: tuple[str, ...] = ()
    if arguments.v1:
        trail, left_out = write_flux(source.program, lenient=arguments.lenient)
        digest, steps = hashlib.sha256(trail).digest(), FluxReader(trail).step_count - 2
    else:
        with writing_tools(face, secret or source.secret) as tools:
            trail = trail_of_program(source.program, tools.secret(hashlib.sha256(found.data).digest()), tools.put_text)
        reader = TrailReader(trail)
        digest, steps = reader.digest, reader.step_count
    write_atomic(Files(), path, trail)
    version = 1 if arguments.v1 else 2
    result = TrailEncodeOut(
        path, version, digest.hex(), len(trail), steps, list(source.told), list(left_out), list(source.faults)
    )
    if not face.as_json:
        tell(
            face,
            found.name,
            (*source.told, *(f"skipped, because version 1 cannot express it: {one}" for one in left_out)),
        )

    def lines() -> Iterator[str]:
        yield f"Wrote {visible(path)} ({len(trail):,} bytes): {counted(steps, 'steps')}, version {version}"
        yield f"  {'SHA-256' if version == 1 else 'digest '} {result.digest}"

    return face.emit(result, lines, 3 if source.fault_count else 0)


def _source(found: TrailFile, *, is_flux_wanted: bool, lenient: bool) -> _Source:
    """Return the program, and its secret if it has one. Nothing is masked, because the trail stays the same."""
    from periplus.base.encoding.container import MAGIC
    from periplus.base.errors import FormatError
    from periplus.cli.trail.conversion.versions import errors_naming, faults_out, flux_reader
    from periplus.trail.program import program_of_trail
    from periplus.trail.v1.conversion import converted_from_flux, program_of_flux
    from periplus.trail.v1.reader import is_flux
    from periplus.trail.worklogs.compiler import compile_worklog

    if is_flux(found.data):
        reader = flux_reader(found)
        faults = tuple(faults_out(reader))
        if is_flux_wanted:
            told = tuple(f"damage at byte {fault.offset}: {fault.text}" for fault in reader.faults)
            return _Source(program_of_flux(reader), None, told, faults, reader.fault_count)
        modern = converted_from_flux(reader, found.data)
        return _Source(modern.program, None, modern.told, faults, reader.fault_count)
    if found.data[: len(MAGIC)] == MAGIC:
        whole = trail_reader(found)
        return _Source(program_of_trail(whole), whole.secret)
    with errors_naming(found.name):
        try:
            compiled = compile_worklog(found.data, target=1 if is_flux_wanted else 2, mask=False)
        except FormatError:
            if not (is_flux_wanted and lenient):
                raise
            compiled = compile_worklog(found.data, mask=False)  # the writer skips what version 1 cannot express
    return _Source(compiled.program, compiled.secret)
