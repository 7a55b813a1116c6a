"""Streams: the expansion of a context in chunks, best first, reading no further than the reader does.

Theory of operation
-------------------
A chain of deltas is a stack of *runs*, newest first (``stores.delta_runs``): each holds atoms in the order of an expansion, in pages.
``merge_sorted_runs`` merges them a stretch at a time. For every run it knows the first key of the next page; a page is opened once no opened
page lies before it. The *cut* is the least last key of the opened pages: every atom at or before it is in an opened page, so it
can be emitted. Most stretches are a slice of a single page, and then not even the keys are compared. Atoms that a newer run adds
again or removes are dropped on the way. Nothing is read ahead of demand: a reader who stops after one chunk has paid for the
pages of that chunk, and for one page of each run that begins before its end.

``ChunkCutter`` cuts the stretches into chunks. Each of the three limits holds for every chunk. An atom that exceeds one
of them alone is neither cut nor sent: the chunk names it (``Chunk.over``), with its annotation, so that the head of the
stream covers it too. The boundaries of chunks depend only on the expansion and the limits, so a stream can be resumed
at any chunk.
"""

from __future__ import annotations

__all__ = [
    "ATOM_BYTES",
    "ChunkCutter",
    "Columns",
    "SortedRun",
    "Streamed",
    "Tallies",
    "Tally",
    "atom_bytes",
    "atom_count_error",
    "check_limits",
    "chunk_limit_error",
    "merge_sorted_runs",
    "progress_of",
]

import heapq
from array import array
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from threading import Lock
from typing import Final, NamedTuple, Protocol

from periplus.base.errors import DamageError, UsageError
from periplus.base.text.token_estimate import estimate_tokens
from periplus.context.model import (
    Atom,
    Chunk,
    ChunkLimits,
    Entry,
    OrderKey,
    Oversize,
    StreamEnd,
    annotation_record,
    order_key,
)
from periplus.context.records.pages import leaf_hashes
from periplus.merkle import Frontier

ATOM_BYTES: Final = 112  # size of an entry as messagepack without its texts: two digests, two numbers, lengths
TALLIES_MAX: Final = 4_096  # of up to 11 KiB each, for a million atoms
_TAG_BYTES: Final = 5
_MILLION: Final = 1_000_000
_new_entry: Final = partial(tuple.__new__, Entry)  # the constructor of a NamedTuple is a function in Python


class Tally:
    """Cached measures of a page: tokens and bytes of each atom, and the hash of its leaf.

    Each is computed on first use. Several threads may ask at once; at worst they do the same work. ``is_checked`` tells
    whether the bytes of the page were checked.
    """

    __slots__ = ("_leaves", "_sizes", "_tokens", "is_checked")

    def __init__(self, count: int) -> None:
        self._tokens = array("i", [-1]) * count
        self._sizes = array("i", [0]) * count
        self._leaves = (
            bytes(count),
            b"",
        )  # known flags and hashes: one value, replaced atomically
        self.is_checked = False

    def takes(self, atoms: Sequence[Atom], start: int) -> tuple[Sequence[int], Sequence[int]]:
        """Return tokens and bytes of ``atoms``, the first of which is number ``start`` of the page."""
        stop = start + len(atoms)
        if -1 in self._tokens[start:stop]:
            for at, atom in enumerate(atoms, start):
                if self._tokens[at] < 0:
                    self._sizes[at] = atom_bytes(atom)
                    self._tokens[at] = estimate_tokens(atom.content)
        return self._tokens[start:stop], self._sizes[start:stop]

    def leaves(self, atoms: Sequence[Atom], digests: Sequence[bytes], start: int) -> list[bytes]:
        """Return the leaf hashes of ``atoms``, the first of which is number ``start`` of the page."""
        stop = start + len(atoms)
        known, hashes = self._leaves
        if 0 not in known[start:stop]:
            return [hashes[at : at + 32] for at in range(32 * start, 32 * stop, 32)]
        found = leaf_hashes(digests, atoms)
        hashes = hashes or bytes(32 * len(known))
        self._leaves = (
            known[:start] + b"\1" * len(atoms) + known[stop:],
            hashes[: 32 * start] + b"".join(found) + hashes[32 * stop :],
        )
        return found


class Tallies:
    """A cache of the tallies of recently read pages, by the name of the page; for several threads."""

    def __init__(self) -> None:
        self._pages: dict[bytes, Tally] = {}
        self._mutex = Lock()

    def of(self, page: bytes, count: int) -> Tally:
        found = self._pages.get(page)
        if found is None:
            with self._mutex:
                found = self._pages.setdefault(page, Tally(count))
                if len(self._pages) > TALLIES_MAX:
                    del self._pages[next(iter(self._pages))]
        return found


