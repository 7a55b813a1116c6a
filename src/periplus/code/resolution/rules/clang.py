"""C and C++: files found by their includes, names seen through them, and declarations joined to their definitions.

``#include "x"`` is looked for beside the including file, then in the folders that `compile_commands.json` names, then in folders called
``include``, ``inc`` or ``src``, then anywhere in the project by the end of its path. ``<x>`` is looked for in the same way but beside the
file, and comes from outside where it is a header of the standard library or not found.

A name that a file does not bind is looked for in all files that it includes, directly or not. What is declared in a header and defined in a
source file is one thing: a reference to the one counts for the other, where both have one qualified name and are not static.
"""

from __future__ import annotations

__all__ = ["RULES"]

from collections.abc import Iterator, Sequence
from typing import Final

from periplus.code.model import Definition, Import
from periplus.code.resolution.rules.clang_files import HEADERS, Includes
from periplus.code.resolution.rules.clang_names import LIBRARY_NAMES, MEMBER_NAMES
from periplus.code.resolution.rules.table import EXTERNAL, UNKNOWN, Entity, Lookup, Outcome, Rules
from periplus.code.resolution.sources import KnownFile, Sources

_LANGUAGES: Final = frozenset({"c", "cpp"})
_CALLABLE: Final = frozenset({"function", "method", "constructor"})
_OUTER_KINDS: Final = frozenset({"namespace", "enum"})
_LINKED_MAX: Final = 20


def _defining(sources: Sources, name: str) -> Iterator[tuple[KnownFile, int, Definition]]:
    for path, index in sources.defining(name):
        other = sources.file(path)
        if other is not None and other.facts.language in _LANGUAGES:
            yield other, index, other.definitions[index]


def _imported(lookup: Lookup, file: KnownFile, one: Import) -> Outcome:
    if one.module[:1] in ('"', "<"):
        found = Includes(lookup).find(file.path, one.module)
        if not found.paths:
            return EXTERNAL
        return Outcome(tuple(Entity(path, -1) for path in found.paths), is_proven=found.is_proven)
    names = one.module.split("::")
    outcome = _free(lookup, file, names[0])
    for name in names[1:]:
        found_members = [lookup.member(entity, name) for entity in outcome.found]
        entities = tuple(dict.fromkeys(entity for member in found_members for entity in member.found))
        if not entities:
            return EXTERNAL if outcome.is_external or not outcome.found else UNKNOWN
        outcome = Outcome(entities, outcome.is_proven and all(member.is_proven for member in found_members))
    return outcome if outcome.found else EXTERNAL


def _namespace_of(file: KnownFile, one: Definition) -> str | None:
    """Return the namespace in which ``one`` is a name of its own; None where it is the member of a class or local."""
    at = one.parent
    while at >= 0:
        around = file.definitions[at]
        if around.kind == "namespace":
            return around.qualified
        if around.kind != "enum" or one.kind != "constant":
            return None
        at = around.parent
    outer = one.qualified.rpartition(".")[0]
    return "" if not outer or one.kind == "constant" else None


def _opened(file: KnownFile) -> frozenset[str]:
    """Return the namespaces whose names a file sees without writing them."""
    written = {one.qualified for one in file.definitions if one.kind == "namespace"}
    used = {
        one.module.replace("::", ".") for one in file.facts.imports if one.name == "*" and one.module[:1] not in '"<'
    }
    return frozenset(written | used)


def _free(lookup: Lookup, file: KnownFile, name: str) -> Outcome:
    sources = lookup.sources
    closure = Includes(lookup).closure(file.path)
    by_namespace: dict[str, list[Entity]] = {}
    outside: list[tuple[KnownFile, int, Definition]] = []
    for other, index, one in _defining(sources, name):
        namespace = _namespace_of(other, one)
        if namespace is None:
            continue
        if other.path in closure.paths:
            by_namespace.setdefault(namespace, []).append(Entity(other.path, index))
        elif one.is_exported or other.path.endswith(HEADERS):
            outside.append((other, index, one))
    if by_namespace:
        return _chosen(file, by_namespace)
    if name in LIBRARY_NAMES:
        return EXTERNAL
    is_complete = closure.is_complete and not file.path.endswith(HEADERS)
    if not is_complete and outside and len({one.qualified for _, _, one in outside}) == 1 and _is_one(outside):
        return Outcome(tuple(Entity(other.path, index) for other, index, _ in outside), is_proven=False)
    return UNKNOWN


def _chosen(file: KnownFile, by_namespace: dict[str, list[Entity]]) -> Outcome:
    """Return the definitions of the namespace that the file sees: the global one, then those that it opens."""
    if "" in by_namespace:
        return Outcome(tuple(by_namespace[""]))
    opened = _opened(file)
    seen = [found for namespace, found in by_namespace.items() if namespace in opened]
    if len(seen) == 1:
        return Outcome(tuple(seen[0]))
    if not seen and len(by_namespace) == 1:
        return Outcome(tuple(next(iter(by_namespace.values()))), is_proven=False)
    return Outcome(tuple(entity for found in seen for entity in found), is_proven=False) if seen else UNKNOWN


def _is_one(found: Sequence[tuple[KnownFile, int, Definition]]) -> bool:
    """Return True for one definition with its declarations."""
    bodies = {other.path for other, _, one in found if one.kind not in _CALLABLE or _has_body(one)}
    return len(bodies) <= 1


def _has_body(one: Definition) -> bool:
    return one.body_byte < one.end_byte


def _joined(lookup: Lookup, found: tuple[Entity, ...]) -> Outcome:
    """Return ``found`` with the definitions of what is only declared, and the declarations of what is defined."""
    entities = list(found)
    is_proven = True
    for entity in found:
        file = lookup.sources.file(entity.path)
        if file is None or entity.symbol < 0:
            continue
        one = file.definitions[entity.symbol]
        if not one.is_exported or one.kind not in _CALLABLE | {"value"}:
            continue
        linked, is_one = _linked(lookup, file, one)
        is_proven = is_proven and is_one
        entities += linked
    return Outcome(tuple(dict.fromkeys(entities)), is_proven)


def _linked(lookup: Lookup, file: KnownFile, one: Definition) -> tuple[list[Entity], bool]:
    """Return the other sides of a declaration or a definition, and whether there is only one definition."""
    is_defined = _is_definition(file, one)
    includes = Includes(lookup)
    found: list[Entity] = []
    for other, index, candidate in _defining(lookup.sources, one.name):
        if other.path == file.path or candidate.qualified != one.qualified or not candidate.is_exported:
            continue
        if (candidate.kind in _CALLABLE) != (one.kind in _CALLABLE) or candidate.kind not in _CALLABLE | {"value"}:
            continue
        if _is_definition(other, candidate) == is_defined:
            continue
        if is_defined and other.path not in includes.closure(file.path).paths:
            continue
        found.append(Entity(other.path, index))
        if len(found) >= _LINKED_MAX:
            break
    if is_defined or len({entity.path for entity in found}) <= 1:
        return found, True
    near = [entity for entity in found if file.path in includes.closure(entity.path).paths]
    return near or found, False


def _is_definition(file: KnownFile, one: Definition) -> bool:
    return _has_body(one) if one.kind in _CALLABLE else not file.path.endswith(HEADERS)


def _is_visible(file: KnownFile, other: KnownFile, one: Definition) -> bool:
    return one.is_exported or other.path == file.path or other.path.endswith(HEADERS)


RULES: Final = Rules(
    "c", _imported, _free, has_open_types=True, common_members=MEMBER_NAMES, joined=_joined, sees=_is_visible
)
