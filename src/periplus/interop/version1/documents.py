"""Entity files of version 1 (the notification log): conversion between file texts and payloads. Pure.

A v1 file is one JSON object with any keys. Its entity keeps the text verbatim (``v1.text``); known fields are converted
(``fields``), all others go to ``fields``. So writing back needs no guess: the difference between the payload and the
payload that ``v1.text`` gives was made here, and only that is written into the object of the text. An unchanged entity
gives its text, byte for byte. The steps of a plan are separate entities (``plan_steps``) within the plan's file.

Values that canonical JSON cannot hold are wrapped: a number with a fraction, an exponent or more than 53 bits as
``{"$dec": "1.50"}`` (its literal), other values (lone surrogates, deep nesting) as ``{"$json": "<its text>"}``.
"""

from __future__ import annotations

__all__ = [
    "FILE_BYTES_MAX",
    "FOREIGN_PREFIX",
    "Key",
    "Part",
    "V1Entity",
    "carry",
    "foreign_check",
    "foreign_type",
    "has_parts",
    "id_in",
    "label_of",
    "parse_file",
    "part_ids",
    "read_entity",
    "render_file",
    "type_name",
    "uncarry",
]

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from periplus.base.clock import parse_ms
from periplus.base.encoding.canonical import JSONValue, canonical
from periplus.base.errors import FormatError, SecretFoundError, UsageError
from periplus.base.ids import derived_id, is_id
from periplus.base.text.secrets import find_secrets
from periplus.interop.version1.fields import (
    ID_KEYS,
    READING,
    TYPE_KEYS,
    Frame,
    Read,
    carry,
    changed,
    has_text,
    is_odd,
    named,
    read_fields,
    stamp,
    state_stated,
    uncarry,
)
from periplus.interop.version1.json_text import Style, dump, parse_text, style_of
from periplus.interop.version1.plan_steps import STEPS, plan_waits_for, read_steps, write_steps
from periplus.interop.version1.vocabulary import BY_NAME, LABEL, Kind, kind_of, type_name
from periplus.journal import EntityType
from periplus.memory import MEMORY_TYPES
from periplus.memory.entities.types import NOT_REMEMBERED

Key: TypeAlias = tuple[str, str]
FILE_BYTES_MAX: Final = 4 << 20
FOREIGN_PREFIX: Final = "v1_"
_NO_NAMES: Final[Mapping[str, str]] = {}


class Part(NamedTuple):
    """An entity within the file of another one: a step of a plan."""

    item_id: str
    payload: dict[str, JSONValue]


class V1Entity(NamedTuple):
    """The entity of a file. ``misfit`` says why its type is not one of ours although its name is.

    ``before`` are the entities that earlier versions made of such a file.
    """

    item_type: str
    item_id: str
    payload: dict[str, JSONValue]
    name: str  # the type name of v1, normalised: files are identified by (name, old id)
    old_id: str
    stamp: str
    misfit: str
    parts: tuple[Part, ...] = ()
    before: tuple[Key, ...] = ()


