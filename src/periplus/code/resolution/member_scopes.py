"""Names in languages whose members are in scope: an inherited member hides what stands outside of the class, files add members to types,
a type has parts in several files, and methods do not share the names of values.
"""

from __future__ import annotations

__all__ = ["CALLABLE", "CALLED_KINDS", "TYPES", "MemberScopes"]

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from periplus.code.model import MARKS
from periplus.code.resolution.rules.registry import rules_of
from periplus.code.resolution.rules.table import EXTERNAL, UNKNOWN, Entity, Outcome, Rules
from periplus.code.resolution.sources import KnownFile, Sources

_Value = TypeVar("_Value")
TYPES: Final = frozenset(
    {"class", "interface", "enum", "struct", "trait", "record", "type", "union", "annotation", "object", "protocol", "module",
     "namespace", "extension"}
)  # fmt: skip
CALLABLE: Final = frozenset({"function", "method", "constructor", "test", "route", "macro"})
CALLED_KINDS: Final = TYPES | CALLABLE - {"constructor"} | {"property", "value"}


class MemberScopes:
    """A part of the resolver; what the resolver itself brings stands last."""

    sources: Sources

    def _extended(self, file: KnownFile, name: str, at: Outcome) -> Outcome:
        """Return the extension of types that ``file`` sees under ``name``, else ``at``."""
        extension = rules_of(file.facts.language).extension
        found = extension(self, file, name) if extension is not None and name not in MARKS else UNKNOWN
        return found if found.found else at

    def _narrow(self, at: Outcome, *, is_called: bool) -> Outcome:
        """Return of equals those that can be called, or those that cannot, where methods do not share the names of values."""
        if len(at.found) < 2:
            return at
        kept: list[Entity] = []
        for one in at.found:
            file = self.sources.file(one.path)
            if file is None or one.symbol < 0 or not rules_of(file.facts.language).has_called_names:
                return at
            if (file.definitions[one.symbol].kind in CALLABLE) == is_called:
                kept.append(one)
        return at._replace(found=tuple(kept)) if kept else at

    def _free(self, file: KnownFile, rules: Rules, name: str, steps: Sequence[str]) -> tuple[Outcome, Sequence[str]]:
        """Return what a free name means, with the steps after it where it begins a package, and the steps that are left."""
        found = rules.free(self, file, name)
        if found.found or rules.dotted is None or not steps:
            return found, steps
        dotted, left = rules.dotted(self, file, name, steps)
        return (dotted, left) if dotted.found or dotted.is_external else (found, steps)

    def _hiding(self, file: KnownFile, rules: Rules, index: int, steps: Sequence[str]) -> tuple[Outcome, Sequence[str]]:
        """Return what the first step means as a member of the types around, inherited ones included, or else as a free name."""
        at = index
        is_external = False
        while at >= 0:
            one = file.definitions[at]
            entity = Entity(file.path, file.first(at), is_instance=True)
            self._note_name(file, at)
            if one.kind in TYPES:
                outcome = self.member(entity, steps[0])
                outcome = outcome._replace(
                    found=tuple(dict.fromkeys(self._constructed(found) for found in outcome.found))
                )
            elif rules.has_receivers and at in file.facts.bases:  # a function that extends a type
                outcome = self._inherited(file, at, steps[:1])._replace(is_proven=False)
            else:
                at = one.parent
                continue
            if outcome.found:
                return outcome._replace(is_proven=outcome.is_proven and not is_external), steps[1:]
            is_external = is_external or outcome.is_external
            if one.kind in TYPES and steps[0] in rules.same_values and len(steps) > 1:
                return Outcome((entity,), is_proven=False), steps[2:]
            at = one.parent
        free, left = self._free(file, rules, steps[0], steps[1:])
        if free.found:
            # A member of a base outside of the project may hide it; only for types that is not to be expected.
            return free._replace(
                is_proven=free.is_proven and (not is_external or self._kind(free.found[0]) in TYPES)
            ), left
        return (EXTERNAL, ()) if is_external else (free, left)

    def _constructed(self, entity: Entity) -> Entity:
        """Return the class that a constructor of its name is called by, else ``entity``."""
        file = self.sources.file(entity.path)
        one = file.definitions[entity.symbol] if file is not None and entity.symbol >= 0 else None
        if file is None or one is None or one.kind != "constructor" or one.parent < 0:
            return entity
        return Entity(entity.path, file.first(one.parent))

    def _parts(self, file: KnownFile, index: int) -> list[tuple[KnownFile, int]]:
        """Return the definitions of one class, that of ``index`` first: it may have parts in other files."""
        if not rules_of(file.facts.language).has_partial_types:
            return [(file, index)]
        return [
            (file, index),
            *self.derived(("parts", file.path, index), lambda sources: _others(sources, file, index)),
        ]

    # -- the resolver --------------------------------------------------------------------------------------------------

    def member(self, entity: Entity, name: str) -> Outcome:
        raise NotImplementedError

    def imported(self, file: KnownFile, index: int) -> Outcome:
        raise NotImplementedError

    def derived(self, kind: object, compute: Callable[[Sources], _Value]) -> _Value:
        raise NotImplementedError

    def _inherited(self, file: KnownFile, index: int, steps: Sequence[str]) -> Outcome:
        raise NotImplementedError

    def _kind(self, entity: Entity) -> str:
        raise NotImplementedError

    def _note_name(self, file: KnownFile, index: int) -> None:
        raise NotImplementedError


def _others(sources: Sources, file: KnownFile, index: int) -> list[tuple[KnownFile, int]]:
    """Return the parts of a class that stand in other files than ``file``."""
    rules = rules_of(file.facts.language)
    one = file.definitions[index]
    found: list[tuple[KnownFile, int]] = []
    for path, at in sources.defining(one.name):
        other = sources.file(path) if path != file.path else None
        if other is None or other.definitions[at].qualified != one.qualified or other.first(at) != at:
            continue
        if other.definitions[at].kind == one.kind and (rules.is_same_type is None or rules.is_same_type(file, other)):
            found.append((other, at))
    return found
