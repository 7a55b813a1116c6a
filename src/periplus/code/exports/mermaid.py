"""Code graph as a flowchart of Mermaid (https://mermaid.js.org/syntax/flowchart.html), which Markdown pages show.

Mermaid draws at most 500 edges and 50,000 characters unless a page raises its limits (``maxEdges``, ``maxTextSize`` of its
configuration), so a larger graph is refused. Labels stand in double quotes. Many versions read them as Markdown, so everything that Mermaid,
Markdown or HTML could take for markup is written as an entity code (``#35;`` is ``#``).
"""

from __future__ import annotations

__all__ = ["MERMAID_CHARACTERS_MAX", "MERMAID_EDGES_MAX", "encode_mermaid"]

import re
from collections.abc import Iterator, Mapping
from typing import Final

from periplus.base.errors import UsageError
from periplus.code.exports.graph import Graph
from periplus.code.exports.node_index import NodeIndex
from periplus.code.exports.text_escapes import label_text

MERMAID_EDGES_MAX: Final = 500
MERMAID_CHARACTERS_MAX: Final = 50_000
_ARROWS: Final[Mapping[str, str]] = {"proven": "-->", "likely": "-.->", "named": "-.-"}
_MARKUP: Final = re.compile(
    r"[^\w ./:,=-]"
    r"|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"  # emphasis: __init__
    r"|[.-](?=[ -]|\Z)|^ "  # lists, rules, code
    r"|:(?=fa-|//)",  # icons, links
    re.ASCII,
)
_ADVICE: Final = "Export a part with --around SYMBOL, with a smaller --depth, or choose another format."


def encode_mermaid(graph: Graph) -> Iterator[bytes]:
    """Yield a flowchart, a statement a line, in canonical order.

    Raises UsageError, before the first piece, where Mermaid would not draw the graph or two nodes have one identity.
    """
    if len(graph.edges) > MERMAID_EDGES_MAX:
        raise UsageError(
            f"the graph has {len(graph.edges):,} edges, and Mermaid draws at most {MERMAID_EDGES_MAX}", mend=_ADVICE
        )
    pieces: list[str] = []
    characters = 0
    for piece in _statements(graph):
        characters += len(piece)
        if characters > MERMAID_CHARACTERS_MAX:
            raise UsageError(
                f"the flowchart has over {MERMAID_CHARACTERS_MAX:,} characters, which Mermaid does not draw",
                mend=_ADVICE,
            )
        pieces.append(piece)
    return (piece.encode() for piece in pieces)


def _statements(graph: Graph) -> Iterator[str]:
    index = NodeIndex(graph)
    yield "flowchart LR\n"
    at = 0
    for file in index.files:
        yield f"  n{at}[{_label(file.path)}]\n"
        at += 1
    for symbol in index.symbols:
        yield f"  n{at}({_label(symbol.path, symbol.name)})\n"
        at += 1
    for node in index.outside:
        yield f"  n{at}[[{_label(node)}]]\n"
        at += 1
    for edge in sorted(graph.edges):
        source, target = index.position(edge.source), index.position(edge.target)
        yield f"  n{source} {_ARROWS[edge.grade]}|{edge.kind}| n{target}\n"


def _label(*parts: str) -> str:
    return '"' + _MARKUP.sub(_entity, label_text(":".join(parts))) + '"'


def _entity(found: re.Match[str]) -> str:
    character = found[0]
    return f"#{ord(character)};" if character.isascii() else character
