"""Handlers for each request of a context server: generators of steps that run in a worker's thread, each followed by something to
send.

A *step* is a function over the protocol machine of the connection. The loop calls it, and lets the next step start when the
stream is ready for more. So a request uses the memory of one step, and others get their turn after each.
"""

from __future__ import annotations

__all__ = [
    "LISTED_PER_STEP",
    "OBJECT_BYTES_PER_STEP",
    "REST",
    "Bench",
    "Keeping",
    "Step",
    "answers",
    "changes",
    "chunk_step",
    "end_step",
    "is_long",
    "is_search",
    "query_steps",
    "refs_per_frame",
]

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, assert_never

from periplus.base.errors import NotFoundError, UsageError
from periplus.context.model import Chunk, ChunkLimits, Entry, Expansion
from periplus.context.records.record import is_of_contexts
from periplus.context.remotes.context_proof import prove_consistency, prove_inclusion
from periplus.context.remotes.local_peer import LocalPeer
from periplus.context.remotes.transfer import Listed
from periplus.context.selection.filters import Matcher, Query, QueryResult
from periplus.context.selection.token_counters import ESTIMATE
from periplus.context.store_protocol import ANY
from periplus.context.stores.delta_runs import molecule_table
from periplus.context.stores.library import ContextLibrary
from periplus.context.stores.refs import REF_NAME_BYTES_MAX
from periplus.context.stores.snapshots import StaleCacheError
from periplus.context.time_slices import collect_result
from periplus.context.wire import ServerMachine
from periplus.context.wire.limits import Limits
from periplus.context.wire.payloads import (
    ExpandRequest,
    Have,
    ObjectsGet,
    ObjectsPut,
    Prove,
    PushContext,
    QueryRequest,
    RefsRequest,
    Request,
    StreamEnd,
    StreamRequest,
    Watch,
    filters_of,
)
from periplus.context.wire.v1_payloads import V1Expand, V1Push, V1Query, V1Request, V1Stream
from periplus.server.quota import Share, Unreferenced
from periplus.server.refusal import Refused
from periplus.server.short_hashes import AliasIndex

LISTED_PER_STEP: Final = 1_024
REFS_PER_FRAME_MAX: Final = 2_048
_REF_OVERHEAD: Final = 72  # a digest in JSON, with quotes and comma
OBJECT_BYTES_PER_STEP: Final = 256 << 10  # also the most that an interrupted transfer loses, besides data in flight


class Step(NamedTuple):
    """The output of a step and its counters. ``is_work``: there is no output, and the next step may start at once."""

    send: Callable[[ServerMachine], object]
    chunks: int = 0
    objects: int = 0
    is_work: bool = False


class Bench:
    """The resources of a worker's thread: its store, the transfer side of it, and its short hashes of version 1."""

    def __init__(self, open_store: Callable[[], ContextLibrary], unreferenced: Unreferenced | None = None) -> None:
        self._open_store = open_store
        self.unreferenced = unreferenced
        self.library = open_store()
        self.peer = LocalPeer(self.library)
        self.aliases = AliasIndex(self.library)
        self.renewals = 0

    def close(self) -> None:
        self.library.close()

    def renew(self) -> bool:
        """Drop what is held of a store in which something was redacted, or which was replaced; return True then.

        Raises the error of opening the store while there is none: nothing is answered from a store that is gone.
        """
        if not self.library.is_in_place():
            library = self._open_store()
            self.library.close()
            self.library = library
        elif not self.library.renew():
            return False
        self.peer = LocalPeer(self.library)
        self.aliases = AliasIndex(self.library)
        self.renewals += 1
        return True

    def guarded(self, begin: Callable[[], Iterator[Step]]) -> Iterator[Step]:
        """Run the steps of a request while nothing is redacted and the store is the same: earlier reads must not be sent after that."""
        self.renew()
        began = self.renewals
        steps = begin()
        try:
            while True:
                self.renew()
                if self.renewals != began:
                    raise Refused("cancelled", "something was redacted meanwhile, or the store was replaced")
                try:
                    step = next(steps)
                except StopIteration:
                    return
                yield step
        finally:
            close = getattr(steps, "close", None)
            if close is not None:
                close()

    def reached(self, head: bytes | None) -> Iterator[Step]:
        """Stop counting what was received for a ref that is now set."""
        if head is not None and self.unreferenced is not None:
            for _ in self.unreferenced.reached(head, self.library.source.get):
                yield REST


