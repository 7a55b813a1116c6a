"""Paths of Rust resolved to files: modules of files and of folders, crates of a workspace, `use` with globs and re-exports.

A crate is a file that no other file declares as its module; Cargo.toml names it. The module ``x`` of a file is ``x.rs`` or ``x/mod.rs`` in
the folder of its modules, or the file of ``#[path]``.
Source: The Rust Reference, Modules, https://doc.rust-lang.org/reference/items/modules.html; The Cargo Book, The Manifest Format
"""

from __future__ import annotations

__all__ = ["RULES"]

import posixpath
import tomllib
from typing import Final, NamedTuple

from periplus.code.model import Import
from periplus.code.resolution.rules.table import EXTERNAL, UNKNOWN, Entity, Lookup, Outcome, Rules
from periplus.code.resolution.sources import KnownFile, Sources

_MANIFESTS_MAX: Final = 1_000
_CLIMBS_MAX: Final = 50
_ROOT_NAMES: Final = frozenset({"lib.rs", "main.rs", "build.rs"})
_FOLDER_NAMES: Final = frozenset({"mod.rs", "lib.rs", "main.rs"})
_TARGET_FOLDERS: Final = frozenset({"tests", "examples", "benches", "bin"})
_STANDARD: Final = frozenset({"std", "core", "alloc", "proc_macro", "test"})
_TABLES: Final = ("dependencies", "dev-dependencies", "build-dependencies")
_COMMON: Final = frozenset(
    "new default clone fmt eq ne cmp partial_cmp hash drop deref deref_mut as_ref as_mut borrow borrow_mut from into try_from try_into "
    "to_string to_owned index index_mut add sub mul div rem neg not next len is_empty push pop insert remove get get_mut contains "
    "contains_key iter iter_mut into_iter map filter collect fold extend clear keys values entry first last split join find position any all "
    "min max sum rev zip chain enumerate skip take peekable unwrap expect is_some is_none is_ok is_err ok err unwrap_or unwrap_or_else "
    "unwrap_or_default map_err and_then or_else ok_or take replace swap as_str as_bytes as_slice to_vec chars bytes lines trim starts_with "
    "ends_with parse to_lowercase to_uppercase read write flush seek read_to_string read_to_end read_exact write_all write_str lock "
    "try_lock send recv join spawn poll wake load store fetch_add compare_exchange with set capacity reserve truncate resize drain retain "
    "sort sort_by dedup binary_search copy_from_slice as_ptr cast offset display path exists file_name parent source description cause build "
    "call run finish kind name id size start end count nth step_by fill push_str from_str serialize deserialize as_path".split()
)


class _Crate(NamedTuple):
    """A package of Cargo: its folder, the name and the file of its library, what it calls its dependencies (``local`` are those of the
    workspace), and the files of its other crates as far as the manifest names them.
    """

    folder: str
    name: str
    root: str
    renamed: dict[str, str]
    local: frozenset[str]
    dependencies: frozenset[str]
    targets: frozenset[str]


class _View:
    """Contents of the manifests of one view."""

    def __init__(self, sources: Sources) -> None:
        found = [_manifest(sources, path) for path in sources.with_name("Cargo.toml")[:_MANIFESTS_MAX]]
        self.crates = [one for one in found if one is not None]
        self.targets = frozenset(path for one in self.crates for path in one.targets)
        self.by_name: dict[str, list[_Crate]] = {}
        for one in self.crates:
            self.by_name.setdefault(one.name, []).append(one)

    def around(self, path: str) -> _Crate | None:
        """Return the package that holds the file ``path``."""
        held = [one for one in self.crates if not one.folder or path.startswith(f"{one.folder}/")]
        return max(held, key=lambda one: len(one.folder), default=None)


def _view(lookup: Lookup) -> _View:
    return lookup.derived("rust", _View)


