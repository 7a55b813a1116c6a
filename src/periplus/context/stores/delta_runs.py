"""Runs: the result of neighbouring deltas of a chain, in the order of an expansion, ready to be merged with other runs.

Theory of operation
-------------------
An expansion is a chain of deltas, newest over oldest. A *run* stands for one or more neighbouring deltas: the atoms that they leave
(each once, in its last annotation, with the delta that set it and its place there), the digests that they remove, and their changes
of molecules, delta by delta. A stack of runs from a context down to its root, newest first, is all that an expansion needs:

* a row of a run is visible if no newer run adds or removes its identity (``Run.state``);
* visible rows have distinct identities, so that merging the runs by their keys gives the total order of the expansion;
* a run without a base is *complete*: it removes nothing, and has the molecules themselves in place of their changes.

Three kinds: ``DeltaRun`` is one large delta, read from the pages of its record on demand; ``HeldRun`` is in memory and
folded from small deltas; ``snapshots.StoredRun`` is in a file of the cache.
"""

from __future__ import annotations

__all__ = [
    "EMPTY_STATE",
    "Change",
    "DeltaRun",
    "Fold",
    "HeldRun",
    "MoleculeState",
    "Row",
    "Run",
    "columns_of",
    "combine_runs",
    "entries_named",
    "molecule_table",
    "rows_of",
    "visible_rows",
    "weight_of",
]

import heapq
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, Protocol

from periplus.context.deltas.molecule_table import MoleculeTable
from periplus.context.model import Atom, BrokenMolecule, ContextHeader, Entry, Molecule, OrderKey, order_key
from periplus.context.records.pages import PAGE_ATOMS, AtomPage
from periplus.context.records.record import PageRef, RecordView
from periplus.context.stores.digest_sets import indices_not_in
from periplus.context.streams.chunks import Columns, Tallies, Tally


class Row(NamedTuple):
    """An atom of a run. ``key`` ends in its identity; ``origin`` added or annotated it last and has it at ``place``.

    ``place`` counts the atoms of ``origin`` in their order: it is the index of the leaf in the tree of that context.
    """

    key: OrderKey
    atom: Atom
    origin: bytes
    place: int


class Change(NamedTuple):
    """The changes of one delta to molecules: removed digests, ascending, then added molecules."""

    removed: tuple[bytes, ...]
    molecules: tuple[Molecule, ...]


class MoleculeState(NamedTuple):
    """The molecules of an expansion, and the reports of broken ones."""

    molecules: tuple[Molecule, ...] = ()
    broken: tuple[BrokenMolecule, ...] = ()


_LONG_BLOCK: Final = 32
EMPTY_STATE: Final = MoleculeState()


class Run(Protocol):
    """The result of the deltas from ``base`` (exclusive) up to ``head``; complete if ``base`` is None."""

    @property
    def head(self) -> bytes: ...

    @property
    def base(self) -> bytes | None: ...

    @property
    def weight(self) -> int:
        """The cost of reading or writing all of it, in atoms, removals and molecules."""
        ...

    @property
    def count(self) -> int:
        """The number of rows."""
        ...

    def rows(self) -> Iterator[Row]:
        """Yield the rows in order, opening pages on demand."""
        ...

    def pages(self) -> Iterator[tuple[OrderKey, Callable[[], Columns]]]:
        """Yield the rows in stretches, for streams: the first key of each, and the function that opens it; none is
        empty.
        """
        ...

    def state(self, identity: bytes) -> bool | None:
        """Return whether an atom is present (True) or removed (False) after this run; None if the run has neither."""
        ...

    def unspoken(self, digests: Sequence[bytes]) -> Sequence[int] | None:
        """Return the indices of those of ``digests`` that the run neither adds nor removes; None for all of them."""
        ...

    def removed(self) -> Iterable[bytes]:
        """Return the digests that the run removes, ascending; atoms that it adds again may be among them."""
        ...

    def changes(self) -> Sequence[Change]:
        """Return the changes to molecules, oldest delta first; empty for a complete run."""
        ...

    def molecule_state(self) -> MoleculeState:
        """Return the molecules of a complete run."""
        ...


def weight_of(header: ContextHeader) -> int:
    return 1 + header.atom_count + header.removed_count + header.molecule_count


