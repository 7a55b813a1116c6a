"""Calls of a client to a context server, without a socket: one form for the blocking and the asynchronous client.

A call is a generator. It yields ``Wait(stream)`` when it needs the next event of that stream and is sent that event,
and it yields values for its caller in between; its return value is its result. A client drives the calls: it waits in
its own way, and sends the output of the machine after each step of a call. A call that is abandoned is closed, and
cancels its stream.

``Link`` holds the machine of a connection, and the events of streams whose calls have not asked for them yet. The
credit of a stream bounds these events, because credit is given back only for events that a caller has taken.
"""

from __future__ import annotations

__all__ = [
    "LIMITS",
    "Call",
    "Link",
    "Pause",
    "Wait",
    "change_ref",
    "chunks",
    "connection_ended",
    "context",
    "expand",
    "expand_proved",
    "fetch",
    "lacking",
    "list_refs",
    "listing",
    "prove",
    "push_context",
    "query",
    "record_of",
    "upload",
    "watch",
]

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Final, TypeAlias, TypeVar

from periplus.base.errors import FormatError, PeriplusError
from periplus.context.deltas.molecule_table import MoleculeTable
from periplus.context.model import (
    DEFAULT_LIMITS,
    BrokenMolecule,
    Chunk,
    Context,
    ContextHeader,
    Entry,
    Expansion,
    Molecule,
    Oversize,
    StreamEnd,
    atom_digest,
    order_key,
)
from periplus.context.records import record
from periplus.context.records.record import RecordView
from periplus.context.remotes.address import Address, connection_failure
from periplus.context.remotes.transfer import Listed
from periplus.context.wire import (
    Acknowledged,
    Answered,
    ChunkCame,
    ClientMachine,
    Closed,
    CreditCame,
    Ended,
    Event,
    Failed,
    Limits,
    ObjectCame,
    ProtocolError,
    error_of,
)
from periplus.context.wire.flow_control import Bucket
from periplus.context.wire.payloads import (
    Changed,
    ExpandRequest,
    ExpandResponse,
    Have,
    ObjectsGet,
    Proof,
    Prove,
    PushContext,
    QueryRequest,
    QueryResponse,
    RefsRequest,
    RefsResponse,
    RefUpdate,
    Request,
    StreamRequest,
    Want,
    Watch,
    expansion_of,
)

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")
LEVELS_MAX: Final = 3  # an index, its pages, their contents
LIMITS: Final = Limits(
    frame_bytes=9 << 18, request_rate=1_000_000
)  # a chunk within the default limits fits with its proof; the server sets the rate
_SILENT: Final = frozenset({"handshake_timeout", "idle_timeout"})
BURST_SHARE: Final = 4  # the burst is the requests of a quarter of a second
_UPLOAD_BYTES: Final = (
    256 << 10
)  # approximate size of a frame: the most that an interrupted transfer loses beside the bytes in flight


class Wait:
    """The call continues with the next event of ``stream``."""

    __slots__ = ("stream",)

    def __init__(self, stream: int) -> None:
        self.stream = stream


