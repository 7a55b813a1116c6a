"""Imports of JavaScript and TypeScript resolved to files: relative ones, aliases, packages of the workspace, CommonJS.

A name is searched in the file that the module's specifier names. ``default`` and ``=`` (the value of a CommonJS module) are names like
others there, see `languages.script`. A built file that the view does not have stands for its source, which is no proof.
Sources: https://www.typescriptlang.org/docs/handbook/modules/reference.html, https://nodejs.org/api/packages.html
"""

from __future__ import annotations

__all__ = ["RULES"]

import posixpath
from collections.abc import Iterator, Mapping
from typing import Final

from periplus.code.model import Import
from periplus.code.resolution.rules.script_settings import Package, Settings
from periplus.code.resolution.rules.table import EXTERNAL, UNKNOWN, Entity, Lookup, Outcome, Rules
from periplus.code.resolution.sources import KnownFile

_COMMON: Final = frozenset(
    "at concat copyWithin entries every fill filter find findIndex findLast findLastIndex flat flatMap forEach includes indexOf join keys "
    "lastIndexOf map pop push reduce reduceRight reverse shift slice some sort splice toReversed toSorted toSpliced toString unshift values "
    "with length charAt charCodeAt codePointAt endsWith localeCompare match matchAll normalize padEnd padStart repeat replace replaceAll "
    "search split startsWith substr substring toLowerCase toUpperCase trim trimEnd trimStart toFixed toPrecision valueOf get set has add "
    "delete clear size apply bind call name prototype constructor hasOwnProperty isPrototypeOf then catch finally next return throw done "
    "value exec test source flags lastIndex message stack cause code on once off emit addListener removeListener addEventListener "
    "removeEventListener dispatchEvent write end pipe read close destroy open log error warn info debug assert table parse stringify "
    "assign create defineProperty freeze fromEntries is now getTime toISOString toJSON floor ceil round max min abs random all allSettled "
    "any race resolve reject from of isArray type id data key index item items text json body headers status url method path params query "
    "target currentTarget preventDefault stopPropagation style className children parent node element width height top left right bottom x "
    "y focus blur click select input label title href src innerHTML textContent append remove contains closest querySelector "
    "querySelectorAll getElementById getAttribute setAttribute appendChild removeChild classList start stop run init reset update render "
    "describe it expect props state ref current options config context default send use abort signal buffer byteLength".split()
)
_TYPED: Final = (".ts", ".tsx", ".mts", ".cts", ".d.ts", ".d.mts", ".d.cts")
_PLAIN: Final = (".js", ".jsx", ".mjs", ".cjs")
_WRITTEN: Final[Mapping[str, tuple[str, ...]]] = {
    ".js": (".ts", ".tsx", ".d.ts", ".jsx"),
    ".jsx": (".tsx", ".d.ts"),
    ".mjs": (".mts", ".d.mts", ".ts"),
    ".cjs": (".cts", ".d.cts", ".ts"),
}
_BUILT: Final = frozenset("dist lib build out esm cjs es types typings umd module modules output".split())
_CONDITIONS_MAX: Final = 64


def _module(lookup: Lookup, path: str, specifier: str) -> Outcome:
    """Return the file that ``specifier`` names in the file ``path``."""
    folder = posixpath.dirname(path)
    is_typed = not path.endswith(_PLAIN)
    specifier = specifier.partition("?")[0]
    if specifier.startswith(("./", "../")) or specifier in (".", ".."):
        return _found(_file_at(lookup, _place(folder, specifier), is_typed=is_typed)) or UNKNOWN
    if specifier.startswith("/") or "\0" in specifier or not specifier:
        return UNKNOWN
    settings = Settings(lookup)
    around = settings.package_around(folder)
    if specifier.startswith("#") and around is not None:
        for target in _targets(around.imports, specifier):
            if found := _found(_file_at(lookup, _place(around.folder, target), is_typed=is_typed)):
                return found
    for paths in settings.paths(folder):
        for place in _aliased(paths.aliases, specifier):
            if found := _found(_file_at(lookup, place, is_typed=is_typed)):
                return found
        if paths.base is not None and (
            found := _found(_file_at(lookup, _place(paths.base, specifier), is_typed=is_typed))
        ):
            return found
    name, inner = _split(specifier)
    packages = settings.packages_named(name)
    if around is not None and around.name == name:
        packages = [around]
    for package in packages:
        if found := _in_package(lookup, package, inner, is_typed=is_typed):
            return found._replace(is_proven=found.is_proven and len(packages) == 1)
    return UNKNOWN if packages or specifier.startswith(("@/", "~/", "#", "src/")) else EXTERNAL


def _found(path: str | None) -> Outcome | None:
    return Outcome((Entity(path, -1),)) if path is not None else None


def _place(folder: str, specifier: str) -> str | None:
    place = posixpath.normpath(posixpath.join(folder, specifier))
    return None if place == ".." or place.startswith(("../", "/")) else "" if place == "." else place


def _file_at(lookup: Lookup, place: str | None, *, is_typed: bool, left: int = 2) -> str | None:
    """Return the file at ``place``: itself, one whose build it is, with an ending, or the entry of a folder."""
    if place is None:
        return None
    stem, ending = posixpath.splitext(place)
    written = [stem + other for other in _WRITTEN.get(ending, ())]
    exact = [*written, place] if is_typed else [place, *written]
    endings = (*_TYPED, *_PLAIN) if is_typed else (*_PLAIN, *_TYPED)
    for path in (*exact, *(place + one for one in endings), f"{place}.json"):
        if place and lookup.sources.exists(path):
            return path
    package = Settings(lookup).package(place) if left else None
    for entry in package.entries if package is not None else ():
        if found := _file_at(lookup, _place(place, entry), is_typed=is_typed, left=left - 1):
            return found
    index = f"{place}/index" if place else "index"
    return next((index + one for one in endings if lookup.sources.exists(index + one)), None)


