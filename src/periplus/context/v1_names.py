"""Names of atoms and contexts in version 1 of the protocol: 16 hexadecimal digits of an untagged hash.

They are kept for peers that know no others, in an index of aliases that can be rebuilt at any time; nothing is stored,
compared or proved by them. An alias can be ambiguous: 64 bits of a hash over content and type without a separator
collide by chance or on purpose. Whoever resolves an alias must report an ambiguous one.
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
    """Return whether ``text`` has the form of an alias: 16 hexadecimal digits, lower case."""
    return len(text) == ALIAS_CHARACTERS and _HEX.issuperset(text)


def atom_alias(atom: Atom) -> str:
    """Return the alias of an atom, over its content followed by the print of its type."""
    return _short(atom.content + atom.type)


def context_alias(base: str | None, atoms: Iterable[str]) -> str:
    """Return the alias of a context, over the alias of its base (or the word ROOT) followed by those of its atoms, in
    the given order.
    """
    return _short("".join([base or _ROOT, *atoms]))


def context_alias_of(context: Context, base: str | None) -> str:
    """Return the alias of a context with its atoms in their order; ``base`` is the alias of its base."""
    return context_alias(base, map(atom_alias, context.atoms))


def _short(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:ALIAS_CHARACTERS]
