"""Editing of JSON configuration files, with or without comments, as text: all else keeps every byte.

A file is parsed into nodes with their places; a change replaces a few spans of text. Comments, trailing commas,
indentation, the order of keys, line ends and a byte order mark stay. After each change the text is parsed again and
its value compared with the expected one; a different result is refused and never written.

Rules of the parser: JSON with ``//`` and ``/* */`` comments and trailing commas; in the dialect ``json5`` all of JSON5 too.
It is limited in size and depth, and names line and column of an error. Of equal keys in one object the last one counts, as
usual. Plain JSON is written in each dialect.
"""

from __future__ import annotations

__all__ = [
    "BYTES_MAX",
    "DEPTH_MAX",
    "Dialect",
    "Json",
    "JsonText",
    "Keys",
    "append_item",
    "parse",
    "remove",
    "set_member",
]

import json
import re
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

from periplus.base.errors import FormatError, RefusedError
from periplus.interop.agents.editing.config_text import decode_text, split_mark
from periplus.interop.agents.editing.json5_tokens import BLANKS, LINE_END, read_name, read_number, read_string

Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"
Keys: TypeAlias = tuple[str | int, ...]
Dialect: TypeAlias = Literal["jsonc", "json5"]

BYTES_MAX: Final = 16 << 20
DEPTH_MAX: Final = 100
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_LITERALS: Final[tuple[tuple[str, bool | None], ...]] = (("true", True), ("false", False), ("null", None))
_DIGITS_MAX: Final = 400


class Node(NamedTuple):
    """A value and its place. ``children`` are the entries of an object or array, in order."""

    kind: Literal["object", "array", "scalar"]
    start: int
    end: int
    value: Json
    children: tuple[Child, ...] = ()


class Child(NamedTuple):
    """An entry: from ``start`` (of its key, in an object) to the end of its value. ``comma`` is the place of the
    comma behind it.
    """

    key: str | int
    start: int
    node: Node
    comma: int | None


class JsonText(NamedTuple):
    """Text of a file after its byte order mark, and its value; ``root`` is None for a file with only blanks and
    comments.
    """

    mark: str
    text: str
    root: Node | None
    path: str
    dialect: Dialect = "jsonc"

    @property
    def value(self) -> Json:
        return self.root.value if self.root is not None else {}

    @property
    def data(self) -> bytes:
        return (self.mark + self.text).encode()

    def find(self, keys: Keys) -> Node | None:
        node = self.root
        for key in keys:
            child = _child(node, key) if node is not None else None
            node = child.node if child is not None else None
        return node


def parse(data: bytes, path: str, dialect: Dialect = "jsonc") -> JsonText:
    """Parse a file. Raises FormatError with line and column for invalid text."""
    mark, text = split_mark(decode_text(data, path, bytes_max=BYTES_MAX))
    parser = _Json5Parser(text, path) if dialect == "json5" else _Parser(text, path)
    return JsonText(mark, text, parser.document(), path, dialect)


class _Open:
    """A container that is being parsed."""

    def __init__(self, kind: Literal["object", "array"], start: int) -> None:
        self.kind: Literal["object", "array"] = kind
        self.start = start
        self.children: list[Child] = []
        self.key: str | int = 0
        self.key_start = start


