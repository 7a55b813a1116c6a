"""Client of OpenAI's Responses API (https://platform.openai.com/docs/api-reference/responses) on the official SDK; nothing is stored
there.
"""

from __future__ import annotations

__all__ = ["OpenAIResponsesClient", "body_of", "message_of"]

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from periplus.agent.contracts import (
    AssistantMessage,
    FinishReason,
    Message,
    StreamEvent,
    ToolCall,
    ToolSchema,
    Usage,
)
from periplus.agent.models.openai_chat import open_sdk, token_usage
from periplus.agent.models.parts import SdkClient, broken_off, call_of, data_url, failure, known_id, known_name, reading


def body_of(
    messages: Sequence[Message], tools: Sequence[ToolSchema], *, model: str, max_tokens: int, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """Build the body of a request."""
    items: list[dict[str, Any]] = []
    for message in messages:
        seen = [{"type": "input_image", "image_url": data_url(image), "detail": "auto"} for image in message.images]
        if message.role == "tool":
            said: Any = message.content or f"({message.outcome})"
            if seen:
                said = [{"type": "input_text", "text": said}, *seen]
            items.append({"type": "function_call_output", "call_id": known_id(message.tool_call_id), "output": said})
        elif message.role == "assistant":
            if (
                message.content or message.tool_calls
            ):  # the API refuses such an item without what follows it, and items of other providers
                items += [dict(item) for item in message.reasoning if item.get("type") == "reasoning"]
            if message.content:
                items.append({"type": "message", "role": "assistant",
                              "content": [{"type": "output_text", "text": message.content}]})  # fmt: skip
            items += [_call(call) for call in message.tool_calls]
        else:
            items.append({"type": "message", "role": message.role,
                          "content": [*seen, {"type": "input_text", "text": message.content}]})  # fmt: skip
    body: dict[str, Any] = {
        "model": model, "input": items, "max_output_tokens": max_tokens, "store": False,
        "include": ["reasoning.encrypted_content"],
    }  # fmt: skip
    if tools:
        body["tools"] = [
            {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters,
             "strict": False}
            for tool in tools
        ]  # fmt: skip
    return body | dict(extra)


def _call(call: ToolCall) -> dict[str, Any]:
    import json

    arguments = json.dumps(call.args, ensure_ascii=False, separators=(",", ":"))
    return {
        "type": "function_call",
        "call_id": known_id(call.id),
        "name": known_name(call.name),
        "arguments": arguments,
    }


def message_of(response: Any, cost: Callable[[Usage], int]) -> AssistantMessage:
    """Turn a finished response into an answer. Raises ModelError if the response failed."""
    import msgspec

    text: list[str] = []
    calls: list[ToolCall] = []
    reasoning: list[dict[str, Any]] = []
    is_refused = False
    for item in response.output:
        if item.type == "message":
            for part in item.content:
                is_refused |= part.type == "refusal"
                text.append(part.text if part.type == "output_text" else getattr(part, "refusal", ""))
        elif item.type == "function_call":
            calls.append(call_of(item.call_id, item.name, item.arguments or ""))
        elif item.type == "reasoning":
            reasoning.append(item.model_dump(exclude_none=True, exclude={"status"}))
    finish: FinishReason = "tool_calls" if calls else "refusal" if is_refused else "stop"
    if response.status == "incomplete":
        reason = getattr(response.incomplete_details, "reason", "")
        finish = "filter" if reason == "content_filter" else "length"
    usage = _usage(response.usage) if response.usage is not None else Usage()
    return AssistantMessage(
        content="".join(text), tool_calls=tuple(calls), reasoning=tuple(reasoning), model=response.model or "",
        finish_reason=finish, usage=msgspec.structs.replace(usage, cost=cost(usage)),
    )  # fmt: skip


def _usage(usage: Any) -> Usage:
    return token_usage(
        usage.input_tokens,
        usage.output_tokens,
        getattr(usage, "input_tokens_details", None),
        getattr(usage, "output_tokens_details", None),
    )


class _ResponseError(Exception):
    """A response that reports its own failure."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.body = {"code": code, "message": message}


class OpenAIResponsesClient(SdkClient):
    """A model behind a responses endpoint."""

    def stream(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Iterator[StreamEvent]:
        self._pieces.begin()
        body = body_of(messages, tools, model=self._model, max_tokens=self._max_tokens, extra=self._extra)
        client = self._client
        for event in self._pieces.read(lambda: client.responses.create(**body, stream=True), self._provider):
            kind = event.type
            if kind in ("response.output_text.delta", "response.refusal.delta"):
                yield StreamEvent(kind="text", text=event.delta)
            elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
                yield StreamEvent(kind="reasoning", text=event.delta)
            elif kind == "response.output_item.added" and event.item.type == "function_call":
                yield StreamEvent(kind="tool_call", text=event.item.name)
            elif kind in ("response.completed", "response.incomplete"):
                with reading(self._provider):
                    message = message_of(event.response, self._cost)
                yield StreamEvent(kind="message", message=message)
                return
            elif kind in ("response.failed", "error"):
                told = event.response.error if kind == "response.failed" else event
                raise failure(
                    _ResponseError(getattr(told, "code", "") or "", getattr(told, "message", "") or "it failed"),
                    self._provider,
                )
        raise broken_off()

    def _open(self) -> Any:
        return open_sdk(self._key, self._base_url)
