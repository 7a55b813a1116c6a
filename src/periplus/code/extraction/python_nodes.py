"""Nodes of the syntax trees that the module ``ast`` gives, and the ends of things that it does not tell."""

from __future__ import annotations

__all__ = [
    "KIND_NUMBERS",
    "STRING",
    "STRING_OR_COMMENT",
    "Make",
    "Node",
    "Source",
    "bracket_end",
    "definition_end",
    "expression_end",
    "quoted",
]

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

STRING: Final = re.compile(
    rb"([A-Za-z]{0,3})(\"\"\"(?>(?:[^\"\\]++|\\.|\"(?!\"\"))*)\"\"\"|'''(?>(?:[^'\\]++|\\.|'(?!\'\'))*)'''"
    rb"|\"(?>(?:[^\"\\]++|\\.)*)\"|'(?>(?:[^'\\]++|\\.)*)')",
    re.DOTALL,
)
STRING_OR_COMMENT: Final = re.compile(STRING.pattern + rb"|#[^\r\n]*", re.DOTALL)
_COMMENT_BEHIND: Final = re.compile(rb"[ \t\f;]*#[^\r\n]*")
_NEXT_COMMENT: Final = re.compile(rb"[ \t\f;]*(?>(?:[\r\n]++[ \t\f]*+(?=[\r\n]))*)[\r\n]++([ \t\f]*+)#[^\r\n]*")
_COMMENTS_MAX: Final = 500
_KINDS: Final = (
    "aliased_import argument_list as_pattern as_pattern_target assert_statement assignment attribute augmented_assignment await "
    "binary_operator block boolean_operator break_statement call case_clause case_pattern class_definition class_pattern comment "
    "concatenated_string conditional_expression continue_statement decorated_definition decorator default_parameter dict_pattern "
    "dictionary dictionary_comprehension dictionary_splat_pattern dotted_name elif_clause ellipsis except_clause expression_list "
    "expression_statement false float for_in_clause for_statement function_definition generator_expression global_statement "
    "identifier if_statement import_from_statement import_statement integer interpolation keyword_argument keyword_pattern lambda "
    "lambda_parameters list list_comprehension list_pattern list_splat list_splat_pattern match_statement module named_expression "
    "none nonlocal_statement other parameters parenthesized_expression pass_statement pattern_list relative_import set "
    "set_comprehension splat_pattern string string_content string_end string_start subscript true try_statement tuple "
    "tuple_pattern type type_alias_statement type_parameter typed_default_parameter typed_parameter union_pattern while_statement "
    "wildcard_import with_item with_statement"
).split()
_NUMBERS: Final = {type_: number for number, type_ in enumerate(_KINDS, 1)}
KIND_NUMBERS: Final[dict[str, list[int]]] = {type_: [number] for type_, number in _NUMBERS.items()}
"""The numbers of the types of nodes, as a grammar lists them."""


class Source:
    """Bytes, with the byte at which each line of ``ast`` begins."""

    __slots__ = ("breaks", "data", "starts")

    def __init__(self, data: bytes, starts: Sequence[int], breaks: Sequence[int]) -> None:
        self.data = data
        self.starts = starts
        self.breaks = breaks

    def start(self, tree: Any) -> int:
        return int(self.starts[tree.lineno - 1] + tree.col_offset)

    def end(self, tree: Any) -> int:
        return int(self.starts[tree.end_lineno - 1] + tree.end_col_offset)

    def point(self, byte: int) -> tuple[int, int]:
        row = bisect_right(self.breaks, byte) - 1
        return row, byte - self.breaks[row]


class Node:
    """A syntax node; ``of`` is what its children are made of. Those of type number 0 are not named."""

    __slots__ = ("_children", "_make", "_of", "end_byte", "field", "kind_id", "parent", "source", "start_byte", "type")

    has_error: Final = False

    def __init__(
        self, source: Source, type_: str, start: int, end: int, make: Make | None = None, of: Any = None, field: str = ""
    ) -> None:  # fmt: skip
        self.source = source
        self.type = type_
        self.kind_id = _NUMBERS.get(type_, 0)
        self.start_byte = start
        self.end_byte = end
        self.field = field
        self.parent: Node | None = None
        self._make = make
        self._of = of
        self._children: list[Node] | None = None

    @property
    def id(self) -> int:
        return id(self)

    @property
    def byte_range(self) -> tuple[int, int]:
        return self.start_byte, self.end_byte

    @property
    def start_point(self) -> tuple[int, int]:
        return self.source.point(self.start_byte)

    @property
    def end_point(self) -> tuple[int, int]:
        return self.source.point(self.end_byte)

    @property
    def children(self) -> list[Node]:
        if self._children is None:
            self._children = list(self._make(self, self._of)) if self._make is not None else []
            for child in self._children:
                child.parent = self
        return self._children

    @property
    def named_children(self) -> list[Node]:
        return [child for child in self.children if child.kind_id]

    @property
    def child_count(self) -> int:
        return len(self.children)

    @property
    def named_child_count(self) -> int:
        return len(self.named_children)

    def named_child(self, number: int) -> Node | None:
        children = self.named_children
        return children[number] if 0 <= number < len(children) else None

    def child_by_field_name(self, name: str) -> Node | None:
        return next((child for child in self.children if child.field == name), None)


Make: TypeAlias = "Callable[[Node, Any], Iterable[Node]]"


def definition_end(source: Source, tree: Any) -> int:
    """Return where a definition ends: with the comments behind its last statement that are indented like its body."""
    end = source.end(tree)
    if (found := _COMMENT_BEHIND.match(source.data, end)) is not None:
        end = found.end()
    column = tree.body[0].col_offset
    for _ in range(_COMMENTS_MAX):
        found = _NEXT_COMMENT.match(source.data, end)
        if found is None or len(found[1]) < column:
            break
        end = found.end()
    return end


def quoted(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the span of the contents of the string with the span."""
    prefix = data[start : start + 4].partition(b'"')[0].partition(b"'")[0]
    begun = start + len(prefix)
    quotes = 3 if data[begun : begun + 3] in (b'"""', b"'''") else 1
    return begun + quotes, end - quotes


def expression_end(data: bytes, start: int, end: int) -> int:
    """Return where the expression that begins at ``start`` ends: at its bracket, conversion, specification, or ``=`` for its text."""
    level, at = 0, start
    while at < end:
        byte = data[at : at + 1]
        if byte in (b'"', b"'") and (found := STRING.match(data, at, end)) is not None:
            at = found.end()
            continue
        if byte in (b"(", b"[", b"{"):
            level += 1
        elif byte in (b")", b"]", b"}") and level:
            level -= 1
        elif level == 0 and (byte in (b"}", b":") or (byte == b"!" and data[at + 1 : at + 2] != b"=")):
            return at
        at += 1
    return end


def bracket_end(data: bytes, start: int, end: int) -> int:
    level = 0
    for at in range(start, end):
        byte = data[at]
        if byte == ord("{"):
            level += 1
        elif byte == ord("}"):
            if level == 0:
                return at
            level -= 1
    return end