def _manifest(sources: Sources, path: str) -> _Crate | None:
    data = sources.read(path)
    try:
        read = tomllib.loads((data or b"").decode())
    except (ValueError, RecursionError):
        return None
    package, library = _table(read, "package"), _table(read, "lib")
    name = library.get("name") or package.get("name")
    if not isinstance(name, str):
        return None
    folder = posixpath.dirname(path)
    written = library.get("path")
    root = posixpath.normpath(posixpath.join(folder, written if isinstance(written, str) else "src/lib.rs"))
    renamed: dict[str, str] = {}
    local: set[str] = set()
    dependencies: set[str] = set()
    places = [read, *(one for one in _table(read, "target").values() if isinstance(one, dict))]
    for one, settings in (item for place in places for table in _TABLES for item in _table(place, table).items()):
        key = one.replace("-", "_")
        dependencies.add(key)
        if isinstance(settings, dict):
            if isinstance(real := settings.get("package"), str):
                renamed[key] = real.replace("-", "_")
            if "path" in settings or settings.get("workspace") is True:
                local.add(key)
    targets = {root}
    for kind in ("bin", "test", "example", "bench"):
        listed = read.get(kind)
        for one in listed if isinstance(listed, list) else ():
            if isinstance(one, dict) and isinstance(file := one.get("path"), str):
                targets.add(posixpath.normpath(posixpath.join(folder, file)))
    return _Crate(
        folder, name.replace("-", "_"), root, renamed, frozenset(local), frozenset(dependencies), frozenset(targets)
    )


def _table(read: dict[str, object], name: str) -> dict[str, object]:
    value = read.get(name)
    return value if isinstance(value, dict) else {}


def _module_folders(lookup: Lookup, path: str) -> list[str]:
    """Return the folders in which the modules of the file ``path`` may lie, the likelier first."""
    folder, base = posixpath.split(path)
    inner = posixpath.join(folder, base.removesuffix(".rs"))
    if base in _FOLDER_NAMES:
        return [folder]
    return [folder, inner] if _is_target(path) or path in _view(lookup).targets else [inner]


def _is_target(path: str) -> bool:
    """Return True for a file that Cargo takes as a crate by its place: a test, an example, a benchmark, a program."""
    folder, base = posixpath.split(path)
    return base in _ROOT_NAMES or posixpath.basename(folder) in _TARGET_FOLDERS


def _parent(lookup: Lookup, path: str) -> str | None:
    """Return the file of the module around that of ``path``; None for a crate."""
    return lookup.derived(("rust parent", path), lambda _: _find_parent(lookup, path))


def _find_parent(lookup: Lookup, path: str) -> str | None:
    folder, base = posixpath.split(path)
    if base in _ROOT_NAMES or path in _view(lookup).targets:
        return None
    name = base.removesuffix(".rs")
    if base == "mod.rs":
        folder, name = posixpath.split(folder)
    around = [posixpath.join(folder, one) for one in ("mod.rs", "lib.rs", "main.rs")]
    around = [one for one in (*around, f"{folder}.rs") if one != path and lookup.sources.exists(one)]
    for other, index in [(one, -1) for one in around] + list(lookup.sources.defining(name)):
        file = lookup.sources.file(other) if other != path else None
        for at in () if file is None else (file.outer.get(name, ()) if index < 0 else (index,)):
            if (
                file is not None
                and file.definitions[at].kind == "module"
                and _file_of(lookup, file, at) == Entity(path, -1)
            ):
                return other
    return around[0] if around and not _is_target(path) else None


def _root(lookup: Lookup, path: str) -> str:
    """Return the file of the crate that holds the module ``path``."""
    return lookup.derived(("rust root", path), lambda _: _find_root(lookup, path))


def _find_root(lookup: Lookup, path: str) -> str:
    for _ in range(_CLIMBS_MAX):
        parent = _parent(lookup, path)
        if parent is None:
            break
        path = parent
    return path


def _file_of(lookup: Lookup, file: KnownFile, index: int) -> Entity | None:
    """Return the file of the module that the definition ``index`` declares without a body; None for one with a body."""
    one = file.definitions[index]
    for brought in file.facts.imports:
        if (
            brought.line == one.line
            and brought.module.startswith(("./", "self::"))
            and not (brought.name or brought.local)
        ):
            return _declared(lookup, file.path, brought.module)
    return None


