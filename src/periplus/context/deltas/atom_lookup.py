"""Look up single atoms of an expansion, and its molecules, without reading the rest.

A store that supports look-ups by identity has ``find`` and ``molecule_table`` (``Finder``). For any other store the
deltas are walked back from the context, newest first, until every identity was found; if that would take longer than
reading the expansion, the expansion is read instead.
"""

from __future__ import annotations

__all__ = ["WALKED_ATOMS_MAX", "WALKED_CONTEXTS_MAX", "Finder", "Reader", "find", "molecule_table"]

from collections.abc import Iterable
from itertools import islice
from typing import Final, Protocol, runtime_checkable

from periplus.context.deltas.ancestry import chain
from periplus.context.deltas.molecule_table import MoleculeTable
from periplus.context.model import Context, ContextHeader, Entry, Expansion, atom_digest

WALKED_CONTEXTS_MAX: Final = 256
WALKED_ATOMS_MAX: Final = 65_536


class Reader(Protocol):
    """The part of a store that is needed to compare contexts."""

    def header(self, digest: bytes) -> ContextHeader: ...

    def context(self, digest: bytes) -> Context: ...

    def expand(self, digest: bytes) -> Expansion: ...


@runtime_checkable
class Finder(Protocol):
    """A store that looks up identities by itself."""

    def find(self, digest: bytes, identities: Iterable[bytes]) -> dict[bytes, Entry]:
        """Return those of ``identities`` that are in the expansion of the context ``digest``."""
        ...

    def molecule_table(self, digest: bytes) -> MoleculeTable:
        """Return a new table of the molecules of the context ``digest``, which the caller may change."""
        ...


def find(store: Reader, digest: bytes | None, identities: Iterable[bytes]) -> dict[bytes, Entry]:
    """Return those of ``identities`` that are in the expansion of the context ``digest`` (None: the empty context)."""
    wanted = set(identities)
    if digest is None or not wanted:
        return {}
    if isinstance(store, Finder):
        return store.find(digest, wanted)
    found: dict[bytes, Entry] = {}
    read = 0
    for number, header in enumerate(chain(store, digest)):
        read += header.atom_count + header.removed_count
        if number >= WALKED_CONTEXTS_MAX or read > WALKED_ATOMS_MAX:
            for entry in store.expand(header.digest).entries:
                if entry.digest in wanted:
                    found[entry.digest] = entry
            break
        if header.atom_count or header.removed_count:
            _take(store, header, wanted, found)
        if not wanted:
            break
    return found


def _take(store: Reader, header: ContextHeader, wanted: set[bytes], found: dict[bytes, Entry]) -> None:
    """Move the atoms of ``wanted`` that this delta sets into ``found``, and drop those that it removes."""
    delta = store.context(header.digest)
    for atom in delta.atoms:
        identity = atom_digest(atom)
        if identity in wanted:
            wanted.remove(identity)
            found[identity] = Entry(identity, atom, header.digest)
    wanted.difference_update(delta.removed)


def molecule_table(store: Reader, digest: bytes | None) -> MoleculeTable:
    """Return a new table of the molecules of the context ``digest`` (None: the empty context), which the caller may
    change.
    """
    if digest is None:
        return MoleculeTable()
    if isinstance(store, Finder):
        return store.molecule_table(digest)
    headers = list(islice(chain(store, digest), WALKED_CONTEXTS_MAX))
    if headers[-1].base is None and not any(header.molecule_count for header in headers):
        return MoleculeTable()
    expansion = store.expand(digest)
    return MoleculeTable(expansion.molecules, expansion.broken)
