"""Entity files of the notification log (v1): a file's text as a payload, and a payload as a file's text. Pure.

A v1 file is one JSON object of whatever keys. Its entity keeps the text verbatim (``v1.text``); the fields that ours
stand for are laid over it, all others go to ``fields``. So the way back needs no guess: what differs between the
payload and the payload that ``v1.text`` gives was changed here, and only that is written into the text's own object.
An entity that nobody changed gives its text, byte for byte.

What canonical JSON cannot hold is carried: a number with a fraction, an exponent or more than 53 bits as
``{"$dec": "1.50"}`` (its literal), anything else (half characters, deep nesting) as ``{"$json": "<its text>"}``.
"""

from __future__ import annotations

__all__ = [
    "FILE_BYTES_MAX",
    "FOREIGN_PREFIX",
    "V1Entity",
    "carry",
    "foreign_check",
    "foreign_type",
    "parse_file",
    "read_entity",
    "render_file",
    "type_name",
    "uncarry",
]

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

from periplus.base.canonical import INTEGER_MAX, JSONValue, canonical
from periplus.base.clock import format_ms
from periplus.base.errors import FormatError, SecretFoundError, UsageError
from periplus.base.ids import derived_id, is_id
from periplus.base.secrets import find_secrets
from periplus.interop.v1_text import ONE_LINE, Number, Style, dump, parse_text, style_of
from periplus.journal import EntityType
from periplus.memory import MEMORY_TYPES
from periplus.memory.types import NOT_REMEMBERED

FILE_BYTES_MAX: Final = 4 << 20
FOREIGN_PREFIX: Final = "v1_"
_DEPTH_CARRIED: Final = 40
_ID_KEYS: Final = ("id", "item_id", "entity_id", "uuid")
_TYPE_KEYS: Final = ("type", "item_type", "entity_type")
_OWN: Final = frozenset({"v", "v1", "fields"})
_SOURCES: Final[dict[str, tuple[str, ...]]] = {
    "text": ("text", "content", "body", "statement", "description", "summary", "message", "title"),
    "state": ("state", "status"),
    "tags": ("tags", "labels"),
    "about": ("about", "files", "paths"),
    "author": ("author", "agent", "created_by", "createdBy"),
    "session": ("session", "session_id", "sessionId"),
    "created": ("created", "created_at", "createdAt", "ts", "timestamp"),
    "updated": ("updated", "updated_at", "updatedAt"),
    "rationale": ("rationale", "reason", "why"),
    "remedy": ("remedy", "fix", "workaround"),
    "expires": ("expires", "expires_at", "expiresAt"),
}
_MS_MIN, _MS_MAX = 10**11, 10**14  # an epoch in milliseconds; seconds are a thousand times smaller


class V1Entity(NamedTuple):
    """What a file stands for. ``misfit`` says why its type is not one of ours, where its name is that of one."""

    item_type: str
    item_id: str
    payload: dict[str, JSONValue]
    name: str  # the type as v1 calls it, made plain: by (name, old id) files are told apart
    old_id: str
    stamp: str
    misfit: str


@dataclass(frozen=True, slots=True)
class _Read:
    """A payload's fields read from a document, with the key that each came from."""

    values: dict[str, JSONValue]
    keys: dict[str, str]
    fields: dict[str, JSONValue]


def parse_file(data: bytes) -> tuple[str, dict[str, Any]]:
    """Text and object of a file. Raises FormatError saying why it cannot be read."""
    if len(data) > FILE_BYTES_MAX:
        raise FormatError(f"{len(data):,} bytes; the limit is {FILE_BYTES_MAX:,}")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise FormatError("not UTF-8 text", offset=error.start) from error
    value = parse_text(text)
    if not isinstance(value, dict):
        raise FormatError("not one JSON object")
    return text, value


