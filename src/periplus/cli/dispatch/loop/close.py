"""``periplus loop close``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator

from periplus.cli.common.changes import add_insist, check_typed
from periplus.cli.common.face import Face


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", default="", metavar="ID",
                        help="the loop, or a unique prefix of its id (default: the open one)")  # fmt: skip
    parser.add_argument("--reason", default="", metavar="TEXT", help="why")
    add_insist(parser)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.dispatch.loop.loop_view import show_out
    from periplus.memory.coordination.loops import close_loop, find_loop

    check_typed(arguments)
    with face.open(allow_secrets=arguments.insist) as project:
        found = find_loop(project.journal, arguments.id)
        was_open = found.value.get("state") == "open"
        loop = close_loop(project.journal, project.writer, found, arguments.reason.strip() or "closed by a person")
        result = show_out(project.journal, loop)

    def lines() -> Iterator[str]:
        if was_open:
            yield f"Closed {result.loop.id}. What was committed is on the branch {result.loop.branch}."
        else:
            yield f"{result.loop.id} is closed already."

    return face.emit(result, lines)
