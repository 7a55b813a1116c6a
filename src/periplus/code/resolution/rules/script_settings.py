"""Settings of JavaScript and TypeScript projects: ``package.json``, ``tsconfig.json``, workspaces. Hostile contents count as none.

Sources: https://www.typescriptlang.org/tsconfig, https://nodejs.org/api/packages.html, https://docs.npmjs.com/cli/using-npm/workspaces,
https://pnpm.io/pnpm-workspace_yaml
"""

from __future__ import annotations

__all__ = ["Package", "Paths", "Settings"]

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from periplus.code.resolution.rules.table import Lookup
from periplus.code.resolution.sources import Sources

_EXTENDS_MAX: Final = 8
_PACKAGES_MAX: Final = 5_000
_PATTERNS_MAX: Final = 500
_TARGETS_MAX: Final = 50
_NESTED_MAX: Final = 12
_PNPM: Final = "pnpm-workspace.yaml"
_CONFIG_NAMES: Final = ("tsconfig.json", "jsconfig.json")
_JSON_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\\n])*"?|//[^\n]*|/\*(?:.*?\*/|.*)|,(?=\s*[}\]])', re.DOTALL)
_YAML_ITEM: Final = re.compile(r"""^\s*-\s*["']?([^"'#\s]+)["']?\s*(?:#.*)?$""")


class Paths(NamedTuple):
    """The aliases of one settings file: what follows ``prefix`` and precedes ``suffix`` replaces the star of ``targets``, which are paths
    from the root of the view. ``base`` is the folder of bare imports; None where there is none.
    """

    aliases: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    base: str | None = None


class Package(NamedTuple):
    """A ``package.json``: its folder, name, and what it says of its entry points and of its imports."""

    folder: str
    name: str = ""
    entries: tuple[str, ...] = ()
    exports: object = None
    imports: object = None
    workspaces: tuple[str, ...] = ()


class Settings:
    """Settings files of one view; each is read once for it."""

    def __init__(self, lookup: Lookup) -> None:
        self._derived = lookup.derived
        self._read = lookup.sources.read
        self._with_name = lookup.sources.with_name
        self._exists = lookup.sources.exists

    def paths(self, folder: str) -> Iterator[Paths]:
        """Iterate over the aliases that hold in ``folder``, the nearest settings file first."""
        for at in _upwards(folder):
            found = self._derived_paths(at)
            if found != _NO_PATHS:
                yield found

    def _derived_paths(self, folder: str) -> Paths:
        return self._derived(("script paths", folder), lambda sources: self._paths_of(folder, sources))

    def package(self, folder: str) -> Package | None:
        """Return the package that ``folder`` is the root of."""
        return self._derived(("script package", folder), lambda _: self._package_in(folder))

    def _package_in(self, folder: str) -> Package | None:
        path = f"{folder}/package.json" if folder else "package.json"
        said = self._json(path) if self._exists(path) else None
        return _package(folder, said) if said is not None else None

    def package_around(self, folder: str) -> Package | None:
        """Return the package that ``folder`` belongs to."""
        return next((found for at in _upwards(folder) if (found := self.package(at)) is not None), None)

    def packages_named(self, name: str) -> list[Package]:
        """Return the members of workspaces that are called ``name``."""
        return self._derived("script workspace", lambda _: self._workspace()).get(name, [])

    def _workspace(self) -> dict[str, list[Package]]:
        found: dict[str, list[Package]] = {}
        for one in self._members():
            found.setdefault(one.name, []).append(one)
        return found

    def _members(self) -> list[Package]:
        folders = [posixpath.dirname(path) for path in self._with_name("package.json")[:_PACKAGES_MAX]]
        packages = [found for folder in folders if (found := self.package(folder)) is not None]
        patterns = [(one.folder, pattern) for one in packages for pattern in one.workspaces]
        for path in self._with_name(_PNPM)[:_PACKAGES_MAX]:
            patterns += ((posixpath.dirname(path), pattern) for pattern in self._pnpm(path))
        patterns = patterns[:_PATTERNS_MAX]
        globs = [
            re.compile(_glob(posixpath.normpath(posixpath.join(folder, pattern.rstrip("/")))))
            for folder, pattern in patterns
            if not pattern.startswith("!")
        ]
        roots = {folder for folder, _ in patterns}
        return [
            one
            for one in packages
            if one.name and (one.folder in roots or any(glob.fullmatch(one.folder) for glob in globs))
        ]

    def _pnpm(self, path: str) -> list[str]:
        """Return the patterns of ``pnpm-workspace.yaml``: the list below ``packages:``."""
        data = self._read(path)
        found: list[str] = []
        is_inside = False
        for line in data.decode("utf-8", "replace").splitlines() if data is not None else ():
            item = _YAML_ITEM.match(line)
            if is_inside and item is not None:
                found.append(item[1])
            elif line.strip() and not line.lstrip().startswith("#"):
                is_inside = line.startswith("packages:")
        return found

    def _paths_of(self, folder: str, _: Sources) -> Paths:
        for name in _CONFIG_NAMES:
            path = f"{folder}/{name}" if folder else name
            if self._exists(path):
                return self._config(path, _EXTENDS_MAX)
        return _NO_PATHS

    def _config(self, path: str, left: int) -> Paths:
        said = self._json(path)
        if said is None or left == 0:
            return _NO_PATHS
        folder = posixpath.dirname(path)
        found = _NO_PATHS
        bases = said.get("extends")
        for base in bases if isinstance(bases, list) else [bases]:
            place = self._extended(folder, base) if isinstance(base, str) else ""
            if place:
                inherited = self._config(place, left - 1)
                found = Paths(
                    inherited.aliases or found.aliases, found.base if inherited.base is None else inherited.base
                )
        options = said.get("compilerOptions")
        own = _own_paths(folder, options, found) if isinstance(options, dict) else found
        references = said.get("references")
        if own == _NO_PATHS and isinstance(references, list):
            for one in references[:_TARGETS_MAX]:
                said_place = one.get("path") if isinstance(one, dict) else None
                file = _joined(folder, said_place) if isinstance(said_place, str) else None
                if file is not None and file.endswith(".json") and self._exists(file) and own == _NO_PATHS:
                    own = self._config(file, left - 1)
        return own

    def _extended(self, folder: str, base: str) -> str:
        """Return the settings file that ``extends`` names; empty where the view does not have it."""
        if base.startswith((".", "/")):
            place = _joined(folder, base)
        else:
            name, inner = _split(base)
            packages = self.packages_named(name)
            place = _joined(packages[0].folder, inner or "tsconfig.json") if packages else None
        for ending in ("", ".json", "/tsconfig.json"):
            if place is not None and self._exists(place + ending) and (ending or place.endswith(".json")):
                return place + ending
        return ""

    def _json(self, path: str) -> dict[str, object] | None:
        data = self._read(path)
        if data is None:
            return None
        try:
            text = data.decode().removeprefix("\ufeff")
            said = msgspec.json.decode(_JSON_TOKEN.sub(_token, text))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return said if isinstance(said, dict) else None