def _aliased(aliases: tuple[tuple[str, str, tuple[str, ...]], ...], specifier: str) -> Iterator[str]:
    for prefix, suffix, targets in aliases:
        if suffix == "\0":
            if specifier == prefix:
                yield from targets
        elif (
            specifier.startswith(prefix) and specifier.endswith(suffix) and len(specifier) >= len(prefix) + len(suffix)
        ):
            inner = specifier[len(prefix) : len(specifier) - len(suffix)]
            for target in targets:
                yield posixpath.normpath(target.replace("*", inner, 1))


def _split(specifier: str) -> tuple[str, str]:
    parts = specifier.split("/")
    count = 2 if specifier.startswith("@") else 1
    return "/".join(parts[:count]), "/".join(parts[count:])


def _in_package(lookup: Lookup, package: Package, inner: str, *, is_typed: bool) -> Outcome | None:
    """Return the file of a package of the workspace that ``inner`` names; its entry where it is empty."""
    targets = list(_targets(package.exports, f"./{inner}" if inner else "."))
    if not inner:
        targets += package.entries
    elif package.exports is None:
        targets.append(inner)
    for target in targets:
        if found := _found(_file_at(lookup, _place(package.folder, target), is_typed=is_typed)):
            return found
    for target in [*targets, inner or "index"]:
        for source in _sources_of(target):
            if found := _found(_file_at(lookup, _place(package.folder, source), is_typed=is_typed)):
                return found._replace(is_proven=False)
    return None


def _sources_of(target: str) -> Iterator[str]:
    """Iterate over places where the source of a built file may stand."""
    parts = [part for part in target.split("/") if part not in ("", ".")]
    while parts and parts[0] in _BUILT:
        parts = parts[1:]
    stem = "/".join(parts)
    for ending in (".d.ts", ".d.mts", ".d.cts", ".min.js", *_PLAIN):
        if stem.endswith(ending):
            stem = stem[: -len(ending)]
            break
    if stem:
        yield f"src/{stem}"
        yield stem
        yield f"lib/{stem}"


def _targets(table: object, wanted: str) -> Iterator[str]:
    """Iterate over the files that ``exports`` or ``imports`` of a package give for ``wanted``, under any condition."""
    if isinstance(table, dict) and any(isinstance(key, str) and key[:1] in (".", "#") for key in table):
        if wanted in table:
            yield from _leaves(table[wanted])
            return
        best = ""
        for key in table:
            prefix, star, suffix = key.partition("*")
            if (
                star
                and wanted.startswith(prefix)
                and wanted.endswith(suffix)
                and len(prefix) > len(best.partition("*")[0])
            ):
                best = key
        if best:
            prefix, _, suffix = best.partition("*")
            inner = wanted[len(prefix) : len(wanted) - len(suffix)]
            for leaf in _leaves(table[best]):
                yield leaf.replace("*", inner)
    elif wanted == ".":
        yield from _leaves(table)


def _leaves(table: object) -> Iterator[str]:
    waiting = [table]
    for _ in range(_CONDITIONS_MAX):
        if not waiting:
            return
        one = waiting.pop(0)
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting = [*one.values(), *waiting]
        elif isinstance(one, list):
            waiting = [*one, *waiting]


def _imported(lookup: Lookup, file: KnownFile, one: Import) -> Outcome:
    module = _module(lookup, file.path, one.module)
    if not module.found or one.name == "*":
        return module
    entity = module.found[0]
    whole = lookup.member(entity, "=") if one.name in ("", "default") or not _has(lookup, entity, one.name) else UNKNOWN
    if not one.name:
        return Outcome((*whole.found, entity), module.is_proven and (whole.is_proven or not whole.found))
    found = lookup.member(entity, one.name)
    if not found.found and whole.found:
        found = whole if one.name == "default" else _members(lookup, whole, one.name)
    elif not found.found and one.name == "default" and not found.is_external:
        return module  # the module object of CommonJS
    return found._replace(is_proven=found.is_proven and module.is_proven)


def _has(lookup: Lookup, entity: Entity, name: str) -> bool:
    return bool(lookup.member(entity, name).found)


def _members(lookup: Lookup, whole: Outcome, name: str) -> Outcome:
    for entity in whole.found:
        found = lookup.member(entity, name)
        if found.found:
            return found._replace(is_proven=found.is_proven and whole.is_proven)
    return UNKNOWN


def _free(lookup: Lookup, _file: KnownFile, name: str) -> Outcome:
    """Look ``name`` up among the definitions of files that are no modules: these are global."""
    found: list[Entity] = []
    for path, index in lookup.sources.in_package("", name):
        other = lookup.sources.file(path)
        if other is None or other.facts.language not in ("javascript", "typescript"):
            continue
        if other.definitions[index].parent < 0:
            found.append(Entity(path, index))
    paths = {entity.path for entity in found}
    return Outcome(tuple(found), is_proven=False) if len(paths) == 1 else UNKNOWN


_LIST_METHODS: Final = {
    **dict.fromkeys(("at", "find", "findLast", "get", "pop", "shift"), True),
    **dict.fromkeys(
        ("concat", "filter", "reverse", "slice", "sort", "splice", "toReversed", "toSorted", "values"), False
    ),
}


def _takes_star(_file: KnownFile, name: str) -> bool:
    return name not in ("default", "=")


RULES: Final = Rules(
    "script",
    _imported,
    _free,
    common_members=_COMMON,
    constructor="constructor",
    hides_unexported=True,
    takes_star=_takes_star,
    list_methods=_LIST_METHODS,
)
