"""Files that a file imports, each with the line and the grade."""

from __future__ import annotations

__all__ = ["FileImport", "file_imports", "import_names"]

from collections.abc import Iterator
from typing import Final, NamedTuple

from periplus.code.model import Import, module_stem
from periplus.code.resolution.resolver import Grade, Resolver
from periplus.code.resolution.sources import KnownFile

_FOLDERS_MAX: Final = 4
_ENTRIES: Final = frozenset({"index", "main"})
_BETTER: Final[dict[Grade, int]] = {"proven": 0, "likely": 1, "named": 2}


class FileImport(NamedTuple):
    """An import statement at ``line`` that takes from the file ``path``."""

    path: str
    line: int
    grade: Grade


def import_names(path: str) -> frozenset[str]:
    """Return the names by which an import may name the file ``path``: its stem, and its folder; for the entry of a package the folders
    around as well.
    """
    folder, _, base = path.rpartition("/")
    stem = module_stem(f"./{base}")
    short = (
        stem.rpartition(".")[0] or stem
    )  # ``./a`` and, as names of modules go, ``./a.b`` for ``a.d.ts`` and ``a.b.ts``
    folders = folder.split("/")[: -_FOLDERS_MAX - 1 : -1] if stem in _ENTRIES else folder.split("/")[-1:]
    return frozenset(name for name in (stem, short, *folders) if name)


def file_imports(resolver: Resolver, file: KnownFile, only: str | None = None) -> Iterator[FileImport]:
    """Iterate over what ``file`` imports (only from the file ``only``): the module of each statement, and the file of what it names."""
    wanted = import_names(only) if only is not None else None
    found: dict[tuple[str, int], Grade] = {}
    for number, one in enumerate(file.facts.imports):
        if wanted is not None and not _names(one, wanted):
            continue
        for outcome in (resolver.module(file, number), resolver.imported(file, number)):
            grade: Grade = "proven" if outcome.is_proven else "likely"
            for entity in outcome.found:
                if entity.symbol == -2 or entity.path == file.path or (only is not None and entity.path != only):
                    continue
                if wanted is None and not _names(one, import_names(entity.path)):
                    continue
                key = (entity.path, one.line)
                if key not in found or _BETTER[grade] < _BETTER[found[key]]:
                    found[key] = grade
    for (path, line), grade in sorted(found.items()):
        yield FileImport(path, line, grade)


def _names(one: Import, names: frozenset[str]) -> bool:
    return module_stem(one.module) in names or one.name in names
