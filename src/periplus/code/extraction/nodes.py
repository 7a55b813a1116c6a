"""Children of a syntax node by the places that rows of the table name."""

from __future__ import annotations

__all__ = [
    "after_annotations",
    "child_at",
    "child_of",
    "damaged_bytes",
    "descend",
    "last_line",
    "lead_byte",
    "split_path",
    "unwrap_name",
]

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from periplus.code.languages.table import Place

if TYPE_CHECKING:
    import tree_sitter

_LEAD_BYTES_MAX: Final = 32


def child_at(node: tree_sitter.Node, place: Place) -> tree_sitter.Node | None:
    """Return the child at ``place``; None for an empty place or an absent child."""
    if isinstance(place, str):
        if place[:1] == "=":
            return next((child for child in node.named_children if child.type == place[1:]), None)
        return node.child_by_field_name(place) if place else None
    children = node.named_children
    return children[place] if -len(children) <= place < len(children) else None


def child_of(node: tree_sitter.Node, place: Place, children: Sequence[tree_sitter.Node]) -> tree_sitter.Node | None:
    """Return the same as `child_at`, with the named ``children`` at hand."""
    if place == "":
        return None
    if isinstance(place, str):
        return node.child_by_field_name(place)
    return children[place] if -len(children) <= place < len(children) else None


def descend(node: tree_sitter.Node, field: str) -> tree_sitter.Node | None:
    """Return the child in ``field`` or, for ``~a|b``, the first node below of type a or b."""
    if not field.startswith("~"):
        return child_at(node, int(field) if field.lstrip("-").isdigit() else field)
    types = field[1:].split("|")
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if at.type in types:
            return at
        waiting += reversed(at.named_children)
    return None


def last_line(start: tree_sitter.Node, whole: tree_sitter.Node) -> int:
    end_row, end_column = whole.end_point
    if end_column == 0 and end_row > start.start_point[0]:
        end_row -= 1  # it ends with the line break of its last line
    return end_row + 1


def lead_byte(data: bytes, start: int, words: frozenset[bytes]) -> int:
    """Return where the signature of what begins at ``start`` begins: at one of ``words`` directly before it."""
    if len(words) > 1:
        before = data[max(0, start - _LEAD_BYTES_MAX) : start].rstrip(b" \t")
        word = next((word for word in words if word and before.endswith(word)), b"")
        if word:
            return start - len(data[max(0, start - _LEAD_BYTES_MAX) : start]) + len(before) - len(word)
    return start


def after_annotations(node: tree_sitter.Node, annotations: frozenset[str]) -> int:
    """Return the first byte of a definition after the ``annotations`` that it begins with."""
    children = node.children
    if children and children[0].type == "modifiers":
        rest = children[1:2]
        children = children[0].children + rest
    return next((child.start_byte for child in children if child.type not in annotations), node.start_byte)


def split_path(
    node: tree_sitter.Node, name_ids: frozenset[int]
) -> tuple[list[tree_sitter.Node], list[tree_sitter.Node]]:
    """Return the names of a dotted path, and its other parts."""
    names: list[tree_sitter.Node] = []
    others: list[tree_sitter.Node] = []
    for child in node.named_children:
        (names if child.kind_id in name_ids else others).append(child)
    return names, others


def unwrap_name(
    node: tree_sitter.Node, wrappers: Mapping[int, Place]
) -> tuple[tree_sitter.Node | None, list[tree_sitter.Node]]:
    """Return the name of a member inside of what is written around it (None for an element), and the other parts."""
    others: list[tree_sitter.Node] = []
    at: tree_sitter.Node | None = node
    while at is not None and (place := wrappers.get(at.kind_id)) is not None:
        inner = child_at(at, place)
        others += [child for child in at.named_children if inner is None or child.id != inner.id]
        at = inner
    return at, others


def damaged_bytes(root: tree_sitter.Node) -> int:
    """Return how many bytes the parser could not make sense of; a missing word counts as one."""
    damaged = 0
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.is_error or node.is_missing:
            damaged += max(1, node.end_byte - node.start_byte)
        elif node.has_error:
            waiting += node.children
    return damaged
