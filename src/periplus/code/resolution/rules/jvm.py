"""Names of packages, which Java and Kotlin share: a package holds types, and with Kotlin functions and properties.

The package of a file is what it declares, wherever the file stands. Where several files of a package define one name (modules that are
built apart, tests beside sources), the nearest file is taken, and that is likely and not proven.
Source: The Java Language Specification, chapters 6 and 7, https://docs.oracle.com/javase/specs/jls/se21/html/
"""

from __future__ import annotations

__all__ = ["LANGUAGES", "TYPES", "is_type_name", "member_of", "package_member", "qualified"]

from collections.abc import Sequence
from typing import Final

from periplus.code.resolution.rules.table import UNKNOWN, Entity, Lookup, Outcome
from periplus.code.resolution.sources import KnownFile

LANGUAGES: Final = frozenset({"java", "kotlin"})
TYPES: Final = frozenset({"class", "interface", "enum", "record", "annotation", "object", "type"})
_PARTS_MAX: Final = 12
_OVERLOADS_MAX: Final = 20


def is_type_name(name: str) -> bool:
    """Return True for a name that by convention is that of a type: neither a constant nor a variable."""
    return name[:1].isupper() and (len(name) == 1 or not name.isupper())


def package_member(lookup: Lookup, file: KnownFile, package: str, name: str, *, only_types: bool) -> Outcome:
    """Return the definition ``name`` of ``package``, outside of all types, as ``file`` sees it."""
    found: dict[str, list[Entity]] = {}
    for path, index in lookup.sources.in_package(package, name):
        other = lookup.sources.file(path)
        if other is None or other.facts.language not in LANGUAGES:
            continue
        one = other.definitions[index]
        if _is_outer(other, index) and (one.kind in TYPES or not only_types):
            found.setdefault(path, []).append(Entity(path, index))
    if not found:
        return _file_class(lookup, package, name)
    if len(found) == 1:
        return Outcome(tuple(*found.values()))
    if file.path in found and only_types:
        return Outcome(tuple(found[file.path]))
    everything = [one for all_of_file in found.values() for one in all_of_file]
    if not only_types and any(
        _kind(lookup, one) == "function" for one in everything
    ):  # overloads may stand in several files
        return Outcome(tuple(everything[:_OVERLOADS_MAX]), is_proven=False)
    near = {path: _shared(file.path, path) for path in found}
    most = max(near.values())
    return Outcome(tuple(one for path in found if near[path] == most for one in found[path]), is_proven=False)


def _kind(lookup: Lookup, entity: Entity) -> str:
    file = lookup.sources.file(entity.path)
    return file.definitions[entity.symbol].kind if file is not None else ""


def _is_outer(file: KnownFile, index: int) -> bool:
    """Return True outside of all types; an extension stands there although its name begins with that of a type."""
    one = file.definitions[index]
    return (
        one.parent < 0
        or one.start_byte >= file.definitions[one.parent].end_byte
        or (one.end_byte <= file.definitions[one.parent].start_byte)
    )


def _shared(path: str, other: str) -> int:
    """Return how many folders two paths have in common from their beginning."""
    ours, theirs = path.split("/")[:-1], other.split("/")[:-1]
    return next((at for at, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), len(ours))


def _file_class(lookup: Lookup, package: str, name: str) -> Outcome:
    """Return the file whose functions Java finds in the class ``name``: ``UtilKt`` for ``util.kt`` and ``Util.kt``."""
    if not name.endswith("Kt") or len(name) < 3:
        return UNKNOWN
    base = name.removesuffix("Kt")
    found = [
        Entity(path, -1)
        for said in dict.fromkeys((base, base[:1].lower() + base[1:]))
        for path in lookup.sources.with_name(f"{said}.kt")
        if (other := lookup.sources.file(path)) is not None and other.facts.package == package
    ]
    return Outcome(tuple(found), is_proven=len(found) == 1) if found else UNKNOWN


def qualified(
    lookup: Lookup, file: KnownFile, parts: Sequence[str], *, only_types: bool, shortest: int = 1
) -> tuple[Outcome, int]:
    """Return what a full name such as ``a.b.Outer.Inner`` means, and how many of ``parts`` lead to its outermost definition."""
    for size in range(min(len(parts), _PARTS_MAX) - 1, shortest - 1, -1):
        found = package_member(lookup, file, ".".join(parts[:size]), parts[size], only_types=only_types)
        if not found.found:
            continue
        return found, size + 1
    return UNKNOWN, 0


def member_of(lookup: Lookup, found: Outcome, names: Sequence[str]) -> Outcome:
    """Follow ``names`` from the first definition found."""
    for name in names:
        if not found.found:
            return UNKNOWN
        inner = lookup.member(found.found[0], name)
        found = inner._replace(is_proven=inner.is_proven and found.is_proven)
    return found