def is_long(body: Request | V1Request) -> bool:
    """Return whether a single step may take long: a search or check of a whole context, or a walk through history."""
    if isinstance(body, RefsRequest):
        return body.update is not None  # a question for refs does not wait for queries
    if isinstance(body, V1Expand | V1Stream):
        return not isinstance(body.context, str) and bool(body.context.removed)
    return isinstance(body, QueryRequest | PushContext | Have | Prove | V1Query | V1Push)


def is_search(body: Request | V1Request) -> bool:
    """Return whether it reads a whole context and keeps numbers of all results until the end."""
    return isinstance(body, QueryRequest | V1Query)


def answers(bench: Bench, stream: int, body: Request, limits: Limits, chunk_limits: ChunkLimits) -> Iterator[Step]:
    """Return the steps of a request. Raises PeriplusError; ``told_code`` gives the code for the client."""
    match body:
        case ExpandRequest():
            yield from _expand(bench.library, stream, body, limits, chunk_limits)
        case StreamRequest():
            yield from _stream(bench.library, stream, body, chunk_limits)
        case QueryRequest():
            yield from query_steps(bench.library, stream, body)
        case PushContext():
            yield from _push(bench, stream, body)
        case Have():
            yield from _have(bench.peer, stream, body)
        case ObjectsGet():
            yield from _objects(bench.library, stream, body)
        case Prove():
            yield from _prove(bench.library, stream, body)
        case RefsRequest():
            yield from _refs(bench, stream, body, limits)
        case ObjectsPut() | Watch():
            raise AssertionError("the connection answers these itself")
        case _:
            assert_never(body)


def _expand(
    library: ContextLibrary, stream: int, body: ExpandRequest, limits: Limits, chunk_limits: ChunkLimits
) -> Iterator[Step]:
    """Send an expansion in one frame if possible, otherwise in chunks, the last of which have the molecules."""
    expansion = _small_expansion(library, body.context, limits)
    if expansion is not None:
        sent: list[bool] = []
        yield Step(lambda machine: sent.append(machine.send_expansion(stream, expansion)))
        if sent[0]:
            return
    chunks = library.stream(body.context, limits=chunk_limits)
    try:
        number = 0
        for chunk in chunks:
            number = chunk.chunk_id + 1
            yield chunk_step(stream, chunk)
        rest = _molecules(library, body.context)
        if rest.molecules or rest.broken:
            yield Step(lambda machine: machine.send_molecules(stream, number, rest))
        yield end_step(stream, StreamEnd(*_totals(chunks.end)))
    finally:
        chunks.close()


def _small_expansion(library: ContextLibrary, digest: bytes, limits: Limits) -> Expansion | None:
    """Return the expansion if it may fit a frame; only that much is held."""
    if library.header(digest).live > limits.atoms:
        return None
    entries: list[Entry] = []
    characters = 0
    for columns in library.stretches(digest):
        characters += sum(len(atom.content) for atom in columns.atoms)
        if characters > limits.frame_bytes:
            return None
        entries += map(Entry, columns.digests, columns.atoms, columns.origins)
    return _molecules(library, digest)._replace(entries=entries)


def _molecules(library: ContextLibrary, digest: bytes) -> Expansion:
    """Return an expansion without its atoms."""
    while True:
        try:
            table = molecule_table(library.runs(digest))
            return Expansion(digest, (), table.molecules(), table.broken())
        except StaleCacheError:
            continue  # the library drops it until the next time


def _stream(library: ContextLibrary, stream: int, body: StreamRequest, limits: ChunkLimits) -> Iterator[Step]:
    if body.filter is not None:
        if body.prove:
            raise UsageError("prove: a filtered stream cannot be proved")
        yield from _filtered(library, stream, body, limits)
        return
    chunks = library.stream(body.context, limits=limits, resume=body.resume, prove=body.prove)
    try:
        for chunk in chunks:
            yield chunk_step(stream, chunk)
        yield end_step(stream, StreamEnd(*_totals(chunks.end)))
    finally:
        chunks.close()


def _totals(end: object) -> tuple[int, int, int, bytes]:
    from periplus.context.model import StreamEnd as ModelEnd

    assert isinstance(end, ModelEnd)
    return end.chunks, end.atoms, end.tokens, end.head


