r"""Code graph in the DOT language of Graphviz (https://graphviz.org/doc/info/lang.html).

Names of nodes are the ids of the graph in double quotes. In such a string only ``\"`` is an escape for the reader of the file, but
labels are read once more for ``\n``, ``\N`` and HTML entities (``escString``, https://graphviz.org/docs/attr-types/escString/).
Graphviz reads at most 16,384 bytes of a string, so that a longer one is written in pieces joined by ``+``, and it takes a name
that begins with ``%`` for one of its own, so that this character is written as ``\u0025`` there.
"""

from __future__ import annotations

__all__ = ["encode_dot"]

from collections.abc import Iterator, Mapping
from typing import Final

from periplus.code.exports.graph import Graph, GraphEdge, GraphSymbol, node_id
from periplus.code.exports.node_index import NodeIndex
from periplus.code.exports.text_escapes import label_text, plain_text

_TYPES: Final = frozenset({"annotation", "class", "enum", "interface", "record", "struct", "trait", "type"})
_STYLES: Final[Mapping[str, str]] = {"proven": "solid", "likely": "dashed", "named": "dotted"}
_PIECE_CHARACTERS: Final = 4_000  # of up to four bytes


def encode_dot(graph: Graph) -> Iterator[bytes]:
    """Yield a directed graph, a statement a line, in canonical order. Raises UsageError where two nodes have one identity."""
    index = NodeIndex(graph)
    yield f"digraph {_quoted(graph.root)} {{\n".encode()
    yield b'  graph [charset="UTF-8", rankdir=LR];\n  node [fontname="sans-serif", shape=ellipse];\n'
    for file in index.files:
        yield f"  {_quoted(file.path)} [label={_label(file.path)}, shape=folder];\n".encode()
    for symbol in index.symbols:
        yield _symbol(symbol).encode()
    for node in index.outside:
        yield f"  {_quoted(node)} [label={_label(node)}, shape=box, style=dashed];\n".encode()
    for edge in sorted(graph.edges):
        yield _edge(edge).encode()
    yield b"}\n"


def _symbol(symbol: GraphSymbol) -> str:
    node = node_id(symbol.path, symbol.name, symbol.ordinal)
    shape = ", shape=box" if symbol.kind in _TYPES else ""
    return f"  {_quoted(node)} [label={_label(symbol.name, symbol.path)}{shape}, tooltip={_label(symbol.signature or node)}];\n"


def _edge(edge: GraphEdge) -> str:
    attributes = f"label={edge.kind}, style={_STYLES[edge.grade]}"
    return f"  {_quoted(edge.source)} -> {_quoted(edge.target)} [{attributes}];\n"


def _quoted(text: str) -> str:
    plain = plain_text(text)
    if plain.startswith("%"):
        plain = "\\u0025" + plain[1:]
    return '"' + _escaped(plain) + '"'


def _label(*lines: str) -> str:
    return '"' + "\\n".join(_escaped(label_text(line).replace("&", "&amp;")) for line in lines) + '"'


def _escaped(text: str) -> str:
    # Two backslashes stay two for the reader of the file: a single one could fall before a quote and end up escaping it.
    if len(text) > _PIECE_CHARACTERS:
        parts = (text[at : at + _PIECE_CHARACTERS] for at in range(0, len(text), _PIECE_CHARACTERS))
        return '" + "'.join(map(_escaped, parts))
    return text.replace("\\", "\\\\").replace('"', '\\"')
