"""Code graph as GraphML (http://graphml.graphdrawing.org/specification.html), in XML 1.0.

Nodes are called ``n0``, ``n1`` …, for the schema takes no other characters than those of names there; ``id`` among their data is
the id of the graph.
"""

from __future__ import annotations

__all__ = ["encode_graphml"]

import re
from collections.abc import Iterator, Mapping
from typing import Final

from periplus.code.exports.graph import Graph, GraphEdge, GraphFile, GraphSymbol, node_id
from periplus.code.exports.node_index import NodeIndex
from periplus.code.exports.text_escapes import xml_text

_NODE_KEYS: Final[Mapping[str, str]] = {
    "id": "string",
    "node": "string",
    "path": "string",
    "language": "string",
    "name": "string",
    "kind": "string",
    "start_line": "int",
    "end_line": "int",
    "signature": "string",
    "doc": "string",
    "exported": "boolean",
}
_EDGE_KEYS: Final[Mapping[str, str]] = {
    "relation": "string",
    "grade": "string",
    "lines": "string",
    "external": "boolean",
}
_HEAD: Final = """\
<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" \
xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">
"""
_MARKUP: Final = re.compile(r'[&<>"\t\n\r]')
_ENTITIES: Final[Mapping[str, str]] = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


def encode_graphml(graph: Graph) -> Iterator[bytes]:
    """Yield the document, a node or edge a line, in canonical order. Raises UsageError where two nodes have one identity."""
    index = NodeIndex(graph)
    yield _HEAD.encode()
    for name, kind in _NODE_KEYS.items():
        yield f'<key id="{name}" for="node" attr.name="{name}" attr.type="{kind}"/>\n'.encode()
    for name, kind in _EDGE_KEYS.items():
        yield f'<key id="{name}" for="edge" attr.name="{name}" attr.type="{kind}"/>\n'.encode()
    yield b'<key id="root" for="graph" attr.name="root" attr.type="string"/>\n'
    yield f'<graph edgedefault="directed">{_data("root", graph.root)}\n'.encode()
    at = 0
    for file in index.files:
        yield f'<node id="n{at}">{_file(file)}</node>\n'.encode()
        at += 1
    for symbol in index.symbols:
        yield f'<node id="n{at}">{_symbol(symbol)}</node>\n'.encode()
        at += 1
    for node in index.outside:
        yield f'<node id="n{at}">{_data("id", node)}{_data("node", "outside")}</node>\n'.encode()
        at += 1
    for edge in sorted(graph.edges):
        source, target = index.position(edge.source), index.position(edge.target)
        yield f'<edge source="n{source}" target="n{target}">{_edge(edge)}</edge>\n'.encode()
    yield b"</graph>\n</graphml>\n"


def _file(file: GraphFile) -> str:
    return _data("id", file.path) + _data("node", "file") + _data("path", file.path) + _data("language", file.language)


def _symbol(symbol: GraphSymbol) -> str:
    values = {
        "id": node_id(symbol.path, symbol.name, symbol.ordinal),
        "node": "symbol",
        "path": symbol.path,
        "name": symbol.name,
        "kind": symbol.kind,
        "start_line": str(symbol.start_line),
        "end_line": str(symbol.end_line),
        "signature": symbol.signature,
        "doc": symbol.doc,
        "exported": _boolean(symbol.exported),
    }
    return "".join(_data(key, value) for key, value in values.items())


def _edge(edge: GraphEdge) -> str:
    lines = " ".join(str(line) for line in edge.lines)
    external = _boolean(edge.external)
    return (
        _data("relation", edge.kind) + _data("grade", edge.grade) + _data("lines", lines) + _data("external", external)
    )


def _boolean(value: bool) -> str:  # noqa: FBT001 - a value to write, not a switch
    return "true" if value else "false"


def _data(key: str, text: str) -> str:
    return f'<data key="{key}">{_MARKUP.sub(_entity, xml_text(text))}</data>'


def _entity(found: re.Match[str]) -> str:
    # A tab or line's end as a reference survives the normalisation of XML (section 2.11).
    return _ENTITIES.get(found[0]) or f"&#{ord(found[0])};"
