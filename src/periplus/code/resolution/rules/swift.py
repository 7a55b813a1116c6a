"""Names of Swift resolved within modules: every file of a module sees all others of it, and what it imports.

The module of a file is the target of Package.swift that holds its folder, by its ``path`` or as ``Sources/Name`` and ``Tests/Name``.
Where no target holds it, the project is taken as one module. Extensions of a type may stand anywhere.
Source: The Swift Programming Language, Access Control; PackageDescription, https://docs.swift.org/package-manager/PackageDescription
"""

from __future__ import annotations

__all__ = ["RULES"]

import posixpath
import re
from typing import Final, NamedTuple

from periplus.code.model import Import
from periplus.code.resolution.rules.table import EXTERNAL, UNKNOWN, Entity, Lookup, Outcome, Rules
from periplus.code.resolution.sources import KnownFile, Sources

_MANIFESTS_MAX: Final = 100
_TARGETS_MAX: Final = 2_000
_TARGET: Final = re.compile(r"\.(?:target|executableTarget|testTarget|macro|plugin|systemLibrary)\s*\(")
_NAME: Final = re.compile(r'\bname\s*:\s*"([^"\n]+)"')
_PATH: Final = re.compile(r'\bpath\s*:\s*"([^"\n]+)"')
_SOURCE_FOLDERS: Final = ("Sources", "Source", "src", "Tests", "Plugins")
_COMMON: Final = frozenset(
    "init deinit subscript append insert remove removeAll removeLast removeFirst first last count isEmpty map compactMap flatMap filter "
    "reduce forEach sorted sort reversed contains index firstIndex enumerated joined split prefix suffix dropFirst dropLast min max keys "
    "values description debugDescription hash encode decode value key name id rawValue allCases self load store get set update next "
    "lowercased uppercased hasPrefix hasSuffix replacingOccurrences trimmingCharacters components data string utf8 utf16 write read close "
    "resume cancel start stop run wait signal async sync main shared default current add sub multiply point frame bounds view text title "
    "type error message code url path host request response body headers status lock unlock wrappedValue projectedValue makeIterator "
    "elements contentsOf union intersection formUnion subtract advanced distance some none success failure setUp tearDown".split()
)


class _Target(NamedTuple):
    name: str
    folder: str


class _View:
    """The targets of one view's packages."""

    def __init__(self, sources: Sources) -> None:
        self.targets = [
            target for path in sources.with_name("Package.swift")[:_MANIFESTS_MAX] for target in _targets(sources, path)
        ]
        self._modules: dict[str, _Target | None] = {}  # they follow from the targets alone

    def module(self, path: str) -> _Target | None:
        """Return the target that holds the file ``path``; None for none."""
        folder = posixpath.dirname(path)
        if folder not in self._modules:
            held = [one for one in self.targets if not one.folder or f"{folder}/".startswith(f"{one.folder}/")]
            self._modules[folder] = max(held, key=lambda one: len(one.folder), default=None)
        return self._modules[folder]


def _view(lookup: Lookup) -> _View:
    return lookup.derived("swift", _View)


def _targets(sources: Sources, path: str) -> list[_Target]:
    """Return the targets of a Package.swift, which is program text: only what stands there as literals is read."""
    data = sources.read(path)
    if data is None:
        return []
    text = data.decode("utf-8", "replace")
    root = posixpath.dirname(path)
    pieces = _TARGET.split(text)[1 : _TARGETS_MAX + 1]
    found: list[_Target] = []
    for piece in pieces:
        name, place = _NAME.search(piece), _PATH.search(piece)
        if name is None:
            continue
        if place is not None:
            folder = posixpath.normpath(posixpath.join(root, place[1]))
            found.append(_Target(name[1], "" if folder == "." else folder))
            continue
        folders = [posixpath.join(root, one, name[1]) for one in _SOURCE_FOLDERS]
        known = set(sources.folders_named(name[1]))
        inside = sources.folders_named(name[1]) or ()
        folder = next((one for one in folders if one in known), "")
        found.append(_Target(name[1], folder or next(iter(inside), folders[0])))
    return [one for one in found if not one.folder.startswith("..")]


