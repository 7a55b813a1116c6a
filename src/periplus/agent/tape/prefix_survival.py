"""Prefix survival: how much of the previous request a request repeats at its beginning.

The *survival* of a request is the length of the longest common byte prefix with the previous request of the session, divided by the length
of that previous request, as they are sent. It is reported for every boundary between two turns, and separately for boundaries with a fold.

The bytes are those of ``serialised``: tools, then messages, each one line of JSON. Cache marks (``Message.breakpoint``) are not part of
them, since providers do not compare them either.
"""

from __future__ import annotations

__all__ = ["BREAKS", "PrefixMeter", "PrefixSurvival", "common_length", "serialised"]

from collections.abc import Mapping, Sequence
from typing import AnyStr, Final, NamedTuple

import msgspec

from periplus.agent.contracts import Message, ToolSchema

BREAKS: Final[Mapping[str, str]] = {
    "budget": "the tape passed its budget at the end of a turn: turns that are over become entries",
    "overflow": "the provider said that the request is too long: turns, or what calls of this one gave, go behind handles",
    "asked": "a person asked for a fold",
    "unfold": "a person took the last fold back",
}
"""The only reasons for which a request may differ from the one before it, and only after tools and prompt; from the fold's note."""


class PrefixSurvival(NamedTuple):
    """PrefixSurvival of one request. ``previous_bytes`` is 0 for the first of a session."""

    request_bytes: int
    previous_bytes: int
    common_bytes: int
    is_boundary: bool
    is_fold: bool

    @property
    def millionths(self) -> int:
        return self.common_bytes * 1_000_000 // self.previous_bytes if self.previous_bytes else 0


def serialised(message: Message | ToolSchema) -> bytes:
    """The bytes of one message in a request: a line of JSON."""
    if isinstance(message, Message) and message.breakpoint:
        message = msgspec.structs.replace(message, breakpoint=False)
    return msgspec.json.encode(message, order="deterministic") + b"\n"


class PrefixMeter:
    """Measures every request of a session, in order. It holds the bytes of the last one."""

    def __init__(self, tools: Sequence[ToolSchema] = ()) -> None:
        self._tools = b"".join(serialised(tool) for tool in tools)
        self._held: list[tuple[Message, bytes]] = []
        self._turn = -1
        self._fold = 0
        self.between: list[float] = []
        self.at_folds: list[float] = []

    def take(self, messages: Sequence[Message], turn: int, fold: int) -> PrefixSurvival:
        """Measure a request. ``turn`` is its turn, ``fold`` the number of the last fold before it."""
        held = self._held
        lines: list[tuple[Message, bytes]] = []
        common, is_same = len(self._tools), True
        for place, message in enumerate(messages):
            before = held[place] if place < len(held) else None
            data = before[1] if before is not None and _is_same(before[0], message) else serialised(message)
            lines.append((message, data))
            if is_same and before is not None:
                common += common_length(before[1], data)
                is_same = before[1] == data
        request = len(self._tools) + sum(len(data) for _, data in lines)
        previous = len(self._tools) + sum(len(data) for _, data in held) if held else 0
        found = PrefixSurvival(
            request, previous, common if held else 0, bool(held) and turn != self._turn, fold != self._fold
        )
        if found.is_boundary:
            (self.at_folds if found.is_fold else self.between).append(found.millionths / 1e6)
        self._held, self._turn, self._fold = lines, turn, fold
        return found


def _is_same(one: Message, other: Message) -> bool:
    return one is other or (one.content is other.content and one == other)


def common_length(one: AnyStr, other: AnyStr) -> int:
    """Length of the common prefix, in bytes or characters."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low
