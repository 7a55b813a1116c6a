"""Scopes of names in one file, and the lookup of names in them. Pure."""

from __future__ import annotations

__all__ = ["Chain", "Found", "Names", "Scope", "Unbound", "as_target", "dotted"]

from collections.abc import Sequence
from typing import ClassVar, Final, Literal, TypeAlias

from periplus.base.named_tuple import NamedTuple
from periplus.code.languages.table import Language
from periplus.code.model import BARE_STEPS, CALL, CALLED, MARKS, Import, Target

_REPLACEMENTS_MAX: Final = 8
_STEPS_MAX: Final = 12
_BRANCHES_MAX: Final = 4

ChainRoot: TypeAlias = Literal["", "p", "c", "y", "s", "i", "f", "t", "u", "m", "?", "l", "n"]
Root: TypeAlias = Literal["s", "i", "f", "t", "u", "m", "?", "l"]
Found: TypeAlias = "tuple[Root, int | str, tuple[str, ...]]"


class Chain(NamedTuple):
    """An expression as it is written: a root and steps. The root is a name, or what ``root_kind`` says: the roots of `code.model`, ``l``
    for a value of the language itself, ``p`` for a name that is no local variable's, ``n`` for none, ``c`` for a name that is called
    where methods have names of their own, ``y`` for a name in the place of a type where types do not share the names of values.
    """

    root: int | str
    steps: tuple[str, ...]
    root_kind: ChainRoot = ""

    def then(self, steps: tuple[str, ...]) -> Chain:
        return Chain(self.root, (*self.steps, *steps), self.root_kind)

    def renamed(self, name: str, other: str) -> Chain:
        """Return the expression with ``other`` instead of its last name ``name``."""
        if self.steps:
            return Chain(self.root, (*self.steps[:-1], other), self.root_kind)
        return Chain(other, (), self.root_kind) if self.root == name else self


def as_target(found: Found) -> Target:
    """Return ``found``, which is no value of the language itself, as facts keep it."""
    root, value, steps = found
    assert root != "l"
    return Target(root, value, steps)


def dotted(name: str) -> Chain:
    """Return the expression ``a.b`` written as text."""
    first, *rest = name.split(".")
    return Chain(first, tuple(rest))


_NULL: Final = Chain("", (), "n")


