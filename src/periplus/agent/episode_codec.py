"""Episodes as records of the journal: without secrets, and the same bytes for the same value.

Version 1 of a record::

    {"v": 1, "kind": "resulted", "turn": 3, "step": 2, …the fields of the episode that are not their default…}

Canonical JSON has neither fractions nor large integers, and a model may send anything as an argument. So a value that it cannot carry
stands in an envelope, a dict with one key that begins with ``$``: ``{"$dec": "0.5"}``, and ``{"$json": "…"}`` for a dict with a key that
canonical JSON has no place for, or that could be taken for an envelope.
"""

from __future__ import annotations

__all__ = ["EPISODE_VERSION", "decode_episode", "encode_episode", "masked_episode"]

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

import msgspec

from periplus.agent.contracts import ToolCall
from periplus.agent.episodes import Answered, Episode, Resulted
from periplus.base.canonical import INTEGER_MAX, JSONValue
from periplus.base.errors import DamageError, NewerFormatError

EPISODE_VERSION: Final = 1
_KEY_CEILING: Final = "\ud800"
_PAIR_CHARACTERS_MAX: Final = 4096
_DEPTH_MAX: Final = 56
_FACTS: Final = frozenset({"kind", "id", "call_id", "finish_reason", "reason", "before", "after", "tool_call_id"})
Mask: TypeAlias = Callable[[str], tuple[str, int]]


def masked_episode(episode: Episode, mask: Mask) -> Episode:
    """The episode without the secrets in it, itself where it has none. An answer says which of its calls are changed.

    What the provider wants back unread (``reasoning``) is dropped where it holds a secret: changed, it would be refused.
    """
    if isinstance(episode, Answered):
        return _masked_answer(episode, mask)
    if isinstance(episode, Resulted) and episode.result.images:
        images = episode.result.images
        bare = msgspec.structs.replace(episode, result=msgspec.structs.replace(episode.result, images=()))
        clean_bare = cast("Resulted", masked_episode(bare, mask))
        return msgspec.structs.replace(clean_bare, result=msgspec.structs.replace(clean_bare.result, images=images))
    plain = msgspec.to_builtins(episode)
    clean = _masked(plain, mask)
    return episode if clean == plain else cast("Episode", msgspec.convert(clean, type=Episode))


def encode_episode(episode: Episode) -> dict[str, JSONValue]:
    """The record's payload."""
    plain = msgspec.to_builtins(episode)
    packed = _packed(plain, 0)
    assert isinstance(packed, dict)
    return {"v": EPISODE_VERSION, **packed}


def decode_episode(payload: Mapping[str, Any]) -> Episode:
    """What ``encode_episode`` was given. Raises DamageError, NewerFormatError."""
    version = payload.get("v")
    if isinstance(version, int) and version > EPISODE_VERSION:
        raise NewerFormatError(f"an episode of version {version}; this program knows {EPISODE_VERSION}",
                               safe="Nothing was changed.", mend="Go on with a later version of Periplus.")  # fmt: skip
    try:
        plain = _unpacked({name: value for name, value in payload.items() if name != "v"})
        return cast("Episode", msgspec.convert(plain, type=Episode))
    except (msgspec.ValidationError, KeyError, TypeError, ValueError) as error:
        raise DamageError(f"the record of an episode does not hold one: {error}", safe="Other records are untouched.",
                          mend="Run `periplus doctor`.") from error  # fmt: skip


# -- secrets -----------------------------------------------------------------------------------------------------------


def _masked_answer(episode: Answered, mask: Mask) -> Answered:
    message = episode.message
    changed: list[str] = []
    calls = []
    for call in message.tool_calls:
        clean = ToolCall(id=call.id, name=call.name, args=_masked(call.args, mask), raw=mask(call.raw)[0],
                         problem=mask(call.problem)[0])  # fmt: skip
        if clean.args != call.args:
            changed.append(call.id)
        calls.append(clean)
    plain_reasoning = msgspec.to_builtins(message.reasoning)
    reasoning = tuple(block for block in message.reasoning if _masked(msgspec.to_builtins(block), mask) == block)
    content = mask(message.content)[0]
    if (
        not changed
        and content == message.content
        and len(reasoning) == len(plain_reasoning)
        and calls == list(message.tool_calls)
    ):
        return episode
    replaced = msgspec.structs.replace(message, content=content, tool_calls=tuple(calls), reasoning=reasoning)
    return msgspec.structs.replace(episode, message=replaced, masked=tuple(changed))


def _masked(value: Any, mask: Mask) -> Any:
    if isinstance(value, str):
        return mask(value)[0]
    if isinstance(value, dict):
        return {
            mask(key)[0]: one if key in _FACTS and not isinstance(one, dict | list) else _masked_pair(key, one, mask)
            for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [_masked(one, mask) for one in value]
    return value


def _masked_pair(key: str, value: Any, mask: Mask) -> Any:
    """A value beside its name: ``{"password": "…"}`` is seen as what it is."""
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
        if depth >= _DEPTH_MAX or any(key.startswith("$") or max(key, default="") >= _KEY_CEILING for key in value):
            return {"$json": _packed(msgspec.json.encode(value, order="sorted").decode(), depth)}
        return {key: _packed(one, depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple):
        if depth >= _DEPTH_MAX:
            return {"$json": _packed(msgspec.json.encode(value, order="sorted").decode(), depth)}
        return [_packed(one, depth + 1) for one in value]
    raise TypeError(f"{type(value).__name__} has no place in an episode")


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(one) for one in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"$dec": str(text)}:
            return int(text) if text.lstrip("-").isdigit() else float(text)
        case {"$json": inner}:
            return msgspec.json.decode(_unpacked(inner))
    return {key: _unpacked(one) for key, one in value.items()}
