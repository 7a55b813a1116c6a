"""Questions of the resolver to a language: the meaning of an import, and of a name that nothing in the file binds."""

from __future__ import annotations

__all__ = ["EXTERNAL", "UNKNOWN", "Entity", "Lookup", "Outcome", "Rules"]

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from periplus.code.model import Definition, Import
from periplus.code.resolution.sources import KnownFile, Sources

_Value = TypeVar("_Value")


class Entity(NamedTuple):
    """Meaning of a target: the definition ``symbol`` of a file, the file itself (-1), or a folder of files (-2). ``is_instance``
    where it is a value whose class is the definition.
    """

    path: str
    symbol: int
    is_instance: bool = False


class Outcome(NamedTuple):
    """``found`` is everything that a name may stand for at once (overloads); ``is_proven`` where scope and imports leave nothing else;
    ``is_external`` where it comes from outside of the project. ``lists``: it is a list of that (a list of lists from 2 on). ``is_attribute``:
    it is a value that code puts into an instance, for which there is no definition.
    """

    found: tuple[Entity, ...] = ()
    is_proven: bool = True
    is_external: bool = False
    lists: int = 0
    is_attribute: bool = False


UNKNOWN: Final = Outcome((), is_proven=False)
EXTERNAL: Final = Outcome((), is_external=True)


class Lookup(Protocol):
    """The part of the resolver that rules call. They keep nothing of their own: an answer lives as long as the view that it is about."""

    sources: Sources

    def derived(self, kind: object, compute: Callable[[Sources], _Value]) -> _Value:
        """Return what ``compute`` makes of the sources, such as settings of the project; it is worked out once for each ``kind``."""

    def member(self, entity: Entity, name: str) -> Outcome:
        """Return what ``name`` means in a file, a folder or a class."""

    def imported(self, file: KnownFile, index: int) -> Outcome:
        """Return what the import ``index`` of ``file`` brings."""


class Rules(NamedTuple):
    """One language, for the resolver.

    ``imported`` resolves an import of a file; ``free`` a name that nothing in the file binds; ``submodule`` a name in a file or folder
    that is itself a file or folder. ``has_open_types``: members of a type may stand in other files, under its qualified name; then
    ``is_same_type`` tells whether two files can hold parts of one type. ``has_part`` likewise for a type and a file. ``common_members`` are names of methods of the language's own
    types: one definition of such a name in the project is no ground to take it for the target. ``family`` groups languages whose code
    refers to each other. With ``hides_unexported`` others see what a file exports. ``instantiator`` is the method of a class that makes an
    instance of it, in a language where reading a member is a call; ``is_of_class`` then tells the members of a class from those of its
    instances. ``separates_fields``: a member that is called is no field, one of a value that is not called no method. ``sees`` tells
    whether code of a file can name a definition of another at all. ``joined`` adds to what was found that which is the same thing elsewhere, such as the
    definition of what a header declares. ``takes_star`` tells whether a star import takes a name of a file; with ``tries_imports`` a
    file may import one name from several places, one after the other. ``list_methods`` are methods of the language's own lists that
    return what is in them: one of it (True), or a list (False); ``element_methods`` those of a class that return its elements, or an
    iterator over them; ``entering`` is the one that a ``with`` statement calls.

    ``has_member_scopes``: an inherited member hides what stands outside of the class. ``dotted`` resolves a free name with the steps after it
    that begins with a package or namespace, and returns the steps that are left. ``has_called_names``: what is called is none of the
    values of that name, and what is not called none of the methods. ``extension`` finds a member that a file adds to a type, whatever
    the type is. Calls of ``same_values`` give the value that they are called on. ``has_receivers``: members of the type that a function
    extends need no ``this`` in it. ``has_partial_types``: parts of a type stand in several files, if `is_same_type` allows it.
    """

    family: str
    imported: Callable[[Lookup, KnownFile, Import], Outcome]
    free: Callable[[Lookup, KnownFile, str], Outcome]
    submodule: Callable[[Lookup, Entity, str], Outcome] | None = None
    has_open_types: bool = False
    is_same_type: Callable[[KnownFile, KnownFile], bool] | None = None
    common_members: frozenset[str] = frozenset()
    constructor: str = ""
    instantiator: str = ""
    is_of_class: Callable[[Definition], bool] | None = None
    separates_fields: bool = False
    has_part: Callable[[Lookup, Entity, KnownFile], bool] | None = None
    hides_unexported: bool = False
    sees: Callable[[KnownFile, KnownFile, Definition], bool] | None = None
    joined: Callable[[Lookup, tuple[Entity, ...]], Outcome] | None = None
    takes_star: Callable[[KnownFile, str], bool] | None = None
    tries_imports: bool = False
    list_methods: Mapping[str, bool] = {}
    element_methods: tuple[str, ...] = ()
    entering: str = ""
    has_member_scopes: bool = False
    dotted: Callable[[Lookup, KnownFile, str, Sequence[str]], tuple[Outcome, Sequence[str]]] | None = None
    has_called_names: bool = False
    has_receivers: bool = False
    has_partial_types: bool = False
    same_values: frozenset[str] = frozenset()
    extension: Callable[[Lookup, KnownFile, str], Outcome] | None = None