class Scope:
    """One scope: what its names stand for. ``owner`` is the index of the definition around, ``instance`` what ``this`` stands for.

    A name stands for the index of a definition, for an import (``~index``, below 0), for the expression of a local variable's value
    (None: unknown). Definitions and imports win over local values; a second, different value makes a local variable unknown.
    One that ``narrows`` another only knows more of the class of a name within a branch: what is bound there is bound in that one.
    ``targets`` keeps the numbers of what was looked up, below 0 for no target.
    With ``hides_class`` the names of the class around are not seen: it is the scope of a function itself. ``is_implicit``: members of the
    owner, or of the type that it extends, need no ``this``.
    """

    __slots__ = ("depth", "has_bases", "hides_class", "instance", "is_block", "is_class", "is_function", "is_implicit", "is_signature",
                 "names", "narrows", "outer", "owner", "prefix", "renewals", "returns", "targets", "unbound")  # fmt: skip
    kind_id: ClassVar = -1  # on the stack of a walk it stands among nodes

    def __init__(self, outer: Scope | None, *, is_function: bool = False, prefix: str = "") -> None:
        self.outer = outer
        self.names: dict[str, int | Chain | None] = {}
        self.targets: dict[str | Chain, int] = {}
        self.unbound: set[str] = set()
        self.is_class = self.has_bases = self.is_implicit = self.is_block = self.is_signature = False
        self.returns: Chain | None = None
        self.hides_class = is_function
        self.narrows: Scope | None = None
        if outer is None:
            self.depth = 0
            self.owner = -1
            self.instance: Chain | None = None
            self.is_function = False
            self.prefix = ""
            self.renewals = 0
        else:
            self.depth = outer.depth + 1 if prefix else outer.depth
            self.owner = outer.owner
            self.instance = outer.instance
            self.is_function = is_function or outer.is_function
            self.prefix = prefix or outer.prefix
            self.renewals = outer.renewals  # scopes around that only let a name mean something else from here on

    def narrowed(self, name: str, value: Chain) -> Scope:
        """Return a scope in which ``name`` stands for ``value``, and everything else for what it stands for here."""
        inner = Scope(self)
        inner.names[name] = value
        inner.narrows = self.narrows or self
        inner.is_class = self.is_class
        return inner

    def bind_symbol(self, name: str, index: int) -> None:
        if self.narrows is not None:
            self.narrows.bind_symbol(name, index)
            return
        if not isinstance(self.names.get(name), int):
            self.names[name] = index

    def bind_import(self, name: str, index: int) -> None:
        if self.narrows is not None:
            self.narrows.bind_import(name, index)
            return
        if not isinstance(self.names.get(name), int):
            self.names[name] = ~index

    def bind_local(self, name: str, value: Chain | None) -> None:
        if self.narrows is not None:
            if name in self.names:
                self.names[name] = None
            self.narrows.bind_local(name, value)
            return
        if name in self.unbound:
            return
        known = self.names.get(name, _NULL)
        if known == _NULL:
            self.names[name] = value
        elif not isinstance(known, int) and value not in (known, _NULL):
            self.names[name] = None

    def class_scope(self) -> Scope | None:
        """Return the scope of the innermost class around."""
        scope: Scope | None = self
        while scope is not None and not scope.is_class:
            scope = scope.outer
        return scope

    def is_outer_name(self, name: str) -> bool:
        """Return True where a function around says that ``name`` is not its own, or there is no function around."""
        scope: Scope | None = self
        while scope is not None and scope.is_function:
            if name in scope.unbound:
                return True
            scope = scope.outer
        return scope is self

    def class_owner(self) -> int:
        """Return the index of the innermost class around, -1 for none."""
        scope: Scope | None = self
        while scope is not None:
            if scope.is_class:
                instance = scope.instance
                return (
                    scope.owner
                    if instance is not None and instance.root_kind == "t" and isinstance(instance.root, int)
                    else -1
                )
            scope = scope.outer
        return -1

    def lookup(self, name: str, *, with_classes: bool) -> int | Chain | None | Unbound:
        """Return what ``name`` stands for here; UNBOUND where no scope binds it. Names of a class are seen from its own body only, in
        its functions too ``with_classes``.
        """
        scope: Scope | None = self
        sees_class = True
        while scope is not None:
            if (sees_class or with_classes or not scope.is_class) and name in scope.names and name not in scope.unbound:
                return scope.names[name]
            sees_class = sees_class and not scope.hides_class and not scope.is_class
            scope = scope.outer
        return UNBOUND

    def find(self, name: str) -> tuple[int | Chain | None | Unbound, Scope | None, Scope | None]:
        """Return what ``name`` stands for, the scope that binds it, and the innermost class with bases that is inside of that scope."""
        scope: Scope | None = self
        passed: Scope | None = None
        while scope is not None:
            if name in scope.names and name not in scope.unbound:
                return scope.names[name], scope, passed
            if scope.has_bases and passed is None:
                passed = scope
            scope = scope.outer
        return UNBOUND, None, passed


class Unbound:
    """The answer for a name that no scope binds."""


UNBOUND: Final = Unbound()
_NOWHERE: Final = Scope(None)


