"""Fields of a version 1 document in our types, and writing changed fields back. Pure.

Each way of reading has a number (``READING``), which is stored with the entity: an entity read by an earlier version
is compared with its text, and written, in the way of that version. A ``Frame`` holds all other inputs of a reading,
so that reading a text again gives the same result.

A value that their word does not fully express (``review``, where they only know ``in_progress``) is stored beside it
as ``periplus_<field>``, which counts as long as the word is the one written for it.
"""

from __future__ import annotations

__all__ = [
    "ID_KEYS",
    "READING",
    "TYPE_KEYS",
    "Frame",
    "Read",
    "accept",
    "carry",
    "changed",
    "has_text",
    "is_odd",
    "named",
    "read_fields",
    "stamp",
    "state_stated",
    "uncarry",
    "waits_for",
]

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from periplus.base.clock import format_ms, parse_ms
from periplus.base.encoding.canonical import INTEGER_MAX, JSONValue
from periplus.base.errors import FormatError, UsageError
from periplus.base.ids import derived_id, is_id
from periplus.interop.version1.json_text import ONE_LINE, Number, dump, parse_text
from periplus.interop.version1.vocabulary import (
    BY_NAME,
    PRIORITIES,
    STATES,
    reference,
    state_of_word,
    state_word,
    type_name,
)
from periplus.memory import MEMORY_TYPES
from periplus.memory.claim_status import imported_holder_id
from periplus.memory.coordination.claims import TTL_S, TTL_S_MAX, TTL_S_MIN
from periplus.memory.entities.types import LIST_LENGTHS
from periplus.memory.scopes import SCOPES_MAX, escaped, parse_scopes

READING: Final = 2
ID_KEYS: Final = ("id", "item_id", "entity_id", "uuid")
TYPE_KEYS: Final = ("type", "item_type", "entity_type")
_OWN: Final = frozenset({"v", "v1", "fields"})
_DEPTH_CARRIED: Final = 40
_FIRST: Final[dict[str, tuple[str, ...]]] = {
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
_SOURCES: Final[dict[str, tuple[str, ...]]] = _FIRST | {
    "about": ("about", "files", "paths", "related_paths", "scope"),
    "recipient": ("recipient", "to"),
    "sender": ("sender", "from", "author", "agent"),
    "thread": ("thread", "thread_id"),
    "needs_answer": ("needs_answer", "requires_ack"),
    "depends_on": ("depends_on", "dependsOn", "dependencies", "blocked_by", "after"),
}
_OF_KIND: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("decision", "state"): ("state", "status", "outcome"),
    ("instruction", "state"): ("state", "status", "active"),
    ("plan", "text"): ("text", "title", "content", "description", "body", "summary"),
    ("step", "text"): ("text", "title", "content", "description", "body", "summary"),
    ("plan", "rationale"): ("rationale", "why"),
    ("step", "plan"): ("plan", "plan_id"),
    ("claim", "author"): ("author", "created_by", "createdBy"),
    ("claim", "about"): ("about", "related_paths"),
    ("claim", "holder"): ("holder", "agent", "owner"),
    ("claim", "session"): ("session",),  # their session is none of ours: whoever has the name may continue
    ("claim", "scopes"): ("scopes", "scope", "files", "paths"),
    ("handoff", "text"): ("text", "narrative", "content", "body", "description", "summary", "message", "title"),
    ("handoff", "author"): ("author", "from", "agent", "created_by", "createdBy"),
    ("handoff", "about"): ("about", "paths", "related_paths", "scope"),
    ("handoff", "files"): ("files", "files_touched"),
    ("handoff", "plan"): ("plan", "plan_id"),
    ("candidate", "reason"): ("reason", "resolution_reason"),
    **{
        ("candidate", name): (f"periplus_{name}",)
        for name in ("item_type", "item_id", "payload", "version", "rev", "why", "subject", "provenance", "source_store", "source_lineage")
    },
}  # fmt: skip
_PROPOSED_KEYS: Final = (*TYPE_KEYS, "candidate_type", "target_type", "kind")
_NOBODY: Final = "unknown"
_AT: Final = {"created": "created_at", "updated": "updated_at", "expires": "expires_at", "state": "status"}
_MS_MIN, _MS_MAX = 10**11, 10**14  # an epoch in milliseconds; seconds are a thousand times smaller
_PATH_LIKE: Final = re.compile(r"[^\s:]*(?:[/*]|\.\w{1,10}$)[^\s:]*")
_REF_CHARACTERS_MAX: Final = 1_000
_PART_OF_PLAN: Final = frozenset({"decision", "constraint", "trap", "lesson", "note", "claim"})


