"""The shape of a reference of which only the name is known, and the definitions that it may stand for. Pure."""

from __future__ import annotations

__all__ = ["Shape", "has_shape"]

from typing import Final, NamedTuple

from periplus.code.model import Definition
from periplus.code.resolution.member_scopes import CALLABLE, CALLED_KINDS, TYPES
from periplus.code.resolution.rules.table import Rules
from periplus.code.resolution.sources import KnownFile

_MEMBERS: Final = frozenset({"field", "method", "property", "constructor"})
_UNCALLED: Final = frozenset({"test", "route"})


class Shape(NamedTuple):
    """A reference by its form: to a member, to a name that nothing in the file binds, to what is called."""

    is_member: bool
    is_free: bool
    is_called: bool


def has_shape(file: KnownFile, one: Definition, name: str, shape: Shape, rules: Rules) -> bool:
    """Return True where a reference of ``shape`` to ``name`` may stand for ``one``, a definition of ``file``."""
    around = file.definitions[one.parent].kind if one.parent >= 0 else ""
    if one.kind in _UNCALLED:
        return False
    if shape.is_member:
        if (one.kind == "function" and around in CALLABLE) or around == "test":  # local to a function
            return False
        if not around and one.qualified == name and one.kind in CALLABLE | TYPES | {"value"}:
            return False
    elif shape.is_free and around and (one.kind in _MEMBERS or around in CALLABLE):
        return False
    if rules.separates_fields and shape.is_called and one.kind not in CALLABLE | TYPES:
        return False
    if not rules.has_called_names:
        return True
    return one.kind in CALLED_KINDS if shape.is_called else one.kind not in CALLABLE