def read_entity(
    text: str, document: dict[str, Any], path: str, types: Mapping[str, EntityType], *, allow_secrets: bool = False
) -> V1Entity:
    """The entity that the file at ``path`` (relative, with slashes) stands for.

    Raises SecretFoundError for one that holds a secret, UsageError for what names neither an id nor a type.
    """
    folder, _, file = path.rpartition("/")
    stated = _named(document, _TYPE_KEYS)
    stated_id = _named(document, _ID_KEYS)
    if not folder and not stated and not stated_id:
        raise UsageError("it names neither an id nor a type, and lies in no folder of a type")
    kind = stated or folder.rpartition("/")[2] or "entity"
    old_id = stated_id or file.removesuffix(".json")
    name = type_name(kind)
    origin: dict[str, JSONValue] = {"id": old_id, "type": kind, "path": path, "text": text}
    misfit = ""
    if name in MEMORY_TYPES and name not in NOT_REMEMBERED:
        read = _read_known(document, name, path)
        payload: dict[str, JSONValue] = {"v": 1, **read.values, "v1": origin}
        if read.fields:
            payload["fields"] = read.fields
        misfit = _misfit(document, read, name, payload, types, allow_secrets=allow_secrets)
        if not misfit:
            prefix = MEMORY_TYPES[name].prefix
            return V1Entity(name, _own_id(prefix, name, old_id), payload, name, old_id, _stamp(document), "")
    payload = {"v": 1, "fields": {key: carry(value) for key, value in document.items()}, "v1": origin}
    if _is_odd(document):
        payload["fields"] = carry(document)
    if not allow_secrets:
        foreign_check(payload)
    canonical(payload)
    return V1Entity(foreign_type(name), _own_id("v1", name, old_id), payload, name, old_id, _stamp(document), misfit)


def render_file(item_type: str, item_id: str, payload: Mapping[str, JSONValue]) -> bytes:
    """The entity as a v1 file: its own text with what was changed since, or a new one."""
    origin = payload.get("v1")
    text = origin.get("text") if isinstance(origin, dict) else None
    try:
        document: dict[str, Any] = parse_file(text.encode())[1] if isinstance(text, str) else {}
    except FormatError:  # somebody took a secret out of the text, and the braces with it
        text, document = None, {}
    if not isinstance(text, str):
        named = origin if isinstance(origin, dict) else {}
        base: dict[str, Any] = {"id": named.get("id", item_id), "type": named.get("type", item_type)}
        read = _Read({}, {}, {})
        changed = _changed(base, read, payload)
        return dump(changed, Style()).encode()
    path = str(origin.get("path", "")) if isinstance(origin, dict) else ""
    read = _reread(document, item_type, path)
    changed = _changed(document, read, payload)
    return text.encode() if changed == document else dump(changed, style_of(text)).encode()


def type_name(kind: str) -> str:
    """A type's name as files and events spell it, made plain: lower case, singular, underscores."""
    name = re.sub(r"[^a-z0-9]+", "_", kind.strip().lower()).strip("_")[:40]
    if name.endswith("ies") and len(name) > 4:
        return f"{name[:-3]}y"
    if name.endswith("s") and not name.endswith(("ss", "us", "is")) and len(name) > 2:
        return name[:-1]
    return name or "entity"


def foreign_type(name: str) -> str:
    """The type under which an entity is kept whose type we have no schema for."""
    return f"{FOREIGN_PREFIX}{name}"


def foreign_check(payload: dict[str, JSONValue]) -> None:
    """What an entity of a type without a schema must still be: without secrets."""
    for place, text in _texts(payload, ""):
        found = find_secrets(text)
        if found:
            raise SecretFoundError(
                f"{place} holds what looks like a secret ({found[0].kind}, characters {found[0].start} to {found[0].end})",
                safe="Nothing was written.",
                mend="Take it out of the file, or insist with --insist if it is none.",
            )


# -- reading a document ----------------------------------------------------------------------------------------------


def _read_known(document: dict[str, Any], name: str, path: str) -> _Read:
    """The fields of a type of ours, from the first key of each that holds what the field takes."""
    values: dict[str, JSONValue] = {}
    keys: dict[str, str] = {}
    exact: set[str] = set()
    for field, accept in _hints(name).items():
        for key in (f"periplus_{field}", *_SOURCES.get(field, (field,))):
            if key not in document or key in keys.values():
                continue
            raw = carry(document[key])
            found = accept(raw)
            if found is not None:
                values[field], keys[field] = found, key
                if found == raw and type(found) is type(raw):
                    exact.add(key)
                break
    row = MEMORY_TYPES[name]
    if row.default_state and "state" not in values:
        values["state"] = row.default_state
    values.setdefault("provenance", {"kind": "import", "name": "v1", "source": path})
    rest = {key: value for key, value in document.items() if key not in exact}
    if _is_odd(rest):
        return _Read(values, keys, {"$json": dump(rest, ONE_LINE)})
    named = {*_ID_KEYS, *_TYPE_KEYS}
    return _Read(values, keys, {key: carry(value) for key, value in rest.items() if key not in named})


