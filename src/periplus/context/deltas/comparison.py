"""The difference of two contexts.

Two contexts with a common delta differ only in the identities that later deltas name: those deltas are walked, newest
first, and only these identities are looked up in the common context. So the difference of near contexts costs what
changed between them, however large both are. If nothing is in common, or if more lies between than both hold, their
expansions are read.
"""

from __future__ import annotations

__all__ = ["ANNOTATION_FIELDS", "Between", "Change", "Diff", "Reannotated", "between", "changed_fields", "diff"]

from typing import Final, NamedTuple

from periplus.context.deltas.ancestry import Fork, fork_of
from periplus.context.deltas.atom_lookup import Reader, find, molecule_table
from periplus.context.deltas.molecule_table import MoleculeTable
from periplus.context.model import Atom, BrokenMolecule, ContextHeader, Entry, Molecule, atom_digest, order_key

WALKED_WEIGHT_MIN: Final = 4_096  # the deltas of smaller contexts are walked up to this weight
ANNOTATION_FIELDS: Final = ("time_ms", "relevance", "source", "tags")


class Reannotated(NamedTuple):
    """An atom in both contexts with different annotations; ``fields`` are the names of the fields that differ."""

    digest: bytes
    before: Entry
    after: Entry
    fields: tuple[str, ...]


