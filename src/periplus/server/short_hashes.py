"""What the short hashes of version 1 stand for, in the store of one worker.

Contexts that version 1 peers pushed are known by a ref each, ``v1/<short hash>/<first half of the digest>``: their short hash goes by
the order in which their atoms were pushed, which nothing else has kept, and a ref keeps them from being collected. All others that refs
lead to have the short hash of their atoms in order; these are computed when a version 1 peer first asks, and then as contexts come.
Nothing is compared or believed by a short hash: one that means two things is refused.
"""

from __future__ import annotations

__all__ = ["ATOMS_PER_REST", "V1_REFS", "AliasIndex", "v1_ref"]

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from periplus.context.stores.library import ContextLibrary
from periplus.context.v1_names import atom_alias, context_alias_of, is_alias
from periplus.server.refusal import Refused

V1_REFS: Final = "v1/"
ATOMS_PER_REST: Final = 2_048


def v1_ref(alias: str, digest: bytes) -> str:
    """The ref under which a context stays that a version 1 peer pushed."""
    return f"{V1_REFS}{alias}/{digest.hex()[:32]}"


class AliasIndex:
    """Short hashes of the contexts of ``library``. Derived, kept in memory, and made as it is asked for."""

    def __init__(self, library: ContextLibrary) -> None:
        self._library = library
        self._alias_of: dict[bytes, str] = {}
        self._digests: dict[str, set[bytes]] = {}

    def context(self, alias: str) -> bytes:
        """The context that ``alias`` stands for. Raises Refused."""
        refs = self._library.refs()
        pushed = {target for name, target in refs.items() if name.startswith(f"{V1_REFS}{alias}/")}
        self._learn(refs)
        found = pushed | self._digests.get(alias, set())
        if not found:
            raise Refused("not_found", f"no context has the short hash {alias}")
        if len(found) > 1:
            raise Refused("ambiguous", f"{alias} stands for {len(found)} contexts")
        return next(iter(found))

    def alias_of(self, digest: bytes) -> str:
        """The short hash of a context that a ref leads to."""
        if digest not in self._alias_of:
            self._learn(self._library.refs() | {"": digest})
        return self._alias_of[digest]

    def find_below(self, base: bytes, wanted: AbstractSet[str], found: dict[str, set[bytes]]) -> Iterator[None]:
        """Put into ``found`` those atoms of ``base`` that have one of the ``wanted`` short hashes; a rest every ATOMS_PER_REST.

        All of ``base`` is looked at, for an alias that means two things is refused; no more is held than was asked for.
        """
        for number, row in enumerate(self._library.ordered_rows(base), 1):
            alias = atom_alias(row.atom)
            if alias in wanted:
                found.setdefault(alias, set()).add(row.key[2])
            if number % ATOMS_PER_REST == 0:
                yield

    def _learn(self, refs: dict[str, bytes]) -> None:
        """All contexts that refs lead to, bases first; what was learned before is not read again."""
        pushed = {}
        for name, target in refs.items():
            alias = name.removeprefix(V1_REFS).partition("/")[0]
            if name.startswith(V1_REFS) and is_alias(alias):
                pushed[target] = alias
        found: dict[bytes, int] = {}
        waiting = list(set(refs.values()) - self._alias_of.keys())
        while waiting:
            digest = waiting.pop()
            if digest not in found and digest not in self._alias_of:
                header = self._library.header(digest)
                found[digest] = header.depth
                waiting += [parent for parent in (header.base, *header.merged) if parent is not None]
        for digest in sorted(found, key=found.__getitem__):
            self._add(digest, pushed.get(digest))

    def _add(self, digest: bytes, pushed: str | None) -> None:
        context = self._library.context(digest)
        below = None if context.base is None else self._alias_of[context.base]
        alias = pushed or context_alias_of(context, below)
        self._alias_of[digest] = alias
        self._digests.setdefault(alias, set()).add(digest)
