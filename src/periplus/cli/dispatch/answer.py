"""``periplus dispatch answer``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator

from periplus.cli.common.changes import add_insist, check_typed
from periplus.cli.common.face import Face, visible


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the question, or a unique prefix of its id")
    parser.add_argument("text", metavar="TEXT", help="the answer")
    parser.add_argument("--key", default="", metavar="KEY",
                        help="repeat a write with an unknown outcome under its key; it is written at most once")  # fmt: skip
    add_insist(parser)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.dispatch.schemas import AnsweredOut
    from periplus.dispatch.reports.stored import question_of
    from periplus.memory.coordination.dispatches import answer_question

    check_typed(arguments)
    with face.open(allow_secrets=arguments.insist) as project:
        found = answer_question(project.journal, project.writer, arguments.id, arguments.text, key=arguments.key)
    one = question_of(found.value)
    result = AnsweredOut(found.item_id, one.assignment, one.answer, one.answered_by)

    def lines() -> Iterator[str]:
        yield f"Answered {result.question}; {visible(one.asker or 'the merge queue')} goes on with it: {visible(' '.join(one.answer.split()))}"

    return face.emit(result, lines)
