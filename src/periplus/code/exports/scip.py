"""Code graph as an index of SCIP (scip.proto of https://github.com/sourcegraph/scip), which Sourcegraph and other tools read.

A document for each file has its symbols and their occurrences: definitions, and the places of the edges that begin in it. SCIP has
no word for how well an edge is proven, so that edges of which only the name agrees are left out unless they are asked for.
Columns count in bytes of UTF-8, as each document says; where only a line is known, the range is empty at its beginning.
"""

from __future__ import annotations

__all__ = ["SCIP_GRADES", "encode_scip"]

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from periplus.code.exports.graph import Grade, Graph, GraphEdge, GraphPlace, GraphSymbol
from periplus.code.exports.node_index import NodeIndex
from periplus.code.exports.protobuf import message_field, packed_field, text_field, uint_field
from periplus.code.exports.scip_symbols import ScipSymbols
from periplus.code.exports.text_escapes import unicode_text

SCIP_GRADES: Final[tuple[Grade, ...]] = ("proven", "likely")

# Fields of the messages Index, Metadata, ToolInfo, Document, SymbolInformation, Relationship and Occurrence, by their numbers.
_INDEX_METADATA, _INDEX_DOCUMENTS, _INDEX_EXTERNAL_SYMBOLS = 1, 2, 3
_METADATA_TOOL_INFO, _METADATA_PROJECT_ROOT, _METADATA_TEXT_ENCODING = 2, 3, 4
_TOOL_NAME, _TOOL_VERSION = 1, 2
_DOCUMENT_PATH, _DOCUMENT_OCCURRENCES, _DOCUMENT_SYMBOLS, _DOCUMENT_LANGUAGE, _DOCUMENT_TEXT = 1, 2, 3, 4, 5
_DOCUMENT_POSITION_ENCODING = 6
_INFORMATION_SYMBOL, _INFORMATION_DOCUMENTATION, _INFORMATION_RELATIONSHIPS, _INFORMATION_KIND = 1, 3, 4, 5
_INFORMATION_DISPLAY_NAME, _INFORMATION_SIGNATURE = 6, 7
_RELATIONSHIP_SYMBOL, _RELATIONSHIP_IS_IMPLEMENTATION = 1, 3
_OCCURRENCE_RANGE, _OCCURRENCE_SYMBOL, _OCCURRENCE_ROLES, _OCCURRENCE_ENCLOSING_RANGE = 1, 2, 3, 7

_UTF8: Final = 1  # both as TextEncoding and as PositionEncoding
_DEFINITION, _IMPORT, _TEST = 0x1, 0x2, 0x20
_ROLES: Final[Mapping[str, int]] = {"imports": _IMPORT, "tests": _TEST}
_KIND_OF_FILE, _KIND_OF_PACKAGE = 16, 35
_KINDS: Final[Mapping[str, int]] = {
    "annotation": 21,
    "class": 7,
    "constant": 8,
    "constructor": 9,
    "enum": 11,
    "field": 15,
    "function": 17,
    "interface": 21,
    "macro": 25,
    "method": 26,
    "module": 29,
    "namespace": 30,
    "property": 41,
    "record": 7,
    "struct": 49,
    "test": 17,
    "trait": 53,
    "type": 54,
    "union": 59,
    "value": 61,
}
_LANGUAGES: Final[Mapping[str, str]] = {  # of the enum Language
    "bash": "ShellScript",
    "c": "C",
    "cpp": "CPP",
    "csharp": "CSharp",
    "go": "Go",
    "java": "Java",
    "javascript": "JavaScript",
    "kotlin": "Kotlin",
    "php": "PHP",
    "python": "Python",
    "ruby": "Ruby",
    "rust": "Rust",
    "swift": "Swift",
    "tsx": "TypeScriptReact",
    "typescript": "TypeScript",
}

_Range: TypeAlias = tuple[int, ...]
_NO_RANGE: Final[_Range] = ()


class _Occurrence(NamedTuple):
    range: _Range
    symbol: str
    roles: int
    enclosing: _Range = _NO_RANGE


def encode_scip(
    graph: Graph, *, project_root: str, version: str, grades: Collection[Grade] = SCIP_GRADES
) -> Iterator[bytes]:
    """Yield the index in pieces, of which each is whole for itself: metadata, then a document each, then what lies outside.

    ``project_root`` is the URI of the root (``file:///…``), ``version`` that of Periplus. Raises UsageError where two nodes have one
    identity.
    """
    index = NodeIndex(graph)
    symbols = ScipSymbols(index, graph.root)
    tool = text_field(_TOOL_NAME, "periplus") + text_field(_TOOL_VERSION, version)
    metadata = message_field(_METADATA_TOOL_INFO, tool) + text_field(_METADATA_PROJECT_ROOT, unicode_text(project_root))
    yield message_field(_INDEX_METADATA, metadata + uint_field(_METADATA_TEXT_ENCODING, _UTF8))
    languages = dict.fromkeys((symbol.path for symbol in index.symbols), "") | dict(index.files)
    edges = _edges_by_path(graph.edges, index, grades)
    outside: set[str] = set()
    for path in sorted(languages):
        own = edges.pop(path, [])
        outside.update(edge.target for edge in own if symbols.is_outside(edge.target))
        yield message_field(_INDEX_DOCUMENTS, _document(path, languages[path], index.symbols_in(path), own, symbols))
    for node in sorted(outside):
        content = text_field(_INFORMATION_SYMBOL, symbols.outside(node)) + uint_field(
            _INFORMATION_KIND, _KIND_OF_PACKAGE
        )
        content += text_field(_INFORMATION_DISPLAY_NAME, unicode_text(node))
        yield message_field(_INDEX_EXTERNAL_SYMBOLS, content)


