"""Client of chat completions (https://platform.openai.com/docs/api-reference/chat), which most local servers speak too, on the official
SDK.
"""

from __future__ import annotations

__all__ = ["Assembled", "OpenAIChatClient", "body_of", "open_sdk", "token_usage"]

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from periplus.agent.contracts import (
    AssistantMessage,
    FinishReason,
    Message,
    StreamEvent,
    ToolSchema,
    Usage,
)
from periplus.agent.models.parts import (
    CONNECT_S,
    IDLE_S,
    SdkClient,
    broken_off,
    call_of,
    data_url,
    known_id,
    known_name,
    missing,
    reading,
)

_FINISH: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "filter",
}


def body_of(
    messages: Sequence[Message], tools: Sequence[ToolSchema], *, model: str, max_tokens: int, limit_name: str,
    extra: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Build the body of a request. Pictures of tools follow all results, since the results may only be text."""
    turns: list[dict[str, Any]] = []
    pictures: list[dict[str, Any]] = []
    for message in messages:
        if message.role != "tool" and pictures:
            turns.append({"role": "user", "content": pictures})
            pictures = []
        seen = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in message.images]
        if message.role == "tool":
            said = message.content or f"({message.outcome})"
            turns.append({"role": "tool", "tool_call_id": known_id(message.tool_call_id), "content": said})
            pictures += seen
        elif message.role == "assistant":
            turn: dict[str, Any] = {"role": "assistant", "content": message.content}
            if message.tool_calls:
                turn["tool_calls"] = [
                    {"id": known_id(call.id), "type": "function",
                     "function": {"name": known_name(call.name), "arguments": _arguments(call.args)}}
                    for call in message.tool_calls
                ]  # fmt: skip
            turns.append(turn)
        elif seen:
            turns.append({"role": message.role, "content": [*seen, {"type": "text", "text": message.content}]})
        else:
            turns.append({"role": message.role, "content": message.content})
    if pictures:
        turns.append({"role": "user", "content": pictures})
    body: dict[str, Any] = {"model": model, "messages": turns, limit_name: max_tokens}
    if tools:
        body["tools"] = [
            {"type": "function",
             "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}}
            for tool in tools
        ]  # fmt: skip
    return body | dict(extra)


def _arguments(args: Mapping[str, Any]) -> str:
    """Encode arguments the same way each time, so that earlier messages are sent again byte for byte."""
    import json

    return json.dumps(args, ensure_ascii=False, separators=(",", ":"))


class Assembled:
    """An answer assembled from its chunks."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._text: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._places: dict[int, int] = {}  # by index, if that differs from the place
        self._usage = Usage()
        self._stop = ""
        self._is_refused = False

    def take(self, chunk: Any) -> Iterator[StreamEvent]:
        self._model = chunk.model or self._model
        if chunk.usage is not None:
            self._usage = usage_of(chunk.usage)
        for choice in (chunk.choices or ())[:1]:
            self._stop = choice.finish_reason or self._stop
            delta = choice.delta
            if delta is None:
                continue
            thought = getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None)
            if isinstance(thought, str) and thought:
                yield StreamEvent(kind="reasoning", text=thought)
            refusal = getattr(delta, "refusal", None)
            self._is_refused |= bool(refusal)
            for text in (delta.content, refusal):
                if text:
                    self._text.append(text)
                    yield StreamEvent(kind="text", text=text)
            for call in delta.tool_calls or ():
                yield from self._call(call)

    def _call(self, piece: Any) -> Iterator[StreamEvent]:
        index = max(piece.index if piece.index is not None else len(self._calls) - (not piece.id), 0)
        at = self._places.get(index, index)
        held = self._calls.setdefault(at, {"id": "", "name": "", "pieces": []})
        if (
            piece.id and held["id"] and piece.id != held["id"]
        ):  # some servers give all calls of an answer the same index
            at = self._places[index] = max(self._calls) + 1
            held = self._calls[at] = {"id": "", "name": "", "pieces": []}
        held["id"] = piece.id or held["id"]
        if piece.function is not None:
            if piece.function.name:
                held["name"] = held["name"] or piece.function.name
                yield StreamEvent(kind="tool_call", text=held["name"])
            held["pieces"].append(piece.function.arguments or "")

    def message(self, cost: Callable[[Usage], int]) -> AssistantMessage:
        """Return the whole answer. Raises ModelError if it broke off."""
        import msgspec

        if not self._stop:
            raise broken_off()
        calls = [call_of(call["id"], call["name"], "".join(call["pieces"])) for _, call in sorted(self._calls.items())]
        finish: FinishReason = _FINISH.get(self._stop, "error")
        if calls and finish == "stop":
            finish = "tool_calls"  # some servers report it so
        return AssistantMessage(
            content="".join(self._text), tool_calls=tuple(calls), model=self._model,
            finish_reason="refusal" if self._is_refused and not calls else finish,
            usage=msgspec.structs.replace(self._usage, cost=cost(self._usage)),
        )  # fmt: skip


def usage_of(usage: Any) -> Usage:
    return token_usage(
        usage.prompt_tokens,
        usage.completion_tokens,
        getattr(usage, "prompt_tokens_details", None),
        getattr(usage, "completion_tokens_details", None),
    )


def token_usage(prompt: int | None, completion: int | None, prompt_details: Any, completion_details: Any) -> Usage:
    """Return the usage of a call from the numbers and details that both interfaces report under other names."""
    return Usage(
        prompt_tokens=prompt or 0,
        completion_tokens=completion or 0,
        cached=getattr(prompt_details, "cached_tokens", 0) or 0,
        cache_written=getattr(prompt_details, "cache_write_tokens", 0) or 0,
        reasoning=getattr(completion_details, "reasoning_tokens", 0) or 0,
    )


def open_sdk(key: str, base_url: str) -> Any:
    """Open the SDK's client. Raises UsageError if the SDK is not installed."""
    try:
        import httpx2
        import openai
    except ImportError as error:
        raise missing("openai") from error
    return openai.OpenAI(
        api_key=key, base_url=base_url, max_retries=0, timeout=httpx2.Timeout(IDLE_S, connect=CONNECT_S)
    )


class OpenAIChatClient(SdkClient):
    """A model behind a chat completions endpoint."""

    def __init__(self, model: str, *, limit_name: str = "max_completion_tokens", **more: Any) -> None:
        super().__init__(model, **more)
        self._limit_name = limit_name

    def stream(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Iterator[StreamEvent]:
        self._pieces.begin()
        body = body_of(
            messages,
            tools,
            model=self._model,
            max_tokens=self._max_tokens,
            limit_name=self._limit_name,
            extra=self._extra,
        )
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        client = self._client
        found = Assembled(self._model)
        for chunk in self._pieces.read(lambda: client.chat.completions.create(**body), self._provider):
            with reading(self._provider):
                yield from found.take(chunk)
        yield StreamEvent(kind="message", message=found.message(self._cost))

    def _open(self) -> Any:
        return open_sdk(self._key, self._base_url)
