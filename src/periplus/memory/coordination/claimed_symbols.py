"""Symbols that claims name, in the files as they are now: their lines, and the nearest names where there is none."""

from __future__ import annotations

__all__ = ["ClaimedSymbols"]

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from periplus.memory.scopes import Scope

if TYPE_CHECKING:
    from periplus.code import Symbol, Symbols

_NAMED_MAX: Final = 3
_NAMED_TOO_MAX: Final = 8


class ClaimedSymbols:
    """The symbols of the files of ``root``; a file is parsed once, and only where a scope names a symbol of it."""

    def __init__(self, root: str, parse: Callable[[str, bytes], Symbols]) -> None:
        """``parse`` returns the symbols of a file, as ``symbols_of`` does."""
        self._root = root
        self._parse = parse
        self._files: dict[str, Symbols | None] = {}

    def lines(self, scope: Scope) -> tuple[int, int] | None:
        """Return the first and the last line of the symbol that ``scope`` names; None where it names none, or not one alone."""
        found = self._found(scope)
        if not found or len({one.name for one in found}) > 1:
            return None
        return min(one.start_line for one in found), max(one.end_line for one in found)

    def missing(self, scopes: Sequence[Scope]) -> list[str]:
        """Return for each scope whose file has no such symbol a text that says so, with the nearest names."""
        return [
            f"{_path(scope)} defines no {_name(scope)}{_nearest([one.name for one in symbols.found], _name(scope))}"
            for scope in scopes
            if (symbols := self._symbols(scope)) is not None and not symbols.named(_name(scope))
        ]

    def _found(self, scope: Scope) -> Sequence[Symbol]:
        symbols = self._symbols(scope)
        return symbols.named(_name(scope)) if symbols is not None else ()

    def _symbols(self, scope: Scope) -> Symbols | None:
        """Return the symbols of the file of ``scope``; None where it names no symbol, or its file cannot be parsed."""
        path = _path(scope)
        if not path:
            return None
        if path not in self._files:
            self._files[path] = self._parsed(path)
        return self._files[path]

    def _parsed(self, path: str) -> Symbols | None:
        from periplus.memory.code_anchors.anchors import read_file

        data = read_file(self._root, path)
        symbols = self._parse(path, data) if data is not None else None
        return symbols if symbols is not None and not symbols.why_not else None


def _path(scope: Scope) -> str:
    """Return the file of a scope that names a symbol of one file; else nothing."""
    if not scope.symbol or scope.is_wild or len(scope.paths) != 1:
        return ""
    return os.path.join(*(name for name in scope.paths[0] if isinstance(name, str)))


def _name(scope: Scope) -> str:
    return ".".join(scope.symbol)


def _nearest(names: Sequence[str], name: str) -> str:
    import difflib

    last = {one.rpartition(".")[2].casefold(): one for one in reversed(names)}
    near = difflib.get_close_matches(name, names, _NAMED_MAX)
    near += [last[one] for one in difflib.get_close_matches(name.rpartition(".")[2].casefold(), last, _NAMED_MAX)]
    near = list(dict.fromkeys(near))[:_NAMED_MAX]
    if near:
        return f"; the nearest names: {', '.join(near)}"
    some = ", ".join(names[:_NAMED_TOO_MAX])
    return f"; it defines {some}{', …' if len(names) > _NAMED_TOO_MAX else ''}" if names else "; it defines nothing"