def _edges_by_path(
    edges: Iterable[GraphEdge], index: NodeIndex, grades: Collection[Grade]
) -> dict[str, list[GraphEdge]]:
    found: defaultdict[str, list[GraphEdge]] = defaultdict(list)
    for edge in edges:
        source = index.find(edge.source) if edge.grade in grades else None
        if source is not None:
            found[source.path].append(edge)
    return found


def _document(
    path: str, language: str, defined: Iterable[GraphSymbol], edges: Iterable[GraphEdge], symbols: ScipSymbols
) -> bytes:
    language = _LANGUAGES.get(language, unicode_text(language))
    file = symbols.file(path)
    occurrences = {_Occurrence((0, 0, 0), file, _DEFINITION)}
    bases: defaultdict[str, set[str]] = defaultdict(set)
    for edge in edges:
        target = symbols.node(edge.target)
        if edge.kind == "extends":
            bases[symbols.node(edge.source)].add(target)
        for place in edge.places or map(GraphPlace, edge.lines):
            occurrences.add(_Occurrence(_range(place), target, _ROLES.get(edge.kind, 0)))
    information = [_information(file, _KIND_OF_FILE, path.rpartition("/")[2] or path)]
    for symbol in defined:
        text = symbols.symbol(symbol)
        occurrences.add(_definition(symbol, text))
        information.append(_symbol_information(symbol, text, language, bases[text]))
    pieces = [text_field(_DOCUMENT_PATH, unicode_text(path))]
    pieces += (message_field(_DOCUMENT_OCCURRENCES, _occurrence(one)) for one in sorted(occurrences))
    pieces += (message_field(_DOCUMENT_SYMBOLS, one) for one in information)
    pieces += (text_field(_DOCUMENT_LANGUAGE, language), uint_field(_DOCUMENT_POSITION_ENCODING, _UTF8))
    return b"".join(pieces)


def _information(symbol: str, kind: int, name: str, *, documentation: str = "", bases: Iterable[str] = ()) -> bytes:
    pieces = [
        text_field(_INFORMATION_SYMBOL, symbol),
        text_field(_INFORMATION_DOCUMENTATION, unicode_text(documentation)),
    ]
    for base in sorted(bases):
        relationship = text_field(_RELATIONSHIP_SYMBOL, base) + uint_field(_RELATIONSHIP_IS_IMPLEMENTATION, 1)
        pieces.append(message_field(_INFORMATION_RELATIONSHIPS, relationship))
    pieces += (uint_field(_INFORMATION_KIND, kind), text_field(_INFORMATION_DISPLAY_NAME, unicode_text(name)))
    return b"".join(pieces)


def _symbol_information(symbol: GraphSymbol, text: str, language: str, bases: Iterable[str]) -> bytes:
    name = symbol.name.rpartition(".")[2] or symbol.name
    content = _information(text, _KINDS.get(symbol.kind, 0), name, documentation=symbol.doc, bases=bases)
    if symbol.signature:
        signature = text_field(_DOCUMENT_LANGUAGE, language)
        signature += text_field(_DOCUMENT_TEXT, unicode_text(symbol.signature))
        content += message_field(_INFORMATION_SIGNATURE, signature)
    return content


def _definition(symbol: GraphSymbol, text: str) -> _Occurrence:
    place = symbol.place if symbol.place.line else GraphPlace(symbol.start_line)
    roles = _DEFINITION | _TEST if symbol.kind == "test" else _DEFINITION
    start = (symbol.start_line - 1, symbol.start_column if symbol.end_column else 0)
    end = (symbol.end_line - 1, symbol.end_column) if symbol.end_column else (symbol.end_line, 0)
    is_enclosed = start <= (place.line - 1, place.start_column) and (place.line - 1, place.end_column) <= end
    return _Occurrence(_range(place), text, roles, (*start, *end) if is_enclosed else _NO_RANGE)


def _range(place: GraphPlace) -> _Range:
    return (place.line - 1, place.start_column, place.end_column)


def _occurrence(occurrence: _Occurrence) -> bytes:
    return (
        packed_field(_OCCURRENCE_RANGE, occurrence.range)
        + text_field(_OCCURRENCE_SYMBOL, occurrence.symbol)
        + uint_field(_OCCURRENCE_ROLES, occurrence.roles)
        + packed_field(_OCCURRENCE_ENCLOSING_RANGE, occurrence.enclosing)
    )
