"""Names of PHP resolved by namespace, and included files by path.

A class is named by its namespace alone, wherever its file lies; a bare function or constant that its namespace lacks is the global one.
Where several files define one name, that which PSR-4 of a composer.json gives is the one that is loaded. Sources: Name resolution rules,
https://www.php.net/manual/en/language.namespaces.rules.php, and PSR-4, https://www.php-fig.org/psr/psr-4/
"""

from __future__ import annotations

__all__ = ["RULES"]

import posixpath
from typing import Final

import msgspec

from periplus.code.model import Import
from periplus.code.resolution.rules.table import EXTERNAL, UNKNOWN, Entity, Lookup, Outcome, Rules
from periplus.code.resolution.sources import KnownFile, Sources

_COMPOSER_FILES_MAX: Final = 200
_PREFIXES_MAX: Final = 2_000
_CANDIDATES_MAX: Final = 20
_FUNCTIONS: Final = frozenset({"function"})
_CONSTANTS: Final = frozenset({"constant"})
_CLASSES: Final = frozenset({"class", "interface", "trait", "enum"})
_GLOBAL: Final = _FUNCTIONS | _CONSTANTS
# Methods of the classes and interfaces that PHP itself has.
_COMMON: Final = frozenset(
    "__construct __destruct __call __callStatic __get __set __isset __unset __sleep __wakeup __serialize __unserialize __toString "
    "__invoke __set_state __clone __debugInfo getMessage getPrevious getCode getFile getLine getTrace getTraceAsString offsetExists "
    "offsetGet offsetSet offsetUnset current key next rewind valid count getIterator jsonSerialize bind bindTo call fromCallable add "
    "diff format getOffset getTimestamp getTimezone modify setDate setTime setTimestamp setTimezone sub append getArrayCopy "
    "exchangeArray asort ksort uasort uksort attach detach contains addAll removeAll push pop shift unshift top isEmpty toArray enqueue "
    "dequeue insert extract prepare query exec execute fetch fetchAll fetchColumn fetchObject bindParam bindValue beginTransaction commit "
    "rollBack lastInsertId quote rowCount closeCursor getName getShortName newInstance newInstanceArgs getParameters getMethods getMethod "
    "getProperties getProperty hasMethod hasProperty implementsInterface isAbstract isFinal isInterface isInstance invoke invokeArgs "
    "setAccessible getValue setValue getDocComment getFileName getNamespaceName getParentClass getInterfaceNames getAttributes "
    "getArguments getType isStatic isPublic getPathname getBasename getExtension getRealPath getFilename getPath getSize isDir isFile "
    "isReadable isWritable isLink openFile eof fgets fgetcsv fputcsv fwrite fread flock ftell fseek ftruncate getInnerIterator accept "
    "getChildren hasChildren children attributes xpath asXML addChild addAttribute loadXML loadHTML saveXML saveHTML getElementById "
    "getElementsByTagName createElement appendChild removeChild getAttribute setAttribute removeAttribute hasAttribute item open close "
    "addFile addFromString extractTo send rewind throw getReturn start resume suspend isTerminated get set update attach notify "
    "cases from tryFrom".split()
)


class _Autoload(msgspec.Struct):
    psr4: dict[str, str | list[str]] | list[str] = msgspec.field(default_factory=dict, name="psr-4")


class _Composer(msgspec.Struct):
    autoload: _Autoload = msgspec.field(default_factory=_Autoload)
    autoload_dev: _Autoload = msgspec.field(default_factory=_Autoload, name="autoload-dev")


_DECODER: Final = msgspec.json.Decoder(_Composer)


def _prefixes(sources: Sources) -> tuple[tuple[str, str], ...]:
    """Return namespaces with their folders from each composer.json, the longest namespace first."""
    found: list[tuple[str, str]] = []
    for path in sources.with_name("composer.json")[:_COMPOSER_FILES_MAX]:
        folder = path.rpartition("/")[0]
        try:
            composer = _DECODER.decode(sources.read(path) or b"{}")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue  # no settings that anybody could follow
        for autoload in (composer.autoload, composer.autoload_dev):
            for prefix, places in autoload.psr4.items() if isinstance(autoload.psr4, dict) else ():
                for place in [places] if isinstance(places, str) else places:
                    whole = posixpath.normpath(posixpath.join(folder, place.lstrip("/"))).removeprefix(".").lstrip("/")
                    if not whole.startswith("."):
                        found.append((prefix.strip("\\"), whole))
    found.sort(key=lambda one: -len(one[0]))
    return tuple(found[:_PREFIXES_MAX])


