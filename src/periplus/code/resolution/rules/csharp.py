"""Usings of C# resolved to definitions: namespaces and those around them, static and global usings, aliases, partial classes, extensions.

A namespace is what files declare, wherever they stand. A name is looked up in the namespaces around the file from the inside out, then in
those of its usings. Parts of a class that stand in files of one folder are one class; types of one name in several folders are
taken from the nearest, and that is likely and not proven.
Source: C# language specification, 7.8 Namespace and type names, https://learn.microsoft.com/dotnet/csharp/language-reference/language-specification/
"""

from __future__ import annotations

__all__ = ["RULES"]

from collections.abc import Iterator, Sequence
from typing import Final

from periplus.code.model import MARKS, Import
from periplus.code.resolution.rules.jvm import member_of
from periplus.code.resolution.rules.table import EXTERNAL, UNKNOWN, Entity, Lookup, Outcome, Rules
from periplus.code.resolution.sources import KnownFile

_TYPES: Final = frozenset({"class", "interface", "enum", "record", "struct", "type"})
_GLOBAL_FILES: Final = (
    "GlobalUsings.cs",
    "GlobalUsing.cs",
    "Usings.cs",
    "GlobalImports.cs",
    "Globals.cs",
    "_Usings.cs",
)
_PARTS_MAX: Final = 8
_COMMON: Final = frozenset(
    "ToString Equals GetHashCode GetType Length Count Add AddRange Remove RemoveAt RemoveAll Clear Contains ContainsKey TryGetValue Insert "
    "IndexOf Keys Values Key Value Item HasValue First FirstOrDefault Last LastOrDefault Single SingleOrDefault Where Select SelectMany "
    "Any All Sum Min Max Average OrderBy OrderByDescending ThenBy GroupBy Distinct Take Skip Reverse Concat Union Except Zip Cast OfType "
    "ToList ToArray ToDictionary ToHashSet AsEnumerable Aggregate ForEach Find FindAll Exists Sort CopyTo Clone CompareTo Dispose Close "
    "Flush Read Write ReadLine WriteLine ReadAsync WriteAsync ReadToEnd Append AppendLine Substring StartsWith EndsWith Split Join Trim "
    "TrimStart TrimEnd Replace ToLower ToUpper ToLowerInvariant ToUpperInvariant Format Parse TryParse IsNullOrEmpty PadLeft PadRight "
    "ToCharArray Name FullName Namespace Assembly Message StackTrace InnerException Data Source Invoke BeginInvoke EndInvoke Wait "
    "Result ConfigureAwait GetAwaiter GetResult ContinueWith Start Stop Run Cancel Token IsCancellationRequested MoveNext Current Reset "
    "GetEnumerator GetValue SetValue GetMethod GetProperty GetField GetProperties GetFields GetMethods GetCustomAttributes IsAssignableFrom "
    "MakeGenericType GetGenericArguments PropertyType FieldType Year Month Day Hour Minute Second Ticks AddDays Now UtcNow Position "
    "Seek Peek Push Pop Enqueue Dequeue Open Execute Create Build Load Save Delete Copy Get Set Id Type Next Path Text".split()
)


def _around(namespace: str) -> Iterator[str]:
    """Iterate over ``namespace`` and those around it, the one without a name last."""
    while namespace:
        yield namespace
        namespace = namespace.rpartition(".")[0]
    yield ""


def _member(lookup: Lookup, file: KnownFile, namespace: str, name: str) -> Outcome:
    """Return the type ``name`` of ``namespace`` as ``file`` sees it."""
    found: dict[str, list[Entity]] = {}
    parts = namespace.split(".")
    for size in range(len(parts), 0, -1):
        inner = ".".join((*parts[size:], name))  # the rest is a namespace within that of the file
        for path, index in lookup.sources.in_package(".".join(parts[:size]), name):
            other = lookup.sources.file(path)
            if other is None or other.facts.language != "csharp":
                continue
            one = other.definitions[index]
            if one.qualified == inner and one.kind in _TYPES:
                found.setdefault(path, []).append(Entity(path, index))
    if not found:
        return UNKNOWN
    folders = {path.rpartition("/")[0] for path in found}
    everything = tuple(one for all_of_file in found.values() for one in all_of_file)
    if len(folders) == 1:
        return Outcome(everything)
    near = {path: _shared(file.path, path) for path in found}
    most = max(near.values())
    return Outcome(tuple(one for one in everything if near[one.path] == most), is_proven=False)