def chunk_step(stream: int, chunk: Chunk) -> Step:
    return Step(lambda machine: machine.send_chunk(stream, chunk), chunks=1)


def end_step(stream: int, end: StreamEnd) -> Step:
    return Step(lambda machine: machine.send_end(stream, end))


REST: Final = Step(lambda _: None)  # nothing to send yet; let others run
WORK: Final = Step(lambda _: None, is_work=True)  # the same for a search, which answers with one frame


def _filtered(library: ContextLibrary, stream: int, body: StreamRequest, limits: ChunkLimits) -> Iterator[Step]:
    """Yield matching atoms in the chunks of the unfiltered stream; chunks without any are left out."""
    assert body.filter is not None
    matcher = Matcher(filters_of(body.filter), time.time_ns() // 1_000_000)
    atoms = tokens = number = 0
    chunks = library.stream(body.context, limits=limits)
    try:
        for chunk in chunks:
            passing = tuple(entry for entry in chunk.entries if matcher.refusal(entry.atom) is None)
            if passing:
                tokens += sum(ESTIMATE.count(entry.atom.content) for entry in passing)
                kept = chunk._replace(
                    chunk_id=number, start=atoms, entries=passing, cumulative_tokens=tokens, is_final=False
                )
                atoms += len(passing)
                number += 1
                if kept.chunk_id >= body.resume:
                    yield chunk_step(stream, kept)
                    continue
            yield REST
        yield end_step(stream, StreamEnd(number, atoms, tokens, b""))
    finally:
        chunks.close()


def query_steps(library: ContextLibrary, stream: int, body: QueryRequest) -> Iterator[Step]:
    from periplus.context.selection.search import RepeatableEntries, entries_of
    from periplus.context.selection.search import query_steps as searched

    asked = Query(body.text, filters_of(body.filter), body.limit, body.page, body.at_ms or None)
    entries = RepeatableEntries(lambda: entries_of(library.stream(body.context)))
    outcome: list[QueryResult] = []
    for _ in collect_result(searched(entries, asked, now_ms=time.time_ns() // 1_000_000), outcome):
        yield WORK
    (result,) = outcome
    found, scores = list(result.entries), list(result.scores)
    tokens = sum(ESTIMATE.count(entry.atom.content) for entry in found)
    sent: list[bool] = []
    yield Step(
        lambda machine: sent.append(
            machine.send_query(
                stream,
                found,
                scores=scores,
                total=result.total,
                tokens=tokens,
                page_next=result.next_page,
                at_ms=result.at_ms,
            )
        )
    )
    if not sent[0]:
        raise Refused("too_large", "a page of the query does not fit a frame")


def _push(bench: Bench, stream: int, body: PushContext) -> Iterator[Step]:
    try:
        bench.peer.adopt(body.digest)
    except NotFoundError as error:
        if not bench.library.missing([body.digest]):
            raise Refused("unknown_base", str(error)) from error
        raise
    if body.ref:
        yield REST
        expected = ANY if body.expected_any else body.expected
        bench.library.set_ref(body.ref, body.digest, expected=expected, force=body.force)
        yield from bench.reached(body.digest)
    bench.library.source.settle()
    yield Step(lambda machine: machine.send_ack(stream, digest=body.digest))


def _have(peer: LocalPeer, stream: int, body: Have) -> Iterator[Step]:
    if body.offered:
        offered = body.offered
        for start in range(0, len(offered), LISTED_PER_STEP):
            walk = peer.lacking_steps(offered[start : start + LISTED_PER_STEP])
            wanted: list[bytes] = []
            while True:
                try:
                    next(walk)
                except StopIteration as end:
                    wanted = end.value
                    break
                yield REST
            is_final = start + LISTED_PER_STEP >= len(offered)
            if wanted or is_final:
                yield _want_step(stream, wanted, [], is_final=is_final)
            else:
                yield REST
        return
    for place, head in enumerate(body.wanted):
        batch: list[Listed] = []
        for row in peer.listing_steps(head, [*body.known, *body.wanted[:place]]):
            if row is None:
                yield REST
                continue
            batch.append(row)
            if len(batch) == LISTED_PER_STEP:
                yield _want_step(
                    stream, [row.digest for row in batch], [row.size_bytes for row in batch], is_final=False
                )
                batch = []
        if batch:
            yield _want_step(stream, [row.digest for row in batch], [row.size_bytes for row in batch], is_final=False)
    yield _want_step(stream, [], [], is_final=True)


def _want_step(stream: int, digests: list[bytes], sizes: list[int], *, is_final: bool) -> Step:
    return Step(lambda machine: machine.send_want(stream, digests, sizes=sizes, is_final=is_final))


def _objects(library: ContextLibrary, stream: int, body: ObjectsGet) -> Iterator[Step]:
    batch: list[tuple[bytes, bytes]] = []
    size_bytes = 0
    for digest, data in library.objects(body.digests):
        batch.append((digest, data))
        size_bytes += len(data)
        if size_bytes >= OBJECT_BYTES_PER_STEP:
            yield _objects_step(stream, batch, is_final=False)
            batch, size_bytes = [], 0
    yield _objects_step(stream, batch, is_final=True)


def _objects_step(stream: int, batch: list[tuple[bytes, bytes]], *, is_final: bool) -> Step:
    return Step(lambda machine: machine.send_objects(stream, batch, is_final=is_final), objects=len(batch))


def _prove(library: ContextLibrary, stream: int, body: Prove) -> Iterator[Step]:
    if body.context is None:
        raise UsageError("context: a proof needs a context")
    get = library.source.get
    if body.kind == "inclusion":
        if body.atom is None:
            raise UsageError("atom: a proof of inclusion needs an atom")
        proof = prove_inclusion(body.context, body.atom, get)
    else:
        proof = prove_consistency(body.context, body.size, body.size_later, get)
    yield Step(lambda machine: machine.send_proof(stream, proof))


def refs_per_frame(limits: Limits) -> int:
    """Return how many refs always fit a frame, counted twice: moved ones, and names of removed ones."""
    return min(REFS_PER_FRAME_MAX, limits.frame_bytes // (2 * (REF_NAME_BYTES_MAX + _REF_OVERHEAD)))


def _refs(bench: Bench, stream: int, body: RefsRequest, limits: Limits) -> Iterator[Step]:
    library = bench.library
    update = body.update
    if update is not None:
        expected = ANY if update.expected_any else update.expected
        library.set_ref(update.name, update.target, expected=expected, force=update.force)
        yield REST
        yield from bench.reached(update.target)
    found = [
        (name, target) for name, target in library.refs().items() if name.startswith(body.prefix) and name > body.after
    ]
    page = found[: min(body.limit, refs_per_frame(limits))]
    yield Step(lambda machine: machine.send_refs(stream, page, has_more=len(found) > len(page)))


def _grant_step(grant: Callable[[int, int], object], frames: int, size_bytes: int) -> Step:
    return Step(lambda _: grant(frames, size_bytes))


class Keeping:
    """An upload: received objects, until they are stored. The loop adds, the worker takes."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self.waiting: deque[tuple[bytes, int, int]] = deque()
        self.is_ended = False

    @property
    def has_work(self) -> bool:
        return bool(self.waiting) or self.is_ended

    def steps(self, bench: Bench, stream: int, grant: Callable[[int, int], object]) -> Iterator[Step]:
        """Store received objects. Each step says how much more may come; the last one, after a sync, acknowledges."""
        count = 0
        source = None
        try:
            while True:
                bench.renew()
                source = bench.library.source
                frames = size_bytes = 0
                while self.waiting:
                    data, more_frames, more_bytes = self.waiting.popleft()
                    if not is_of_contexts(data):
                        raise UsageError(
                            "parts: an object that does not belong to contexts"
                        )  # it would never be collected
                    if bench.unreferenced is not None:
                        bench.unreferenced.take(self._share, data, source.has)
                    source.take(data)
                    count += 1
                    frames += more_frames
                    size_bytes += more_bytes
                    if size_bytes >= OBJECT_BYTES_PER_STEP:
                        break
                if self.is_ended and not self.waiting:
                    break
                yield _grant_step(grant, frames, size_bytes)
        finally:
            if source is not None:
                source.settle()  # also for an interrupted upload: what arrived is kept
        yield Step(lambda machine: machine.send_ack(stream, objects=count))


def changes(before: dict[str, bytes], now: dict[str, bytes], prefix: str) -> tuple[list[tuple[str, bytes]], list[str]]:
    """Return the refs below ``prefix`` that moved, and the names of removed ones."""
    moved = [(name, target) for name, target in now.items() if name.startswith(prefix) and before.get(name) != target]
    gone = [name for name in before if name.startswith(prefix) and name not in now]
    return moved, gone
