"""Includes of C and C++ resolved to files, and all files that one includes."""

from __future__ import annotations

__all__ = ["HEADERS", "Closure", "Found", "Includes"]

import json
import posixpath
from collections import deque
from typing import Any, Final, NamedTuple

from periplus.code.resolution.rules.clang_names import STANDARD_HEADERS
from periplus.code.resolution.rules.table import Lookup
from periplus.code.resolution.sources import Sources

HEADERS: Final = (".h", ".hh", ".hpp", ".hxx", ".inl", ".ipp", ".tpp", ".tcc", ".txx")
_FOLDERS: Final = ("include", "inc", "src", "lib", "source")
_SETTINGS: Final = ("compile_commands.json", "build/compile_commands.json", "out/compile_commands.json")
_COMMANDS_MAX: Final = 2_000
_INCLUDE_FOLDERS_MAX: Final = 200
_CLOSURE_FILES_MAX: Final = 3_000


class Found(NamedTuple):
    """The files that an include may bring. ``is_local`` where it is written as one of the project."""

    paths: tuple[str, ...] = ()
    is_proven: bool = False
    is_local: bool = False


class Closure(NamedTuple):
    """All files that one includes, itself first. ``is_complete`` where only headers from outside are missing."""

    paths: dict[str, None]
    is_complete: bool


class Includes:
    """Includes within one view; what was found is kept by the resolver."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._sources = lookup.sources

    def find(self, path: str, written: str) -> Found:
        """Return the files that ``written``, with its quotes or brackets, brings into the file ``path``."""
        folder = posixpath.dirname(path) if written.startswith('"') else ""
        return self._lookup.derived(("c include", folder, written), lambda _: self._find(folder, written))

    def closure(self, path: str) -> Closure:
        return self._lookup.derived(("c closure", path), lambda _: self._closure(path))

    def _closure(self, path: str) -> Closure:
        seen: dict[str, None] = {path: None}
        waiting = deque(seen)
        is_complete = True
        while waiting and len(seen) < _CLOSURE_FILES_MAX:
            at = waiting.popleft()
            file = self._sources.file(at)
            if file is None:
                is_complete = False
                continue
            for one in file.facts.imports:
                if one.module[:1] not in ('"', "<"):
                    continue
                found = self.find(at, one.module)
                is_complete = is_complete and bool(found.paths or not found.is_local)
                for inside in found.paths:
                    if inside not in seen:
                        seen[inside] = None
                        waiting.append(inside)
        return Closure(seen, is_complete and not waiting)

    def _find(self, folder: str, written: str) -> Found:
        name = written[1:-1].strip().replace("\\", "/")
        is_local = written.startswith('"')
        if not name or name.startswith("/") or "\0" in name:
            return Found(is_local=is_local)
        if is_local:
            beside = _inside(folder, name)
            if beside is not None and self._sources.exists(beside):
                return Found((beside,), is_proven=True, is_local=True)
        for place in self.folders:
            within = _inside(place, name)
            if within is not None and self._sources.exists(within):
                return Found((within,), is_proven=True, is_local=is_local)
        if not is_local and name in STANDARD_HEADERS:
            return Found()
        return self._anywhere(folder, name, is_local=is_local)

    def _anywhere(self, folder: str, name: str, *, is_local: bool) -> Found:
        """Return the files whose path ends with ``name``: the one, or the nearest of several."""
        plain = posixpath.normpath(name)
        while plain.startswith("../"):
            plain = plain[3:]
        ends = [
            path
            for path in self._sources.with_name(posixpath.basename(plain))
            if path == plain or path.endswith(f"/{plain}")
        ]
        if len(ends) <= 1:
            return Found(tuple(ends), is_proven=True, is_local=is_local)
        ranked = sorted(
            ends, key=lambda path: (-_shared(folder, path), not _is_include_folder(path, plain), path.count("/"), path)
        )
        if not is_local and not _shared(folder, ranked[0]) and not _is_include_folder(ranked[0], plain):
            return Found(is_local=is_local)
        return Found((ranked[0],), is_proven=False, is_local=is_local)

    @property
    def folders(self) -> tuple[str, ...]:
        return self._lookup.derived("c folders", _folders)


def _folders(sources: Sources) -> tuple[str, ...]:
    """Return the folders that the compiler is told to search, as far as ``compile_commands.json`` says; else ``include`` at the top."""
    found: dict[str, None] = {}
    for path in _SETTINGS:
        data = sources.read(path)
        if data is not None:
            found.update(dict.fromkeys(_told_folders(sources, data)))
    return tuple(found or ("include",))[:_INCLUDE_FOLDERS_MAX]


def _inside(folder: str, name: str) -> str | None:
    """Return the path of ``name`` in ``folder``; None where it leaves the project."""
    path = posixpath.normpath(posixpath.join(folder, name))
    return None if path.startswith(("../", "/")) or path == ".." else path


def _shared(folder: str, path: str) -> int:
    """Return how many folders two places share from the top."""
    count = 0
    for one, other in zip(folder.split("/"), path.split("/")[:-1], strict=False):
        if one != other:
            break
        count += 1
    return count if folder else 0


def _is_include_folder(path: str, name: str) -> bool:
    return posixpath.basename(path[: -len(name)].rstrip("/")) in _FOLDERS


def _told_folders(sources: Sources, data: bytes) -> list[str]:
    """Return the folders of ``-I`` in ``compile_commands.json`` that lie in the project; none where it is no such file."""
    try:
        commands: Any = json.loads(data)
    except (ValueError, RecursionError):
        return []
    found: dict[str, None] = {}
    root: str | None = None
    for one in commands[:_COMMANDS_MAX] if isinstance(commands, list) else ():
        if (
            not isinstance(one, dict)
            or not isinstance(one.get("directory"), str)
            or not isinstance(one.get("file"), str)
        ):
            continue
        directory = one["directory"].replace("\\", "/")
        file = posixpath.normpath(posixpath.join(directory, one["file"].replace("\\", "/")))
        root = root if root is not None and file.startswith(root) else _root_of(sources, file)
        if root is None:
            continue
        for folder in _flags(one):
            place = posixpath.normpath(posixpath.join(directory, folder)) + "/"
            if place.startswith(root):
                found[place[len(root) :].rstrip("/")] = None
    return list(found)


def _root_of(sources: Sources, file: str) -> str | None:
    """Return the folder of the project, with a slash, in which the absolute path ``file`` lies."""
    parts = file.split("/")
    for at in range(1, len(parts)):
        if sources.exists("/".join(parts[at:])):
            return "/".join(parts[:at]) + "/"
    return None


def _flags(command: dict[str, Any]) -> list[str]:
    words = command.get("arguments")
    if not isinstance(words, list):
        line = command.get("command")
        words = line.split() if isinstance(line, str) else []
    found: list[str] = []
    takes_next = False
    for word in words:
        if not isinstance(word, str):
            continue
        text = word.strip("\"'").replace("\\", "/")
        if takes_next:
            found.append(text)
            takes_next = False
        elif text in ("-I", "-isystem", "-iquote", "/I"):
            takes_next = True
        else:
            found += [text[len(flag) :] for flag in ("-I", "-isystem", "-iquote", "/I") if text.startswith(flag)][:1]
    return found
