"""Editing of an entry of a block mapping in a YAML file as text: all else keeps every byte.

A new entry becomes the first one of its mapping, directly below the mapping's key, so that it cannot change the value before
it; a new mapping of the document stands at its end. Lines are added and cut whole. Where the place is written in another form
(in braces, with an anchor, a merge key or a key twice) the change is refused. After each change the text is parsed again: the
text of every other entry must be the same, and ours have the expected value.
"""

from __future__ import annotations

__all__ = ["YamlValue", "entry_at", "flow_mapping", "line_break", "put_entry", "remove_entry", "value_at"]

import json
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from periplus.base.errors import FormatError, RefusedError
from periplus.interop.agents.editing.yaml_parsing import YamlEntry, YamlNode, YamlText, parse_yaml

YamlValue: TypeAlias = str | bool | int | tuple[str | dict[str, str | int], ...]

_INDENT_MAX = 8


def value_at(held: YamlText, keys: tuple[str, ...]) -> object:
    """Return the value at ``keys``; None where there is none. Raises RefusedError where one of the keys is there twice."""
    entry = entry_at(held, keys)
    return entry.node.value if entry is not None else None


def put_entry(held: YamlText, keys: tuple[str, ...], values: Mapping[str, YamlValue]) -> YamlText:
    """Return the text in which the mapping at ``keys`` has ``values``; missing mappings are made. Other members of an
    existing mapping stay.
    """
    entry = entry_at(held, keys)
    if entry is not None:
        return _checked(held, _updated(held, keys, entry, values), keys, values)
    depth = max(at for at in range(len(keys)) if at == 0 or entry_at(held, keys[:at]) is not None)
    line, unit = line_break(held.text), _unit(held)
    parent = entry_at(held, keys[:depth])
    if parent is None:
        return _checked(held, _with_mapping(held, keys, values, line, unit), keys, values)
    _refuse_marks(held, keys[:depth], parent.node)
    outer = _column(held.text, parent.start)
    end = _header_end(held.text, parent)
    if parent.node.kind == "mapping":
        column = _column(held.text, parent.node.entries[0].start)
        head = held.text[:end]
    elif parent.node.kind == "nothing" or parent.node.value in (None, {}):
        column = outer + unit
        value_end = parent.node.end if parent.node.kind != "nothing" else parent.colon
        head = held.text[: parent.colon] + held.text[value_end:end]
    else:
        raise _refused(held, keys[:depth], "is no block mapping", parent)
    head += "" if head.endswith("\n") else line
    lines = "".join(one + line for one in _block(keys[depth:], values, column, unit))
    return _checked(held, head + lines + held.text[end:], keys, values)


def remove_entry(held: YamlText, keys: tuple[str, ...], *, kept: int) -> YamlText:
    """Return the text without the entry at ``keys``, and without mappings that are empty then; the first ``kept`` keys on
    the way are of somebody else, and stay. The same text where there is no such entry.
    """
    entry = entry_at(held, keys)
    if entry is None:
        return held
    gone = len(keys)
    while gone - 1 > kept and len(_entries(held, keys[: gone - 1])) == 1:
        gone -= 1
        entry = entry_at(held, keys[:gone])
        assert entry is not None, "it is on the way to one that is there"
    start = held.text.rfind("\n", 0, entry.start) + 1
    parent = entry_at(held, keys[: gone - 1]) if gone > 1 else None
    text = held.text[:start] + held.text[entry.end :]
    if parent is not None and len(parent.node.entries) == 1:
        text = held.text[: parent.colon] + " {}" + held.text[parent.colon : start] + held.text[entry.end :]
    return _checked(held, text, keys, None)


def _with_mapping(held: YamlText, keys: tuple[str, ...], values: Mapping[str, YamlValue], line: str, unit: int) -> str:
    """Return the text with a new entry of the document: the last, or the first where the end is not certain."""
    text, root = held.text, held.root
    if root is not None and any(one.key == "<<" for one in root.entries):
        raise _refused(held, (), "has a merge key (<<)", root.entries[0])
    column = _column(text, root.start) if root is not None else 0
    lines = "".join(one + line for one in _block(keys, values, column, unit))
    if root is not None and held.is_open:
        at = text.rfind("\n", 0, root.start) + 1
        return text[:at] + lines + text[at:]
    return text + ("" if not text or text.endswith("\n") else line) + lines


def _updated(held: YamlText, keys: tuple[str, ...], entry: YamlEntry, values: Mapping[str, YamlValue]) -> str:
    """Return the text in which an existing entry has ``values``."""
    text, line, node = held.text, line_break(held.text), entry.node
    _refuse_marks(held, keys, node)
    if node.kind != "mapping":
        if not isinstance(node.value, dict) or not node.value.keys() <= values.keys():
            raise _refused(held, keys, "is no block mapping", entry)
        column = _column(text, entry.start)
        lines = list(_block(keys[-1:], values, column, _unit(held)))
        return text[: text.rfind("\n", 0, entry.start) + 1] + "".join(one + line for one in lines) + text[entry.end :]
    column = _column(text, node.entries[0].start)
    missing = [name for name in values if all(one.key != name for one in node.entries)]
    for member in reversed(node.entries):
        value = values.get(member.key)
        if value is None or _is_same(member.node.value, value):
            continue
        _refuse_marks(held, (*keys, member.key), member.node)
        text = text[: member.colon] + f" {_dumped(value)}{line}" + text[member.end :]
    at = _header_end(held.text, entry)
    lines = [f"{' ' * column}{_key(name)}: {_dumped(values[name])}{line}" for name in missing]
    return text[:at] + "".join(lines) + text[at:]


