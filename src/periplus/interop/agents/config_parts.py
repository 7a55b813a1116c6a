"""Parts that ``connect`` adds to a file, as values: adding, removing, and distinguishing them from entries of others.

Pure: bytes in, bytes out. ``None`` stands for no file. Each function raises FormatError for a file of another format,
and RefusedError where an entry of somebody else has our place.
"""

from __future__ import annotations

__all__ = [
    "BlockPart",
    "Entry",
    "JsonPart",
    "Part",
    "Standing",
    "TomlHooksPart",
    "TomlItemPart",
    "TomlPart",
    "WholePart",
    "YamlHooksPart",
    "YamlPart",
    "hook_places",
    "is_edited",
    "put",
    "standing",
    "starts",
    "take",
]

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, assert_never

from periplus.base.errors import FormatError, RefusedError
from periplus.interop.agents.editing.jsonc_editing import (
    Dialect,
    Json,
    JsonText,
    Keys,
    append_item,
    parse,
    remove,
    set_member,
)
from periplus.interop.agents.editing.markdown_block import (
    find_block,
    is_intact,
    is_sealed,
    put_block,
    remove_block,
    sealed,
    text_of,
)
from periplus.interop.agents.editing.toml_editing import (
    item_place,
    parse_toml,
    put_item,
    put_items,
    put_table,
    remove_item,
    remove_items,
    remove_table,
)
from periplus.interop.agents.editing.yaml_editing import YamlValue, entry_at, put_entry, remove_entry, value_at
from periplus.interop.agents.editing.yaml_hooks import hooks_of, put_hooks, remove_hooks
from periplus.interop.agents.editing.yaml_parsing import YamlText, parse_yaml

Standing: TypeAlias = Literal["absent", "current", "older", "edited", "foreign"]

TOML_COMMENT: Final = "written by `periplus connect`; `periplus disconnect` takes it out"
_HOOK: Final = re.compile(r"\bhook [A-Za-z_]+ --agent ([a-z-]+)(?![\w-])")
_BLANK: Final = " \t\r\n"
_MEND: Final = "Mend the file, then repeat the command."


class Entry(NamedTuple):
    """``value`` at ``keys``: the member of that name, or with ``is_item`` an additional item of the array of that
    name.
    """

    keys: tuple[str, ...]
    value: Json
    is_item: bool = False


class JsonPart(NamedTuple):
    """Entries of a JSON file. ``agent`` names the owner of hook items. ``defaults`` are required members of such a
    file.
    """

    path: str
    what: str
    agent: str
    entries: tuple[Entry, ...]
    defaults: tuple[Entry, ...] = ()
    dialect: Dialect = "jsonc"


class TomlPart(NamedTuple):
    """Table of a TOML file."""

    path: str
    what: str
    keys: tuple[str, ...]
    values: dict[str, str | tuple[str, ...]]


class TomlItemPart(NamedTuple):
    """Element of an array of tables of a TOML file, with its ``name`` among the values. ``defaults`` are required keys of
    the table that contains the array.
    """

    path: str
    what: str
    keys: tuple[str, ...]
    values: dict[str, str | tuple[str, ...]]
    defaults: tuple[tuple[str, bool], ...] = ()


class TomlHooksPart(NamedTuple):
    """Elements of the array ``hooks`` of a TOML file. ``agent`` names their owner."""

    path: str
    what: str
    agent: str
    items: tuple[dict[str, str], ...]


class YamlPart(NamedTuple):
    """Entry of a mapping of a YAML file."""

    path: str
    what: str
    keys: tuple[str, ...]
    values: dict[str, YamlValue]


class YamlHooksPart(NamedTuple):
    """Hooks in the mapping ``hooks`` of a YAML file, by event. ``agent`` names their owner."""

    path: str
    what: str
    agent: str
    items: dict[str, dict[str, str | int]]


class BlockPart(NamedTuple):
    """Block of whole lines in a Markdown file. With ``unless``, only where the file has no line with that text."""

    path: str
    what: str
    body: str
    unless: str = ""


