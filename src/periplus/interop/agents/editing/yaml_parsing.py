"""Parsing of a YAML file into nodes with their places, as far as configuration files of agents use YAML.

Rules of the parser: one document, whose root is a block mapping. Understood are block mappings and sequences, flow
collections, plain, quoted and block scalars, comments. Values that need more than their own text (anchors, aliases, tags,
folded lines, rare escapes) are opaque: they keep their place and text, and nothing is ever expanded. All else is refused with
line and column: directives, several documents, keys with ``?``, tabs as indentation, other line ends than LF and CRLF.
The size and the depth are limited.
"""

from __future__ import annotations

__all__ = ["BYTES_MAX", "OPAQUE", "YamlEntry", "YamlNode", "YamlText", "parse_yaml"]

import json
import re
from typing import Final, Literal, NamedTuple, TypeAlias

from periplus.base.errors import FormatError
from periplus.interop.agents.editing.config_text import decode_text, split_mark

BYTES_MAX: Final = 1 << 19
_DEPTH_MAX: Final = 64
_DIGITS_MAX: Final = 18


class Opaque:
    """A value that is not read."""

    def __repr__(self) -> str:
        return "OPAQUE"


OPAQUE: Final = Opaque()
Kind: TypeAlias = Literal["mapping", "sequence", "flow", "scalar", "block scalar", "nothing"]

_FOREIGN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff]|\r(?!\n)")
_SKIPPED: Final = re.compile(r" *(?:#[^\n]*)?(?:\n|\r\n|\Z)")  # some parsers refuse a tab even there
_SPACES: Final = re.compile(r" *")
_BLANKS: Final = re.compile(r"[ \t]*")
_LINE_REST: Final = re.compile(r"(?:[ \t]+#[^\n]*|[ \t]*\r?)(?:\n|\Z)")
_MARKER: Final = re.compile(r"(?:---|\.\.\.)(?=\s|\Z)")
_MARKER_BELOW: Final = re.compile(r"\n(?:---|\.\.\.)(?=\s|\Z)")
_DASH: Final = re.compile(r"-(?=\s|\Z)")
_QUOTED: Final = re.compile(r'"(?>(?:[^"\\]|\\.)*)"|\'(?>(?:[^\']|\'\')*)\'', re.DOTALL)
_PROPERTY: Final = re.compile(r"[&!][^\s,\[\]{}]*")
_ALIAS: Final = re.compile(r"\*[^\s,\[\]{}]+")
_START: Final = r"(?:[^\s\-?:,\[\]{}#&*!|>'\"%@`]|[\-?:](?=\S))"
_PLAIN: Final = re.compile(rf"{_START}(?>(?:[^\s:#]|:(?=\S)|(?<=\S)#|[ \t]++(?=[^\s:#]|:\S))*)")
_CONTINUED: Final = re.compile(r"(?>(?:[^\s:#]|:(?=\S)|(?<=\S)#|[ \t]++(?=[^\s:#]|:\S))+)")
_KEY: Final = re.compile(
    rf'("(?>(?:[^"\\\n]|\\[^\n])*)"|\'(?>(?:[^\'\n]|\'\')*)\'|{_PLAIN.pattern})[ \t]*+:(?=\s|\Z)'
)  # an alias or an anchor begins no key here
_BLOCK_SCALAR: Final = re.compile(r"[|>](?:[+-]?[1-9]?|[1-9][+-])(?=\s|\Z)")
_FLOW_BLANKS: Final = re.compile(r"(?>(?:[ \t\r\n]|(?<=[ \t\r\n])#[^\n]*)*)")
_FLOW_PLAIN: Final = re.compile(
    r"(?:[^\s\-?:,\[\]{}#&*!|>'\"%@`]|[\-?:](?=[^\s,\[\]{}]))"
    r"(?>(?:[^\s,\[\]{}:#]|:(?=[^\s,\[\]{}])|(?<=\S)#|[ \t\r\n]++(?=[^\s,\[\]{}:#]|:[^\s,\[\]{}]))*)"
)
_NUMBER: Final = re.compile(r"[-+]?[0-9]+")
_WORDS: Final[dict[str, bool | None]] = {
    word: value
    for name, value in (("true", True), ("false", False), ("null", None))
    for word in (name, name.title(), name.upper())
} | {"~": None}


