"""Texts of the loop itself: to the model, and to the person when a turn is parked."""

from __future__ import annotations

__all__ = ["CONTINUE", "DENIED", "EMPTY", "NOBODY", "closing_note", "error_text", "wait_text"]

import math
from collections.abc import Mapping
from typing import Final

from periplus.agent.contracts import Stop, StopReason
from periplus.base.errors import PeriplusError

CONTINUE: Final = (
    "Your answer was cut off by the length limit. Go on exactly where it stopped, without repeating anything."
)
EMPTY: Final = "Your last answer was empty. Say what you found or did, or go on with the work."

DENIED: Final = "Denied: "
NOBODY: Final = "; nobody can be asked here"
_CLOSING: Final[Mapping[StopReason, str]] = {
    "done": "",
    "aborted": "Stopped by request.",
    "steps": "The step limit is reached.",
    "budget": "The budget of this turn is spent.",
    "stuck": "The work was going in circles.",
    "overflow": "The request is too long for the model, and nothing more can be left out.",
    "length": "The answer kept hitting the length limit.",
    "filter": "The answer was withheld.",
    "error": "Something failed.",
}


def closing_note(stop: Stop, steps: int, cancelled_because: str = "") -> str:
    """One or two sentences on the state of a parked turn; empty for a turn that is done."""
    if stop.reason == "done":
        return stop.note
    own = stop.note or (cancelled_because if stop.reason == "aborted" else "")
    opening = _CLOSING[stop.reason]
    if own and own[-1] not in ".!?…":
        own += "."
    why = f"{opening} {own}" if own and own != opening else opening
    done = (
        "Nothing was done yet."
        if steps == 0
        else f"{steps} step{'s stand' if steps != 1 else ' stands'}; the task is not finished."
    )
    return f"{why} {done}"


def wait_text(seconds: float) -> str:
    """Format a waiting time for people, rounded up."""
    if seconds <= 90:
        return f"{math.ceil(seconds)} s"
    return f"{math.ceil(seconds / 60):,} min" if seconds <= 5_400 else f"{math.ceil(seconds / 360) / 10:,.1f} h"


def error_text(error: BaseException) -> str:
    """Describe an error: what is wrong, what is safe, what to do."""
    if isinstance(error, PeriplusError):
        parts = [part for part in (str(error), error.safe, error.mend) if part]
        return " ".join(part if part[-1] in ".!?:" or part is parts[-1] else f"{part}." for part in parts)
    return f"{type(error).__name__}: {error}"
