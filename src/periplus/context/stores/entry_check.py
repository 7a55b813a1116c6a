"""Checks of a context against its base on entry: removed atoms exist, and so do the atoms of molecules.

Each error names the field, with the place in the context as given. Nothing here reads a store: ``BaseLookup`` answers.
"""

from __future__ import annotations

__all__ = ["BaseLookup", "CheckedEntry", "check_entry"]

from collections.abc import Callable, Sequence
from typing import NamedTuple

from periplus.base.errors import UsageError
from periplus.context.model import Context, ContextHeader, depth_over, molecule_digest
from periplus.context.validation import Prepared


class BaseLookup(NamedTuple):
    """The expansion of the base of a context: look-ups of atoms, and of molecules or reports of broken ones."""

    live: int
    has_atom: Callable[[bytes], bool]
    has_molecule: Callable[[bytes], bool]


class CheckedEntry(NamedTuple):
    """The fields of a context's record that depend on the contexts below it."""

    depth: int
    live: int


def check_entry(
    given: Context, prepared: Prepared, parents: Sequence[ContextHeader], below: BaseLookup
) -> CheckedEntry:
    """Return depth and live atoms of ``given``, whose canonical form is ``prepared``. Raises UsageError naming the
    field.
    """
    context = prepared.context
    lost = 0
    for digest in context.removed:
        if below.has_atom(digest):
            lost += 1
        elif not below.has_molecule(digest):
            raise UsageError(
                f"removed[{given.removed.index(digest)}]: {digest.hex()} is not in the base and cannot be removed",
                safe="Nothing was kept.",
                mend="See the base with `periplus context expand`; an item that was removed before stays removed.",
            )
    added = frozenset(prepared.atom_digests)
    removed = frozenset(context.removed)
    for molecule in context.molecules:
        for place, digest in enumerate(molecule.atoms):
            if digest not in added and (digest in removed or not below.has_atom(digest)):
                wanted = molecule_digest(molecule)
                number = next(at for at, one in enumerate(given.molecules) if molecule_digest(one) == wanted)
                raise UsageError(
                    f"molecules[{number}].atoms[{place}]: {digest.hex()} is not an atom of this context or its base",
                    safe="Nothing was kept.",
                    mend="Add the atom in the same context, or leave it out of the molecule.",
                )
    brought = sum(1 for digest in prepared.atom_digests if not below.has_atom(digest))
    return CheckedEntry(depth_over(parents), below.live - lost + brought)
