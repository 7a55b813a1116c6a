"""Shortened encoding of hook events that are too large for the spool.

The action of a call (its tool, its path, its outcome) is kept. Texts in its answer are removed, because the digest of
a part would be that of another answer. A long argument is replaced by a JSON object with its length, so that no step
takes it for the argument itself: the call becomes a ``TOOL_CALL`` then.
"""

from __future__ import annotations

__all__ = ["encode_within"]

from typing import Final

from periplus.interop.hooks.events import HookEvent, encode_event

# Limits for the texts that stay, in the order in which they are tried.
_TEXT_CHARACTERS_MAX: Final = (1 << 20, 1 << 16, 1 << 12, 1 << 8)


def encode_within(event: HookEvent, bytes_max: int) -> bytes:
    """Encode the event like ``encode_event`` in at most ``bytes_max`` bytes (at least one mebibyte)."""
    event = event._replace(response=_scalars(event.response))
    data = encode_event(event)
    for characters_max in _TEXT_CHARACTERS_MAX:
        if len(data) <= bytes_max:
            return data
        short = event._replace(
            prompt=_cut(event.prompt, characters_max), arguments=_without(event.arguments, characters_max)
        )
        data = encode_event(short)
    if len(data) <= bytes_max:
        return data
    count = len(encode_event(event))
    short = event._replace(
        prompt=_cut(event.prompt, _TEXT_CHARACTERS_MAX[-1]),
        arguments={"left_out": f"all, of an event of {count:,} bytes"},
    )
    return encode_event(short)


def _scalars(response: object) -> object:
    if not isinstance(response, dict):
        return None
    return {name: value for name, value in response.items() if isinstance(value, bool | int | float)} or None


def _cut(text: str, characters_max: int) -> str:
    left = len(text) - characters_max
    if left <= 0:
        return text
    return f"{text[:characters_max]}\n… {left:,} characters are left out here: the event was too large to be kept"


def _without(value: object, characters_max: int) -> object:
    if isinstance(value, str):
        return value if len(value) <= characters_max else {"left_out": f"{len(value):,} characters"}
    if isinstance(value, dict):
        return {name: _without(one, characters_max) for name, one in value.items()}
    if isinstance(value, list):
        return [_without(one, characters_max) for one in value]
    return value
