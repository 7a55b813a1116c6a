"""Scopes: the files that a piece of work is about, so that two of them can be compared.

A scope is a path from the project's folder, or a glob of such paths, and perhaps a symbol behind a colon::

    src/auth                 that file or folder, with everything below it
    src/**/x_*.py            ** is any folders, also none; * and ? do not cross a /; [a-z] and [!a-z] are one character
    src/{auth,login}.py      one of several
    src/auth.py:Login.check  a symbol of that file, with those in it
    .                        everything

A scope covers everything below what it names. But a last name with an extension, such as ``auth.py`` or ``*.py``, is
a file, which has nothing below it: otherwise ``**/x.py`` would conflict with every file, which might be a folder that
holds an ``x.py``. A folder with such a name is written with a ``/`` behind it. A backslash takes the special meaning
from the character behind it.

*Theory of operation.* The question whether any path could match two scopes is decided exactly. Braces are expanded
first. The result is a row of parts, where one kind of part (``**`` in a path, ``*`` in a name) stands for any run and
every other for exactly one element. Two such rows are compared by the product of their two automata: a state is a
pair of positions, and since no automaton ever goes back, one pass over the first row with a bit for each position in
the second finds whether both ends can be reached together. The same pass runs over the names of a path and over the
characters of two names. That is exact because every part by itself stands for something: a part that no name can
match is refused when it is read. A name that is empty, ``.`` or ``..`` is not a name, and is left out of what a name
can be. Time is bounded by the product of the lengths, and those by the limits below.
"""

from __future__ import annotations

__all__ = [
    "SCOPES_MAX",
    "SCOPE_CHARACTERS_MAX",
    "Scope",
    "escaped",
    "first_overlap",
    "is_covered",
    "literal_scope",
    "overlap",
    "parse_scope",
    "parse_scopes",
]

import functools
import itertools
from collections.abc import Callable, Hashable, Sequence
from typing import Final, TypeAlias

from periplus.base.errors import UsageError
from periplus.base.named_tuple import NamedTuple

SCOPE_CHARACTERS_MAX: Final = 500
SCOPES_MAX: Final = 100
ALTERNATIVES_MAX: Final = 64
WILD_CHARACTERS_MAX: Final = (
    2_000  # for the globs of one set, braces expanded: two sets are compared in a fraction of a second
)
_DEPTH_MAX: Final = 64
_BRACES_MAX: Final = 8
_EXTENSION_MAX: Final = 10
_CHARACTER_MAX: Final = 0x10FFFF
_SPECIAL: Final = frozenset("\\*?[]{}:")
_SYMBOL_END: Final = (".", "::", "#")

# A part that stands for one character: the code points that it may be, as ranges. None stands for any run.
_Ranges: TypeAlias = tuple[tuple[int, int], ...]
_Name: TypeAlias = "str | tuple[_Ranges | None, ...]"  # a plain name, or the parts of a pattern
_Path: TypeAlias = "tuple[_Name | None, ...]"
_ANY: Final[_Ranges] = ((1, 46), (48, _CHARACTER_MAX))  # all but NUL and /


class Scope(NamedTuple):
    """``text`` is the normalised spelling. ``paths`` are its patterns with braces expanded: names, and None for
    ``**``, which also stands at the end of a pattern that covers everything below it.
    """

    text: str
    paths: tuple[_Path, ...]
    symbol: tuple[str, ...] = ()

    @property
    def is_wild(self) -> bool:
        return any(_is_wild(path) for path in self.paths)


def parse_scope(text: str) -> Scope:
    """Read one scope. Raises UsageError for a text that names nothing within the project, or is too large."""
    if not text.strip():
        raise _refused(text, "it is empty", "Write . for the whole project.")
    if any("\0" < character < " " for character in text):
        # Others read a scope as one line of text; existing paths may hold anything, see ``literal_scope``.
        raise _refused(text, "it holds a character that a line of text has not", "Name the folder that it lies in.")
    return _read(text)


def _read(text: str) -> Scope:
    if len(text) > SCOPE_CHARACTERS_MAX:
        raise _refused(text, f"it has {len(text):,} characters; the limit is {SCOPE_CHARACTERS_MAX}")
    if any(character == "\0" or 0xD800 <= ord(character) < 0xE000 for character in text):
        raise _refused(text, "it holds a character that no path of a project has")
    pattern, symbol = _without_symbol(text)
    spelled: list[str] = []
    paths: dict[_Path, None] = {}
    for alternative in _alternatives(text, pattern):
        names, path = _path(text, alternative)
        if symbol and not path:
            raise _refused(text, "a symbol lies in a file, not in the whole project")
        is_file = bool(symbol) or (_has_extension(names[-1:]) and not alternative.endswith("/"))
        is_marked = _has_extension(names[-1:]) and not is_file
        spelled.append("/".join(names) + "/" * is_marked or ".")
        paths[path if is_file else _below(path)] = None
    plain = spelled[0] if len(spelled) == 1 else _spelling(pattern)
    return Scope(f"{plain}:{symbol}" if symbol else plain, tuple(paths), _symbol(text, symbol))