def _declared(lookup: Lookup, path: str, module: str) -> Entity | None:
    """Return the file that a declaration such as ``mod x;`` means: ``self::x``, or ``./place`` from ``#[path]``."""
    if module.startswith("./"):
        place = posixpath.normpath(posixpath.join(posixpath.dirname(path), module))
        return Entity(place, -1) if lookup.sources.exists(place) else None
    inner = "/".join(module.split("::")[1:])
    for folder in _module_folders(lookup, path):
        for place in (f"{inner}.rs", f"{inner}/mod.rs"):
            whole = posixpath.join(folder, place)
            if whole != path and lookup.sources.exists(whole):
                return Entity(whole, -1)
    return None


def _crate_named(lookup: Lookup, path: str, name: str) -> Outcome:
    """Return the crate that files of the package around ``path`` call ``name``."""
    if name in _STANDARD:
        return EXTERNAL
    view = _view(lookup)
    own = view.around(path)
    real = own.renamed.get(name, name) if own is not None else name
    found = [one for one in view.by_name.get(real, ()) if lookup.sources.exists(one.root)]
    if not found:
        return EXTERNAL if own is not None and name in own.dependencies else UNKNOWN
    is_proven = len(found) == 1 and own is not None and (own.name == real or name in own.local)
    return Outcome(tuple(Entity(one.root, -1) for one in found[:1]), is_proven)


def _first(lookup: Lookup, file: KnownFile, name: str) -> Outcome:
    """Return what a path of the file begins with."""
    if name == "crate":
        return Outcome((Entity(_root(lookup, file.path), -1),))
    if name == "self":
        return Outcome((Entity(file.path, -1),))
    if name == "super":
        parent = _parent(lookup, file.path)
        return Outcome((Entity(parent, -1),)) if parent is not None else UNKNOWN
    return UNKNOWN


def _walked(lookup: Lookup, file: KnownFile, path: str) -> Outcome:
    """Return what the path of a `use` means."""
    parts = [part for part in path.split("::") if part]
    at = _first(lookup, file, parts[0]) if parts else UNKNOWN
    if not at.found and parts:
        at = _module_in(lookup, Entity(file.path, -1), parts[0]) or lookup.member(Entity(file.path, -1), parts[0])
        if not at.found:
            at = _crate_named(lookup, file.path, parts[0])
        if not at.found and not at.is_external:  # the edition of 2015: from the crate on
            at = lookup.member(Entity(_root(lookup, file.path), -1), parts[0])
        if not at.found:
            return EXTERNAL
    is_proven = at.is_proven
    for part in parts[1:]:
        if not at.found:
            return at
        at = _module_in(lookup, at.found[0], part) or lookup.member(at.found[0], part)
        is_proven = is_proven and at.is_proven
    return at._replace(is_proven=is_proven)


def _module_in(lookup: Lookup, entity: Entity, name: str) -> Outcome | None:
    """Return the module that a file declares under ``name``; a function of that name, which it may have too, is not asked for."""
    file = lookup.sources.file(entity.path) if entity.symbol == -1 else None
    found = [] if file is None else [at for at in file.outer.get(name, ()) if file.definitions[at].kind == "module"]
    return Outcome(tuple(Entity(entity.path, at) for at in found)) if found else None


def _imported(lookup: Lookup, file: KnownFile, one: Import) -> Outcome:
    if one.module.startswith("./"):
        found = _declared(lookup, file.path, one.module)
        return Outcome((found,)) if found is not None else UNKNOWN
    if not one.name and one.module.startswith("self::") and (found := _declared(lookup, file.path, one.module)):
        return Outcome((found,))
    module = _walked(lookup, file, one.module)
    if not module.found or one.name == "*" or not one.name:
        return Outcome(tuple(_as_file(lookup, entity) for entity in module.found), module.is_proven, module.is_external)
    found_name = lookup.member(module.found[0], one.name)
    if not found_name.found:
        return found_name
    entities = tuple(_as_file(lookup, entity) for entity in found_name.found)
    return Outcome(entities, found_name.is_proven and module.is_proven)


