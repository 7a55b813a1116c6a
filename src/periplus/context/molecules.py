"""Molecules under change: checked on entry, followed through the deltas of a chain, projected to a type.

What a delta does to the molecules of its base, in this order:

1. an atom that it removes is gone from each molecule. Where no relation stood on it, the molecule goes on *smaller*, its relations
   pointing to the new places, and is from then on another molecule with another digest. Where one did, or nothing would be left,
   the molecule is gone and reported as *broken*;
2. a molecule that it removes by digest (as it stood before the delta) is gone and not reported; the same ends the report of a
   broken one;
3. a molecule that it adds is there; one that is there already stays as it is.

So what a molecule is depends on the deltas in their order alone, and on nothing that comes later: an atom that comes back does
not come back into molecules that lost it.
"""

from __future__ import annotations

__all__ = [
    "MOLECULE_ATOMS_MAX",
    "MOLECULE_PAIRS_MAX",
    "RELATION_NAME_BYTES_MAX",
    "MoleculeTable",
    "checked_molecule",
    "without",
]

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import msgspec

from periplus.base.canonical import check
from periplus.base.errors import UsageError
from periplus.context.model import BrokenMolecule, Molecule, molecule_digest

MOLECULE_ATOMS_MAX: Final = 65_536
MOLECULE_PAIRS_MAX: Final = 1 << 20
RELATION_NAME_BYTES_MAX: Final = 256


def checked_molecule(molecule: Molecule, field: str = "molecule") -> Molecule:
    """``molecule`` in canonical form: relations by name, pairs ascending and none twice. Raises UsageError naming ``field``.

    That its type parses and that its atoms are in the context is for the caller to see to.
    """
    atoms = molecule.atoms
    if not atoms:
        raise UsageError(f"{field}.atoms: a molecule has at least one atom")
    if len(atoms) > MOLECULE_ATOMS_MAX:
        raise UsageError(f"{field}.atoms: {len(atoms):,} atoms, over {MOLECULE_ATOMS_MAX:,}")
    seen: dict[bytes, int] = {}
    for place, digest in enumerate(atoms):
        if type(digest) is not bytes or len(digest) != 32:
            raise UsageError(f"{field}.atoms[{place}]: not a digest of 32 bytes")
        if seen.setdefault(digest, place) != place:
            raise UsageError(f"{field}.atoms[{place}]: the same atom as atoms[{seen[digest]}]")
    relations = {name: _checked_pairs(molecule, name, field) for name in sorted(molecule.relations)}
    if sum(map(len, relations.values())) > MOLECULE_PAIRS_MAX:
        raise UsageError(f"{field}.relations: over {MOLECULE_PAIRS_MAX:,} pairs")
    check(molecule.metadata, f"{field}.metadata")
    return msgspec.structs.replace(molecule, atoms=tuple(atoms), relations=relations)


def _checked_pairs(molecule: Molecule, name: str, field: str) -> tuple[tuple[int, int], ...]:
    where = f"{field}.relations[{name!r}]"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise UsageError(f"{where}: the name holds half of a surrogate pair") from None
    if not 0 < size <= RELATION_NAME_BYTES_MAX or not name.isprintable():
        raise UsageError(f"{where}: a name has 1 … {RELATION_NAME_BYTES_MAX} bytes, all of them printable")
    count = len(molecule.atoms)
    pairs = molecule.relations[name]
    given: Sequence[Sequence[object]] = pairs  # for what a caller without a type checker hands over
    for place, pair in enumerate(given):
        if len(pair) != 2 or not all(type(end) is int and 0 <= end < count for end in pair):
            raise UsageError(f"{where}[{place}]: not a pair of places among {count} atoms: {pair!r}")
    return tuple(sorted({(i, j) for i, j in pairs}))