def parse_scopes(texts: Sequence[str]) -> tuple[Scope, ...]:
    """Read the scopes of one claim, each once, in their order. Raises UsageError, also where they are too many."""
    if len(texts) > SCOPES_MAX:
        raise UsageError(f"{len(texts):,} scopes; the limit is {SCOPES_MAX}", safe="Nothing was written.",
                         mend="Name the folder that holds them.")  # fmt: skip
    scopes = tuple({scope.text: scope for scope in map(parse_scope, texts)}.values())
    globs = [path for scope in scopes for path in scope.paths if _is_wild(path)]
    wild = sum(1 if name is None else len(name) for path in globs for name in path)
    if wild > WILD_CHARACTERS_MAX:
        raise UsageError(f"globs of {wild:,} characters at once; the limit is {WILD_CHARACTERS_MAX:,}", safe="Nothing was written.",
                         mend="Name the folder that holds them.")  # fmt: skip
    return scopes


def literal_scope(path: str, *, is_file: bool = False) -> Scope:
    """Return the scope of just this path, with everything below it unless it ``is_file``. The path may hold any
    character of a file system, a newline too: a question about an existing file is always answered. Raises
    UsageError for what is not a path.
    """
    scope = _read(escaped(path))
    return scope._replace(paths=(_plain(scope.paths[0]),)) if is_file else scope


def escaped(path: str) -> str:
    """Return a path as a scope: with a backslash before each special character."""
    return "".join(f"\\{character}" if character in _SPECIAL else character for character in path)


def overlap(first: Scope, second: Scope) -> bool:
    """Return True where any path, or symbol in one, could belong to both."""
    shared = min(len(first.symbol), len(second.symbol))
    if first.symbol[:shared] != second.symbol[:shared]:
        return False
    return any(_paths_meet(one, other) for one in first.paths for other in second.paths)


def first_overlap(first: Sequence[Scope], second: Sequence[Scope]) -> tuple[Scope, Scope] | None:
    """Return the first pair of the two sets that overlaps, or None."""
    return next(((one, other) for one in first for other in second if overlap(one, other)), None)


def is_covered(scope: Scope, by: Sequence[Scope]) -> bool:
    """Return True where everything in ``scope`` surely belongs to one of ``by``: the same text, or plain names below
    plain names.
    """
    for other in by:
        if other.text == scope.text:
            return True
        if other.is_wild or len(other.paths) > 1 or other.symbol:
            continue
        whole = _plain(other.paths[0])
        is_folder = whole != other.paths[0]
        if all(path[: len(whole)] == whole and (is_folder or path == whole) for path in scope.paths):
            return True
    return False


# -- reading ----------------------------------------------------------------------------------------------------------


def _refused(text: str, why: str, mend: str = "A scope is a path or a glob within the project.") -> UsageError:
    shown = text if len(text) <= 80 else f"{text[:79]}…"
    return UsageError(f"the scope {shown!r} is not valid: {why}", safe="Nothing was written.", mend=mend)


def _without_symbol(text: str) -> tuple[str, str]:
    """Split a scope at the first colon that is not escaped and not in a class: the pattern, and the symbol."""
    at = 0
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text[at] == "[":
            at = _class_end(text, at)
        elif text[at] == ":":
            if not text[at + 1 :]:
                raise _refused(text, "there is no symbol after the colon", "Write \\: for a colon in a name.")
            return text[:at], text[at + 1 :]
        else:
            at += 1
    return text, ""


def _symbol(text: str, symbol: str) -> tuple[str, ...]:
    if not symbol:
        return ()
    if any(character.isspace() or character in "/*?[]{}\\" for character in symbol):
        raise _refused(text, f"{symbol!r} is not a symbol", "Write \\: for a colon in a name.")
    for end in _SYMBOL_END:
        symbol = symbol.replace(end, "\0")
    parts = tuple(symbol.split("\0"))
    if not all(parts):
        raise _refused(text, "a part of its symbol is empty")
    return parts


def _class_end(text: str, at: int) -> int:
    """Return the end of the class that begins at ``at``. Raises UsageError where it is not closed."""
    end = at + 1
    if text[end : end + 1] == "!":
        end += 1
    first = end
    while end < len(text):
        if text[end] == "\\":
            end += 2
        elif text[end] == "]" and end > first:
            return end + 1
        else:
            end += 1
    raise _refused(text, "a [ is not closed", "Write \\[ for a bracket in a name.")


