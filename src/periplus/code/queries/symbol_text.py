"""A symbol as it is shown: its signature and the first line of its doc, read from the file."""

from __future__ import annotations

__all__ = ["Symbol", "doc_of", "symbol_of"]

from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.code.model import Definition
from periplus.code.queries.view import CodeView, SymbolId
from periplus.code.resolution.sources import KnownFile

SIGNATURE_CHARACTERS_MAX: Final = 240
DOC_CHARACTERS_MAX: Final = 200
_DOC_BYTES_MAX: Final = 4_096
_MARKS: Final = " \t\r/*#!;-=<>\"'`"


class Symbol(NamedTuple):
    """A symbol with what a list of symbols shows; lines count from 1, both included."""

    id: SymbolId
    kind: str
    language: str
    start_line: int
    end_line: int
    line: int
    signature: str
    doc: str
    is_exported: bool
    is_test: bool


def symbol_of(view: CodeView, file: KnownFile, number: int) -> Symbol:
    """Return the definition ``number`` of ``file`` as it is shown."""
    one = file.definitions[number]
    data = view.text(file.path)
    head = data[one.head_byte : min(one.body_byte, one.head_byte + 4 * SIGNATURE_CHARACTERS_MAX)].decode(
        "utf-8", "replace"
    )
    if one.body_byte >= one.end_byte:
        head = head.partition("\n")[0]
    doc = data[one.doc_byte : one.doc_byte + _DOC_BYTES_MAX].decode("utf-8", "replace") if one.doc_byte >= 0 else ""
    return Symbol(
        SymbolId(file.path, one.qualified, one.ordinal), one.kind, file.facts.language, one.start_line, one.end_line, one.line,
        " ".join(head.split())[:SIGNATURE_CHARACTERS_MAX].rstrip(" {:="), _first_line(doc), one.is_exported, one.is_test,
    )  # fmt: skip


def doc_of(data: bytes, one: Definition) -> str:
    """Return the documentation of a definition without the marks of comments and strings."""
    if one.doc_byte < 0:
        return ""
    text = data[one.doc_byte : one.doc_byte + _DOC_BYTES_MAX]
    if one.doc_byte < one.start_byte:  # a comment above: it ends where the definition begins
        text = text[: one.start_byte - one.doc_byte]
    elif (end := text.find(text[:3], 3)) > 0 and text[:3] in (b'"""', b"'''"):
        text = text[:end]
    else:
        text = text.partition(b"\n")[0]
    return "\n".join(line.strip(_MARKS) for line in text.decode("utf-8", "replace").splitlines())


def _first_line(doc: str) -> str:
    """Return the first line with words in a comment or a docstring."""
    for line in doc.splitlines():
        said = line.lstrip("rRbBuU") if line[:3].lstrip("rRbBuU")[:1] in ("'", '"') else line
        said = said.strip(_MARKS)
        if said and not said.startswith("@"):
            return said[:DOC_CHARACTERS_MAX]
    return ""
