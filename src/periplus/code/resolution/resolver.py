"""Targets to definitions: a root, then one step after the other.

Nothing is stored: an answer is a pure function of the view (`Sources`), so no edge can be out of date. What a step means:

* a name in a file: a definition of it, what it imports under this name, or all that it star-imports; a file or folder below it;
* a name in a class or in an instance of it: its own member, then those of its bases, in order;
* a name in a value: in the class of its annotation or of what it was built from; in a function: in what it returns;
* ``()``: a class gives an instance, a function what it says it returns.

The grade (`Grade`) is *proven* where scopes and imports alone lead to one target; *likely* where a class was known by construction or
annotation, or where only one definition of that name and shape exists; *named* where only the name agrees.
"""

from __future__ import annotations

__all__ = ["CANDIDATES_MAX", "Grade", "Resolution", "Resolver"]

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from periplus.code.languages.registry import row_of
from periplus.code.model import (
    BARE_STEPS,
    CALL,
    CALLED,
    ELEMENT,
    ENTERED,
    FIELD,
    LIST,
    PERHAPS,
    Definition,
    Import,
    Target,
)
from periplus.code.resolution.dependencies import RecordedSources, Recorder
from periplus.code.resolution.member_scopes import CALLABLE, TYPES, MemberScopes
from periplus.code.resolution.memo import Memo
from periplus.code.resolution.name_shapes import Shape, has_shape
from periplus.code.resolution.rules.registry import rules_of
from periplus.code.resolution.rules.table import EXTERNAL, UNKNOWN, Entity, Outcome, Rules
from periplus.code.resolution.sources import KnownFile, Sources

_Value = TypeVar("_Value")
Grade: TypeAlias = Literal["proven", "likely", "named"]
CANDIDATES_MAX: Final = 20
_BASES_MAX: Final = 200
_ALIASES_MAX: Final = 4
_DERIVED_MAX: Final = 4_000
_NAMES_KEPT_MAX: Final = 100_000
_PARAMETERS_MAX: Final = 40
_CALLS: Final = ((CALL,), (CALLED,))
_VALUES: Final = frozenset({"value", "field"})
_ASSIGNED: Final = frozenset({"method", "property", "field", "class"})
_ALIASES: Final = frozenset({"type", "interface"})


class Resolution(NamedTuple):
    """Meaning of a target. Without a grade it is a name of another package, of the language, or of nothing known."""

    found: tuple[Entity, ...] = ()
    grade: Grade | None = None
    is_external: bool = False