class YamlNode(NamedTuple):
    """A value, from ``start`` to ``end``. ``is_marked``: it has an anchor or a tag, or is an alias."""

    kind: Kind
    start: int
    end: int
    value: object
    entries: tuple[YamlEntry, ...] = ()
    is_marked: bool = False


class YamlEntry(NamedTuple):
    """An entry of a block collection. ``start`` is the place of its key or dash, ``colon`` that behind the colon,
    ``end`` the start of the line behind the entry.
    """

    key: str
    start: int
    colon: int
    end: int
    node: YamlNode


class YamlText(NamedTuple):
    """Text of a file after its byte order mark. ``root`` is None for a file without a value. ``is_open``: the text ends
    within a block scalar, without a line end.
    """

    mark: str
    text: str
    root: YamlNode | None
    path: str
    mend: str
    is_open: bool

    @property
    def data(self) -> bytes:
        return (self.mark + self.text).encode()


def parse_yaml(data: bytes, path: str, mend: str) -> YamlText:
    """Parse a file. Raises FormatError, with line and column in its message and ``mend``."""
    mark, text = split_mark(decode_text(data, path, bytes_max=BYTES_MAX))
    parser = _Parser(text, path, mend)
    root = parser.document()
    return YamlText(mark, text, root, path, mend, parser.is_open)


