"""Imports of Python resolved to files: packages, source folders, relative imports, namespace packages, star imports.

The folders that Python searches are not known without running it. A module ``a.b`` is therefore looked for by the end of its path,
``a/b.py`` or ``a/b/__init__.py``, below any folder that is no package itself; one that holds the importing file comes first.
Source: The import system, https://docs.python.org/3/reference/import.html
"""

from __future__ import annotations

__all__ = ["RULES"]

from typing import Final

from periplus.code.model import Import
from periplus.code.resolution.rules.table import EXTERNAL, UNKNOWN, Entity, Lookup, Outcome, Rules
from periplus.code.resolution.sources import KnownFile

_ENDINGS: Final = (".py", ".pyi")
_LIST_METHODS: Final = {
    **dict.fromkeys(("pop", "popleft", "popitem", "get", "setdefault", "__next__"), True),
    **dict.fromkeys(("values", "copy", "union", "difference"), False),
}
_COMMON: Final = frozenset(
    "append extend insert remove pop clear index count sort reverse copy add discard update union difference intersection get items keys "
    "values setdefault popitem encode decode join split rsplit strip lstrip rstrip replace find rfind startswith endswith format lower "
    "upper title capitalize splitlines partition rpartition isdigit isalpha isspace zfill center ljust rjust translate read write close "
    "readline readlines flush seek tell fileno isatty open name group groups match search sub start end span send throw result cancel "
    "done wait notify acquire release run put task_done is_set set exists mkdir unlink rename iterdir glob is_file is_dir stat resolve "
    "total_seconds isoformat strftime timestamp hex to_bytes from_bytes bit_length execute fetchone fetchall commit rollback cursor "
    "__init__ __new__ __call__ __enter__ __exit__ __iter__ __next__ __len__ __getitem__ __setitem__ __contains__ __eq__ __hash__ __repr__ "
    "__str__ kill poll communicate terminate pid args most_common elements fromkeys issubset issuperset isupper islower parent suffix "
    "digest hexdigest pack unpack main".split()
)


def _module(lookup: Lookup, path: str, dotted: str) -> Outcome:
    """Return the file or folder that ``dotted`` names in the file ``path``."""
    name = dotted.lstrip(".")
    level = len(dotted) - len(name)
    inner = name.replace(".", "/")
    if level:
        folder = path.rpartition("/")[0]
        for _ in range(level - 1):
            if not folder:
                return UNKNOWN
            folder = folder.rpartition("/")[0]
        place = f"{folder}/{inner}".strip("/") if inner else folder
        return Outcome((found,)) if (found := _at(lookup, place)) is not None else UNKNOWN
    last = inner.rpartition("/")[2]
    roots: dict[str, Entity] = {}
    for ending in _ENDINGS:
        for place in lookup.sources.with_name(last + ending):
            root = _root(place, inner + ending)
            if root is not None:
                roots.setdefault(root, Entity(place, -1))
    for folder in lookup.sources.folders_named(last):
        root = _root(folder, inner)
        if root is not None and root not in roots and (entity := _at(lookup, folder)) is not None:
            roots[root] = entity
    return _choose(lookup, path, roots)


def _choose(lookup: Lookup, path: str, roots: dict[str, Entity]) -> Outcome:
    """Return the module below the likeliest of the folders ``roots``."""
    plausible = [root for root in roots if not _is_package(lookup, root)]
    around = [root for root in plausible if path.startswith(f"{root}/") or not root]
    if around:
        return Outcome((roots[max(around, key=len)],))
    if len(plausible) == 1:
        return Outcome((roots[plausible[0]],))
    if plausible:
        return Outcome((roots[min(plausible, key=lambda root: (root.count("/"), root))],), is_proven=False)
    return EXTERNAL


def _is_package(lookup: Lookup, folder: str) -> bool:
    return bool(folder) and lookup.sources.exists(f"{folder}/__init__.py")


