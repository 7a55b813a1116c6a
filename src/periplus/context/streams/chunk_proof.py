"""Proofs of a stream: the proof of each chunk, and the verifier that needs nothing but the digest of the context.

Theory of operation
-------------------
The digest of a context is the hash of its record, and the record has the digest of its base and the root of a tree over its own
atoms: so the records of a chain, newest first, bind all of its deltas to the digest that was asked for. A *place* is a delta's number
in that chain, 0 the newest. The proof of a chunk has

* *objects*: the records of the chain that this chunk needs and no earlier chunk had, and of long lists of removals the pages in which
  an atom of the chunk would be;
* *draws*: for each delta whose atoms are not in its record, the next stretch of its leaves: its start, the nodes that connect it to
  the root (``merkle.multiproof``), and the annotation records of leaves that are no longer valid; all other leaves are atoms of the
  chunk.

Draws of a delta follow each other without a gap, and skip nothing: the leaves of a delta are disclosed one after the
other.

The time of each proof. For every chunk, before its atoms are used: each atom, its annotation and its delta are those of
the context; no newer delta removed it; no newer delta annotated it anew, if the record of that delta holds its atoms or
its draws have come that far; the order is right; nothing occurs twice; numbers are right. An atom that was left out, or
annotated anew in a larger delta whose place in the order is still to come, is detected later: at the latest at the end,
when every leaf of every delta has been in the stream or was shown to be replaced, and the count is that of the record.

The content of a record was checked by the store that took the context in (``ContextLibrary.admit``). The verifier does
not repeat that: for an invalid context it only shows that the stream is what that context says.
"""

from __future__ import annotations

__all__ = ["PROOF_BYTES_MAX", "PROOF_VERSION", "ChunkProof", "ChunkVerifier", "Draw", "read_proof"]

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from periplus.base.errors import FormatError, PeriplusError
from periplus.context.model import (
    DEFAULT_LIMITS,
    Chunk,
    ChunkLimits,
    ContextHeader,
    OrderKey,
    StreamEnd,
    annotation_record,
    atom_digest,
    order_key,
)
from periplus.context.records import record
from periplus.context.records.pages import leaf_hashes
from periplus.context.records.record import RecordView
from periplus.context.streams.chunks import atom_bytes, progress_of
from periplus.merkle import Frontier, leaf_hash
from periplus.merkle.verify_multi import verify_range

PROOF_BYTES_MAX: Final = 256 << 10  # size of the objects in one proof; a longer object is sent alone
PROOF_READ_BYTES_MAX: Final = 1 << 20
PROOF_VERSION: Final = 1
_HASH: Final = 32
_ANNOTATION_BYTES_MIN: Final = 32 + 4 + 8 + 4 + 4


class Draw(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The leaves of the delta at ``place`` from ``start`` on: those in ``gone`` (offset, annotation record) and entries
    of the chunk.
    """

    place: int
    start: int
    gone: list[tuple[int, bytes]]
    nodes: bytes


class ChunkProof(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The value of a chunk's ``proof``, encoded as messagepack."""

    version: int
    objects: list[bytes]
    draws: list[Draw]

    def pack(self) -> bytes:
        return _ENCODER.encode(self)


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(ChunkProof)


def read_proof(data: bytes) -> ChunkProof:
    """Decode a proof. Raises FormatError if ``data`` is not its canonical form."""
    if len(data) > PROOF_READ_BYTES_MAX:
        raise FormatError(f"a proof over {PROOF_READ_BYTES_MAX:,} bytes", offset=0)
    try:
        proof = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"not the proof of a chunk: {error}", offset=0) from error
    if proof.version != PROOF_VERSION:
        raise FormatError(f"a proof of version {proof.version}; this Periplus reads version {PROOF_VERSION}", offset=0)
    if proof.pack() != data:
        raise FormatError("a proof that is not canonical", offset=0)
    return proof


class _Row(NamedTuple):
    """An atom of a chunk, sent or only named, with the hash of its leaf."""

    key: OrderKey
    place: int
    leaf: bytes


class _Delta:
    """The verifier's knowledge of one context of the chain."""

    def __init__(self, header: ContextHeader, held: dict[bytes, bytes] | None) -> None:
        self.header = header
        self.held = held  # atoms in the record: leaf by identity; None if they must be drawn
        self.drawn = 0


