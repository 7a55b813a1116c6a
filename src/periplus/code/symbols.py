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

__all__ = ["NO_PARSERS", "SOURCE_BYTES_MAX", "Symbol", "Symbols", "language_of", "symbols_in", "symbols_of"]

from typing import TYPE_CHECKING, NamedTuple

from periplus.code.languages.registry import row_of
from periplus.code.limits import NO_PARSERS, SOURCE_BYTES_MAX

if TYPE_CHECKING:
    from periplus.code.model import Facts


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
    row = row_of(path)
    return row.name if row is not None else ""


def symbols_of(path: str, data: bytes) -> Symbols:
    """Return the definitions in ``data``, the contents of a file called ``path``. Raises nothing, whatever it holds."""
    from periplus.code.extraction.parse import parse_source

    parsed = parse_source(path, data)
    if parsed.facts is None:
        return Symbols(parsed.language, why_not=parsed.why_not)
    return Symbols(parsed.language, symbols_in(parsed.facts), parsed.facts.has_errors)


def symbols_in(facts: Facts) -> tuple[Symbol, ...]:
    """Return the definitions in the facts of a file."""
    return tuple(
        Symbol(one.qualified, one.kind, one.start_line, one.end_line, one.start_byte, one.end_byte)
        for one in facts.definitions()
    )