@dataclass(frozen=True, slots=True)
class Frame:
    """Inputs of a reading beside the document: ``names`` maps labels to our ids, ``used`` are those that were used;
    ``is_over`` means that a claim had expired when it was read; ``absent`` are missing dependencies of a plan.
    """

    name: str
    item_type: str
    path: str
    old_id: str
    reading: int = READING
    names: Mapping[str, str] = field(default_factory=dict)
    is_over: bool = False
    absent: frozenset[str] = frozenset()
    used: dict[str, str] = field(default_factory=dict)

    def id_of(self, raw: JSONValue, default: str = "") -> str:
        found = reference(raw, self.names, default)
        if found and isinstance(raw, str) and raw.strip() in self.names:
            self.used[raw.strip()] = found
        return found


@dataclass(frozen=True, slots=True)
class Read:
    """Fields of a payload read from a document, with the key of each."""

    values: dict[str, JSONValue]
    keys: dict[str, str]
    fields: dict[str, JSONValue]


# -- reading ---------------------------------------------------------------------------------------------------------


def read_fields(document: dict[str, Any], frame: Frame, *, hidden: frozenset[str] = frozenset()) -> Read:
    """Read the fields of a type of ours; other members of the document become ``fields``, except ``hidden`` ones."""
    values: dict[str, JSONValue] = {}
    keys: dict[str, str] = {}
    exact: set[str] = set()
    for name in _hints(frame.item_type):
        found, key = _first(document, name, frame, keys)
        if found is None:
            continue
        values[name], keys[name] = found, key
        raw = carry(document[key])
        if found == raw and type(found) is type(raw):
            exact.add(key)
        if frame.reading > 1 and f"periplus_{name}" in document:
            exact.add(f"periplus_{name}")
    row = MEMORY_TYPES[frame.item_type]
    if row.default_state and "state" not in values:
        values["state"] = row.default_state
    if frame.reading > 1:
        _set_defaults(document, values, frame)
    values.setdefault("provenance", {"kind": "import", "name": "v1", "source": frame.path})
    rest = {key: value for key, value in document.items() if key not in exact and key not in hidden}
    if is_odd(rest):
        return Read(values, keys, {"$json": dump(rest, ONE_LINE)})
    apart = {*ID_KEYS, *TYPE_KEYS} if frame.reading == 1 else _named_by(document, frame)
    return Read(values, keys, {key: carry(value) for key, value in rest.items() if key not in apart})


def state_stated(document: dict[str, Any], frame: Frame) -> str:
    return named(document, _keys_of(frame, "state"))


def accept(name: str, raw: JSONValue, frame: Frame) -> JSONValue:
    """Return ``raw`` in the form of the field ``name``; None where it is not valid."""
    import msgspec

    value = _shaped(name, raw, frame)
    if value is None or value in ("", [], {}):
        return None
    try:
        msgspec.convert(value, _hints(frame.item_type)[name])
    except msgspec.ValidationError:
        return None
    if frame.reading > 1 and isinstance(value, list) and len(value) > LIST_LENGTHS.get(name, len(value)):
        return None
    return value


def named(document: dict[str, Any], keys: tuple[str, ...]) -> str:
    """Return the first text under one of ``keys``; for id keys also a whole number."""
    for key in keys:
        value = document.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if type(value) is int and abs(value) <= INTEGER_MAX and keys is ID_KEYS:
            return str(value)
    return ""