class ChunkVerifier:
    """Verify the chunks of a stream of the context ``asked``, one by one.

    ``feed`` raises FormatError if a chunk contradicts ``asked`` as far as can be known by then, ``finish`` if the end
    does; from then on the verifier refuses everything. ``limits`` are those of the request; ``count`` counts tokens
    like the sender, with None they are not checked. An interrupted stream continues with the same verifier at
    ``next_chunk``.
    """

    def __init__(
        self, asked: bytes, limits: ChunkLimits = DEFAULT_LIMITS, count: Callable[[str], int] | None = None
    ) -> None:
        self.next_chunk = 0
        self._limits = limits
        self._count = count
        self._chain = _Chain(asked)
        self._tree = Frontier()
        self._last: OrderKey | None = None
        self._atoms = self._tokens = 0
        self._is_final = False
        self._is_broken = False

    @property
    def headers(self) -> list[ContextHeader]:
        """The headers of the chain known so far, newest first; all of them after the whole stream."""
        return [delta.header for delta in self._chain.deltas]

    def feed(self, chunk: Chunk) -> None:
        """Verify the next chunk. Raises FormatError if it is not the next one of the stream."""
        with self._refusing():
            self._feed(chunk)
        self.next_chunk += 1

    def finish(self, end: StreamEnd) -> None:
        """Verify that the stream was complete. Raises FormatError if an atom was left out, or if ``end`` is wrong."""
        with self._refusing():
            if not self._is_final:
                raise FormatError("the stream ends before its last chunk")
            self._chain.check_whole(self._atoms)
            if (end.atoms, end.chunks, end.head) != (self._atoms, self.next_chunk, self._tree.root()):
                raise FormatError("the end of the stream has wrong totals")
            if self._count is not None and end.tokens != self._tokens:
                raise FormatError(f"the end of the stream says {end.tokens:,} tokens, it had {self._tokens:,}")

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        if self._is_broken:
            raise FormatError("an earlier chunk was refused: this stream cannot be trusted")
        self._is_broken = True
        try:
            yield
        except (
            PeriplusError,
            ValueError,
            OverflowError,
        ) as error:  # the latter for forged values that no atom has
            raise FormatError(f"chunk {self.next_chunk:,} is refused: {error}") from error
        self._is_broken = False

    def _feed(self, chunk: Chunk) -> None:
        if self._is_final:
            raise FormatError("it comes after the last one")
        if chunk.chunk_id != self.next_chunk or chunk.start != self._atoms:
            raise FormatError(f"it is number {chunk.chunk_id:,} and begins at atom {chunk.start:,}")
        proof = read_proof(chunk.proof)
        self._chain.take_objects(proof.objects)
        rows = self._rows(chunk)
        if not (rows or chunk.is_final or proof.objects or proof.draws):
            raise FormatError("it brings nothing")
        self._chain.take_rows(rows, proof.draws)
        self._check_numbers(chunk, len(rows))
        self._tree.extend([row.leaf for row in rows])
        self._is_final = chunk.is_final

    def _rows(self, chunk: Chunk) -> list[_Row]:
        """Return the atoms of a chunk in their order."""
        place_of = self._chain.place_of
        sent, named = [], []
        for entry in chunk.entries:
            digest = atom_digest(entry.atom)
            if digest != entry.digest:
                raise FormatError(f"atom {entry.digest.hex()[:16]} has the content of another")
            leaf = leaf_hash(annotation_record(digest, entry.atom))
            sent.append(_Row(order_key(digest, entry.atom), place_of(entry.origin), leaf))
        for over in chunk.over:
            if over.annotation[:_HASH] != over.digest or len(over.annotation) < _ANNOTATION_BYTES_MIN:
                raise FormatError(f"atom {over.digest.hex()[:16]} is named with the annotation of another")
            relevance = int.from_bytes(over.annotation[32:36], "big")
            time_ms = int.from_bytes(over.annotation[36:44], "big", signed=True)
            named.append(_Row((-relevance, -time_ms, over.digest), place_of(over.origin), leaf_hash(over.annotation)))
        for kind in (sent, named, rows := sorted(sent + named)):
            last = self._last
            for row in kind:
                if last is not None and row.key <= last:
                    raise FormatError(f"atom {row.key[2].hex()[:16]} is out of order, or occurs twice")
                last = row.key
        self._last = rows[-1].key if rows else self._last
        return rows

    def _check_numbers(self, chunk: Chunk, count: int) -> None:
        self._atoms += count
        live = self._chain.live
        if (
            self._atoms > live
            or chunk.progress_millionths != progress_of(self._atoms, live)
            or (chunk.is_final and self._atoms != live)
        ):
            raise FormatError(f"{self._atoms:,} of {live:,} atoms, and it states another progress")
        if (
            count > self._limits.atoms
            or sum(atom_bytes(entry.atom) for entry in chunk.entries) > self._limits.size_bytes
        ):
            raise FormatError("it has more than was asked for")
        if self._count is None:
            tokens = chunk.cumulative_tokens - self._tokens
        else:
            tokens = sum(self._count(entry.atom.content) for entry in chunk.entries)
        if not 0 <= tokens <= self._limits.tokens or chunk.cumulative_tokens != self._tokens + tokens:
            raise FormatError(f"it says {chunk.cumulative_tokens:,} tokens so far")
        self._tokens = chunk.cumulative_tokens