class Names:
    """Looks names up and follows local variables to what their values name."""

    def __init__(self, row: Language, imports: Sequence[Import]) -> None:
        self._row = row
        self._imports = imports
        self.targets: dict[Found, int] = {}
        self._is_simple = row.has_bare_members and not (
            row.has_implicit_this or row.hides_globals or row.has_member_scopes
        )
        self._with_classes = row.has_implicit_this or not row.has_bare_members

    def number(self, scope: Scope, chain: Chain | str) -> int:
        """Return the number of the target of a reference, which may be a bare name; below 0 for none. The scope keeps the answer."""
        if isinstance(chain, Chain):
            found = self._target(scope, chain)
        elif self._is_simple:
            found = self._bare(scope, chain)
        else:
            found = self._target(scope, Chain(chain, ()))
        number = -1 if found is None else self.targets.setdefault(found, len(self.targets))
        scope.targets[chain] = number
        return number

    def _bare(self, scope: Scope, name: str) -> Found | None:
        """Return the target of a bare name, in a language whose names mean what the scopes say."""
        found = scope.lookup(name, with_classes=False)
        if isinstance(found, int):
            return ("s", found, ()) if found >= 0 else ("i", ~found, ())
        return ("f", name, ()) if found is UNBOUND and name not in self._row.builtins else None

    def _target(self, scope: Scope, chain: Chain) -> Found | None:
        """Return the target of a reference; None for a local name and for what is the language's own."""
        found = self._follow(scope, chain, _REPLACEMENTS_MAX)
        if found is not None and found[0] == "l":
            is_extended = self._row.has_extensions and chain.steps not in BARE_STEPS
            found = ("?", "", chain.steps) if is_extended else None
        elif found is None and chain.steps:
            last = next((step for step in reversed(chain.steps) if step not in MARKS), "")
            is_called = bool(self._row.called_names) and chain.steps[-1] == CALLED
            found = ("?", "", (last, CALLED) if is_called else (last,)) if last else None
        return found

    def value(self, scope: Scope, chain: Chain) -> Found | None:
        """Return the target of a value or a type; None where it is not known."""
        found = self._follow(scope, chain, _REPLACEMENTS_MAX, is_value=True)
        return found if found is not None and found[0] not in ("l", "?") else None

    def _follow(self, scope: Scope, chain: Chain, left: int, *, is_value: bool = False) -> Found | None:
        """Replace local names by their values until the root is a definition, an import or a free name. None for an unknown value and,
        but where its value is wanted, for a local variable alone.
        """
        if chain.root_kind == "?":
            return ("?", "", chain.steps)
        if chain.root_kind == "n":
            return None
        if self._row.has_member_scopes and chain.root_kind in ("", "c", "y"):
            return self._follow_bare(scope, chain, left, is_value=is_value)
        if chain.root_kind == "f" and chain.root in self._row.builtins:
            return ("l", "", ())
        if chain.root_kind == "t" and isinstance(chain.root, str):
            return self._instance_of(scope, chain.root, chain.steps, left)
        if chain.root_kind and chain.root_kind != "p" and chain.root_kind != "c" and chain.root_kind != "y":  # noqa: PLR1714 - narrows
            return (chain.root_kind, chain.root, chain.steps)
        name = str(chain.root)
        found = scope.lookup(name, with_classes=self._with_classes)
        while chain.root_kind == "p" and _is_variable(name, found):
            outer = _binder(scope, name, with_classes=self._with_classes, is_same=True)
            scope = outer.outer if outer is not None and outer.outer is not None else _NOWHERE
            found = scope.lookup(name, with_classes=self._with_classes)
        if self._row.hides_globals and isinstance(found, (int, Unbound)) and name.startswith(self._row.sigil):
            found = found if scope.is_outer_name(name) else None
        if isinstance(found, Unbound):
            if name in self._row.builtins:
                return ("l", "", ())
            owner = scope.class_owner() if self._row.has_implicit_this else -1
            if owner >= 0 and scope.instance is not None and scope.instance.root_kind == "s" and not name[:1].isupper():
                return ("s", owner, (name, *chain.steps))
            return ("m", owner, (name, *chain.steps)) if owner >= 0 else ("f", name, chain.steps)
        if isinstance(found, int):
            return ("s", found, chain.steps) if found >= 0 else ("i", ~found, chain.steps)
        if found is None or left == 0 or len(found.steps) + len(chain.steps) > _STEPS_MAX:
            return None
        if not is_value and (not chain.steps or chain.steps in BARE_STEPS):
            return None
        return self._follow(
            _binder(scope, name, with_classes=self._with_classes) or scope,
            found.then(chain.steps),
            left - 1,
            is_value=is_value,
        )

    def _follow_bare(self, scope: Scope, chain: Chain, left: int, *, is_value: bool) -> Found | None:
        """Do as `_follow` where members of classes are in scope: an inherited member hides what stands outside of the class."""
        name, steps = str(chain.root), chain.steps
        if chain.root_kind == "y":
            return self._follow_type(scope, name, steps, left, is_value=is_value)
        found, at, passed = scope.find(f"{name}()" if chain.root_kind else name)
        if at is None and chain.root_kind:
            found, at, passed = scope.find(name)
            is_other = isinstance(found, int) and (found < 0 or name[:1].isupper())
            if not is_other and not self._row.has_called_values:
                found, at = UNBOUND, None
        if isinstance(found, Unbound) or at is None:
            return self._follow_unbound(scope, name, steps, left, is_value=is_value)
        if isinstance(found, int):
            if passed is not None and (at.is_class or (at.outer is None and not name[:1].isupper())):
                if passed.is_implicit:
                    return ("m", passed.owner, (name, *steps))
                if at.is_class and at.class_owner() >= 0 and not name[:1].isupper():
                    return ("s", at.owner, (CALL, name, *steps))
            return ("s", found, steps) if found >= 0 else ("i", ~found, steps)
        if (
            found is None
            or left == 0
            or len(found.steps) + len(steps) > _STEPS_MAX
            or (not is_value and steps in BARE_STEPS)
        ):
            return None
        outer = at.outer if found.root == name and found.root_kind in ("", "c") else at
        return self._follow(outer or at, found.then(steps), left - 1, is_value=is_value)

    def _follow_type(
        self, scope: Scope, name: str, steps: tuple[str, ...], left: int, *, is_value: bool
    ) -> Found | None:
        found, _, _ = scope.find(f"{name}:")
        if isinstance(found, int):
            return ("s", found, steps)
        found, at, _ = scope.find(name)
        if isinstance(found, int) and found < 0:
            return ("i", ~found, steps)
        if (
            isinstance(found, Chain) and found.root_kind == "y" and found.root != name and at is not None and left
        ):  # a parameter
            return self._follow(at, found.then(steps), left - 1, is_value=is_value)
        if found is None and at is not None and at.is_implicit:
            return None
        return ("l", "", ()) if name in self._row.builtins else ("f", name, steps)

    def _follow_unbound(
        self, scope: Scope, name: str, steps: tuple[str, ...], left: int, *, is_value: bool
    ) -> Found | None:
        """Return the target of a name that the file does not bind: a member of the class around, or a free name."""
        if name in self._row.builtins:
            return ("l", "", ())
        around = scope.class_scope()
        while around is not None and not around.is_implicit:  # members of a class without a name are those of its base
            if not name[:1].isupper():
                if around.instance is None or around.outer is None or left == 0:
                    return ("?", "", (name, *steps))
                return self._follow(around.outer, around.instance.then((name, *steps)), left - 1, is_value=is_value)
            around = around.outer.class_scope() if around.outer is not None else None
        return ("m", around.owner, (name, *steps)) if around is not None else ("f", name, steps)

    def _instance_of(self, scope: Scope, name: str, steps: tuple[str, ...], left: int) -> Found | None:
        """Return the target of the instance whose class is called ``name``."""
        found = scope.lookup(name, with_classes=self._with_classes)
        if isinstance(found, int):
            return ("t", found, steps) if found >= 0 else ("i", ~found, (CALL, *steps))
        if isinstance(found, Chain) and left > 0:
            if found.root_kind == "s" and not found.steps:
                return ("t", found.root, steps)
            at = _binder(scope, name, with_classes=self._with_classes) or scope
            if not found.root_kind and not found.steps:
                return self._instance_of(at, str(found.root), steps, left - 1)
            return self._follow(at, found.then((CALL, *steps)), left - 1, is_value=True)
        return ("t", name, steps) if isinstance(found, Unbound) and name not in self._row.builtins else None


def _is_variable(name: str, found: int | Chain | None | Unbound) -> bool:
    """Return True for a local value, which no path begins with; those that stand for types and modules are none."""
    if isinstance(found, (int, Unbound)):
        return False
    return not name[:1].isupper() and (found is None or found.root_kind not in ("s", "f") or bool(found.steps))


def _binder(scope: Scope, name: str, *, with_classes: bool, is_same: bool = False) -> Scope | None:
    """Return the scope that binds ``name``; but for ``is_same`` a variable whose value names itself (``x = x.y``) is looked up outside of it."""
    at: Scope | None = scope
    sees_class = True
    while at is not None:
        if (sees_class or with_classes or not at.is_class) and name in at.names and name not in at.unbound:
            value = at.names[name]
            is_outer = isinstance(value, Chain) and value.root == name and value.root_kind in ("", "p")
            return at.outer if is_outer and not is_same else at
        sees_class = sees_class and not at.hides_class and not at.is_class
        at = at.outer
    return None