def _reread(document: dict[str, Any], item_type: str, path: str) -> _Read:
    if item_type.startswith(FOREIGN_PREFIX):
        fields = carry(document) if _is_odd(document) else {key: carry(value) for key, value in document.items()}
        assert isinstance(fields, dict)
        return _Read({}, {}, fields)
    return _read_known(document, item_type, path)


def _misfit(
    document: dict[str, Any],
    read: _Read,
    name: str,
    payload: dict[str, JSONValue],
    types: Mapping[str, EntityType],
    *,
    allow_secrets: bool,
) -> str:
    """Why the document does not fit our type of its name; empty where it does. Raises SecretFoundError."""
    if "state" in _hints(name) and "state" not in read.keys:
        stated = _named(document, _SOURCES["state"])
        if stated:
            return f"a {name} of ours has no state {stated[:40]!r}"
    try:
        types[name].check(payload)
        canonical(payload)
    except SecretFoundError:
        if not allow_secrets:
            raise
    except UsageError as error:
        return error.wrong
    return ""


@cache
def _hints(name: str) -> dict[str, Callable[[JSONValue], JSONValue]]:
    """For each field of a type, the function that gives what a v1 value is there, or None where it is nothing."""
    from typing import get_type_hints

    schema = MEMORY_TYPES[name].schema
    return {
        field: _acceptor(field, hint)
        for field, hint in get_type_hints(schema).items()
        if field in schema.__struct_fields__ and field != "v"
    }


def _acceptor(field: str, hint: Any) -> Callable[[JSONValue], JSONValue]:
    import msgspec

    def accept(raw: JSONValue) -> JSONValue:
        value = _SHAPERS[field](raw) if field in _SHAPERS else raw
        if value is None or value in ("", [], {}):
            return None
        try:
            msgspec.convert(value, hint)
        except msgspec.ValidationError:
            return None
        return value

    return accept


def _text_shape(raw: JSONValue) -> JSONValue:
    return raw if isinstance(raw, str) and raw.strip() else None


def _state_shape(raw: JSONValue) -> JSONValue:
    return raw.strip().lower() if isinstance(raw, str) else None


def _confidence_shape(raw: JSONValue) -> JSONValue:
    """Hundredths: of a share from 0 to 1, or of what is a percentage already."""
    if type(raw) is int:
        return raw * 100 if raw in (0, 1) else raw if 0 <= raw <= 100 else None
    share = _decimal(raw)
    return round(share * 100) if share is not None and 0 <= share <= 1 else None


def _time_shape(raw: JSONValue) -> JSONValue:
    if isinstance(raw, str):
        return raw
    number = float(raw) if type(raw) is int else _decimal(raw)
    if number is None:
        return None
    ms = number if _MS_MIN <= number < _MS_MAX else number * 1000
    return format_ms(int(ms)) if _MS_MIN <= ms < _MS_MAX else None


def _about_shape(raw: JSONValue) -> JSONValue:
    if not isinstance(raw, list):
        return None
    return [{"kind": "path", "ref": item} if isinstance(item, str) else item for item in raw]


def _decimal(raw: JSONValue) -> float | None:
    literal = raw.get("$dec") if isinstance(raw, dict) and len(raw) == 1 else None
    try:
        return float(literal) if isinstance(literal, str) else None
    except ValueError:
        return None


_SHAPERS: Final[dict[str, Callable[[JSONValue], JSONValue]]] = {
    "text": _text_shape, "state": _state_shape, "severity": _state_shape, "confidence": _confidence_shape,
    "created": _time_shape, "updated": _time_shape, "about": _about_shape,
}  # fmt: skip


# -- writing what was changed ----------------------------------------------------------------------------------------