def parse_file(data: bytes) -> tuple[str, dict[str, Any]]:
    """Return text and object of a file. Raises FormatError with the reason."""
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
    text: str, document: dict[str, Any], path: str, types: Mapping[str, EntityType], *, allow_secrets: bool = False,
    names: Mapping[str, str] = _NO_NAMES, present: Collection[str] | None = None, now_ms: int = 0, as_type: str = "",
) -> V1Entity:  # fmt: skip
    """Return the entity of the file at ``path`` (relative, with slashes).

    ``names`` maps labels to our ids; dependencies on entities that are not ``present`` (if given) are left out; a
    claim that ends before ``now_ms`` has expired. ``as_type`` overrides the type given in the file. Raises
    SecretFoundError for a secret, UsageError for a file that names neither an id nor a type.
    """
    folder, _, file = path.rpartition("/")
    stated = named(document, TYPE_KEYS)
    stated_id = named(document, ID_KEYS)
    if not folder and not stated and not stated_id:
        raise UsageError("it has neither an id nor a type, and is not in the folder of a type")
    old_id = stated_id or file.removesuffix(".json")
    plain = type_name(stated or folder.rpartition("/")[2] or "entity")
    kind = kind_of(folder, old_id, stated, document)
    name = kind.name if kind is not None else plain
    if as_type:
        name = as_type.removeprefix(FOREIGN_PREFIX)
        kind = None if as_type.startswith(FOREIGN_PREFIX) else BY_NAME[name]
    misfit = ""
    if kind is not None:
        found = _known(text, document, path, types, kind, old_id, names, present, now_ms, allow_secrets=allow_secrets)
        if isinstance(found, V1Entity):
            return found._replace(before=_before(plain, old_id, (found.item_type, found.item_id)))
        misfit = found if kind.item_type not in NOT_REMEMBERED or has_text(document) else ""
    said = stated or folder.rpartition("/")[2] or "entity"
    origin: dict[str, JSONValue] = {
        "id": old_id,
        "type": said if type_name(said) == name else name,
        "path": path,
        "text": text,
    }
    payload: dict[str, JSONValue] = {"v": 1, "fields": _foreign_fields(document), "v1": origin}
    if not allow_secrets:
        foreign_check(payload)
    canonical(payload)
    key = (foreign_type(name), _own_id("v1", name, old_id))
    return V1Entity(*key, payload, name, old_id, stamp(document), misfit, before=_before(plain, old_id, key))


def render_file(
    item_type: str, item_id: str, payload: Mapping[str, JSONValue],
    parts: Mapping[str, Mapping[str, JSONValue] | None] | None = None,
) -> bytes:  # fmt: skip
    """Write the entity as a v1 file: its own text with the later changes, or a new one.

    ``parts`` are the entities within its file by id, with None for a deleted one; parts that are not named stay as in
    the text.
    """
    origin = payload.get("v1")
    text = origin.get("text") if isinstance(origin, dict) else None
    try:
        document: dict[str, Any] = parse_file(text.encode())[1] if isinstance(text, str) else {}
    except FormatError:  # a secret was removed from the text, and braces with it
        text, document = None, {}
    frame = _frame(item_type, item_id, origin if isinstance(origin, dict) else {})
    if not isinstance(text, str):
        origin = origin if isinstance(origin, dict) else {}
        base: dict[str, Any] = {"id": origin.get("id", item_id), "type": origin.get("type", item_type)}
        return dump(changed(base, Read({}, {}, {}), payload, _plain_frame(frame)), Style()).encode()
    result = changed(document, _reread(document, item_type, frame), payload, frame)
    if parts and has_parts(item_type, payload):
        result = write_steps(document, result, frame, item_id, parts)
    return text.encode() if result == document else dump(result, style_of(text)).encode()


def has_parts(item_type: str, payload: Mapping[str, JSONValue]) -> bool:
    """Test that the steps of a plan stand in its file."""
    origin = payload.get("v1")
    text = origin.get("text") if item_type == "plan" and isinstance(origin, dict) and _reading_of(origin) > 1 else None
    if not isinstance(origin, dict) or not isinstance(text, str):
        return False
    return f'"{STEPS}"' in text or not is_id(
        str(origin.get("id"))
    )  # steps of a plan that was made here have files of their own


def part_ids(item_id: str, payload: Mapping[str, JSONValue]) -> list[str]:
    """Return the ids of the entities that stood in the file when it was last read."""
    origin = payload.get("v1")
    if not has_parts("plan", payload) or not isinstance(origin, dict):
        return []
    try:
        document = parse_file(str(origin.get("text")).encode())[1]
    except FormatError:
        return []
    return [step.item_id for step in read_steps(document, _frame("plan", item_id, origin), item_id)]