def _shared(path: str, other: str) -> int:
    """Return how many folders two paths have in common from their beginning."""
    ours, theirs = path.split("/")[:-1], other.split("/")[:-1]
    return next((at for at, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), len(ours))


def _imported(lookup: Lookup, file: KnownFile, one: Import) -> Outcome:
    parts = one.module.split(".") if one.module else []
    if one.name not in ("", "*"):
        parts.append(one.name)
    for size in range(min(len(parts), _PARTS_MAX) - 1, -1, -1):
        found = _member(lookup, file, ".".join(parts[:size]), parts[size])
        if found.found:
            found = member_of(lookup, found, parts[size + 1 :])
            return found if found.found else EXTERNAL
    return EXTERNAL


def _usings(lookup: Lookup, file: KnownFile) -> list[tuple[KnownFile, int]]:
    """Return the usings that bring all of a namespace or type into ``file``: its own, and global ones of files in folders around."""
    found = [(file, index) for index, one in enumerate(file.facts.imports) if one.name == "*"]
    for name in _GLOBAL_FILES:
        for path in lookup.sources.with_name(name):
            folder = path.rpartition("/")[0]
            other = lookup.sources.file(path)
            if other is not None and path != file.path and (not folder or file.path.startswith(f"{folder}/")):
                found += [(other, index) for index, one in enumerate(other.facts.imports) if one.is_reexport]
    return found


def _free(lookup: Lookup, file: KnownFile, name: str) -> Outcome:
    for one in file.facts.imports:
        if one.local == name:
            return _imported(lookup, file, one)
    for said in (name, f"{name}Attribute"):
        found = _named(lookup, file, said)
        if found.found:
            return found if said == name else found._replace(is_proven=False)
    return EXTERNAL if name[:1].isupper() else UNKNOWN


def _named(lookup: Lookup, file: KnownFile, name: str) -> Outcome:
    for namespace in _around(file.facts.package):
        found = _member(lookup, file, namespace, name)
        if found.found:
            return found
    used: list[Outcome] = []
    for other, index in _usings(lookup, file):
        one = other.facts.imports[index]
        found = _imported(lookup, other, one) if one.local == name else UNKNOWN
        if one.name == "*":
            found = _member(lookup, file, one.module, name)
            if not found.found and (static := lookup.imported(other, index)).found:
                found = lookup.member(static.found[0], name)
        if found.found and found not in used:
            used.append(found)
    return used[0]._replace(is_proven=used[0].is_proven and len(used) == 1) if used else UNKNOWN


def _dotted(lookup: Lookup, file: KnownFile, name: str, steps: Sequence[str]) -> tuple[Outcome, Sequence[str]]:
    """Resolve ``Acme.Tools.Type.Member``, from one of the namespaces around."""
    names = [name]
    for step in steps:
        if step in MARKS or len(names) > _PARTS_MAX:
            break
        names.append(step)
    for namespace in _around(file.facts.package):
        for size in range(1, len(names)):
            inner = ".".join((namespace, *names[:size])) if namespace else ".".join(names[:size])
            found = _member(lookup, file, inner, names[size])
            if found.found:
                return found, steps[size:]
    return UNKNOWN, steps


def _extension(lookup: Lookup, file: KnownFile, name: str) -> Outcome:
    """Return the extension method ``name`` that the file sees; several leave it open."""
    seen = {
        *_around(file.facts.package),
        *(other.facts.imports[index].module for other, index in _usings(lookup, file)),
    }
    found: dict[str, list[Entity]] = {}
    for path, index in lookup.sources.defining(name):
        other = lookup.sources.file(path)
        if other is None or other.facts.language != "csharp" or index not in other.facts.bases:
            continue
        one = other.definitions[index]
        if one.kind == "method" and other.facts.package in seen:
            found.setdefault(one.qualified, []).append(Entity(path, index))
    return Outcome(tuple(*found.values()), is_proven=False) if len(found) == 1 else UNKNOWN


def _is_same_type(file: KnownFile, other: KnownFile) -> bool:
    return file.facts.package == other.facts.package


RULES: Final = Rules(
    "dotnet", _imported, _free, is_same_type=_is_same_type, common_members=_COMMON, dotted=_dotted, has_member_scopes=True, extension=_extension,
    has_partial_types=True,
)  # fmt: skip