def _changed(document: dict[str, Any], read: _Read, payload: Mapping[str, JSONValue]) -> dict[str, Any]:
    """``document`` with what differs between ``payload`` and what was ``read`` from it."""
    result = dict(document)
    mine = payload.get("fields")
    fields = mine if isinstance(mine, dict) else {}
    for key in sorted({*fields, *read.fields}):
        if key == "$json":
            continue  # carried as a whole: nothing of ours changes it
        if key not in fields:
            result.pop(key, None)
        elif fields[key] != read.fields.get(key, _NOTHING):
            result[key] = uncarry(fields[key])
    values = {key: value for key, value in payload.items() if key not in _OWN}
    for field in sorted({*values, *read.values}):
        key = read.keys.get(field) or (f"periplus_{field}" if field in document else field)
        if field not in values:
            result.pop(key, None)
        elif values[field] != read.values.get(field, _NOTHING):
            result[key] = _written(field, values[field], document.get(key))
    if list(document) == sorted(document) and list(result)[: len(document)] == list(document):
        result = dict(sorted(result.items()))
    return result


_NOTHING: Final = "\0nothing"


def _written(field: str, value: JSONValue, before: Any) -> Any:
    if field == "confidence" and type(value) is int and (isinstance(before, Number) or before in (0, 1) or value == 1):
        return Number(f"{value / 100:g}" if value % 100 else f"{value // 100}.0")
    return uncarry(value)


# -- carrying --------------------------------------------------------------------------------------------------------


def carry(value: Any, depth: int = 0) -> JSONValue:
    """A value of foreign JSON in canonical JSON."""
    if isinstance(value, Number):
        return {"$dec": value.text}
    if isinstance(value, str):
        return value if _is_whole(value) else {"$json": dump(value, ONE_LINE)}
    if isinstance(value, dict | list) and (depth >= _DEPTH_CARRIED or (isinstance(value, dict) and _is_odd(value))):
        return {"$json": dump(value, ONE_LINE)}
    if isinstance(value, dict):
        return {key: carry(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [carry(item, depth + 1) for item in value]
    found: JSONValue = value
    return found


def uncarry(value: JSONValue) -> Any:
    """The foreign value that ``carry`` carried."""
    if isinstance(value, dict):
        if len(value) == 1:
            ((key, item),) = value.items()
            if key == "$dec" and isinstance(item, str) and _NUMBER.fullmatch(item):
                return Number(item)
            if key == "$json" and isinstance(item, str):
                try:
                    return parse_text(item)
                except FormatError:
                    return value
        return {key: uncarry(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [uncarry(item) for item in value]
    return value


_NUMBER: Final = re.compile(r"-?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|Infinity)|NaN")


def _is_odd(value: dict[str, Any]) -> bool:
    """Whether an object has keys that canonical JSON has not, or that would be taken for something carried."""
    return any(not key.isascii() and max(key) >= "\ud800" for key in value) or set(value) in ({"$dec"}, {"$json"})


def _is_whole(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


# -- names -----------------------------------------------------------------------------------------------------------


def _named(document: dict[str, Any], keys: tuple[str, ...]) -> str:
    for key in keys:
        value = document.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if type(value) is int and abs(value) <= INTEGER_MAX and keys is _ID_KEYS:
            return str(value)
    return ""


def _own_id(prefix: str, name: str, old_id: str) -> str:
    """The old id where it is one of ours, else the one that the type's name and the old id always give."""
    if is_id(old_id) and old_id.rpartition("_")[0] == prefix:
        return old_id
    return derived_id(prefix, "v1", name, old_id)


def _stamp(document: dict[str, Any]) -> str:
    for field in ("updated", "created"):
        for key in _SOURCES[field]:
            found = _time_shape(carry(document[key])) if key in document else None
            if isinstance(found, str):
                return found
    return ""


def _texts(value: JSONValue, place: str) -> list[tuple[str, str]]:
    if isinstance(value, str):
        return [(place, value)]
    if isinstance(value, dict):
        return [pair for key, item in value.items() for pair in _texts(item, f"{place}.{key}" if place else key)]
    if isinstance(value, list | tuple):
        return [pair for at, item in enumerate(value) for pair in _texts(item, f"{place}[{at}]")]
    return []
