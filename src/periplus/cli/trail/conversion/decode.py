"""``periplus trail decode``: write a trail as a worklog, and report damage in version 1."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from periplus.cli.common.face import Face, visible
from periplus.cli.trail.inputs import named_trail, trail_reader

if TYPE_CHECKING:
    from periplus.trail.v1.reader import FluxReader


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("trail", metavar="TRAIL", help="an id, a digest (or a prefix of either), or a file of version 1 or 2")
    add("--v1", action="store_true", help="read version 1 (Trail-FLUX), and refuse any other")
    add("--out", metavar="FILE", help="write the entries to FILE (default: standard output)")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.base.files import Files, write_atomic
    from periplus.cli.trail.conversion.versions import check_output, faults_out, flux_reader, tell
    from periplus.cli.trail.schemas import TrailDecodeOut
    from periplus.trail.program import program_of_trail
    from periplus.trail.v1.conversion import program_of_flux
    from periplus.trail.v1.reader import is_flux
    from periplus.trail.worklogs.json_text import entries_of_program

    path = "" if arguments.out is None else face.path(arguments.out)
    if path:
        check_output(os.path.join(face.cwd, arguments.trail), path)
    found, _ = named_trail(face, arguments.trail)
    flux: FluxReader | None = None
    if is_flux(found.data):
        flux = flux_reader(found)
        entries = entries_of_program(program_of_flux(flux))
    elif arguments.v1:
        raise UsageError(f"{found.name} is not a trail of version 1", safe="The file was only read.",
                         mend="Omit --v1 to read version 2.")  # fmt: skip
    else:
        reader = trail_reader(found)
        entries = entries_of_program(program_of_trail(reader), reader.secret)
    told = _told(flux)
    if path or face.as_json:
        kept = list(entries)
        if path:
            write_atomic(Files(), path, "".join(f"{line}\n" for line in _array(kept)).encode())
        faults = faults_out(flux) if flux is not None else []
        count = flux.fault_count if flux is not None else 0
        version = 1 if flux is not None else 2
        size = f"{len(kept):,} entr{'y' if len(kept) == 1 else 'ies'}"
        face.emit(TrailDecodeOut(path, version, kept, told, faults, count), lambda: [f"Wrote {visible(path)}: {size}"])
    else:
        for line in _array(entries):
            face.out(line)
    if not face.as_json:
        tell(face, found.name, told)
    return 3 if flux is not None and flux.fault_count else 0


def _array(entries: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of one JSON array, with an entry on each."""
    from periplus.trail.worklogs.json_text import entry_line

    held = ""
    for entry in entries:
        if held:
            yield held + ","
        held = f"{' ' if held else '['}{entry_line(entry)}"
    yield f"{held or '['}]"


def _told(flux: FluxReader | None) -> list[str]:
    if flux is None:
        return []
    told = []
    if flux.agent is None:
        told.append("the agent's name cannot be determined")
    for fault in flux.faults:
        step = "" if fault.step is None else f", step {fault.step}"
        told.append(f"damage at byte {fault.offset}{step}: {fault.text}")
    if flux.fault_count > len(flux.faults):
        told.append(f"{flux.fault_count - len(flux.faults):,} more faults")
    return told