class WholePart(NamedTuple):
    """File that is entirely ours; ``text`` contains an open seal."""

    path: str
    what: str
    text: str


Part: TypeAlias = JsonPart | TomlPart | TomlItemPart | TomlHooksPart | YamlPart | YamlHooksPart | BlockPart | WholePart


def put(part: Part, data: bytes | None, path: str) -> bytes:
    """Return the file with our part in its present form."""
    held = data or b""
    if isinstance(part, JsonPart):
        return _put_json(part, parse(held, path, part.dialect)).data
    if isinstance(part, TomlPart):
        text = parse_toml(held, path)
        if standing(part, data, path) == "foreign":
            raise _foreign(path, ".".join(part.keys))
        return put_table(text, part.keys, part.values, TOML_COMMENT).data
    if isinstance(part, TomlItemPart):
        text = parse_toml(held, path)
        if standing(part, data, path) == "foreign":
            raise _foreign(path, f"{'.'.join(part.keys)} with the name {part.values['name']}")
        return put_item(text, part.keys, part.values, TOML_COMMENT, defaults=dict(part.defaults)).data
    if isinstance(part, TomlHooksPart):
        return put_items(parse_toml(held, path), ("hooks",), part.items, _owned(part), TOML_COMMENT).data
    if isinstance(part, YamlPart):
        if standing(part, data, path) == "foreign":
            raise _foreign(path, ".".join(part.keys))
        return put_entry(_yaml(part, held, path), part.keys, part.values).data
    if isinstance(part, YamlHooksPart):
        return put_hooks(parse_yaml(held, path, _MEND), part.items, _owned(part)).data
    if isinstance(part, BlockPart):
        old = text_of(held, path)
        return old.encode() if _is_said(part, old) else put_block(old, part.body, path).encode()
    if isinstance(part, WholePart):
        if standing(part, data, path) == "foreign":
            raise RefusedError(f"{path} exists already, and is not ours", safe="Nothing was changed.",
                               mend="Move it away, then repeat the command.")  # fmt: skip
        return sealed(part.text).encode()
    assert_never(part)


def take(part: Part, data: bytes, path: str, original: bytes | None) -> bytes | None:
    """Return the file without our part; None where nothing of others remains.

    ``original`` is the file before our first change, if known: it tells which containers were made for us.
    """
    if isinstance(part, JsonPart):
        return _take_json(part, parse(data, path, part.dialect), original)
    if isinstance(part, TomlPart):
        text = parse_toml(data, path)
        if standing(part, data, path) in ("absent", "foreign"):
            return data
        rest = remove_table(text, part.keys, TOML_COMMENT)
        return rest.data if rest.text.strip() or original is not None else None
    if isinstance(part, TomlItemPart):
        text = parse_toml(data, path)
        if standing(part, data, path) in ("absent", "foreign"):
            return data
        rest = remove_item(text, part.keys, str(part.values["name"]), TOML_COMMENT, defaults=dict(part.defaults))
        return rest.data if rest.text.strip() or original is not None else None
    if isinstance(part, TomlHooksPart):
        rest = remove_items(parse_toml(data, path), ("hooks",), _owned(part), TOML_COMMENT)
        return rest.data if rest.text.strip() or original is not None else None
    if isinstance(part, YamlPart):
        return _take_yaml(part, data, path, original)
    if isinstance(part, YamlHooksPart):
        kept = entry_at(parse_yaml(original or b"", path, _MEND), ("hooks",)) is not None
        left = remove_hooks(parse_yaml(data, path, _MEND), _owned(part), kept=kept)
        return left.data if left.text.strip() or original is not None else None
    if isinstance(part, BlockPart):
        rest_text = remove_block(text_of(data, path), path)
        return rest_text.encode() if rest_text.strip("\ufeff" + _BLANK) or original is not None else None
    if isinstance(part, WholePart):
        return data if standing(part, data, path) == "foreign" else None
    assert_never(part)


