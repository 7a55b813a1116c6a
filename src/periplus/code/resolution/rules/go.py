"""Imports of Go resolved to folders: modules of go.mod, `replace` with folders, go.work; names of a package from all files of its folder.

An import path is that of a module and the folder below it. The modules of a view are those of its go.mod files. The module of the importing
file comes first, then what its go.mod replaces by folders, then the others of the view, which is what go.work does. Without go.mod the end
of the import path tells the folder.
Source: Go Modules Reference, https://go.dev/ref/mod
"""

from __future__ import annotations

__all__ = ["RULES"]

import posixpath
import re
from typing import Final, NamedTuple

from periplus.code.model import Definition, Import
from periplus.code.resolution.rules.table import EXTERNAL, UNKNOWN, Entity, Lookup, Outcome, Rules
from periplus.code.resolution.sources import KnownFile, Sources

_MODULES_MAX: Final = 1_000
_PACKAGE_FILES_MAX: Final = 50
_SETTINGS_BYTES_MAX: Final = 1 << 20
_MODULE: Final = re.compile(rb"^\s*module\s+[\"`]?([^\s\"`/][^\s\"`]*)", re.MULTILINE)
_REPLACE: Final = re.compile(
    rb"^\s*(?:replace\s+)?[\"`]?([^\s\"`(]+)[\"`]?(?:\s+v\S+)?\s*=>\s*[\"`]?(\.{1,2}(?:/[^\s\"`]*)?)", re.MULTILINE
)
_LATE_BUILTINS: Final = frozenset({"min", "max", "clear"})
_COMMON: Final = frozenset(
    "Error String Close Read Write Len Less Swap Lock Unlock RLock RUnlock Add Done Wait Get Set Load Store Do Name Type Kind Value Key Bytes "
    "Format Unwrap Is As Next Scan Err Text Reset Flush Seek Peek Sub Before After Equal IsZero Unix UnixNano Seconds Year Day Hour Now "
    "Printf Println Print Sprintf Errorf Fatal Fatalf Log Logf Skip Run Helper Cleanup TempDir Parallel Context Value Deadline Cancel Stop "
    "Start Header Body Status Host Path Query Method URL Open Create Stat Mode Size ModTime IsDir Sys Find Match MatchString ReplaceAll "
    "WriteString WriteByte WriteRune ReadByte ReadRune ReadString ReadAll Elem Field NumField Interface Index Call Pointer Addr Push Pop "
    "Front Back Remove Init Sum Write Encode Decode Marshal Unmarshal MarshalJSON UnmarshalJSON Parse Execute Handle ServeHTTP Trim Split "
    "Join Contains Replace Int Float64 Bool Now Since Copy Clone Delete Range Swap Client Server Response Request Cookie".split()
)


class _Module(NamedTuple):
    """A go.mod: the path of its module, its folder, and the folders that replace modules."""

    path: str
    folder: str
    replaced: dict[str, str]


class _View:
    """Contents of the go.mod files of one view, and the names of packages."""

    def __init__(self, sources: Sources) -> None:
        self.modules = [
            module
            for place in sources.with_name("go.mod")[:_MODULES_MAX]
            if (module := _read(sources, place)) is not None
        ]

    def around(self, path: str) -> _Module | None:
        """Return the module that holds the file ``path``."""
        held = [one for one in self.modules if not one.folder or path.startswith(f"{one.folder}/")]
        return max(held, key=lambda one: len(one.folder), default=None)


def _view(lookup: Lookup) -> _View:
    return lookup.derived("go", _View)


def _read(sources: Sources, place: str) -> _Module | None:
    data = sources.read(place)
    found = _MODULE.search(data) if data is not None and len(data) <= _SETTINGS_BYTES_MAX else None
    if data is None or found is None:
        return None
    folder = posixpath.dirname(place)
    replaced: dict[str, str] = {}
    for one in _REPLACE.finditer(data):
        target = posixpath.normpath(posixpath.join(folder, one[2].decode("utf-8", "replace")))
        if target != ".." and not target.startswith("../"):
            replaced[one[1].decode("utf-8", "replace")] = "" if target == "." else target
    return _Module(found[1].decode("utf-8", "replace"), folder, replaced)


def _folder(lookup: Lookup, path: str, module: str) -> Outcome:
    """Return the folder of the package ``module``, imported by the file ``path``."""
    view = _view(lookup)
    own = view.around(path)
    key = (own.folder if own is not None else f"?{posixpath.dirname(path)}", module)
    return lookup.derived(("go folder", key), lambda _: _find_folder(lookup, view, own, module))


