"""A context store behind a wire: the store protocol over one blocking socket.

Each call is one of ``context.remotes.calls``; while it waits, events of other streams (a half-read stream of chunks)
are kept for them, within their credit. Sending and receiving go on together, so two peers that both send do not block
each other. A lost connection is made anew by the next call; an interrupted call raises EnvironmentFailure and can be
repeated, because all calls are idempotent or state the expected target of a ref.

Received data is not trusted: objects are checked against their digests, records are checked as untrusted bytes, streams
and expansions are proved if the caller asks for it. Without a proof they are the word of the server, and of a plain
line to it; pulled or cloned data is always checked. A store is for one thread at a time.
"""

from __future__ import annotations

__all__ = ["RemoteStore"]

import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from periplus.base.errors import NotFoundError, UsageError
from periplus.context.model import (
    DEFAULT_LIMITS,
    Chunk,
    ChunkLimits,
    Context,
    ContextHeader,
    Expansion,
    StreamEnd,
    molecule_digest,
)
from periplus.context.records import record
from periplus.context.records.record import RecordView
from periplus.context.remotes import calls
from periplus.context.remotes.address import Address, Trust, check_token_stays_secret, connect
from periplus.context.remotes.calls import Call, Link, Pause, Wait
from periplus.context.remotes.context_proof import check_consistency, check_inclusion
from periplus.context.remotes.transfer import Listed
from periplus.context.selection.filters import Query, QueryResult
from periplus.context.store_protocol import ANY, ChunkStream, Expected
from periplus.context.stores.entry_check import BaseLookup, check_entry
from periplus.context.stores.refs import check_ref_name
from periplus.context.wire import ClientMachine, Closed, Limits
from periplus.context.wire.payloads import (
    Proof,
    Prove,
    PushContext,
    QueryRequest,
    RefUpdate,
    StreamRequest,
    entries_of,
    filter_of,
)

T = TypeVar("T")
R = TypeVar("R")
CONNECT_PATIENCE_S: Final = 10.0
_READ_BYTES: Final = 256 << 10
_RECORDS_MAX: Final = 512
_BASES_MAX: Final = 4
_DEFAULT_TRUST: Final = Trust()


class _Base(NamedTuple):
    """The state for commits on a context: the identities in its expansion."""

    atoms: frozenset[bytes]
    molecules: frozenset[bytes]


