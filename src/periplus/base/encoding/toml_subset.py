"""Parser of the small part of TOML that a settings file mostly uses. Loading ``tomllib`` takes longer than many
commands. Pure.

It reads comments, tables with a bare name, and keys with a plain string, a whole number or a truth value. All other
text, invalid TOML included, is left to ``tomllib``.
"""

from __future__ import annotations

__all__ = ["plain_tables"]

from typing import Final, TypeAlias

Plain: TypeAlias = str | int | bool
_BARE: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_DIGITS_MAX: Final = 18


def plain_tables(text: str) -> dict[str, object] | None:
    """Parse ``text`` to the result of ``tomllib.loads``; None where it needs the library."""
    found: dict[str, object] = {}
    into: dict[str, object] = found
    for line in text.split("\n"):
        if not line.replace("\t", " ").isprintable():
            return None
        line = line.strip(" \t")  # noqa: PLW2901 - the same line
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            name, bracket, rest = line[1:].partition("]")
            name = name.strip(" \t")
            if not bracket or not _is_bare(name) or name in found or not _is_rest(rest):
                return None
            into = found[name] = {}
            continue
        key, equals, said = line.partition("=")
        key, value = key.strip(" \t"), _value(said.strip(" \t"))
        if not equals or not _is_bare(key) or key in into or value is None:
            return None
        into[key] = value
    return found


def _is_bare(name: str) -> bool:
    return bool(name) and _BARE.issuperset(name)


def _is_rest(rest: str) -> bool:
    rest = rest.strip(" \t")
    return not rest or rest.startswith("#")


def _value(said: str) -> Plain | None:
    if said.startswith('"'):
        text, quote, rest = said[1:].partition('"')
        # An empty string, or the start of a multi-line one: the library decides.
        return text if quote and text and "\\" not in text and _is_rest(rest) else None
    word = said.partition("#")[0].rstrip(" \t")
    if word in ("true", "false"):
        return word == "true"
    if word.isascii() and word.isdigit() and len(word) <= _DIGITS_MAX and (word == "0" or word[0] != "0"):
        return int(word)
    return None