def _root(path: str, inner: str) -> str | None:
    """Return the folder in which ``path`` is ``inner``; None where it is not."""
    if path == inner:
        return ""
    return path[: -len(inner) - 1] if path.endswith(f"/{inner}") else None


def _at(lookup: Lookup, place: str) -> Entity | None:
    """Return the module at ``place``: a package, a file, or a folder without ``__init__.py``."""
    sources = lookup.sources
    for ending in ("/__init__.py", ".py", "/__init__.pyi", ".pyi"):
        if place and sources.exists(place + ending):
            return Entity(place + ending, -1)
    return Entity(place, -2) if sources.in_folder(place) else None


def _imported(lookup: Lookup, file: KnownFile, one: Import) -> Outcome:
    module = _module(lookup, file.path, one.module)
    if not module.found and not one.name:
        module = _namespace(lookup, file, one.module) or module
    if not module.found:
        return module if module.is_external or one.module.startswith(".") else EXTERNAL
    if one.name in ("", "*"):
        return module
    if module.found[0].path == file.path:  # a package that takes a module of itself
        below = _submodule(lookup, module.found[0], one.name)
        if below.found:
            return below._replace(is_proven=module.is_proven)
    found = lookup.member(module.found[0], one.name)
    return found._replace(is_proven=found.is_proven and module.is_proven)


def _namespace(lookup: Lookup, file: KnownFile, name: str) -> Outcome | None:
    """Return the folder ``name`` that holds no file of its own, by another import of the file that leads through it."""
    for other in file.facts.imports:
        if other.module.startswith(f"{name}."):
            for entity in _module(lookup, file.path, other.module).found:
                above, found, _ = f"/{entity.path}".rpartition(f"/{other.module.replace('.', '/')}")
                if found:
                    return Outcome((Entity(f"{above}/{name.replace('.', '/')}".strip("/"), -2),))
    return None


def _free(lookup: Lookup, file: KnownFile, name: str) -> Outcome:
    """Look ``name`` up in what the file star-imports."""
    is_external = False
    for one in file.facts.imports:
        if one.name == "*" and one.is_outer:
            module = _module(lookup, file.path, one.module)
            is_external = is_external or not module.found
            for entity in module.found:
                if (star := lookup.sources.file(entity.path)) is not None and not _takes_star(star, name):
                    continue
                found = lookup.member(entity, name)
                if found.found:
                    return found
    return EXTERNAL if is_external else _fixture(lookup, file, name)


def _fixture(lookup: Lookup, file: KnownFile, name: str) -> Outcome:
    """Look ``name`` up in the conftest.py files around a test: pytest passes fixtures by the names of parameters."""
    folder, _, base = file.path.rpartition("/")
    if not (base.startswith("test_") or base.endswith("_test.py") or base == "conftest.py"):
        return UNKNOWN
    while True:
        place = f"{folder}/conftest.py" if folder else "conftest.py"
        if place != file.path and lookup.sources.exists(place):
            found = lookup.member(Entity(place, -1), name)
            if found.found:
                return found._replace(is_proven=False)
        if not folder:
            return UNKNOWN
        folder = folder.rpartition("/")[0]


def _takes_star(file: KnownFile, name: str) -> bool:
    exports = file.facts.exports
    return name in exports if exports and "*" not in exports else not name.startswith("_")


def _submodule(lookup: Lookup, entity: Entity, name: str) -> Outcome:
    folder = entity.path
    if entity.symbol == -1:
        folder, _, base = entity.path.rpartition("/")
        if base not in ("__init__.py", "__init__.pyi"):
            return UNKNOWN
    found = _at(lookup, f"{folder}/{name}" if folder else name)
    return Outcome((found,)) if found is not None else UNKNOWN


RULES: Final = Rules(
    "python", _imported, _free, _submodule, common_members=_COMMON, constructor="__init__", takes_star=_takes_star, tries_imports=True, list_methods=_LIST_METHODS,
    element_methods=("__getitem__", "__iter__"), entering="__enter__",
)  # fmt: skip
