"""Imports of Java resolved to definitions: packages, static and star imports, nested types, types of the same package.

A type that neither the file, its package nor its imports bring is one of ``java.lang`` or of a package outside of the project.
"""

from __future__ import annotations

__all__ = ["RULES"]

from collections.abc import Sequence
from typing import Final

from periplus.code.model import MARKS, Import
from periplus.code.resolution.rules.jvm import is_type_name, member_of, package_member, qualified
from periplus.code.resolution.rules.table import EXTERNAL, UNKNOWN, Lookup, Outcome, Rules
from periplus.code.resolution.sources import KnownFile

_COMMON: Final = frozenset(
    "equals hashCode toString getClass clone finalize notify notifyAll wait compareTo length charAt substring indexOf lastIndexOf "
    "startsWith endsWith contains isEmpty isBlank trim strip split replace replaceAll matches toLowerCase toUpperCase format valueOf "
    "append insert reverse setLength toCharArray getBytes concat join repeat lines chars add addAll remove removeAll retainAll removeIf "
    "clear size get set put putAll putIfAbsent getOrDefault computeIfAbsent computeIfPresent compute merge containsKey containsValue keySet "
    "values entrySet getKey getValue setValue iterator listIterator hasNext next forEach stream parallelStream filter map flatMap "
    "mapToInt mapToObj mapToLong collect reduce count sum min max sorted distinct limit skip anyMatch allMatch noneMatch findFirst "
    "findAny toList toArray toSet of copyOf asList sort first last getFirst getLast addFirst addLast removeFirst removeLast push pop peek "
    "poll offer element descendingIterator subList isPresent orElse orElseGet orElseThrow ifPresent apply accept test run call supply "
    "andThen compose identity negate start stop join interrupt isInterrupted getName setName submit execute shutdown await signal lock "
    "unlock tryLock countDown release acquire incrementAndGet getAndIncrement addAndGet compareAndSet getAndSet intValue longValue "
    "doubleValue booleanValue parseInt parseLong read write close flush available mark reset readLine println print printf getMessage "
    "getCause printStackTrace getStackTrace addSuppressed initCause name ordinal invoke getMethod getField newInstance cast isInstance "
    "getAnnotation isAnnotationPresent getParameterTypes getReturnType exists delete mkdir mkdirs getPath getParent toPath toFile "
    "resolve matcher find group end quote nextInt abs main now plus minus toMillis getTime build builder create init hash "
    "asIterator error warn info debug trace log".split()
)

_TOP_PACKAGES: Final = frozenset("java javax jakarta com org net io jdk sun kotlin android androidx".split())


def _imported(lookup: Lookup, file: KnownFile, one: Import) -> Outcome:
    parts = one.module.split(".") if one.module else []
    if one.name not in ("", "*"):
        parts.append(one.name)
    found, used = qualified(lookup, file, parts, only_types=True)
    if not found.found:
        return EXTERNAL
    found = member_of(lookup, found, parts[used:])
    return found if found.found else EXTERNAL


def _free(lookup: Lookup, file: KnownFile, name: str) -> Outcome:
    """Look ``name`` up in the imports of the file, in its package, and in what it star-imports."""
    for one in file.facts.imports:
        if one.local == name:
            return _imported(lookup, file, one)
    found = package_member(lookup, file, file.facts.package, name, only_types=True)
    if found.found:
        return found
    stars: list[Outcome] = []
    for one in file.facts.imports:
        if one.name == "*":
            found = package_member(lookup, file, one.module, name, only_types=True)
            if not found.found:
                around = _imported(lookup, file, one)
                found = lookup.member(around.found[0], name) if around.found else UNKNOWN
            if found.found and found not in stars:
                stars.append(found)
    if stars:
        return stars[0]._replace(is_proven=stars[0].is_proven and len(stars) == 1)
    return EXTERNAL if is_type_name(name) or name in _TOP_PACKAGES else UNKNOWN


def _dotted(lookup: Lookup, file: KnownFile, name: str, steps: Sequence[str]) -> tuple[Outcome, Sequence[str]]:
    """Resolve ``com.acme.Type.member``, written in full."""
    if not name[:1].islower():
        return UNKNOWN, steps
    names = [name]
    for step in steps:
        if step in MARKS:
            break
        names.append(step)
    found, used = qualified(lookup, file, names, only_types=True)
    if found.found:
        return found, steps[used - 1 :]
    is_package = any(is_type_name(one) for one in names[2:])
    return (EXTERNAL if is_package else UNKNOWN), steps


RULES: Final = Rules(
    "jvm", _imported, _free, common_members=_COMMON, dotted=_dotted, has_member_scopes=True, has_called_names=True
)
