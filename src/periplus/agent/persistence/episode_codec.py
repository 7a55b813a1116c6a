"""Codec between episodes and records of the journal: without secrets, and with equal bytes for equal values.

Version 1 of a record::

    {"v": 1, "kind": "resulted", "turn": 3, "step": 2, …the fields of the episode that are not their default…}

Canonical JSON has neither fractions nor large integers, and a model may send anything as an argument. A value that it cannot carry stands
in an envelope, a dict with one key that begins with ``$``: ``{"$dec": "0.5"}``; ``{"$items": [[key, value], …]}`` for a dict with a key
that canonical JSON does not allow or that looks like an envelope; and ``{"$json": "…"}`` for a value that is nested too deep.
"""

from __future__ import annotations

__all__ = ["EPISODE_VERSION", "decode_episode", "encode_episode", "masked_episode"]

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

import msgspec

from periplus.agent.contracts import ToolCall
from periplus.agent.episodes import Answered, Episode, Resulted
from periplus.base.encoding.canonical import INTEGER_MAX, JSONValue
from periplus.base.errors import DamageError, NewerFormatError

EPISODE_VERSION: Final = 1
_KEY_CEILING: Final = "\ud800"
_PAIR_CHARACTERS_MAX: Final = 4096
_DEPTH_MAX: Final = 50
_FACTS: Final = frozenset({"kind", "id", "call_id", "finish_reason", "reason", "before", "after", "tool_call_id"})
Mask: TypeAlias = Callable[[str], tuple[str, int]]


def masked_episode(episode: Episode, mask: Mask) -> Episode:
    """The episode as a record returns it: secrets masked, keys of dicts sorted.

    An answer lists which of its calls were changed. A ``reasoning`` block with a secret is dropped, since the provider refuses changed
    blocks. Pictures stay as they are.
    """
    if isinstance(episode, Answered):
        return _kept_answer(episode, mask)
    if isinstance(episode, Resulted) and episode.result.images:
        images = episode.result.images
        bare = msgspec.structs.replace(episode, result=msgspec.structs.replace(episode.result, images=()))
        kept = cast("Resulted", masked_episode(bare, mask))
        return msgspec.structs.replace(kept, result=msgspec.structs.replace(kept.result, images=images))
    return cast("Episode", msgspec.convert(_masked(msgspec.to_builtins(episode), mask), type=Episode))


def encode_episode(episode: Episode) -> dict[str, JSONValue]:
    """Encode an episode as the payload of a record."""
    plain = msgspec.to_builtins(episode)
    packed = _packed(plain, 0)
    assert isinstance(packed, dict)
    return {"v": EPISODE_VERSION, **packed}


def decode_episode(payload: Mapping[str, Any]) -> Episode:
    """Decode a payload of ``encode_episode``. Raises DamageError, NewerFormatError."""
    version = payload.get("v")
    if isinstance(version, int) and version > EPISODE_VERSION:
        raise NewerFormatError(f"an episode of version {version}; this program knows {EPISODE_VERSION}",
                               safe="Nothing was changed.", mend="Go on with a later version of Periplus.")  # fmt: skip
    try:
        plain = _unpacked({name: value for name, value in payload.items() if name != "v"})
        return cast("Episode", msgspec.convert(plain, type=Episode))
    except (msgspec.ValidationError, KeyError, TypeError, ValueError) as error:
        raise DamageError(f"the record does not contain a valid episode: {error}", safe="Other records are untouched.",
                          mend="Run `periplus doctor`.") from error  # fmt: skip


# -- secrets -----------------------------------------------------------------------------------------------------------


def _kept_answer(episode: Answered, mask: Mask) -> Answered:
    message = episode.message
    changed: list[str] = []
    calls = []
    for call in message.tool_calls:
        args = _masked(call.args, mask)
        if args != call.args:
            changed.append(call.id)
        calls.append(
            ToolCall(id=call.id, name=call.name, args=args, raw=mask(call.raw)[0], problem=mask(call.problem)[0])
        )
    blocks = [(block, _masked(block, mask)) for block in msgspec.to_builtins(message.reasoning)]
    reasoning = tuple(clean for block, clean in blocks if clean == block)
    kept = msgspec.structs.replace(
        message, content=mask(message.content)[0], tool_calls=tuple(calls), reasoning=reasoning
    )
    return msgspec.structs.replace(episode, message=kept, masked=(*episode.masked, *changed))


def _masked(value: Any, mask: Mask) -> Any:
    if isinstance(value, str):
        return mask(value)[0]
    if isinstance(value, dict):
        return {
            mask(key)[0]: one if key in _FACTS and not isinstance(one, dict | list) else _masked_pair(key, one, mask)
            for key, one in sorted(value.items())
        }
    if isinstance(value, list | tuple):
        return [_masked(one, mask) for one in value]
    return value


def _masked_pair(key: str, value: Any, mask: Mask) -> Any:
    """Mask a value by its name as well: ``{"password": "…"}`` is a secret."""
    found = _masked(value, mask)
    if isinstance(found, str) and found == value and len(key) + len(found) < _PAIR_CHARACTERS_MAX:
        opening = f'{key}="'
        pair, count = mask(f'{opening}{found}"')
        if count and pair.startswith(opening) and pair.endswith('"'):
            return pair[len(opening) : -1]
    return found


# -- canonical JSON ----------------------------------------------------------------------------------------------------


def _packed(value: Any, depth: int) -> JSONValue:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if -INTEGER_MAX <= value <= INTEGER_MAX else {"$dec": str(value)}
    if isinstance(value, float):
        return {"$dec": repr(value)}
    if isinstance(value, dict):
        if depth >= _DEPTH_MAX:
            return {"$json": msgspec.json.encode(value, order="sorted").decode()}
        if any(key.startswith("$") or max(key, default="") >= _KEY_CEILING for key in value):
            return {"$items": [[key, _packed(one, depth + 3)] for key, one in sorted(value.items())]}
        return {key: _packed(one, depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple):
        if depth >= _DEPTH_MAX:
            return {"$json": msgspec.json.encode(value, order="sorted").decode()}
        return [_packed(one, depth + 1) for one in value]
    raise TypeError(f"{type(value).__name__} cannot be stored in an episode")


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(one) for one in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"$dec": str(text)}:
            return int(text) if text.lstrip("-").isdigit() else float(text)
        case {"$json": str(text)}:
            return msgspec.json.decode(text)
        case {"$items": list(items)}:
            return {key: _unpacked(one) for key, one in items}
    return {key: _unpacked(one) for key, one in value.items()}