class Diff(NamedTuple):
    """The changes from ``before`` to ``after``: atoms in the order of an expansion, molecules by digest.

    The origin of an entry is the context that added or annotated it last. A molecule that lost an atom is removed in
    its old form and added in its new one; ``broken`` are reports that ``after`` has and ``before`` does not.
    """

    before: bytes | None
    after: bytes
    added: tuple[Entry, ...]
    removed: tuple[Entry, ...]
    reannotated: tuple[Reannotated, ...]
    molecules_added: tuple[Molecule, ...] = ()
    molecules_removed: tuple[Molecule, ...] = ()
    broken: tuple[BrokenMolecule, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not any(self[2:])


class Change(NamedTuple):
    """An atom on two sides; None on a side without it.

    ``said_in`` is the context whose delta last set or removed ``after``; None if unknown, as for a removal seen only in
    expansions.
    """

    before: Entry | None
    after: Entry | None
    said_in: bytes | None


class Between(NamedTuple):
    """The differences between a context and ``head``: atoms by identity, and the molecules before and after; None if
    those cannot differ.
    """

    head: bytes | None
    atoms: dict[bytes, Change]
    molecules: tuple[MoleculeTable, MoleculeTable] | None


class _Walk(NamedTuple):
    """The result of the deltas since a fork: the last value of every identity with its context; the deltas that may
    touch molecules.
    """

    last: dict[bytes, tuple[Entry | None, bytes]]
    removes: bool
    touching: list[tuple[tuple[bytes, ...], tuple[Molecule, ...]]]


def changed_fields(before: Atom, after: Atom) -> tuple[str, ...]:
    return tuple(name for name in ANNOTATION_FIELDS if getattr(before, name) != getattr(after, name))


def between(store: Reader, before: bytes | None, after: bytes | None) -> Between:
    """Return the changes from the context ``before`` to ``after`` (None: the empty context)."""
    fork = None if before is None or after is None else _near(store, before, after)
    if fork is None:
        return _apart(store, before, after)
    left, right = _walked(store, fork.ours), _walked(store, fork.theirs)
    live = store.header(fork.common).live
    unknown = _unknown(live, fork.ours, left, right) | _unknown(live, fork.theirs, right, left)
    common = find(store, fork.common, unknown)
    found: dict[bytes, Change] = {}
    for identity in left.last.keys() | right.last.keys():
        shared = common.get(identity)
        old, _ = left.last.get(identity, (shared, None))
        new, said_in = right.last.get(identity, (shared, None))
        if _atom(old) != _atom(new):
            found[identity] = Change(old, new, said_in)
    if not left.touching and not right.touching:
        return Between(after, found, None)
    return Between(after, found, (_followed(store, fork.common, left), _followed(store, fork.common, right)))


def _near(store: Reader, before: bytes, after: bytes) -> Fork | None:
    """Return the fork of the two contexts, if less lies between than they hold."""
    weight_max = max(WALKED_WEIGHT_MIN, store.header(before).live + store.header(after).live)
    return fork_of(store, before, after, weight_max=weight_max)


def _apart(store: Reader, before: bytes | None, after: bytes | None) -> Between:
    """Compare two contexts with little or nothing in common, or one with the empty context."""
    old = {} if before is None else {entry.digest: entry for entry in store.expand(before).entries}
    new = {} if after is None else {entry.digest: entry for entry in store.expand(after).entries}
    found = {}
    for identity in old.keys() | new.keys():
        was, is_now = old.get(identity), new.get(identity)
        if _atom(was) != _atom(is_now):
            found[identity] = Change(was, is_now, is_now.origin if is_now else None)
    return Between(after, found, (molecule_table(store, before), molecule_table(store, after)))


def _atom(entry: Entry | None) -> Atom | None:
    return None if entry is None else entry.atom


def _walked(store: Reader, headers: list[ContextHeader]) -> _Walk:
    last: dict[bytes, tuple[Entry | None, bytes]] = {}
    touching = []
    removes = False
    for header in headers:
        if not header.atom_count and not header.removed_count and not header.molecule_count:
            continue
        delta = store.context(header.digest)
        for atom in delta.atoms:
            identity = atom_digest(atom)
            last.setdefault(identity, (Entry(identity, atom, header.digest), header.digest))
        for identity in delta.removed:
            last.setdefault(identity, (None, header.digest))
        if delta.removed or delta.molecules:
            removes = removes or bool(delta.removed)
            touching.append((delta.removed, delta.molecules))
    return _Walk(last, removes, touching)


def _unknown(live: int, headers: list[ContextHeader], walk: _Walk, other: _Walk) -> set[bytes]:
    """Return the identities that only ``walk`` names and that may be in the fork, which has ``live`` atoms.

    If nothing was removed and as many atoms came as the walk names, all of them are new, and none needs a look-up.
    """
    if not walk.last or (not walk.removes and headers[0].live - live == len(walk.last)):
        return set()
    return walk.last.keys() - other.last.keys()


def _followed(store: Reader, fork: bytes, walk: _Walk) -> MoleculeTable:
    table = molecule_table(store, fork)
    for removed, molecules in reversed(walk.touching):
        table.apply(removed, molecules)
    return table


def diff(store: Reader, before: bytes | None, after: bytes) -> Diff:
    """Return the changes from the context ``before`` (None: the empty context) to ``after``. Raises NotFoundError,
    DamageError.
    """
    added: list[Entry] = []
    removed: list[Entry] = []
    reannotated: list[Reannotated] = []
    found = between(store, before, after)
    for identity, (old, new, _) in found.atoms.items():
        if old is None and new is not None:
            added.append(new)
        elif old is not None and new is None:
            removed.append(old)
        elif old is not None and new is not None:
            reannotated.append(Reannotated(identity, old, new, changed_fields(old.atom, new.atom)))
    left, right = found.molecules or (MoleculeTable(), MoleculeTable())
    had, has = left.by_digest(), right.by_digest()
    reported = {report.digest for report in left.broken()}
    return Diff(
        before,
        after,
        tuple(sorted(added, key=_key)),
        tuple(sorted(removed, key=_key)),
        tuple(sorted(reannotated, key=lambda each: _key(each.after))),
        tuple(molecule for digest, molecule in has.items() if digest not in had),
        tuple(molecule for digest, molecule in had.items() if digest not in has),
        tuple(report for report in right.broken() if report.digest not in reported),
    )


def _key(entry: Entry) -> tuple[int, int, bytes]:
    return order_key(entry.digest, entry.atom)