class _Parser:
    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path

    def document(self) -> Node | None:
        at = self.blanks(0)
        if at == len(self.text):
            return None
        node, at = self.value(at)
        at = self.blanks(at)
        if at != len(self.text):
            raise self.error(at, "something stands behind the end of the document")
        return node

    def value(self, at: int) -> tuple[Node, int]:
        """Parse without recursion: the depth of a hostile file meets a limit and causes no crash."""
        stack: list[_Open] = []
        while True:
            opened = self.opening(at)
            if opened is not None:
                if len(stack) == DEPTH_MAX:
                    raise self.error(at, f"more than {DEPTH_MAX} levels deep")
                stack.append(opened)
                at = self.blanks(at + 1)
                if self.text[at : at + 1] not in ("}", "]"):
                    at = self.key(stack[-1], at)
                    continue
                node, at = self.close(stack, at)
            else:
                node, at = self.scalar(at)
            while stack:
                at, is_open = self.entry(stack[-1], node, at)
                if is_open:
                    break
                node, at = self.close(stack, at)
            else:
                return node, at

    def opening(self, at: int) -> _Open | None:
        char = self.text[at : at + 1]
        return _Open("object", at) if char == "{" else _Open("array", at) if char == "[" else None

    def entry(self, top: _Open, node: Node, at: int) -> tuple[int, bool]:
        """Add ``node``; return the place of the next entry's value or of the container's end."""
        after = self.blanks(at)
        comma = after if self.text[after : after + 1] == "," else None
        top.children.append(Child(top.key, top.key_start, node, comma))
        if comma is not None:
            after = self.blanks(comma + 1)
        if self.text[after : after + 1] in ("}", "]"):
            return after, False
        if comma is None:
            raise self.error(after, f"a comma or the end of the {top.kind} was expected")
        return self.key(top, after), True

    def key(self, top: _Open, at: int) -> int:
        top.key_start = at
        if top.kind == "array":
            top.key = len(top.children)
            return at
        top.key, end = self.name(at)
        at = self.blanks(end)
        if self.text[at : at + 1] != ":":
            raise self.error(at, "a colon was expected behind the key")
        return self.blanks(at + 1)

    def name(self, at: int) -> tuple[str, int]:
        found = _STRING.match(self.text, at)
        if found is None:
            raise self.error(at, "a key in double quotes was expected")
        return _unquoted(found.group()), found.end()

    def close(self, stack: list[_Open], at: int) -> tuple[Node, int]:
        top = stack.pop()
        if self.text[at] != ("}" if top.kind == "object" else "]"):
            raise self.error(at, f"{self.text[at]} where the {top.kind} that began in line {self.line(top.start)} ends")
        value: Json
        if top.kind == "object":
            value = {str(child.key): child.node.value for child in top.children}
        else:
            value = [child.node.value for child in top.children]
        return Node(top.kind, top.start, at + 1, value, tuple(top.children)), at + 1

    def scalar(self, at: int) -> tuple[Node, int]:
        found = _STRING.match(self.text, at)
        if found is not None:
            return Node("scalar", at, found.end(), _unquoted(found.group())), found.end()
        found = _NUMBER.match(self.text, at)
        if found is not None:
            if found.end() - at > _DIGITS_MAX:
                raise self.error(at, f"a number of more than {_DIGITS_MAX} characters")
            number: Json = json.loads(found.group())
            return Node("scalar", at, found.end(), number), found.end()
        for word, literal in _LITERALS:
            if self.text.startswith(word, at):
                return Node("scalar", at, at + len(word), literal), at + len(word)
        raise self.error(at, "no value" if at < len(self.text) else "the file ends in the middle")

    def blanks(self, at: int) -> int:
        """Return the place after blanks and comments."""
        while True:
            found = _BLANK.match(self.text, at)
            at = found.end() if found is not None else at
            if self.text.startswith("//", at):
                at = _line_end(self.text, at)
            elif self.text.startswith("/*", at):
                at = self.behind_comment(at)
            else:
                return at

    def behind_comment(self, at: int) -> int:
        end = self.text.find("*/", at + 2)
        if end < 0:
            raise self.error(at, "a comment that does not end")
        return end + 2

    def line(self, at: int) -> int:
        return self.text.count("\n", 0, at) + 1

    def error(self, at: int, wrong: str) -> FormatError:
        column = at - (self.text.rfind("\n", 0, at) + 1) + 1
        return FormatError(
            f"column {column}: {wrong}", path=self.path, line=self.line(at), safe="Nothing was changed.",
            mend="Mend the file, or name the agents without this one.",
        )  # fmt: skip


class _Json5Parser(_Parser):
    def name(self, at: int) -> tuple[str, int]:
        found = read_string(self.text, at) or read_name(self.text, at)
        if found is None:
            raise self.error(at, "a key was expected")
        return str(found.value), found.end

    def scalar(self, at: int) -> tuple[Node, int]:
        found = read_string(self.text, at) or read_number(self.text, at, _DIGITS_MAX)
        if found is not None:
            return Node("scalar", at, found.end, found.value), found.end
        word = read_name(self.text, at)
        for literal, value in _LITERALS:
            if word is not None and self.text[at : word.end] == literal:
                return Node("scalar", at, word.end, value), word.end
        raise self.error(at, "no value" if at < len(self.text) else "the file ends in the middle")

    def blanks(self, at: int) -> int:
        while True:
            found = BLANKS.match(self.text, at)
            at = found.end() if found is not None else at
            if self.text.startswith("//", at):
                found = LINE_END.search(self.text, at)
                at = found.start() if found is not None else len(self.text)
            elif self.text.startswith("/*", at):
                at = self.behind_comment(at)
            else:
                return at


def _unquoted(text: str) -> str:
    found: str = json.loads(text)
    return found


# -- changing --------------------------------------------------------------------------------------------------------


def set_member(held: JsonText, keys: tuple[str, ...], value: Json) -> JsonText:
    """Return the text in which the member at ``keys`` is ``value``; missing objects are made. Nothing else changes."""
    node = held.find(keys)
    if node is not None and node.value == value:
        return held
    wanted = _with_member(held.value, keys, value)
    if node is not None:
        indent = _indent_of(held.text, node.start)
        return _checked(
            held, held.text[: node.start] + _dumped(value, held.text, indent) + held.text[node.end :], wanted
        )
    place, depth = _deepest(held, keys)
    for key in reversed(keys[depth + 1 :]):
        value = {key: value}
    return _checked(held, _inserted(held, place, keys[depth], value), wanted)


