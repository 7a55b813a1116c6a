"""``periplus dispatch retry``: one more attempt for steps that ended without result."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator

from periplus.cli.common.face import Face


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID",
                        help="assignments or steps, or a dispatch for all of its that ended without result")  # fmt: skip


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.common.changes import check_typed
    from periplus.cli.dispatch.schemas import RetriedOut, RetryOut
    from periplus.dispatch.control import retry
    from periplus.dispatch.reports.board import board_of
    from periplus.dispatch.reports.stored import numbered

    check_typed(arguments)
    with face.open() as project:
        done = retry(project, arguments.ids)
        carried = board_of(project.journal, done.dispatch).heading.is_carried
    retried = [
        RetriedOut(one.item_id, str(one.value.get("step", "")), numbered(one.value, "granted"))
        for one in done.assignments
    ]
    result = RetryOut(done.dispatch.item_id, retried, done.reopened, carried)

    def lines() -> Iterator[str]:
        for one in retried:
            yield f"{one.assignment} gets one more attempt (step {one.step})."
        if result.carried is False:
            yield f"Nobody carries {result.id} now. To go on: periplus dispatch start --resume {result.id}"
        else:
            yield "Its supervisor offers the work again."

    return face.emit(result, lines)