class HeldRun:
    """A run in memory."""

    def __init__(
        self,
        head: bytes,
        base: bytes | None,
        rows: dict[bytes, Row],
        removed: Collection[bytes],
        changes: Sequence[Change],
        molecules: MoleculeState = EMPTY_STATE,
    ) -> None:
        self.head = head
        self.base = base
        self._by_identity = rows
        self._removed = frozenset(removed) if base is not None else frozenset()
        self._changes = changes
        self._molecules = molecules
        self._sorted: list[Row] | None = None
        self._tallies = Tallies()
        self.weight = 1 + len(rows) + len(self._removed) + sum(1 + len(change.molecules) for change in changes)
        self.weight += len(molecules.molecules)

    @property
    def count(self) -> int:
        return len(self._by_identity)

    def rows(self) -> Iterator[Row]:
        if self._sorted is None:
            self._sorted = sorted(self._by_identity.values())  # keys end in identities, so no two are equal
        return iter(self._sorted)

    def pages(self) -> Iterator[tuple[OrderKey, Callable[[], Columns]]]:
        rows = self.rows()
        while some := list(islice(rows, PAGE_ATOMS)):
            yield some[0].key, partial(columns_of, some, self._tallies.of(some[0].key[2], len(some)))

    def state(self, identity: bytes) -> bool | None:
        if identity in self._by_identity:
            return True
        return False if identity in self._removed else None

    def unspoken(self, digests: Sequence[bytes]) -> Sequence[int] | None:
        if self._by_identity.keys().isdisjoint(digests) and self._removed.isdisjoint(digests):
            return None
        return indices_not_in(digests, self._by_identity.keys(), self._removed)

    def removed(self) -> Iterable[bytes]:
        return sorted(self._removed)

    def changes(self) -> Sequence[Change]:
        return self._changes

    def molecule_state(self) -> MoleculeState:
        return self._molecules


class Fold:
    """Fold small deltas into a run. They come newest first, so an older delta is applied under the newer ones."""

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._rows: dict[bytes, Row] = {}
        self._removed: set[bytes] = set()
        self._changes: list[Change] = []
        self._texts: dict[bytes, str] = {}
        self.weight = 0
        self.deltas = 0
        self.held = 0  # characters of contents

    def take(self, view: RecordView, get: Callable[[bytes], bytes]) -> None:
        """Add the next older delta."""
        header = view.header
        self.weight += weight_of(header)
        self.deltas += 1
        rows, removed = self._rows, self._removed
        for row in rows_of(view, get, self._texts):
            identity = row.key[2]
            if identity not in rows and identity not in removed:
                rows[identity] = row
                self.held += len(row.atom.content)
        if header.removed_count or header.molecule_count:
            gone = tuple(view.removed(get))
            removed.update(gone)
            self._changes.append(Change(gone, tuple(view.molecules(get))))

    def run(self, base: bytes | None) -> HeldRun:
        """Return the run of all deltas added, over ``base``."""
        changes = self._changes[::-1]
        if base is not None:
            return HeldRun(self._head, base, self._rows, self._removed, changes)
        return HeldRun(self._head, None, self._rows, (), (), _state_of(MoleculeTable(), changes))


class DeltaRun:
    """One large delta, its rows read page by page. ``adds`` and ``removes`` are its identities."""

    def __init__(
        self,
        view: RecordView,
        get: Callable[[bytes], bytes],
        adds: Container[bytes],
        removes: Container[bytes],
        tallies: Tallies | None = None,
    ) -> None:
        header = view.header
        self.head = header.digest
        self.base = header.base
        self.weight = weight_of(header)
        self.count = header.atom_count
        self._view = view
        self._get = get
        self._adds = adds
        self._removes = removes
        self._is_removing = header.removed_count > 0
        self._tallies = tallies if tallies is not None else Tallies()

    def rows(self) -> Iterator[Row]:
        return rows_of(self._view, self._get)

    def pages(self) -> Iterator[tuple[OrderKey, Callable[[], Columns]]]:
        for ref in self._view.pages(self._get):
            tally = self._tallies.of(
                ref.digest or self.head, ref.count
            )  # a page inside the record is named by the record
            page = _OpenedPage(self._view, ref, self._get, tally)
            yield ref.first, page.open
            yield from page.rest()

    def state(self, identity: bytes) -> bool | None:
        if identity in self._adds:
            return True
        return False if self._is_removing and identity in self._removes else None

    def unspoken(self, digests: Sequence[bytes]) -> Sequence[int] | None:
        return indices_not_in(digests, self._adds, self._removes if self._is_removing else ())

    def removed(self) -> Iterable[bytes]:
        return self._view.removed(self._get)

    def changes(self) -> Sequence[Change]:
        header = self._view.header
        if self.base is None or not (header.removed_count or header.molecule_count):
            return ()
        return (Change(tuple(self._view.removed(self._get)), tuple(self._view.molecules(self._get))),)

    def molecule_state(self) -> MoleculeState:
        if self.base is not None or not self._view.header.molecule_count:
            return EMPTY_STATE
        return _state_of(MoleculeTable(), [Change((), tuple(self._view.molecules(self._get)))])


