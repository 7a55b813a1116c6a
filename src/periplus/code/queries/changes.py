"""Symbols that a diff touches: those whose lines changed, and those that are gone."""

from __future__ import annotations

__all__ = ["Touched", "touched_symbols"]

import os
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from periplus.base.errors import UsageError
from periplus.code.extraction.parse import parse_source
from periplus.code.languages.registry import row_of
from periplus.code.listing.git_process import Git, find_git
from periplus.code.listing.repository import find_repository
from periplus.code.queries.view import CodeView, SymbolId
from periplus.code.resolution.sources import KnownFile

FILES_MAX: Final = 5_000
_HUNK: Final = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


class Touched(NamedTuple):
    """``symbols`` stand in the worktree; ``removed`` stood in it at the revision. ``files`` changed."""

    symbols: tuple[SymbolId, ...]
    removed: tuple[SymbolId, ...]
    files: tuple[str, ...]


def touched_symbols(view: CodeView, revision: str, environment: Mapping[str, str]) -> Touched:
    """Return the symbols in which the worktree differs from ``revision``. Raises UsageError where git cannot compare them."""
    if revision.startswith("-"):
        raise UsageError(
            f"{revision!r} is no revision", safe="Nothing was changed.", mend="Name a commit or a branch: --diff main"
        )
    git, top = _git(view.root, environment)
    inside = os.path.relpath(os.path.realpath(view.root), top)
    listed = _ask(
        git,
        view.root,
        "diff",
        "--no-ext-diff",
        "--no-textconv",
        "--name-status",
        "--no-renames",
        "-z",
        "--relative",
        revision,
        "--",
    )
    words = listed.split(b"\0")
    changed = [(status, os.fsdecode(name)) for status, name in zip(words[::2], words[1::2], strict=False)]
    changed = [*changed, *((b"A", path) for path in view.untracked())][:FILES_MAX]
    symbols: list[SymbolId] = []
    removed: list[SymbolId] = []
    for status, path in changed:
        file = view.file(path)
        before = b"" if status == b"A" else _content(git, view.root, revision, path, inside)
        old = _known(path, before)
        if old is not None:
            removed += [SymbolId(path, name) for name in old.qualified if file is None or name not in file.qualified]
        if file is not None:
            symbols += _changed_in(view, file, old, before)
    return Touched(tuple(dict.fromkeys(symbols)), tuple(dict.fromkeys(removed)), tuple(path for _, path in changed))


def _changed_in(view: CodeView, file: KnownFile, old: KnownFile | None, before: bytes) -> list[SymbolId]:
    """Return the innermost symbols whose own text differs; the file itself where lines outside of all symbols do."""
    now = view.text(file.path)
    if old is None:
        return [SymbolId(file.path), *(SymbolId(file.path, name) for name in file.qualified)]
    lines = _changed_lines(before, now)
    found: list[SymbolId] = []
    for line in lines:
        inner = _innermost(file, line)
        found.append(SymbolId(file.path, file.definitions[inner].qualified) if inner >= 0 else SymbolId(file.path))
    return list(dict.fromkeys(found))


def _changed_lines(before: bytes, after: bytes) -> list[int]:
    """Return the lines of ``after`` that ``before`` has not; where lines were only removed, the line at that place."""
    import difflib

    old, new = before.split(b"\n"), after.split(b"\n")
    found: list[int] = []
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    matcher = difflib.SequenceMatcher(None, old[start : len(old) - end], new[start : len(new) - end], autojunk=True)
    for tag, _, _, low, high in matcher.get_opcodes():
        if tag != "equal":
            found += range(start + low + 1, start + max(high, low + 1) + 1)
    return [line for line in found if line <= len(new)]


def _innermost(file: KnownFile, line: int) -> int:
    best, size = -1, 1 << 60
    for number, one in enumerate(file.definitions):
        if one.start_line <= line <= one.end_line and one.end_line - one.start_line < size:
            best, size = number, one.end_line - one.start_line
    return best


def _known(path: str, data: bytes) -> KnownFile | None:
    if not data or row_of(path) is None:
        return None
    parsed = parse_source(path, data)
    return KnownFile(path, parsed.facts) if parsed.facts is not None else None


def _content(git: Git, root: str, revision: str, path: str, inside: str) -> bytes:
    full = path if inside == "." else f"{inside}/{path}"
    answer = git.ask(root, ("cat-file", "blob", f"{revision}:{full}"))[0]
    return b"" if answer.problem else answer.out


def _git(root: str, environment: Mapping[str, str]) -> tuple[Git, str]:
    root = os.path.realpath(root)
    repository = find_repository(root)
    program = find_git(environment)
    if repository is None or not program:
        raise UsageError(
            "a diff needs a git repository, and git",
            safe="Nothing was changed.",
            mend="Name paths or symbols: periplus code impact PATH",
        )
    return Git(program, environment, repository.top, repository.folder, repository.common), repository.top


def _ask(git: Git, root: str, *command: str) -> bytes:
    answer = git.ask(root, command)[0]
    if answer.problem:
        said = answer.said.decode("utf-8", "replace").strip().splitlines()
        raise UsageError(f"git cannot compare: {said[-1] if said else answer.problem}", safe="Nothing was changed.")
    return answer.out
