"""Symbols of a file with the numbers that its edges use. Pure."""

from __future__ import annotations

__all__ = ["first_symbols", "renewed_symbols"]

from periplus.code.graph.encoding import FileSymbols
from periplus.code.resolution.sources import KnownFile


def first_symbols(file: KnownFile) -> FileSymbols:
    """Return the symbols of a file that has no numbers yet; they depend on its facts alone."""
    names = list(file.qualified)
    return FileSymbols(names, list(range(1, len(names) + 1)), _flags(file, names), len(names) + 1)


def renewed_symbols(old: FileSymbols, file: KnownFile) -> FileSymbols:
    """Return the symbols of a new version of a file. Names that it had before keep their numbers; no number is given twice."""
    known = dict(zip(old.names, old.locals, strict=True))
    names = list(file.qualified)
    following = old.next
    locals_: list[int] = []
    for name in names:
        number = known.get(name)
        if number is None:
            number = following
            following += 1
        locals_.append(number)
    return FileSymbols(names, locals_, _flags(file, names), following)


def _flags(file: KnownFile, names: list[str]) -> list[int]:
    return [_test_flags(file, name) for name in names]


def _test_flags(file: KnownFile, name: str) -> int:
    flags = 0
    for number in file.qualified[name]:
        at = number
        while at >= 0:
            one = file.definitions[at]
            if one.is_test:
                flags |= 1 if one.kind == "test" else 2
            at = one.parent
    return flags
