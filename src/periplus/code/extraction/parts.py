"""Pieces that a walk over a syntax tree builds: expressions taken apart, and definitions whose lines are not known yet."""

from __future__ import annotations

__all__ = ["TASK_KIND", "WRAPPED_KIND", "Draft", "Link", "Spine", "Task", "Wrapped", "nested_links", "placed"]

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.code.extraction.nodes import child_at
from periplus.code.extraction.scopes import Chain
from periplus.code.languages.table import Access
from periplus.code.model import Definition

if TYPE_CHECKING:
    import tree_sitter


WRAPPED_KIND: Final = -2
TASK_KIND: Final = -3


class Wrapped(NamedTuple):
    """A node to visit that ``whole`` wraps; ``first`` is the beginning of what belongs to it, if it is not itself."""

    node: tree_sitter.Node
    whole: tree_sitter.Node
    first: tree_sitter.Node | None

    @property
    def kind_id(self) -> int:
        """Return a number that no type of node has: on the stack of a walk it stands among nodes."""
        return WRAPPED_KIND


class Task(NamedTuple):
    """Work that waits until the walk has come to it."""

    run: Callable[[], None]

    @property
    def kind_id(self) -> int:
        """Return a number that no type of node has."""
        return TASK_KIND


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


def nested_links(
    node: tree_sitter.Node,
    accesses: Mapping[int, Access],
    text: Callable[[tree_sitter.Node], str],
    others: list[tree_sitter.Node],
    suffix: tuple[str, ...],
) -> list[Link]:
    """Return the names of ``node``, the part behind ``a::`` of ``a::b::c`` in grammars that nest to the right, from the last to the first.
    The other nodes in it are added to ``others``.
    """
    found: list[tree_sitter.Node] = []
    waiting = [node]
    while waiting:
        at = waiting.pop()
        access = accesses.get(at.kind_id)
        if access is None:
            found.append(at)
            continue
        inside = [child for place in (access.object, access.name) if (child := child_at(at, place)) is not None]
        waiting += inside
        keep = {child.id for child in inside}
        others += [child for child in at.named_children if child.id not in keep]
    return [Link(text(at), at.start_byte, suffix if number == 0 else ()) for number, at in enumerate(found)]


def placed(drafts: Sequence[Draft], starts: Sequence[int], exported: Collection[str]) -> list[Definition]:
    """Return the definitions of ``drafts``, with the lines that begin at the bytes ``starts``, parents by their qualified names; others see
    those called as one of ``exported``, too.
    """
    found: list[Definition] = []
    known: dict[str, int] = {}
    for index, draft in enumerate(drafts):
        parent = draft.parent
        if parent < 0 and (outer := draft.qualified[: -len(draft.name)].rstrip(".")):
            parent = known.get(outer, -1)
        known.setdefault(draft.qualified, index)
        line = bisect_right(starts, draft.name_byte)
        found.append(
            Definition(
                draft.name, draft.qualified, draft.kind, parent, draft.start_line, draft.end_line, draft.start, draft.end, line,
                draft.name_byte - starts[line - 1], draft.head, draft.body, draft.doc,
                draft.is_exported or draft.qualified in exported, draft.is_test,
            )
        )  # fmt: skip
    return found
