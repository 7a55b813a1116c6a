"""Project root, kind of project, and the check commands that its own files name.

Nothing is run and nothing is trusted: a command that is found here is a proposal to a model, whose calls are judged like any other. Only
names that are known here are taken from files (``test``, not any script), so no text of a stranger gets into a command.
"""

from __future__ import annotations

__all__ = ["MARKERS", "Kind", "ProjectKind", "find_root", "is_home", "kind_of"]

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from periplus.base.errors import PeriplusError
from periplus.base.filesystem.confined_folder import Confined

FILE_BYTES_MAX: Final = 256 << 10
CHECKS_MAX: Final = 8
_LEVELS_MAX: Final = 64
MARKERS: Final = (
    "pyproject.toml", "setup.py", "setup.cfg", "package.json", "deno.json", "go.mod", "Cargo.toml", "pom.xml", "build.gradle",
    "build.gradle.kts", "Makefile", "justfile", "CMakeLists.txt", "Gemfile", "composer.json", "mix.exs", "Package.swift", "build.zig",
    "meson.build",
)  # fmt: skip
_REPOSITORY: Final = (".git", ".hg", ".jj")
_SCRIPTS: Final = ("test", "lint", "typecheck", "type-check", "check", "format:check", "build")
_TARGETS: Final = ("test", "tests", "check", "lint", "typecheck", "vet", "fmt-check")
_TARGET: Final = re.compile(r"^([A-Za-z][\w-]{0,30})(?:[ \t]+[^:=\n]{0,200})?:(?!=)", re.MULTILINE)
_RECIPE: Final = re.compile(r"^@?([A-Za-z][\w-]{0,30})(?:[ \t]+[^:=\n]{0,200})?:(?!=)", re.MULTILINE)


class ProjectKind(NamedTuple):
    """A kind of project. ``marker`` is the file that shows it; ``checks`` are commands, the simplest first."""

    name: str
    marker: str
    checks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """The kinds of a project, perhaps several."""

    kinds: tuple[ProjectKind, ...] = ()

    @property
    def checks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(check for kind in self.kinds for check in kind.checks))[:CHECKS_MAX]

    def line(self) -> str:
        """One line for the tail; empty if nothing is known."""
        if not self.kinds:
            return ""
        named = ", ".join(f"{kind.name} ({kind.marker})" for kind in self.kinds)
        checks = ", ".join(f"`{check}`" for check in self.checks)
        return f"{named}; its files name as checks: {checks}" if checks else named


def find_root(start: str, home: str) -> str:
    """Find the project of ``start``: the nearest folder (itself or above) that is a repository, else the highest with a marker file. Never
    the home folder or a folder above it, never the system's root; empty if there is none.
    """
    at, marked = os.path.realpath(start), ""
    for _ in range(_LEVELS_MAX):
        if is_home(at, home):
            break
        if any(os.path.lexists(os.path.join(at, name)) for name in _REPOSITORY):
            return at
        if any(os.path.isfile(os.path.join(at, name)) for name in MARKERS):
            marked = at
        at = os.path.dirname(at)
    return marked


def is_home(folder: str, home: str) -> bool:
    """Return whether a folder is the home folder or contains it; such a folder is not a project."""
    return os.path.realpath(folder) in (_above(os.path.realpath(home)) if home else {"/"})


def _above(folder: str) -> set[str]:
    found = {folder}
    while (folder := os.path.dirname(folder)) not in found:
        found.add(folder)
    return found


def kind_of(root: str) -> Kind:
    """Read the kind from the files in ``root``. Never raises; unreadable files say nothing."""
    try:
        folder = Confined(root)
    except PeriplusError:
        return Kind()
    with folder:
        look = _Look(folder)
        return Kind(tuple(kind for find in _KINDS for kind in [find(look)] if kind is not None))


@dataclass(slots=True)
class _Look:
    """The files of one folder, each read at most once."""

    folder: Confined
    _texts: dict[str, str] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        try:
            entry = self.folder.stat(name)
        except PeriplusError:
            return False
        return entry is not None and entry.kind == "file"

    def first(self, names: Iterable[str]) -> str:
        return next((name for name in names if self.has(name)), "")

    def is_folder(self, name: str) -> bool:
        try:
            entry = self.folder.stat(name)
        except PeriplusError:
            return False
        return entry is not None and entry.kind == "folder"

    def text(self, name: str) -> str:
        """Text of a file; empty if it cannot be read or is too long."""
        if name not in self._texts:
            self._texts[name] = self._read(name)
        return self._texts[name]

    def _read(self, name: str) -> str:
        try:
            entry = self.folder.stat(name)
            if entry is None or entry.kind != "file" or entry.size > FILE_BYTES_MAX:
                return ""
            with self.folder.opened(name) as fd:
                data = os.read(fd, FILE_BYTES_MAX + 1)
        except (OSError, PeriplusError):
            return ""
        return data.decode("utf-8", "replace") if len(data) <= FILE_BYTES_MAX else ""

    def table(self, name: str) -> Mapping[str, Any]:
        """A TOML or JSON file; empty if it is not one."""
        import json
        import tomllib

        try:
            found = json.loads(self.text(name)) if name.endswith(".json") else tomllib.loads(self.text(name))
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


