"""Deltas as values: what a context stands for, followed one by one; the smallest delta between two; two deltas as one.

A delta is the smaller, the fewer things it says: one for each digest removed, each atom added or annotated anew, each molecule added.
``compress`` gives the smallest there is. What it must say is forced, item by item:

* an atom of the base that is not in the target is gone only by being removed; one that is new, or annotated otherwise, is so only by
  being added. What is removed is not added in the same delta, so nothing can be had by way of a detour;
* given those removals, each molecule of the base goes on whole, smaller, or broken. Where that is in the target (for a broken one:
  in its reports) nothing need be said, else its removal must;
* each molecule of the target that did not come about so must be added.

Reports of broken molecules follow from what a base had. A report of a molecule that the base never had, or that broke by an atom which
came back, cannot be told in one delta, and is left out: reports are no part of what a context stands for.
"""

from __future__ import annotations

__all__ = ["Standing", "compose", "compress", "molecule_changes", "sorted_context"]

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


class Standing:
    """What a chain of deltas stands for, by identity: the plain form of ``expand``, held whole in memory."""

    def __init__(self, expansion: Expansion | None = None) -> None:
        self.entries: dict[bytes, Entry] = {}
        self.table = MoleculeTable()
        if expansion is not None:
            self.entries = {entry.digest: entry for entry in expansion.entries}
            self.table = MoleculeTable(expansion.molecules, expansion.broken)

    def apply(self, delta: Context, origin: bytes = b"") -> None:
        """Remove, then add or annotate anew. Raises UsageError naming the field, with nothing changed, where it cannot be done."""
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
    """A context in canonical form, of atoms and molecules by their digests."""
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
    """The least that a delta that removes the atoms ``gone`` must say of molecules to lead from ``before`` to ``after``.

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
    """The smallest delta over ``base`` (None: a root) that expands to ``expansion``."""
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
    """The smallest delta over ``base`` (None: a root) that does what ``deltas`` do one after the other.

    It has merged what they have, where it has a base: a root takes in no other contexts.
    None at all give the identity, which says nothing. Raises UsageError naming the field where a delta cannot be applied.
    """
    standing = Standing(base)
    parent = None if base is None else base.context
    merged: set[bytes] = set()
    for number, delta in enumerate(deltas):
        if number == 0 and delta.base != parent:
            raise UsageError("base: the first delta stands on another context than the one given")
        standing.apply(delta)
        merged.update(delta.merged)
    return compress(standing.expansion(), base, metadata=metadata, merged=merged - {parent} if parent else ())