class Columns(NamedTuple):
    """Neighbouring atoms of a run or a stream as columns of one length, so that operations work on whole columns.

    If they are consecutive atoms of one page, ``tally`` is that of the page and ``first`` the number of the first atom.
    """

    atoms: Sequence[Atom]
    digests: Sequence[bytes]
    origins: Sequence[bytes]
    tally: Tally | None = None
    first: int = 0
    taken: tuple[Sequence[int], Sequence[int]] | None = None

    def key(self, at: int) -> OrderKey:
        return order_key(self.digests[at], self.atoms[at])

    def takes(self, start: int, stop: int) -> tuple[Sequence[int], Sequence[int]]:
        """Return tokens and bytes of the atoms from ``start`` to ``stop``."""
        if self.taken is not None:
            return self.taken[0][start:stop], self.taken[1][start:stop]
        atoms = self.atoms[start:stop]
        if self.tally is not None:
            return self.tally.takes(atoms, self.first + start)
        return [estimate_tokens(atom.content) for atom in atoms], [atom_bytes(atom) for atom in atoms]

    def leaves(self) -> list[bytes]:
        """Return the hashes of the leaves of these atoms in a tree."""
        if self.tally is not None:
            return self.tally.leaves(self.atoms, self.digests, self.first)
        return leaf_hashes(self.digests, self.atoms)

    def between(self, start: int, stop: int) -> Columns:
        taken = None if self.taken is None else self.takes(start, stop)
        atoms, digests, origins = self.atoms[start:stop], self.digests[start:stop], self.origins[start:stop]
        return Columns(atoms, digests, origins, self.tally, self.first + start, taken)

    def only(self, places: Sequence[int]) -> Columns:
        taken = None
        if self.tally is not None or self.taken is not None:
            tokens, sizes = self.takes(0, len(self.atoms))
            taken = ([tokens[at] for at in places], [sizes[at] for at in places])
        return Columns(
            [self.atoms[at] for at in places],
            [self.digests[at] for at in places],
            [self.origins[at] for at in places],
            taken=taken,
        )


class SortedRun(Protocol):
    """Atoms in the order of an expansion, in pages."""

    def pages(self) -> Iterator[tuple[OrderKey, Callable[[], Columns]]]:
        """Yield the first key of each page, and the function that opens it; no page is empty."""
        ...

    def unspoken(self, digests: Sequence[bytes]) -> Sequence[int] | None:
        """Return the indices of those of ``digests`` that the run neither adds nor removes; None for all of them."""
        ...


class _Opened:
    """The current page of a run, and the position in it."""

    __slots__ = ("at", "columns", "last", "number")

    def __init__(self, number: int, columns: Columns) -> None:
        self.number = number
        self.columns = columns
        self.at = 0
        self.last = columns.key(len(columns.atoms) - 1)


def merge_sorted_runs(runs: Sequence[SortedRun]) -> Iterator[Columns]:
    """Yield the atoms of a stack of runs, newest first, that no newer run overrides, in the order of their expansion."""
    pages = [run.pages() for run in runs]
    waiting: list[tuple[OrderKey, int, Callable[[], Columns]]] = []
    for number, coming in enumerate(pages):
        _wait(waiting, number, coming)
    opened: list[_Opened] = []
    while waiting or opened:
        if not opened:
            _, number, opens = heapq.heappop(waiting)
            opened.append(_Opened(number, opens()))
        cut = min(page.last for page in opened)
        while waiting and waiting[0][0] <= cut:
            _, number, opens = heapq.heappop(waiting)
            opened.append(_Opened(number, opens()))
            cut = min(cut, opened[-1].last)
        parts: list[tuple[int, Columns]] = []
        for page in opened:
            columns = page.columns
            stop = len(columns.atoms)
            if page.last > cut:
                stop = bisect_right(range(stop), cut, lo=page.at, key=columns.key)
            if stop > page.at:
                part = columns if stop - page.at == len(columns.atoms) else columns.between(page.at, stop)
                parts.append((page.number, _seen(part, runs[: page.number])))
                page.at = stop
        for page in [page for page in opened if page.at == len(page.columns.atoms)]:
            opened.remove(page)
            _wait(waiting, page.number, pages[page.number])
        together = _together([columns for _, columns in parts if columns.atoms])
        if together is not None:
            yield together