def standing(part: Part, data: bytes | None, path: str) -> Standing:
    """Return the state of our part in the file. ``foreign``: an entry of somebody else has our place."""
    if data is None:
        return "absent"
    if isinstance(part, JsonPart):
        return _json_standing(part, parse(data, path, part.dialect))
    if isinstance(part, TomlPart):
        return _toml_standing(part, parse_toml(data, path).value)
    if isinstance(part, TomlItemPart):
        return _item_standing(part, parse_toml(data, path).value)
    if isinstance(part, YamlHooksPart):
        there = hooks_of(parse_yaml(data, path, _MEND), _owned(part))
        return (
            "absent"
            if not there
            else "current"
            if there == {name: [one] for name, one in part.items.items()}
            else "older"
        )
    if isinstance(part, TomlHooksPart):
        held_items = _owned_items(part, data)
        return "absent" if not held_items else "current" if held_items == list(part.items) else "older"
    if isinstance(part, YamlPart):
        return _table_standing(value_at(_yaml(part, data, path), part.keys), part.values)
    text = text_of(data, path)
    if isinstance(part, BlockPart):
        held = find_block(text, path)
        if held is None:
            return "current" if _is_said(part, text) else "absent"
        return "edited" if held.is_edited else "current" if held.body == part.body else "older"
    if isinstance(part, WholePart):
        if not is_sealed(text):
            return "foreign"
        return "current" if text == sealed(part.text) else "older" if is_intact(text) else "edited"
    assert_never(part)


def starts(part: Part, data: bytes, command: Sequence[str]) -> bool:
    """Test that the hooks of a part in a file start ``command``, for all events."""
    if isinstance(part, JsonPart):
        held = parse(data, part.path, part.dialect)
        line = re.compile(rf'(?<![^\s"&;]){re.escape(json.dumps(shlex.join((*command, "hook")))[1:-1])}(?!\S)')
        found = [json.dumps(_at(held, keys)) for keys in _our_items(part, held)]
        return bool(found) and all(line.search(one) for one in found)
    if isinstance(part, TomlHooksPart | YamlHooksPart):
        line = re.compile(rf"(?<![^\s&;]){re.escape(shlex.join((*command, 'hook')))}(?!\S)")
        commands = [one.get("command") for one in _owned_items(part, data)]
        return bool(commands) and all(isinstance(one, str) and line.search(one) for one in commands)
    if isinstance(part, WholePart):
        return f"const COMMAND = {json.dumps(list(command))}\n" in text_of(data, part.path)
    return False


def is_edited(part: Part, data: bytes | None, path: str) -> bool:
    """Test that somebody changed our block or file: it is kept when ours replaces it."""
    return standing(part, data, path) == "edited"


def _is_said(part: BlockPart, text: str) -> bool:
    """Test that the file contains by itself what our part would add."""
    if not part.unless or find_block(text, part.path) is not None:
        return False
    return any(line.strip() == part.unless for line in text.splitlines())


def _foreign(path: str, what: str) -> RefusedError:
    return RefusedError(
        f"{path}: {what} exists already, in another form than `periplus connect` writes", safe="Nothing was changed.",
        mend="Remove or rename that entry, then repeat the command.",
    )  # fmt: skip


# -- JSON ------------------------------------------------------------------------------------------------------------


def _put_json(part: JsonPart, held: JsonText) -> JsonText:
    for entry in part.defaults:
        if held.find(entry.keys) is None:
            held = set_member(held, entry.keys, entry.value)
    wanted = {entry.keys: entry.value for entry in part.entries if entry.is_item}
    for keys in reversed(list(_our_items(part, held))):
        if wanted.get(_names(keys[:-1])) != _at(held, keys):
            held = remove(held, keys)
    for entry in part.entries:
        if not entry.is_item:
            node = held.find(entry.keys)
            if node is not None and not _is_our_server(node.value):
                raise _foreign(held.path, ".".join(entry.keys))
            held = set_member(held, entry.keys, _with_additions(node.value if node is not None else None, entry.value))
            continue
        there = [keys for keys in _our_items(part, held) if _names(keys[:-1]) == entry.keys]
        for keys in reversed(there[1:]):
            held = remove(held, keys)
        if not there:
            held = append_item(held, entry.keys, entry.value)
    return held


