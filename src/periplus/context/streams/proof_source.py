"""The sender's side of ``context.streams.chunk_proof``: the chunks of a stream, each with its proof.

Proofs are made from records and pages only, never from derived data. The rows of all deltas of a chain come in the
order of the stream, valid or not: the valid ones are its atoms, and the others go into the draws unless a record holds
them, so that the draws have no gaps. A delta whose atoms are in its record needs no draws.

A chunk ends where the next row does not fit. The objects that its proof needs first (records not sent yet, pages of
removals) are bounded by PROOF_BYTES_MAX: if they exceed it, chunks with a proof and no atoms go ahead.
"""

from __future__ import annotations

__all__ = ["ProofSource", "ProvingCutter"]

import heapq
from collections.abc import Callable, Container, Generator, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

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
from periplus.context.records.record import RecordView
from periplus.context.streams.chunk_proof import PROOF_BYTES_MAX, PROOF_VERSION, ChunkProof, Draw
from periplus.context.streams.chunks import ATOM_BYTES, atom_bytes, atom_count_error, chunk_limit_error, progress_of
from periplus.merkle import Frontier, leaf_hash
from periplus.merkle.multiproof import PagedTree, prove

_DRAW_BYTES: Final = 2_600  # numbers, and at most two nodes a layer at each end of a stretch
_GONE_BYTES: Final = 10


class ProofSource(Protocol):
    """The source of the objects of proofs."""

    def record(self, digest: bytes) -> RecordView: ...

    def get(self, digest: bytes) -> bytes:
        """Return a verified object."""
        ...

    def added(self, digest: bytes) -> Container[bytes]:
        """Return the identities of the atoms of a delta."""
        ...


class _Row(NamedTuple):
    """A row of a delta at ``place`` of the chain, its leaf ``at``; -1 if the atom is in the record."""

    key: OrderKey
    place: int
    at: int
    atom: Atom


class _Delta:
    """A context of the chain, and the stretch of its leaves in the current chunk."""

    def __init__(self, view: RecordView, get: Callable[[bytes], bytes]) -> None:
        self.view = view
        self.origin = view.header.digest
        self.start = self.stop = 0
        self.gone: list[tuple[int, bytes]] = []
        self._get = get
        self._tree: PagedTree | None = None

    def draw(self, place: int) -> Draw:
        """Return the stretch as a draw; the next one begins behind it."""
        if self._tree is None:
            roots = self.view.page_roots(self._get)
            self._tree = PagedTree(self.view.header.atom_count, roots, self._leaves)
        found = Draw(place, self.start, self.gone, b"".join(prove(self._tree, self.start, self.stop)))
        self.start, self.gone = self.stop, []
        return found

    def _leaves(self, number: int) -> list[bytes]:
        page = self.view.page_of(self.view.pages(self._get)[number], self._get)
        return leaf_hashes(page.digests(), page.atoms)


