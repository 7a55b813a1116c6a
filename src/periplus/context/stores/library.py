"""The contexts of a store, over any source of objects, any table of refs and any cache: ``Store`` for all that is local.

Theory of operation
-------------------
A context is its record and the objects below it. Four questions are asked of a chain of them, and none may cost the chain:

* *what does it come to?* ``_stack`` walks from a context to its root, without recursion, over runs that the cache has and records
  where it has none; what it had to fold from more than a handful of small deltas it leaves in the cache (``context.runs`` and
  ``context.snapshots``), so that no delta is folded often;
* *is this atom there?* asked at every commit: of the few deltas above the newest kept run in a dict that goes along from commit to
  commit (a *tip*), below that of the runs, which bisect;
* *is all of it here, and true?* ``admit`` walks down to what is known to be so and up again checking every delta as ``commit`` does.
  Contexts come to be known by being committed, admitted, or named by a ref;
* *does it descend from that?* depths bound the walk, for every ancestor is less deep.

Rules kept here: an object is put before what names it, and a ref is set when all below it is durable; whatever is refused leaves
no context behind; a cache that turns out damaged is dropped and the objects are read, in the middle of an iteration too.
"""

from __future__ import annotations

__all__ = ["KNOWN_FOR_MS", "LARGE_WEIGHT", "ContextLibrary", "ObjectShelf"]

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

from msgspec import structs

from periplus.base.clock import Clock, SystemClock
from periplus.base.errors import ConflictError, NotFoundError, UsageError
from periplus.context.deltas.ancestry import is_ancestor
from periplus.context.deltas.molecule_table import MoleculeTable
from periplus.context.model import DEFAULT_LIMITS, Atom, ChunkLimits, Context, ContextHeader, Entry, Expansion, OrderKey
from periplus.context.records import record
from periplus.context.records.record import AtomPages, Encoded, RecordView
from periplus.context.store_protocol import ANY, Expected, ObjectSource
from periplus.context.stores.delta_runs import (
    DeltaRun,
    Fold,
    Row,
    Run,
    entries_named,
    molecule_table,
    rows_of,
    visible_rows,
    weight_of,
)
from periplus.context.stores.digest_sets import LazySet
from periplus.context.stores.entry_check import Below, CheckedEntry, check_entry
from periplus.context.stores.external_sort import HELD_ATOMS_MAX, Sorter
from periplus.context.stores.object_cache import ObjectCache
from periplus.context.stores.refs import RefTable, check_ref_name, moved
from periplus.context.stores.snapshots import MemoryCache, RunCache, Sets, StaleCacheError, merge_runs
from periplus.context.streams.chunks import ChunkCutter, Columns, Streamed, Tallies, check_limits, merged
from periplus.context.streams.proof_source import ProvingCutter
from periplus.context.validation import Prepared, check_repeated, prepare

LARGE_WEIGHT: Final = 1024  # a delta as heavy is a run of its own; small ones together as heavy are folded into one
_FOLD_WEIGHTS: Final = 64  # a fold as many times as heavy is kept while older deltas are still being read
_FOLD_HELD_MAX: Final = 4 << 20  # characters of contents; a fold of more is kept, and what is kept lies in a file
KNOWN_FOR_MS: Final = 3_600_000  # gc lets nothing be removed sooner after it was parked
_RUNS_MAX: Final = 16
_VIEWS_MAX: Final = 2048
_HEADERS_MAX: Final = 2048
_STACKS_MAX: Final = 8
_TIPS_MAX: Final = 64
_REF_TRIES: Final = 64
_NOTHING: Final = Context()
_T = TypeVar("_T")


class ObjectShelf(ObjectSource, Protocol):
    """Objects of which those put last may be lost at a power cut until ``settle`` has returned."""

    def take(self, data: bytes) -> bytes:
        """As ``put``, of what another store sent. Raises RedactedError for what was redacted here."""
        ...

    def settle(self) -> None:
        """All that was put is on the disk for good when this returns. Raises EnvironmentFailure."""
        ...


class _Tip:
    """What commits on ``head`` have to know: the kept runs below, and what the small deltas above them add and remove."""

    def __init__(self, runs: list[Run], ahead: dict[bytes, bool], weight: int, molecules: MoleculeTable | None) -> None:
        self.runs = runs
        self.ahead = ahead
        self.weight = weight
        self.molecules = molecules

    def has_atom(self, identity: bytes) -> bool:
        known = self.ahead.get(identity)
        if known is not None:
            return known
        for run in self.runs:
            known = run.state(identity)
            if known is not None:
                return known
        return False

    def names(self, digest: bytes) -> bool:
        return self.molecules is not None and self.molecules.names(digest)