def _wait(
    waiting: list[tuple[OrderKey, int, Callable[[], Columns]]],
    number: int,
    coming: Iterator[tuple[OrderKey, Callable[[], Columns]]],
) -> None:
    for key, opens in coming:
        heapq.heappush(waiting, (key, number, opens))
        return


def _seen(columns: Columns, newer: Sequence[SortedRun]) -> Columns:
    """Return the atoms that no newer run overrides."""
    for run in newer:
        places = run.unspoken(columns.digests)
        if places is not None:
            columns = columns.only(places)
    return columns


def _together(parts: Sequence[Columns]) -> Columns | None:
    """Merge overlapping stretches into one."""
    if len(parts) < 2:
        return parts[0] if parts else None
    takes = [part.takes(0, len(part.atoms)) for part in parts]
    whole = Columns(
        [atom for part in parts for atom in part.atoms],
        [digest for part in parts for digest in part.digests],
        [origin for part in parts for origin in part.origins],
        taken=([count for tokens, _ in takes for count in tokens], [count for _, sizes in takes for count in sizes]),
    )
    return whole.only(sorted(range(len(whole.atoms)), key=whole.key))


def check_limits(limits: ChunkLimits, resume: int) -> None:
    """Raise UsageError that names the invalid field."""
    for name, value in zip(limits._fields, limits, strict=True):
        if value < 1:
            raise UsageError(f"limits.{name}: {value:,} is below 1")
    if resume < 0:
        raise UsageError(f"resume: {resume:,} is below 0: chunks are counted from 0")


def atom_bytes(atom: Atom) -> int:
    """Return the size of an atom for a byte limit: at least its size as messagepack with its two digests."""
    texts = f"{atom.content}{atom.type}{atom.source}{''.join(atom.tags)}"
    return ATOM_BYTES + _TAG_BYTES * len(atom.tags) + (len(texts) if texts.isascii() else len(texts.encode()))


def progress_of(atoms: int, live: int) -> int:
    """Return the share of ``atoms`` in an expansion of ``live`` atoms, in millionths."""
    return atoms * _MILLION // live if live else _MILLION


def atom_count_error(live: int) -> DamageError:
    return DamageError(
        f"the record of the context says {live:,} atoms, its deltas have another number",
        mend="Fetch it again from its source, or write it again with `periplus context commit`.",
    )


def chunk_limit_error(digest: bytes, limits: ChunkLimits) -> UsageError:
    return UsageError(f"limits.size_bytes: no chunk of {limits.size_bytes:,} bytes can even name atom {digest.hex()}")


class ChunkCutter:
    """Cut an expansion of ``live`` atoms into chunks. ``end`` is set from the last chunk on.

    ``head`` is the head of the expansion if it is already known; otherwise ``ended`` receives it at the end.
    """

    def __init__(
        self,
        live: int,
        limits: ChunkLimits,
        head: bytes | None = None,
        ended: Callable[[bytes], None] | None = None,
    ) -> None:
        self.end: StreamEnd | None = None
        self._live = live
        self._limits = limits
        self._head = head
        self._ended = ended
        self._tree = Frontier()
        self._number = 0
        self._sent = 0
        self._cumulative = 0
        self._begin()

    def cut(self, stretches: Iterable[Columns]) -> Generator[Chunk, None, None]:
        """Yield the chunks. Raises DamageError for fewer atoms than ``live``, UsageError if a limit leaves no room to
        name an atom.
        """
        for stretch in stretches:
            counted = _Counted(stretch)
            at, count = 0, len(stretch.atoms)
            while at < count:
                stop = self._room(counted, at)
                if stop > at:
                    self._take(counted, at, stop)
                    at = stop
                if self._sent + self._atoms + (at < count) > self._live:
                    raise atom_count_error(self._live)
                if self._sent + self._atoms == self._live:
                    yield self._close(is_final=True)
                    return
                if at < count or self._atoms == self._limits.atoms:
                    yield self._close(is_final=False)
        if self._live:
            raise atom_count_error(self._live)
        yield self._close(is_final=True)

    def _begin(self) -> None:
        self._entries: list[Entry] = []
        self._over: list[Oversize] = []
        self._atoms = self._tokens = self._size = 0

    def _room(self, counted: _Counted, at: int) -> int:
        """Return the place in the stretch up to which this chunk has room."""
        limits = self._limits
        stop = counted.fit(at, min(at + limits.atoms - self._atoms, counted.count), limits,
                           limits.tokens - self._tokens, limits.size_bytes - self._size)  # fmt: skip
        if stop == at and not self._atoms:
            raise chunk_limit_error(counted.columns.digests[at], limits)
        return stop

    def _take(self, counted: _Counted, start: int, stop: int) -> None:
        whole = counted.columns
        if self._head is None:
            self._tree.extend(whole.between(start, stop).leaves())
        digests, atoms, origins = whole.digests[start:stop], whole.atoms[start:stop], whole.origins[start:stop]
        if counted.over:
            self._over += [
                Oversize(whole.digests[at], whole.origins[at], annotation_record(whole.digests[at], whole.atoms[at]))
                for at in sorted(counted.over)
                if start <= at < stop
            ]
            kept = [at for at in range(stop - start) if start + at not in counted.over]
            digests, atoms = [digests[at] for at in kept], [atoms[at] for at in kept]
            origins = [origins[at] for at in kept]
        self._entries += map(_new_entry, zip(digests, atoms, origins, strict=True))
        self._atoms += stop - start
        self._tokens += counted.tokens_between(start, stop)
        self._size += counted.bytes_between(start, stop)

    def _close(self, *, is_final: bool) -> Chunk:
        start = self._sent
        self._sent += self._atoms
        self._cumulative += self._tokens
        progress = progress_of(self._sent, self._live)
        chunk = Chunk(
            self._number, start, tuple(self._entries), self._cumulative, progress, is_final, b"", tuple(self._over)
        )
        self._number += 1
        if is_final:
            head = self._head or self._tree.root()
            self.end = StreamEnd(self._sent, self._cumulative, self._number, head)
            if self._ended is not None:
                self._ended(head)
        self._begin()
        return chunk