class ProvingCutter:
    """Cut the expansion of ``asked`` into chunks with proofs. ``end`` is set from the last chunk on."""

    def __init__(self, source: ProofSource, asked: bytes, limits: ChunkLimits) -> None:
        self.end: StreamEnd | None = None
        self._source = source
        self._limits = limits
        self._live = source.record(asked).header.live
        self._deltas: list[_Delta] = []
        self._spoken: dict[bytes, int] = {}  # newest place whose record has an identity
        self._added: list[tuple[int, Container[bytes]]] = []  # atoms that must be drawn, by place
        self._removed: list[tuple[int, _Opening]] = []  # removals that are not in a record, by place
        self._asked_for: list[bytes] = []  # objects opened to find removals, since the last check
        self._known: set[bytes] = set()  # objects that were sent
        self._records = 0  # number of records sent
        self._tree = Frontier()
        self._number = self._sent = self._cumulative = 0
        self._begin()
        self._walk(asked)

    def cut(self) -> Generator[Chunk, None, None]:
        """Yield the chunks. Raises DamageError if the record states another number of atoms, UsageError if a limit
        leaves no room to name one.
        """
        for row in self._rows():
            is_gone = self._is_gone(row)
            if not is_gone and not self._has_room(row):
                yield self._close()
                self._has_room(row)
            annotation = annotation_record(row.key[2], row.atom)
            cost = 0
            if row.at >= 0:
                cost = (_DRAW_BYTES if row.place not in self._drawn else 0) + (len(annotation) + _GONE_BYTES) * is_gone
            for data in self._needed(row.place):
                if self._proof_bytes and self._proof_bytes + len(data) > PROOF_BYTES_MAX:
                    yield self._close()
                self._objects.append(data)
                self._proof_bytes += len(data)
            if self._proof_bytes and self._proof_bytes + cost > PROOF_BYTES_MAX:
                yield self._close()
                cost += _DRAW_BYTES * (row.at >= 0)  # a new chunk was begun
            self._proof_bytes += cost
            self._take(row, annotation, is_gone=is_gone)
        for data in self._needed(len(self._deltas) - 1):
            if self._proof_bytes and self._proof_bytes + len(data) > PROOF_BYTES_MAX:
                yield self._close()
            self._objects.append(data)
            self._proof_bytes += len(data)
        if self._sent + self._atoms != self._live:
            raise atom_count_error(self._live)
        last = self._close(is_final=True)
        self.end = StreamEnd(self._sent, self._cumulative, self._number, self._tree.root())
        yield last

    # The chain

    def _walk(self, asked: bytes) -> None:
        source = self._source
        at: bytes | None = asked
        while at is not None:
            view = source.record(at)
            place = len(self._deltas)
            self._deltas.append(_Delta(view, source.get))
            if view.holds_atoms:
                for page in view.pages(source.get):
                    for digest in view.page_of(page, source.get).digests():
                        self._spoken.setdefault(digest, place)
            else:
                self._added.append((place, source.added(at)))
            if view.holds_removals:
                for digest in view.removed(source.get):
                    self._spoken.setdefault(digest, place)
            else:
                self._removed.append((place, _Opening(view, self._open)))
            at = view.header.base

    def _open(self, digest: bytes) -> bytes:
        self._asked_for.append(digest)
        return self._source.get(digest)

    def _rows(self) -> Iterator[_Row]:
        """Yield the rows of all deltas in the order of the stream, except those that a record shows to be replaced."""
        held = []
        drawn = []
        for place, delta in enumerate(self._deltas):
            if delta.view.holds_atoms:
                held += [
                    row for row in _rows_of(delta.view, place, self._source.get) if self._spoken[row.key[2]] == place
                ]
            else:
                drawn.append(_rows_of(delta.view, place, self._source.get))
        held.sort()
        return heapq.merge(held, *drawn)

    def _is_gone(self, row: _Row) -> bool:
        """Return whether a newer delta replaces the atom. Opens the removals that the verifier needs."""
        identity, place = row.key[2], row.place
        if self._spoken.get(identity, place) < place:
            return True
        is_removed = False
        for newer, digests in self._removed:
            is_removed = is_removed or (newer < place and identity in digests)
        return is_removed or any(newer < place and identity in added for newer, added in self._added)

    def _needed(self, place: int) -> Iterator[bytes]:
        """Yield the objects that a row from ``place`` needs and that were not sent."""
        while self._records <= place:
            yield self._source.get(self._deltas[self._records].origin)
            self._records += 1
        asked, self._asked_for = self._asked_for, []
        for digest in asked:
            if digest not in self._known:
                self._known.add(digest)
                yield self._source.get(digest)

    # The chunk

    def _begin(self) -> None:
        self._objects: list[bytes] = []
        self._entries: list[Entry] = []
        self._leaves: list[bytes] = []
        self._over: list[Oversize] = []
        self._drawn: set[int] = set()
        self._atoms = self._tokens = self._size = self._proof_bytes = 0

    def _has_room(self, row: _Row) -> bool:
        """Return whether the atom fits into this chunk; its cost is kept for ``_take``."""
        limits = self._limits
        self._takes = (estimate_tokens(row.atom.content), atom_bytes(row.atom))
        self._is_over = self._takes[0] > limits.tokens or self._takes[1] > limits.size_bytes
        if self._is_over:
            self._takes = (0, ATOM_BYTES + len(annotation_record(row.key[2], row.atom)))
            if self._takes[1] > limits.size_bytes:
                raise chunk_limit_error(row.key[2], limits)
        tokens, size = self._takes
        return (
            self._atoms < limits.atoms
            and self._tokens + tokens <= limits.tokens
            and self._size + size <= limits.size_bytes
        )

    def _take(self, row: _Row, annotation: bytes, *, is_gone: bool) -> None:
        delta = self._deltas[row.place]
        if row.at >= 0:
            self._drawn.add(row.place)
            delta.stop = row.at + 1
            if is_gone:
                delta.gone.append((row.at - delta.start, annotation))
        if is_gone:
            return
        if self._is_over:
            self._over.append(Oversize(row.key[2], delta.origin, annotation))
        else:
            self._entries.append(Entry(row.key[2], row.atom, delta.origin))
        self._leaves.append(leaf_hash(annotation))
        self._atoms += 1
        self._tokens += self._takes[0]
        self._size += self._takes[1]

    def _close(self, *, is_final: bool = False) -> Chunk:
        draws = [self._deltas[place].draw(place) for place in sorted(self._drawn)]
        proof = ChunkProof(PROOF_VERSION, self._objects, draws).pack()
        self._tree.extend(self._leaves)
        start = self._sent
        self._sent += self._atoms
        self._cumulative += self._tokens
        chunk = Chunk(
            self._number, start, tuple(self._entries), self._cumulative, progress_of(self._sent, self._live), is_final, proof,
            tuple(self._over),
        )  # fmt: skip
        self._number += 1
        self._begin()
        return chunk


class _Opening:
    """Long removals, whose index is opened on first use."""

    def __init__(self, view: RecordView, get: Callable[[bytes], bytes]) -> None:
        self._view = view
        self._get = get
        self._digests: Sequence[bytes] | None = None

    def __contains__(self, digest: object) -> bool:
        if self._digests is None:
            self._digests = self._view.removed(self._get)
        return digest in self._digests


def _rows_of(view: RecordView, place: int, get: Callable[[bytes], bytes]) -> Iterator[_Row]:
    at = 0
    for page in view.pages(get):
        for digest, atom in view.rows_of(page, get):
            yield _Row(order_key(digest, atom), place, -1 if view.holds_atoms else at, atom)
            at += 1
