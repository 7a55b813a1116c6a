"""The definitions of a source file by their qualified names: functions, methods, classes, types and named values.

Files are parsed by tree-sitter, which comes with the extra ``code``; each language is a wheel of its own. Where
either is missing, or a file cannot be parsed, ``Symbols.why_not`` says so and nothing is guessed. For a file with
syntax errors the definitions are those that the parser found: it recovers locally, so definitions away from the
errors are all there.

Names are joined by dots from the outside in, whatever the language writes: ``Class.method``, ``Receiver.Method`` in
Go, ``Type.function`` for a function in an ``impl`` of Rust. A definition's lines are those of all that belongs to it:
decorators, annotations and attributes, ``export`` before it; not the comments above.
"""

from __future__ import annotations

__all__ = ["NO_PARSERS", "SOURCE_BYTES_MAX", "Symbol", "Symbols", "language_of", "symbols_of"]

import os
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.code.languages import LANGUAGES, Language, Naming

if TYPE_CHECKING:
    import tree_sitter

SOURCE_BYTES_MAX: Final = 2 << 20
SYMBOLS_MAX: Final = 50_000
PARSE_S_MAX: Final = 3.0
NO_PARSERS: Final = "the parsers are not installed (the extra `code`)"
_NAME_BYTES_MAX: Final = 300
_DEPTH_MAX: Final = 100
_PIECE_BYTES: Final = 1 << 16
_PROBED_BYTES: Final = 1 << 13
_STEPS_PER_LOOK: Final = 4_096


class Symbol(NamedTuple):
    """A definition: lines from 1, both included; bytes from 0, the end not included."""

    name: str
    kind: str
    start_line: int
    end_line: int
    start_byte: int
    end_byte: int


class Symbols(NamedTuple):
    """``found`` in the order of the file; ``why_not`` says why there are none, empty where the file was parsed."""

    language: str
    found: tuple[Symbol, ...] = ()
    has_errors: bool = False
    why_not: str = ""

    def named(self, name: str) -> list[Symbol]:
        """Return the definitions of that qualified name or, where there is none, those whose name ends with it."""
        name = name.replace("::", ".").replace("#", ".")
        whole = [one for one in self.found if one.name == name]
        return whole or [one for one in self.found if one.name.endswith(f".{name}")]


def language_of(path: str) -> str:
    """Return the language of a file by its name; empty where no language is known."""
    row = LANGUAGES.get(os.path.splitext(path)[1].lower())
    return row.name if row is not None else ""


def symbols_of(path: str, data: bytes) -> Symbols:
    """Return the definitions in ``data``, the contents of a file called ``path``. Raises nothing, whatever it holds."""
    row = LANGUAGES.get(os.path.splitext(path)[1].lower())
    if row is None:
        return Symbols("", why_not="no language is known whose files are named so")
    if len(data) > SOURCE_BYTES_MAX:
        return Symbols(row.name, why_not=f"it has over {SOURCE_BYTES_MAX:,} bytes")
    if b"\0" in data[:_PROBED_BYTES]:
        return Symbols(row.name, why_not="it is no text")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return Symbols(row.name, why_not=f"it is not UTF-8 (byte {error.start})")
    deadline = time.monotonic() + PARSE_S_MAX
    try:
        tree = _parse(row, data, deadline)
    except ImportError:
        return Symbols(row.name, why_not=NO_PARSERS)
    found = _walk(row, tree.root_node, deadline) if tree is not None else None
    if tree is None or found is None:
        return Symbols(row.name, why_not=f"parsing it took over {PARSE_S_MAX:g} s")
    return Symbols(row.name, tuple(found), tree.root_node.has_error)


def _parse(row: Language, data: bytes, deadline: float) -> tree_sitter.Tree | None:
    """Parse ``data``; None where it takes too long. Raises ImportError without the parsers."""
    import importlib

    import tree_sitter

    grammar = importlib.import_module(row.module)
    parser = tree_sitter.Parser(tree_sitter.Language(getattr(grammar, row.entry)()))
    try:
        return parser.parse(
            lambda at, _: data[at : at + _PIECE_BYTES],
            progress_callback=lambda *_: time.monotonic() > deadline,
        )
    except ValueError:
        return None  # the parser's error for having been stopped


class _Scope(NamedTuple):
    name: str
    depth: int
    in_function: bool


class _Waiting(NamedTuple):
    """A node to visit; ``whole`` is the node that wraps it, ``first`` the beginning of what belongs to it, if it is
    not itself.
    """

    node: tree_sitter.Node
    scope: _Scope
    whole: tree_sitter.Node | None = None
    first: tree_sitter.Node | None = None


def _walk(row: Language, root: tree_sitter.Node, deadline: float) -> list[Symbol] | None:
    """Return the definitions below ``root``, None where it takes too long. Not recursive: files may nest deeply."""
    found: list[Symbol] = []
    waiting = [_Waiting(root, _Scope("", 0, in_function=False))]
    steps = 0
    while waiting and len(found) < SYMBOLS_MAX:
        node, scope, whole, first = waiting.pop()
        steps += 1
        if steps % _STEPS_PER_LOOK == 0 and time.monotonic() > deadline:
            return None
        kind = node.type
        inner = scope
        naming = row.definitions.get(kind)
        if naming is not None and scope.depth < _DEPTH_MAX and not (naming.is_outer and scope.in_function):
            name = _name(node, naming)
            if name:
                inner = _Scope(f"{scope.name}.{name}" if scope.name else name, scope.depth + 1, scope.in_function)
                if naming.kind:
                    found.append(_symbol(inner.name, naming.kind, whole or node, first))
        if kind in row.functions:
            inner = inner._replace(in_function=True)
        outer, leading = ((whole or node), first) if kind in row.wrappers else (None, None)
        children: list[_Waiting] = []
        for child in node.named_children:
            if child.type in row.leading:
                leading = leading or child
                continue
            children.append(_Waiting(child, inner, outer, leading))
            leading = None if outer is None else leading
        waiting += reversed(children)
    return found


def _name(node: tree_sitter.Node, naming: Naming) -> str:
    parts = []
    for step in naming.fields:
        at: tree_sitter.Node | None = node
        for field in step.split("/"):
            at = _descend(at, field) if at is not None else None
        if at is None or at.text is None or at.type in naming.not_names:
            if step == naming.fields[-1]:
                return ""
            continue
        parts.append(at.text[:_NAME_BYTES_MAX].decode("utf-8", "replace").strip("\"'`"))
    return ".".join(part for part in parts if part)


def _descend(node: tree_sitter.Node, field: str) -> tree_sitter.Node | None:
    """Return the child in ``field`` or, for ``~a|b``, the first node below of type a or b."""
    if not field.startswith("~"):
        return node.child_by_field_name(field)
    types = field[1:].split("|")
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if at.type in types:
            return at
        waiting += reversed(at.named_children)
    return None


def _symbol(name: str, kind: str, whole: tree_sitter.Node, first: tree_sitter.Node | None) -> Symbol:
    start = first if first is not None else whole
    end_row, end_column = whole.end_point
    if end_column == 0 and end_row > start.start_point[0]:
        end_row -= 1  # it ends with the line break of its last line
    return Symbol(name, kind, start.start_point[0] + 1, end_row + 1, start.start_byte, whole.end_byte)