class _Counted:
    """A stretch with running sums of tokens and bytes, computed as far as needed and then twice as far."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.count = len(columns.atoms)
        self.over: set[int] = set()
        self._done = 0
        self._tokens = [0]  # running sums up to each place
        self._bytes = [0]

    def fit(self, start: int, stop: int, limits: ChunkLimits, tokens: int, size_bytes: int) -> int:
        """Return the place, at most ``stop``, up to which the atoms from ``start`` on fit."""
        if stop > self._done:
            self._grow(min(max(stop, 2 * self._done), self.count), limits)
        stop = min(stop, bisect_right(self._tokens, self._tokens[start] + tokens, start, stop + 1) - 1)
        return min(stop, bisect_right(self._bytes, self._bytes[start] + size_bytes, start, stop + 1) - 1)

    def tokens_between(self, start: int, stop: int) -> int:
        return self._tokens[stop] - self._tokens[start]

    def bytes_between(self, start: int, stop: int) -> int:
        return self._bytes[stop] - self._bytes[start]

    def _grow(self, stop: int, limits: ChunkLimits) -> None:
        columns, done = self.columns, self._done
        tokens, sizes = columns.takes(done, stop)
        if max(tokens) > limits.tokens or max(sizes) > limits.size_bytes:
            tokens, sizes = list(tokens), list(sizes)
            for at, atom in enumerate(columns.atoms[done:stop]):
                if tokens[at] > limits.tokens or sizes[at] > limits.size_bytes:
                    self.over.add(done + at)
                    tokens[at] = 0
                    sizes[at] = ATOM_BYTES + len(annotation_record(columns.digests[done + at], atom))
        self._tokens += accumulate(tokens[1:], initial=self._tokens[-1] + tokens[0])
        self._bytes += accumulate(sizes[1:], initial=self._bytes[-1] + sizes[0])
        self._done = stop


class Ending(Protocol):
    """An object that knows the end of a stream once it is reached."""

    @property
    def end(self) -> StreamEnd | None: ...


class Streamed:
    """A stream of the store protocol over the chunks of ``cutter``, from the chunk ``resume`` on."""

    def __init__(self, cutter: Ending, chunks: Generator[Chunk, None, None], resume: int = 0) -> None:
        self._cutter = cutter
        self._chunks = chunks
        self._resume = resume

    @property
    def end(self) -> StreamEnd | None:
        return self._cutter.end

    def __iter__(self) -> Streamed:
        return self

    def __next__(self) -> Chunk:
        for chunk in self._chunks:
            if chunk.chunk_id >= self._resume:
                return chunk
            if chunk.is_final:
                raise UsageError(f"resume: there is no chunk {self._resume:,}: the last is chunk {chunk.chunk_id:,}")
        raise StopIteration

    def close(self) -> None:
        """Free the resources of the stream."""
        self._chunks.close()
