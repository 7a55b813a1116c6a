"""The names that version 1 of the protocol had for atoms and contexts: 16 hexadecimal digits of an untagged hash.

They are kept for peers that know no others, in an index of aliases that can be made again at any time; nothing is ever stored,
compared or proved by them. An alias can mean two things: 64 bits of a hash over content and type without a border between them
are met by chance or on purpose. Whoever resolves one has to say so where it does.
"""

from __future__ import annotations

__all__ = ["ALIAS_CHARACTERS", "atom_alias", "context_alias", "context_alias_of", "is_alias"]

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from periplus.context.model import Atom, Context

ALIAS_CHARACTERS: Final = 16
_ROOT: Final = "ROOT"
_HEX: Final = frozenset("0123456789abcdef")


def is_alias(text: str) -> bool:
    """Whether ``text`` has the form of an alias: 16 hexadecimal digits, lower case."""
    return len(text) == ALIAS_CHARACTERS and _HEX.issuperset(text)


def atom_alias(atom: Atom) -> str:
    """Of the content, then the print of the type."""
    return _short(atom.content + atom.type)


def context_alias(base: str | None, atoms: Iterable[str]) -> str:
    """Of the alias of the base (of the word ROOT where there is none), then those of the atoms, in the order given."""
    return _short("".join([base or _ROOT, *atoms]))


def context_alias_of(context: Context, base: str | None) -> str:
    """The alias of a context by the order in which its atoms stand; ``base`` is the alias of its base."""
    return context_alias(base, map(atom_alias, context.atoms))


def _short(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:ALIAS_CHARACTERS]