def stamp(document: dict[str, Any]) -> str:
    """Return the time of the last change or of the making of a document; empty where it has none."""
    for name in ("updated", "created"):
        for key in _FIRST[name]:
            found = _time_shape(carry(document[key])) if key in document else None
            if isinstance(found, str):
                return found
    return ""


def has_text(document: Mapping[str, Any]) -> bool:
    """Test that a document has anything that could be an entity's text."""
    return any(_text_shape(document.get(key)) for key in (*_FIRST["text"], "narrative"))


def waits_for(document: Mapping[str, Any]) -> list[str]:
    """Return the dependencies of a document, as it names them."""
    found = [document[key] for key in _SOURCES["depends_on"] if isinstance(document.get(key), list)]
    return [one for one in (found[0] if found else ()) if isinstance(one, str)]


def _first(document: dict[str, Any], name: str, frame: Frame, keys: Mapping[str, str]) -> tuple[JSONValue, str]:
    own = f"periplus_{name}"
    if frame.reading == 1:
        for key in (own, *_keys_of(frame, name)):
            if key in document and key not in keys.values():
                return accept(name, carry(document[key]), frame), key
        return None, ""
    mine = accept(name, carry(document[own]), frame) if own in document else None
    for key in _keys_of(frame, name):
        if key not in document or key in keys.values():
            continue
        found = accept(name, carry(document[key]), frame)
        if found is None:
            continue
        if mine is not None and _written(name, mine, document[key], key, frame) == document[key]:
            return mine, key
        return found, key
    return mine, own if mine is not None else ""


def _keys_of(frame: Frame, name: str) -> tuple[str, ...]:
    if frame.reading == 1:
        return _FIRST.get(name, (name,))
    return _OF_KIND.get((frame.name, name)) or _SOURCES.get(name, (name,))


def _named_by(document: dict[str, Any], frame: Frame) -> set[str]:
    """Return the keys that identify the entity: they are stored in its origin."""
    apart = {key for key in ID_KEYS[:1] if key in document}
    apart |= {key for key in ID_KEYS if named(document, (key,)) == frame.old_id}
    for key in TYPE_KEYS:
        stated = named(document, (key,))
        if stated and BY_NAME.get(type_name(stated)) is BY_NAME[frame.name]:
            apart.add(key)
    return apart


@cache
def _hints(item_type: str) -> dict[str, Any]:
    """Return the fields of a type with their annotations."""
    from typing import get_type_hints

    schema = MEMORY_TYPES[item_type].schema
    return {
        name: hint for name, hint in get_type_hints(schema).items() if name in schema.__struct_fields__ and name != "v"
    }


def _shaped(name: str, raw: JSONValue, frame: Frame) -> JSONValue:
    if frame.reading == 1:
        return _FIRST_SHAPERS[name](raw) if name in _FIRST_SHAPERS else raw
    return _SHAPERS[name](raw, frame) if name in _SHAPERS else raw


def _text_shape(raw: JSONValue) -> JSONValue:
    return raw if isinstance(raw, str) and raw.strip() else None


def _lower_shape(raw: JSONValue) -> JSONValue:
    return raw.strip().lower() if isinstance(raw, str) else None


def _confidence_shape(raw: JSONValue) -> JSONValue:
    """Return hundredths of a share from 0 to 1, or a percentage unchanged."""
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


def _first_about_shape(raw: JSONValue) -> JSONValue:
    if not isinstance(raw, list):
        return None
    return [{"kind": "path", "ref": item} if isinstance(item, str) else item for item in raw]


def _state_shape(raw: JSONValue, frame: Frame) -> JSONValue:
    if frame.name == "instruction" and isinstance(raw, bool):
        return "active" if raw else "resolved"
    if frame.name not in STATES:
        return _lower_shape(raw)
    return (state_of_word(frame.name, raw) or None) if isinstance(raw, str) else None


