"""``periplus trail sign``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Iterator

from periplus.cli.common.face import Face, visible
from periplus.cli.trail.inputs import named_trail, signed, trail_readers


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("trail", metavar="TRAIL", help="an id, a digest (or a prefix of either), or a file")
    add("--out", metavar="FILE", required=True, help="the file to write")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.files import Files, write_atomic
    from periplus.cli.common.inputs import check_target
    from periplus.cli.trail.schemas import TrailSignOut
    from periplus.trail import Parts, TrailReader, is_concatenation

    path = face.path(arguments.out)
    check_target(path)
    found, _ = named_trail(face, arguments.trail)
    trail_readers(found)
    data = signed(face, found.data, found.name)
    write_atomic(Files(), path, data)
    made = Parts(data) if is_concatenation(data) else TrailReader(data)
    result = TrailSignOut(path, made.digest.hex(), (made.signature or b"")[:32].hex(), len(data))

    def lines() -> Iterator[str]:
        import shlex

        name = visible(shlex.quote(os.path.basename(path)))
        yield f"Wrote {visible(path)} ({len(data):,} bytes), digest {result.digest}"
        yield f"To check it: periplus trail verify {name} --key {result.key}"

    face.emit(result, lines)
    return 0
