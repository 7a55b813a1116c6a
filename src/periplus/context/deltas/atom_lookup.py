"""Single atoms of an expansion, and its molecules, without the rest of it.

A store that can look an identity up says so by having ``find`` and ``molecule_table`` (``Finder``). For any other the deltas are
walked back from the context, newest first, until every identity asked for was met; where that would go on for longer than reading
the expansion, the expansion is read instead.
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
    """The part of a store that is enough to compare contexts."""

    def header(self, digest: bytes) -> ContextHeader: ...

    def context(self, digest: bytes) -> Context: ...

    def expand(self, digest: bytes) -> Expansion: ...


@runtime_checkable
class Finder(Protocol):
    """What a store has that looks identities up by itself."""

    def find(self, digest: bytes, identities: Iterable[bytes]) -> dict[bytes, Entry]:
        """Those of ``identities`` that are in the expansion of the context ``digest``."""
        ...

    def molecule_table(self, digest: bytes) -> MoleculeTable:
        """The molecules of the context ``digest``, in a table that is the caller's."""
        ...


def find(store: Reader, digest: bytes | None, identities: Iterable[bytes]) -> dict[bytes, Entry]:
    """Those of ``identities`` that are in the expansion of the context ``digest`` (None: of nothing)."""
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
    """Move what this delta says of ``wanted`` into ``found``; what it removes was not there any more."""
    delta = store.context(header.digest)
    for atom in delta.atoms:
        identity = atom_digest(atom)
        if identity in wanted:
            wanted.remove(identity)
            found[identity] = Entry(identity, atom, header.digest)
    wanted.difference_update(delta.removed)


def molecule_table(store: Reader, digest: bytes | None) -> MoleculeTable:
    """The molecules of the context ``digest`` (None: of nothing), in a table that is the caller's."""
    if digest is None:
        return MoleculeTable()
    if isinstance(store, Finder):
        return store.molecule_table(digest)
    headers = list(islice(chain(store, digest), WALKED_CONTEXTS_MAX))
    if headers[-1].base is None and not any(header.molecule_count for header in headers):
        return MoleculeTable()
    expansion = store.expand(digest)
    return MoleculeTable(expansion.molecules, expansion.broken)
