"""Pieces that a walk over a syntax tree builds: expressions taken apart, and definitions whose lines are not known yet."""

from __future__ import annotations

__all__ = ["Draft", "Link", "Spine", "Wrapped"]

from typing import TYPE_CHECKING, NamedTuple

from periplus.code.extraction.scopes import Chain

if TYPE_CHECKING:
    import tree_sitter


class Wrapped(NamedTuple):
    """A node to visit that ``whole`` wraps; ``first`` is the beginning of what belongs to it, if it is not itself."""

    node: tree_sitter.Node
    whole: tree_sitter.Node
    first: tree_sitter.Node | None


class Link(NamedTuple):
    """One name of an expression, and the steps after it: calls and elements."""

    name: str
    byte: int
    suffix: tuple[str, ...]


class Spine(NamedTuple):
    """An expression: what it begins with (None for a value of unknown class), its names, and the nodes in it that are expressions of
    their own. ``is_named`` where the first of the names is the root itself.
    """

    root: Chain | None
    links: list[Link]
    others: list[tree_sitter.Node]
    is_named: bool = False


class Draft:
    """A definition whose lines, parent and ordinal are not known yet."""

    __slots__ = ("body", "doc", "end", "end_line", "head", "is_exported", "is_test", "kind", "name", "name_byte", "parent", "qualified",
                 "start", "start_line")  # fmt: skip

    def __init__(self, name: str, qualified: str, kind: str, parent: int, name_byte: int) -> None:
        self.name = name
        self.qualified = qualified
        self.kind = kind
        self.parent = parent
        self.name_byte = name_byte
        self.start = self.end = self.start_line = self.end_line = self.head = self.body = 0
        self.doc = -1
        self.is_exported = True
        self.is_test = False