_NO_PATHS: Final = Paths()


def _token(match: re.Match[str]) -> str:
    text = match[0]
    return text if text[0] == '"' else " "


def _upwards(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = posixpath.dirname(folder)
    yield ""


def _joined(folder: str, place: str) -> str | None:
    """Return ``place`` from ``folder``; None where it leaves the view."""
    found = posixpath.normpath(posixpath.join(folder, place))
    if found.startswith(("../", "/")) or found == "..":
        return None
    return "" if found == "." else found


def _split(specifier: str) -> tuple[str, str]:
    """Return the name of the package and the path in it."""
    parts = specifier.split("/", 2 if specifier.startswith("@") else 1)
    count = 2 if specifier.startswith("@") else 1
    return "/".join(parts[:count]), "/".join(parts[count:])


def _own_paths(folder: str, options: Mapping[str, object], inherited: Paths) -> Paths:
    base_url, paths = options.get("baseUrl"), options.get("paths")
    base = _joined(folder, base_url) if isinstance(base_url, str) else inherited.base
    if not isinstance(paths, dict):
        return Paths(inherited.aliases, base)
    root = base if base is not None else folder
    aliases: list[tuple[str, str, tuple[str, ...]]] = []
    for pattern, targets in list(paths.items())[:_PATTERNS_MAX]:
        if not isinstance(pattern, str) or not isinstance(targets, list):
            continue
        places = [_joined(root, one) for one in targets[:_TARGETS_MAX] if isinstance(one, str)]
        prefix, star, suffix = pattern.partition("*")
        aliases.append((prefix, suffix if star else "\0", tuple(place for place in places if place is not None)))
    # The longest prefix wins; a pattern without a star is whole.
    aliases.sort(key=lambda alias: (alias[1] != "\0", -len(alias[0])))
    return Paths(tuple(aliases), base)


def _package(folder: str, said: Mapping[str, object]) -> Package:
    name = said.get("name")
    entries = [said.get(key) for key in ("source", "types", "typings", "module", "main")]
    workspaces = said.get("workspaces")
    if isinstance(workspaces, dict):
        workspaces = workspaces.get("packages")
    patterns = workspaces if isinstance(workspaces, list) else []
    return Package(
        folder,
        name if isinstance(name, str) else "",
        tuple(one for one in entries if isinstance(one, str)),
        said.get("exports"),
        said.get("imports"),
        tuple(one for one in patterns if isinstance(one, str)),
    )


def _glob(pattern: str) -> str:
    """Return the regular expression of a pattern of folders."""
    parts: list[str] = []
    for part in pattern.split("/"):
        if part == "**":
            if not parts or parts[-1] != "(?:[^/]+/)*":
                parts.append("(?:[^/]+/)*")
        elif part != ".":
            parts.append("[^/]*".join(re.escape(piece) for piece in part.split("*")[:_NESTED_MAX]) + "/")
    return "".join(parts).removesuffix("/") if parts and parts[-1].endswith("/") else "".join(parts) + "[^/]+"