def _expires_shape(raw: JSONValue, frame: Frame) -> JSONValue:
    found = _time_shape(raw)
    if frame.name != "claim":
        return found
    ms = parse_ms(found) if isinstance(found, str) else None
    return None if ms is None else format_ms(ms)  # one form, because the ends of claims are compared as texts


def _about_shape(raw: JSONValue, _frame: Frame) -> JSONValue:
    """Return paths from a list, or from a scope that looks like one: ``scope`` may also name a machine or an agent."""
    if isinstance(raw, str):
        texts = _separated(raw)[: LIST_LENGTHS["about"] + 1]  # one more than fits is refused
        is_path = all(_is_path(text) and _PATH_LIKE.fullmatch(text) for text in texts)
        return [{"kind": "path", "ref": text} for text in texts] if is_path else None
    if not isinstance(raw, list) or any(isinstance(item, str) and not _is_path(item) for item in raw):
        return None
    return _first_about_shape(raw)


def _scopes_shape(raw: JSONValue, _frame: Frame) -> JSONValue:
    texts: JSONValue = list[JSONValue](_separated(raw)) if isinstance(raw, str) else raw
    if not isinstance(texts, list) or len(texts) > SCOPES_MAX:
        return None
    found: list[JSONValue] = []
    for text in texts:
        if not isinstance(text, str) or not _is_path(text):
            return None
        try:
            parse_scopes([text])
            found.append(text)
        except UsageError:
            try:
                parse_scopes([escaped(text)])
            except UsageError:
                return None
            found.append(escaped(text))
    try:
        parse_scopes([str(one) for one in found])
    except UsageError:
        return None
    return found


def _priority_shape(raw: JSONValue, _frame: Frame) -> JSONValue:
    if type(raw) is int:
        return raw if 0 <= raw <= 100 else None
    return PRIORITIES.get(raw.strip().lower()) if isinstance(raw, str) else None


def _depends_shape(raw: JSONValue, frame: Frame) -> JSONValue:
    if not isinstance(raw, list):
        return None
    said = [str(one) if type(one) is int else one for one in raw]
    found = [frame.id_of(one, frame.name) for one in said if not isinstance(one, str) or one not in frame.absent]
    return [one for one in dict.fromkeys(found) if one]


def _plan_shape(raw: JSONValue, frame: Frame) -> JSONValue:
    return frame.id_of(raw, "plan") or None


def _reference_shape(raw: JSONValue, frame: Frame) -> JSONValue:
    return frame.id_of(raw) or _text_shape(raw)


def _tags_shape(raw: JSONValue, _frame: Frame) -> JSONValue:
    return [one.strip() for one in raw.split(",") if one.strip()] if isinstance(raw, str) else raw


def _separated(raw: str) -> list[str]:
    """Split scopes in one text; a comma between braces belongs to a pattern."""
    return [raw] if "{" in raw else [text.strip() for text in raw.split(",") if text.strip()]


def _is_path(text: str) -> bool:
    return 0 < len(text.strip()) <= _REF_CHARACTERS_MAX and "\0" not in text


def _decimal(raw: JSONValue) -> float | None:
    literal = raw.get("$dec") if isinstance(raw, dict) and len(raw) == 1 else None
    try:
        return float(literal) if isinstance(literal, str) else None
    except ValueError:
        return None


_FIRST_SHAPERS: Final[dict[str, Callable[[JSONValue], JSONValue]]] = {
    "text": _text_shape, "state": _lower_shape, "severity": _lower_shape, "confidence": _confidence_shape,
    "created": _time_shape, "updated": _time_shape, "about": _first_about_shape,
}  # fmt: skip
_SHAPERS: Final[dict[str, Callable[[JSONValue, Frame], JSONValue]]] = {
    name: lambda raw, _, shape=shape: shape(raw) for name, shape in _FIRST_SHAPERS.items()
} | {
    "state": _state_shape, "expires": _expires_shape, "about": _about_shape, "scopes": _scopes_shape, "tags": _tags_shape,
    "priority": _priority_shape, "depends_on": _depends_shape, "plan": _plan_shape, "thread": _reference_shape,
    "ref": _reference_shape, "step": lambda raw, _: raw if isinstance(raw, str) and is_id(raw) else None,
}  # fmt: skip