def _find_folder(lookup: Lookup, view: _View, own: _Module | None, module: str) -> Outcome:
    if own is None and not view.modules:
        return _by_end(lookup, module)
    roots: list[tuple[str, str, bool]] = []
    if own is not None:
        roots.append((own.path, own.folder, True))
        roots += ((name, folder, True) for name, folder in own.replaced.items())
    paths = [one.path for one in view.modules]
    roots += ((one.path, one.folder, paths.count(one.path) == 1) for one in view.modules)
    for name, folder, is_proven in sorted(roots, key=lambda root: -len(root[0])):  # stable: the own module stays first
        if module == name or module.startswith(f"{name}/"):
            place = f"{folder}{module[len(name) :]}".lstrip("/")
            if _has_files(lookup, place):
                return Outcome((Entity(place, -2),), is_proven)
    return EXTERNAL


def _by_end(lookup: Lookup, module: str) -> Outcome:
    """Return the folder whose path ends ``module``, where there is no go.mod."""
    if "." not in module.partition("/")[0]:
        return EXTERNAL
    found = [place for place in lookup.sources.folders_named(module.rpartition("/")[2]) if module.endswith(f"/{place}")]
    found = [place for place in found if _has_files(lookup, place)]
    return Outcome((Entity(max(found, key=len), -2),), is_proven=False) if found else EXTERNAL


def _has_files(lookup: Lookup, folder: str) -> bool:
    return any(path.endswith(".go") for path in lookup.sources.in_folder(folder))


def _package(lookup: Lookup, folder: str) -> str:
    """Return the name of the package in ``folder``: that of most of its files which are no tests."""
    return lookup.derived(("go package", folder), lambda sources: _package_of(sources, folder))


def _package_of(sources: Sources, folder: str) -> str:
    paths = [path for path in sources.in_folder(folder) if path.endswith(".go")]
    plain = [path for path in paths if not path.endswith("_test.go")] or paths
    names = [file.facts.package for path in plain[:_PACKAGE_FILES_MAX] if (file := sources.file(path)) is not None]
    return max(names, key=lambda name: (names.count(name), name), default="")


def _in_package(lookup: Lookup, folder: str, package: str, name: str) -> Outcome:
    """Return what ``name`` is in the package; several for the variants of several targets."""
    if package == "main":  # there may be too many of that name
        found = [
            Entity(path, index)
            for path in lookup.sources.in_folder(folder)
            if path.endswith(".go")
            and (file := lookup.sources.file(path)) is not None
            and file.facts.package == package
            for index in file.outer.get(name, ())
        ]
        return Outcome(tuple(found)) if found else UNKNOWN
    found = []
    for path, index in lookup.sources.in_package(package, name):
        if posixpath.dirname(path) == folder and path.endswith(".go"):
            file = lookup.sources.file(path)
            if file is not None and index in file.outer.get(name, ()):
                found.append(Entity(path, index))
    return Outcome(tuple(found)) if found else UNKNOWN


def _imported(lookup: Lookup, file: KnownFile, one: Import) -> Outcome:
    return _folder(lookup, file.path, one.module)


def _free(lookup: Lookup, file: KnownFile, name: str) -> Outcome:
    """Look ``name`` up in the package, in packages imported with a dot, and among packages whose name is not that of their folder."""
    found = _in_package(lookup, posixpath.dirname(file.path), file.facts.package, name)
    if found.found:
        return found
    is_external = name in _LATE_BUILTINS
    for one in file.facts.imports:
        if one.name != "*" and (one.local == name or not one.local):
            continue
        place = _folder(lookup, file.path, one.module)
        for entity in place.found:
            if one.name == "*":
                found = _in_package(lookup, entity.path, _package(lookup, entity.path), name)
                if found.found:
                    return found._replace(is_proven=found.is_proven and place.is_proven)
            elif _package(lookup, entity.path) == name:
                return place
        is_external = is_external or (not place.found and (one.name == "*" or name in one.module))
    return EXTERNAL if is_external else UNKNOWN


def _submodule(lookup: Lookup, entity: Entity, name: str) -> Outcome:
    if entity.symbol != -2:
        return UNKNOWN
    found = _in_package(lookup, entity.path, _package(lookup, entity.path), name)
    return found if found.found else EXTERNAL


def _is_same_type(file: KnownFile, other: KnownFile) -> bool:
    return posixpath.dirname(file.path) == posixpath.dirname(other.path) and file.facts.package == other.facts.package


def _sees(file: KnownFile, other: KnownFile, definition: Definition) -> bool:
    return definition.is_exported or posixpath.dirname(file.path) == posixpath.dirname(other.path)


RULES: Final = Rules(
    "go", _imported, _free, _submodule, has_open_types=True, is_same_type=_is_same_type, common_members=_COMMON, sees=_sees
)  # fmt: skip