def _checked(held: YamlText, text: str, keys: tuple[str, ...], values: Mapping[str, YamlValue] | None) -> YamlText:
    """Parse ``text``; refuse it where more than the entry at ``keys`` changed, or where that has not ``values``."""
    if text == held.text:
        return held
    try:
        found = parse_yaml((held.mark + text).encode(), held.path, held.mend)
    except FormatError as error:
        raise _refused(held, keys, "cannot be changed without altering other parts of the file", None) from error
    before, after = held, found
    for depth in range(len(keys)):
        if _others(before, keys[:depth], keys[depth]) != _others(after, keys[:depth], keys[depth]):
            raise _refused(held, keys, "cannot be changed without altering other parts of the file", None)
    value = value_at(found, keys)
    if values is None:
        is_right = value is None
    else:
        old = value_at(held, keys)
        wanted = {**(old if isinstance(old, dict) else {}), **{name: _plain(one) for name, one in values.items()}}
        is_right = value == wanted
    if not is_right:
        raise _refused(held, keys, "cannot be changed without altering other parts of the file", None)
    return found


def _others(held: YamlText, keys: tuple[str, ...], left_out: str) -> list[tuple[str, str]]:
    """Return the keys and the text of the entries of a mapping, without the one ``left_out``."""
    found = []
    for one in _entries(held, keys):
        text = held.text[one.start : one.end]
        is_last = one.end == len(held.text) and not text.endswith("\n") and not held.is_open
        found.append((one.key, text + line_break(held.text) if is_last else text))
    return [one for one in found if one[0] != left_out]


def entry_at(held: YamlText, keys: tuple[str, ...]) -> YamlEntry | None:
    """Return the entry at ``keys``; None where there is none. Raises RefusedError where one of the keys is there twice."""
    entry: YamlEntry | None = None
    for depth in range(len(keys)):
        found = [one for one in _entries(held, keys[:depth]) if one.key == keys[depth]]
        if len(found) > 1:
            raise _refused(held, keys[: depth + 1], "is there twice", found[1])
        if not found:
            return None
        entry = found[0]
    return entry


def _entries(held: YamlText, keys: tuple[str, ...]) -> tuple[YamlEntry, ...]:
    node = held.root
    for key in keys:
        entries = node.entries if node is not None and node.kind == "mapping" else ()
        node = next((one.node for one in entries if one.key == key), None)
    return node.entries if node is not None and node.kind == "mapping" else ()


def _refuse_marks(held: YamlText, keys: tuple[str, ...], node: YamlNode) -> None:
    entry = YamlEntry("", node.start, node.start, node.end, node)
    if node.is_marked:
        raise _refused(held, keys, "has an anchor or a tag, or is an alias", entry)
    if any(one.key == "<<" for one in node.entries):
        raise _refused(held, keys, "has a merge key (<<)", entry)


def _refused(held: YamlText, keys: tuple[str, ...], wrong: str, entry: YamlEntry | None) -> RefusedError:
    line = f", line {held.text.count(chr(10), 0, entry.start) + 1}" if entry is not None else ""
    return RefusedError(
        f"{held.path}{line}: {'.'.join(keys) or 'the document'} {wrong}", safe="Nothing was changed.", mend=held.mend
    )


# -- text ------------------------------------------------------------------------------------------------------------


def _block(keys: tuple[str, ...], values: Mapping[str, YamlValue], column: int, unit: int) -> Iterator[str]:
    for key in keys:
        yield f"{' ' * column}{_key(key)}:"
        column += unit
    for name, value in values.items():
        yield f"{' ' * column}{_key(name)}: {_dumped(value)}"


def _key(name: str) -> str:
    return name if name.replace("_", "a").isalnum() and name[0].isalpha() else _text(name)


def _dumped(value: YamlValue) -> str:
    if isinstance(value, bool | int):
        return json.dumps(value)
    if isinstance(value, str):
        return _text(value)
    return f"[{', '.join(_text(one) if isinstance(one, str) else flow_mapping(one) for one in value)}]"


def flow_mapping(value: Mapping[str, str | int]) -> str:
    """Return a mapping in braces."""
    return "{" + ", ".join(f"{_key(name)}: {_dumped(one)}" for name, one in value.items()) + "}"


def _text(text: str) -> str:
    """Return a quoted scalar: JSON's form, except for characters that YAML does not print."""
    shown = json.dumps(text, ensure_ascii=False)
    return "".join(
        f"\\u{ord(one):04x}" if "\x7f" <= one <= "\x9f" or one in "\u2028\u2029\ufeff" else one for one in shown
    )


def _plain(value: YamlValue) -> object:
    return list(value) if isinstance(value, tuple) else value


def _is_same(held: object, value: YamlValue) -> bool:
    return type(held) is type(_plain(value)) and held == _plain(value)


def line_break(text: str) -> str:
    """Return the line end of a text."""
    return "\r\n" if "\r\n" in text else "\n"


def _column(text: str, at: int) -> int:
    return at - (text.rfind("\n", 0, at) + 1)


def _header_end(text: str, entry: YamlEntry) -> int:
    """Return the start of the line behind that of an entry's key."""
    at = text.find("\n", entry.colon)
    return at + 1 if at >= 0 else len(text)


def _unit(held: YamlText) -> int:
    """Return the indentation unit of the file, from its first nested mapping."""
    for one in held.root.entries if held.root is not None else ():
        if one.node.kind == "mapping":
            unit = _column(held.text, one.node.start) - _column(held.text, one.start)
            return unit if 0 < unit <= _INDENT_MAX else 2
    return 2
