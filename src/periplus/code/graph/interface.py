"""Differences between two versions of a file that the resolution of other files can see.

Lines, bodies and references are none. Everything is compared by names, not by numbers, so that a definition put in between changes
nothing but itself. Pure.
"""

from __future__ import annotations

__all__ = ["Difference", "interface_difference"]

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from periplus.code.model import Target
from periplus.code.resolution.sources import KnownFile

_Parts: TypeAlias = dict[str, list[object]]


class Difference(NamedTuple):
    """``names`` stand for something else; with ``is_whole`` any name may."""

    names: frozenset[str]
    is_whole: bool

    def __bool__(self) -> bool:
        return self.is_whole or bool(self.names)


def interface_difference(old: KnownFile, new: KnownFile) -> Difference:
    """Return what others can see to differ between ``old`` and ``new``."""
    before, after = _parts(old), _parts(new)
    names = frozenset(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return Difference(names, _whole(old) != _whole(new))


def _whole(file: KnownFile) -> object:
    """Return what the meaning of any name in the file may depend on."""
    facts = file.facts
    beside: dict[int, list[str]] = defaultdict(list)  # a declaration of a module, and the import that it stands for
    for definition in file.definitions:
        beside[definition.line].append(definition.qualified)
    loose = [
        (one.module, one.name, one.is_outer, one.is_reexport, beside.get(one.line))
        for one in facts.imports
        if not one.local
    ]
    modules = {one.module for one in facts.imports if not one.name}
    below = [one.module for one in facts.imports if any(outer in modules for outer in _outer_modules(one.module))]
    exports = bool(facts.exports), "*" in facts.exports
    return facts.language, facts.package, loose, below, exports


def _outer_modules(module: str) -> Iterator[str]:
    """Iterate over the modules that ``module`` is written to lie in."""
    at = module.rfind(".")
    while at > 0:
        yield module[:at]
        at = module.rfind(".", 0, at)


def _parts(file: KnownFile) -> _Parts:
    """Return everything that is known under each name."""
    facts, definitions = file.facts, file.definitions
    found: _Parts = defaultdict(list)
    for number, one in enumerate(definitions):
        parent = definitions[one.parent] if one.parent >= 0 else None
        type_, bases = facts.types.get(number), facts.bases.get(number, ())
        found[one.name].append(
            (one.qualified, one.kind, one.is_exported, one.body_byte < one.end_byte, parent and (parent.qualified, parent.kind),
             type_ and _plain(file, type_), [_plain(file, base) for base in bases])
        )  # fmt: skip
    for attribute in facts.attributes:
        owner = definitions[attribute.owner].qualified if 0 <= attribute.owner < len(definitions) else ""
        found[attribute.name.lstrip("@")].append(("attribute", owner, _plain(file, attribute.target)))
    for brought in facts.imports:
        if brought.local:
            found[brought.local].append(("import", brought.module, brought.name, brought.is_outer, brought.is_reexport))
    for name, local in facts.exports.items():
        found[name].append(("export", local))
    return found


def _plain(file: KnownFile, target: Target) -> object:
    """Return ``target`` without numbers."""
    value = target.value
    if not isinstance(value, int):
        return target.root, value, target.steps
    if target.root == "i":
        one = file.facts.imports[value]
        return "i", one.module, one.name, one.local, one.is_outer, target.steps
    if 0 <= value < len(file.definitions):
        definition = file.definitions[value]
        return target.root, definition.qualified, definition.ordinal, target.steps
    return target.root, value, target.steps
