"""``periplus trail concat``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Iterator

from periplus.cli.face import Face, visible
from periplus.cli.trail_inputs import named_trail, trail_readers


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("trails", nargs="+", metavar="TRAIL", help="ids, digests (or the beginning of either), or files, in order")
    add("--out", metavar="FILE", required=True, help="where the file is written")
    add("--sign", action="store_true", help="sign the whole by the key of this store")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.files import Files, write_atomic
    from periplus.cli.inputs import check_target
    from periplus.cli.trail_schemas import TrailConcatOut, TrailPartOut
    from periplus.trail import Parts, concat

    path = os.path.join(face.cwd, arguments.out)
    check_target(path)
    files: list[bytes] = []
    parts: list[TrailPartOut] = []
    for name in arguments.trails:
        found, _ = named_trail(face, name)
        files.append(found.data)
        parts.extend(
            TrailPartOut(found.name, reader.digest.hex(), reader.step_count, reader.status)
            for reader in trail_readers(found)
        )
    data = concat(files)
    if arguments.sign:
        with face.open() as project:
            data = project.sign_trail(data)
    write_atomic(Files(), path, data)
    result = TrailConcatOut(path, Parts(data).digest.hex(), arguments.sign, len(data), parts)

    def lines() -> Iterator[str]:
        yield f"Wrote {visible(path)} ({len(data):,} bytes), digest {result.digest}"
        for number, part in enumerate(parts, 1):
            yield f"  part {number:<3} {part.digest[:16]}  {part.steps:>7,} steps  {part.status}  {visible(part.name)}"

    face.emit(result, lines)
    return 0
