"""Calls of a session that wait for results."""

from __future__ import annotations

__all__ = ["OpenCalls"]

from collections import deque

from periplus.interop.conversion.intake import PENDING_CALLS_MAX, Call, Intake


class OpenCalls:
    """Open calls by id, which may repeat, and in order for calls and results without ids. Bounded: calls that the
    intake has given up are dropped.
    """

    def __init__(self) -> None:
        self._named: dict[str, deque[Call]] = {}
        self._nameless: deque[Call] = deque(maxlen=PENDING_CALLS_MAX)

    def add(self, call_id: str, call: Call) -> None:
        if not call_id:
            self._nameless.append(call)
            return
        self._named.setdefault(call_id, deque(maxlen=PENDING_CALLS_MAX)).append(call)
        if len(self._named) > 2 * PENDING_CALLS_MAX:
            waiting = {key: [call for call in calls if not call.is_ready] for key, calls in self._named.items()}
            self._named = {key: deque(calls, PENDING_CALLS_MAX) for key, calls in waiting.items() if calls}

    def claim(self, call_id: str) -> Call | None:
        """Return the call of a result with this id; without an id, the oldest call without one."""
        if not call_id:
            return self._nameless.popleft() if self._nameless else None
        calls = self._named.get(call_id)
        if calls is None:
            return None
        call = calls.popleft()
        if not calls:
            del self._named[call_id]
        return call

    def has(self, call_id: str) -> bool:
        return call_id in self._named

    def release(self, intake: Intake) -> None:
        """Give up all calls: they end without a result."""
        for call in self._waiting():
            intake.release(call)

    def cancel(self) -> None:
        """Mark the waiting calls as cancelled after an interruption."""
        for call in self._waiting():
            call.outcome = "cancelled"

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting())

    def _waiting(self) -> list[Call]:
        calls = [call for calls in self._named.values() for call in calls]
        return [call for call in (*calls, *self._nameless) if not call.is_ready]