def _take_json(part: JsonPart, held: JsonText, original: bytes | None) -> bytes | None:
    before = _value_of(original, part)
    emptied: list[tuple[str, ...]] = []
    for keys in reversed(list(_our_items(part, held))):
        held = remove(held, keys)
        names = _names(keys)
        emptied += [names[:end] for end in range(len(names), 0, -1)]
    for entry in part.entries:
        node = None if entry.is_item else held.find(entry.keys)
        if node is not None and _is_our_server(node.value):
            held = remove(held, entry.keys)
            emptied += [entry.keys[:end] for end in range(len(entry.keys) - 1, 0, -1)]
    for names in sorted(set(emptied), key=len, reverse=True):
        node = held.find(names)
        if node is not None and node.value in ([], {}) and not _is_bare(held.text[node.start : node.end]):
            continue  # it contains a comment
        if node is not None and node.value in ([], {}) and not _has(before, names):
            held = remove(held, names)
    defaults = {entry.keys[0]: entry.value for entry in part.defaults}
    is_ours_alone = held.value in ({}, defaults) and not _comments(held)
    return None if original is None and is_ours_alone else held.data


def _json_standing(part: JsonPart, held: JsonText) -> Standing:
    items = list(_our_items(part, held))
    found = 0
    for entry in part.entries:
        node = None if entry.is_item else held.find(entry.keys)
        if node is not None and not _is_our_server(node.value):
            return "foreign"
        found += node is not None
    if not items and not found:
        return "absent"
    try:
        is_current = _put_json(part, held).text == held.text
    except (FormatError, RefusedError):
        is_current = False
    return "current" if is_current else "older"


def _our_items(part: JsonPart, held: JsonText) -> Iterator[Keys]:
    """Yield the places of our hooks for this agent in the order of the file; in a group of several, each by itself."""
    if not any(entry.is_item for entry in part.entries):
        return
    hooks = held.value.get("hooks") if isinstance(held.value, dict) else None
    for event, items in hooks.items() if isinstance(hooks, dict) else ():
        for at, item in enumerate(items if isinstance(items, list) else ()):
            if not isinstance(item, dict):
                continue
            inner = item.get("hooks")
            if not isinstance(inner, list):
                if _is_our_hook(item, part.agent):
                    yield ("hooks", event, at)
                continue
            ours = [place for place, one in enumerate(inner) if _is_our_hook(one, part.agent)]
            if ours and len(ours) == len(inner):
                yield ("hooks", event, at)
            else:
                yield from (("hooks", event, at, "hooks", place) for place in ours)


def hook_places(part: JsonPart, held: JsonText) -> Iterator[tuple[str, int, int, dict[str, Json], dict[str, Json]]]:
    """Yield our hooks for this agent: the event, the place of the group and within it, the group and the hook."""
    for keys in _our_items(part, held):
        group = _at(held, keys[:3])
        inner = group.get("hooks") if isinstance(group, dict) else None
        if not isinstance(group, dict) or not isinstance(inner, list):
            continue
        for place, one in enumerate(inner):
            if isinstance(one, dict) and (len(keys) == 3 or keys[4] == place):
                yield str(keys[1]), int(keys[2]), place, group, one


def _is_our_hook(value: Json, agent: str) -> bool:
    command = value.get("command") if isinstance(value, dict) else None
    found = _HOOK.search(command) if isinstance(command, str) else None
    return found is not None and found[1] == agent


def _is_our_server(value: object) -> bool:
    """Detect a server whose command is ``periplus mcp``, with any path and further arguments."""
    if not isinstance(value, dict):
        return False
    words: list[object] = []
    for part in (value.get("command", value.get("cmd")), value.get("args")):
        words += part if isinstance(part, list | tuple) else [part]
    names = [os.path.basename(word) for word in words if isinstance(word, str)]
    return "mcp" in names[1:] and any("periplus" in name for name in names[: names.index("mcp", 1)])