class _Wire:
    """One connection: the socket, the machine, and the waiting on both."""

    def __init__(self, address: Address, trust: Trust, token: str, limits: Limits, patience_s: float) -> None:
        import selectors

        self.address = address
        self.socket: Any = connect(address, trust, patience_s)
        self.socket.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.socket, selectors.EVENT_READ)
        self._out = memoryview(b"")
        machine = ClientMachine(time.monotonic(), limits=limits, token=token, compress=address.is_far)
        self.link = Link(machine, time.monotonic)
        try:
            while not self.link.machine.is_open:
                self._check_open()
                self.turn()
        except BaseException:  # on any failure: close the socket and re-raise
            self.close()
            raise

    def close(self) -> None:
        self.link.machine.close()
        self._selector.close()
        self.socket.close()

    @property
    def is_usable(self) -> bool:
        """Return whether a further call can be made, after reading what arrived since the last one."""
        if self.link.closed is None:
            self._send()
            self._receive()
        return self.link.closed is None and not self.link.machine.is_refusing

    def next_event(self, stream: int) -> Any:
        """Wait for the next event of a stream. Raises EnvironmentFailure if the connection ends before."""
        while True:
            event = self.link.next_of(stream)
            if event is not None:
                return event
            self._check_open()
            self.turn()

    def pause(self, seconds: float) -> None:
        """Wait ``seconds``, and read what arrives meanwhile."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._check_open()
            self.turn(left)

    def turn(self, patience_s: float | None = None) -> None:
        """Send and receive as far as possible; wait up to ``patience_s`` if neither is."""
        import selectors

        self._send()
        if self._receive() or self.link.closed is not None:
            return
        deadline = self.link.machine.next_deadline()
        wait_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        if patience_s is not None:
            wait_s = patience_s if wait_s is None else min(wait_s, patience_s)
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._out else 0)
        self._selector.modify(self.socket, events)
        if not self._selector.select(wait_s):
            self.link.sort(self.link.machine.tick(time.monotonic()))

    def _send(self) -> None:
        import ssl

        try:
            while self._out or (data := self.link.machine.data_to_send()):
                self._out = self._out or memoryview(data)
                self._out = self._out[self.socket.send(self._out) :]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return
        except OSError as error:
            while self.link.closed is None and self._receive():
                pass  # data received before the end counts
            if self.link.closed is None:
                self._lost(error)

    def _receive(self) -> bool:
        import ssl

        try:
            data = self.socket.recv(_READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError as error:
            self._lost(error)
            return False
        self.link.receive(data, time.monotonic())
        return True

    def _lost(self, error: OSError) -> None:
        self.link.sort(self.link.machine.receive_eof(time.monotonic()))
        self.link.closed = Closed("", True, error.strerror or str(error) or type(error).__name__)

    def _check_open(self) -> None:
        closed = self.link.closed
        if closed is None:
            return
        self.close()  # the connection is dead; data received before can still be read
        raise calls.connection_ended(self.address, closed)


class RemoteStore:
    """The store that the server at ``address`` serves. The first call connects.

    ``limits`` bound what the server may send; ``token`` and ``trust`` are of ``context.remotes.address``. Raises
    RefusedError if the token would travel unencrypted.
    """

    def __init__(
        self,
        address: Address,
        *,
        token: str = "",
        trust: Trust = _DEFAULT_TRUST,
        limits: Limits = calls.LIMITS,
        patience_s: float = CONNECT_PATIENCE_S,
    ) -> None:
        check_token_stays_secret(address, token)
        self._address = address
        self._token = token
        self._trust = trust
        self._limits = limits
        self._patience_s = patience_s
        self._wire: _Wire | None = None
        self._records: OrderedDict[bytes, RecordView] = OrderedDict()
        self._bases: OrderedDict[bytes, _Base] = OrderedDict()

    @property
    def address(self) -> Address:
        return self._address

    # Contexts

    def commit(self, context: Context) -> bytes:
        """Check the context like a local store, so that errors name the field; then the server checks it again.

        For a delta that is not a root the identities of its base are needed: they are fetched once and kept for the
        next commit.
        """
        prepared = record.prepare(context)
        parents = []
        for place, digest in enumerate(context.merged):
            parents.append(self._parent(f"merged[{place}]", digest))
        base: _Base | None = None
        below = BaseLookup(0, lambda _: False, lambda _: False)
        if context.base is not None:
            header = self._parent("base", context.base)
            parents.insert(0, header)
            base = self._base(context.base)
            below = BaseLookup(header.live, base.atoms.__contains__, base.molecules.__contains__)
        entered = check_entry(context, prepared, parents, below)
        encoded = record.encode(prepared, depth=entered.depth, live=entered.live)
        wanted = set(self.lacking([digest for digest, _ in encoded.objects]))
        self.keep(pair for pair in reversed(encoded.objects) if pair[0] in wanted)
        self.adopt(encoded.digest)
        return encoded.digest

    def context(self, digest: bytes) -> Context:
        view = self._view(digest)
        return self._run(lambda link: calls.context(link, view))

    def header(self, digest: bytes) -> ContextHeader:
        return self._view(digest).header

    def has(self, digest: bytes) -> bool:
        return not self.lacking([digest])

    def expand(self, digest: bytes, *, prove: bool = False) -> Expansion:
        """Return the expansion; see the store protocol. It is the word of the server and of the line, unless ``prove``
        is set: then all of it is verified first. Raises FormatError for an expansion that the context does not have.
        """
        return self._run(lambda link: (calls.expand_proved if prove else calls.expand)(link, digest))

    def stream(
        self, digest: bytes, *, limits: ChunkLimits = DEFAULT_LIMITS, resume: int = 0, prove: bool = False
    ) -> ChunkStream:
        """Return the stream; see the store protocol. With ``prove`` every chunk is verified before it is returned.
        Raises FormatError for a chunk that the context does not have.
        """
        for name, value in zip(limits._fields, limits, strict=True):
            if value < 1:
                raise UsageError(f"limits.{name}: {value:,} is below 1")
        if resume < 0:
            raise UsageError(f"resume: {resume:,} is below 0: chunks are counted from 0")
        return _RemoteStream(self, digest, limits, resume, prove=prove)

    def query(self, digest: bytes, asked: Query) -> QueryResult:
        """Return a page of a search that the server makes. For a further page give ``at_ms`` of the first."""
        body = QueryRequest(
            digest, asked.text, filter_of(asked.filters), asked.limit, page=asked.page, at_ms=asked.at_ms or 0
        )
        answer = self._run(lambda link: calls.query(link, body))
        entries = entries_of(answer.atoms, answer.origins, answer.origin_of)
        return QueryResult(entries, answer.scores, answer.total, answer.page_next, answer.at_ms)

    def prove_atom(self, context: bytes, atom: bytes) -> Proof:
        """Return the checked proof that ``context`` itself brings ``atom``. Raises NotFoundError, FormatError."""
        proof = self._run(lambda link: calls.prove(link, Prove("inclusion", context, atom)))
        check_inclusion(proof, context, atom)
        return proof

    def prove_first(self, context: bytes, size: int) -> Proof:
        """Return the checked proof that the tree over the first ``size`` atoms of ``context`` has ``proof.root``."""
        proof = self._run(lambda link: calls.prove(link, Prove("consistency", context, size=size)))
        check_consistency(proof, context)
        return proof

    # Refs

    def refs(self) -> dict[str, bytes]:
        return self._run(calls.list_refs)

    def set_ref(self, name: str, target: bytes | None, *, expected: Expected = ANY, force: bool = False) -> None:
        check_ref_name(name)
        update = RefUpdate(name, target, None if expected is ANY else expected, expected is ANY, force)
        self._run(lambda link: calls.change_ref(link, update))

    # Objects, and the methods of a transfer's peer

    def objects(self, digests: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        wanted = tuple(digests)
        return self._each(lambda link: calls.fetch(link, wanted))

    def missing(self, digests: Iterable[bytes]) -> list[bytes]:
        return self.lacking(list(digests))

    def lacking(self, digests: Sequence[bytes]) -> list[bytes]:
        return self._run(lambda link: calls.lacking(link, digests))

    def listing(self, head: bytes, known: Sequence[bytes]) -> Iterator[Listed]:
        return self._each(lambda link: calls.listing(link, head, known))

    def keep(self, objects: Iterable[tuple[bytes, bytes]]) -> int:
        return self._run(lambda link: calls.upload(link, objects))

    def adopt(self, digest: bytes) -> None:
        self._run(lambda link: calls.push_context(link, PushContext(digest)))

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    # Internals

    def _connected(self) -> _Wire:
        if self._wire is not None and not self._wire.is_usable:
            self.close()
        if self._wire is None:
            self._wire = _Wire(self._address, self._trust, self._token, self._limits, self._patience_s)
        return self._wire

    def _run(self, begin: Callable[[Link], Call[Any, R]]) -> R:
        """Run a call that yields nothing, and return its result."""
        wire = self._connected()
        driven = _drive(wire, begin(wire.link))
        while True:
            try:
                next(driven)
            except StopIteration as end:
                result: R = end.value
                return result

    def _each(self, begin: Callable[[Link], Call[T, Any]]) -> Generator[T, None, Any]:
        wire = self._connected()
        return (yield from _drive(wire, begin(wire.link)))

    def _view(self, digest: bytes) -> RecordView:
        view = self._records.get(digest)
        if view is None:
            view = self._records[digest] = self._run(lambda link: calls.record_of(link, digest))
            while len(self._records) > _RECORDS_MAX:
                self._records.popitem(last=False)
        return view

    def _parent(self, field: str, digest: bytes) -> ContextHeader:
        try:
            return self.header(digest)
        except NotFoundError as error:
            raise UsageError(
                f"{field}: {digest.hex()} is not at {self._address}",
                safe="Nothing was kept.",
                mend="Push that context first.",
            ) from error

    def _base(self, digest: bytes) -> _Base:
        base = self._bases.get(digest)
        if base is None:
            expansion = self.expand(digest)
            base = self._bases[digest] = _Base(
                frozenset(entry.digest for entry in expansion.entries),
                frozenset(map(molecule_digest, expansion.molecules)) | {report.digest for report in expansion.broken},
            )
            while len(self._bases) > _BASES_MAX:
                self._bases.popitem(last=False)
        return base


def _drive(wire: _Wire, call: Call[T, R]) -> Generator[T, None, R]:
    """Run ``call`` on ``wire`` and yield its values."""
    try:
        step = next(call)
        while True:
            if isinstance(step, Wait):
                step = call.send(wire.next_event(step.stream))
            elif isinstance(step, Pause):
                wire.pause(step.seconds)
                step = call.send(None)
            else:
                yield step
                step = call.send(None)
    except StopIteration as end:
        result: R = end.value
        return result
    finally:
        call.close()
        if wire.link.closed is None:
            wire._send()  # output of its end: a cancel, or credit  # noqa: SLF001 - one module


class _RemoteStream:
    """A stream of chunks, read on demand; the first ``next`` sends the request."""

    def __init__(self, store: RemoteStore, digest: bytes, limits: ChunkLimits, resume: int, *, prove: bool) -> None:
        self.end: StreamEnd | None = None
        body = StreamRequest(digest, resume, *limits, prove=prove)
        self._chunks = self._read(store, body, digest, limits)

    def _read(self, store: RemoteStore, body: StreamRequest, digest: bytes, limits: ChunkLimits) -> Iterator[Chunk]:
        from periplus.context.streams.chunk_proof import ChunkVerifier

        verifier = ChunkVerifier(digest, limits) if body.prove and not body.resume else None
        chunks = store._each(lambda link: calls.chunks(link, body))  # noqa: SLF001 - one module
        while True:
            try:
                chunk = next(chunks)
            except StopIteration as done:
                end: StreamEnd = done.value
                if verifier is not None:
                    verifier.finish(end)
                self.end = end
                return
            if verifier is not None:
                verifier.feed(chunk)
            yield chunk

    def __iter__(self) -> _RemoteStream:
        return self

    def __next__(self) -> Chunk:
        return next(self._chunks)

    def close(self) -> None:
        """Free the resources of the stream."""
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()