def _is_of(lookup: Lookup, path: str, target: _Target | None) -> bool:
    return path.endswith(".swift") and _view(lookup).module(path) == target


def _top_level(lookup: Lookup, name: str) -> list[tuple[str, int, bool]]:
    """Return the definitions called ``name`` that stand in no other: path, index, and whether other files see them."""
    found: list[tuple[str, int, bool]] = []
    for path, index in lookup.sources.defining(name):
        file = lookup.sources.file(path) if path.endswith(".swift") else None
        if file is not None and file.definitions[index].parent < 0:
            found.append((path, index, file.definitions[index].is_exported))
    return found


def _chosen(lookup: Lookup, path: str, found: list[tuple[str, int, bool]], target: _Target | None) -> Outcome:
    """Return those of ``found`` that belong to the module ``target``, as the file ``path`` sees them."""
    seen = [
        Entity(other, index)
        for other, index, is_exported in found
        if (is_exported or other == path) and _is_of(lookup, other, target)
    ]
    kept = [one for one in seen if not _is_extension(lookup, one)]
    folders = {posixpath.dirname(one.path) for one in kept}
    if kept:
        return Outcome(tuple(kept), is_proven=target is not None or len(folders) == 1)
    return Outcome(tuple(seen)) if seen else UNKNOWN


def _is_extension(lookup: Lookup, entity: Entity) -> bool:
    file = lookup.sources.file(entity.path)
    return file is not None and file.definitions[entity.symbol].kind == "extension"


def _module_named(lookup: Lookup, name: str) -> list[_Target]:
    return [one for one in _view(lookup).targets if one.name == name]


def _imported(lookup: Lookup, file: KnownFile, one: Import) -> Outcome:
    targets = _module_named(lookup, one.module)
    if not targets:
        return EXTERNAL
    if one.name in ("", "*"):
        return Outcome((Entity(targets[0].folder, -2),), is_proven=len(targets) == 1)
    return _chosen(lookup, file.path, _top_level(lookup, one.name), targets[0])


def _free(lookup: Lookup, file: KnownFile, name: str) -> Outcome:
    """Look ``name`` up in the module of the file, then in the modules that it imports."""
    found = _top_level(lookup, name)
    own = _view(lookup).module(file.path)
    outcome = _chosen(lookup, file.path, found, own)
    if outcome.found and not _is_extension(lookup, outcome.found[0]):
        return outcome
    is_external = False
    for one in file.facts.imports:
        targets = _module_named(lookup, one.module)
        is_external = is_external or not targets
        for target in targets if found else ():
            brought = _chosen(lookup, file.path, found, target)
            if brought.found and not _is_extension(lookup, brought.found[0]):
                return brought
    extensions = tuple(Entity(path, index) for path, index, _ in found if _is_extension(lookup, Entity(path, index)))
    if extensions:  # of a type of another package
        return Outcome(extensions, is_proven=False)
    return EXTERNAL if is_external and not found else UNKNOWN


def _submodule(lookup: Lookup, entity: Entity, name: str) -> Outcome:
    """Look ``name`` up in the module of a folder."""
    if entity.symbol != -2:
        return UNKNOWN
    target = next((one for one in _view(lookup).targets if one.folder == entity.path), None)
    return _chosen(lookup, "", _top_level(lookup, name), target) if target is not None else UNKNOWN


def _has_part(lookup: Lookup, entity: Entity, other: KnownFile) -> bool:
    """Return True where an extension in ``other`` can be one of the type ``entity``: one of the two files sees the other's module."""
    if not other.path.endswith(".swift"):
        return False
    file = lookup.sources.file(entity.path)
    mine, theirs = _view(lookup).module(entity.path), _view(lookup).module(other.path)
    if mine == theirs or mine is None or theirs is None or file is None:
        return True
    return any(one.module == mine.name for one in other.facts.imports) or any(
        one.module == theirs.name for one in file.facts.imports
    )


RULES: Final = Rules(
    "swift", _imported, _free, _submodule, has_open_types=True, has_part=_has_part, common_members=_COMMON, constructor="init"
)  # fmt: skip