class Resolver(MemberScopes):
    """Resolves targets within one view; what it found is kept as long as the object lives. ``recorder`` notes what it depends on."""

    def __init__(self, sources: Sources, recorder: Recorder | None = None) -> None:
        self.sources: Sources = sources if recorder is None else RecordedSources(sources, recorder)
        self._plain = sources
        self._recorder = recorder
        self._memo = Memo(recorder)
        self._derived: dict[object, tuple[object, frozenset[int]]] = {}
        self._names: dict[tuple[str, str, Shape], Resolution] = {}

    def resolve(self, path: str, target: Target) -> Resolution:
        """Return what ``target``, of the file ``path``, stands for. A value of a known class does not name the class."""
        file = self.sources.file(path)
        if file is None:
            return Resolution()
        outcome = self._narrow(self._target(file, target), is_called=target.steps[-1:] == (CALLED,))
        if outcome.is_attribute:
            return Resolution()
        if outcome.found:
            found = tuple(dict.fromkeys(one for one in outcome.found if not one.is_instance))
            own = tuple(one for one in found if not self._is_extension(one))
            if own:
                joined = rules_of(file.facts.language).joined
                if joined is not None:
                    more = joined(self, own)
                    own, outcome = more.found, outcome._replace(is_proven=outcome.is_proven and more.is_proven)
                return Resolution(own, "proven" if outcome.is_proven else "likely")
            return Resolution(is_external=bool(found))  # extensions of what is defined elsewhere, or a value alone
        if outcome.is_external:
            return Resolution(is_external=True)
        named = self._by_name(file, target)
        if named.grade == "likely" and rules_of(file.facts.language).tries_imports:
            name = file.facts.final_name(target)  # perhaps a class of this file has one that has no definition
            return named._replace(grade="named") if name in file.attributes else named
        return named

    def _is_extension(self, entity: Entity) -> bool:
        file = self.sources.file(entity.path) if entity.symbol >= 0 else None
        return file is not None and file.definitions[entity.symbol].kind == "extension"

    def member(self, entity: Entity, name: str) -> Outcome:
        return self._memo.answer((entity, name), self._member, entity, name)

    def derived(self, kind: object, compute: Callable[[Sources], _Value]) -> _Value:
        """Return what ``compute`` makes of the sources, worked out once for each ``kind`` while no more than _DERIVED_MAX are kept."""
        recorder = self._recorder
        if kind not in self._derived:
            around, asked = recorder.asked if recorder is not None else set(), set[int]()
            if recorder is not None:
                recorder.asked = asked
            made = compute(self.sources)
            if len(self._derived) >= _DERIVED_MAX:
                self._derived.clear()
            self._derived[kind] = (made, frozenset(asked))
            if recorder is not None:
                recorder.asked = around
        value, keys = self._derived[kind]
        if recorder is not None:
            recorder.asked |= keys
        return value  # type: ignore[return-value] # a kind has one type

    def file_of(self, path: str) -> KnownFile | None:
        return self.sources.file(path)

    # -- by steps ------------------------------------------------------------------------------------------------------

    def _target(self, file: KnownFile, target: Target) -> Outcome:
        return self._memo.answer((file.path, target), self._follow, file, target)

    def _note_root(self, file: KnownFile, target: Target, number: int) -> None:
        """Note that what ``target`` begins with was looked at."""
        if self._recorder is None:
            return
        if target.root == "i":
            self._recorder.asked.add(Recorder.name[file.facts.imports[number].local])
        elif number >= 0:
            self._note_name(file, number)
        elif isinstance(target.value, str):
            self._recorder.asked.add(Recorder.name[target.value])

    def _note_name(self, file: KnownFile, index: int) -> None:
        """Note that what ``index`` is was looked at."""
        if self._recorder is not None and 0 <= index < len(file.definitions):
            self._recorder.asked.add(Recorder.name[file.definitions[index].name])

    def _follow(self, file: KnownFile, target: Target) -> Outcome:
        steps: Sequence[str] = target.steps
        rules = rules_of(file.facts.language)
        viewer = file if rules.extension is not None else None
        number = target.value if isinstance(target.value, int) else -1
        self._note_root(file, target, number)
        if target.root == "s":
            at = Outcome(tuple(Entity(file.path, index) for index in _named(file, number)))
        elif target.root == "i":
            at = self._imported(file, number)
        elif target.root == "f":
            at, steps = self._free(file, rules, str(target.value), steps)
        elif target.root == "t" and number < 0:
            at = self._called(rules.free(self, file, str(target.value)))
            return self._steps(at, steps, is_own=True)
        elif target.root == "t":
            return self._steps(self._instance(file, number), steps, is_own=True, viewer=viewer)
        elif target.root == "u":
            return self._inherited(file, number, steps)
        elif target.root == "m":
            at, steps = self._implicit(file, rules, number, steps)
        elif viewer is None:
            return UNKNOWN
        else:
            at = UNKNOWN
        if len(at.found) > 1 and steps:
            at = self._separated(at, is_called=tuple(steps[:1]) in _CALLS)
        return self._steps(at, steps, viewer=viewer)

    def _steps(
        self, at: Outcome, steps: Sequence[str], *, is_own: bool = False, viewer: KnownFile | None = None
    ) -> Outcome:
        """Follow ``steps`` from ``at``. With ``is_own`` the first member is that of the class in whose code the target stands;
        ``viewer`` is the file that sees the extensions of types.
        """
        is_proven = at.is_proven
        is_done = False
        for number, step in enumerate(steps):
            if is_done:  # the call of a method of lists, or of one that gives its receiver
                is_done = False
                continue
            if not at.found:
                if viewer is None:
                    return at if at.is_external else UNKNOWN
                at, is_proven = self._extended(viewer, step, at), False
            elif step == CALL:
                at = self._called(self._narrow(at, is_called=True))
            elif step == ELEMENT:
                at = self._element(at)
                if viewer is not None and not at.found:
                    return UNKNOWN
            elif step == PERHAPS:
                is_proven = False
            elif step in (CALLED, FIELD):
                continue
            elif step == LIST:
                at = at._replace(lists=at.lists + 1)
            elif step[0] == "(":
                at = self._parameter(at, step)
            elif step == ENTERED:
                at = self._entered(at)
            elif at.lists and tuple(steps[number + 1 : number + 2]) == (CALL,):
                at, is_done = self._of_list(at, step), True
            elif self._makes_instance(at, steps, number):
                continue
            else:
                if any(one.is_instance for one in at.found) and not (is_own and number == 0):
                    is_proven = False
                is_type = all(one.symbol >= 0 and not one.is_instance for one in at.found)
                before, at = at, self._first_member(self._narrow(at, is_called=False), step)
                if viewer is not None and not at.found:
                    is_done = (
                        steps[number + 1 : number + 2] == (CALL,)
                        and step in rules_of(viewer.facts.language).same_values
                    )
                    at = before if is_done else self._extended(viewer, step, at)
                if len(at.found) > 1:
                    following = tuple(steps[number + 1 : number + 2])
                    at = self._separated(at, is_called=following in _CALLS or (is_type and following != (FIELD,)))
            is_proven = is_proven and at.is_proven
        return at._replace(is_proven=is_proven)

    def _element(self, at: Outcome) -> Outcome:
        """Return the elements of a list, or of a value whose type is one."""
        for _ in range(_ALIASES_MAX):
            if at.lists:
                return at._replace(lists=at.lists - 1, is_proven=False)
            values = [
                self._type_of(file, entity.symbol)
                for entity in at.found[:CANDIDATES_MAX]
                if entity.symbol >= 0 and (file := self.sources.file(entity.path)) is not None
            ]
            if not any(value.found for value in values):
                return self._by_methods(at)
            at = next(value for value in values if value.found)
        return UNKNOWN

    def _by_methods(self, at: Outcome) -> Outcome:
        """Return the elements of an instance that methods of its class return."""
        for one in at.found[:CANDIDATES_MAX]:
            for name in self._rules_of(one).element_methods if one.is_instance else ():
                returned = self._called(self.member(one, name))
                if returned.found and (returned.lists or name == "__getitem__"):
                    return returned._replace(lists=max(returned.lists - 1, 0), is_proven=False)
        return UNKNOWN

    def _of_list(self, at: Outcome, name: str) -> Outcome:
        """Return what the method ``name`` of a list returns, where that is in the list."""
        is_one = self._rules_of(at.found[0]).list_methods.get(name)
        return UNKNOWN if is_one is None else at._replace(lists=at.lists - is_one, is_proven=False)

    def _entered(self, at: Outcome) -> Outcome:
        """Return what a ``with`` statement binds: what the method says, or the value itself."""
        if at.lists:  # a generator that is made a context manager
            return at._replace(lists=at.lists - 1, is_proven=False)
        found: list[Entity] = []
        for one in at.found[:CANDIDATES_MAX]:
            name = self._rules_of(one).entering
            returned = self._called(self.member(one, name)) if name and one.is_instance else UNKNOWN
            found += returned.found or (one,)
        return Outcome(tuple(dict.fromkeys(found)), is_proven=False)

    def _rules_of(self, entity: Entity) -> Rules:
        file = self.sources.file(entity.path)
        return rules_of(file.facts.language if file is not None else "")

    def _separated(self, at: Outcome, *, is_called: bool) -> Outcome:
        """Return only what can be called, or only what cannot, where the language has both under one name."""
        files = [self.sources.file(one.path) for one in at.found]
        kept = tuple(
            one
            for one, file in zip(at.found, files, strict=True)
            if file is None or not rules_of(file.facts.language).separates_fields
            or (one.symbol >= 0 and file.definitions[one.symbol].kind in CALLABLE) == is_called
        )  # fmt: skip
        return at._replace(found=kept) if kept else at

    def _makes_instance(self, at: Outcome, steps: Sequence[str], number: int) -> bool:
        """Return True where the step is the method that makes an instance, and the class has none of its own of that name."""
        if tuple(steps[number + 1 : number + 2]) != (CALL,) or at.found[0].symbol < 0 or at.found[0].is_instance:
            return False
        file = self.sources.file(at.found[0].path)
        if file is None or rules_of(file.facts.language).instantiator != steps[number]:
            return False
        return (
            file.definitions[at.found[0].symbol].kind in TYPES
            and not self._own_member(file, file.first(at.found[0].symbol), steps[number]).found
        )

    def _parameter(self, at: Outcome, step: str) -> Outcome:
        """Return the type of a parameter of what is called, by the way that leads there: aliases, constructors, types of values."""
        waiting = [] if at.lists else list(at.found[:CANDIDATES_MAX])
        outer, _, inner = step.rpartition("(")
        seen: set[Entity] = set()
        while waiting and len(seen) < _PARAMETERS_MAX:
            entity = waiting.pop(0)
            file = self.sources.file(entity.path)
            if entity in seen or file is None or entity.symbol < 0:
                continue
            seen.add(entity)
            first = file.first(entity.symbol)
            targets = file.attribute_targets.get((first, step), [])
            if rest := not targets and step != CALL:
                targets = file.attribute_targets.get((first, "(*)"), [])
            for target in targets:
                found = self._target(file, target)
                found = self._element(found) if rest else found
                if found.found:
                    return found._replace(is_proven=False)
            if entity.is_instance or file.definitions[first].kind in _ALIASES:
                for base in self._bases(file, first):
                    waiting += self._target(file, base).found
            elif file.definitions[first].kind in TYPES:
                waiting += self.member(entity, rules_of(file.facts.language).constructor).found
            elif not targets:
                waiting += self._type_of(file, entity.symbol).found
        return self._parameter(self._parameter(at, outer), f"({inner}") if outer else UNKNOWN

    def _first_member(self, at: Outcome, name: str) -> Outcome:
        if at.lists:
            return UNKNOWN
        found = [self.member(entity, name) for entity in at.found[:CANDIDATES_MAX]]
        entities = tuple(dict.fromkeys(entity for one in found for entity in one.found))
        if not entities:
            if any(one.is_attribute for one in found):
                return _ATTRIBUTE
            return EXTERNAL if any(one.is_external for one in found) else UNKNOWN
        return Outcome(entities, all(one.is_proven for one in found if one.found))

    def _called(self, at: Outcome) -> Outcome:
        if at.lists:
            return UNKNOWN
        found: list[Entity] = []
        is_proven = at.is_proven
        is_external = False
        lists = 0
        for entity in at.found[:CANDIDATES_MAX]:
            file = self.sources.file(entity.path)
            if file is None or entity.symbol < 0 or entity.is_instance:
                continue
            kind = file.definitions[entity.symbol].kind
            if kind in TYPES:
                found.append(entity._replace(is_instance=True))
                continue
            value = self._type_of(file, entity.symbol)
            rules = rules_of(file.facts.language)
            if kind not in CALLABLE and not (kind == "property" and (rules.instantiator or rules.has_called_names)):
                value = self._called(value) if value.found and not value.found[0].is_instance else UNKNOWN
            found += value.found
            lists = max(lists, value.lists)
            is_proven = is_proven and value.is_proven
            is_external = is_external or value.is_external
        if not found:
            return self._parameter(at, CALL) if not is_external else EXTERNAL
        return Outcome(tuple(dict.fromkeys(found)), is_proven, lists=lists)

    def _assigned_member(self, file: KnownFile, index: int, name: str) -> Outcome:
        """Return the member ``name`` that code puts into a value or a function; what a function defines inside is none."""
        found = [
            Entity(file.path, at)
            for at in file.members.get((file.first(index), name), ())
            if file.definitions[at].kind in _ASSIGNED
        ]
        return Outcome(tuple(found)) if found else UNKNOWN

    def _type_of(self, file: KnownFile, index: int) -> Outcome:
        """Return the class of a value, or what a function returns."""
        self._note_name(file, index)
        target = file.facts.types.get(index)
        if target is not None:
            return self._target(file, target)
        one = file.definitions[index]
        for attribute in file.facts.attributes if one.parent >= 0 else ():
            if attribute.name.lstrip("@") == one.name and file.first(attribute.owner) == file.first(one.parent):
                return self._target(file, attribute.target)._replace(is_proven=False)
        return UNKNOWN

    def _member(self, entity: Entity, name: str) -> Outcome:
        if self._recorder is not None:
            self._recorder.asked.add(Recorder.name[name])
        if entity.symbol < 0:
            return self._in_module(entity, name)
        file = self.sources.file(entity.path)
        if file is None:
            return UNKNOWN
        one = file.definitions[entity.symbol]
        if one.kind in TYPES:
            found = self._in_class(file, file.first(entity.symbol), name)
            rules = rules_of(file.facts.language)
            if found.found and rules.is_of_class is not None:
                return self._of_kind(found, rules.is_of_class, is_wanted=not entity.is_instance)
            if not found.found and rules.instantiator and name == rules.constructor and not entity.is_instance:
                return found if found.is_external else Outcome((entity,))
            if not found.found and one.kind == "module" and rules.submodule is not None:
                return rules.submodule(self, entity, name)
            if found.found or found.is_attribute or found.is_external or entity.symbol not in file.facts.types:
                return found
        elif one.kind in _VALUES and entity.symbol not in file.facts.types:  # its type may have no name
            found = self._own_member(file, file.first(entity.symbol), name)
            if found.found:
                return found
        if one.kind not in TYPES and (own := self._assigned_member(file, entity.symbol, name)).found:
            return own
        value = self._type_of(file, entity.symbol)
        if one.kind in TYPES:  # an alias of another type
            value = value._replace(found=tuple(found for found in value.found if found != entity))
        outcome = self._first_member(value, name)
        return outcome._replace(is_proven=False) if outcome.found else value if value.is_external else outcome

    def _of_kind(self, outcome: Outcome, is_of_class: Callable[[Definition], bool], *, is_wanted: bool) -> Outcome:
        """Return the members of a class, or those of its instances, of ``outcome``; all where there are none such."""
        found = tuple(
            one
            for one in outcome.found
            if one.symbol >= 0
            and (file := self.sources.file(one.path)) is not None
            and is_of_class(file.definitions[one.symbol]) == is_wanted
        )
        return outcome._replace(found=found) if found else outcome

    # -- files and imports ---------------------------------------------------------------------------------------------

    def _in_module(self, entity: Entity, name: str) -> Outcome:
        file = self.sources.file(entity.path) if entity.symbol == -1 else None
        rules = rules_of(file.facts.language) if file is not None else None
        if file is not None:
            local = file.facts.exports.get(name, name)
            hides = rules is not None and rules.hides_unexported and bool(file.facts.package)
            if self._recorder is not None:
                self._recorder.asked.add(Recorder.name[local])
            own = tuple(
                Entity(file.path, index)
                for index in file.outer.get(local, ())
                if not hides or file.definitions[index].is_exported
            )
            is_whole = rules is None or not rules.separates_fields
            if own and is_whole:
                return Outcome(own)
            star = brought = UNKNOWN
            for index, one in enumerate(file.facts.imports):
                if one.local == local and one.is_outer:
                    brought = self._imported(file, index)
                    if is_whole:
                        return brought
                    own += brought.found
            if own or brought.is_external:
                return Outcome(tuple(dict.fromkeys(own)), is_external=not own)
            for index, one in enumerate(file.facts.imports):
                if one.name == "*" and not one.local and one.is_outer and not star.found:
                    star = self._first_member(self._giving(self._imported(file, index), name, rules), name)
            if star.found:
                return star
            if hides and local in file.outer:
                return Outcome(tuple(Entity(file.path, index) for index in file.outer[local]), is_proven=False)
        below = self._submodule(entity, name, rules)
        return below if below.found else UNKNOWN

    def _giving(self, modules: Outcome, name: str, rules: Rules | None) -> Outcome:
        """Return those of ``modules`` of which a star import takes ``name``."""
        takes = rules.takes_star if rules is not None else None
        if takes is None:
            return modules
        found = [(one, self.sources.file(one.path) if one.symbol == -1 else None) for one in modules.found]
        return modules._replace(found=tuple(one for one, file in found if file is None or takes(file, name)))

    def _submodule(self, entity: Entity, name: str, rules: Rules | None) -> Outcome:
        if rules is not None:
            return rules.submodule(self, entity, name) if rules.submodule is not None else UNKNOWN
        rows = [row_of(path) for path in self.sources.in_folder(entity.path)]
        for language in dict.fromkeys(row.name for row in rows if row is not None) or ("python",):
            below = self._submodule(entity, name, rules_of(language))
            if below.found:
                return below
        return UNKNOWN

    def _imported(self, file: KnownFile, index: int) -> Outcome:
        one: Import = file.facts.imports[index]
        rules = rules_of(file.facts.language)
        if rules.tries_imports and one.local and one.is_outer:
            return self._memo.answer((file.path, index), self._tried, file, one)
        return self._memo.answer((file.path, index), rules.imported, self, file, one)

    def _tried(self, file: KnownFile, one: Import) -> Outcome:
        """Return what ``one`` brings, with what other imports of the file bind to the same name."""
        rules = rules_of(file.facts.language)
        outcome = rules.imported(self, file, one)
        found = list(outcome.found)
        for other in file.facts.imports:
            if other.local == one.local and other.is_outer and (other.module, other.name) != (one.module, one.name):
                found += rules.imported(self, file, other).found
        every = tuple(dict.fromkeys(found))
        return Outcome(every, is_proven=False) if every != outcome.found else outcome

    def imported(self, file: KnownFile, index: int) -> Outcome:
        """Return what the import ``index`` of ``file`` brings."""
        return self._imported(file, index)

    def module(self, file: KnownFile, index: int) -> Outcome:
        """Return the file or folder that the import ``index`` of ``file`` takes its names from."""
        one = file.facts.imports[index]
        if not one.name:
            return self._imported(file, index)
        whole = msgspec.structs.replace(one, name="", local="", line=0)
        return self._memo.answer((file.path, whole), rules_of(file.facts.language).imported, self, file, whole)

    # -- classes -------------------------------------------------------------------------------------------------------

    def _in_class(self, file: KnownFile, index: int, name: str) -> Outcome:
        """Return the member ``name`` of a class, its own or that of a base (breadth first)."""
        waiting = self._parts(file, index)
        seen: set[tuple[str, int]] = set()
        is_proven, is_external = True, False
        while waiting and len(seen) < _BASES_MAX:
            file, index = waiting.pop(0)
            if (file.path, index) in seen:
                continue
            seen.add((file.path, index))
            self._note_name(file, index)
            own = self._own_member(file, index, name)
            if len(seen) > 1 and own.found and rules_of(file.facts.language).is_of_class is not None:
                own = self._mixed_in(file, index, own)
            if own.found or own.is_attribute:
                return own._replace(is_proven=own.is_proven and is_proven)
            for base in self._bases(file, index):
                outcome = self._target(file, base)
                is_proven = is_proven and outcome.is_proven
                is_external = is_external or outcome.is_external or not outcome.found
                for entity in outcome.found:
                    other = self.sources.file(entity.path)
                    if other is not None and entity.symbol >= 0:
                        waiting += self._parts(other, other.first(entity.symbol))
            if rules_of(file.facts.language).has_open_types:
                waiting += self._extending_parts(file, index)
        return EXTERNAL if is_external else UNKNOWN

    def _mixed_in(self, file: KnownFile, index: int, own: Outcome) -> Outcome:
        """Return the members that a class has from a base: a module's own functions are not among them."""
        if file.definitions[index].kind != "module":
            return own
        found = tuple(
            one
            for one in own.found
            if (other := self.sources.file(one.path)) is not None and other.definitions[one.symbol].kind != "function"
        )
        return own._replace(found=found)

    def _extending_parts(self, file: KnownFile, index: int) -> list[tuple[KnownFile, int]]:
        """Return the parts of a type in other files that name bases of it."""
        rules = rules_of(file.facts.language)
        one = file.definitions[index]
        return [
            (other, other.first(at))
            for path, at in self.sources.defining(one.name)
            if path != file.path
            and (other := self.sources.file(path)) is not None
            and at in other.facts.bases
            and other.definitions[at].qualified == one.qualified
            and (rules.is_same_type is None or rules.is_same_type(file, other))
        ]

    def _bases(self, file: KnownFile, index: int) -> list[Target]:
        """Return the bases of a class, those that its parts name included."""
        bases = file.facts.bases
        return [base for part in _equals(file, index) for base in bases.get(part, ())]

    def _own_member(self, file: KnownFile, index: int, name: str) -> Outcome:
        found = file.members.get((index, name))
        if found:
            return Outcome(tuple(Entity(file.path, one) for one in found))
        is_attribute = False
        for attribute in file.facts.attributes if name in file.attributes else ():
            if attribute.name == name and file.first(attribute.owner) == index:
                outcome = self._target(file, attribute.target)
                is_attribute = is_attribute or attribute.target.root == "?"
                if outcome.found:
                    return outcome._replace(is_proven=False)
        if is_attribute:
            return _ATTRIBUTE
        rules = rules_of(file.facts.language)
        if not rules.has_open_types:
            return UNKNOWN
        wanted = f"{file.definitions[index].qualified}.{name}"
        parts = [
            Entity(path, at)
            for path, at in self.sources.defining(name)
            if (other := self.sources.file(path)) is not None
            and other.definitions[at].qualified == wanted
            and (rules.is_same_type is None or rules.is_same_type(file, other))
            and (rules.has_part is None or rules.has_part(self, Entity(file.path, index), other))
        ]
        return Outcome(tuple(parts)) if parts else UNKNOWN

    def _inherited(self, file: KnownFile, index: int, steps: Sequence[str]) -> Outcome:
        """Follow ``steps`` from the bases of a class."""
        found: list[Entity] = []
        is_proven, is_external = True, False
        for part, number in self._parts(file, file.first(index)) if index >= 0 else ():
            for base in self._bases(part, number):
                outcome = self._target(part, base)
                is_proven = is_proven and outcome.is_proven
                is_external = is_external or outcome.is_external
                found += (one._replace(is_instance=True) for one in outcome.found)
        for one in found:
            outcome = self._steps(Outcome((one,), is_proven), steps, is_own=True)
            if outcome.found:
                return outcome
        return EXTERNAL if is_external or not found else UNKNOWN

    def _implicit(
        self, file: KnownFile, rules: Rules, index: int, steps: Sequence[str]
    ) -> tuple[Outcome, Sequence[str]]:
        """Return what the first step means as a member of the class around, of the classes around that, or as a free name."""
        if rules.has_member_scopes:
            return self._hiding(file, rules, index, steps)
        is_external = False
        for entity in self._around(file, index):
            outcome = self.member(entity, steps[0])
            if outcome.found:
                is_class_name = all(self._kind(one) == "constructor" for one in outcome.found)
                return outcome._replace(
                    found=(entity._replace(is_instance=False),)
                ) if is_class_name else outcome, steps[1:]
            is_external = is_external or outcome.is_external
        free = rules.free(self, file, steps[0])
        if free.found or not is_external:
            return free, steps[1:]
        return EXTERNAL, ()

    def _instance(self, file: KnownFile, index: int) -> Outcome:
        """Return the instance in whose code a target stands: of the class ``index``, or of that whose member ``index`` is outside of it."""
        one = file.definitions[index]
        if one.kind in TYPES:
            return Outcome((Entity(file.path, file.first(index), is_instance=True),))
        outer = one.qualified.split(".")[:-1]
        if one.parent >= 0 and file.definitions[one.parent].qualified == ".".join(outer):
            return self._instance(file, one.parent)
        if not outer:
            return UNKNOWN
        around = file.definitions[one.parent].qualified.split(".") if one.parent >= 0 else []
        written = outer[len(around) :]
        first = Target("m", one.parent, tuple(written)) if around else Target("f", written[0], tuple(written[1:]))
        found = self._target(file, first)
        return found._replace(found=tuple(entity._replace(is_instance=True) for entity in found.found))

    def _around(self, file: KnownFile, index: int) -> Iterator[Entity]:
        """Iterate over the classes and namespaces around the code of the class or member ``index``, from the inside out."""
        seen: set[Entity] = set()
        for entity in self._instance(file, index).found if index >= 0 else ():
            other = self.sources.file(entity.path)
            at = entity.symbol
            while other is not None and at >= 0:
                found = Entity(entity.path, other.first(at), is_instance=True)
                if found not in seen:
                    seen.add(found)
                    yield found
                at = other.definitions[at].parent
        outer = file.definitions[index].qualified.split(".")[:-1] if index >= 0 else []
        while outer:
            for at in file.qualified.get(".".join(outer), ())[:1]:
                found = Entity(file.path, at, is_instance=True)
                if found not in seen and file.definitions[at].kind in TYPES:
                    yield found
            outer.pop()

    def _kind(self, entity: Entity) -> str:
        file = self.sources.file(entity.path)
        return file.definitions[entity.symbol].kind if file is not None and entity.symbol >= 0 else ""

    # -- by name alone -------------------------------------------------------------------------------------------------

    def _by_name(self, file: KnownFile, target: Target) -> Resolution:
        """Return the definitions of that name and shape: likely where there is one, else named."""
        name = file.facts.final_name(target)
        rules = rules_of(file.facts.language)
        if not name or (target.root == "i" and not target.steps) or (rules.instantiator and name == rules.constructor):
            return Resolution()
        if self._recorder is not None:
            self._recorder.asked.add(Recorder.defining[name])
        shape = Shape(
            target.steps not in BARE_STEPS and target.root != "m", target.root == "f", target.steps[-1:] == (CALLED,)
        )
        if rules.sees is not None:
            return self._candidates(name, rules, shape, file)
        key = (name, file.facts.language, shape)
        known = self._names.get(key)
        if known is None:
            if len(self._names) >= _NAMES_KEPT_MAX:
                self._names.clear()
            known = self._names[key] = self._candidates(name, rules, shape, None)
        return known

    def _candidates(self, name: str, rules: Rules, shape: Shape, seer: KnownFile | None) -> Resolution:
        """Return the definitions of ``name``, of which only the name agrees. What ``seer`` may see of them depends on their files."""
        sources = self._plain if seer is None else self.sources
        found: list[Entity] = []
        qualified: set[tuple[str, str]] = set()
        for path, index in self._plain.defining(name):
            other = sources.file(path)
            if other is None or rules_of(other.facts.language).family != rules.family:
                continue
            one = other.definitions[index]
            if not has_shape(other, one, name, shape, rules):
                continue
            if rules.sees is not None and seer is not None and not rules.sees(seer, other, one):
                continue
            found.append(Entity(path, index))
            qualified.add((path, one.qualified))
            if len(found) >= CANDIDATES_MAX:
                break
        if not found:
            return Resolution()
        is_likely = len(qualified) == 1 and shape.is_member and name not in rules.common_members
        return Resolution(tuple(found), "likely" if is_likely else "named")


_ATTRIBUTE: Final = Outcome(is_proven=False, is_attribute=True)


def _named(file: KnownFile, index: int) -> list[int]:
    """Return what the name of the definition ``index`` stands for: all with its qualified name but extensions of it."""
    found = _equals(file, index)
    return [one for one in found if file.definitions[one].kind != "extension"] or found if len(found) > 1 else found


def _equals(file: KnownFile, index: int) -> list[int]:
    """Return all definitions with the qualified name of ``index``."""
    return file.qualified[file.definitions[index].qualified] if 0 <= index < len(file.definitions) else []
