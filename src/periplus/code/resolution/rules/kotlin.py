"""Imports of Kotlin resolved to definitions: packages, aliases, star imports, top-level and extension functions, members of objects.

Packages are those that files declare, wherever they stand. What a file sees without an import: its own package, and packages of the
standard library. An extension is called like a member, but must be imported, or stand in the same package.
"""

from __future__ import annotations

__all__ = ["RULES"]

from collections.abc import Sequence
from typing import Final

from periplus.code.model import MARKS, Definition, Import
from periplus.code.resolution.rules.jvm import is_type_name, member_of, package_member, qualified
from periplus.code.resolution.rules.table import EXTERNAL, UNKNOWN, Entity, Lookup, Outcome, Rules
from periplus.code.resolution.sources import KnownFile

_COMMON: Final = frozenset(
    "equals hashCode toString compareTo class java javaClass simpleName qualifiedName length size isEmpty isNotEmpty isBlank isNullOrEmpty "
    "isNullOrBlank get set add addAll remove removeAll removeIf clear put putAll getOrPut getOrElse getOrNull getOrDefault contains "
    "containsKey containsValue containsAll keys values entries key value iterator hasNext next indices lastIndex first last firstOrNull "
    "lastOrNull single singleOrNull find filter filterNot filterNotNull filterIsInstance map mapNotNull mapIndexed flatMap flatten fold "
    "reduce forEach forEachIndexed any all none count sum sumOf max min maxOrNull minOrNull maxBy minBy sorted sortedBy sortedWith "
    "reversed distinct groupBy associate associateBy associateWith partition zip take takeWhile drop dropLast chunked windowed joinToString "
    "toList toMutableList toSet toMutableSet toMap toMutableMap toTypedArray asSequence asList plus minus times div rem inc dec not and or "
    "xor shl shr ushr inv rangeTo until downTo step to let also apply run with use takeIf takeUnless invoke component1 component2 copy "
    "substring indexOf lastIndexOf startsWith endswith endsWith replace split trim lowercase uppercase toInt toLong toDouble toFloat "
    "toByte toChar toShort toRegex matches matchEntire format append appendLine read write close flush name ordinal start stop join cancel "
    "await launch async collect emit message cause printStackTrace lock unlock withLock acquire release compareAndSet getAndSet "
    "incrementAndGet getAndIncrement update setValue getValue provideDelegate coerceAtLeast coerceAtMost coerceIn code absolute path "
    "exists delete text lines encodeToByteArray decodeToString reset build builder of".split()
)


def _imported(lookup: Lookup, file: KnownFile, one: Import) -> Outcome:
    parts = one.module.split(".") if one.module else []
    if one.name not in ("", "*"):
        parts.append(one.name)
    found, used = qualified(lookup, file, parts, only_types=False)
    if found.found:
        found = member_of(lookup, found, parts[used:])
    return found if found.found else EXTERNAL


def _free(lookup: Lookup, file: KnownFile, name: str) -> Outcome:
    """Look ``name`` up in the imports of the file, in its package, and in what it star-imports."""
    for one in file.facts.imports:
        if one.local == name:
            return _imported(lookup, file, one)
    found = package_member(lookup, file, file.facts.package, name, only_types=False)
    if found.found:
        return found
    found = _starred(lookup, file, name)
    return found if found.found or not is_type_name(name) else EXTERNAL


def _starred(lookup: Lookup, file: KnownFile, name: str) -> Outcome:
    stars: list[Outcome] = []
    for one in file.facts.imports:
        if one.name == "*":
            found = package_member(lookup, file, one.module, name, only_types=False)
            if not found.found and one.module.rpartition(".")[2][:1].isupper():
                around = _imported(lookup, file, one)
                found = lookup.member(around.found[0], name) if around.found else UNKNOWN
            if found.found and found not in stars:
                stars.append(found)
    return stars[0]._replace(is_proven=stars[0].is_proven and len(stars) == 1) if stars else UNKNOWN


def _dotted(lookup: Lookup, file: KnownFile, name: str, steps: Sequence[str]) -> tuple[Outcome, Sequence[str]]:
    """Resolve ``com.acme.Type.member``, written in full."""
    names = [name]
    for step in steps:
        if step in MARKS:
            break
        names.append(step)
    if not name[:1].islower() or len(names) < 2:
        return UNKNOWN, steps
    found, used = qualified(lookup, file, names, only_types=False)
    return (found, steps[used - 1 :]) if found.found else (UNKNOWN, steps)


def _extension(lookup: Lookup, file: KnownFile, name: str) -> Outcome:
    """Return the extensions called ``name`` that the file sees; one alone is likely, several leave it open."""
    found: list[Entity] = []
    for outcome in (
        *(_imported(lookup, file, one) for one in file.facts.imports if one.local == name),
        package_member(lookup, file, file.facts.package, name, only_types=False),
        _starred(lookup, file, name),
    ):
        found += [entity for entity in outcome.found if _is_extension(lookup, entity)]
        if found:
            break
    qualified_names = {_definition(lookup, entity).qualified for entity in found}
    return Outcome(tuple(found), is_proven=False) if len(qualified_names) == 1 else UNKNOWN


def _definition(lookup: Lookup, entity: Entity) -> Definition:
    file = lookup.sources.file(entity.path)
    assert file is not None
    return file.definitions[entity.symbol]


def _is_extension(lookup: Lookup, entity: Entity) -> bool:
    if entity.symbol < 0:
        return False
    one = _definition(lookup, entity)
    return one.kind in ("function", "property") and one.qualified != one.name


RULES: Final = Rules(
    "jvm",
    _imported,
    _free,
    common_members=_COMMON,
    dotted=_dotted,
    has_member_scopes=True,
    has_called_names=True,
    has_receivers=True,
    extension=_extension,
    same_values=frozenset({"also", "apply"}),
)