class Pause:
    """The call continues after ``seconds``, because the agreed rate of requests is used up."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


Call: TypeAlias = Generator[Wait | Pause | T, Event | None, R]


class Link:
    """The streams of one connection and the events received for them."""

    def __init__(self, machine: ClientMachine, clock: Callable[[], float]) -> None:
        self.machine = machine
        self._clock = clock
        self._pace: Bucket | None = None
        self.closed: Closed | None = None
        self._inboxes: dict[int, deque[Event]] = {}

    def pause_s(self) -> float:
        """Return the seconds to wait before the next request; 0 spends one of the requests that are possible now."""
        if self._pace is None:
            rate = self.machine.limits.request_rate
            self._pace = Bucket(rate, max(1.0, rate / BURST_SHARE))
        return 0.0 if self._pace.take(self._clock()) else self._pace.wait_s()

    def open(self, body: Request) -> int:
        """Send a request. Raises WireError."""
        stream = self.machine.request(body)
        self._inboxes[stream] = deque()
        return stream

    def open_upload(self) -> int:
        stream = self.machine.open_upload()
        self._inboxes[stream] = deque()
        return stream

    def leave(self, stream: int) -> None:
        """Cancel ``stream`` or forget it if it has ended."""
        if self._inboxes.pop(stream, None) is not None:
            self.machine.cancel(stream)

    def receive(self, data: bytes, now: float) -> list[int]:
        """Sort received data by stream and return the streams with events. Sets ``closed`` if the connection is over."""
        return self.sort(self.machine.receive(data, now) if data else self.machine.receive_eof(now))

    def sort(self, events: Iterable[Event]) -> list[int]:
        told = []
        for event in events:
            if isinstance(event, Closed):
                self.closed = self.closed or event
            inbox = self._inboxes.get(getattr(event, "stream", 0))
            if inbox is not None:
                inbox.append(event)
                told.append(event.stream)  # type: ignore[union-attr]  # only events with a stream were selected
        return told

    def next_of(self, stream: int) -> Event | None:
        """Return the next event of ``stream``; None if there is none yet."""
        inbox = self._inboxes.get(stream)
        return inbox.popleft() if inbox else None


def connection_ended(address: Address, closed: Closed) -> PeriplusError:
    """Return the error for a connection that is over."""
    if not closed.code or (closed.code == "protocol" and closed.by_peer):
        return connection_failure(address, None, "go on with")
    if closed.by_peer:
        return error_of(closed.code)
    if closed.code in _SILENT:
        return connection_failure(address, OSError(closed.detail), "go on with")
    return FormatError(f"{address}: {closed.detail}")


def _opened(link: Link, body: Request | None) -> Call[T, int]:
    """Open the stream of a request or an upload as soon as the rate allows it."""
    while pause_s := link.pause_s():
        yield Pause(pause_s)
    return link.open_upload() if body is None else link.open(body)


def _answer(link: Link, body: Request, kind: type[R]) -> Call[T, R]:
    """Return the one answer to ``body``."""
    stream = yield from _opened(link, body)
    try:
        event = _sound((yield Wait(stream)))
        if isinstance(event, Answered) and isinstance(event.body, kind):
            return event.body
        raise _unexpected(event)
    finally:
        link.leave(stream)


def _sound(event: Event | None) -> Event:
    assert event is not None
    if isinstance(event, Failed):
        raise error_of(event.code, event.field)
    return event


def _unexpected(event: Event) -> PeriplusError:
    return ProtocolError(f"a {type(event).__name__} answers what it does not belong to")


def chunks(link: Link, body: StreamRequest) -> Call[Chunk, StreamEnd]:
    """Yield the chunks of a stream; return its end."""
    stream = yield from _opened(link, body)
    try:
        while True:
            event = _sound((yield Wait(stream)))
            if isinstance(event, ChunkCame):
                yield event.chunk
                link.machine.grant(stream, event.frames, event.size_bytes)
            elif isinstance(event, Ended) and event.end is not None:
                end = event.end
                return StreamEnd(end.atoms, end.tokens, end.chunks, end.head)
            else:
                raise _unexpected(event)
    finally:
        link.leave(stream)


def expand(link: Link, digest: bytes) -> Call[None, Expansion]:
    """Return the whole expansion, in an answer or as a stream. Atoms that fit in no chunk are fetched from their
    contexts.
    """
    stream = yield from _opened(link, ExpandRequest(digest))
    entries: list[Entry] = []
    over: list[Oversize] = []
    molecules: list[Molecule] = []
    broken: list[BrokenMolecule] = []
    try:
        while True:
            event = _sound((yield Wait(stream)))
            if isinstance(event, Answered) and isinstance(event.body, ExpandResponse):
                whole = expansion_of(digest, event.body)
                return whole._replace(entries=list(whole.entries))
            if isinstance(event, ChunkCame):
                entries += event.chunk.entries
                over += event.chunk.over
                rest = expansion_of(digest, ExpandResponse(molecules=event.molecules, broken=event.broken))
                molecules += rest.molecules
                broken += rest.broken
                link.machine.grant(stream, event.frames, event.size_bytes)
            elif isinstance(event, Ended):
                break
            else:
                raise _unexpected(event)
    finally:
        link.leave(stream)
    if over:
        entries += yield from _oversize(link, over)
        entries.sort(key=lambda entry: order_key(entry.digest, entry.atom))
    return Expansion(digest, entries, tuple(molecules), tuple(broken))


def expand_proved(link: Link, digest: bytes) -> Call[None, Expansion]:
    """Return the whole expansion, proved for ``digest``: atoms by the proofs of a stream, molecules by following the
    deltas that add or touch any, which are fetched. Raises FormatError.
    """
    from periplus.context.streams.chunk_proof import ChunkVerifier

    verifier = ChunkVerifier(digest)
    entries: list[Entry] = []
    over: list[Oversize] = []

    def take(chunk: Chunk) -> None:
        nonlocal entries, over
        verifier.feed(chunk)
        entries += chunk.entries
        over += chunk.over

    verifier.finish((yield from _each(chunks(link, StreamRequest(digest, 0, *DEFAULT_LIMITS, prove=True)), take)))
    if over:
        entries += yield from _oversize(link, over)
        entries.sort(key=lambda entry: order_key(entry.digest, entry.atom))
    table = yield from _molecules(link, verifier.headers)
    return Expansion(digest, entries, table.molecules(), table.broken())


def _molecules(link: Link, headers: Sequence[ContextHeader]) -> Call[None, MoleculeTable]:
    """Return the molecules that the deltas of a chain, newest first, come to."""
    table = MoleculeTable()
    if any(header.molecule_count for header in headers):
        for header in reversed(headers):
            if header.molecule_count or ((len(table) or table.broken()) and header.removed_count):
                delta = yield from context(link, (yield from record_of(link, header.digest)))
                table.apply(delta.removed, delta.molecules)
    return table


def _oversize(link: Link, over: Sequence[Oversize]) -> Call[None, list[Entry]]:
    found: list[Entry] = []
    wanted: dict[bytes, set[bytes]] = {}
    for row in over:
        wanted.setdefault(row.origin, set()).add(row.digest)
    for origin, digests in wanted.items():
        delta = yield from context(link, (yield from record_of(link, origin)))
        rows = [Entry(atom_digest(atom), atom, origin) for atom in delta.atoms]
        found += [row for row in rows if row.digest in digests]
    if len(found) != len(over):
        raise ProtocolError("an atom is named that its context does not have")
    return found


def query(link: Link, body: QueryRequest) -> Call[None, QueryResponse]:
    """Return one page of a query."""
    return (yield from _answer(link, body, QueryResponse))


def prove(link: Link, body: Prove) -> Call[None, Proof]:
    """Return a proof unchecked; ``context.remotes.context_proof`` checks it."""
    return (yield from _answer(link, body, Proof))


def list_refs(link: Link, prefix: str = "") -> Call[None, dict[str, bytes]]:
    """Return all refs whose names begin with ``prefix``, sorted by name."""
    found: dict[str, bytes] = {}
    after = ""
    while True:
        page = yield from _answer(link, RefsRequest(prefix=prefix, after=after), RefsResponse)
        found |= {row.name: row.target for row in page.refs}
        if not page.has_more:
            return found
        if not page.refs or page.refs[-1].name <= after:
            raise ProtocolError("a page of refs does not go on from the one before")
        after = page.refs[-1].name


def change_ref(link: Link, update: RefUpdate) -> Call[None, None]:
    yield from _answer(link, RefsRequest(prefix=update.name, limit=1, update=update), RefsResponse)


def push_context(link: Link, body: PushContext) -> Call[None, None]:
    """Make the server take in a context whose objects it has."""
    yield from _acknowledged(link, (yield from _opened(link, body)))


def _acknowledged(link: Link, stream: int) -> Call[None, int]:
    try:
        while True:
            event = _sound((yield Wait(stream)))
            if isinstance(event, Acknowledged):
                return event.ack.objects
            if not isinstance(event, CreditCame):
                raise _unexpected(event)
    finally:
        link.leave(stream)


def lacking(link: Link, digests: Sequence[bytes]) -> Call[None, list[bytes]]:
    """Return those of ``digests`` that the server lacks, in the order asked."""
    each = min(link.machine.limits.digests, (link.machine.limits.frame_bytes - 256) // 64)
    found: set[bytes] = set()
    for start in range(0, len(digests), each):
        offered = tuple(dict.fromkeys(digests[start : start + each]))
        found.update((yield from _wanted(link, Have(offered=offered))))
    return [digest for digest in digests if digest in found]


def _wanted(link: Link, body: Have) -> Call[None, list[bytes]]:
    found: list[bytes] = []
    stream = yield from _opened(link, body)
    try:
        while True:
            event = _sound((yield Wait(stream)))
            if not isinstance(event, Answered) or not isinstance(event.body, Want):
                raise _unexpected(event)
            found += event.body.digests
            if event.is_last:
                return found
            link.machine.grant(stream, 1, event.size_bytes)
    finally:
        link.leave(stream)


def listing(link: Link, head: bytes, known: Sequence[bytes]) -> Call[Listed, None]:
    """Yield the objects to transfer for ``head``, as listed by the server."""
    room = min(link.machine.limits.digests, link.machine.limits.frame_bytes // 64) - 8
    stream = yield from _opened(link, Have(wanted=(head,), known=tuple(known)[:room]))
    try:
        while True:
            event = _sound((yield Wait(stream)))
            if not isinstance(event, Answered) or not isinstance(event.body, Want):
                raise _unexpected(event)
            want = event.body
            for place, digest in enumerate(want.digests):
                yield Listed(digest, want.sizes[place] if want.sizes else 0)
            if event.is_last:
                return
            link.machine.grant(stream, 1, event.size_bytes)
    finally:
        link.leave(stream)


def fetch(link: Link, digests: Sequence[bytes]) -> Call[tuple[bytes, bytes], None]:
    """Yield objects with their digests, verified by the machine, in the order asked."""
    each = min(link.machine.limits.digests, (link.machine.limits.frame_bytes - 256) // 64)
    for start in range(0, len(digests), each):
        stream = yield from _opened(link, ObjectsGet(tuple(digests[start : start + each])))
        try:
            while True:
                event = _sound((yield Wait(stream)))
                if isinstance(event, ObjectCame):
                    yield event.digest, event.data
                    link.machine.grant(stream, event.frames, event.size_bytes)
                elif isinstance(event, Ended):
                    break
                else:
                    raise _unexpected(event)
        finally:
            link.leave(stream)


def _gathered(link: Link, digests: Sequence[bytes]) -> Call[T, dict[bytes, bytes]]:
    """Return several objects by digest."""
    found: dict[bytes, bytes] = {}
    yield from _each(fetch(link, digests), lambda pair: found.update([pair]))
    return found


def _each(call: Call[S, R], take: Callable[[S], None]) -> Call[T, R]:
    """Run ``call``, pass its values to ``take``, and return its result."""
    try:
        step = next(call)
        while True:
            if isinstance(step, Wait | Pause):
                step = call.send((yield step))
            else:
                take(step)
                step = call.send(None)
    except StopIteration as end:
        connection_ended: R = end.value
        return connection_ended
    finally:
        call.close()


def record_of(link: Link, digest: bytes) -> Call[None, RecordView]:
    """Return the record of a context, checked as untrusted bytes."""
    found = yield from _gathered(link, [digest])
    return record.read_header(found[digest])


def context(link: Link, view: RecordView) -> Call[None, Context]:
    """Return the whole delta in canonical form: its objects are fetched level by level, and each is checked."""
    found: dict[bytes, bytes] = {}
    wanted = view.parts()
    for _ in range(LEVELS_MAX):
        level = [digest for digest in dict.fromkeys(wanted) if digest not in found]
        if not level:
            break
        found |= yield from _gathered(link, level)
        wanted = [child for digest in level for child in record.children_of(found[digest])]

    def get(digest: bytes) -> bytes:
        try:
            return found[digest]
        except KeyError:
            raise FormatError(f"object {digest.hex()} is not named by the record") from None

    return view.context(get)


def upload(link: Link, objects: Iterable[tuple[bytes, bytes]]) -> Call[None, int]:
    """Upload objects; return their number when the server has stored all of them. The source is read as credit arrives."""
    stream = yield from _opened(link, None)
    source = iter(objects)
    try:
        while batch := _batch(source):
            yield from _ready(link, stream)
            link.machine.send_objects(stream, batch)
        yield from _ready(link, stream)
        link.machine.end_upload(stream)
    except BaseException:  # on any failure: close the stream and re-raise
        link.leave(stream)
        raise
    return (yield from _acknowledged(link, stream))


def _ready(link: Link, stream: int) -> Call[None, None]:
    while not link.machine.ready(stream):
        event = _sound((yield Wait(stream)))
        if not isinstance(event, CreditCame):
            raise _unexpected(event)


def _batch(source: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    batch: list[tuple[bytes, bytes]] = []
    size_bytes = 0
    for digest, data in source:
        batch.append((digest, data))
        size_bytes += len(data)
        if size_bytes >= _UPLOAD_BYTES:
            break
    return batch


def watch(link: Link, prefix: str = "") -> Call[tuple[dict[str, bytes], tuple[str, ...]], None]:
    """Yield the refs that moved with their targets, and the names of those that were removed, until the call is closed."""
    stream = yield from _opened(link, Watch(prefix=prefix))
    try:
        while True:
            event = _sound((yield Wait(stream)))
            if not isinstance(event, Answered) or not isinstance(event.body, Changed):
                raise _unexpected(event)
            yield {row.name: row.target for row in event.body.refs}, event.body.gone
            link.machine.grant(stream, 1, event.size_bytes)
    finally:
        link.leave(stream)
