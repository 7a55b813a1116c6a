"""Messages of model calls in the forms that instrumentations use.

The conventions of OpenTelemetry for generative models changed several times, and other conventions exist beside them:
messages with ``parts``, with ``content`` and ``tool_calls``, as the response of a model with ``choices``, as one
attribute per field with a number in its name, as JSON in a text, or as plain text.
"""

from __future__ import annotations

__all__ = ["Message", "ToolUse", "messages_of", "numbered", "parsed", "plain_text"]

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from periplus.interop.readers.json_values import list_of, table_of, text_of

_DEPTH_MAX: Final = 6
_MESSAGES_MAX: Final = 20_000
_NUMBER_MAX: Final = 10_000
_TEXT_TYPES: Final = frozenset({"text", "output_text", "input_text"})
_THOUGHT_TYPES: Final = frozenset({"thinking", "reasoning"})
_CALL_TYPES: Final = frozenset({"tool_call", "tool_use", "function_call"})
_RESULT_TYPES: Final = frozenset({"tool_call_response", "tool_result", "tool_response"})


class ToolUse(NamedTuple):
    call_id: str
    name: str
    arguments: object


class Message(NamedTuple):
    """``results`` are pairs of a call's id and its result."""

    role: str
    text: str = ""
    thought: str = ""
    calls: tuple[ToolUse, ...] = ()
    results: tuple[tuple[str, str], ...] = ()


def messages_of(value: object, role: str) -> list[Message]:
    """Return the messages in ``value``; ``role`` is for those without a role. Other values give none."""
    found: list[Message] = []
    _collect(value, role, found, 0)
    return found


def parsed(value: object) -> object:
    """Parse a text that contains JSON; return other text unchanged."""
    if isinstance(value, str) and value[:1] in ("{", "[", '"'):
        import orjson

        try:
            return orjson.loads(value)
        except (ValueError, RecursionError):
            pass  # not JSON
    return value


def plain_text(value: object) -> str:
    """Return a value as a text: texts unchanged, other values as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    import orjson

    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return str(value)


def numbered(attributes: Mapping[str, object], prefix: str) -> list[dict[str, object]]:
    """Return the tables that attributes such as ``PREFIX.0.content`` form, in the order of their numbers."""
    tables: dict[int, dict[str, object]] = {}
    for key, value in attributes.items():
        if not key.startswith(prefix + "."):
            continue
        number, _, rest = key[len(prefix) + 1 :].partition(".")
        if not number.isdigit() or len(number) > 5 or int(number) > _NUMBER_MAX or not rest:
            continue
        tables.setdefault(int(number), {})[rest.removeprefix("message.")] = value
    messages = []
    for _, table in sorted(tables.items()):
        calls = [
            {
                "id": call.get("id") or call.get("tool_call.id"),
                "name": call.get("name") or call.get("tool_call.function.name"),
                "arguments": call.get("arguments") or call.get("tool_call.function.arguments"),
            }
            for call in numbered(table, "tool_calls")
        ]
        messages.append({**table, "tool_calls": calls} if calls else table)
    return messages


def _collect(value: object, role: str, found: list[Message], depth: int) -> None:
    if depth > _DEPTH_MAX or len(found) >= _MESSAGES_MAX:
        return
    value = parsed(value)
    if isinstance(value, list):
        for item in value:
            _collect(item, role, found, depth + 1)
        return
    if isinstance(value, str):
        if value.strip() and depth < 2:
            found.append(Message(role, value))
        return
    table = table_of(value)
    if "choices" in table:
        for choice in list_of(table.get("choices"))[:1]:
            _collect(table_of(choice).get("message"), "assistant", found, depth + 1)
    elif "messages" in table and "role" not in table:
        _collect(table.get("messages"), role, found, depth + 1)
    elif "parts" in table or "content" in table or "tool_calls" in table:
        found.append(_message(table, role))
    elif isinstance(table.get("message"), dict):
        _collect(table["message"], role, found, depth + 1)


def _message(table: dict[str, object], role: str) -> Message:
    role = text_of(table.get("role")) or role
    texts: list[str] = []
    thoughts = [text_of(table.get("reasoning_content"))]
    calls = [_tool_use(table_of(item)) for item in list_of(table.get("tool_calls"))]
    results: list[tuple[str, str]] = []
    content = table.get("parts", table.get("content"))
    content = parsed(content) if isinstance(content, str) and content[:2] in ("[{", "[ ", "[\n") else content
    if isinstance(content, str):
        texts.append(content)
    for kind, part in _parts(content):
        if kind in _TEXT_TYPES:
            texts.append(text_of(part.get("text")) or text_of(part.get("content")))
        elif kind in _THOUGHT_TYPES:
            thoughts.append(next((text_of(part[key]) for key in ("content", "thinking", "text") if key in part), ""))
        elif kind in _CALL_TYPES:
            calls.append(_tool_use(part))
        elif kind in _RESULT_TYPES:
            call_id = text_of(part.get("id")) or text_of(part.get("tool_use_id"))
            results.append((call_id, _result(part)))
        elif kind:
            texts.append(f"[{kind}]")
    text = "\n".join(filter(None, texts))
    if role == "tool":
        call_id = text_of(table.get("tool_call_id")) or text_of(table.get("id"))
        results = results or [(call_id, text)]
        text = ""
    return Message(
        role, text, "\n".join(filter(None, thoughts)), tuple(call for call in calls if call.name), tuple(results)
    )


def _parts(content: object) -> Iterator[tuple[str, dict[str, object]]]:
    for item in list_of(content):
        if isinstance(item, str):
            yield "text", {"text": item}
        else:
            part = table_of(item)
            yield text_of(part.get("type")) or ("text" if "text" in part else ""), part


def _result(part: dict[str, object]) -> str:
    for key in ("result", "response", "content"):
        if key in part:
            return plain_text(part[key])
    return ""


def _tool_use(part: dict[str, object]) -> ToolUse:
    function = table_of(part.get("function"))
    name = text_of(part.get("name")) or text_of(function.get("name"))
    arguments = next((part[key] for key in ("arguments", "input") if key in part), function.get("arguments"))
    return ToolUse(text_of(part.get("id")), name, parsed(arguments))
