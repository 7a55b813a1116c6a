"""Code graph as a JSON document: one versioned object, an element a line, the same bytes for the same graph.

Files are sorted by path, symbols by path, name and ordinal, edges by kind, source, target and grade; each element has its keys
sorted and no white space (RFC 8785). Readers ignore fields that they do not know; a change that breaks them raises ``version``.
``GRAPH_SCHEMA`` is the JSON Schema (draft 2020-12) of the document.
"""

from __future__ import annotations

__all__ = ["GRAPH_FORMAT", "GRAPH_FORMAT_VERSION", "GRAPH_SCHEMA", "encode_json"]

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from periplus.base.encoding.canonical import JSONValue, canonical
from periplus.code.exports.graph import (
    EDGE_KINDS,
    GRADES,
    Graph,
    GraphEdge,
    GraphFile,
    GraphPlace,
    GraphSymbol,
    node_id,
)
from periplus.code.exports.node_index import NodeIndex
from periplus.code.exports.text_escapes import unicode_text

GRAPH_FORMAT: Final = "periplus-code-graph"
GRAPH_FORMAT_VERSION: Final = 1

_TEXT: Final = {"type": "string"}
_LINE: Final = {"type": "integer", "minimum": 1}
_COLUMN: Final = {"type": "integer", "minimum": 0}
_YES_OR_NO: Final = {"type": "boolean"}


def _object(properties: Mapping[str, Any], optional: frozenset[str] = frozenset()) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": sorted(properties.keys() - optional)}


_PLACE: Final = {
    "description": "Line, first column and column behind the last. Columns count from 0 in bytes of UTF-8.",
    "type": "array",
    "prefixItems": [_LINE, _COLUMN, _COLUMN],
    "minItems": 3,
    "maxItems": 3,
}
_FILE: Final = _object(
    {
        "id": {**_TEXT, "description": "The path again: what edges name."},
        "language": _TEXT,
        "path": {**_TEXT, "description": "From the root, with / between its parts."},
    }
)
_SYMBOL: Final = _object(
    {
        "doc": {**_TEXT, "description": "First line of its documentation, or empty."},
        "end_line": _LINE,
        "exported": _YES_OR_NO,
        "id": {
            **_TEXT,
            "description": "path:name, from the second definition of that name on with #2, #3 …: what edges name.",
        },
        "kind": _TEXT,
        "name": {**_TEXT, "description": "Qualified, with dots."},
        "ordinal": {
            "type": "integer",
            "minimum": 0,
            "description": "Its place among definitions of one name in one file.",
        },
        "path": _TEXT,
        "place": {**_PLACE, "description": f"Place of its name, where that is known. {_PLACE['description']}"},
        "signature": _TEXT,
        "start_line": _LINE,
    },
    optional=frozenset({"place"}),
)
_EDGE: Final = _object(
    {
        "external": {**_YES_OR_NO, "description": "True where the target is no part of the project."},
        "grade": {
            "enum": [*GRADES],
            "description": "proven: one target is left by scopes and imports. likely: one candidate of that name and shape. "
            "named: only the name agrees.",
        },
        "kind": {"enum": [*EDGE_KINDS]},
        "lines": {"type": "array", "items": _LINE, "description": "Lines of the source's file at which it is seen."},
        "places": {"type": "array", "items": _PLACE},
        "source": _TEXT,
        "target": {**_TEXT, "description": "An id, or a name of something that is not in this document."},
    },
    optional=frozenset({"places"}),
)
GRAPH_SCHEMA: Final[Mapping[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A code graph of Periplus",
    "description": "Texts are Unicode: a lone surrogate, as of a path that is not UTF-8, is written as a backslash, u and four "
    "hexadecimal digits, and the backslashes directly before such an escape or a u are doubled.",
    **_object(
        {
            "edges": {"type": "array", "items": _EDGE},
            "files": {"type": "array", "items": _FILE},
            "format": {"const": GRAPH_FORMAT},
            "root": {**_TEXT, "description": "Name of the project."},
            "symbols": {"type": "array", "items": _SYMBOL},
            "version": {"const": GRAPH_FORMAT_VERSION},
        }
    ),
}


def encode_json(graph: Graph) -> Iterator[bytes]:
    """Yield the document in pieces. Raises UsageError where two nodes have one identity."""
    index = NodeIndex(graph)
    head = canonical({"format": GRAPH_FORMAT, "root": unicode_text(graph.root), "version": GRAPH_FORMAT_VERSION})
    yield head[:-1]
    yield from _array(b"files", map(_file, index.files))
    yield from _array(b"symbols", map(_symbol, index.symbols))
    yield from _array(b"edges", map(_edge, sorted(graph.edges)))
    yield b"}\n"


def _array(name: bytes, elements: Iterable[JSONValue]) -> Iterator[bytes]:
    before = b',"' + name + b'":[\n'
    for element in elements:
        yield before + canonical(element)
        before = b",\n"
    yield b"]" if before == b",\n" else before[:-1] + b"]"


def _file(file: GraphFile) -> JSONValue:
    path = unicode_text(file.path)
    return {"id": path, "language": unicode_text(file.language), "path": path}


def _symbol(symbol: GraphSymbol) -> JSONValue:
    found: dict[str, JSONValue] = {
        "doc": unicode_text(symbol.doc),
        "end_line": symbol.end_line,
        "exported": symbol.exported,
        "id": unicode_text(node_id(symbol.path, symbol.name, symbol.ordinal)),
        "kind": unicode_text(symbol.kind),
        "name": unicode_text(symbol.name),
        "ordinal": symbol.ordinal,
        "path": unicode_text(symbol.path),
        "signature": unicode_text(symbol.signature),
        "start_line": symbol.start_line,
    }
    if symbol.place.line:
        found["place"] = [*symbol.place]
    return found


def _edge(edge: GraphEdge) -> JSONValue:
    found: dict[str, JSONValue] = {
        "external": edge.external,
        "grade": edge.grade,
        "kind": edge.kind,
        "lines": [*edge.lines],
        "source": unicode_text(edge.source),
        "target": unicode_text(edge.target),
    }
    if edge.places:
        found["places"] = [_place(place) for place in edge.places]
    return found


def _place(place: GraphPlace) -> JSONValue:
    return [*place]