def _inner(table: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    at: Any = table
    for name in names:
        at = at.get(name) if isinstance(at, Mapping) else None
    return at if isinstance(at, Mapping) else {}


def _python(look: _Look) -> ProjectKind | None:
    marker = look.first(("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"))
    if not marker:
        return None
    tools = _inner(look.table("pyproject.toml"), "tool")
    lead = "uv run " if look.has("uv.lock") else "poetry run " if look.has("poetry.lock") else ""
    checks = []
    if (
        "pytest" in tools or look.has("pytest.ini") or look.has("conftest.py") or "[tool:pytest]" in look.text("setup.cfg")
        or "[pytest]" in look.text("tox.ini") or (look.is_folder("tests") and "pytest" in look.text(marker))
    ):  # fmt: skip
        checks.append(f"{lead}pytest")
    elif look.is_folder("tests") or look.is_folder("test"):
        checks.append(f"{lead}python -m unittest discover")
    if "ruff" in tools or look.has("ruff.toml"):
        checks.append(f"{lead}ruff check")
    if "mypy" in tools or look.has("mypy.ini"):
        checks.append(f"{lead}mypy")
    if look.has("tox.ini") and "[tox]" in look.text("tox.ini"):
        checks.append("tox")
    if look.has("noxfile.py"):
        checks.append("nox")
    return ProjectKind("python", marker, tuple(checks))


def _node(look: _Look) -> ProjectKind | None:
    if not look.has("package.json"):
        return None
    table = look.table("package.json")
    scripts = _inner(table, "scripts")
    said = str(table.get("packageManager", "")).partition("@")[0]
    by_lock = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}
    manager = said if said in ("npm", "pnpm", "yarn", "bun") else by_lock.get(look.first(by_lock), "npm")
    known = [
        name for name in _SCRIPTS if isinstance(scripts.get(name), str) and "no test specified" not in scripts[name]
    ]
    checks = tuple(
        f"{manager} test" if name == "test" and manager != "bun" else f"{manager} run {name}" for name in known
    )
    return ProjectKind("node", "package.json", checks)


def _deno(look: _Look) -> ProjectKind | None:
    marker = look.first(("deno.json", "deno.jsonc"))
    return ProjectKind("deno", marker, ("deno test", "deno lint")) if marker else None


def _go(look: _Look) -> ProjectKind | None:
    return ProjectKind("go", "go.mod", ("go test ./...", "go vet ./...")) if look.has("go.mod") else None


def _rust(look: _Look) -> ProjectKind | None:
    return ProjectKind("rust", "Cargo.toml", ("cargo test", "cargo check")) if look.has("Cargo.toml") else None


def _java(look: _Look) -> ProjectKind | None:
    if look.has("pom.xml"):
        return ProjectKind("java", "pom.xml", ("./mvnw verify" if look.has("mvnw") else "mvn verify",))
    marker = look.first(("build.gradle", "build.gradle.kts"))
    if not marker:
        return None
    return ProjectKind("java", marker, ("./gradlew check" if look.has("gradlew") else "gradle check",))


def _make(look: _Look) -> ProjectKind | None:
    marker = look.first(("GNUmakefile", "makefile", "Makefile"))
    if not marker:
        return None
    targets = set(_TARGET.findall(look.text(marker)))
    return ProjectKind("make", marker, tuple(f"make {name}" for name in _TARGETS if name in targets))


def _just(look: _Look) -> ProjectKind | None:
    marker = look.first(("justfile", "Justfile", ".justfile"))
    if not marker:
        return None
    recipes = set(_RECIPE.findall(look.text(marker)))
    return ProjectKind("just", marker, tuple(f"just {name}" for name in _TARGETS if name in recipes))


def _ruby(look: _Look) -> ProjectKind | None:
    if not look.has("Gemfile"):
        return None
    checks = (
        ("bundle exec rspec",) if look.is_folder("spec") else ("bundle exec rake test",) if look.has("Rakefile") else ()
    )
    return ProjectKind("ruby", "Gemfile", checks)


def _php(look: _Look) -> ProjectKind | None:
    if not look.has("composer.json"):
        return None
    scripts = _inner(look.table("composer.json"), "scripts")
    return ProjectKind(
        "php", "composer.json", tuple(f"composer {name}" for name in ("test", "lint") if name in scripts)
    )


def _of(name: str, marker: str, *checks: str) -> Callable[[_Look], ProjectKind | None]:
    return lambda look: ProjectKind(name, marker, checks) if look.has(marker) else None


_KINDS: Final[tuple[Callable[[_Look], ProjectKind | None], ...]] = (
    _python, _node, _deno, _go, _rust, _java, _ruby, _php, _of("elixir", "mix.exs", "mix test"),
    _of("swift", "Package.swift", "swift test"), _of("zig", "build.zig", "zig build test"),
    _of("cmake", "CMakeLists.txt", "ctest --test-dir build"), _of("meson", "meson.build", "meson test -C build"), _make, _just,
)  # fmt: skip
