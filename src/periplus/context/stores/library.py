"""The contexts of a store, over any source of objects, any table of refs and any cache: ``Store`` for everything local.

Theory of operation
-------------------
A context is its record and the objects below it. Four questions are asked of a chain of them, and none may cost the whole chain:

* *What is its expansion?* ``_stack`` walks from a context to its root, without recursion, over runs from the cache and over records
  where the cache has none; a fold of more than a few small deltas is stored in the cache (``context.stores.delta_runs`` and
  ``context.stores.snapshots``), so that no delta is folded often.
* *Does it have this atom?* Asked at every commit: the few deltas above the newest cached run are in a dict that moves along from
  commit to commit (a *tip*); below it the runs answer, by bisection.
* *Is it whole and valid?* ``admit`` walks down to contexts known to be so and up again, checking every delta like ``commit``.
  Contexts become known by being committed, admitted, or named by a ref.
* *Does it descend from that one?* Depths bound the walk, because every ancestor is less deep.

Rules: an object is written before the object that names it, and a ref is set when everything below it is durable; a
refused context leaves nothing behind; a damaged cache is dropped and the objects are read instead, even in the middle
of an iteration.
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
from periplus.context.stores.entry_check import BaseLookup, CheckedEntry, check_entry
from periplus.context.stores.external_sort import HELD_ATOMS_MAX, Sorter
from periplus.context.stores.object_cache import ObjectCache
from periplus.context.stores.refs import RefTable, check_ref_name, ref_moved_error
from periplus.context.stores.snapshots import MemoryCache, RunCache, Sets, StaleCacheError, merge_runs
from periplus.context.streams.chunks import ChunkCutter, Columns, Streamed, Tallies, check_limits, merge_sorted_runs
from periplus.context.streams.proof_source import ProvingCutter
from periplus.context.validation import Prepared, check_repeated, prepare

LARGE_WEIGHT: Final = 1024  # a delta of this weight is a run of its own; smaller ones are folded until they reach it
_FOLD_WEIGHTS: Final = 64  # a fold of this many times the weight is stored while older deltas are still being read
_FOLD_HELD_MAX: Final = 4 << 20  # characters of contents in memory; a larger fold is stored in a file
KNOWN_FOR_MS: Final = 3_600_000  # gc removes nothing that was parked for a shorter time
_RUNS_MAX: Final = 16
_VIEWS_MAX: Final = 2048
_HEADERS_MAX: Final = 2048
_STACKS_MAX: Final = 8
_TIPS_MAX: Final = 64
_REF_TRIES: Final = 64
_NOTHING: Final = Context()
_T = TypeVar("_T")


class ObjectShelf(ObjectSource, Protocol):
    """Objects of which the latest may be lost at a power cut until ``settle`` has returned."""

    def take(self, data: bytes) -> bytes:
        """Put an object of another store. Raises RedactedError for one that was redacted here."""
        ...

    def settle(self) -> None:
        """Make all objects durable before returning. Raises EnvironmentFailure."""
        ...


class _Tip:
    """The state for commits on ``head``: the cached runs below, and what the small deltas above them add and remove."""

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
    """The contexts in ``objects``, named by ``refs``; ``cache`` may be lost at any time.

    Several threads may use one library, and several libraries, in processes of their own, one store.
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
        """``large_weight`` is the weight of a delta that is a run of its own, and of small deltas that are folded into
        a stored run.

        ``page_bytes`` is the memory for pages that are read repeatedly.
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
        """Store ``context`` and return its digest. Raises UsageError naming the field; nothing is stored then."""
        prepared = prepare(context)
        with self._mutex:
            return self._trusting_less(lambda: self._commit(context, prepared))

    def commit_atoms(self, atoms: Iterable[Atom], rest: Context = _NOTHING, *, held_max: int = HELD_ATOMS_MAX) -> bytes:
        """Store the context with ``atoms`` and the other fields of ``rest``, with at most ``held_max`` atoms in memory.

        The digest is that of the same context committed at once. Raises UsageError naming the field; nothing is stored
        then.
        """
        if rest.atoms or rest.molecules:
            raise UsageError("atoms, molecules: a context of streamed atoms has no others; commit molecules over it")
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
        """Return the record of the context, read as far as its header. Raises NotFoundError, DamageError."""
        return self._view(digest)

    def has(self, digest: bytes) -> bool:
        """Return whether the context and all its ancestors are here."""
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
        """Return those of ``identities`` that are in the expansion, without reading the rest of it."""
        wanted = frozenset(identities)
        return self._trusting_less(lambda: entries_named(self._stack(digest), wanted))

    def molecule_table(self, digest: bytes) -> MoleculeTable:
        """Return a new table of the molecules of the context, which the caller may change."""
        return self._trusting_less(lambda: molecule_table(self._stack(digest)))

    def ordered_rows(self, digest: bytes, after: OrderKey | None = None) -> Iterator[Row]:
        """Yield the atoms of the expansion in order, from behind the key ``after`` on; pages are opened when they are
        reached.
        """
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
        """Yield the atoms of the expansion as columns, a stretch at a time."""
        last: OrderKey | None = None
        behind: OrderKey | None = None
        while True:
            try:
                for columns in merge_sorted_runs(self._stack(digest)):
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
        # If only one context has atoms, and all of them are live, the head is the root of its own tree.
        is_single = header.base is None or self.header(header.base).live == 0
        with self._mutex:
            head = header.atoms_root if is_single else self._heads.get(digest)

        def ended(head: bytes) -> None:
            with self._mutex:
                _keep(self._heads, digest, head, _HEADERS_MAX)

        cutter = ChunkCutter(header.live, limits, head, ended)
        return Streamed(cutter, cutter.cut(self.stretches(digest)), resume)

    def added(self, digest: bytes) -> Container[bytes]:
        """Return the identities of the atoms that a delta adds or annotates anew."""
        view = self._view(digest)
        if weight_of(view.header) >= self._large_weight:
            return self._sets(view).adds
        get = self._objects.get
        return frozenset(one for page in view.pages(get) for one in view.page_of(page, get).digests())

    def get(self, digest: bytes) -> bytes:
        """Return a verified object. Raises NotFoundError, DamageError."""
        return self._objects.get(digest)

    def runs(self, digest: bytes) -> list[Run]:
        """Return the runs, newest first, whose visible rows are the expansion. Reading them may raise StaleCacheError:
        repeat then.
        """
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
        """Make many commits durable with one sync: inside, only setting a ref syncs, with everything below it; the end
        syncs all.

        A power cut before the end may lose contexts committed inside, in whole or in part; the end of the process loses
        none.
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
        """Check a context whose objects came from elsewhere, and all its ancestors, like ``commit``.

        Raises NotFoundError naming the first missing object, DamageError or FormatError for bytes that are not
        canonical, and UsageError naming a field that is false.
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
                raise ref_moved_error(name, expected, found)
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
                continue  # another process was faster: check again whether the move is a descent
            return

    def close(self) -> None:
        self._cache.close()

    # Internals

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
        """Return the record of a context whose atoms are in ``sorter``, checked on entry before ``sink`` receives the
        first object.
        """
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
            return check_entry(given, prepared, parents, BaseLookup(0, tip.has_atom, tip.names)), tip
        base = context.base
        tip = self._tip(base)
        below = BaseLookup(parents[0].live, tip.has_atom, lambda digest: self._molecules(base).names(digest))
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
        """Forget which contexts are known, so that each is looked up again."""
        with self._mutex:
            self._known.clear()
            self._tips.clear()
            self._stacks.clear()
            if self._pages is not None:
                self._pages.clear()
            self._known_since_ms = self._clock.now_ms()

    def renew(self) -> bool:
        """Drop everything held in memory if an object was removed from the store since the last call; return True then.

        An object named by its digest cannot become stale, but it can be redacted: a long-running server calls this
        before each step.
        """
        return False

    def is_in_place(self) -> bool:
        """Return whether the open store is still at its path: it may be moved, removed or replaced under a running
        server.
        """
        return True

    def forget_held(self) -> None:
        """Drop everything read that is held in memory."""
        with self._mutex:
            self.forget_known()
            self._views.clear()
            self._headers.clear()
            self._heads.clear()
            self._cache.close()

    def _still_known(self) -> set[bytes]:
        if abs(self._clock.now_ms() - self._known_since_ms) > KNOWN_FOR_MS:
            self.forget_known()  # gc may have parked unreachable contexts since
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
        """Check one context whose parents are known: its bytes must be those that ``commit`` would have made."""
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
        """Check a context with too many atoms to hold at once."""
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
        """Make the tip of a context that was just stored from the tip of its base."""
        context, digest = prepared.context, header.digest
        weight = weight_of(header)
        if weight >= self._large_weight and self._cache.sets(digest) is None:
            self._cache.keep_sets(digest, sorted(prepared.atom_digests), context.removed)
        if before.weight + weight > self._large_weight:
            return  # the next tip is made of runs, and stores a fold on the way
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
        """Return the runs from ``digest`` down to its root, newest first; cached for the few contexts asked last."""
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
        """Return the result of ``work``; if it meets a damaged cache file, drop that file and repeat."""
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
    """The sets of a large delta, loaded on first use."""

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
    """Raise UsageError naming a field of the record that does not match its context."""
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
    """Check repeats before contents are read: few bytes must not stand for many."""
    seen: set[bytes] = set()
    repeated = 0
    for page in view.pages(get):
        for long in view.page_of(page, get).long:
            if long.digest in seen:
                repeated += long.size_bytes
                check_repeated(repeated)
            seen.add(long.digest)


def _nowhere(_data: bytes) -> None:
    """Discard an object that was only to be hashed."""


def _parents(of: Context | ContextHeader) -> list[bytes]:
    return [*of.merged] if of.base is None else [of.base, *of.merged]
