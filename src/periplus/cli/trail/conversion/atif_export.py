"""``periplus trail export --format atif``."""

from __future__ import annotations

__all__ = ["export_atif"]

import argparse
import os
from collections.abc import Iterator

from periplus.cli.common.face import Face, counted, visible
from periplus.cli.trail.inputs import TrailsByDigest, named_trail, trail_reader


def export_atif(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.files import Files, write_atomic
    from periplus.cli.common.inputs import check_target
    from periplus.cli.trail.conversion.html_export import withheld_names
    from periplus.cli.trail.schemas import TrailExportOut
    from periplus.cli.trail.trajectories import make_atif

    names = withheld_names(arguments.withhold)
    if arguments.out is not None:
        check_target(os.path.join(face.cwd, arguments.out))
    found, store = named_trail(face, arguments.trail)
    trail_reader(found)  # its errors say more
    made = make_atif(found.data, store, names, TrailsByDigest(face))
    data = made.document.data
    if arguments.out is None:
        face.out(data.decode(), end="")
        return 0
    path = face.path(arguments.out)
    write_atomic(Files(), path, data)

    def told() -> Iterator[str]:
        yield f"Wrote {visible(path)} ({len(data):,} bytes): atif of trail {made.digest[:16]}, {counted(made.document.steps, 'steps')}"
        if made.document.subagents:
            yield f"  with {counted(made.document.subagents, 'trails')} of its subagents"
        if made.withheld:
            yield f"  {counted(made.withheld, 'texts')} {'are' if made.withheld > 1 else 'is'} withheld"
        if made.document.missing:
            yield f"  {counted(made.document.missing, 'long texts')} not at hand: the file has their digests"

    return face.emit(TrailExportOut(path, "atif", made.digest, len(data), False), told)