class ContextLibrary:
    """The contexts that lie in ``objects``, named by ``refs``; ``cache`` may be lost at any time.

    One library may be used by several threads, and several libraries, in processes of their own, use one store.
    """

    def __init__(
        self,
        objects: ObjectShelf,
        refs: RefTable,
        cache: RunCache | None = None,
        clock: Clock | None = None,
        *,
        large_weight: int = LARGE_WEIGHT,
        page_bytes: int = 0,
    ) -> None:
        """``large_weight`` is when a delta is a run of its own, and when small ones together are folded into one that is kept.

        ``page_bytes`` of pages that are read again and again are held in memory.
        """
        self._large_weight = large_weight
        self._objects = objects
        self._refs = refs
        self._cache: RunCache = cache if cache is not None else MemoryCache()
        self._mutex = threading.RLock()
        self._views: OrderedDict[bytes, RecordView] = OrderedDict()
        self._headers: OrderedDict[bytes, ContextHeader] = OrderedDict()
        self._tips: OrderedDict[bytes, _Tip] = OrderedDict()
        self._stacks: OrderedDict[bytes, list[Run]] = OrderedDict()
        self._known: set[bytes] = set()
        self._clock = clock or SystemClock()
        self._known_since_ms = self._clock.now_ms()
        self._batches = 0
        self._heads: OrderedDict[bytes, bytes] = OrderedDict()
        self._pages = ObjectCache(objects.get, page_bytes) if page_bytes else None
        self._tallies = Tallies()

    # Contexts

    def commit(self, context: Context) -> bytes:
        """Keep ``context`` and give its digest. Raises UsageError naming the field; then nothing was kept."""
        prepared = prepare(context)
        with self._mutex:
            return self._trusting_less(lambda: self._commit(context, prepared))

    def commit_atoms(self, atoms: Iterable[Atom], rest: Context = _NOTHING, *, held_max: int = HELD_ATOMS_MAX) -> bytes:
        """Keep the context that has ``atoms`` and whatever else ``rest`` says, holding ``held_max`` of them at once.

        The digest is that of the same context committed at once. Raises UsageError naming the field; then nothing was kept.
        """
        if rest.atoms or rest.molecules:
            raise UsageError(
                "atoms, molecules: a context of streamed atoms has none beside them; commit molecules over it"
            )
        prepared = prepare(rest)
        scratch = self._cache.scratch()
        if scratch is None:
            return self.commit(structs.replace(rest, atoms=tuple(atoms)))
        try:
            sorter = Sorter(scratch, held_max)
            sorter.extend(atoms)
            if not sorter.is_spilled:
                return self.commit(structs.replace(rest, atoms=tuple(sorter.held)))
            sorter.finish()
            with self._mutex:
                return self._trusting_less(lambda: self._commit_sorted(rest, prepared, sorter))
        finally:
            scratch.close()

    def context(self, digest: bytes) -> Context:
        return self._view(digest).context(self._objects.get)

    def header(self, digest: bytes) -> ContextHeader:
        return self._headers.get(digest) or self._view(digest).header

    def record(self, digest: bytes) -> RecordView:
        """The record of the context, read as far as its header. Raises NotFoundError, DamageError."""
        return self._view(digest)

    def has(self, digest: bytes) -> bool:
        """Whether the context and all that it stands on are here."""
        seen: set[bytes] = set()
        waiting = [digest]
        known, targets = self._still_known(), set(self._refs.all().values())
        while waiting:
            wanted = waiting.pop()
            if wanted in seen or wanted in known or wanted in targets:
                continue
            seen.add(wanted)
            if not self._objects.has(wanted):
                return False
            waiting += record.children_of(self._objects.get(wanted))
        return True

    def expand(self, digest: bytes) -> Expansion:
        def expand() -> Expansion:
            runs = self._stack(digest)
            entries = [Entry(row.key[2], row.atom, row.origin) for row in visible_rows(runs)]
            table = molecule_table(runs)
            return Expansion(digest, entries, table.molecules(), table.broken())

        return self._trusting_less(expand)

    def find(self, digest: bytes, identities: Iterable[bytes]) -> dict[bytes, Entry]:
        """Those of ``identities`` that are in the expansion, without the rest of it."""
        wanted = frozenset(identities)
        return self._trusting_less(lambda: entries_named(self._stack(digest), wanted))

    def molecule_table(self, digest: bytes) -> MoleculeTable:
        """The molecules of the context, in a table that is the caller's."""
        return self._trusting_less(lambda: molecule_table(self._stack(digest)))

    def ordered_rows(self, digest: bytes, after: OrderKey | None = None) -> Iterator[Row]:
        """The atoms that the context stands for, in order, pages opened as they are reached; from behind the key ``after`` on."""
        last = after
        while True:
            try:
                for row in visible_rows(self._stack(digest)):
                    if last is None or row.key > last:
                        last = row.key
                        yield row
            except StaleCacheError as error:
                self._forget(error)
            else:
                return

    def stretches(self, digest: bytes) -> Iterator[Columns]:
        """The same as columns, a stretch at a time."""
        last: OrderKey | None = None
        behind: OrderKey | None = None
        while True:
            try:
                for columns in merged(self._stack(digest)):
                    start = 0 if behind is None else bisect_right(range(len(columns.atoms)), behind, key=columns.key)
                    found = columns.between(start, len(columns.atoms)) if start else columns
                    if found.atoms:
                        yield found
                        last = found.key(-1)
            except StaleCacheError as error:
                self._forget(error)
                behind = last
            else:
                return

    def stream(
        self, digest: bytes, *, limits: ChunkLimits = DEFAULT_LIMITS, resume: int = 0, prove: bool = False
    ) -> Streamed:
        check_limits(limits, resume)
        header = self.header(digest)
        if prove:
            proving = ProvingCutter(self, digest, limits)
            return Streamed(proving, proving.cut(), resume)
        # Where nothing but one context has atoms, and all of them are there, the head is the root of its own tree.
        is_single = header.base is None or self.header(header.base).live == 0
        with self._mutex:
            head = header.atoms_root if is_single else self._heads.get(digest)

        def ended(head: bytes) -> None:
            with self._mutex:
                _keep(self._heads, digest, head, _HEADERS_MAX)

        cutter = ChunkCutter(header.live, limits, head, ended)
        return Streamed(cutter, cutter.cut(self.stretches(digest)), resume)

    def added(self, digest: bytes) -> Container[bytes]:
        """The identities of the atoms that a delta adds or annotates anew."""
        view = self._view(digest)
        if weight_of(view.header) >= self._large_weight:
            return self._sets(view).adds
        get = self._objects.get
        return frozenset(one for page in view.pages(get) for one in view.page_of(page, get).digests())

    def get(self, digest: bytes) -> bytes:
        """An object, verified. Raises NotFoundError, DamageError."""
        return self._objects.get(digest)

    def runs(self, digest: bytes) -> list[Run]:
        """The runs, newest first, whose visible rows are the expansion. Reading them may raise StaleCacheError: ask again then."""
        return self._trusting_less(lambda: self._stack(digest))

    # Objects

    @property
    def source(self) -> ObjectShelf:
        return self._objects

    def objects(self, digests: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        for digest in digests:
            yield digest, self._objects.get(digest)

    def missing(self, digests: Iterable[bytes]) -> list[bytes]:
        return [digest for digest in digests if not self._objects.has(digest)]

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Many commits with one sync: inside, only refs are set durably, with all that is below them; at the end all is durable.

        Contexts committed inside may be lost, whole or in part, if the power is cut before the end; a process that ends loses none.
        """
        with self._mutex:
            self._batches += 1
        try:
            yield
        finally:
            with self._mutex:
                self._batches -= 1
                if not self._batches:
                    self._objects.settle()

    def admit(self, digest: bytes) -> None:
        """Check a context whose objects came from elsewhere, and all that it stands on, as ``commit`` would have.

        Raises NotFoundError naming the first object that is missing, DamageError or FormatError for bytes of no canonical form, and
        UsageError naming the field that is untrue of the context.
        """
        with self._mutex:
            self._trusting_less(lambda: self._admit(digest))

    # Refs

    def refs(self) -> dict[str, bytes]:
        return self._refs.all()

    def set_ref(self, name: str, target: bytes | None, *, expected: Expected = ANY, force: bool = False) -> None:
        check_ref_name(name)
        for tries_left in reversed(range(_REF_TRIES)):
            found = self._refs.get(name)
            if expected is not ANY and found != expected:
                raise moved(name, expected, found)
            if target is not None:
                self.admit(target)
                if found is not None and not force and not is_ancestor(self, found, target):
                    raise ConflictError(
                        f"ref {name} stands at {found.hex()[:16]}, from which {target.hex()[:16]} does not descend",
                        safe="It was not changed.",
                        mend="Merge the two and set the ref to the merge, or force it.",
                    )
            with self._mutex:
                self._objects.settle()
            try:
                self._refs.change(name, found, target)
            except ConflictError:
                if expected is not ANY or not tries_left:
                    raise
                continue  # somebody was quicker; whether the move is still one forward is asked again
            return

    def close(self) -> None:
        self._cache.close()

    # How

    def _commit(self, given: Context, prepared: Prepared) -> bytes:
        self._require_parents(given)
        entered, tip = self._entered(given, prepared)
        encoded = record.encode(prepared, depth=entered.depth, live=entered.live, sink=self._objects.put)
        self._settled(encoded)
        self._advance(encoded.header, prepared, tip)
        return encoded.digest

    def _require_parents(self, given: Context) -> None:
        for place, digest in enumerate(given.merged):
            self._require(f"merged[{place}]", digest)
        if given.base is not None:
            self._require("base", given.base)

    def _settled(self, encoded: Encoded) -> None:
        if not self._batches:
            self._objects.settle()
        self._known.add(encoded.digest)
        _keep(self._headers, encoded.digest, encoded.header, _HEADERS_MAX)

    def _commit_sorted(self, given: Context, prepared: Prepared, sorter: Sorter) -> bytes:
        self._require_parents(given)
        encoded = self._encoded(given, prepared, sorter, self._objects.put)
        self._settled(encoded)
        self._cache.keep_sets(encoded.digest, sorter.digests(), prepared.context.removed)
        return encoded.digest

    def _encoded(self, given: Context, prepared: Prepared, sorter: Sorter, sink: Callable[[bytes], object]) -> Encoded:
        """The record of a context whose atoms are in ``sorter``, checked on entry before ``sink`` gets the first object."""
        entered, tip = self._entered(given, prepared)
        removed = frozenset(given.removed)
        brought = 0
        for digest in sorter.digests():
            if digest in removed:
                raise UsageError(f"removed[{given.removed.index(digest)}]: {digest.hex()} is added in the same context")
            brought += given.base is None or not tip.has_atom(digest)
        pages = AtomPages(sink)
        for digests, atoms in sorter.pages():
            pages.add(digests, atoms)
        return pages.encode(prepared, depth=entered.depth, live=entered.live + brought)

    def _entered(self, given: Context, prepared: Prepared) -> tuple[CheckedEntry, _Tip]:
        context = prepared.context
        parents = [self.header(parent) for parent in _parents(context)]
        if context.base is None:
            tip = _Tip([], {}, 0, MoleculeTable())
            return check_entry(given, prepared, parents, Below(0, tip.has_atom, tip.names)), tip
        base = context.base
        tip = self._tip(base)
        below = Below(parents[0].live, tip.has_atom, lambda digest: self._molecules(base).names(digest))
        return check_entry(given, prepared, parents, below), tip

    def _require(self, field: str, digest: bytes) -> None:
        if self._is_known(digest):
            return
        try:
            self._admit(digest)
        except NotFoundError as error:
            raise UsageError(
                f"{field}: {error.wrong}", safe="Nothing was kept.", mend="Fetch that context first."
            ) from error

    def forget_known(self) -> None:
        """Let every context be looked for again before another is built on it."""
        with self._mutex:
            self._known.clear()
            self._tips.clear()
            self._stacks.clear()
            if self._pages is not None:
                self._pages.clear()
            self._known_since_ms = self._clock.now_ms()

    def renew(self) -> bool:
        """Let go of whatever is held in memory, if something was taken out of the store since the last call; True then.

        What is asked for by digest cannot become old, but it can be redacted: who serves a store for long asks this before each step.
        """
        return False

    def is_in_place(self) -> bool:
        """Whether what was opened still lies where it was: a store may be moved, removed or replaced beneath whoever serves it."""
        return True

    def forget_held(self) -> None:
        """Hold nothing in memory of what was read."""
        with self._mutex:
            self.forget_known()
            self._views.clear()
            self._headers.clear()
            self._heads.clear()
            self._cache.close()

    def _still_known(self) -> set[bytes]:
        if abs(self._clock.now_ms() - self._known_since_ms) > KNOWN_FOR_MS:
            self.forget_known()  # gc may have parked since, what no ref reached
        return self._known

    def _is_known(self, digest: bytes) -> bool:
        if digest in self._still_known():
            return True
        if digest in self._refs.all().values():
            self._known.add(digest)
            return True
        return False

    def _admit(self, digest: bytes) -> None:
        if self._is_known(digest):
            return
        order: list[bytes] = []
        waiting = [digest]
        met: set[bytes] = set()
        targets = set(self._refs.all().values())
        while waiting:
            wanted = waiting.pop()
            if wanted in met or wanted in self._known or wanted in targets:
                continue
            met.add(wanted)
            order.append(wanted)
            waiting += _parents(self.header(wanted))
        order.sort(key=lambda item: self.header(item).depth)
        for wanted in order:
            self._check(wanted)

    def _check(self, digest: bytes) -> None:
        """One context whose parents are known: its bytes are those that ``commit`` would have made."""
        header = self.header(digest)
        self._view(digest).check_named(self._objects.get)
        if header.atom_count > HELD_ATOMS_MAX and not header.molecule_count:
            scratch = self._cache.scratch()
            if scratch is not None:
                try:
                    self._check_in_parts(self._view(digest), Sorter(scratch))
                finally:
                    scratch.close()
                return
        context = self.context(digest)
        prepared = prepare(context)
        entered, tip = self._entered(context, prepared)
        _compare(header, record.encode(prepared, depth=entered.depth, live=entered.live, sink=_nowhere))
        self._known.add(digest)
        self._advance(header, prepared, tip)

    def _check_in_parts(self, view: RecordView, sorter: Sorter) -> None:
        """The same for a context of so many atoms that they are not held at once."""
        header, get = view.header, self._objects.get
        _check_repeats(view, get)
        sorter.extend(row.atom for row in rows_of(view, get))
        sorter.finish()
        rest = Context(header.base, (), (), tuple(view.removed(get)), header.metadata, header.merged)
        _compare(header, self._encoded(rest, prepare(rest), sorter, _nowhere))
        self._known.add(header.digest)
        if self._cache.sets(header.digest) is None:
            self._cache.keep_sets(header.digest, sorter.digests(), rest.removed)

    def _advance(self, header: ContextHeader, prepared: Prepared, before: _Tip) -> None:
        """The tip of a context that was just kept, from that of its base."""
        context, digest = prepared.context, header.digest
        weight = weight_of(header)
        if weight >= self._large_weight and self._cache.sets(digest) is None:
            self._cache.keep_sets(digest, sorted(prepared.atom_digests), context.removed)
        if before.weight + weight > self._large_weight:
            return  # the next tip is made of runs, and a fold kept on the way
        ahead = before.ahead.copy()
        for gone in context.removed:
            ahead[gone] = False
        for identity in prepared.atom_digests:
            ahead[identity] = True
        molecules, before.molecules = before.molecules, None
        if molecules is not None:
            molecules.apply(context.removed, context.molecules)
        _keep(self._tips, digest, _Tip(before.runs, ahead, before.weight + weight, molecules), _TIPS_MAX)

    def _tip(self, digest: bytes) -> _Tip:
        tip = self._tips.get(digest)
        if tip is None:
            tip = _Tip(self._stack(digest), {}, 0, None)
            _keep(self._tips, digest, tip, _TIPS_MAX)
        return tip

    def _molecules(self, digest: bytes) -> MoleculeTable:
        tip = self._tip(digest)
        if tip.molecules is None:
            tip.molecules = molecule_table(self._stack(digest))
        return tip.molecules

    def _stack(self, digest: bytes) -> list[Run]:
        """The runs from ``digest`` down to its root, newest first; of the few asked for last as they were found then."""
        with self._mutex:
            found = self._stacks.get(digest)
        if found is None:
            found = self._walked(digest)
            with self._mutex:
                _keep(self._stacks, digest, found, _STACKS_MAX)
        return list(found)

    def _walked(self, digest: bytes) -> list[Run]:
        runs: list[Run] = []
        fold: Fold | None = None
        get = self._objects.get
        at: bytes | None = digest
        is_folded = False
        while at is not None:
            kept = self._cache.run(at)
            view = None if kept is not None else self._view(at)
            if fold is not None and (
                view is None
                or weight_of(view.header) >= self._large_weight
                or fold.weight > _FOLD_WEIGHTS * self._large_weight
                or fold.held > _FOLD_HELD_MAX
            ):
                is_folded |= self._close_fold(runs, fold, at)
                fold = None
            if kept is not None:
                runs.append(kept)
                at = kept.base
                continue
            assert view is not None
            if weight_of(view.header) >= self._large_weight:
                runs.append(self._large(view))
            else:
                fold = fold or Fold(at)
                fold.take(view, get)
            at = view.header.base
        if fold is not None:
            is_folded |= self._close_fold(runs, fold, None)
        return merge_runs(self._cache, runs) if is_folded or len(runs) > _RUNS_MAX else runs

    def _close_fold(self, runs: list[Run], fold: Fold, base: bytes | None) -> bool:
        run: Run = fold.run(base)
        is_kept = fold.weight > self._large_weight or fold.held > _FOLD_HELD_MAX
        runs.append(self._cache.keep([run]) if is_kept else run)
        return is_kept

    def _large(self, view: RecordView) -> DeltaRun:
        sets = _LazySets(lambda: self._sets(view))
        get = self._objects.get if self._pages is None else self._pages.get
        return DeltaRun(view, get, sets.adds, sets.removes, self._tallies)

    def _sets(self, view: RecordView) -> Sets:
        digest = view.header.digest
        kept = self._cache.sets(digest)
        if kept is not None:
            return kept
        get = self._objects.get
        adds = sorted(one for page in view.pages(get) for one in view.page_of(page, get).digests())
        return self._cache.keep_sets(digest, adds, view.removed(get))

    def _view(self, digest: bytes) -> RecordView:
        view = self._views.get(digest)
        if view is None:
            view = record.read_header(self._objects.get(digest))
            _keep(self._views, digest, view, _VIEWS_MAX)
        return view

    def _trusting_less(self, work: Callable[[], _T]) -> _T:
        """What ``work`` gives; where it meets a damaged file of the cache, again without that file."""
        while True:
            try:
                return work()
            except StaleCacheError as error:
                self._forget(error)

    def _forget(self, error: StaleCacheError) -> None:
        with self._mutex:
            self._cache.drop_file(error)
            self._tips.clear()
            self._stacks.clear()


class _LazySets:
    """The sets of a large delta, looked for when one is first asked."""

    def __init__(self, find: Callable[[], Sets]) -> None:
        self._find = find
        self._found: Sets | None = None
        self.adds = LazySet(lambda: self.found.adds)
        self.removes = LazySet(lambda: self.found.removes)

    @property
    def found(self) -> Sets:
        if self._found is None:
            self._found = self._find()
        return self._found


def _keep(held: OrderedDict[bytes, _T], digest: bytes, value: _T, most: int) -> None:
    held[digest] = value
    while len(held) > most:
        held.popitem(last=False)


def _compare(stated: ContextHeader, true: Encoded) -> None:
    """Raises UsageError naming what a record says that is not so of its context."""
    name = stated.digest.hex()[:16]
    for field, said, found in (
        ("depth", stated.depth, true.header.depth),
        ("live", stated.live, true.header.live),
        ("atom_count", stated.atom_count, true.header.atom_count),
    ):
        if said != found:
            raise UsageError(f"{field}: context {name} says {said:,}, it is {found:,}")
    if true.digest != stated.digest:
        raise UsageError(f"record: context {name} is not in canonical form")


def _check_repeats(view: RecordView, get: Callable[[bytes], bytes]) -> None:
    """Before contents are read: few bytes must not stand for many."""
    seen: set[bytes] = set()
    repeated = 0
    for page in view.pages(get):
        for long in view.page_of(page, get).long:
            if long.digest in seen:
                repeated += long.size_bytes
                check_repeated(repeated)
            seen.add(long.digest)


def _nowhere(_data: bytes) -> None:
    """Where objects go that are only to be hashed."""


def _parents(of: Context | ContextHeader) -> list[bytes]:
    return [*of.merged] if of.base is None else [of.base, *of.merged]
