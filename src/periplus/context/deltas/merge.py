"""Merge two lines of contexts since they parted.

Each atom is merged by itself, three-way over the nearest common base: ``base``, ``ours``, ``theirs`` are its annotation
there, or its absence.

======================================  ====================================================================================
ours and theirs                         result
======================================  ====================================================================================
the same                                that
one as in the base                      the other: additions of both sides stay, a removal removes what the other left alone
one removed, other annotated it anew    a conflict
one removed, other kept it, both        a conflict
having had to choose before
both annotated it, differently          field by field: a change of one side stands; see below where both changed one field
======================================  ====================================================================================

If both changed one field differently, the result must not depend on the order of merging, so it is decided by value:
time and source are one statement, and the later one wins (at the same time, the greater source); relevance is that of
the side with the later statement (for equal ones, the greater relevance); tags are a set, merged tag by tag. Such
decisions are listed (``settled``) and can be overridden.

Molecules are a set: additions of either side stay, removals of either side apply, and a molecule that lost an atom
continues by the rules of ``molecule_table``. A molecule that is new on one side and that a removal of the other would break
is a conflict on that atom.

Several nearest bases (after crossing merges) are first merged with each other, by these rules, into one temporary base;
a conflict there leaves the atom in. Both sides descend from that conflict, so both have decided it: if they decided
differently, neither is what "the other left alone", and it is a conflict again. This is done for CROSSINGS_MAX levels;
below, only the deepest base is used. Unrelated lines merge over nothing: the additions of both sides.

The result is a delta over ours that has merged theirs, not committed. Merging in the other direction expands to the
same.
"""

from __future__ import annotations

__all__ = ["CROSSINGS_MAX", "Conflict", "Merge", "Overlay", "Resolution", "Side", "merge"]

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import UsageError
from periplus.context.deltas.ancestry import common_bases
from periplus.context.deltas.atom_lookup import find, molecule_table
from periplus.context.deltas.comparison import Between, Change, between, changed_fields
from periplus.context.deltas.delta import ExpansionState, molecule_changes, sorted_context
from periplus.context.deltas.log import CommitInfo, commit_info, removal_of
from periplus.context.deltas.molecule_table import MoleculeTable, broken_by, without
from periplus.context.model import (
    TAGS_MAX,
    Atom,
    Context,
    ContextHeader,
    Entry,
    Expansion,
    Molecule,
    atom_digest,
    depth_over,
    molecule_digest,
)
from periplus.context.store_protocol import Store

CROSSINGS_MAX: Final = 8
_HELD_MAX: Final = 4_096  # cache of small deltas while crossing lines are merged, because each level walks them again
_HELD_ATOMS_MAX: Final = 64

Choice: TypeAlias = Literal["ours", "theirs"]
Kind: TypeAlias = Literal["annotated", "decided", "molecule"]
_Favour: TypeAlias = Literal["ours", "theirs", "kept"] | None
_T = TypeVar("_T", int, tuple[int, str])
_PRESENT: Final = Atom("")


class Side(NamedTuple):
    """The atom on one side, None if it was removed, and the context that set it (None: before the lines parted)."""

    atom: Atom | None
    commit_info: CommitInfo | None


class Conflict(NamedTuple):
    """An atom that one side removed and the other ``annotated`` anew, or used in a new ``molecule`` (``molecules``:
    their digests).

    ``decided``: it was in conflict before, and the sides decided differently.
    """

    digest: bytes
    kind: Kind
    base: Atom | None
    ours: Side
    theirs: Side
    molecules: tuple[bytes, ...] = ()


class Resolution(NamedTuple):
    """An atom of which both sides changed ``fields`` differently, and the result."""

    digest: bytes
    fields: tuple[str, ...]
    ours: Side
    theirs: Side
    atom: Atom


