"""How the parts of one command ended, of which only the end of the whole is known. Pure.

Where the whole ended well, each part did whose failure would have been that of the whole; of another (``is_hidden``), what
its program said in its last words is told, and nothing else is known. Where the whole failed, one part did, and what stood
behind it in the list was not run. Which one is told by the same words, and by the order: what stood before one that was
run went well. Where that tells nothing the outcome is unknown, and its error says what is known of the whole.
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
    """A step but for its outcome, which is that of its call. What is hidden in a command may have failed where it
    ended well, and where it failed there may be ``rivals``, other parts that did: such a step has an ``ending`` of its own.
    """

    op: str
    operands: list[OperandValue]
    note: str | None = None
    is_hidden: bool = False
    rivals: int = 0
    ending: Ending | None = None


def endings_of_parts(steps: Sequence[Planned], outcome: Outcome, why: str, output: str) -> list[Ending | None]:
    """The ending of each step of a call that ended with ``outcome``; None for one that ended as the call did. ``why`` says what
    is known of the failure of the whole.
    """
    is_alone = sum(step.op == "TEST_RUN" for step in steps) <= 1

    def told(step: Planned) -> Ending:
        end = _told(step, output)
        is_any = step.op == "TEST_RUN" and end[0] == "failed" and not is_alone  # which of the tests, is not said
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
    """What follows of the order of parts each of which the next was run behind. ``is_whole`` says that there are no others."""
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
        ends[failed] = None  # it ended as the whole did, and with its exit code
    elif is_whole and shared and last_ok == shared[-2:][0] and len(shared) > 1:
        ends[shared[-1]] = None


def _told(step: Planned, output: str) -> Ending:
    if step.op == "TEST_RUN":
        return runner_ending(output, passed_count(output))
    if step.op in ("GIT_COMMIT", "GIT_PUSH"):
        return git_ending("commit" if step.op == "GIT_COMMIT" else "push", output)
    return _UNKNOWN
