"""Types as annotations of Python write them, taken apart by their text."""

from __future__ import annotations

__all__ = ["named_type", "names_of_type"]

import re
from functools import lru_cache
from typing import Final

from periplus.code.model import CALL, LIST

_TEXT_MAX: Final = 300
_DEPTH_MAX: Final = 6
_DOTTED: Final = re.compile(r"[A-Za-z_][\w.]*\Z")
_GENERIC: Final = re.compile(r"([A-Za-z_][\w.]*)\[(.*)\]\Z", re.DOTALL)
_TRANSPARENT: Final = frozenset(
    "Optional ClassVar Final Annotated Required NotRequired ReadOnly InitVar Awaitable Coroutine TypeGuard TypeIs Unpack".split()
)
_COLLECTIONS: Final = frozenset(
    "list List set Set frozenset FrozenSet AbstractSet MutableSet tuple Tuple deque Deque Sequence MutableSequence Collection Iterable "
    "Iterator Generator AsyncIterable AsyncIterator AsyncGenerator Reversible Container KeysView ValuesView".split()
)
_MAPPINGS: Final = frozenset(
    "dict Dict Mapping MutableMapping defaultdict DefaultDict OrderedDict ChainMap WeakValueDictionary".split()
)
_VAGUE: Final = frozenset("Any Callable Literal LiteralString Never NoReturn Type type Counter".split())
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z_0-9.,|\[\] \n\"']*\Z")
_NAMES: Final = re.compile(r"[A-Za-z_][A-Za-z_0-9]*(?:\.[A-Za-z_][A-Za-z_0-9]*)*")
_WITH_VALUES: Final = re.compile(r"\b(?:Literal|Annotated)\b")
_KEYWORDS: Final = frozenset("None True False if else and or not in is for lambda await yield".split())
_OPAQUE: Final = frozenset({"None", "Any", "object", "...", ""})


@lru_cache(maxsize=1 << 14)
def named_type(text: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the dotted name of the class that the annotation ``text`` names, and the steps from the class to the value: a call for an
    instance, LIST after it for a collection or mapping of instances. None where no single class is named.
    """
    return _named(text, 0) if len(text) <= _TEXT_MAX else None


@lru_cache(maxsize=1 << 14)
def names_of_type(text: str) -> tuple[tuple[int, str], ...] | None:
    """Return the dotted names in the annotation ``text``, those in its strings too, with their places. None where it takes a parser: other
    characters than those of plain types, or values in brackets.
    """
    if len(text) >= _TEXT_MAX or _PLAIN.match(text) is None or _WITH_VALUES.search(text) is not None:
        return None
    found = tuple((match.start(), match[0]) for match in _NAMES.finditer(text) if match[0] != "None")
    return found if not any(name in _KEYWORDS for _, name in found) else None


def _named(text: str, depth: int) -> tuple[str, tuple[str, ...]] | None:
    text = text.strip().strip("\"'").strip()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    if _DOTTED.match(text):
        return (text, (CALL,)) if text.rpartition(".")[2] not in _VAGUE | _OPAQUE else None
    if depth >= _DEPTH_MAX:
        return None
    parts = _split(text, "|")
    if len(parts) > 1:
        return _first(parts, depth)
    found = _GENERIC.match(text)
    if found is None:
        return None
    name, inside = found.groups()
    simple = name.rpartition(".")[2]
    arguments = _split(inside, ",")
    if simple == "Union":
        return _first(arguments, depth)
    if simple in _TRANSPARENT:
        return _named(arguments[-1 if simple == "Coroutine" else 0], depth + 1)
    if simple in ("type", "Type"):
        of = _named(arguments[0], depth + 1)
        return (of[0], ()) if of is not None and of[1] == (CALL,) else None
    if simple in _VAGUE:
        return None
    if simple in _COLLECTIONS or simple in _MAPPINGS:
        element = _named(arguments[-1 if simple in _MAPPINGS else 0], depth + 1)
        if element is None or element[1] != (CALL,):
            return None
        return element[0], (CALL, LIST)
    return name, (CALL,)


def _first(parts: list[str], depth: int) -> tuple[str, tuple[str, ...]] | None:
    """Return the first of alternatives that names a class."""
    return next((found for part in parts if (found := _named(part, depth + 1)) is not None), None)


def _split(text: str, separator: str) -> list[str]:
    """Split at ``separator`` outside of brackets."""
    if "[" not in text:
        return text.split(separator)
    parts: list[str] = []
    level = begun = 0
    for at, character in enumerate(text):
        if character in "[(":
            level += 1
        elif character in "])":
            level -= 1
        elif character == separator and level == 0:
            parts.append(text[begun:at])
            begun = at + 1
    return [*parts, text[begun:]]
