"""Scripted model, for tests, demonstrations and programs that drive the loop."""

from __future__ import annotations

__all__ = ["Line", "ScriptEndedError", "ScriptedClient", "answer", "call"]

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from periplus.agent.contracts import (
    AssistantMessage,
    FinishReason,
    Message,
    ModelError,
    StreamEvent,
    ToolCall,
    ToolSchema,
    Usage,
)

Reply: TypeAlias = AssistantMessage | BaseException
Line: TypeAlias = Reply | str | Callable[[Sequence[Message], Sequence[ToolSchema]], "Reply | str"]


class ScriptEndedError(ModelError):
    """More answers were requested than the script has."""

    code = "script_ended"


def call(name: str, /, call_id: str = "", **args: Any) -> ToolCall:
    """Build a call; without an id it gets one from the loop."""
    return ToolCall(id=call_id, name=name, args=args)


def answer(
    text: str = "", *calls: ToolCall, finish: FinishReason | None = None, usage: Usage | None = None
) -> AssistantMessage:
    """Build an answer with ``text`` and ``calls``."""
    reason: FinishReason = finish or ("tool_calls" if calls else "stop")
    return AssistantMessage(content=text, tool_calls=calls, finish_reason=reason, usage=usage or Usage())


class ScriptedClient:
    """Returns the lines of ``script`` in order, or calls ``script`` if it is callable.

    A line is an answer, a text (an answer that ends the turn), an exception to raise, or a callable of messages and tools that returns one
    of these. ``requests`` records the requests in order. Missing usage is estimated at four characters a token, so that budgets have
    something to count.
    """

    def __init__(
        self, script: Iterable[Line] | Callable[[Sequence[Message], Sequence[ToolSchema]], Reply | str]
    ) -> None:
        self._always = script if callable(script) else None
        self._lines: Iterator[Line] = iter(()) if callable(script) else iter(script)
        self.requests: list[tuple[tuple[Message, ...], tuple[ToolSchema, ...]]] = []

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> AssistantMessage:
        self.requests.append((tuple(messages), tuple(tools)))
        line: Line
        if self._always is not None:
            line = self._always
        else:
            try:
                line = next(self._lines)
            except StopIteration:
                wrong = f"the script ended: answer {len(self.requests)} was asked for"
                raise ScriptEndedError(wrong, mend="Give the script another line.") from None
        reply = line(messages, tools) if callable(line) else line
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, str):
            reply = answer(reply)
        return reply if reply.usage != Usage() else _counted(reply, messages)

    def stream(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Iterator[StreamEvent]:
        """Yield the answer word by word."""
        message = self.complete(messages, tools)
        for word in message.content.splitlines(keepends=True):
            yield StreamEvent(kind="text", text=word)
        yield StreamEvent(kind="message", message=message)


def _counted(reply: AssistantMessage, messages: Sequence[Message]) -> AssistantMessage:
    import msgspec

    spoken = len(reply.content) + sum(len(str(one.args)) for one in reply.tool_calls)
    heard = sum(len(message.content) for message in messages)
    return msgspec.structs.replace(reply, usage=Usage(prompt_tokens=heard // 4 + 1, completion_tokens=spoken // 4 + 1))
