"""``periplus loop show``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse

from periplus.cli.common.face import Face


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", default="", metavar="ID",
                        help="the loop, or a unique prefix of its id (default: the open one, else the newest)")  # fmt: skip


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.dispatch.loop.loop_view import show_lines, show_out
    from periplus.memory.coordination.loops import find_loop

    with face.open() as project:
        result = show_out(project.journal, find_loop(project.journal, arguments.id))
        face.warn(project.journal.damage)
    return face.emit(result, lambda: show_lines(result, face.palette, face.width))
