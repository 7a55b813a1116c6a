"""Attributes ``linguist-generated`` and ``linguist-vendored`` of files, from the project's ``.gitattributes`` files.

Follows gitattributes(5): the file nearest to a path counts more than those above it, in a file the last line that matches
counts, for each attribute apart. A pattern without a slash matches the name, one with a slash the path from the folder of
its file; ``**`` stands for any number of folders; a pattern for a folder says nothing of the files in it. ``-name`` and
``name=false`` say no, ``!name`` takes back what was said, ``[attr]`` defines a macro in the topmost file.

Files made by somebody else cost a bounded time. Only lines with one of the two attributes are kept. Patterns for a name, a
suffix or a whole path are looked up. RULES_MAX others are compared, none longer than PATTERN_BYTES_MAX, and for one path
only the last ones, which together cost at most COMPARED_MAX comparisons of names; so a path's answer never depends on others.
"""

from __future__ import annotations

__all__ = ["ATTRIBUTES_NAME", "BYTES_MAX", "RULES_MAX", "Attributes", "FileAttributes"]

import re
from collections.abc import Iterable, Mapping
from glob import escape
from typing import Final, TypeVar

from periplus.base.named_tuple import NamedTuple
from periplus.base.text.path_globs import names_match

ATTRIBUTES_NAME: Final = ".gitattributes"
BYTES_MAX: Final = 1 << 20
LINE_BYTES_MAX: Final = 2_048  # as git
LOOKED_UP_MAX: Final = 20_000
RULES_MAX: Final = 200
PATTERN_BYTES_MAX: Final = 256
COMPARED_MAX: Final = 5_000
MACROS_MAX: Final = 100
_Key = TypeVar("_Key")
_GENERATED: Final = "linguist-generated"
_VENDORED: Final = "linguist-vendored"
_MACRO: Final = "[attr]"
_WILD: Final = re.compile(r"[*?\[\\]")
_SUFFIX: Final = re.compile(r"\*(\.[^*?\[\\/]+)")
_NOT_AS_FNMATCH: Final = re.compile(r"\\(.)|\[\^", re.DOTALL)
_SET: Final = re.compile(r"\\.|\[[!^]?(?:\\.|[^\\])(?:\\.|[^\]\\])*\]", re.DOTALL)
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE: Final = re.compile(rb"\\([0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPED: Final = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


class FileAttributes(NamedTuple):
    """Attributes of one file; None where nothing is said."""

    is_generated: bool | None = None
    is_vendored: bool | None = None


class _Said(NamedTuple):
    """One word about an attribute or a macro. ``place`` is that of its file, line and word: the greatest counts."""

    place: tuple[int, int, int]
    is_on: bool | None


class _Rule(NamedTuple):
    base: tuple[str, ...]
    names: tuple[str, ...]
    start: str  # the beginning of the path, as far as it has no wildcards
    said: Mapping[str, _Said]


class Attributes:
    """The attributes of the files of a project.

    ``files`` are the contents of its ``.gitattributes`` files by their paths. ``left_out`` counts lines beyond a limit.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.left_out = 0
        self._exact: dict[str, dict[str, _Said]] = {}
        self._named: dict[tuple[str, str], dict[str, _Said]] = {}
        self._suffixed: dict[tuple[str, str], dict[str, _Said]] = {}
        self._rules: list[_Rule] = []
        self._macros: dict[str, dict[str, bool | None]] = {}
        self._bases: set[str] = set()
        self._looked_up = 0
        for path in sorted(files, key=lambda path: (path.count("/"), path)):
            self._read(_bytewise(path.removesuffix(ATTRIBUTES_NAME)), files[path][:BYTES_MAX])

    def of(self, path: str) -> FileAttributes:
        """Return the attributes of a file."""
        path = _bytewise(path)
        best: dict[str, _Said] = {}
        name = path.rpartition("/")[2]
        _improve(best, self._exact.get(path))
        for base in _folders(path):
            if base not in self._bases:
                continue
            _improve(best, self._named.get((base, name)))
            at = name.find(".")
            while at >= 0:
                _improve(best, self._suffixed.get((base, name[at:])))
                at = name.find(".", at + 1)
        if self._rules:
            names, left = path.split("/"), COMPARED_MAX
            for rule in reversed(self._rules):
                if not path.startswith(rule.start):
                    continue
                left -= len(names) * len(rule.names)
                if left < 0:
                    break
                if names_match(names[len(rule.base) :], rule.names):
                    _improve(best, rule.said)
        if self._macros:
            self._expand(best)
        generated, vendored = best.get(_GENERATED), best.get(_VENDORED)
        return FileAttributes(generated.is_on if generated else None, vendored.is_on if vendored else None)

    def _read(self, base: str, data: bytes) -> None:
        depth = base.count("/")
        lines = data.split(b"\n")
        if not base:
            for line in lines:
                if line.startswith(_MACRO.encode()):
                    self._define(line[len(_MACRO) :].decode("latin-1"))
        words = [b"linguist-", *(name.encode("latin-1") for name in self._macros)]
        for number, line in enumerate(lines):
            if len(line) <= LINE_BYTES_MAX and any(word in line for word in words):
                self._take(base, (depth, number), line.decode("latin-1").strip(" \t\r"))

    def _expand(self, best: dict[str, _Said]) -> None:
        """Add what macros stand for. A macro that is set counts where it was set last; one that was unset later does not count."""
        waiting = set(self._macros)
        while names := [name for name in waiting if name in best and best[name].is_on]:
            name = max(names, key=lambda name: best[name].place)
            waiting.discard(name)
            _improve(best, {inner: _Said(best[name].place, is_on) for inner, is_on in self._macros[name].items()})

    def _define(self, text: str) -> None:
        name, *words = text.split() or [""]
        said = self._states(words)
        if name and said and len(self._macros) < MACROS_MAX:
            self._macros[name] = dict(said)

    def _states(self, words: Iterable[str]) -> list[tuple[str, bool | None]]:
        """Return what ``words`` say of the two attributes, and of macros that set them, in their order."""
        said: list[tuple[str, bool | None]] = []
        for word in words:
            name, equals, value = word.lstrip("-!").partition("=")
            if name in (_GENERATED, _VENDORED) or name in self._macros:
                is_off = word[0] == "-" or (equals and (value == "false" or name in self._macros))
                said.append((name, None if word[0] == "!" else not is_off))
        return said

    def _take(self, base: str, place: tuple[int, int], line: str) -> None:
        if not line or line.startswith(("#", _MACRO)):
            return
        pattern, words = _pattern(line)
        said = {name: _Said((*place, at), is_on) for at, (name, is_on) in enumerate(self._states(words))}
        if not said or not pattern or pattern.startswith("!") or pattern.endswith("/"):
            return  # git refuses a negative pattern, and a folder has no attributes that its files inherit
        self._bases.add(base)
        is_path = "/" in pattern
        pattern = pattern.removeprefix("/")
        suffix = _SUFFIX.fullmatch(pattern)
        if _WILD.search(pattern) is None:
            if is_path:
                self._keep(self._exact, base + pattern, said)
            else:
                self._keep(self._named, (base, pattern), said)
        elif suffix is not None and not is_path:
            self._keep(self._suffixed, (base, suffix[1]), said)
        elif "[" in _SET.sub("", pattern):
            return  # with a set that does not end, git matches nothing
        elif len(self._rules) < RULES_MAX and len(pattern) <= PATTERN_BYTES_MAX:
            self._rules.append(_rule(base, pattern, said, is_path=is_path))
        else:
            self.left_out += 1

    def _keep(self, table: dict[_Key, dict[str, _Said]], key: _Key, said: Mapping[str, _Said]) -> None:
        if self._looked_up >= LOOKED_UP_MAX:
            self.left_out += 1
            return
        self._looked_up += 1
        _improve(table.setdefault(key, {}), said)


def _bytewise(path: str) -> str:
    """Return a path with a character for each byte, as git matches it. All texts here are of this kind."""
    return path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("latin-1")


def _improve(best: dict[str, _Said], said: Mapping[str, _Said] | None) -> None:
    for name, one in (said or {}).items():
        if name not in best or best[name].place < one.place:
            best[name] = one


def _folders(path: str) -> Iterable[str]:
    """Return the folders of a path with "/" at their ends, the empty one first."""
    yield ""
    at = path.find("/")
    while at >= 0:
        yield path[: at + 1]
        at = path.find("/", at + 1)


def _pattern(line: str) -> tuple[str, list[str]]:
    """Return the pattern of a line, which may be quoted as in C, and the words after it."""
    quoted = _QUOTED.match(line)
    if quoted is not None:
        held = quoted[1].encode("latin-1")
        return _ESCAPE.sub(_unescaped, held).decode("latin-1"), line[quoted.end() :].split()
    first, *words = line.split()
    return first, words


def _unescaped(found: re.Match[bytes]) -> bytes:
    said = found[1]
    return bytes((int(said, 8),)) if len(said) == 3 else _ESCAPED.get(said, said)


def _rule(base: str, pattern: str, said: Mapping[str, _Said], *, is_path: bool) -> _Rule:
    folders = tuple(base.split("/")[:-1])
    parts = [part for part in pattern.split("/") if part]
    plain = []
    for part in parts[:-1]:
        if _WILD.search(part):
            break
        plain.append(part)
    names = [part if part == "**" else _as_fnmatch(part) for part in parts]
    if not is_path:
        names.insert(0, "**")
    if names[-1] == "**":
        names.append("*")  # a file in that folder, not one of its name
    return _Rule(folders, tuple(names), base + "".join(f"{part}/" for part in plain), said)


def _as_fnmatch(name: str) -> str:
    """Write a part of a pattern for ``fnmatch``: without backslashes, and ``[!…]`` for ``[^…]``."""
    return _NOT_AS_FNMATCH.sub(lambda found: "[!" if found[1] is None else escape(found[1]), name)
