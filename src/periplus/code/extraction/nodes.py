"""Children of a syntax node by the places that rows of the table name."""

from __future__ import annotations

__all__ = ["child_at", "child_of", "descend", "last_line", "lead_byte"]

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.code.languages.table import Place

if TYPE_CHECKING:
    import tree_sitter

_LEAD_BYTES_MAX: Final = 32


def child_at(node: tree_sitter.Node, place: Place) -> tree_sitter.Node | None:
    """Return the child at ``place``; None for an empty place or an absent child."""
    if isinstance(place, str):
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