# -- derived values --------------------------------------------------------------------------------------------------


def _set_defaults(document: dict[str, Any], values: dict[str, JSONValue], frame: Frame) -> None:
    """Add values that follow from the others: they are derived at each reading, and written only where they change."""
    if frame.name == "claim":
        _set_claim(values, frame)
    elif frame.name == "candidate":
        _set_candidate(document, values, frame)
    elif frame.name == "message":
        values.setdefault("created", stamp(document))
        parts = frame.path.split("/")
        if len(parts) > 2 and type_name(parts[-3]) == "inbox" and type_name(parts[-2]) not in BY_NAME:
            values.setdefault("recipient", parts[-2])
        values.setdefault("recipient", _NOBODY)
        values.setdefault("sender", _NOBODY)
    plan = frame.id_of(carry(document.get("plan_id")), "plan") if frame.name in _PART_OF_PLAN else ""
    if plan:
        values.setdefault("relations", [{"kind": "part_of", "target": plan}])


def _set_candidate(document: dict[str, Any], values: dict[str, JSONValue], frame: Frame) -> None:
    """Add the proposal: the entity of the document when read as its stated type."""
    stated = [BY_NAME.get(type_name(word)) for key in _PROPOSED_KEYS if (word := named(document, (key,)))]
    proposed = next((one for one in stated if one is not None and one.name != "candidate"), BY_NAME["note"])
    inner = Frame(proposed.name, proposed.item_type, frame.path, frame.old_id, names=frame.names, used=frame.used)
    hidden = frozenset(_keys_of(inner, "state"))
    nested = next(
        (one for key in ("payload", "proposal") if isinstance(one := document.get(key), dict) and has_text(one)),
        document,
    )
    read = read_fields({key: value for key, value in nested.items() if key not in hidden}, inner)
    values |= {
        "item_type": proposed.item_type, "payload": {"v": 1, **read.values}, "source_store": "v1", "source_lineage": "v1",
        "item_id": frame.old_id, "version": derived_id("v1", "candidate", frame.old_id), "rev": 1,
    }  # fmt: skip
    values.setdefault("created", stamp(document))


def _set_claim(values: dict[str, JSONValue], frame: Frame) -> None:
    scopes = values.get("scopes")
    if isinstance(scopes, list):
        values.setdefault("text", ", ".join(map(str, scopes)))
        values.setdefault("about", [{"kind": "path", "ref": scope} for scope in scopes[: LIST_LENGTHS["about"]]])
    values.setdefault("holder", values.get("author") or _NOBODY)
    values.setdefault("holder_id", imported_holder_id(str(values["holder"])))
    began = parse_ms(str(values.get("created", "")))
    values.setdefault("expires", format_ms((began or 0) + TTL_S * 1000))
    ends = parse_ms(str(values["expires"]))
    ttl_s = TTL_S if began is None or ends is None else (ends - began) // 1000
    values.setdefault("ttl_s", min(max(ttl_s, TTL_S_MIN), TTL_S_MAX))
    if frame.is_over and values.get("state") == "held":
        values["state"] = "expired"


# -- writing changes ------------------------------------------------------------------------------------------------


