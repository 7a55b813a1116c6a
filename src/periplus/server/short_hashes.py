"""Short hashes of version 1, for the store of one worker.

A context pushed by a version 1 peer has a ref, ``v1/<short hash>/<first half of the digest>``: its short hash depends on the
order in which its atoms were pushed, which is stored nowhere else, and the ref keeps it from being collected. All other contexts
with refs have the short hash of their atoms in order; these are computed when a version 1 peer first asks, and later as contexts
are added. Short hashes are not trusted: an ambiguous one is refused.
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
    """Return the ref that keeps a context pushed by a version 1 peer."""
    return f"{V1_REFS}{alias}/{digest.hex()[:32]}"


class AliasIndex:
    """Short hashes of the contexts of ``library``: derived, in memory, computed on demand."""

    def __init__(self, library: ContextLibrary) -> None:
        self._library = library
        self._alias_of: dict[bytes, str] = {}
        self._digests: dict[str, set[bytes]] = {}

    def context(self, alias: str) -> bytes:
        """Return the context for ``alias``. Raises Refused."""
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
        """Return the short hash of a context that a ref leads to."""
        if digest not in self._alias_of:
            self._learn(self._library.refs() | {"": digest})
        return self._alias_of[digest]

    def find_below(self, base: bytes, wanted: AbstractSet[str], found: dict[str, set[bytes]]) -> Iterator[None]:
        """Add the atoms of ``base`` that have one of the ``wanted`` short hashes to ``found``. Yields a rest every
        ATOMS_PER_REST.

        All of ``base`` is read, because an ambiguous hash is refused; only requested atoms are held.
        """
        for number, row in enumerate(self._library.ordered_rows(base), 1):
            alias = atom_alias(row.atom)
            if alias in wanted:
                found.setdefault(alias, set()).add(row.key[2])
            if number % ATOMS_PER_REST == 0:
                yield

    def _learn(self, refs: dict[str, bytes]) -> None:
        """Read all contexts that refs lead to, bases first; known ones are not read again."""
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