def _as_file(lookup: Lookup, entity: Entity) -> Entity:
    """Return the file instead of the line that declares it as a module."""
    file = lookup.sources.file(entity.path) if entity.symbol >= 0 else None
    if file is None or file.definitions[entity.symbol].kind != "module":
        return entity
    return _file_of(lookup, file, entity.symbol) or entity


def _free(lookup: Lookup, file: KnownFile, name: str) -> Outcome:
    """Look ``name`` up among the beginnings of paths, in what the file takes by globs, among crates, and macros of the crate."""
    first = _first(lookup, file, name)
    if first.found:
        return first
    is_external = False
    for index, one in enumerate(file.facts.imports):
        if one.name == "*":
            place = lookup.imported(file, index)
            is_external = is_external or (place.is_external and not place.found)
            for entity in place.found:
                if entity.path != file.path or entity.symbol >= 0:
                    found = lookup.member(entity, name)
                    if found.found:
                        return found._replace(is_proven=found.is_proven and place.is_proven)
    crate = _crate_named(lookup, file.path, name)
    if crate.found or crate.is_external:
        return crate
    macros = _macros(lookup, file, name)
    if macros:
        return Outcome(macros, is_proven=False)
    return EXTERNAL if is_external else UNKNOWN


def _macros(lookup: Lookup, file: KnownFile, name: str) -> tuple[Entity, ...]:
    """Return the macros called ``name`` of the same crate: they are known by their place in the text, not by paths."""
    root = _root(lookup, file.path)
    return tuple(
        Entity(path, index)
        for path, index in lookup.sources.defining(name)
        if (other := lookup.sources.file(path)) is not None
        and other.facts.language == "rust"
        and other.definitions[index].kind == "macro"
        and _root(lookup, path) == root
    )


def _submodule(lookup: Lookup, entity: Entity, name: str) -> Outcome:
    """Look ``name`` up in a module: in its file, or (within a file) among what it takes by `use`; a crate has its exported macros."""
    file = lookup.sources.file(entity.path)
    if file is None:
        return UNKNOWN
    if entity.symbol >= 0:
        place = _file_of(lookup, file, entity.symbol)
        if place is not None:
            return lookup.member(place, name)
        one = file.definitions[entity.symbol]
        for index, brought in enumerate(file.facts.imports):
            if one.start_line <= brought.line <= one.end_line and brought.local == name:
                return lookup.imported(file, index)
            if one.start_line <= brought.line <= one.end_line and brought.name == "*":
                for found in lookup.imported(file, index).found:
                    if found != entity and (inside := lookup.member(found, name)).found:
                        return inside
        return UNKNOWN
    first = _first(lookup, file, name) if name in ("self", "super") else UNKNOWN
    if first.found:
        return first
    place = _declared(lookup, entity.path, f"self::{name}")  # by a macro, perhaps
    if place is not None:
        return Outcome((place,))
    macros = _macros(lookup, file, name)
    return Outcome(macros, is_proven=False) if macros else UNKNOWN


def _has_part(lookup: Lookup, entity: Entity, other: KnownFile) -> bool:
    """Return True where ``other`` means the type ``entity`` by its name, so that its ``impl`` is one of that type."""
    if other.path == entity.path:
        return True
    file = lookup.sources.file(entity.path)
    if file is None:
        return False
    name = file.definitions[entity.symbol].name
    if name in other.outer:
        return False
    for index, one in enumerate(other.facts.imports):
        if one.local == name:
            return any(
                found.path == entity.path and found.symbol == entity.symbol
                for found in lookup.imported(other, index).found
            )
    return any(
        found.path == entity.path and found.symbol == entity.symbol for found in _free(lookup, other, name).found
    )


RULES: Final = Rules(
    "rust",
    _imported,
    _free,
    _submodule,
    has_open_types=True,
    has_part=_has_part,
    common_members=_COMMON,
    separates_fields=True,
)