def _keeping(molecule: Molecule, keeps: Callable[[bytes], bool]) -> tuple[Molecule, bool]:
    """``molecule`` of those atoms that it ``keeps``, and whether a relation stood on another."""
    places: dict[int, int] = {}
    atoms: list[bytes] = []
    for place, digest in enumerate(molecule.atoms):
        if keeps(digest):
            places[place] = len(atoms)
            atoms.append(digest)
    relations = {}
    cut = False
    for name, pairs in molecule.relations.items():
        kept = tuple((places[i], places[j]) for i, j in pairs if i in places and j in places)
        cut = cut or len(kept) < len(pairs)
        if kept or not pairs:
            relations[name] = kept
    return msgspec.structs.replace(molecule, atoms=tuple(atoms), relations=relations), cut


def without(molecule: Molecule, atoms: Collection[bytes]) -> Molecule | None:
    """``molecule`` when ``atoms`` are gone; None where that breaks it."""
    left, cut = _keeping(molecule, lambda digest: digest not in atoms)
    return left if left.atoms and not cut else None


def _stood_on(molecule: Molecule, gone: Collection[bytes]) -> tuple[bytes, ...]:
    """Those of ``gone`` on which a relation stood; all that it had where none did."""
    ends = {molecule.atoms[end] for pairs in molecule.relations.values() for pair in pairs for end in pair}
    return tuple(atom for atom in molecule.atoms if atom in gone and atom in ends) or molecule.atoms


class MoleculeTable:
    """The molecules of an expansion, followed delta by delta: ``apply`` costs what the delta touches, not what there is."""

    def __init__(self, molecules: Iterable[Molecule] = (), broken: Iterable[BrokenMolecule] = ()) -> None:
        self._live: dict[bytes, Molecule] = {}
        self._holding: dict[bytes, set[bytes]] = {}  # atom → molecules that hold it
        self._broken = {report.digest: report for report in broken}
        for molecule in molecules:
            self._add(molecule_digest(molecule), molecule)

    def _add(self, digest: bytes, molecule: Molecule) -> None:
        self._broken.pop(digest, None)
        if digest not in self._live:
            self._live[digest] = molecule
            for atom in molecule.atoms:
                self._holding.setdefault(atom, set()).add(digest)

    def _drop(self, digest: bytes) -> Molecule:
        molecule = self._live.pop(digest)
        for atom in molecule.atoms:
            holders = self._holding[atom]
            holders.discard(digest)
            if not holders:
                del self._holding[atom]
        return molecule

    def apply(self, removed: Collection[bytes], added: Iterable[Molecule] = ()) -> None:
        """Let a delta take ``removed`` (digests of atoms and of molecules) away, then bring ``added``."""
        gone = set(removed)
        for digest in gone:
            if digest in self._live:
                self._drop(digest)
            self._broken.pop(digest, None)
        touched = {holder for atom in gone for holder in self._holding.get(atom, ())}
        smaller = []
        for digest in sorted(touched):
            molecule = self._drop(digest)
            left = without(molecule, gone)
            if left is None:
                self._broken[digest] = BrokenMolecule(digest, _stood_on(molecule, gone))
            else:
                smaller.append(left)
        for molecule in [*smaller, *added]:
            self._add(molecule_digest(molecule), molecule)

    def __contains__(self, digest: object) -> bool:
        return digest in self._live

    def __len__(self) -> int:
        return len(self._live)

    def names(self, digest: bytes) -> bool:
        """Whether a delta may remove ``digest``: a molecule that is here, or a report of a broken one."""
        return digest in self._live or digest in self._broken

    def by_digest(self) -> dict[bytes, Molecule]:
        return dict(sorted(self._live.items()))

    def molecules(self) -> tuple[Molecule, ...]:
        """In ascending order of their digests."""
        return tuple(self.by_digest().values())

    def broken(self) -> tuple[BrokenMolecule, ...]:
        """In ascending order of their digests."""
        return tuple(report for _, report in sorted(self._broken.items()))
