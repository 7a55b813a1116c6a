"""One file to its facts: reads nothing, raises nothing, within limits of size and time."""

from __future__ import annotations

__all__ = ["Parsed", "parse_source"]

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.code.extraction.extractor import PARSE_S_MAX, TookTooLong, extract
from periplus.code.extraction.grammar import Grammar, NoParser, grammar_of
from periplus.code.extraction.nodes import damaged_bytes
from periplus.code.languages.registry import row_of
from periplus.code.limits import NO_PARSERS, SOURCE_BYTES_MAX
from periplus.code.model import Facts, ParseState

if TYPE_CHECKING:
    import tree_sitter

_PIECE_BYTES: Final = 1 << 16
_UNTIMED_BYTES_MAX: Final = 1 << 14  # of a grammar that may take long over what it does not understand
_PROBED_BYTES: Final = 1 << 13


class Parsed(NamedTuple):
    """``facts`` of a file; ``why_not`` says why there are none, empty where the file was parsed."""

    language: str
    state: ParseState
    facts: Facts | None = None
    why_not: str = ""


def parse_source(path: str, data: bytes, *, limit_s: float = PARSE_S_MAX) -> Parsed:
    """Return the facts of ``data``, the contents of a file called ``path``. Raises nothing, whatever it holds."""
    row = row_of(path, data[:_PROBED_BYTES])
    if row is None:
        return Parsed("", "unsupported", why_not="no language is known whose files are named so")
    if len(data) > SOURCE_BYTES_MAX:
        return Parsed(row.name, "too_large", why_not=f"it has over {SOURCE_BYTES_MAX:,} bytes")
    if b"\0" in data[:_PROBED_BYTES]:
        return Parsed(row.name, "not_text", why_not="it is no text")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return Parsed(row.name, "not_text", why_not=f"it is not UTF-8 (byte {error.start})")
    if row.choose is not None:
        row = row.choose(data)
    blanked: Sequence[tuple[int, str]] = ()
    if row.prepare is not None:
        data, blanked = row.prepare(data)
    deadline = time.monotonic() + limit_s
    late = Parsed(row.name, "failed", why_not=f"parsing it took over {limit_s:g} s")
    try:
        grammar = grammar_of(row)
        root = _root(grammar, data, deadline)
        if row.repair is not None and root.has_error:
            root = min(root, _root(grammar, row.repair(data), deadline), key=damaged_bytes)
        facts = extract(grammar, root, data, deadline, blanked)
    except NoParser:
        return Parsed(row.name, "no_parser", why_not=NO_PARSERS)
    except (ValueError, TookTooLong):  # ValueError: the parser's own for having been stopped
        return late
    return Parsed(row.name, "errors" if facts.has_errors else "parsed", facts)


def _root(grammar: Grammar, data: bytes, deadline: float) -> tree_sitter.Node:
    """Return the syntax tree of ``data``. Raises ValueError after ``deadline``; a small file is done before that."""
    limit = _UNTIMED_BYTES_MAX if grammar.row.repair is not None else _PIECE_BYTES
    if len(data) <= limit:
        return grammar.parser.parse(data).root_node
    return grammar.parser.parse(
        lambda at, _: data[at : at + _PIECE_BYTES],
        progress_callback=lambda *_: time.monotonic() > deadline,
    ).root_node
