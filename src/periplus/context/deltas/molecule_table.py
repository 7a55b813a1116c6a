"""Molecules under change: followed through the deltas of a chain, and projected to a type.

A delta changes the molecules of its base in this order:

1. an atom that it removes leaves each molecule. If no relation used it, the molecule continues *smaller*, its relations pointing to
   the new places, and is from then on another molecule with another digest. If one did, or if no atom is left, the molecule is gone
   and reported as *broken*;
2. a molecule that it removes by digest (as it was before the delta) is gone and not reported; the same ends the report of a broken
   one;
3. a molecule that it adds is there; one that is there already stays unchanged.

So a molecule depends only on the deltas in their order: an atom that comes back does not return into molecules that
lost it.
"""

from __future__ import annotations

__all__ = ["MoleculeTable", "broken_by", "project", "without"]

from collections.abc import Callable, Collection, Iterable

import msgspec

from periplus.context.model import BrokenMolecule, Molecule, molecule_digest
from periplus.context.types import parse, unify_text


def _keeping(molecule: Molecule, keeps: Callable[[bytes], bool]) -> tuple[Molecule, bool]:
    """Return ``molecule`` with only the atoms that it ``keeps``, and whether a relation used another atom."""
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


def project(molecule: Molecule, wanted: str, type_of: Callable[[bytes], str]) -> Molecule:
    """Return ``molecule`` with only the atoms whose type unifies with ``wanted``, its relations at the new places;
    possibly empty.

    ``type_of`` returns the print of an atom's type. A pair stays if both its ends do, a relation if a pair does. Raises
    UsageError if ``wanted`` is no type.
    """
    parse(wanted)
    return _keeping(molecule, lambda digest: unify_text(type_of(digest), wanted) is not None)[0]


def without(molecule: Molecule, atoms: Collection[bytes]) -> Molecule | None:
    """Return ``molecule`` without ``atoms``; None if that breaks it."""
    if not any(atom in atoms for atom in molecule.atoms):
        return molecule
    left, cut = _keeping(molecule, lambda digest: digest not in atoms)
    return left if left.atoms and not cut else None


def broken_by(molecule: Molecule, gone: Collection[bytes]) -> tuple[bytes, ...]:
    """Return those of ``gone`` that a relation used; all atoms of the molecule if none did."""
    ends = {molecule.atoms[end] for pairs in molecule.relations.values() for pair in pairs for end in pair}
    return tuple(atom for atom in molecule.atoms if atom in gone and atom in ends) or molecule.atoms


class MoleculeTable:
    """The molecules of an expansion, followed delta by delta: ``apply`` costs what the delta touches, not the size of
    the table.
    """

    def __init__(self, molecules: Iterable[Molecule] = (), broken: Iterable[BrokenMolecule] = ()) -> None:
        self._live: dict[bytes, Molecule] = {}
        self._holding: dict[bytes, set[bytes]] = {}  # atom → molecules that contain it
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
        """Apply a delta: remove ``removed`` (digests of atoms and of molecules), then add ``added``."""
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
                self._broken[digest] = BrokenMolecule(digest, broken_by(molecule, gone))
            else:
                smaller.append(left)
        for molecule in [*smaller, *added]:
            self._add(molecule_digest(molecule), molecule)

    def __contains__(self, digest: object) -> bool:
        return digest in self._live

    def __len__(self) -> int:
        return len(self._live)

    def names(self, digest: bytes) -> bool:
        """Return whether a delta may remove ``digest``: a molecule in the table, or a report of a broken one."""
        return digest in self._live or digest in self._broken

    def by_digest(self) -> dict[bytes, Molecule]:
        return dict(sorted(self._live.items()))

    def molecules(self) -> tuple[Molecule, ...]:
        """Return the molecules in ascending order of their digests."""
        return tuple(self.by_digest().values())

    def broken(self) -> tuple[BrokenMolecule, ...]:
        """Return the reports in ascending order of their digests."""
        return tuple(report for _, report in sorted(self._broken.items()))
