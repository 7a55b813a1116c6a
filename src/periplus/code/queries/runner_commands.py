"""The command that runs given tests, by the test runner of the project."""

from __future__ import annotations

__all__ = ["TestCommand", "commands_for"]

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from periplus.code.queries.view import CodeView, SymbolId

NAMES_MAX: Final = 60
_SCRIPT_RUNNERS: Final = ("vitest", "jest", "mocha", "ava")


class TestCommand(NamedTuple):
    """Words of a command, to be run in the root of the worktree. ``tests`` are those that it runs."""

    words: tuple[str, ...]
    tests: int


def commands_for(view: CodeView, tests: Sequence[SymbolId]) -> list[TestCommand]:
    """Return the commands that run ``tests``, one for each runner; whole files where there are more than NAMES_MAX names."""
    by_language: dict[str, list[SymbolId]] = defaultdict(list)
    for one in tests:
        file = view.file(one.path)
        if file is not None:
            by_language[_FAMILIES.get(file.facts.language, file.facts.language)].append(one)
    found = []
    for language, own in sorted(by_language.items()):
        words = _WORDS[language](view, own) if language in _WORDS else ()
        if words:
            found.append(TestCommand(tuple(words), len(own)))
    return found


def _files(tests: Sequence[SymbolId]) -> list[str]:
    return sorted({one.path for one in tests})


def _python(_view: CodeView, tests: Sequence[SymbolId]) -> list[str]:
    if len(tests) > NAMES_MAX:
        return ["python", "-m", "pytest", *_files(tests)]
    kept = {(one.path, one.name) for one in tests}
    whole = [one for one in tests if not any((one.path, outer) in kept for outer in _outer(one.name))]
    return ["python", "-m", "pytest", *(f"{one.path}::{one.name.replace('.', '::')}" for one in whole)]


def _outer(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:at]) for at in range(1, len(parts))]


def _script(view: CodeView, tests: Sequence[SymbolId]) -> list[str]:
    for runner in _SCRIPT_RUNNERS:
        if runner in _script_packages(view):
            return ["npx", runner, *(["run"] if runner == "vitest" else []), *_files(tests)]
    return ["node", "--test", *_files(tests)]


def _script_packages(view: CodeView) -> set[str]:
    try:
        package = json.loads(view.sources.read("package.json") or b"{}")
    except ValueError:
        return set()
    found: set[str] = set()
    if isinstance(package, dict):
        for key in ("dependencies", "devDependencies"):
            part = package.get(key)
            found |= set(part) if isinstance(part, dict) else set()
    return found


def _go(_view: CodeView, tests: Sequence[SymbolId]) -> list[str]:
    packages = sorted({f"./{path.rpartition('/')[0]}".rstrip("/") or "." for path in _files(tests)})
    names = sorted({re.escape(one.name.partition(".")[0]) for one in tests})
    chosen = ["-run", f"^({'|'.join(names)})$"] if len(names) <= NAMES_MAX else []
    return ["go", "test", *chosen, *packages]


def _rust(_view: CodeView, tests: Sequence[SymbolId]) -> list[str]:
    names = sorted({one.name.rpartition(".")[2] for one in tests})
    return ["cargo", "test", *(["--", *names] if len(names) <= NAMES_MAX else [])]


def _jvm(view: CodeView, tests: Sequence[SymbolId]) -> list[str]:
    if view.sources.exists("pom.xml"):
        names = sorted({one.name.replace(".", "#", 1) if "." in one.name else one.name for one in tests})
        return ["mvn", "test", f"-Dtest={','.join(names[:NAMES_MAX])}"]
    program = "./gradlew" if view.sources.exists("gradlew") else "gradle"
    names = sorted({f"*{one.name}" for one in tests})
    return [program, "test", *(word for name in names[:NAMES_MAX] for word in ("--tests", name))]


def _csharp(_view: CodeView, tests: Sequence[SymbolId]) -> list[str]:
    names = sorted({one.name for one in tests})[:NAMES_MAX]
    return ["dotnet", "test", "--filter", "|".join(f"FullyQualifiedName~{name}" for name in names)]


def _php(_view: CodeView, tests: Sequence[SymbolId]) -> list[str]:
    names = sorted({re.escape(one.name.rpartition(".")[2]) for one in tests})
    return ["vendor/bin/phpunit", "--filter", f"/({'|'.join(names[:NAMES_MAX])})/"]


def _ruby(_view: CodeView, tests: Sequence[SymbolId]) -> list[str]:
    files = _files(tests)
    if any(path.endswith("_spec.rb") for path in files):
        return ["bundle", "exec", "rspec", *files]
    return ["ruby", "-Itest", "-Ilib", "-e", "ARGV.each { |file| require File.expand_path(file) }", *files]


def _swift(_view: CodeView, tests: Sequence[SymbolId]) -> list[str]:
    names = sorted({one.name.replace(".", "/", 1) for one in tests})[:NAMES_MAX]
    return ["swift", "test", *(word for name in names for word in ("--filter", name))]


def _bash(_view: CodeView, tests: Sequence[SymbolId]) -> list[str]:
    return ["bats", *_files(tests)]


_FAMILIES: Final = {"typescript": "javascript", "kotlin": "java"}
_WORDS: Final = {
    "bash": _bash, "csharp": _csharp, "go": _go, "java": _jvm, "javascript": _script, "php": _php, "python": _python, "ruby": _ruby,
    "rust": _rust, "swift": _swift,
}  # fmt: skip
