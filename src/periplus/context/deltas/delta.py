"""Deltas as values: apply deltas one by one, find the smallest delta between two contexts, join two deltas.

The size of a delta is the number of its items: one for each digest removed, each atom added or annotated anew, each
molecule added. ``compress`` returns the smallest delta. Its items are forced, one by one:

* an atom of the base that is not in the target must be removed; one that is new, or annotated otherwise, must be added. An atom
  is not removed and added in the same delta, so no detour is shorter;
* after those removals, each molecule of the base continues whole, smaller, or broken. If the result is in the target (for a broken
  molecule: in its reports) the delta needs no item, otherwise it must remove the molecule;
* each molecule of the target that does not result from this must be added.

Reports of broken molecules follow from the molecules of a base. A report of a molecule that the base never had, or that
an atom broke which came back, cannot be expressed in one delta and is left out: reports are no part of an expansion.
"""

from __future__ import annotations

__all__ = ["ExpansionState", "compose", "compress", "molecule_changes", "sorted_context"]

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import UsageError
from periplus.context.deltas.molecule_table import MoleculeTable, without
from periplus.context.model import (
    Atom,
    Context,
    Entry,
    Expansion,
    Molecule,
    atom_digest,
    molecule_digest,
    order_key,
)


class ExpansionState:
    """The expansion of a chain of deltas, by identity, held whole in memory."""

    def __init__(self, expansion: Expansion | None = None) -> None:
        self.entries: dict[bytes, Entry] = {}
        self.table = MoleculeTable()
        if expansion is not None:
            self.entries = {entry.digest: entry for entry in expansion.entries}
            self.table = MoleculeTable(expansion.molecules, expansion.broken)

    def apply(self, delta: Context, origin: bytes = b"") -> None:
        """Remove, then add or annotate anew. If that is impossible, raises UsageError naming the field and changes
        nothing.
        """
        added = {atom_digest(atom): atom for atom in delta.atoms}
        self._check(delta, added)
        for digest in delta.removed:
            self.entries.pop(digest, None)
        for digest, atom in added.items():
            self.entries[digest] = Entry(digest, atom, origin)
        self.table.apply(delta.removed, delta.molecules)

    def _check(self, delta: Context, added: Mapping[bytes, Atom]) -> None:
        if len(added) != len(delta.atoms):
            raise UsageError("atoms: an atom twice in one delta")
        for place, digest in enumerate(delta.removed):
            if digest in added:
                raise UsageError(f"removed[{place}]: is added by the same delta: {digest.hex()}")
            if digest not in self.entries and not self.table.names(digest):
                raise UsageError(f"removed[{place}]: is not there: {digest.hex()}")
        gone = set(delta.removed)
        for place, molecule in enumerate(delta.molecules):
            for at, digest in enumerate(molecule.atoms):
                if digest not in added and (digest in gone or digest not in self.entries):
                    raise UsageError(f"molecules[{place}].atoms[{at}]: no such atom: {digest.hex()}")

    def expansion(self, context: bytes = b"") -> Expansion:
        entries = sorted(self.entries.values(), key=lambda entry: order_key(entry.digest, entry.atom))
        return Expansion(context, tuple(entries), self.table.molecules(), self.table.broken())


def sorted_context(
    *,
    base: bytes | None,
    atoms: Mapping[bytes, Atom],
    molecules: Mapping[bytes, Molecule],
    removed: Iterable[bytes],
    metadata: dict[str, JSONValue] | None = None,
    merged: Iterable[bytes] = (),
) -> Context:
    """Return a context in canonical form, from atoms and molecules by their digests."""
    ordered = sorted((order_key(digest, atom), digest) for digest, atom in atoms.items())
    return Context(
        base=base,
        atoms=tuple(atoms[digest] for _, digest in ordered),
        molecules=tuple(molecules[digest] for digest in sorted(molecules)),
        removed=tuple(sorted(set(removed))),
        metadata=dict(metadata or {}),
        merged=tuple(sorted(set(merged))),
    )


class MoleculeChanges(NamedTuple):
    removed: set[bytes]
    added: dict[bytes, Molecule]


def molecule_changes(
    before: Mapping[bytes, Molecule],
    reports: Collection[bytes],
    gone: Collection[bytes],
    after: Mapping[bytes, Molecule],
    reports_after: Collection[bytes],
) -> MoleculeChanges:
    """Return the fewest molecule items with which a delta that removes the atoms ``gone`` leads from ``before`` to
    ``after``.

    ``reports`` and ``reports_after`` are the digests of broken molecules before and after.
    """
    removed: set[bytes] = set()
    had: set[bytes] = set()
    for digest, molecule in before.items():
        whole = not gone or not any(atom in gone for atom in molecule.atoms)
        left = molecule if whole else without(molecule, gone)
        if left is None:
            if digest not in reports_after:
                removed.add(digest)
            continue
        result = digest if left is molecule else molecule_digest(left)
        if result in after:
            had.add(result)
        else:
            removed.add(digest)
    added = {digest: molecule for digest, molecule in after.items() if digest not in had}
    removed.update(digest for digest in reports if digest not in reports_after and digest not in after)
    return MoleculeChanges(removed, added)


def compress(
    expansion: Expansion,
    base: Expansion | None,
    *,
    metadata: dict[str, JSONValue] | None = None,
    merged: Iterable[bytes] = (),
) -> Context:
    """Return the smallest delta over ``base`` (None: a root) that expands to ``expansion``."""
    before = {} if base is None else {entry.digest: entry.atom for entry in base.entries}
    after = {entry.digest: entry.atom for entry in expansion.entries}
    gone = before.keys() - after.keys()
    atoms = {digest: atom for digest, atom in after.items() if before.get(digest) != atom}
    molecules = molecule_changes(
        {} if base is None else {molecule_digest(each): each for each in base.molecules},
        () if base is None else [report.digest for report in base.broken],
        gone,
        {molecule_digest(each): each for each in expansion.molecules},
        {report.digest for report in expansion.broken},
    )
    return sorted_context(
        base=None if base is None else base.context,
        atoms=atoms,
        molecules=molecules.added,
        removed=gone | molecules.removed,
        metadata=metadata,
        merged=merged,
    )


def compose(
    base: Expansion | None,
    deltas: Iterable[Context],
    *,
    metadata: dict[str, JSONValue] | None = None,
) -> Context:
    """Return the smallest delta over ``base`` (None: a root) with the effect of ``deltas`` in sequence.

    With a base it has merged the contexts that they merged; a root merges no contexts. Without deltas the result is the
    empty delta. Raises UsageError naming the field if a delta cannot be applied.
    """
    standing = ExpansionState(base)
    parent = None if base is None else base.context
    merged: set[bytes] = set()
    for number, delta in enumerate(deltas):
        if number == 0 and delta.base != parent:
            raise UsageError("base: the first delta has another base than the given context")
        standing.apply(delta)
        merged.update(delta.merged)
    return compress(standing.expansion(), base, metadata=metadata, merged=merged - {parent} if parent else ())
