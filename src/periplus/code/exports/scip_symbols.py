"""Names of the nodes of a code graph in the grammar of SCIP (``Symbol`` in scip.proto of https://github.com/sourcegraph/scip).

A symbol of the project is ``periplus . ROOT . `` and a descriptor for each folder, the file, and each part of its name:
``src/`cart.py`/Cart#add().``. Of methods, the second and later ones of a name have the disambiguator ``+1``, ``+2`` …; the
grammar has none for other kinds, whose names end in ``#2``, ``#3`` … then. What lies outside of the project is
scheme ``periplus``, manager ``external``, package ``NAME``, version ``.``, descriptor ``NAME/``.
"""

from __future__ import annotations

__all__ = ["ScipSymbols"]

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from periplus.code.exports.graph import GraphFile, GraphSymbol
from periplus.code.exports.node_index import NodeIndex
from periplus.code.exports.text_escapes import unicode_text

_TYPES: Final = ("annotation", "class", "enum", "interface", "record", "struct", "trait", "type", "union")
_SUFFIXES: Final[Mapping[str, str]] = {
    **dict.fromkeys(_TYPES, "#"),
    **dict.fromkeys(("constructor", "function", "method", "test"), "()."),
    **dict.fromkeys(("module", "namespace"), "/"),
    "macro": "!",
}
_TERM: Final = "."
_OUTSIDE: Final = "periplus external "
_SIMPLE: Final = re.compile(r"[\w+$-]+", re.ASCII)
_CACHED_NODES: Final = 1 << 16


class ScipSymbols:
    """Symbol texts of one graph. Of a name's outer parts the kinds are looked up; those not in the graph count as types."""

    def __init__(self, index: NodeIndex, root: str) -> None:
        self._index = index
        self._own = f"periplus . {_package(root)} . "
        self.node = lru_cache(_CACHED_NODES)(self._node)
        self.file = lru_cache(_CACHED_NODES)(self._file)
        self._outer = lru_cache(_CACHED_NODES)(self._outer_suffix)

    def symbol(self, symbol: GraphSymbol) -> str:
        """Return the text for a symbol of the graph."""
        *outer, last = symbol.name.split(".")
        pieces = [self.file(symbol.path)]
        prefix = ""
        for part in outer:
            prefix = f"{prefix}.{part}" if pieces[1:] else part
            pieces.append(_identifier(part) + self._outer(symbol.path, prefix))
        suffix = _SUFFIXES.get(symbol.kind, _TERM)
        if symbol.ordinal and suffix == "().":
            pieces.append(f"{_identifier(last)}(+{symbol.ordinal}).")
        else:
            pieces.append(_identifier(f"{last}#{symbol.ordinal + 1}" if symbol.ordinal else last) + suffix)
        return "".join(pieces)

    def outside(self, node: str) -> str:
        """Return the text for a node outside of the graph."""
        return f"{_OUTSIDE}{_package(node)} . {_identifier(node)}/"

    def is_outside(self, node: str) -> bool:
        """Test that an id is that of a node outside of the graph."""
        return self.node(node).startswith(_OUTSIDE)

    def _node(self, node: str) -> str:
        found = self._index.find(node)
        if isinstance(found, GraphSymbol):
            return self.symbol(found)
        return self.file(found.path) if isinstance(found, GraphFile) else self.outside(node)

    def _file(self, path: str) -> str:
        return self._own + "".join(f"{_identifier(part)}/" for part in path.split("/"))

    def _outer_suffix(self, path: str, name: str) -> str:
        found = self._index.symbol(path, name)
        return _SUFFIXES.get(found.kind, _TERM) if found is not None else "#"


def _identifier(name: str) -> str:
    if _SIMPLE.fullmatch(name):
        return name
    # An identifier has at least one character: the mark of an escape without its digits stands for none.
    text = unicode_text(name).replace("`", "``") or "\\u"
    return f"`{text}`"


def _package(text: str) -> str:
    """Return a part of the package: a space is written twice, ``.`` stands for none."""
    text = unicode_text(text) or "."
    if text.startswith(" "):  # after the space between two parts it would be read as the second half of a pair
        text = "\\u0020" + text[1:]
    return text.replace(" ", "  ")