class Merge(NamedTuple):
    """The result of a merge.

    ``already``: ours descends from theirs, nothing to do. ``fast-forward``: theirs descends from ours, which can move
    to it. ``merged``: ``context`` is to be committed. ``conflicts``: they must be decided first. ``head`` is the new
    place of ours, None if that is ``context``, or if there is none yet. ``bases`` are the nearest common ones.
    """

    outcome: Literal["already", "fast-forward", "merged", "conflicts"]
    bases: tuple[bytes, ...]
    head: bytes | None = None
    context: Context | None = None
    conflicts: tuple[Conflict, ...] = ()
    settled: tuple[Resolution, ...] = ()


def merge(
    store: Store | Overlay,
    ours: bytes,
    theirs: bytes,
    *,
    choose: Mapping[bytes, Choice] | None = None,
    favour: Choice | None = None,
    fast_forward: bool = True,
    metadata: dict[str, JSONValue] | None = None,
) -> Merge:
    """Merge the context ``theirs`` into ``ours``.

    ``choose`` decides, by atom, whose side wins a conflict or a settled field; ``favour`` decides every other conflict.
    Raises UsageError if ``choose`` names an atom without a choice.
    """
    bases = common_bases(store, ours, theirs)
    if bases == (theirs,):
        return Merge("already", bases, ours)
    if bases == (ours,) and fast_forward:
        return Merge("fast-forward", bases, theirs)
    chosen = dict(choose or {})
    overlay = store if isinstance(store, Overlay) else Overlay(store)
    result = _merged(overlay, ours, theirs, bases, chosen, favour, CROSSINGS_MAX)
    open_to_choice = (
        {each.digest for each in result.conflicts} | {each.digest for each in result.settled} | result.resolved
    )
    for digest in chosen:
        if digest not in open_to_choice:
            raise UsageError(
                f"choose: there is no conflict on atom{digest.hex()}",
                safe="Nothing was changed.",
                mend="Leave it out.",
            )
    if result.conflicts:
        return Merge("conflicts", bases, None, None, result.conflicts, result.settled)
    context = sorted_context(
        base=ours,
        atoms=result.atoms,
        molecules=result.molecules,
        removed=result.removed,
        metadata=metadata,
        merged=(theirs,),
    )
    return Merge("merged", bases, None, context, (), result.settled)


class _Result(NamedTuple):
    """The delta over ours, in parts; ``resolved`` are atoms that without a choice would be in ``conflicts`` or
    ``settled``.
    """

    atoms: dict[bytes, Atom]
    molecules: dict[bytes, Molecule]
    removed: set[bytes]
    conflicts: tuple[Conflict, ...]
    settled: tuple[Resolution, ...]
    resolved: frozenset[bytes]