def _alternatives(text: str, pattern: str) -> list[str]:
    """Expand the braces of ``pattern``. Raises UsageError for more than ALTERNATIVES_MAX, or braces that do not
    match.
    """
    waiting: list[str] = [pattern]
    done: list[str] = []
    while waiting:
        if len(waiting) + len(done) > ALTERNATIVES_MAX:
            raise _refused(text, f"its braces stand for more than {ALTERNATIVES_MAX} patterns")
        one = waiting.pop(0)
        parts = _first_brace(text, one)
        if parts is None:
            done.append(one)
        else:
            waiting[:0] = parts
    return list(dict.fromkeys(done))


def _first_brace(text: str, pattern: str) -> list[str] | None:
    at, begin, depth = 0, -1, 0
    commas: list[int] = []
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            at += 2
            continue
        if character == "[":
            at = _class_end(pattern, at)
            continue
        if character == "{":
            depth += 1
            if depth > _BRACES_MAX:
                raise _refused(text, f"its braces are nested deeper than {_BRACES_MAX}")
            begin = at if begin < 0 else begin
        elif character == "," and depth == 1:
            commas.append(at)
        elif character == "}":
            depth -= 1
            if depth < 0:
                raise _refused(text, "a } has no matching {", "Write \\} for a brace in a name.")
            if depth == 0:
                cuts = [begin, *commas, at]
                head, tail = pattern[:begin], pattern[at + 1 :]
                return [head + pattern[low + 1 : high] + tail for low, high in itertools.pairwise(cuts)]
        at += 1
    if depth:
        raise _refused(text, "a { is not closed", "Write \\{ for a brace in a name.")
    return None


def _path(text: str, pattern: str) -> tuple[list[str], _Path]:
    """Return the names of a pattern as they are written and as they are matched."""
    if pattern.startswith("/"):
        raise _refused(text, "it is an absolute path", "Write it relative to the project's folder.")
    spelled: list[str] = []
    names: list[_Name | None] = []
    for written in _split(text, pattern):
        if written in ("", "."):
            continue
        name = None if written == "**" else _name(text, written)
        if name == "..":
            raise _refused(text, "it leads out of the folder that it is in", "Write it without `..`.")
        if name == ".":
            continue
        if name is None and names and names[-1] is None:
            continue
        if name is not None and not _names_meet(name, name):
            raise _refused(text, f"no name can match {written!r}")
        spelled.append(written)
        names.append(name)
    if len(names) > _DEPTH_MAX:
        raise _refused(text, f"it is more than {_DEPTH_MAX} folders deep")
    if not names and pattern.strip("./"):
        raise _refused(text, "it names nothing")
    return spelled, tuple(names)


def _split(text: str, pattern: str) -> list[str]:
    parts, begin, at = [], 0, 0
    while at < len(pattern):
        if pattern[at] == "\\":
            if pattern[at + 1 : at + 2] in ("", "/"):
                raise _refused(text, "nothing follows a backslash", "The folders of a path are separated by /.")
            at += 2
        elif pattern[at] == "[":
            end = _class_end(pattern, at)
            if "/" in pattern[at:end]:
                raise _refused(text, "a [ is not closed within its name", "Write \\[ for a bracket in a name.")
            at = end
        else:
            if pattern[at] == "/":
                parts.append(pattern[begin:at])
                begin = at + 1
            at += 1
    return [*parts, pattern[begin:]]


def _name(text: str, written: str) -> _Name:
    parts: list[_Ranges | None] = []
    plain: list[str] = []
    at = 0
    while at < len(written):
        character = written[at]
        if character == "*":
            if not parts or parts[-1] is not None:
                parts.append(None)
        elif character == "?":
            parts.append(_ANY)
        elif character == "[":
            end = _class_end(written, at)
            parts.append(_class(text, written[at + 1 : end - 1]))
            at = end
            continue
        else:
            at += character == "\\"
            plain.append(written[at])
            parts.append(((ord(written[at]), ord(written[at])),))
        at += 1
    return "".join(plain) if len(plain) == len(parts) else tuple(parts)


def _class(text: str, inside: str) -> _Ranges:
    is_negated = inside.startswith("!")
    members: list[tuple[str, bool]] = []  # each character, and whether it stands for itself alone
    at = 1 if is_negated else 0
    while at < len(inside):
        is_plain = inside[at] == "\\"
        at += is_plain
        members.append((inside[at], is_plain))
        at += 1
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(members):
        low = high = ord(members[at][0])
        if at + 2 < len(members) and members[at + 1] == ("-", False):
            high = ord(members[at + 2][0])
            if high < low:
                raise _refused(text, f"the range {members[at][0]}-{members[at + 2][0]} is empty")
            at += 2
        found.append((low, high))
        at += 1
    ranges = _meet(_complement(found) if is_negated else _sorted(found), _ANY)
    if not ranges:
        raise _refused(text, "a [ ] in it matches no character")
    return ranges