def append_item(held: JsonText, keys: tuple[str, ...], value: Json) -> JsonText:
    """Return the text with ``value`` appended to the array at ``keys``, which is made where it is missing."""
    node = held.find(keys)
    if node is None:
        return set_member(held, keys, [value])
    if node.kind != "array":
        raise _of_another_kind(held, keys, node, "array")
    wanted = _changed(held.value, keys, lambda items: [*_list(items), value])
    return _checked(held, _inserted(held, node, None, value), wanted)


def remove(held: JsonText, keys: Keys) -> JsonText:
    """Return the text without the entry at ``keys``; the same text where there is none."""
    parent = held.find(keys[:-1])
    child = _child(parent, keys[-1]) if parent is not None else None
    if parent is None or child is None:
        return held
    wanted = _changed(held.value, keys[:-1], lambda value: _without(value, keys[-1]))
    return _checked(held, _cut(held.text, parent, child), wanted)


def _child(node: Node | None, key: str | int) -> Child | None:
    if node is None or node.kind == "scalar":
        return None
    return next((child for child in reversed(node.children) if child.key == key), None)


def _deepest(held: JsonText, keys: tuple[str, ...]) -> tuple[Node | None, int]:
    """Return the last existing object on the way, and the index in ``keys`` of the first missing key."""
    node, depth = held.root, 0
    while True:
        if node is not None and node.kind != "object":
            raise _of_another_kind(held, keys[:depth], node, "object")
        child = _child(node, keys[depth])
        if child is None:
            return node, depth
        node, depth = child.node, depth + 1
        if depth == len(keys):  # the caller looked: it is not there
            raise AssertionError(keys)


def _of_another_kind(held: JsonText, keys: Keys, node: Node, kind: str) -> RefusedError:
    line = held.text.count("\n", 0, node.start) + 1
    column = node.start - (held.text.rfind("\n", 0, node.start) + 1) + 1
    what = f"{'.'.join(map(str, keys))} is" if keys else "the document is"
    return RefusedError(
        f"{held.path}, line {line}: column {column}: {what} no {kind}", safe="Nothing was changed.",
        mend="Mend the file, or name the agents without this one.",
    )  # fmt: skip


def _checked(held: JsonText, text: str, wanted: Json) -> JsonText:
    """Parse ``text``; refuse it where its value is not ``wanted``."""
    refused = RefusedError(
        f"{held.path}: this change would alter other parts of the file", safe="Nothing was changed.",
        mend="Remove keys that occur twice, use one kind of line end, then repeat the command.",
    )  # fmt: skip
    try:
        found = parse((held.mark + text).encode(), held.path, held.dialect)
    except FormatError as error:
        raise refused from error
    if found.value != wanted:
        raise refused
    return found


# -- values ----------------------------------------------------------------------------------------------------------


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _with_member(value: Json, keys: tuple[str, ...], member: Json) -> Json:
    held = dict(value) if isinstance(value, dict) else {}
    held[keys[0]] = member if len(keys) == 1 else _with_member(held.get(keys[0]), keys[1:], member)
    return held


def _changed(value: Json, keys: Keys, change: Callable[[Json], Json]) -> Json:
    if not keys:
        return change(value)
    key, rest = keys[0], keys[1:]
    if isinstance(value, dict):
        return {name: _changed(inner, rest, change) if name == key else inner for name, inner in value.items()}
    return [_changed(inner, rest, change) if at == key else inner for at, inner in enumerate(_list(value))]


def _without(value: Json, key: str | int) -> Json:
    if isinstance(value, dict):
        return {name: inner for name, inner in value.items() if name != key}
    return [inner for at, inner in enumerate(_list(value)) if at != key]


# -- text ------------------------------------------------------------------------------------------------------------


def _inserted(held: JsonText, place: Node | None, key: str | None, value: Json) -> str:
    """Return the text with an entry after the last one of ``place``; without a place, with a document at the end."""
    text, line = held.text, _newline(held.text)

    def entry(indent: str | None) -> str:
        return (f"{json.dumps(key, ensure_ascii=False)}: " if key is not None else "") + _dumped(value, text, indent)

    if place is None:
        unit = _unit(text)
        gap = "" if not text or text.endswith("\n") else line
        return f"{text}{gap}{{{line}{unit}{entry(unit)}{line}}}{line}"
    if not place.children:
        return _into_empty(text, place, entry)
    last = place.children[-1]
    if not _begins_line(text, last.start):
        at = last.comma + 1 if last.comma is not None else last.node.end
        return f"{text[:at]}{'' if last.comma is not None else ','} {entry(None)}{',' if last.comma is not None else ''}{text[at:]}"
    indent = _indent_of(text, last.start)
    end = _behind_comments(text, last.comma + 1 if last.comma is not None else last.node.end, place.end - 1)
    if last.comma is not None:
        return f"{text[:end]}{line}{indent}{entry(indent)},{text[end:]}"
    return f"{text[: last.node.end]},{text[last.node.end : end]}{line}{indent}{entry(indent)}{text[end:]}"


