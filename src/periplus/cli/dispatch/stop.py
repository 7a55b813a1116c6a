"""``periplus dispatch stop``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator

from periplus.cli.common.changes import add_insist, check_typed
from periplus.cli.common.face import Face, counted


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", default="", metavar="ID",
                        help="the dispatch, or a unique prefix of its id (default: the open one)")  # fmt: skip
    parser.add_argument("--reason", default="", metavar="TEXT", help="why")
    add_insist(parser)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.dispatch.schemas import StopOut
    from periplus.dispatch.reports.board import board_of
    from periplus.memory.coordination.dispatches import change_dispatch, find_dispatch

    check_typed(arguments)
    with face.open(allow_secrets=arguments.insist) as project:
        found = find_dispatch(project.journal, arguments.id)
        before = board_of(project.journal, found)
        was_open = before.heading.state == "open"
        if was_open:
            found = change_dispatch(
                project.journal, project.writer, found.item_id, state="stopped", reason=arguments.reason.strip() or "stopped by a person"
            )  # fmt: skip
        after = board_of(project.journal, found)
    earlier = {row.assignment for row in before.rows if row.state == "cancelled"}
    cancelled = [row.assignment for row in after.rows if row.state == "cancelled" and row.assignment not in earlier]
    carried = before.heading.is_carried if was_open else False
    result = StopOut(found.item_id, after.heading.state, cancelled, carried)

    def lines() -> Iterator[str]:
        if not was_open:
            yield f"{result.id} is {result.state} already."
            return
        yield f"Stopped {result.id}; {counted(len(cancelled), 'assignments')} cancelled. What their agents did stays in their worktrees."
        if carried is not False:
            yield "Its supervisor ends the agents that still run."
        yield f"To go on later: periplus dispatch start --resume {result.id}"

    return face.emit(result, lines)
