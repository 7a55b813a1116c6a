"""``periplus dispatch list``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import Final

from periplus.cli.common.face import Face, number

_LISTED: Final = 20


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--open", action="store_true", help="only those that are open")
    parser.add_argument(
        "--limit", type=number(1, 10_000), default=_LISTED, metavar="N", help=f"at most N (default: {_LISTED})"
    )


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.dispatch.documents import dispatch_out, question_out
    from periplus.cli.dispatch.schemas import DispatchListOut
    from periplus.cli.dispatch.table import heading_lines, question_lines
    from periplus.dispatch.reports.board import headings, questions_of

    with face.open() as project:
        found = headings(project.journal, with_ended=not arguments.open)
        questions = questions_of(project.journal)
        face.warn(project.journal.damage)
    shown = found[: arguments.limit]
    result = DispatchListOut([dispatch_out(one) for one in shown], [question_out(one) for one in questions])

    def lines() -> Iterator[str]:
        for one in shown:
            yield from heading_lines(one, face.palette, face.width)
        yield from question_lines(questions, face.palette, face.width)
        if len(shown) < len(found):
            yield f"… and {len(found) - len(shown):,} more: periplus dispatch list --limit {len(found)}"
        if not found:
            yield "There are no dispatches. Next: periplus dispatch start PLAN --agent NAME"

    return face.emit(result, lines, 0 if found else 1)
