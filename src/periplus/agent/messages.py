"""Messages to and from a model, tool calls and their results, and token usage.

``contracts`` and ``episodes`` are built of these values.
"""

from __future__ import annotations

__all__ = [
    "Answer",
    "AssistantMessage",
    "FinishReason",
    "Image",
    "Message",
    "Outcome",
    "Role",
    "Spawned",
    "StopReason",
    "ToolCall",
    "ToolResult",
    "ToolSchema",
    "Usage",
]

from typing import Any, Literal, TypeAlias

import msgspec

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
FinishReason: TypeAlias = Literal["stop", "tool_calls", "length", "filter", "refusal", "error"]
Outcome: TypeAlias = Literal["ok", "failed", "cancelled", "denied", "indeterminate"]
Answer: TypeAlias = Literal["yes", "no", "always"]
StopReason: TypeAlias = Literal["done", "aborted", "steps", "budget", "stuck", "overflow", "length", "filter", "error"]
"""Reason for the end of a turn: the model said that it is done, or the turn was parked."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the model asks for. ``problem`` says why ``args`` could not be read; ``raw`` is then the original text."""

    id: str
    name: str
    args: dict[str, Any] = {}
    raw: str = ""
    problem: str = ""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one request, as the provider counted them. ``cached`` of ``prompt_tokens`` were read from its cache."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached: int = 0
    cache_written: int = 0
    reasoning: int = 0
    cost: int = 0
    """In millionths of the price table's currency; 0 if the price is not known."""

    @property
    def fresh(self) -> int:
        """Prompt tokens that were paid in full."""
        return max(0, self.prompt_tokens - self.cached)

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


class AssistantMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of a model."""

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    finish_reason: FinishReason = "stop"
    reasoning: tuple[dict[str, Any], ...] = ()
    """Blocks that the provider wants back, unread, with the next request of the same turn."""
    model: str = ""


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """A picture for the model: ``data`` as the file has it."""

    media_type: str
    data: bytes


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a request. ``breakpoint``: everything up to its end is worth keeping in the provider's cache."""

    role: Role
    content: str = ""
    images: tuple[Image, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    outcome: Outcome = "ok"
    reasoning: tuple[dict[str, Any], ...] = ()
    breakpoint: bool = False


class ToolSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as it is described to the model; ``parameters`` is a JSON Schema object."""

    name: str
    description: str
    parameters: dict[str, Any]


class Spawned(msgspec.Struct, frozen=True, kw_only=True):
    """A subagent that a call ran: its session, the digest of its trail if that is sealed, and its usage with that of its own subagents."""

    session: str
    trail: str = ""
    steps: int = 0
    usage: Usage = Usage()


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a call. ``output`` is kept whatever the outcome; text that was cut from it is behind ``handle``."""

    outcome: Outcome
    output: str = ""
    images: tuple[Image, ...] = ()
    handle: str = ""
    untrusted: bool = True
    exit_code: int | None = None
    effects: tuple[dict[str, Any], ...] = ()
    """Changes as ``{path, before, after}`` with the digests of the file's bytes, ``None`` without a file."""
    spawned: Spawned | msgspec.UnsetType = msgspec.UNSET
