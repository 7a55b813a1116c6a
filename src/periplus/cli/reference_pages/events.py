"""Generate docs/reference/events.md and its JSON Schema from the events (``periplus.agent.events``)."""

from __future__ import annotations

__all__ = ["event_reference", "event_schema_text"]

import inspect
import json
import types
import typing
from collections.abc import Iterator
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from periplus.agent.events import Event, event_schema

_NAMES: Final = {str: "text", int: "number", bool: "true or false", type(None): "null"}
_COMMON: Final = (
    ("event", "which event it is"),
    ("agent", "the session of the subagent that it is of; empty for the session itself"),
    ("turn", "the turn, from 1; 0 before the first"),
    ("step", "the step of the turn: an answer of the model with its calls, from 1; 0 before the first"),
)


def event_reference() -> str:
    """Return the text of docs/reference/events.md."""
    return "\n".join(_lines())


def event_schema_text() -> str:
    """Return the text of docs/reference/events.schema.json."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An event of periplus run --json",
        **event_schema(),
    }
    return json.dumps(schema, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _lines() -> Iterator[str]:
    yield "# Events of a run"
    yield ""
    yield "Written by `python -m periplus.cli.reference docs/reference` from `periplus.agent.events`."
    yield ""
    yield "`periplus run --json` prints what happens while it happens: an event a line, in UTF-8. `turn_ended` says how it ended; behind it"
    yield "comes `learned` where the session was looked through for what it teaches. Everything that a person sees of a run is one. Fields are added, never renamed or removed: ignore those, and events, that you do not know. No line holds a control"
    yield "character or a line's end of another alphabet. [events.schema.json](events.schema.json) is the JSON Schema of a line. What has to last is not"
    yield "here but in the journal: `periplus run --stats --json` has what the calls cost, `periplus trail show` what was done."
    yield ""
    yield "Every event has"
    yield ""
    yield "| field | |"
    yield "|---|---|"
    yield from (f"| `{name}` | {what} |" for name, what in _COMMON)
    parts: dict[str, type[msgspec.Struct]] = {}
    for one in get_args(Event):
        yield ""
        yield f"## {one.__struct_config__.tag}"
        yield ""
        yield from _described(one, parts)
    done: set[str] = set()
    while todo := [name for name in parts if name not in done]:
        done.add(todo[0])
        yield ""
        yield f"## {todo[0]}"
        yield ""
        yield from _described(parts[todo[0]], parts)
    yield ""


def _described(one: type[msgspec.Struct], parts: dict[str, type[msgspec.Struct]]) -> Iterator[str]:
    yield inspect.cleandoc(one.__doc__ or "").replace("``", "`")
    common = {name for name, _ in _COMMON}
    hints = {
        name: hint for name, hint in get_type_hints(one).items() if name in one.__struct_fields__ and name not in common
    }
    if not hints:
        return
    yield ""
    yield "| field | value |"
    yield "|---|---|"
    for name, hint in hints.items():
        yield f"| `{name}` | {_type(hint, parts)} |"


def _type(hint: Any, parts: dict[str, type[msgspec.Struct]]) -> str:
    if hint in _NAMES:
        return _NAMES[hint]
    if hint is Any:
        return "any value"
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(f"`{one}`" for one in inside)
    if origin is tuple:
        return f"list of {_type(inside[0], parts)}"
    if origin is dict:
        return f"object: name to {_type(inside[1], parts)}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type(one, parts) for one in inside)
    name = hint.__name__.lower()
    parts.setdefault(name, hint)
    return f"[{name}](#{name})"
