"""Symbols by what a person types: ``path:Class.method``, a path, a qualified name, or its end."""

from __future__ import annotations

__all__ = ["MATCHES_MAX", "symbols_named"]

import re
from typing import Final

from periplus.code.queries.view import CodeView, SymbolId, utf8_text

MATCHES_MAX: Final = 200
_ORDINAL: Final = re.compile(r"#(\d{1,6})\Z")
_SEPARATORS: Final = re.compile(r"::|#|->|/")


def symbols_named(view: CodeView, typed: str) -> list[SymbolId]:
    """Return the symbols that ``typed`` may mean, exact ones only: a file, ``path:name``, or all whose qualified name is it or ends with
    it. Empty where there is none.
    """
    typed = typed.strip().removeprefix("./")
    if view.sources.exists(typed):
        return [SymbolId(typed)]
    path, colon, rest = typed.rpartition(":")
    if colon and path and not path.endswith(":"):
        return _in_file(view, path, rest)
    name, _ordinal = _taken_apart(typed)
    simple = name.rpartition(".")[2]
    found = []
    for place, number in view.sources.defining(simple):
        file = view.file(place)
        if file is not None:
            qualified = file.definitions[number].qualified
            full = f"{file.facts.package}.{qualified}" if file.facts.package else qualified
            if qualified == name or f".{full}".endswith(f".{name}"):
                found.append(SymbolId(place, qualified))
    exact = [one for one in found if one.name == name]
    return list(dict.fromkeys(exact or found))[:MATCHES_MAX]


def _in_file(view: CodeView, path: str, rest: str) -> list[SymbolId]:
    name, ordinal = _taken_apart(rest)
    found: list[SymbolId] = []
    for place in [path] if view.sources.exists(path) else _ending_with(view, path):
        file = view.file(place)
        if file is None:
            continue
        if name in file.qualified:
            found.append(SymbolId(place, name, ordinal if ordinal < len(file.qualified[name]) else 0))
        else:
            found += [SymbolId(place, one) for one in file.qualified if one.endswith(f".{name}")]
    return found[:MATCHES_MAX]


def _ending_with(view: CodeView, path: str) -> list[str]:
    """Return the files whose path ends with ``path``, or with it and an ending: ``auth:login`` for ``src/auth.py``."""
    base = path.rpartition("/")[2]
    return [one for one in view.sources.with_name(base) if f"/{one}".endswith(f"/{path}")]


def _taken_apart(text: str) -> tuple[str, int]:
    """Return a qualified name joined by dots, and the ordinal."""
    ordinal = 0
    text = utf8_text(text)
    if match := _ORDINAL.search(text):
        ordinal = max(0, int(match[1]) - 1)
        text = text[: match.start()]
    return _SEPARATORS.sub(".", text).strip("."), ordinal
