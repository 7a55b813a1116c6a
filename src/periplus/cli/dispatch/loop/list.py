"""``periplus loop list``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator

from periplus.cli.common.face import Face


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--open", action="store_true", help="only those that are open")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.dispatch.loop.loop_view import heading_lines, loop_out
    from periplus.cli.dispatch.loop.schemas import LoopListOut
    from periplus.memory.coordination.loops import loops

    with face.open() as project:
        found = loops(project.journal, with_closed=not arguments.open)
        face.warn(project.journal.damage)
    result = LoopListOut([loop_out(one) for one in found])

    def lines() -> Iterator[str]:
        for one in result.loops:
            yield from heading_lines(one, face.palette, face.width)
        if not found:
            yield 'There are no loops. Next: periplus loop open KIND "TEXT" --agent NAME'

    return face.emit(result, lines, 0 if found else 1)