class Overlay:
    """A store with uncommitted contexts above it: the temporary bases of crossing merges, and the result of a merge for
    a caller that merges on before anything is written.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._headers: dict[bytes, ContextHeader] = {}
        self._contexts: dict[bytes, Context] = {}
        self._held: dict[bytes, tuple[ContextHeader, Context]] = {}

    def add(self, context: Context, domain: bytes = b"periplus crossing\x00") -> bytes:
        """Add ``context`` and return a digest that is valid only here. A context with the same parents replaces that of
        its ``domain``.
        """
        assert context.base is not None
        parents = (context.base, *context.merged)
        digest = sha256(domain + b"".join(parents)).digest()
        had = self.find(context.base, [*map(atom_digest, context.atoms), *context.removed])
        live = self.header(context.base).live - sum(each in had for each in context.removed)
        live += sum(atom_digest(atom) not in had for atom in context.atoms)
        counts = (len(context.atoms), len(context.molecules), len(context.removed))
        depth = depth_over(map(self.header, parents))
        self._contexts[digest] = context
        self._headers[digest] = ContextHeader(digest, context.base, context.merged, depth, live, *counts, b"", {})
        return digest

    def header(self, digest: bytes) -> ContextHeader:
        held = self._held.get(digest)
        return held[0] if held is not None else self._headers.get(digest) or self.store.header(digest)

    def context(self, digest: bytes) -> Context:
        held = self._held.get(digest)
        if held is not None:
            return held[1]
        found = self._contexts.get(digest)
        if found is None:
            found = self.store.context(digest)
            if len(found.atoms) <= _HELD_ATOMS_MAX and len(self._held) < _HELD_MAX:
                self._held[digest] = (self.store.header(digest), found)
        return found

    def expand(self, digest: bytes) -> Expansion:
        context = self._contexts.get(digest)
        if context is None:
            return self.store.expand(digest)
        assert context.base is not None
        standing = ExpansionState(self.expand(context.base))
        standing.apply(context, digest)
        return standing.expansion(digest)

    def find(self, digest: bytes, identities: Iterable[bytes]) -> dict[bytes, Entry]:
        context = self._contexts.get(digest)
        wanted = set(identities)
        if context is None:
            return find(self.store, digest, wanted)
        assert context.base is not None
        own = {atom_digest(atom): atom for atom in context.atoms}
        found = self.find(context.base, wanted - own.keys() - set(context.removed))
        return found | {each: Entry(each, own[each], digest) for each in wanted & own.keys()}

    def molecule_table(self, digest: bytes) -> MoleculeTable:
        context = self._contexts.get(digest)
        if context is None:
            return molecule_table(self.store, digest)
        assert context.base is not None
        table = self.molecule_table(context.base)
        table.apply(context.removed, context.molecules)
        return table


def _one_base(store: Overlay, bases: tuple[bytes, ...], levels: int) -> tuple[bytes | None, frozenset[bytes]]:
    """Merge several bases into one (None without bases); also return the atoms on which they conflict."""
    if not bases:
        return None, frozenset()
    base = bases[0]
    disputed: frozenset[bytes] = frozenset()
    if levels > 0:
        for other in bases[1:]:
            below = common_bases(store, base, other)
            result = _merged(store, base, other, below, {}, "kept", levels - 1)
            delta = sorted_context(
                base=base, atoms=result.atoms, molecules=result.molecules, removed=result.removed, merged=(other,)
            )
            base = store.add(delta)
            disputed |= result.resolved
    return base, disputed


class _Merging:
    """The state of one three-way merge: ``after`` is the result for each atom that differs from the base, None if it is
    removed.

    For ``disputed`` atoms the base does not count: its value is what neither side has chosen.
    """

    def __init__(
        self,
        store: Overlay,
        left: Between,
        right: Between,
        disputed: frozenset[bytes],
        choices: Mapping[bytes, Choice],
        favour: _Favour,
    ) -> None:
        self._store = store
        self._left = left
        self._right = right
        self._disputed = disputed
        self._choices = choices
        self._favour = favour
        self.after: dict[bytes, Atom | None] = {}
        self.conflicts: dict[bytes, Conflict] = {}
        self.settled: list[Resolution] = []
        self.resolved: set[bytes] = set()

    def atoms(self) -> None:
        left, right = self._left.atoms, self._right.atoms
        for identity, change in left.items():
            if identity not in right:
                self._one_sided(identity, change)
        for identity, change in right.items():
            other = left.get(identity)
            if other is None:
                self._one_sided(identity, change)
                continue
            ours, theirs = _atom(other.after), _atom(change.after)
            if ours == theirs:
                self.after[identity] = ours
            elif ours is None or theirs is None:
                self._contested(identity, "annotated", ())
            else:
                self._settle(identity, _atom(change.before), ours, theirs)

    def _one_sided(self, identity: bytes, change: Change) -> None:
        """Take the change of one side; the other side is like the base."""
        if identity in self._disputed and (change.before is None) != (change.after is None):
            self._contested(identity, "decided", ())
        else:
            self.after[identity] = _atom(change.after)

    def _contested(self, identity: bytes, kind: Kind, molecules: tuple[bytes, ...]) -> None:
        mine, other = self._has(self._left, identity), self._has(self._right, identity)
        choice = self._choices.get(identity, self._favour)
        if choice == "kept" or choice is None:
            self.after[identity] = mine if mine is not None else other
        else:
            self.after[identity] = mine if choice == "ours" else other
        if choice is not None:
            self.resolved.add(identity)
            return
        ours, theirs = self._side(self._left, identity), self._side(self._right, identity)
        base = (self._left.atoms.get(identity) or self._right.atoms[identity]).before
        self.conflicts[identity] = Conflict(identity, kind, _atom(base), ours, theirs, molecules)

    def _has(self, side: Between, identity: bytes) -> Atom | None:
        change = side.atoms.get(identity)
        if change is not None:
            return _atom(change.after)
        other = self._left if side is self._right else self._right
        return _atom(other.atoms[identity].before)  # this side did not change it

    def _side(self, side: Between, identity: bytes) -> Side:
        atom = self._has(side, identity)
        change = side.atoms.get(identity)
        if change is None:
            return Side(atom, None)
        if change.said_in is not None:
            return Side(atom, commit_info(self._store.header(change.said_in)))
        assert side.head is not None
        removal = removal_of(self._store, side.head, identity)
        return Side(atom, None if removal is None else commit_info(removal))

    def _settle(self, identity: bytes, base: Atom | None, ours: Atom, theirs: Atom) -> None:
        atom, fields = _combined(base, ours, theirs)
        choice = self._choices.get(identity) if fields else None
        if choice is not None:
            self.resolved.add(identity)
            self.after[identity] = ours if choice == "ours" else theirs
            return
        self.after[identity] = atom
        if fields:
            sides = self._side(self._left, identity), self._side(self._right, identity)
            self.settled.append(Resolution(identity, fields, *sides, atom))

    def delta(self) -> _Result:
        """Return the delta from ours to the result."""
        atoms: dict[bytes, Atom] = {}
        removed: set[bytes] = set()
        molecules: dict[bytes, Molecule] = {}
        merged = self._molecules()
        for identity, result in self.after.items():
            mine = self._left.atoms.get(identity)
            ours = _atom(mine.after if mine is not None else self._right.atoms[identity].before)
            if result is None and ours is not None:
                removed.add(identity)
            elif result is not None and result != ours:
                atoms[identity] = result
        if merged is not None:
            said_of = molecule_changes(
                merged.ours, merged.reports, removed, merged.after, merged.reports | merged.broken
            )
            removed |= said_of.removed
            molecules = said_of.added
        conflicts = tuple(self.conflicts[each] for each in sorted(self.conflicts))
        settled = tuple(sorted(self.settled))
        return _Result(atoms, molecules, removed, conflicts, settled, frozenset(self.resolved))

    def _molecules(self) -> _Molecules | None:
        tables = self._left.molecules or self._right.molecules
        if tables is None:
            return None
        base = tables[0].by_digest()
        mine = _Line.of(tables[0] if self._left.molecules is None else self._left.molecules[1], self._left, base)
        other = _Line.of(tables[0] if self._right.molecules is None else self._right.molecules[1], self._right, base)
        self._defend(mine.new)
        self._defend(other.new)
        gone = {identity for identity, atom in self.after.items() if atom is None}
        after: dict[bytes, Molecule] = {}
        broken: set[bytes] = set()
        survivors = [molecule for digest, molecule in base.items() if mine.keeps(digest) and other.keeps(digest)]
        for molecule in [*survivors, *mine.new.values(), *other.new.values()]:
            left = without(molecule, gone)
            if left is not None:
                after[molecule_digest(left)] = left
                continue
            standing = without(molecule, mine.gone)
            if standing is not None:
                broken.add(molecule_digest(standing))
        reports = {report.digest for report in mine.table.broken()}
        return _Molecules(mine.table.by_digest(), reports, after, broken)

    def _defend(self, new: Mapping[bytes, Molecule]) -> None:
        """Report a conflict if a removal of one side would break a new molecule of the other."""
        users: dict[bytes, list[bytes]] = {}
        for digest, molecule in new.items():
            gone = [atom for atom in molecule.atoms if self.after.get(atom, _PRESENT) is None]
            if gone and without(molecule, gone) is None:
                for atom in broken_by(molecule, gone):
                    users.setdefault(atom, []).append(digest)
        for atom, digests in sorted(users.items()):
            if atom not in self.resolved:
                self._contested(atom, "molecule", tuple(sorted(digests)))


class _Molecules(NamedTuple):
    """Molecules of ours and of the result; for ours, reports of broken ones and the molecules that the merge breaks."""

    ours: dict[bytes, Molecule]
    reports: set[bytes]
    after: dict[bytes, Molecule]
    broken: set[bytes]


class _Line(NamedTuple):
    """The molecules of one side: new ones, and those of the base (by digest) that it has, smaller or broken ones
    included.
    """

    table: MoleculeTable
    gone: frozenset[bytes]
    new: dict[bytes, Molecule]
    kept: frozenset[bytes]

    @classmethod
    def of(cls, table: MoleculeTable, between: Between, base: Mapping[bytes, Molecule]) -> _Line:
        has = table.by_digest()
        gone = frozenset(identity for identity, change in between.atoms.items() if change.after is None)
        kept = set()
        forms = set()
        for digest, molecule in base.items():
            left = without(molecule, gone)
            form = digest if left is None else molecule_digest(left)
            if form in has or (left is None and table.names(digest)):
                kept.add(digest)
                forms.add(form)
        new = {digest: molecule for digest, molecule in has.items() if digest not in forms}
        return cls(table, gone, new, frozenset(kept))

    def keeps(self, digest: bytes) -> bool:
        return digest in self.kept


def _merged(
    store: Overlay,
    ours: bytes,
    theirs: bytes,
    bases: tuple[bytes, ...],
    choices: Mapping[bytes, Choice],
    favour: _Favour,
    levels: int,
) -> _Result:
    base, disputed = _one_base(store, bases, levels)
    merging = _Merging(store, between(store, base, ours), between(store, base, theirs), disputed, choices, favour)
    merging.atoms()
    return merging.delta()


def _atom(entry: Entry | None) -> Atom | None:
    return None if entry is None else entry.atom


def _combined(base: Atom | None, ours: Atom, theirs: Atom) -> tuple[Atom, tuple[str, ...]]:
    """Combine two annotations; also return the fields that both sides changed differently. The function is symmetric."""
    stated, state_clash = _of_both(None if base is None else _statement(base), _statement(ours), _statement(theirs))
    relevance, relevance_clash = _of_both(None if base is None else base.relevance, ours.relevance, theirs.relevance)
    later = max((_statement(ours), ours.relevance), (_statement(theirs), theirs.relevance))
    if relevance_clash:
        relevance = later[1]
    before = frozenset(base.tags) if base is not None else frozenset()
    mine, other = frozenset(ours.tags), frozenset(theirs.tags)
    tags = tuple(sorted((mine | other) - (before - mine) - (before - other)))
    too_many = len(tags) > TAGS_MAX
    if too_many:
        tags = max((_statement(ours), ours.tags), (_statement(theirs), theirs.tags))[1]
    clashes = {"time_ms": state_clash, "source": state_clash, "relevance": relevance_clash, "tags": too_many}
    time_ms, source = stated
    atom = msgspec.structs.replace(ours, time_ms=time_ms, relevance=relevance, source=source, tags=tags)
    return atom, tuple(name for name in changed_fields(ours, theirs) if clashes[name])


def _statement(atom: Atom) -> tuple[int, str]:
    return atom.time_ms, atom.source


def _of_both(base: _T | None, ours: _T, theirs: _T) -> tuple[_T, bool]:
    """Combine one field; if both sides changed it differently, return the greater value and True."""
    if theirs in (ours, base):
        return ours, False
    if ours == base:
        return theirs, False
    return max(ours, theirs), True