def _into_empty(text: str, place: Node, entry: Callable[[str | None], str]) -> str:
    line, inner, rest = _newline(text), text[place.start + 1 : place.end - 1], text[place.end - 1 :]
    base = _indent_of(text, place.start)
    indent = base + _unit(text)
    if not inner.strip(" \t\r\n"):
        return f"{text[: place.start + 1]}{line}{indent}{entry(indent)}{line}{base}{rest}"
    kept = inner.rstrip(" \t\r\n")
    return f"{text[: place.start + 1]}{kept}{line}{indent}{entry(indent)}{line}{base}{rest}"


def _cut(text: str, parent: Node, child: Child) -> str:
    """Return the text without ``child``: its own characters, the blanks before it, and its comma."""
    at = parent.children.index(child)
    end = child.node.end
    spans = [(_cut_start(text, child), end)]
    if child.comma is not None:
        spans.append((child.comma, child.comma + 1))
        end = child.comma + 1
    elif at:
        comma = parent.children[at - 1].comma
        assert comma is not None, "there is one between two entries"
        spans.append((comma, comma + 1))
    if len(parent.children) == 1:
        around = text[parent.start + 1 : child.start] + text[child.node.end : parent.end - 1]
        if not around.strip(" \t\r\n,"):
            return text[: parent.start + 1] + text[parent.end - 1 :]
    for first, last in sorted(spans, reverse=True):
        text = text[:first] + text[last:]
    return text


def _cut_start(text: str, child: Child) -> int:
    """Return the start of the cut: it includes the line end before the entry if nothing else is on the entry's lines."""
    start = child.start
    while text[start - 1] in " \t":
        start -= 1
    if text[start - 1] != "\n":
        return start
    end = child.node.end if child.comma is None else child.comma + 1
    between = text[child.node.end : end].strip(" \t\r\n,")
    if between or text[end : _line_end(text, end)].strip(" \t"):
        return child.start  # a comment, or the container's end: it keeps a line of its own
    return start - 2 if text[start - 2 : start] == "\r\n" else start - 1


def _dumped(value: Json, text: str, indent: str | None) -> str:
    """Return ``value`` as JSON: on one line without an ``indent``, else with inner lines indented like the file."""
    if indent is None:
        return json.dumps(value, ensure_ascii=False)
    return _spread(value, _newline(text) + indent, _unit(text))


def _spread(value: Json, line: str, unit: str) -> str:
    """Return one entry per line; ``line`` begins the line that the value ends in. A list of scalars stays on one
    line.
    """
    if isinstance(value, dict) and value:
        inner = [
            f"{json.dumps(name, ensure_ascii=False)}: {_spread(one, line + unit, unit)}" for name, one in value.items()
        ]
        return "{" + ",".join(line + unit + one for one in inner) + line + "}"
    if isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        return "[" + ",".join(line + unit + _spread(one, line + unit, unit) for one in value) + line + "]"
    return json.dumps(value, ensure_ascii=False)


def _newline(text: str) -> str:
    at = text.find("\n")
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def _unit(text: str) -> str:
    """Return the indentation unit of the file, from its first indented line."""
    found = re.search(r"^([ \t]+)[^ \t\r\n*/]", text, re.MULTILINE)
    unit = found.group(1) if found is not None else "  "
    return unit if len(unit) <= 8 else "  "


def _line_end(text: str, at: int) -> int:
    """Return the end of the line of ``at``, before its line break."""
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    return end - 1 if end > at and text[end - 1] == "\r" else end


def _begins_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip(" \t")


def _indent_of(text: str, at: int) -> str:
    """Return the blanks at the start of the line of ``at``."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _behind_comments(text: str, at: int, end: int) -> int:
    """Return the place after comments that follow ``at`` on its line: they belong to the entry there."""
    while at < end:
        skipped = at
        while text[skipped] in " \t":
            skipped += 1
        if text.startswith("//", skipped):
            return _line_end(text, skipped)
        close = text.find("*/", skipped + 2) if text.startswith("/*", skipped) else -1
        if close < 0 or "\n" in text[skipped:close]:
            return at
        at = close + 2
    return at
