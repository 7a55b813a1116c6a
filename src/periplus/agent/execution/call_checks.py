"""Checks of a model's calls: unique ids, arguments of bounded size, text that can be encoded.

A call that cannot be read is kept and marked with ``problem``; the loop answers it with that text.
"""

from __future__ import annotations

__all__ = [
    "ARGUMENT_BYTES_MAX",
    "CALLING",
    "CALLS_MAX",
    "OUTPUT_CHARACTERS_MAX",
    "Calling",
    "bounded_result",
    "replace_surrogates",
    "unknown_tool",
    "with_valid_calls",
]

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from periplus.agent.contracts import AssistantMessage, ToolCall, ToolResult

if TYPE_CHECKING:
    from periplus.agent.execution.cancellation import CancelToken

ARGUMENT_BYTES_MAX: Final = 512 * 1024
CALLS_MAX: Final = 64
OUTPUT_CHARACTERS_MAX: Final = 4_000_000
DEPTH_MAX: Final = 48
_TEXT_CHARACTERS_MAX: Final = 4_000_000
_NAME_CHARACTERS_MAX: Final = 200
_RAW_CHARACTERS_MAX: Final = 1000


class Calling(NamedTuple):
    """The call that runs now: its place in the session, and the token that stops it. ``place`` counts the calls of one answer from 1."""

    name: str
    turn: int
    step: int
    place: int
    token: CancelToken


CALLING: Final[ContextVar[Calling | None]] = ContextVar("CALLING", default=None)
"""For the few tools that need it; None if the loop did not run the tool."""


def with_valid_calls(message: AssistantMessage, step: int) -> AssistantMessage:
    """Return ``message`` with a unique id for each call, and a ``problem`` for each call that cannot be run."""
    asked = message.tool_calls[: 2 * CALLS_MAX]
    given = {replace_surrogates(call.id)[:_NAME_CHARACTERS_MAX] for call in asked}
    seen: set[str] = set()
    calls = []
    for place, call in enumerate(asked):
        name = replace_surrogates(call.name)[:_NAME_CHARACTERS_MAX]
        call_id = replace_surrogates(call.id)[:_NAME_CHARACTERS_MAX]
        if not call_id or call_id in seen:
            call_id = f"call_{step}_{place + 1}"
            while call_id in seen or call_id in given:  # a model may make ids of the same form
                call_id += "_"
        seen.add(call_id)
        problem = call.problem or _problem(call, place)
        if place == len(asked) - 1 and len(message.tool_calls) > len(asked):
            problem += f" {len(message.tool_calls) - len(asked):,} more calls are left out here; none of them was run."
        if problem:
            raw = replace_surrogates(call.raw)
            more = f"… {len(raw) - _RAW_CHARACTERS_MAX:,} characters left out" if len(raw) > _RAW_CHARACTERS_MAX else ""
            raw = raw[:_RAW_CHARACTERS_MAX] + more
            calls.append(
                ToolCall(id=call_id, name=name, raw=raw, problem=replace_surrogates(problem)[: 2 * _RAW_CHARACTERS_MAX])
            )
        else:
            calls.append(ToolCall(id=call_id, name=name, args=_clean(call.args)))
    return msgspec.structs.replace(
        message, content=replace_surrogates(message.content)[:_TEXT_CHARACTERS_MAX], tool_calls=tuple(calls)
    )


def bounded_result(result: ToolResult) -> ToolResult:
    """Return ``result`` with an output that can be encoded and is bounded. Tools page large outputs long before this limit."""
    output = replace_surrogates(result.output)
    if len(output) > OUTPUT_CHARACTERS_MAX:
        left_out = len(output) - OUTPUT_CHARACTERS_MAX
        output = f"{output[:OUTPUT_CHARACTERS_MAX]}\n… {left_out:,} characters left out; the output was longer than the limit"
    return result if output is result.output else msgspec.structs.replace(result, output=output)


def unknown_tool(name: str, known: Iterable[str]) -> str:
    """Tell the model that there is no such tool, with similar names."""
    import difflib

    names = sorted(known)
    near = difflib.get_close_matches(name, names, 3)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"There is no tool {name[:80]!r}.{meant} The tools are: {', '.join(names)}."


def _problem(call: ToolCall, place: int) -> str:
    if place >= CALLS_MAX:
        return f"More than {CALLS_MAX} calls in one answer; this one was not run. Repeat it with fewer calls in one answer."
    args: Any = call.args
    if not isinstance(args, dict):
        return f"The arguments are not a JSON object but {type(args).__name__}."
    if _depth(call.args) > DEPTH_MAX:
        return f"The arguments are nested deeper than {DEPTH_MAX} levels."
    size = _size(call.args)
    if size > ARGUMENT_BYTES_MAX:
        return (
            f"The arguments are {size:,} bytes; at most {ARGUMENT_BYTES_MAX:,} are accepted. Nothing was run. "
            "Write a large file in several calls, or create it with a command."
        )
    return ""


def _size(value: Any) -> int:
    """Estimate the bytes of the value as JSON without encoding it."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode("utf-8", "replace"))
    if isinstance(value, dict):
        return sum(_size(key) + _size(one) + 4 for key, one in value.items())
    if isinstance(value, list | tuple):
        return sum(_size(one) + 2 for one in value)
    return 8


def _depth(value: Any) -> int:
    """Nesting depth of the value, up to a limit. Not recursive, since a hostile value is deep."""
    level: Sequence[Any] = [value]
    for depth in range(DEPTH_MAX + 2):
        level = [
            one
            for outer in level
            for one in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(one, dict | list | tuple)
        ]
        if not level:
            return depth + 1
    return DEPTH_MAX + 1


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict):
        cleaned = {replace_surrogates(str(key)): _clean(one) for key, one in value.items()}
        return {key: cleaned[key] for key in sorted(cleaned)}  # the order in which a record gives it back
    if isinstance(value, list | tuple):
        return [_clean(one) for one in value]
    return value


def replace_surrogates(text: str) -> str:
    """Replace unpaired surrogates by U+FFFD, since neither files nor requests can carry them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