class _Parser:
    def __init__(self, text: str, path: str, mend: str) -> None:
        self.text = text
        self.path = path
        self.mend = mend
        self.is_open = False

    def document(self) -> YamlNode | None:
        foreign = _FOREIGN.search(self.text)
        if foreign is not None:
            raise self.error(foreign.start(), "a control character, or a line end of another kind")
        at = self.skip(0)
        if self.text.startswith("%", at):
            raise self.error(at, "a directive")
        if self.text.startswith("---", at) and _MARKER.match(self.text, at):
            at = self.skip(self.line_end(at + 3, "something stands behind ---"))
        if at == len(self.text):
            return None
        indent = self.indent(at)
        if _KEY.match(self.text, at + indent) is None:
            raise self.error(at + indent, "the document is no block mapping")
        root, at = self.mapping(at + indent, indent, 0)
        at = self.skip(at)
        if at != len(self.text):
            raise self.error(at, "something stands behind the mapping, such as another document")
        return root

    def mapping(self, at: int, indent: int, depth: int) -> tuple[YamlNode, int]:
        """Parse a block mapping whose first key stands at ``at``, in the column ``indent``."""
        start, entries = at, list[YamlEntry]()
        while True:
            found = _KEY.match(self.text, at)
            if found is None or (not indent and _MARKER.match(self.text, at)):
                raise self.error(at, "a key with a colon was expected")
            node, end = self.value(found.end(), indent, depth, is_item=False)
            entries.append(YamlEntry(self.key(found[1]), at, found.end(), end, node))
            after = self.skip(end)
            column = self.indent(after)
            if after == len(self.text) or column < indent:
                break
            if column > indent:
                raise self.error(after + column, "the line is indented further than its neighbours")
            at = after + column
        return YamlNode("mapping", start, end, {one.key: one.node.value for one in entries}, tuple(entries)), end

    def sequence(self, at: int, indent: int, depth: int) -> tuple[YamlNode, int]:
        """Parse a block sequence whose first dash stands at ``at``, in the column ``indent``."""
        start, entries = at, list[YamlEntry]()
        while True:
            node, end = self.item(at, indent, depth)
            entries.append(YamlEntry("", at, at + 1, end, node))
            after = self.skip(end)
            column = self.indent(after)
            if column != indent or after == len(self.text) or not _DASH.match(self.text, after + column):
                break
            at = after + column
        return YamlNode("sequence", start, end, [one.node.value for one in entries], tuple(entries)), end

    def item(self, dash: int, indent: int, depth: int) -> tuple[YamlNode, int]:
        at = self.blanks(dash + 1)
        column = indent + at - dash
        if depth < _DEPTH_MAX and (_DASH.match(self.text, at) or _KEY.match(self.text, at)):
            if "\t" in self.text[dash:at]:
                raise self.error(dash + 1, "a tab as indentation")
            parse = self.sequence if _DASH.match(self.text, at) else self.mapping
            return parse(at, column, depth + 1)
        return self.value(dash + 1, indent, depth, is_item=True)

    def value(self, at: int, indent: int, depth: int, *, is_item: bool) -> tuple[YamlNode, int]:
        """Parse the value behind the colon or dash of an entry in the column ``indent``, on its line or below it."""
        if depth >= _DEPTH_MAX:
            raise self.error(at, f"more than {_DEPTH_MAX} levels deep")
        start, is_marked = self.blanks(at), False
        while (found := _PROPERTY.match(self.text, start)) is not None:
            start, is_marked = self.blanks(found.end()), True
        rest = _LINE_REST.match(self.text, start - 1 if self.text[start - 1 : start] in (" ", "\t") else start)
        if rest is not None:
            node, end = self.below(at, rest.end(), indent, depth, is_item=is_item)
        elif self.text[start] in "|>":
            node, end = self.block_scalar(start, indent)
        else:
            node, end = self.inline(start, indent, depth)
        return (node._replace(is_marked=True, value=OPAQUE) if is_marked else node), end

    def below(self, at: int, line: int, indent: int, depth: int, *, is_item: bool) -> tuple[YamlNode, int]:
        first = self.skip(line)
        column = self.indent(first)
        place = first + column
        if place < len(self.text):
            is_dash = _DASH.match(self.text, place) is not None
            if is_dash and (column > indent or (column == indent and not is_item)):
                return self.sequence(place, column, depth + 1)
            if column > indent and _KEY.match(self.text, place):
                return self.mapping(place, column, depth + 1)
            if column > indent:
                if self.text[place] in "|>&!":
                    raise self.error(place, "a value that begins below its key in this form")
                return self.inline(place, indent, depth)
        return YamlNode("nothing", at, at, None), line

    def block_scalar(self, start: int, indent: int) -> tuple[YamlNode, int]:
        found = _BLOCK_SCALAR.match(self.text, start)
        if found is None:
            raise self.error(start, "the beginning of a block scalar was expected")
        end = at = self.line_end(found.end(), "something stands behind the beginning of a block scalar")
        given = found.group().strip("|>+-")
        content = indent + int(given) if given else 0  # 0: that of the first line
        while at < len(self.text):
            column = self.spaces(at)
            following = self.text.find("\n", at)
            following = following + 1 if following >= 0 else len(self.text)
            is_blank = not self.text[at + column : following].strip("\r\n")
            if not is_blank and column < (content or indent + 1):
                break
            content = content if is_blank else content or column
            at = following
            end = at if not is_blank or "+" in found.group() else end
        self.is_open = self.is_open or (end == len(self.text) and not self.text.endswith("\n"))
        return YamlNode("block scalar", start, end, OPAQUE), end

    def inline(self, start: int, indent: int, depth: int) -> tuple[YamlNode, int]:
        """Parse a value that begins on a line, and perhaps goes on below it."""
        char = self.text[start]
        if char in "[{":
            value, end = self.flow(start, depth)
            if _MARKER_BELOW.search(self.text, start, end):
                raise self.error(start, "a flow collection that holds the end of a document")
            return YamlNode("flow", start, end, value), self.line_end(end, "something stands behind the value")
        if char in "\"'":
            found = _QUOTED.match(self.text, start)
            if found is None or _MARKER_BELOW.search(found.group()):
                raise self.error(start, "a quoted text that does not end")
            node = YamlNode("scalar", start, found.end(), _unquoted(found.group()))
            return node, self.line_end(found.end(), "something stands behind the value")
        alias = _ALIAS.match(self.text, start)
        if alias is not None:
            node = YamlNode("scalar", start, alias.end(), OPAQUE, is_marked=True)
            return node, self.line_end(alias.end(), "something stands behind the alias")
        found = _PLAIN.match(self.text, start)
        if found is None:
            raise self.error(start, "a value of a form that is not understood")
        end = found.end()
        after = self.line_end(end, "a mapping where a value was expected")
        value = _resolved(found.group())
        while self.text[end:after].strip() == "":  # a comment ends it
            line = after
            while (
                (blank := _LINE_REST.match(self.text, line)) is not None
                and blank.end() > line
                and "#" not in blank.group()
            ):
                line = blank.end()
            column = self.spaces(line)
            more = _CONTINUED.match(self.text, line + column) if column > indent else None
            if more is None:
                break
            end, value = more.end(), OPAQUE
            after = self.line_end(end, "a mapping where a value was expected")
        return YamlNode("scalar", start, end, value), after

    def flow(self, start: int, depth: int) -> tuple[object, int]:
        if depth >= _DEPTH_MAX:
            raise self.error(start, f"more than {_DEPTH_MAX} levels deep")
        is_list = self.text[start] == "["
        close = "]" if is_list else "}"
        items: list[object] = []
        members: dict[str, object] = {}
        at = self.flow_blanks(start + 1)
        while not self.text.startswith(close, at):
            value, at = self.flow_value(at, depth)
            at = self.flow_blanks(at)
            if self.text.startswith(":", at):
                at = self.flow_blanks(at + 1)
                inner: object = None
                if self.text[at : at + 1] not in (",", close):
                    inner, at = self.flow_value(at, depth)
                    at = self.flow_blanks(at)
                members[value if isinstance(value, str) else repr(value)] = inner
                value = OPAQUE
            items.append(value)
            if self.text.startswith(",", at):
                at = self.flow_blanks(at + 1)
            elif not self.text.startswith(close, at):
                raise self.error(at, f"a comma or {close} was expected")
        is_plain = is_list or len(members) == len(items)
        return (items if is_list else members if is_plain else OPAQUE), at + 1

    def flow_value(self, at: int, depth: int) -> tuple[object, int]:
        is_marked = False
        while (found := _PROPERTY.match(self.text, at)) is not None:
            at, is_marked = self.flow_blanks(found.end()), True
        if self.text[at : at + 1] in ("[", "{"):
            value, end = self.flow(at, depth + 1)
            return OPAQUE if is_marked else value, end
        found = _QUOTED.match(self.text, at)
        if found is not None:
            return OPAQUE if is_marked else _unquoted(found.group()), found.end()
        found = _ALIAS.match(self.text, at)
        if found is not None:
            return OPAQUE, found.end()
        found = _FLOW_PLAIN.match(self.text, at)
        if found is None:
            raise self.error(at, "a value in brackets was expected")
        is_opaque = is_marked or "\n" in found.group()
        return OPAQUE if is_opaque else _resolved(found.group()), found.end()

    # -- places

    def skip(self, at: int) -> int:
        """Return the start of the next line with a value."""
        while at < len(self.text) and (found := _SKIPPED.match(self.text, at)) is not None:
            at = found.end()
        return at

    def spaces(self, at: int) -> int:
        found = _SPACES.match(self.text, at)
        return found.end() - at if found is not None else 0

    def indent(self, at: int) -> int:
        column = self.spaces(at)
        if self.text.startswith("\t", at + column):
            raise self.error(at + column, "a tab as indentation")
        return column

    def blanks(self, at: int) -> int:
        found = _BLANKS.match(self.text, at)
        return found.end() if found is not None else at

    def flow_blanks(self, at: int) -> int:
        found = _FLOW_BLANKS.match(self.text, at)
        at = found.end() if found is not None else at
        if at == len(self.text):
            raise self.error(at, "the file ends in the middle")
        return at

    def line_end(self, at: int, wrong: str) -> int:
        """Return the start of the next line; there may be a comment before it."""
        found = _LINE_REST.match(self.text, at)
        if found is None:
            raise self.error(self.blanks(at), wrong)
        return found.end()

    def key(self, text: str) -> str:
        value = _unquoted(text) if text[0] in "\"'" else text
        return value if isinstance(value, str) else text

    def error(self, at: int, wrong: str) -> FormatError:
        column = at - (self.text.rfind("\n", 0, at) + 1) + 1
        return FormatError(
            f"column {column}: {wrong}", path=self.path, line=self.text.count("\n", 0, at) + 1,
            safe="Nothing was changed.", mend=self.mend,
        )  # fmt: skip


def _unquoted(text: str) -> object:
    if "\n" in text:
        return OPAQUE
    if text[0] == "'":
        return text[1:-1].replace("''", "'")
    try:
        found: str = json.loads(text)
    except ValueError:
        return OPAQUE
    return found


def _resolved(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text) and len(text) <= _DIGITS_MAX:
        return int(text)
    return text