class _Chain:
    """The known contexts from the requested one down to its root, and the state of their atoms."""

    def __init__(self, asked: bytes) -> None:
        self.deltas: list[_Delta] = []
        self._places: dict[bytes, int] = {}
        self._due: bytes | None = asked  # digest of the next record
        self._named: set[bytes] = set()  # objects that may come, because a record of the chain named them
        self._objects: dict[bytes, bytes] = {}
        self._removals: list[tuple[int, _Later]] = []  # removals that are not in a record, by place
        self._drawn_from = 0  # number of deltas whose atoms must be drawn
        self._newest: dict[bytes, int] = {}  # newest known place that has an identity
        self._sent: set[bytes] = set()  # identities sent, each from its newest place
        self._owed: dict[bytes, int] = {}  # leaves declared as replaced by an atom still to come: their newest place

    @property
    def live(self) -> int:
        return self.deltas[0].header.live

    def place_of(self, origin: bytes) -> int:
        place = self._places.get(origin)
        if place is None:
            raise FormatError(f"an atom states the origin {origin.hex()[:16]}, which is not in the known chain")
        return place

    def take_objects(self, objects: Sequence[bytes]) -> None:
        for data in objects:
            digest = sha256(data).digest()
            if digest == self._due:
                self._take_record(record.read_header(data))
            elif digest in self._named:
                self._named.remove(digest)
                self._named.update(record.children_of(data))
                self._objects[digest] = data
            else:
                raise FormatError(f"object {digest.hex()[:16]} is not the next record, and nothing before names it")
        if not self.deltas:
            raise FormatError("it does not begin with the record of the context that was asked for")

    def _take_record(self, view: RecordView) -> None:
        header = view.header
        place = len(self.deltas)
        if self.deltas and header.depth >= self.deltas[-1].header.depth:
            raise FormatError("a base that is not less deep than its descendant")
        held = None
        if view.holds_atoms:
            page = view.page_of(view.pages(self._get)[0], self._get) if header.atom_count else None
            held = dict(zip(page.digests(), leaf_hashes(page.digests(), page.atoms), strict=True)) if page else {}
        else:
            self._drawn_from += 1
        self.deltas.append(_Delta(header, held))
        self._places[header.digest] = place
        self._due = header.base
        for digest in held or ():
            self._newest.setdefault(digest, place)
        if view.holds_removals:
            for digest in view.removed(self._get):
                self._newest.setdefault(digest, place)
        else:
            self._named.update(view.removal_parts())
            self._removals.append((place, _Later(view, self._get)))

    def take_rows(self, rows: Sequence[_Row], draws: Sequence[Draw]) -> None:
        """Verify the atoms of a chunk, and the stretches of leaves that they and the replaced leaves come from."""
        by_place: dict[int, list[_Row]] = {}
        for row in rows:
            by_place.setdefault(row.place, []).append(row)
        last = -1
        for draw in draws:
            if not last < draw.place < len(self.deltas):
                raise FormatError("its draws are out of order, or from outside the chain")
            last = draw.place
            self._take_draw(draw, by_place.pop(draw.place, []))
        for place, drawn in by_place.items():
            held = self.deltas[place].held
            for row in drawn:
                if held is None or held.get(row.key[2]) != row.leaf:
                    raise FormatError(f"atom {row.key[2].hex()[:16]} is not in its stated context")
                self._accept(row.key[2], place)
                self._sent.add(row.key[2])

    def _take_draw(self, draw: Draw, rows: Sequence[_Row]) -> None:
        delta = self.deltas[draw.place]
        count = len(rows) + len(draw.gone)
        if delta.held is not None or draw.start != delta.drawn or not count:
            raise FormatError(f"a draw of {count:,} leaves from leaf {draw.start:,} where {delta.drawn:,} were drawn")
        leaves = [row.leaf for row in rows]
        for offset, annotation in draw.gone:  # ascending, so each is inserted at its final place
            if not 0 <= offset <= len(leaves) or len(annotation) < _ANNOTATION_BYTES_MIN:
                raise FormatError("a replaced leaf outside its draw")
            leaves.insert(offset, leaf_hash(annotation))
        if any(left[0] >= right[0] for left, right in pairwise(draw.gone)):
            raise FormatError("replaced leaves out of order")
        header = delta.header
        nodes = [draw.nodes[at : at + _HASH] for at in range(0, len(draw.nodes), _HASH)]
        if draw.start + count > header.atom_count or not verify_range(
            leaves, draw.start, header.atom_count, nodes, header.atoms_root
        ):
            raise FormatError(
                f"atoms {draw.start:,} to {draw.start + count - 1:,} are not those of context {header.digest.hex()[:16]}"
            )
        delta.drawn += count
        is_alone = self._due is None and draw.place + 1 == len(self.deltas) and self._drawn_from == 1
        for row in rows:
            self._accept(row.key[2], draw.place)
            if not is_alone:
                self._speak(row.key[2], draw.place)
                self._sent.add(row.key[2])
        for _, annotation in draw.gone:
            self._bury(annotation[:_HASH], draw.place)

    def _accept(self, identity: bytes, place: int) -> None:
        """Accept an atom as the context at ``place`` has it."""
        if identity in self._sent or self._is_replaced(identity, place):
            raise FormatError(
                f"atom {identity.hex()[:16]} was removed or annotated anew by a newer context, or sent before"
            )

    def _bury(self, identity: bytes, place: int) -> None:
        """Note that the atom of the context at ``place`` is declared as replaced."""
        is_replaced = self._is_replaced(identity, place)
        self._speak(identity, place)
        if not is_replaced:
            self._owed[identity] = place

    def _is_replaced(self, identity: bytes, place: int) -> bool:
        if self._newest.get(identity, place) < place:
            return True
        return any(newer < place and identity in removed.digests for newer, removed in self._removals)

    def _speak(self, identity: bytes, place: int) -> None:
        """Note that the context at ``place`` has an atom of that identity, valid or not."""
        known = self._newest.get(identity)
        if known is not None and known <= place:
            return
        if identity in self._sent:
            raise FormatError(f"atom {identity.hex()[:16]} was sent as it was before a newer context")
        self._newest[identity] = place
        if self._owed.get(identity, -1) > place:
            del self._owed[identity]

    def check_whole(self, sent: int) -> None:
        """Check that every leaf of every delta was sent or is replaced, and that their number is that of the record."""
        if self._due is not None:
            raise FormatError("the chain of contexts does not reach its root")
        for place, delta in enumerate(self.deltas):
            if delta.held is None and delta.drawn != delta.header.atom_count:
                raise FormatError(f"atoms of context {delta.header.digest.hex()[:16]} were left out")
            for identity in delta.held or ():
                is_here = identity in self._sent and self._newest[identity] == place
                if not is_here and not self._is_replaced(identity, place):
                    raise FormatError(f"atom {identity.hex()[:16]} was left out")
        if self._owed:
            raise FormatError(f"atom {next(iter(self._owed)).hex()[:16]} was left out: nothing replaces it")
        if sent != self.live:
            raise FormatError(f"{sent:,} atoms, the context has {self.live:,}")

    def _get(self, digest: bytes) -> bytes:
        found = self._objects.get(digest)
        if found is None:
            raise FormatError(f"object {digest.hex()[:16]} is needed to tell what was removed, and was not sent")
        return found


class _Later:
    """Removals in pages, opened on first use."""

    def __init__(self, view: RecordView, get: Callable[[bytes], bytes]) -> None:
        self._view = view
        self._get = get
        self._digests: Sequence[bytes] | None = None

    @property
    def digests(self) -> Sequence[bytes]:
        if self._digests is None:
            self._digests = self._view.removed(self._get)
        return self._digests