def changed(document: dict[str, Any], read: Read, payload: Mapping[str, JSONValue], frame: Frame) -> dict[str, Any]:
    """Return ``document`` with the differences between ``payload`` and the ``read`` fields."""
    result = dict(document)
    mine = payload.get("fields")
    fields = mine if isinstance(mine, dict) else {}
    for key in sorted({*fields, *read.fields}):
        if key == "$json":
            continue  # converted as a whole: our changes do not affect it
        if key not in fields:
            result.pop(key, None)
        elif fields[key] != read.fields.get(key, _NOTHING):
            result[key] = uncarry(fields[key])
    values = {key: value for key, value in payload.items() if key not in _OWN}
    for name in sorted({*values, *read.values}):
        key = read.keys.get(name) or _new_key(document, name, frame)
        if name not in values:
            result.pop(key, None)
            result.pop(f"periplus_{name}", None)
        elif values[name] != read.values.get(name, _NOTHING):
            _write(result, document, name, values[name], key, frame)
    if list(document) == sorted(document) and list(result)[: len(document)] == list(document):
        result = dict(sorted(result.items()))
    return result


_NOTHING: Final = "\0nothing"


def _new_key(document: dict[str, Any], name: str, frame: Frame) -> str:
    """Return the key for a new field, in the spelling of the document."""
    key = name
    if frame.reading > 1 and "created_at" in document:
        key = "related_paths" if name == "about" else _AT.get(name, name)
    return key if key not in document else f"periplus_{name}"


def _write(
    result: dict[str, Any], document: dict[str, Any], name: str, value: JSONValue, key: str, frame: Frame
) -> None:
    own = f"periplus_{name}"
    if frame.reading == 1 or key == own or name not in _hints(frame.item_type):
        result[key] = _first_written(name, value, document.get(key))
        return
    result[key] = _written(name, value, document.get(key), key, frame)
    if accept(name, carry(result[key]), frame) == value:
        result.pop(own, None)
    else:
        result[own] = uncarry(value)


def _written(name: str, value: JSONValue, before: Any, key: str, frame: Frame) -> Any:
    """Return our value in the form that the document uses under ``key``, where ``before`` stands."""
    if name == "state" and frame.name in STATES and isinstance(value, str):
        if frame.name == "instruction" and isinstance(before, bool):
            return value == "active"
        return state_word(frame.name, key, before, value)
    if name == "priority" and isinstance(before, str) and type(value) is int:
        return min(PRIORITIES, key=lambda word: abs(PRIORITIES[word] - value))
    if name == "about" and key != "about" and isinstance(value, list):
        refs = [one.get("ref") for one in value if isinstance(one, dict) and one.get("kind") == "path"]
        return uncarry(refs[0] if isinstance(before, str) and len(refs) == 1 else list[JSONValue](refs))
    if name == "depends_on" and isinstance(before, list) and isinstance(value, list):
        theirs = {frame.id_of(one, frame.name): one for one in before if isinstance(one, str)}
        return [theirs.get(str(one), one) for one in value]
    return _first_written(name, value, before)


def _first_written(name: str, value: JSONValue, before: Any) -> Any:
    if name == "confidence" and type(value) is int and (isinstance(before, Number) or before in (0, 1) or value == 1):
        return Number(f"{value / 100:g}" if value % 100 else f"{value // 100}.0")
    return uncarry(value)


# -- carrying --------------------------------------------------------------------------------------------------------


def carry(value: Any, depth: int = 0) -> JSONValue:
    """Convert a value of foreign JSON to canonical JSON."""
    if isinstance(value, Number):
        return {"$dec": value.text}
    if isinstance(value, str):
        return value if _is_whole(value) else {"$json": dump(value, ONE_LINE)}
    if isinstance(value, dict | list) and (depth >= _DEPTH_CARRIED or (isinstance(value, dict) and is_odd(value))):
        return {"$json": dump(value, ONE_LINE)}
    if isinstance(value, dict):
        return {key: carry(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [carry(item, depth + 1) for item in value]
    found: JSONValue = value
    return found


def uncarry(value: JSONValue) -> Any:
    """Restore the foreign value that ``carry`` converted."""
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


def is_odd(value: dict[str, Any]) -> bool:
    """Detect an object with keys that canonical JSON does not allow, or that looks like a converted value."""
    return any(not key.isascii() and max(key) >= "\ud800" for key in value) or set(value) in ({"$dec"}, {"$json"})


def _is_whole(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
