"""Returns: the reasons for which work goes back to its author, each with what the author needs to go on."""

from __future__ import annotations

__all__ = [
    "AnsweredQuestion",
    "FailedOracle",
    "MergeConflict",
    "Return",
    "ReviewFindings",
    "UnusableResult",
    "command_line",
    "finding_lines",
    "return_parts",
]

import json
import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias, assert_never

from periplus.dispatch.handover.foreign_text import code_span, plain_line
from periplus.dispatch.handover.prompt_parts import Foreign, Own, Part
from periplus.dispatch.handover.result_file import Finding

COMMAND_CHARACTERS_MAX: Final = 2_000
RETURNS_SHOWN_MAX: Final = 4
_PATHS_MAX: Final = 100
_LATEST_SHARE: Final = 8
_EARLIER_SHARE: Final = 1


class ReviewFindings(NamedTuple):
    """Findings of a review; ``number`` counts reviews of this work from 1, at most ``most`` are made."""

    findings: tuple[Finding, ...]
    number: int
    most: int


class FailedOracle(NamedTuple):
    """The check failed: ``exit_code`` None where it was stopped at its limit; ``tail`` is the end of its output."""

    argv: tuple[str, ...]
    exit_code: int | None
    tail: str
    is_merged: bool = False  # it passed on the branch, and fails on the merge with the target


class MergeConflict(NamedTuple):
    """The branch does not merge: the changes of both sides in ``paths``, as diffs against their common base."""

    target: str
    paths: tuple[str, ...]
    ours: str
    theirs: str


class AnsweredQuestion(NamedTuple):
    question: str
    answer: str
    answered_by: str


class UnusableResult(NamedTuple):
    """Something about how the work was handed in: an unreadable result file, files outside of the claim, a placed file changed."""

    text: str


Return: TypeAlias = ReviewFindings | FailedOracle | MergeConflict | AnsweredQuestion | UnusableResult


def return_parts(returns: Sequence[Return]) -> list[Part]:
    """Return the parts of a prompt for returned work, the latest return first and with the most room."""
    latest = list(reversed(returns))[:RETURNS_SHOWN_MAX]
    parts: list[Part] = []
    for at, one in enumerate(latest):
        title = "# Why this work came back" if at == 0 else "# Earlier return"
        parts += _parts_of(one, title, _EARLIER_SHARE if at else _LATEST_SHARE)
    hidden = len(returns) - len(latest)
    return [*parts, Own(f"({hidden:,} earlier returns are left out.)")] if hidden > 0 else parts


def _parts_of(one: Return, title: str, share: int) -> list[Part]:
    match one:
        case ReviewFindings():
            blocking = sum(finding.severity == "blocking" for finding in one.findings)
            words = (
                f"{title}: review {one.number} of at most {one.most}\n"
                f"A reviewer read your diff. {blocking:,} of {len(one.findings):,} findings are blocking. Fix each blocking one, or say in `summary` "
                "by its number why it is wrong. Minor ones are yours to judge."
            )
            return [Own(words), Foreign(finding_lines(one.findings), "findings of the review", share)]
        case FailedOracle():
            how = "was stopped at its time limit" if one.exit_code is None else f"ended with exit code {one.exit_code}"
            where = "your branch merged with the target" if one.is_merged else "your branch"
            words = f"{title}: the check failed\nThe supervisor ran this on {where}; it {how}:\n\n    {command_line(one.argv)}\n\nThe end of its output:"
            return [Own(words), Foreign(one.tail, "output of the check", share, "tail")]
        case MergeConflict():
            shown = "\n".join(plain_line(path, 400) for path in one.paths[:_PATHS_MAX])
            words = (
                f"{title}: it conflicts with {code_span(one.target)}\n"
                f"{len(one.paths):,} files conflict. Merge {code_span(one.target)} into your branch, keep the intent of both sides, "
                "run the check, and commit the merge. Do not drop the other side's change to make the conflict go away."
            )
            return [Own(words), Foreign(shown, "files in conflict", 1), Foreign(one.ours, "your side", max(share // 2, 1)),
                    Foreign(one.theirs, "the other side", max(share // 2, 1))]  # fmt: skip
        case AnsweredQuestion():
            words = f"{title}: your question was answered by {code_span(one.answered_by, 80)}\nGo on with this answer."
            return [Own(words), Foreign(one.question, "your question", 1), Foreign(one.answer, "the answer", share)]
        case UnusableResult():
            return [
                Own(f"{title}: it could not be taken as it was handed in"),
                Foreign(one.text, "the supervisor's check", share),
            ]
        case _:
            assert_never(one)


def finding_lines(findings: Sequence[Finding]) -> str:
    """Return findings as numbered lines, blocking ones first."""
    ranked = sorted(findings, key=lambda one: one.severity != "blocking")
    rows = []
    for number, one in enumerate(ranked, 1):
        place = f"{one.path}:{one.line}" if one.path and one.line else one.path
        rows.append(f"{number}. [{one.severity}] {f'{place}: ' if place else ''}{' '.join(one.text.split())}")
    return "\n".join(rows)


def command_line(argv: Sequence[str]) -> str:
    """Return a command as one printable line of limited length; arguments that no shell line can show are written as JSON."""
    line = shlex.join(argv)
    if not line.isprintable():
        line = json.dumps(list(argv))
    return plain_line(line, COMMAND_CHARACTERS_MAX)
