"""Client of Anthropic's Messages API (https://docs.anthropic.com/en/api/messages) on the official SDK, with explicit cache marks."""

from __future__ import annotations

__all__ = ["AnthropicClient", "Assembled", "body_of"]

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from periplus.agent.contracts import (
    AssistantMessage,
    FinishReason,
    Message,
    StreamEvent,
    ToolCall,
    ToolSchema,
    Usage,
)
from periplus.agent.models.parts import (
    CONNECT_S,
    IDLE_S,
    SdkClient,
    broken_off,
    call_of,
    known_id,
    known_name,
    missing,
    reading,
)

_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
_MARKS_MAX: Final = 4  # cache marks in one request
_FINISH: Final[Mapping[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


def body_of(
    messages: Sequence[Message], tools: Sequence[ToolSchema], *, model: str, max_tokens: int, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """Build the body of a request. System messages become the system prompt; tool results are user messages and come first."""
    marks = [at for at, message in enumerate(messages) if message.breakpoint]
    marked = {*marks[:1], *marks[1:][-(_MARKS_MAX - 1) :]}
    system: list[dict[str, Any]] = []
    turns: list[dict[str, Any]] = []
    for at, message in enumerate(messages):
        blocks = _blocks(message)
        if at in marked and blocks and blocks[-1]["type"] not in _THOUGHTS:
            blocks[-1]["cache_control"] = {"type": "ephemeral"}
        if message.role == "system":
            system += blocks
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    body: dict[str, Any] = {"model": model, "max_tokens": max_tokens, "messages": turns}
    if system:
        body["system"] = system
    if tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in tools
        ]
    return body | dict(extra)


def _blocks(message: Message) -> list[dict[str, Any]]:
    images = [
        {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": _base64(image.data)}}
        for image in message.images
    ]
    text = [{"type": "text", "text": message.content}] if message.content.strip() else []
    if message.role == "tool":
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": known_id(message.tool_call_id)}
        if text or images:
            result["content"] = [*text, *images]
        if message.outcome != "ok":
            result["is_error"] = True
        return [result]
    if message.role == "assistant":
        calls = [
            {"type": "tool_use", "id": known_id(call.id), "name": known_name(call.name), "input": dict(call.args)}
            for call in message.tool_calls
        ]
        # Reasoning of another provider is left out: a session may continue with another model.
        thoughts = [dict(block) for block in message.reasoning if block.get("type") in _THOUGHTS]
        return [*thoughts, *text, *calls]
    return [*images, *text]


def _base64(data: bytes) -> str:
    import binascii

    return binascii.b2a_base64(data, newline=False).decode()


class Assembled:
    """An answer assembled from its events."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._text: list[str] = []
        self._blocks: dict[int, dict[str, Any]] = {}
        self._usage: dict[str, int] = {}
        self._stop = ""
        self._is_whole = False

    def take(self, event: Any) -> StreamEvent | None:
        kind = event.type
        if kind == "message_start":
            self._model = event.message.model or self._model
            self._count(event.message.usage)
        elif kind == "content_block_start":
            block = event.content_block.model_dump(exclude_none=True)
            self._blocks[event.index] = block | {"pieces": []}
            if block["type"] == "tool_use":
                return StreamEvent(kind="tool_call", text=block.get("name", ""))
        elif kind == "content_block_delta":
            return self._delta(event.index, event.delta)
        elif kind == "message_delta":
            self._stop = event.delta.stop_reason or self._stop
            self._count(event.usage)
        elif kind == "message_stop":
            self._is_whole = True
        return None

    def _delta(self, index: int, delta: Any) -> StreamEvent | None:
        block = self._blocks.get(index)
        if block is None:
            return None
        if delta.type == "text_delta":
            self._text.append(delta.text)
            return StreamEvent(kind="text", text=delta.text)
        if delta.type == "input_json_delta":
            block["pieces"].append(delta.partial_json)
        elif delta.type == "thinking_delta":
            block["pieces"].append(delta.thinking)
            return StreamEvent(kind="reasoning", text=delta.thinking)
        elif delta.type == "signature_delta":
            block["signature"] = block.get("signature", "") + delta.signature
        return None

    def _count(self, usage: Any) -> None:
        for name in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"):
            value = getattr(usage, name, None)
            if value is not None:
                self._usage[name] = max(value, 0)

    def message(self, cost: Callable[[Usage], int]) -> AssistantMessage:
        """Return the whole answer. Raises ModelError if it broke off."""
        if not self._is_whole:
            raise broken_off()
        calls: list[ToolCall] = []
        reasoning: list[dict[str, Any]] = []
        for index in sorted(self._blocks):
            block = self._blocks[index]
            joined = "".join(block.pop("pieces"))
            if block["type"] == "tool_use":
                made = call_of(block["id"], block["name"], joined)
                calls.append(
                    made
                    if joined or not block.get("input")
                    else ToolCall(id=made.id, name=made.name, args=block["input"])
                )
            elif block["type"] == "thinking":
                reasoning.append({"type": "thinking", "thinking": block.get("thinking", "") + joined,
                                  "signature": block.get("signature", "")})  # fmt: skip
            elif block["type"] == "redacted_thinking":
                reasoning.append({"type": "redacted_thinking", "data": block.get("data", "")})
        read = self._usage.get("cache_read_input_tokens", 0)
        written = self._usage.get("cache_creation_input_tokens", 0)
        usage = Usage(
            prompt_tokens=self._usage.get("input_tokens", 0) + read + written,
            completion_tokens=self._usage.get("output_tokens", 0), cached=read, cache_written=written,
        )  # fmt: skip
        import msgspec

        return AssistantMessage(
            content="".join(self._text), tool_calls=tuple(calls), reasoning=tuple(reasoning), model=self._model,
            finish_reason=_FINISH.get(self._stop, "error"), usage=msgspec.structs.replace(usage, cost=cost(usage)),
        )  # fmt: skip


class AnthropicClient(SdkClient):
    """A model of Anthropic, or of a server that speaks its protocol at ``base_url``."""

    def stream(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Iterator[StreamEvent]:
        self._pieces.begin()
        body = body_of(messages, tools, model=self._model, max_tokens=self._max_tokens, extra=self._extra)
        client = self._client
        found = Assembled(self._model)
        for event in self._pieces.read(lambda: client.messages.create(**body, stream=True), self._provider):
            with reading(self._provider):
                told = found.take(event)
            if told is not None:
                yield told
        yield StreamEvent(kind="message", message=found.message(self._cost))

    def _open(self) -> Any:
        try:
            import anthropic
            import httpx2
        except ImportError as error:
            raise missing("anthropic") from error
        patience = httpx2.Timeout(IDLE_S, connect=CONNECT_S)
        return anthropic.Anthropic(api_key=self._key, base_url=self._base_url, max_retries=0, timeout=patience)
