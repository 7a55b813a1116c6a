"""Evidence of what an agent did, once its run has ended: result file, commits, changed files, exit code, in this order.

An agent's own word never counts as a proof. It says that the agent regards its work as done, and the oracle decides.
"""

from __future__ import annotations

__all__ = ["CUT", "Evidence", "Outcome", "judged"]

from typing import Final, Literal, TypeAlias

from periplus.base.named_tuple import NamedTuple
from periplus.dispatch.handover.result_file import HandedIn

Outcome: TypeAlias = Literal["submitted", "question", "failed", "timed_out", "returned", "cut"]


class Evidence(NamedTuple):
    """Findings after a run. ``commits`` and ``paths`` are those of the branch beyond its base, work that was committed
    for the agent included. ``code`` is None where nothing tells it. ``blocked`` are paths under claims of others; ``unfit`` says why
    what is in the worktree cannot be taken as it is.
    """

    handed_in: HandedIn
    commits: int
    paths: tuple[str, ...]
    ending: str  # exited, stopped, wall, silence, limit, disk, lost
    code: int | None
    last_words: str = ""
    secrets: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    tokens: int = 0
    unfit: str = ""


class Judgement(NamedTuple):
    """``text`` is the reason for people and, where the work goes back, for the agent. A run that was "cut" ended by no fault of
    its own, and before it handed in: stopped by a person, or gone with the machine.
    """

    outcome: Outcome
    text: str = ""


def judged(evidence: Evidence) -> Judgement:
    """Return how a run is taken."""
    result = evidence.handed_in.result
    if evidence.ending in _ENDINGS and (result is None or result.status != "done"):
        return Judgement("timed_out", _ENDINGS[evidence.ending])
    if result is not None and result.status == "question" and result.question:
        return Judgement("question", result.question)
    if result is not None and result.status == "failed":
        return Judgement("failed", result.summary or "the agent says that it failed, not why")
    wrong = _wrong(evidence)
    if wrong:
        return Judgement("returned", wrong)
    if result is not None:
        return Judgement("submitted", result.summary)
    if evidence.ending in CUT:
        return Judgement("cut", CUT[evidence.ending])
    if evidence.handed_in.refusal not in ("", "absent") and evidence.commits:
        return Judgement("returned", evidence.handed_in.problem)
    if evidence.code == 0 and evidence.commits:
        return Judgement("submitted", "")
    words = f"; its last words: {evidence.last_words}" if evidence.last_words else ""
    what = "nothing was changed and nothing handed in" if not evidence.commits else "nothing was handed in"
    told = f" ({evidence.handed_in.problem})" if evidence.handed_in.refusal not in ("", "absent") else ""
    return Judgement(
        "failed", f"it ended with {'a signal' if evidence.code is None else evidence.code}: {what}{told}{words}"
    )


def _wrong(evidence: Evidence) -> str:
    """Return why work is not taken whatever the agent says of it."""
    if evidence.unfit:
        return evidence.unfit
    if evidence.secrets:
        return f"The commits contain secrets: {', '.join(evidence.secrets[:5])}. Rewrite the commits of your branch without them."
    if evidence.blocked:
        return (
            f"The change touches what others have claimed: {', '.join(evidence.blocked[:5])}. Undo that part of it; say in the result"
            " file what should be done there."
        )
    return ""


CUT: Final = {
    "stopped": "it was stopped before it handed anything in",
    "lost": "its process is gone, and nothing says how it ended",
}
_ENDINGS: Final = {
    "wall": "it took longer than its limit",
    "silence": "it gave no sign of life: no output, no change of a file, no processor time",
    "limit": "the limit of tokens or money was reached",
    "disk": "its worktree grew beyond its limit",
}
