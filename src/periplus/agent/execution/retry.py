"""Retries of model requests. This is the only layer of them: adapters and SDKs do not retry.

The wait doubles from ``BASE_S`` to ``CAP_S``, less a random part of up to a half, so that many clients do not come back at once. A
Retry-After of the provider is a lower bound. ``RetriesExhaustedError`` is raised if the provider asks for more than ``RETRY_AFTER_S_MAX``,
if all waits together pass ``TOTAL_S_MAX``, or after ``ATTEMPTS_MAX`` attempts; a person can then decide better.
"""

from __future__ import annotations

__all__ = ["ATTEMPTS_MAX", "Gone", "RetriesExhaustedError", "Retrying", "retry_wait_s", "with_retries"]

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from periplus.agent.contracts import ContextOverflowError, LLMClient, ModelError
from periplus.agent.execution.loop_messages import error_text, wait_text

T = TypeVar("T")
ATTEMPTS_MAX: Final = 10
BASE_S: Final = 1.0
CAP_S: Final = 60.0
RETRY_AFTER_S_MAX: Final = 300.0
TOTAL_S_MAX: Final = 900.0


class Retrying(NamedTuple):
    """The surroundings of a retry: ``random`` returns 0 to 1; ``wait`` waits and returns whether it was cancelled; ``report`` gets the
    number of the failed attempt, the wait and the error.
    """

    random: Callable[[], float]
    wait: Callable[[float], bool]
    report: Callable[[int, float, Exception], None]


class Gone(NamedTuple):
    """The wait for the next attempt was cancelled."""

    error: Exception


class RetriesExhaustedError(ModelError):
    """A retryable error after the longest acceptable wait: what it was, and how to continue."""

    def __init__(self, error: Exception, why: str) -> None:
        what = error_text(error)
        status = error.status if isinstance(error, ModelError) else 0
        super().__init__(what if what[-1:] in ".!?…" else f"{what}.", is_retryable=True, status=status, mend=why)


def retry_wait_s(attempt: int, retry_after_s: float | None, random: float) -> float:
    """Seconds to wait after attempt number ``attempt`` (from 1) failed."""
    wait_s = min(CAP_S, BASE_S * 2.0 ** (attempt - 1)) * (1 - random / 2)
    if retry_after_s is None:
        return wait_s
    return max(0.0, retry_after_s) + min(wait_s, 1.0) * random


def with_retries(client: LLMClient, attempt_once: Callable[[], T], retrying: Retrying) -> tuple[T, int] | Gone:
    """Return the result of ``attempt_once`` and the number of failed attempts. Raises RetriesExhaustedError and errors that waiting does
    not mend.
    """
    waited_s = 0.0
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            return attempt_once(), attempt - 1
        except Exception as error:  # from any client; errors that cannot be retried are raised again
            if not _is_retryable(client, error):
                raise
            asked_s = _retry_after_s(client, error)
            wait_s = retry_wait_s(attempt, asked_s, retrying.random())
            if (asked_s or 0.0) > RETRY_AFTER_S_MAX:
                raise RetriesExhaustedError(
                    error, f"The provider asks to wait {wait_text(asked_s or 0.0)}; try again then."
                ) from error
            if attempt == ATTEMPTS_MAX or waited_s + wait_s > TOTAL_S_MAX:
                why = f"{attempt} attempts within {wait_text(waited_s)} failed; try again later."
                raise RetriesExhaustedError(error, why) from error
            failure = error
        waited_s += wait_s
        retrying.report(attempt, wait_s, failure)
        if retrying.wait(wait_s):
            return Gone(failure)
    raise AssertionError("the last attempt returns or raises")


def _is_retryable(client: LLMClient, error: Exception) -> bool:
    if isinstance(error, ContextOverflowError):
        return False
    if isinstance(error, ModelError):
        return error.is_retryable
    asked = getattr(client, "is_retryable", None)
    return bool(asked(error)) if asked is not None else False


def _retry_after_s(client: LLMClient, error: Exception) -> float | None:
    """Seconds that the provider asked for, if they are a valid time."""
    asked = getattr(client, "retry_after", None)
    found = error.retry_after_s if isinstance(error, ModelError) else asked(error) if asked is not None else None
    return float(found) if found is not None and 0 <= found < float("inf") else None