def label_of(document: Mapping[str, Any]) -> str:
    """Return the short name of an entity (``pln#12``); empty where it has none."""
    found = next((document[key] for key in ("short_label", "label") if isinstance(document.get(key), str)), "")
    return found if LABEL.fullmatch(found) else ""


def id_in(path: str, document: dict[str, Any]) -> str:
    """Return our id for the entity of a file; empty where it has no counterpart."""
    stated, stated_id = named(document, TYPE_KEYS), named(document, ID_KEYS)
    folder, _, file = path.rpartition("/")
    old_id = stated_id or file.removesuffix(".json")
    kind = kind_of(folder, old_id, stated, document)
    return _own_id(kind.prefix, kind.name, old_id) if kind is not None else ""


def foreign_type(name: str) -> str:
    """Return the type name for entities without a schema of ours."""
    return f"{FOREIGN_PREFIX}{name}"


def foreign_check(payload: dict[str, JSONValue]) -> None:
    """Check an entity of a type without a schema: it must not contain secrets."""
    for place, text in _texts(payload, ""):
        found = find_secrets(text)
        if found:
            raise SecretFoundError(
                f"{place} contains a likely secret ({found[0].kind}, characters {found[0].start} to {found[0].end})",
                safe="Nothing was written.",
                mend="Remove it from the file, or use --insist if it is no secret.",
            )


# -- reading a document ----------------------------------------------------------------------------------------------


def _known(
    text: str, document: dict[str, Any], path: str, types: Mapping[str, EntityType], kind: Kind, old_id: str,
    names: Mapping[str, str], present: Collection[str] | None, now_ms: int, *, allow_secrets: bool,
) -> V1Entity | str:  # fmt: skip
    """Return the entity of a type of ours, or why it does not fit. Raises SecretFoundError."""
    frame = Frame(kind.name, kind.item_type, path, old_id, names=names)
    if kind.item_type in ("plan", "step") and present is not None:
        waited = {one for one in plan_waits_for(document) if frame.id_of(one, kind.name) not in present}
        frame = Frame(kind.name, kind.item_type, path, old_id, names=names, absent=frozenset(waited))
    read = _reread(document, kind.item_type, frame)
    if kind.name == "claim" and _ends_ms(read) <= now_ms:
        frame = Frame(kind.name, kind.item_type, path, old_id, names=names, is_over=True)
        read = _reread(document, kind.item_type, frame)
    item_id = _own_id(kind.prefix, kind.name, old_id)
    steps = read_steps(document, frame, item_id) if kind.name == "plan" else []
    origin: dict[str, JSONValue] = {"id": old_id, "type": kind.name, "path": path, "text": text, "reading": READING}
    label = label_of(document)
    more: dict[str, JSONValue] = {"label": label, "names": dict(sorted(frame.used.items())), "is_over": frame.is_over,
                                  "absent": list[JSONValue](sorted(frame.absent))}  # fmt: skip
    origin |= {key: held for key, held in more.items() if held}
    payload: dict[str, JSONValue] = {"v": 1, **read.values, "v1": origin}
    if read.fields:
        payload["fields"] = read.fields
    misfit = _misfit(document, read, frame, payload, types, allow_secrets=allow_secrets)
    if misfit:
        return misfit
    parts = tuple(Part(step.item_id, step.payload) for step in steps) if has_parts(kind.item_type, payload) else ()
    return V1Entity(kind.item_type, item_id, payload, kind.name, old_id, stamp(document), "", parts)


def _reread(document: dict[str, Any], item_type: str, frame: Frame) -> Read:
    if item_type.startswith(FOREIGN_PREFIX):
        return Read({}, {}, _foreign_fields(document))
    steps = document.get(STEPS) if item_type == "plan" and frame.reading > 1 else None
    is_whole = isinstance(steps, list) and len(read_steps(document, frame, "")) == len(steps)
    return read_fields(document, frame, hidden=frozenset({STEPS}) if is_whole else frozenset())


