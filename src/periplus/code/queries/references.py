"""Places that name a symbol, and symbols that a symbol names, by grade."""

from __future__ import annotations

__all__ = ["Place", "Use", "names_of", "places_of", "uses_of"]

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.code.model import CALL, Role, import_name
from periplus.code.queries.view import CodeView, SymbolId
from periplus.code.resolution.sources import KnownFile

if TYPE_CHECKING:
    from periplus.code.resolution.resolver import Grade, Resolution

ALIASES_MAX: Final = 16
_GRADES: Final[dict[Grade, int]] = {"proven": 0, "likely": 1, "named": 2}


class Place(NamedTuple):
    """A line that names the symbol. ``owner`` is the symbol around it, or the file."""

    path: str
    line: int
    owner: SymbolId
    role: Role
    grade: Grade


class Use(NamedTuple):
    """A symbol that is named at ``lines``."""

    symbol: SymbolId
    role: Role
    grade: Grade
    lines: tuple[int, ...]


def places_of(view: CodeView, symbol: SymbolId) -> list[Place]:
    """Return all places that name ``symbol``, in the order of paths and lines; for a file, the places that import it."""
    if not symbol.name:
        return _importers(view, symbol.path)
    found: dict[tuple[str, int, SymbolId, Role], Grade] = {}
    file = view.file(symbol.path)
    numbers = frozenset(file.qualified.get(symbol.name, ())) if file is not None else frozenset()
    if not numbers:
        return []
    own = names_of(view, symbol)
    names, seen = list(own), set[str]()
    while names and len(seen) < ALIASES_MAX:
        name = names.pop()
        if name in seen:
            continue
        seen.add(name)
        for path in view.sources.mentioning(name):
            file = view.file(path)
            if file is None:
                continue
            for number, grade in _targets(view, file, name, symbol, numbers).items():
                if grade == "named" and name not in own:
                    continue  # the name of an alias agrees, not that of the symbol
                for reference in file.references_by_target.get(number, ()):
                    key = (path, reference.line, view.symbol_at(file, reference.owner), reference.role)
                    if key not in found or _GRADES[grade] < _GRADES[found[key]]:
                        found[key] = grade
            names += [
                one.local
                for one in file.facts.imports
                if import_name(one) == name
                and one.local not in ("", "=", name)
                and one.is_outer
                and one.local not in seen
            ]
            names += [
                one.name
                for one in file.facts.attributes
                if one.target.steps[-1:] != (CALL,)
                and one.name not in seen
                and file.facts.final_name(one.target) == name
            ]
            names += [shown for shown, local in file.facts.exports.items() if local == name and shown not in seen]
    return [Place(*key, grade) for key, grade in sorted(found.items())]


def uses_of(view: CodeView, symbol: SymbolId) -> list[Use]:
    """Return what ``symbol`` names in its own text, the definitions in it included; for a file, what all of it names."""
    file = view.file(symbol.path)
    if file is None:
        return []
    inside = _inside(file, symbol)
    found: dict[tuple[SymbolId, Role], tuple[Grade, list[int]]] = {}
    for number, references in file.references_by_target.items():
        own = [reference for reference in references if inside is None or reference.owner in inside]
        if not own:
            continue
        resolution = view.resolver.resolve(symbol.path, file.facts.targets[number])
        if resolution.grade is None:
            continue
        for target in _symbols(view, resolution):
            for reference in own:
                if target == symbol:
                    continue
                grade, lines = found.setdefault((target, reference.role), (resolution.grade, []))
                if _GRADES[resolution.grade] < _GRADES[grade]:
                    found[target, reference.role] = (resolution.grade, lines)
                lines.append(reference.line)
    return [
        Use(target, role, grade, tuple(sorted(set(lines))))
        for (target, role), (grade, lines) in sorted(
            found.items(), key=lambda item: (_GRADES[item[1][0]], min(item[1][1]), item[0])
        )
    ]


def _importers(view: CodeView, path: str) -> list[Place]:
    """Return the places that import the file ``path`` or names of it."""
    from periplus.code.resolution.file_imports import file_imports, import_names

    others = {other for name in import_names(path) for other in view.sources.mentioning(name)}
    return [
        Place(other, one.line, SymbolId(other), "import", one.grade)
        for other in sorted(others - {path})
        if (file := view.file(other)) is not None
        for one in file_imports(view.resolver, file, path)
    ]


def names_of(view: CodeView, symbol: SymbolId) -> list[str]:
    """Return the names under which other files may name ``symbol``."""
    file = view.file(symbol.path)
    simple = symbol.name.rpartition(".")[2]
    exported = file.facts.exports.items() if file is not None else ()
    others = [name for name, local in exported if local == simple and name != simple]
    if symbol.name == simple and (simple == "default" or not {"default", "="}.isdisjoint(others)):
        from periplus.code.resolution.file_imports import import_names

        others += sorted(import_names(symbol.path))  # see `model.import_name`
    return [simple, *(name for name in others if name not in ("default", "="))]


def _targets(view: CodeView, file: KnownFile, name: str, symbol: SymbolId, numbers: frozenset[int]) -> dict[int, Grade]:
    """Return the targets of ``file`` that stand for ``symbol``, with their grades."""
    found: dict[int, Grade] = {}
    for number in file.targets_by_name.get(name, ()):
        resolution = view.resolver.resolve(file.path, file.facts.targets[number])
        if resolution.grade is None:
            continue
        if any(one.path == symbol.path and one.symbol in numbers for one in resolution.found) or (
            resolution.grade == "named"
        ):
            found[number] = resolution.grade
    return found


def _inside(file: KnownFile, symbol: SymbolId) -> frozenset[int] | None:
    """Return the numbers of ``symbol`` and of all definitions in it; None for a whole file."""
    if not symbol.name:
        return None
    inside = set(file.qualified.get(symbol.name, ()))
    for number, one in enumerate(file.definitions):
        if one.parent in inside:
            inside.add(number)
    return frozenset(inside)


def _symbols(view: CodeView, resolution: Resolution) -> Iterator[SymbolId]:
    for entity in resolution.found:
        if entity.symbol == -1:
            yield SymbolId(entity.path)
        elif entity.symbol >= 0 and (file := view.file(entity.path)) is not None:
            yield view.symbol_at(file, entity.symbol)
