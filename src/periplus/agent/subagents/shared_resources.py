"""Resources that a session shares with its subagents: its model, its person, its hooks. One user at a time."""

from __future__ import annotations

__all__ = ["Person", "ReadOnlyHook", "SharedHook", "shared_client"]

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from periplus.agent.contracts import (
    Answer,
    Approver,
    AssistantMessage,
    LLMClient,
    Message,
    ModelError,
    Stop,
    StreamEvent,
    StreamingClient,
    ToolCall,
    ToolDecision,
    ToolResult,
    ToolSchema,
    Usage,
)
from periplus.agent.hooks import Hook
from periplus.agent.subagents.deadlines import Watch
from periplus.agent.tools.dialogue_tools import Asker

_LOOKS_S: Final = 0.1
_READING: Final = frozenset(
    {"read", "list", "search", "recall", "plan", "ask_user", "web_fetch", "web_search", "skill"}
)


class _LentClient:
    def __init__(self, client: LLMClient, lock: threading.Lock) -> None:
        self._client, self._lock = client, lock
        self._is_mine = self._is_stopped = False

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> AssistantMessage:
        self._take()
        try:
            return self._client.complete(messages, tools)
        finally:
            self._give()

    def is_retryable(self, error: Exception) -> bool:
        asked = getattr(self._client, "is_retryable", None)
        return bool(asked(error)) if asked is not None else False

    def retry_after(self, error: Exception) -> float | None:
        asked = getattr(self._client, "retry_after", None)
        return asked(error) if asked is not None else None

    def cancel(self) -> None:
        self._is_stopped = True
        cancel = getattr(self._client, "cancel", None)
        if self._is_mine and cancel is not None:
            cancel()

    def _take(self) -> None:
        is_taken = False
        while not is_taken and not self._is_stopped:
            is_taken = self._lock.acquire(timeout=_LOOKS_S)
        self._is_mine = is_taken
        if self._is_stopped:  # stopped while it waited, or just as it got the model
            if is_taken:
                self._give()
            raise ModelError("the turn was stopped")

    def _give(self) -> None:
        self._is_mine = False
        self._lock.release()


class _LentStreamingClient(_LentClient):
    def stream(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Iterator[StreamEvent]:
        assert isinstance(self._client, StreamingClient)
        self._take()
        try:
            yield from self._client.stream(messages, tools)
        finally:
            self._give()


def shared_client(client: LLMClient, lock: threading.Lock) -> LLMClient:
    """Share ``client`` among subagents that take turns, if no other client can be opened."""
    return _LentStreamingClient(client, lock) if isinstance(client, StreamingClient) else _LentClient(client, lock)


class Person:
    """The person of the session, told which subagent asks. The clocks of ``watch`` stand still meanwhile; a stopped subagent asks no more."""

    def __init__(
        self, who: str, lock: threading.Lock, watch: Watch, approver: Approver | None, asker: Asker | None
    ) -> None:
        self._who, self._lock, self._watch = who, lock, watch
        self._approver, self._asker = approver, asker

    def approve(self, call: ToolCall, decision: ToolDecision) -> Answer:
        assert self._approver is not None
        reason = f"{self._who} asks: {decision.reason}"
        with self._watch.asking(), self._lock:
            if self._watch.is_stopped:
                return "no"
            return self._approver.approve(call, msgspec.structs.replace(decision, reason=reason))

    def ask(self, question: str, options: Sequence[str]) -> str | None:
        assert self._asker is not None
        with self._watch.asking(), self._lock:
            return None if self._watch.is_stopped else self._asker(f"{self._who} asks: {question}", options)


class ReadOnlyHook(Hook):
    """Denies every call that could change something."""

    @property
    def name(self) -> str:
        return "only reading"

    def authorize_tool(self, name: str, args: Mapping[str, Any]) -> ToolDecision | None:
        if name in _READING or (name == "spawn_agent" and args.get("mode", "read-only") == "read-only"):
            return None
        if name == "mcp" and "arguments" not in args:  # a listing
            return None
        return ToolDecision(allow=False, reason="this subagent only reads; report what you would change or run")


class SharedHook(Hook):
    """A hook of the session, shared at its policy seams. The seams of a turn run for the session's own turn, not for a subagent's."""

    def __init__(self, hook: Hook, lock: threading.RLock) -> None:
        self._hook, self._lock = hook, lock

    @property
    def name(self) -> str:
        return str(getattr(self._hook, "name", type(self._hook).__name__))

    def before_step(self, step: int) -> Stop | None:
        return self._asked("before_step", step)  # type: ignore[no-any-return]  # checked by who asks

    def prepare_messages(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        return self._asked("prepare_messages", messages)  # type: ignore[no-any-return]  # as above

    def record_step_usage(self, usage: Usage) -> Stop | None:
        return self._asked("record_step_usage", usage)  # type: ignore[no-any-return]  # as above

    def authorize_tool(self, name: str, args: Mapping[str, Any]) -> ToolDecision | None:
        return self._asked("authorize_tool", name, args)  # type: ignore[no-any-return]  # as above

    def transform_tool_result(self, call: ToolCall, result: ToolResult) -> ToolResult | None:
        return self._asked("transform_tool_result", call, result)  # type: ignore[no-any-return]  # as above

    def _asked(self, seam: str, *values: Any) -> Any:
        asked = getattr(self._hook, seam, None)
        if asked is None:
            return None
        with self._lock:
            return asked(*values)