def _sorted(ranges: Sequence[tuple[int, int]]) -> _Ranges:
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return tuple(joined)


def _complement(ranges: Sequence[tuple[int, int]]) -> _Ranges:
    found, begin = [], 0
    for low, high in _sorted(ranges):
        if low > begin:
            found.append((begin, low - 1))
        begin = high + 1
    if begin <= _CHARACTER_MAX:
        found.append((begin, _CHARACTER_MAX))
    return tuple(found)


def _meet(first: _Ranges, second: _Ranges) -> _Ranges:
    found = []
    one = other = 0
    while one < len(first) and other < len(second):
        low, high = max(first[one][0], second[other][0]), min(first[one][1], second[other][1])
        if low <= high:
            found.append((low, high))
        if first[one][1] < second[other][1]:
            one += 1
        else:
            other += 1
    return tuple(found)


def _is_wild(path: _Path) -> bool:
    return any(not isinstance(name, str) for name in _plain(path))


def _below(path: _Path) -> _Path:
    return path if path and path[-1] is None else (*path, None)


def _plain(path: _Path) -> _Path:
    return path[:-1] if path and path[-1] is None else path


def _has_extension(names: Sequence[str]) -> bool:
    """Return True for a name, as it is written, like those of files: letters and digits after its last dot."""
    stem, point, extension = names[-1].rpartition(".") if names else ("", "", "")
    is_word = (
        extension.isascii() and extension.isalnum() and extension[:1].isalpha() and len(extension) <= _EXTENSION_MAX
    )
    return bool(stem.strip(".")) and bool(point) and is_word


def _spelling(pattern: str) -> str:
    """Return a pattern with braces as it was written, without parts that stand for nothing."""
    while "//" in pattern:
        pattern = pattern.replace("//", "/")
    while pattern.startswith("./"):
        pattern = pattern[2:]
    return pattern


# -- laying one against the other -------------------------------------------------------------------------------------


def _paths_meet(one: _Path, other: _Path) -> bool:
    """Return True where a path matches both."""
    for mine, yours in zip(one, other, strict=False):
        if not isinstance(mine, str) or not isinstance(yours, str):
            break
        if mine != yours:
            return False  # the common difference is found at once
    return _rows_meet(one, other, _names_meet)


def _rows_meet(
    first: Sequence[Hashable | None], second: Sequence[Hashable | None], is_met: Callable[..., bool]
) -> bool:  # fmt: skip
    """Return True where one run of elements matches both rows, in which None stands for any run. ``reached`` has a
    bit for each position in ``second`` that can be reached together with the present one in ``first``.
    """
    runs = sum(1 << at for at, part in enumerate(second) if part is None)
    whole = (1 << len(second) + 1) - 1
    taken: dict[Hashable, int] = {}
    reached = 1
    for part in first:
        reached |= (
            reached & runs
        ) << 1  # a run may be empty; two are adjacent only at the end, where it does not matter
        reached |= (reached & runs) << 1
        if part is None:
            if reached:
                reached |= whole & ~(
                    (reached & -reached) - 1
                )  # this run takes the elements of the other row, one by one
            continue
        steps = taken.get(part)
        if steps is None:
            steps = sum(1 << at for at, wanted in enumerate(second) if wanted is not None and is_met(part, wanted))
            taken[part] = steps
        reached = (reached & steps) << 1 | reached & runs
        if not reached:
            return False
    reached |= (reached & runs) << 1
    return bool(reached >> len(second) & 1)


@functools.lru_cache(maxsize=4096)
def _names_meet(one: _Name, other: _Name) -> bool:
    """Return True where a name matches both. Neither is ``**``."""
    if isinstance(one, str) and isinstance(other, str):
        return one == other
    first, second = _parts(one), _parts(other)
    fixed, open_one = (first, second) if None not in first else (second, first)
    if None in fixed or len(fixed) > 2:
        # Two that each hold a run match ever longer names, if they match any: so one that is neither empty, `.` nor `..`.
        return _rows_meet(fixed, open_one, _characters_meet)
    return any(
        _rows_meet((*fixed[:at], _meet(part, _NO_DOT), *fixed[at + 1 :]), open_one, _characters_meet)
        for at, part in enumerate(fixed)
        if part is not None and _meet(part, _NO_DOT)
    )


_NO_DOT: Final[_Ranges] = ((0, 45), (47, _CHARACTER_MAX))


def _parts(name: _Name) -> tuple[_Ranges | None, ...]:
    return tuple(((ord(one), ord(one)),) for one in name) if isinstance(name, str) else name


def _characters_meet(one: _Ranges, other: _Ranges) -> bool:
    return bool(_meet(one, other))
