"""Outcomes of the parts of one command when only the outcome of the whole is known. Pure.

If the whole succeeded, each part succeeded whose failure would have failed the whole; for another part (``is_hidden``)
only the last output of its program counts. If the whole failed, one part failed, and the parts after it
were not run. The failed part is found by the same output and by the order: the parts before one that ran
succeeded. Where that decides nothing the outcome is unknown, and its error describes the whole.
"""

from __future__ import annotations

__all__ = ["Ending", "Planned", "endings_of_parts"]

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from periplus.interop.shell_commands.actions import git_ending, passed_count, runner_ending, unreached_error
from periplus.trail.model import OperandValue, Outcome

Ending: TypeAlias = tuple[Outcome, str | None]

_NOT_RUN: Final[Ending] = ("cancelled", "not run: what stood before it in the command failed")
_UNKNOWN: Final[Ending] = ("unknown", None)


class Planned(NamedTuple):
    """A step without its outcome, which is that of its call. A hidden part of a command may have failed in a
    successful command, and in a failed one other parts (``rivals``) may be the cause: such a step has its own
    ``ending``.
    """

    op: str
    operands: list[OperandValue]
    note: str | None = None
    is_hidden: bool = False
    rivals: int = 0
    ending: Ending | None = None


def endings_of_parts(steps: Sequence[Planned], outcome: Outcome, why: str, output: str) -> list[Ending | None]:
    """Return the ending of each step of a call that ended with ``outcome``; None for one that ended like the call.
    ``why`` describes the failure of the whole.
    """
    is_alone = sum(step.op == "TEST_RUN" for step in steps) <= 1

    def told(step: Planned) -> Ending:
        end = _told(step, output)
        is_any = step.op == "TEST_RUN" and end[0] == "failed" and not is_alone  # which tests failed is unknown
        return _UNKNOWN if is_any else end

    if outcome == "ok":
        return [told(step) if step.is_hidden else None for step in steps]
    if outcome != "failed":
        return [None] * len(steps)
    shared = [at for at, step in enumerate(steps) if step.rivals and not step.is_hidden]
    ends: dict[int, Ending | None] = dict.fromkeys(range(len(steps)))
    for at, step in enumerate(steps):
        if step.is_hidden or step.rivals:
            ends[at] = told(step)
        elif step.op in ("TEST_RUN", "GIT_COMMIT", "GIT_PUSH") and told(step) == _UNKNOWN:
            line = unreached_error(output)
            ends[at] = ("unknown", line) if line else None
    _infer(shared, ends, is_whole=bool(shared) and len(shared) == steps[shared[0]].rivals + 1)
    return [("unknown", why) if end == _UNKNOWN else end for _, end in sorted(ends.items())]


def _infer(shared: list[int], ends: dict[int, Ending | None], *, is_whole: bool) -> None:
    """Infer outcomes from the order of parts that run one after the other. ``is_whole``: there are no other parts."""
    outcomes = {at: end[0] for at in shared if (end := ends[at]) is not None}
    last_ok = max((at for at in shared if outcomes[at] == "ok"), default=-1)
    failed = next((at for at in shared if at > last_ok and outcomes[at] == "failed"), None)
    reached = last_ok if failed is None else failed
    for at in shared:
        if at <= last_ok or (at < reached and at != failed):
            ends[at] = ("ok", None)
        elif failed is not None and at > failed:
            ends[at] = _NOT_RUN
    if failed is not None:
        ends[failed] = None  # it ended like the whole, with its exit code
    elif is_whole and shared and last_ok == shared[-2:][0] and len(shared) > 1:
        ends[shared[-1]] = None


def _told(step: Planned, output: str) -> Ending:
    if step.op == "TEST_RUN":
        return runner_ending(output, passed_count(output))
    if step.op in ("GIT_COMMIT", "GIT_PUSH"):
        return git_ending("commit" if step.op == "GIT_COMMIT" else "push", output)
    return _UNKNOWN