class _OpenedPage:
    """A page of a delta. Long contents in other objects are read in small blocks, so that a short read stays cheap."""

    def __init__(self, view: RecordView, ref: PageRef, get: Callable[[bytes], bytes], tally: Tally) -> None:
        self._view = view
        self._tally = tally
        self._ref = ref
        self._get = get
        self._page: AtomPage | None = None
        self._digests: list[bytes] = []

    def open(self) -> Columns:
        self._page = page = self._view.page_of(self._ref, self._get, is_checked=self._tally.is_checked)
        self._tally.is_checked = True
        self._digests = page.digests()
        if page.long:
            return self._block(0)
        return Columns(page.atoms, self._digests, [self._view.header.digest] * len(page.atoms), self._tally)

    def rest(self) -> Iterator[tuple[OrderKey, Callable[[], Columns]]]:
        page = self._page
        if page is not None and page.long:
            for start in range(_LONG_BLOCK, len(page.atoms), _LONG_BLOCK):
                yield order_key(self._digests[start], page.atoms[start]), partial(self._block, start)

    def _block(self, start: int) -> Columns:
        assert self._page is not None
        atoms = self._page.some(start, start + _LONG_BLOCK, self._get)
        digests = self._digests[start : start + _LONG_BLOCK]
        return Columns(atoms, digests, [self._view.header.digest] * len(atoms), self._tally, start)


def columns_of(rows: Sequence[Row], tally: Tally) -> Columns:
    return Columns([row.atom for row in rows], [row.key[2] for row in rows], [row.origin for row in rows], tally)


def rows_of(view: RecordView, get: Callable[[bytes], bytes], texts: dict[bytes, str] | None = None) -> Iterator[Row]:
    """Yield the atoms of one delta in their order, each page opened on demand; ``texts`` as in ``AtomPage.whole``."""
    origin = view.header.digest
    for page in view.pages(get):
        for place, (identity, atom) in enumerate(view.rows_of(page, get, texts), page.start):
            yield Row(order_key(identity, atom), atom, origin, place)


def visible_rows(runs: Sequence[Run]) -> Iterator[Row]:
    """Yield the rows of a stack of runs, newest first, that no newer run hides: their expansion, in its order."""
    streams = [_visible(run, runs[:number]) for number, run in enumerate(runs)]
    return streams[0] if len(streams) == 1 else heapq.merge(*streams)


def entries_named(runs: Sequence[Run], identities: Iterable[bytes]) -> dict[bytes, Entry]:
    """Return those of ``identities`` that are in a stack of runs, newest first. Only runs with one of them are read, up
    to the last.
    """
    wanted = set(identities)
    found: dict[bytes, Entry] = {}
    for run in runs:
        states = {identity: state for identity in wanted if (state := run.state(identity)) is not None}
        wanted -= states.keys()
        here = {identity for identity, state in states.items() if state}
        for _, opened in run.pages() if here else ():
            columns = opened()
            for place, identity in enumerate(columns.digests):
                if identity in here:
                    here.remove(identity)
                    found[identity] = Entry(identity, columns.atoms[place], columns.origins[place])
            if not here:
                break
        assert not here, "a run that has an atom has it on a page"
    return found


def _visible(run: Run, newer: Sequence[Run]) -> Iterator[Row]:
    if not newer:
        yield from run.rows()
        return
    for row in run.rows():
        identity = row.key[2]
        for other in newer:
            if other.state(identity) is not None:
                break
        else:
            yield row


def molecule_table(runs: Sequence[Run]) -> MoleculeTable:
    """Return the molecules of a stack of runs, newest first, that reaches a root."""
    start = runs[-1].molecule_state()
    table = MoleculeTable(start.molecules, start.broken)
    for run in reversed(runs):
        for change in run.changes():
            table.apply(change.removed, change.molecules)
    return table


def combine_runs(runs: Sequence[Run]) -> tuple[Iterable[bytes], Sequence[Change], MoleculeState]:
    """Return the parts, beside rows, of one run that replaces ``runs`` (newest first): removals ascending, changes,
    molecules.
    """
    if runs[-1].base is None:
        table = molecule_table(runs)
        return (), (), MoleculeState(table.molecules(), table.broken())
    removed = _distinct(heapq.merge(*(run.removed() for run in runs)))
    return removed, [change for run in reversed(runs) for change in run.changes()], EMPTY_STATE


def _distinct(ascending: Iterable[bytes]) -> Iterator[bytes]:
    last = b""
    for digest in ascending:
        if digest != last:
            yield digest
            last = digest


def _state_of(table: MoleculeTable, changes: Iterable[Change]) -> MoleculeState:
    for change in changes:
        table.apply(change.removed, change.molecules)
    return MoleculeState(table.molecules(), table.broken())