def _foreign_fields(document: dict[str, Any]) -> dict[str, JSONValue]:
    fields = carry(document) if is_odd(document) else {key: carry(value) for key, value in document.items()}
    assert isinstance(fields, dict)
    return fields


def _frame(item_type: str, item_id: str, origin: Mapping[str, JSONValue]) -> Frame:
    """Return the frame in which an entity was read, from its origin."""
    path, old_id, said = origin.get("path"), origin.get("id"), origin.get("names")
    reading = _reading_of(origin)
    name = str(origin.get("type")) if reading > 1 else item_type
    kind = BY_NAME.get(name)
    if kind is None or kind.item_type != item_type:
        name = item_type
    names = {label: one for label, one in said.items() if isinstance(one, str)} if isinstance(said, dict) else {}
    absent = origin.get("absent")
    return Frame(name, item_type, path if isinstance(path, str) else "", old_id if isinstance(old_id, str) else item_id,
                 reading, names, origin.get("is_over") is True,
                 frozenset(map(str, absent)) if isinstance(absent, list) else frozenset())  # fmt: skip


def _plain_frame(frame: Frame) -> Frame:
    """Return the frame of an entity without a text, which is written in our own words."""
    return Frame(frame.name, frame.item_type, frame.path, frame.old_id, 1)


def _reading_of(origin: Mapping[str, JSONValue]) -> int:
    reading = origin.get("reading")
    return READING if reading == READING else 1


def _ends_ms(read: Read) -> int:
    ends = parse_ms(str(read.values.get("expires", "")))
    return 0 if ends is None else ends


def _misfit(
    document: dict[str, Any],
    read: Read,
    frame: Frame,
    payload: dict[str, JSONValue],
    types: Mapping[str, EntityType],
    *,
    allow_secrets: bool,
) -> str:
    """Return why the document does not fit our type of its name; empty where it does. Raises SecretFoundError."""
    if MEMORY_TYPES[frame.item_type].default_state and "state" not in read.keys:
        stated = state_stated(document, frame)
        if stated:
            return f"a {frame.name} of ours has no state {stated[:40]!r}"
    try:
        types[frame.item_type].admit(payload)
        if frame.name == "candidate":
            _check_proposed(payload, types)
        canonical(payload)
    except SecretFoundError:
        if not allow_secrets:
            raise
    except UsageError as error:
        return error.wrong
    return ""


def _check_proposed(payload: dict[str, JSONValue], types: Mapping[str, EntityType]) -> None:
    proposed = payload["payload"]
    assert isinstance(proposed, dict)
    types[str(payload["item_type"])].admit(proposed)


def _before(plain: str, old_id: str, key: Key) -> tuple[Key, ...]:
    """Return the entities that the first reading made of a file: one of a fitting type of ours, or one kept whole."""
    found = [(foreign_type(plain), _own_id("v1", plain, old_id))]
    if plain in MEMORY_TYPES and plain not in NOT_REMEMBERED:
        found.append((plain, _own_id(MEMORY_TYPES[plain].prefix, plain, old_id)))
    return tuple(one for one in found if one != key)


# -- names -----------------------------------------------------------------------------------------------------------


def _own_id(prefix: str, name: str, old_id: str) -> str:
    """Return the old id where it is one of ours, else the id derived from the type name and the old id."""
    if is_id(old_id) and old_id.rpartition("_")[0] == prefix:
        return old_id
    return derived_id(prefix, "v1", name, old_id)


def _texts(value: JSONValue, place: str) -> list[tuple[str, str]]:
    if isinstance(value, str):
        return [(place, value)]
    if isinstance(value, dict):
        return [pair for key, item in value.items() for pair in _texts(item, f"{place}.{key}" if place else key)]
    if isinstance(value, list | tuple):
        return [pair for at, item in enumerate(value) for pair in _texts(item, f"{place}[{at}]")]
    return []
