"""Boards and their parts as JSON documents."""

from __future__ import annotations

__all__ = ["assignment_out", "dispatch_out", "question_out", "row_out"]

from periplus.cli.dispatch.schemas import (
    AssignmentOut,
    AttemptOut,
    DispatchOut,
    QuestionOut,
    ReturnOut,
    ReviewFindingOut,
    RowOut,
    SumsOut,
)
from periplus.dispatch.reports.board import Heading, OpenQuestion, Row
from periplus.dispatch.reports.stored import assignment_of
from periplus.journal import Entity


def dispatch_out(heading: Heading) -> DispatchOut:
    sums = heading.sums
    return DispatchOut(
        heading.dispatch, heading.state, heading.text, heading.plan, list(heading.agents), list(heading.reviewers), heading.lanes,
        heading.target, heading.branch, heading.base, list(heading.oracle), heading.created, heading.ended, heading.reason,
        heading.is_carried, SumsOut(sums.states, sums.tokens_in, sums.cached, sums.out, sums.cost, sums.wall_ms),
    )  # fmt: skip


def row_out(row: Row) -> RowOut:
    return RowOut(
        row.number, row.step, row.text, row.state, row.assignment, row.agent, row.kind, row.act, row.acted, list(row.waits_for),
        row.attempt, row.rounds, row.tokens, row.cost, row.wall_ms, row.run, row.trail, row.merged,
    )  # fmt: skip


def question_out(question: OpenQuestion) -> QuestionOut:
    return QuestionOut(
        question.question, question.assignment, question.asker, question.text, list(question.options), question.asked, question.expires
    )  # fmt: skip


def assignment_out(row: Row, held: Entity) -> AssignmentOut:
    one = assignment_of(held.value)
    return AssignmentOut(
        row_out(row), one.reason, one.summary, one.branch, one.worktree, one.base, one.tip, one.verified, one.verdict,
        [
            AttemptOut(
                run.id, run.agent, run.purpose, run.started, run.ended, run.ending, run.session, run.trail, run.tokens_in, run.cached,
                run.out, run.cost, run.wall_ms,
            )
            for run in one.runs
        ],
        [ReturnOut(back.why, back.text, back.at) for back in one.returns],
        [ReviewFindingOut(finding.severity, finding.path, finding.line, finding.text) for finding in one.findings],
        list(one.remarks),
    )  # fmt: skip