def _with_additions(held: Json, ours: Json) -> Json:
    """Return our value with additions of others (an ``env``, an approval), in the present order."""
    if not isinstance(held, dict) or not isinstance(ours, dict):
        return ours
    return {**held, **ours}


def _toml_standing(part: TomlPart, value: object) -> Standing:
    for key in part.keys:
        value = value.get(key) if isinstance(value, dict) else None
    return _table_standing(value, part.values)


def _item_standing(part: TomlItemPart, value: dict[str, object]) -> Standing:
    place = item_place(value, part.keys, str(part.values["name"]))
    outer: object = value
    for key in part.keys[:-1]:
        outer = outer.get(key) if isinstance(outer, dict) else None
    table = outer if isinstance(outer, dict) else {}
    if place is None:
        return "absent"
    found = _table_standing(table[part.keys[-1]][place], part.values)
    return "older" if found == "current" and any(name not in table for name, _ in part.defaults) else found


def _owned(part: TomlHooksPart | YamlHooksPart) -> Callable[[object], bool]:
    return lambda one: isinstance(one, dict) and _is_our_hook(one, part.agent)


def _owned_items(part: TomlHooksPart | YamlHooksPart, data: bytes) -> list[dict[str, object]]:
    if isinstance(part, YamlHooksPart):
        found = hooks_of(parse_yaml(data, part.path, _MEND), _owned(part)).values()
        return [one for ours in found for one in ours if isinstance(one, dict)]
    items = parse_toml(data, part.path).value.get("hooks")
    return [one for one in items if _owned(part)(one)] if isinstance(items, list) else []


def _yaml(part: YamlPart, data: bytes, path: str) -> YamlText:
    shown = json.dumps({name: list(one) if isinstance(one, tuple) else one for name, one in part.values.items()})
    by_hand = f"Mend the file, or add this to {'.'.join(part.keys[:-1])} by hand: {part.keys[-1]}: {shown}"
    return parse_yaml(data, path, by_hand)


def _take_yaml(part: YamlPart, data: bytes, path: str, original: bytes | None) -> bytes | None:
    held = _yaml(part, data, path)
    if standing(part, data, path) in ("absent", "foreign"):
        return data
    kept = 0
    try:
        before = _yaml(part, original or b"", path)
        while kept < len(part.keys) - 1 and entry_at(before, part.keys[: kept + 1]) is not None:
            kept += 1
    except (FormatError, RefusedError):
        kept = len(part.keys) - 1
    rest = remove_entry(held, part.keys, kept=kept)
    return rest.data if rest.text.strip() or original is not None else None


def _table_standing(value: object, values: Mapping[str, YamlValue]) -> Standing:
    if value is None:
        return "absent"
    if not _is_our_server(value):
        return "foreign"
    assert isinstance(value, dict)
    plain = {name: list(one) if isinstance(one, tuple) else one for name, one in values.items()}
    return "current" if all(value.get(name) == one for name, one in plain.items()) else "older"


def _at(held: JsonText, keys: Keys) -> Json:
    node = held.find(keys)
    return node.value if node is not None else None


def _names(keys: Keys) -> tuple[str, ...]:
    """Return the path up to the first array index."""
    return tuple(
        key
        for key in keys[: next((at for at, key in enumerate(keys) if isinstance(key, int)), len(keys))]
        if isinstance(key, str)
    )


def _value_of(data: bytes | None, part: JsonPart) -> Json:
    try:
        return parse(data or b"", part.path, part.dialect).value
    except FormatError:
        return {}


def _has(value: Json, names: tuple[str, ...]) -> bool:
    for name in names:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True


def _is_bare(text: str) -> bool:
    return not text[1:-1].strip(_BLANK)


def _comments(held: JsonText) -> bool:
    """Detect a comment outside of strings."""
    strings = r'"(?:[^"\\]|\\.)*"' + (r"|'(?:[^'\\]|\\.)*'" if held.dialect == "json5" else "")
    return re.search(r"/[/*]", re.sub(strings, "", held.text, flags=re.DOTALL)) is not None
