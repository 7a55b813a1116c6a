"""One file to its facts: reads nothing, raises nothing, within limits of size and time."""

from __future__ import annotations

__all__ = ["Parsed", "parse_source"]

import time
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, cast

from periplus.base.named_tuple import NamedTuple
from periplus.code.extraction.extractor import PARSE_S_MAX, TookTooLong, extract
from periplus.code.extraction.grammar import BrokenSource, Grammar, NoParser, grammar_of
from periplus.code.extraction.nodes import damaged_bytes
from periplus.code.languages.registry import row_of
from periplus.code.languages.table import Language
from periplus.code.limits import HAS_OWN_PARSER, NO_PARSERS, SOURCE_BYTES_MAX
from periplus.code.model import Facts, ParseState

if TYPE_CHECKING:
    import tree_sitter

_PIECE_BYTES: Final = 1 << 16
_UNTIMED_BYTES_MAX: Final = 2 << 10  # of such a file no parser makes minutes; a larger one may
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
        grammar, root = _tree(row, data, deadline)
        facts = extract(grammar, root, data, deadline, blanked)
    except NoParser:
        return Parsed(row.name, "no_parser", why_not=NO_PARSERS)
    except BrokenSource as error:
        return Parsed(row.name, "failed", why_not=str(error))
    except RecursionError:
        return Parsed(row.name, "failed", why_not="it nests too deeply")
    except (ValueError, TookTooLong):  # ValueError: the parser's own for having been stopped
        return late
    return Parsed(row.name, "errors" if facts.has_errors else "parsed", facts)


def _tree(row: Language, data: bytes, deadline: float) -> tuple[Grammar, tree_sitter.Node]:
    """Return the syntax tree of ``data``: that of the parser of its language or, where it is missing, of Python's own module ``ast``."""
    try:
        grammar = grammar_of(row)
    except NoParser:
        if row.name != HAS_OWN_PARSER:
            raise
        from periplus.code.extraction.python_ast import tree_of

        return _python_grammar(), cast("tree_sitter.Node", tree_of(data))
    root = _root(grammar, data, deadline)
    if row.repair is not None and root.has_error:
        root = min(root, _root(grammar, row.repair(data), deadline), key=damaged_bytes)
    return grammar, root


@cache
def _python_grammar() -> Grammar:
    from periplus.code.extraction.python_nodes import KIND_NUMBERS
    from periplus.code.languages.python import PYTHON

    return Grammar(PYTHON, KIND_NUMBERS)


def _root(grammar: Grammar, data: bytes, deadline: float) -> tree_sitter.Node:
    """Return the syntax tree of ``data``. Raises ValueError after ``deadline``; a small file is done before that."""
    assert grammar.parser is not None
    if len(data) <= _UNTIMED_BYTES_MAX:
        return grammar.parser.parse(data).root_node
    try:
        return grammar.parser.parse(
            lambda at, _: data[at : at + _PIECE_BYTES],
            progress_callback=lambda *_: time.monotonic() > deadline,
        ).root_node
    except ValueError:
        grammar.parser.reset()  # else it would go on with this file when it is given the next one
        raise