def _psr4_paths(lookup: Lookup, name: str) -> list[str]:
    """Return the paths, without ``.php``, that hold the class or namespace ``name``."""
    found = []
    for prefix, folder in lookup.derived("psr-4", _prefixes):
        if not prefix or name == prefix or name.startswith(f"{prefix}\\"):
            inner = name[len(prefix) :].lstrip("\\").replace("\\", "/")
            found.append("/".join(part for part in (folder, inner) if part))
    return found


def _whole_name(file: KnownFile, name: str) -> str:
    """Return ``name`` with its namespace: fully qualified, by an import of its first part, or in the namespace of the file."""
    if name.startswith("\\"):
        return name[1:]
    first, separator, rest = name.partition("\\")
    package = file.facts.package
    if separator and first.lower() == "namespace":
        return f"{package}\\{rest}" if package else rest
    if separator:
        for one in file.facts.imports:
            if one.local == first and one.name and " " not in one.module:
                return "\\".join(part for part in (one.module, one.name, rest) if part)
    return f"{package}\\{name}" if package else name


def _named(lookup: Lookup, file: KnownFile, whole: str, kinds: frozenset[str]) -> Outcome:
    """Return the class, function or constant with the qualified name ``whole``."""
    package, _, name = whole.rpartition("\\")
    places: dict[str, list[Entity]] = {}
    for path, index in lookup.sources.in_package(package, name):
        other = lookup.sources.file(path)
        if other is None or other.facts.language != "php":
            continue
        one = other.definitions[index]
        is_outer = one.parent < 0 or (
            one.kind == "function" and other.definitions[one.parent].kind in ("function", "method")
        )
        if is_outer and one.kind in kinds:
            places.setdefault(path, []).append(Entity(path, index))
    if not places:
        return UNKNOWN
    if len(places) > 1:
        loaded = next((path for place in _psr4_paths(lookup, whole) if (path := f"{place}.php") in places), None)
        loaded = loaded or (file.path if file.path in places else None)
        if loaded is None:
            return Outcome(tuple(one for found in places.values() for one in found)[:_CANDIDATES_MAX], is_proven=False)
        return Outcome(tuple(places[loaded]))
    return Outcome(tuple(next(iter(places.values()))))


def _imported(lookup: Lookup, file: KnownFile, one: Import) -> Outcome:
    if not one.name:
        return _included(lookup, file, one.module)
    kind, separator, module = one.module.partition(" ")
    kinds = (_FUNCTIONS if kind == "function" else _CONSTANTS) if separator else _CLASSES
    whole = "\\".join(part for part in (module if separator else one.module, one.name) if part)
    found = _named(lookup, file, whole, kinds)
    if found.found:
        return found
    if not separator:  # a namespace whose classes are named from it on
        for place in _psr4_paths(lookup, whole):
            if place and lookup.sources.in_folder(place):
                return Outcome((Entity(place, -2),))
    return EXTERNAL


def _included(lookup: Lookup, file: KnownFile, module: str) -> Outcome:
    """Return the file ``module``: below the file's own folder if it begins with a dot, else there or at the root."""
    folder = file.path.rpartition("/")[0]
    for base in (folder,) if module.startswith(".") else (folder, ""):
        path = posixpath.normpath(posixpath.join(base, module))
        if not path.startswith((".", "/")) and lookup.sources.exists(path):
            return Outcome((Entity(path, -1),), is_proven=module.startswith("."))
    return EXTERNAL


def _free(lookup: Lookup, file: KnownFile, name: str) -> Outcome:
    if name.startswith("$"):
        return _variable(lookup, name[1:])
    whole = _whole_name(file, name)
    for kinds in (_CLASSES, _GLOBAL):  # a constant may be called like a class
        found = _named(lookup, file, whole, kinds)
        if found.found:
            return found
    if "\\" not in name and file.facts.package:
        found = _named(lookup, file, name, _GLOBAL)
        if found.found:
            return found
    bare = whole.rpartition("\\")[2]
    constants = [
        Entity(path, index)
        for path, index in (lookup.sources.defining(bare) if bare.isupper() else ())
        if (other := lookup.sources.file(path)) is not None
        and other.facts.language == "php"
        and other.definitions[index].kind == "constant"
        and other.definitions[index].parent < 0
    ]
    if len(constants) == 1:  # ``define`` makes global constants, whatever the namespace of its file
        return Outcome(tuple(constants), is_proven=False)
    return EXTERNAL


def _variable(lookup: Lookup, name: str) -> Outcome:
    """Return the only variable outside of functions with this name."""
    found = [
        Entity(path, index)
        for path, index in lookup.sources.defining(name)
        if (other := lookup.sources.file(path)) is not None
        and other.facts.language == "php"
        and other.definitions[index].kind == "value"
    ]
    return Outcome(tuple(found), is_proven=False) if len({one.path for one in found}) == 1 else EXTERNAL


RULES: Final = Rules("php", _imported, _free, common_members=_COMMON, constructor="__construct")
