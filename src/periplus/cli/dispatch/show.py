"""``periplus dispatch show``: the board of a dispatch, or one assignment."""

from __future__ import annotations

__all__ = ["configure", "execute", "next_lines", "show_board"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.cli.common.face import Face, visible

if TYPE_CHECKING:
    from periplus.cli.dispatch.schemas import AssignmentOut, DispatchShowOut
    from periplus.dispatch.reports.board import Board, Row
    from periplus.journal import Entity
    from periplus.project import Project


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", default="", metavar="ID",
                        help="a dispatch, an assignment or a step, or a unique prefix of its id (default: the open dispatch, else the newest)")  # fmt: skip


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.common.face import plain
    from periplus.dispatch.reports.board import board_of
    from periplus.memory.coordination.assignments import find_assignment
    from periplus.memory.coordination.dispatches import find_dispatch

    plain(arguments.id, "ID")
    with face.open() as project:
        held = _held(project, arguments.id)
        if held is None or held.item_type == "dispatch":
            board = board_of(project.journal, held or find_dispatch(project.journal, arguments.id))
            face.warn(project.journal.damage)
            return show_board(face, board)
        assignment = find_assignment(project.journal, arguments.id)
        board = board_of(project.journal, find_dispatch(project.journal, str(assignment.value.get("dispatch", ""))))
        face.warn(project.journal.damage)
        return _show_assignment(face, board, assignment)


def _held(project: Project, reference: str) -> Entity | None:
    if not reference:
        return None
    project.journal.refresh()
    return project.journal.find(reference)


def show_board(face: Face, board: Board) -> int:
    """Print a board once."""
    from periplus.cli.dispatch.documents import dispatch_out, question_out, row_out
    from periplus.cli.dispatch.schemas import DispatchShowOut
    from periplus.cli.dispatch.table import board_lines

    result = DispatchShowOut(
        dispatch_out(board.heading), [row_out(one) for one in board.rows], [question_out(one) for one in board.questions], None
    )  # fmt: skip

    def lines() -> Iterator[str]:
        yield from board_lines(board, face.palette, face.width)
        yield from next_lines(board)

    return face.emit(result, lines)


def next_lines(board: Board) -> Iterator[str]:
    """Yield what a person can do about a dispatch now."""
    heading, states = board.heading, {row.state for row in board.rows}
    if heading.state != "done" and heading.is_carried is False:
        yield f"To go on: periplus dispatch start --resume {heading.dispatch}"
    if states & {"failed", "timed_out", "cancelled"}:
        yield "To see why: periplus dispatch show STEP; to try again: periplus dispatch retry STEP"


def _show_assignment(face: Face, board: Board, assignment: Entity) -> int:
    from periplus.cli.dispatch.documents import assignment_out, dispatch_out, question_out, row_out
    from periplus.cli.dispatch.schemas import DispatchShowOut

    row = next(one for one in board.rows if one.assignment == assignment.item_id)
    questions = [one for one in board.questions if one.assignment == assignment.item_id]
    result = DispatchShowOut(
        dispatch_out(board.heading), [row_out(row)], [question_out(one) for one in questions], assignment_out(row, assignment)
    )  # fmt: skip
    return face.emit(result, lambda: _assignment_lines(face, result, row, board))


def _assignment_lines(face: Face, result: DispatchShowOut, row: Row, board: Board) -> Iterator[str]:
    from periplus.cli.dispatch.table import question_lines, row_lines

    one = result.assignment
    assert one is not None
    paint, width = face.palette, face.width
    yield f"{paint.name}{row.assignment}{paint.end} of {result.dispatch.id}, step {row.number} {row.step}"
    yield from row_lines(row, paint, width)
    for name, value in (
        ("reason", one.reason), ("summary", one.summary), ("branch", one.branch), ("worktree", one.worktree), ("submitted", one.tip),
        ("verified", one.verified), ("merged", row.merged), ("verdict", one.verdict),
    ):  # fmt: skip
        if value:
            yield visible(f"  {name:10} {' '.join(value.split())}", width)
    yield from _history_lines(face, one)
    yield from question_lines([asked for asked in board.questions if asked.assignment == row.assignment], paint, width)
    if row.state in ("failed", "timed_out", "cancelled"):
        yield f"To try again: periplus dispatch retry {row.assignment}"
        yield f"To give it up: periplus dispatch drop {row.assignment}"


def _history_lines(face: Face, one: AssignmentOut) -> Iterator[str]:
    from periplus.cli.dispatch.table import money_text, time_text, tokens_text

    width = face.width
    for run in one.runs:
        spent = " ".join(
            filter(
                None, (tokens_text(run.tokens_in + run.cached + run.out), money_text(run.cost), time_text(run.wall_ms))
            )
        )
        ending = run.ending or ("ended" if run.ended else "goes on")
        trail = f"  periplus trail show {run.trail}" if run.trail else ""
        yield visible(
            f"  run {run.started[:19]}  {run.purpose:6} {run.agent or '-'}  {ending}  {spent}{trail}".rstrip(), width
        )
    for back in one.returns:
        yield visible(f"  returned {back.at[:19]}  {back.why}: {' '.join(back.text.split())}", width)
    for finding in one.findings:
        place = f"{finding.path}:{finding.line}: " if finding.line else f"{finding.path}: " if finding.path else ""
        yield visible(f"  {finding.severity}  {place}{' '.join(finding.text.split())}", width)
    for remark in one.remarks:
        yield visible(f"  note  {' '.join(remark.split())}", width)
