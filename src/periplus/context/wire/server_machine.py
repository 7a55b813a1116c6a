"""The server's half of a connection: requests arrive as events, answers are sent by ``send_…``.

For a stream of the client the server holds its window, one item that waits for credit, and a partly received object.
CANCEL frees all of it and is answered by ERROR ``cancelled``, which tells the client where the stream ends. Frames of
the client for a stream that has ended here (CREDIT, CANCEL, OBJECTS) were sent before it knew of that end; they are
dropped unread, as long as the connection lasts.
"""

from __future__ import annotations

__all__ = ["Authority", "ServerMachine", "token_authority"]

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from periplus.base.errors import PeriplusError
from periplus.context.model import DEFAULT_LIMITS, Chunk, ChunkLimits, Entry, Expansion
from periplus.context.types import nesting
from periplus.context.wire.connection import Connection, Outgoing, Stream
from periplus.context.wire.error_codes import ERRORS, ErrorCode, ProtocolError, WireError, code_of
from periplus.context.wire.events import (
    Cancelled,
    Closed,
    CreditCame,
    Event,
    Failed,
    ObjectCame,
    Opened,
    Requested,
    UploadEnded,
)
from periplus.context.wire.flow_control import Bucket, Window
from periplus.context.wire.frames import FRAMES, OPENERS, FrameType, Header
from periplus.context.wire.limits import Limits, Policy, agreed
from periplus.context.wire.object_parts import Assembler, chunk_frames, object_frames
from periplus.context.wire.payload_codec import Encoding, has_zstd
from periplus.context.wire.payloads import (
    Ack,
    Changed,
    Credit,
    Have,
    Hello,
    ObjectsGet,
    ObjectsPut,
    ObjectsSent,
    Proof,
    PushContext,
    QueryRequest,
    QueryResponse,
    RefRow,
    RefsRequest,
    RefsResponse,
    StreamChunk,
    StreamEnd,
    StreamRequest,
    Want,
    Welcome,
    WireBroken,
    WireMolecule,
    payload_of_expansion,
    rows_of,
)
from periplus.context.wire.v1_dialect import V1_FIRST_BYTES, V1Side

Authority: TypeAlias = Callable[[str], bool]
CAPABILITIES: Final = frozenset({"prove", "push", "watch", "zstd"})
_VERSION: Final = 2
_ENCODINGS: Final[dict[str, Encoding]] = {"msgpack": "msgpack", "json": "json"}


def token_authority(*tokens: str) -> Authority:
    """Return a check of tokens against ``tokens``, in a time that does not depend on how much of a token is right."""
    import hmac
    from hashlib import sha256

    known = [sha256(token.encode("utf-8", "surrogatepass")).digest() for token in tokens]

    def is_known(token: str) -> bool:
        digest = sha256(token.encode("utf-8", "surrogatepass")).digest()
        found = False
        for one in known:
            found |= hmac.compare_digest(one, digest)
        return found

    return is_known


class ServerMachine(Connection):
    """The server's machine. ``authority`` checks the client's token; without one no token is needed. ``capabilities``
    are the most to offer.
    """

    peer_side = "client"

    def __init__(
        self,
        now: float,
        *,
        limits: Limits | None = None,
        policy: Policy | None = None,
        authority: Authority | None = None,
        capabilities: Iterable[str] = CAPABILITIES,
        agent: str = "periplus",
        compress: bool = True,
        serve_v1: bool = True,
    ) -> None:
        super().__init__(limits or Limits(), policy or Policy(), now)
        self._authority = authority
        self._offered = frozenset(capabilities) if has_zstd() else frozenset(capabilities) - {"zstd"}
        self._agent = agent
        self._compress = compress
        self._requests = Bucket(self.limits.request_rate, self.policy.request_burst)
        self._is_stopping = False
        self._serve_v1 = serve_v1
        self._v1: V1Side | None = None

    # Receiving

    def _read(self, events: list[Event]) -> None:
        if self._v1 is None and not self._has_preface and self._input[0] in V1_FIRST_BYTES:
            self._begin_v1()
        if self._v1 is None:
            super()._read(events)
            return
        before = len(events)
        position = self._v1.read(self._input, events)
        del self._input[:position]
        if position and not self.is_open:
            self.is_open = True
            events.insert(before, Opened(1, (), self.limits, ""))

    def _begin_v1(self) -> None:
        self._v1 = V1Side(self.limits, self._put_bytes, self._v1_refusal)
        if not self._serve_v1 or self._authority is not None:
            raise ProtocolError(
                "a version 1 peer, which this server does not serve",
                "unauthorized" if self._serve_v1 else "unsupported_version",
            )

    def _v1_refusal(self) -> ErrorCode | None:
        if self._is_stopping:
            return "shutting_down"
        return None if self._requests.take(self._now) else "rate_limited"

    @property
    def version(self) -> int:
        """The version of the protocol that the peer speaks; 0 until it is known."""
        return 1 if self._v1 is not None else 2 if self._has_preface else 0

    def _on_frame(self, header: Header, payload: bytes, events: list[Event]) -> None:
        kind = header.kind
        if kind == FrameType.HELLO:
            self._on_hello(self._value(header, payload), events)
        elif kind == FrameType.ERROR:
            self._on_error(header, payload, events)
        elif kind in OPENERS and header.stream not in self._streams and header.stream > self._highest:
            self._on_request(header, payload, events)
        elif not self._on_shared(header, payload, events):
            self._on_continued(header, payload, events)

    def _on_hello(self, hello: Hello, events: list[Event]) -> None:
        if _VERSION not in hello.versions:
            raise ProtocolError("the client speaks no version of this server", "unsupported_version")
        encoding: Encoding | None = next((known for name in hello.encodings if (known := _ENCODINGS.get(name))), None)
        if encoding is None:
            raise ProtocolError("the client knows no encoding of this server", "unsupported_version")
        if self._authority is not None and not self._authority(hello.token):
            raise ProtocolError("the token is missing or wrong", "unauthorized")
        self.limits = agreed(self.limits, hello.limits)
        self._requests = Bucket(self.limits.request_rate, self.policy.request_burst)
        self.capabilities = self._offered & frozenset(hello.capabilities)
        self._put(
            FrameType.WELCOME,
            0,
            Welcome(_VERSION, encoding, tuple(sorted(self.capabilities)), self.limits, self._agent),
        )
        self.codec.agree(encoding, unpacks="zstd" in self.capabilities, packs=self._compress)
        self.is_open = True
        events.append(Opened(_VERSION, tuple(sorted(self.capabilities)), self.limits, hello.agent))

    def _on_error(self, header: Header, payload: bytes, events: list[Event]) -> None:
        if header.stream:
            raise ProtocolError("an ERROR of the client is about the connection; a stream it cancels")
        report = self._value(header, payload)
        self._end()
        events.append(Closed(report.code, True, "the client ended the connection"))

    def _on_request(self, header: Header, payload: bytes, events: list[Event]) -> None:
        number, kind = header.stream, FrameType(header.kind)
        self._highest = number
        if not self._requests.take(self._now):
            self._take_frame()
            self._put_error(number, "rate_limited", retry_after_ms=int(self._requests.wait_s() * 1_000) + 1)
            return
        refused = self._refusal(kind)
        if refused is not None:
            self._put_error(number, refused)
            return
        body = self._value(header, payload)
        if "push" not in self.capabilities and _changes_something(body):
            self._put_error(number, "unsupported")
            return
        field = self._wrong_field(body)
        if field:
            self._put_error(number, "bad_request", field=field)
            return
        state = self._streams[number] = Stream(number, kind, body)
        if isinstance(body, ObjectsPut):
            state.incoming = self._window(0, 0)
            state.assembler = Assembler(self.limits.object_bytes)
            self._on_parts(state, body, len(payload), events)
            return
        if hasattr(body, "credit_frames"):
            state.outgoing = self._window(body.credit_frames, body.credit_bytes)
        events.append(Requested(number, body))

    def _refusal(self, kind: FrameType) -> ErrorCode | None:
        if self._is_stopping:
            return "shutting_down"
        if len(self._streams) >= self.limits.streams:
            return "too_many_streams"
        needs = FRAMES[kind].needs
        return "unsupported" if needs and needs not in self.capabilities else None

    def _wrong_field(self, body: Any) -> str:
        """Return the field of a request that exceeds the agreed limits; "" if there is none."""
        limits = self.limits
        if hasattr(body, "credit_frames"):
            if body.credit_frames > limits.window_frames:
                return "credit_frames"
            if body.credit_bytes and not limits.frame_bytes <= body.credit_bytes <= limits.window_bytes:
                return "credit_bytes"
        if isinstance(body, StreamRequest) and body.atoms > limits.atoms:
            return "atoms"
        if isinstance(body, QueryRequest) and body.limit > limits.atoms:
            return "limit"
        if isinstance(body, StreamRequest | QueryRequest) and body.filter is not None:
            kind = body.filter.type
            if kind.count("[") >= limits.type_depth and nesting(kind) > limits.type_depth:
                return "filter.type"
        if isinstance(body, Have):
            if bool(body.offered) == bool(body.wanted):
                return "offered"
            if len(body.offered) + len(body.wanted) + len(body.known) > limits.digests:
                return "known"
        if isinstance(body, ObjectsGet) and not 0 < len(body.digests) <= limits.digests:
            return "digests"
        if isinstance(body, PushContext) and not body.ref and (body.expected is not None or body.force):
            return "ref"
        return ""

    def _window(self, frames: int, size_bytes: int) -> Window:
        limits = self.limits
        return Window(
            frames or limits.window_frames, size_bytes or limits.window_bytes,
            frames_max=limits.window_frames, bytes_max=limits.window_bytes,
        )  # fmt: skip

    def _on_continued(self, header: Header, payload: bytes, events: list[Event]) -> None:
        """Handle CANCEL and further OBJECTS; for a stream that has ended they come late and are dropped."""
        state = self._streams.get(header.stream)
        if state is None:
            if header.stream > self._highest or (header.kind in OPENERS and header.kind != FrameType.OBJECTS):
                raise ProtocolError(f"{FRAMES[header.kind].name} on stream {header.stream}, which is impossible")
            if header.kind != FrameType.OBJECTS:  # OBJECTS are limited by credit instead
                self._take_frame()
            return
        if header.kind == FrameType.CANCEL:
            self._take_frame()
            self._value(header, payload)
            del self._streams[header.stream]
            self._put_error(header.stream, "cancelled")
            events.append(Cancelled(header.stream))
            return
        if header.kind != FrameType.OBJECTS or state.assembler is None:
            raise ProtocolError(f"{FRAMES[header.kind].name} on stream {header.stream}, which is open")
        data = self.codec.unpacked(payload, header.flags, self.limits.frame_bytes)
        body = self.codec.value(header.kind, data)
        if not isinstance(body, ObjectsPut):
            raise ProtocolError("objects are asked for on a stream that brings them")
        self._on_parts(state, body, len(data), events)

    def _on_parts(self, state: Stream, body: ObjectsPut, size_bytes: int, events: list[Event]) -> None:
        self._spend_incoming(state, size_bytes)
        assembler = state.assembler
        if assembler is None:  # the stream was opened with one
            raise ProtocolError("no objects are expected")
        whole = assembler.feed(body.parts)
        self._check_parts()
        last = len(whole) - 1
        for place, (digest, data) in enumerate(whole):
            cost = (1, size_bytes) if place == last else (0, 0)
            events.append(ObjectCame(state.number, digest, data, *cost))
        if body.is_final:
            assembler.finish()
            state.incoming = state.assembler = None
            events.append(UploadEnded(state.number))
        elif not whole:
            self.grant(state.number, 1, size_bytes)

    def _on_credit(self, number: int, credit: Credit, events: list[Event]) -> None:
        state = self._streams.get(number)
        if state is None:
            if number > self._highest:
                raise ProtocolError(f"CREDIT on stream {number}, which was never opened")
            return
        if state.outgoing is None:
            raise ProtocolError("CREDIT on a stream that needs none", "flow_control")
        state.outgoing.grant(credit.frames, credit.bytes)
        try:
            self._flush(state)
        except PeriplusError as error:  # the source of the answer failed: the stream ends, the connection does not
            code = code_of(error)
            self.send_error(number, code)
            events.append(Failed(number, code, "", ERRORS[code].is_retryable, 0, error.wrong))
            return
        events.append(CreditCame(number))

    # Answers

    def body_of(self, stream: int) -> Any:
        """Return the request that opened ``stream``."""
        return self._stream(stream).body if self._v1 is None else self._v1.body_of(stream)

    def chunk_limits(self, stream: int, ours: ChunkLimits = DEFAULT_LIMITS) -> ChunkLimits:
        """Return the limits for the chunks of ``stream``: the least of ``ours``, of the request, and of the size of a
        frame.
        """
        body = self.body_of(stream)
        room = (self.limits.frame_bytes - 2_048) // 2  # a proof may take as much again as the atoms
        wanted = (body.atoms, body.tokens, body.size_bytes) if isinstance(body, StreamRequest) else (0, 0, 0)
        return ChunkLimits(
            min(ours.atoms, wanted[0] or ours.atoms, self.limits.atoms),
            min(ours.tokens, wanted[1] or ours.tokens),
            min(ours.size_bytes, wanted[2] or ours.size_bytes, room),
        )

    def send_expansion(self, stream: int, expansion: Expansion, *, path: Sequence[str] = ()) -> bool:
        """Answer EXPAND_REQUEST in one frame. False if it does not fit: answer with ``send_chunk`` … ``send_end`` then.

        A version 1 peer also receives ``path``, the short hashes of the chain, its root first; an expansion that is too
        large is an error for it.
        """
        if self._v1 is not None:
            self._v1.send_expansion(stream, expansion.entries, path)
            return True
        state = self._expect(stream, FrameType.EXPAND_RESPONSE)
        if len(expansion.entries) > self.limits.atoms:
            return False
        payload = self.codec.payload(payload_of_expansion(expansion))
        if len(payload) > self.limits.frame_bytes:
            return False
        self._answer(state, FrameType.EXPAND_RESPONSE, payload)
        return True

    def send_chunk(self, stream: int, chunk: Chunk) -> None:
        """Send the next chunk as credit allows; the one after it may follow when the stream is ``ready`` again."""
        if self._v1 is not None:
            self._v1.send_chunk(stream, chunk)
            return
        state = self._expect(stream, FrameType.STREAM_CHUNK)
        kind = FrameType.STREAM_CHUNK
        self._queue(state, (Outgoing(kind, payload, False) for payload in chunk_frames(chunk, self.codec, self.limits)))

    def send_molecules(self, stream: int, chunk_id: int, expansion: Expansion) -> None:
        """Send the molecules of an expansion that is answered in chunks, after the last chunk of atoms, in chunk
        ``chunk_id``.
        """
        state = self._expect(stream, FrameType.STREAM_CHUNK)
        if state.opener != FrameType.EXPAND_REQUEST:
            raise WireError("only an expansion has molecules")
        self._queue(state, self._molecule_frames(chunk_id, expansion))

    def _molecule_frames(self, chunk_id: int, expansion: Expansion) -> Iterator[Outgoing]:
        whole = payload_of_expansion(expansion._replace(entries=()))
        rows = [*whole.molecules, *whole.broken]
        start = len(expansion.entries)
        place = 0
        while place < len(rows):
            end, size_bytes = place, 0
            while end < len(rows) and (end == place or size_bytes < self.limits.frame_bytes // 4):
                size_bytes += len(self.codec.payload(rows[end]))
                end += 1
            payload = StreamChunk(
                chunk_id,
                start,
                molecules=tuple([row for row in rows[place:end] if isinstance(row, WireMolecule)]),
                broken=tuple([row for row in rows[place:end] if isinstance(row, WireBroken)]),
                more=end < len(rows),
            )
            yield Outgoing(FrameType.STREAM_CHUNK, self.codec.payload(payload), False)
            place = end

    def send_end(self, stream: int, end: StreamEnd) -> None:
        """End a stream of chunks, behind the chunks that still wait."""
        if self._v1 is not None:
            self._v1.send_end(stream)
            return
        state = self._expect(stream, FrameType.STREAM_END)
        self._answer(state, FrameType.STREAM_END, self.codec.payload(end))

    def send_query(
        self,
        stream: int,
        entries: Sequence[Entry],
        *,
        scores: Sequence[int] = (),
        total: int = 0,
        tokens: int = 0,
        page_next: int | None = None,
        at_ms: int = 0,
    ) -> bool:
        """Answer QUERY_REQUEST. False if it does not fit a frame: answer with fewer entries then, and ``page_next`` for
        the rest.
        """
        if self._v1 is not None:
            self._v1.send_query(stream, entries, total)
            return True
        state = self._expect(stream, FrameType.QUERY_RESPONSE)
        if len(entries) > self.limits.atoms:
            return False
        atoms, origins, origin_of = rows_of(entries)
        payload = self.codec.payload(
            QueryResponse(atoms, origins, origin_of, tuple(scores), total, tokens, page_next, at_ms)
        )
        if len(payload) > self.limits.frame_bytes:
            return False
        self._answer(state, FrameType.QUERY_RESPONSE, payload)
        return True

    def send_ack(self, stream: int, *, digest: bytes | None = None, objects: int = 0) -> None:
        """Acknowledge a push or an ended upload. A version 1 peer receives the old hash of the context that it pushed."""
        if self._v1 is not None:
            self._v1.send_ack(stream)
            return
        state = self._expect(stream, FrameType.ACK)
        if state.assembler is not None:
            raise WireError(f"stream {stream} still brings objects")
        self._answer(state, FrameType.ACK, self.codec.payload(Ack(digest, objects)))

    def send_want(
        self, stream: int, digests: Sequence[bytes], *, sizes: Sequence[int] = (), is_final: bool = True
    ) -> None:
        """Send the objects to transfer, in as many frames as necessary; ``is_final`` ends the stream behind them."""
        state = self._expect(stream, FrameType.WANT)
        self._queue(state, self._want_frames(tuple(digests), tuple(sizes), is_final=is_final))

    def _want_frames(self, digests: tuple[bytes, ...], sizes: tuple[int, ...], *, is_final: bool) -> Iterator[Outgoing]:
        each = min(self.limits.digests, (self.limits.frame_bytes - 256) // 64)
        for start in range(0, max(len(digests), 1), each):
            is_last = is_final and start + each >= len(digests)
            want = Want(digests[start : start + each], sizes[start : start + each], is_last)
            yield Outgoing(FrameType.WANT, self.codec.payload(want), is_last)

    def send_objects(self, stream: int, objects: Iterable[tuple[bytes, bytes]], *, is_final: bool = True) -> None:
        """Send requested objects in the requested order, read from ``objects`` as the credit allows."""
        state = self._expect(stream, FrameType.OBJECTS_SENT)
        self._queue(state, self._object_frames(objects, is_final=is_final))

    def _object_frames(self, objects: Iterable[tuple[bytes, bytes]], *, is_final: bool) -> Iterator[Outgoing]:
        for parts in object_frames(objects, self.codec, self.limits):
            yield Outgoing(FrameType.OBJECTS_SENT, self.codec.payload(ObjectsSent(parts)), False)
        if is_final:
            yield Outgoing(FrameType.OBJECTS_SENT, self.codec.payload(ObjectsSent((), is_final=True)), True)

    def send_proof(self, stream: int, proof: Proof) -> None:
        self._answer(self._expect(stream, FrameType.PROOF), FrameType.PROOF, self.codec.payload(proof))

    def send_refs(self, stream: int, refs: Sequence[tuple[str, bytes]], *, has_more: bool = False) -> None:
        state = self._expect(stream, FrameType.REFS_RESPONSE)
        rows = tuple(RefRow(name, target) for name, target in refs)
        self._answer(state, FrameType.REFS_RESPONSE, self.codec.payload(RefsResponse(rows, has_more)))

    def send_changed(self, stream: int, refs: Sequence[tuple[str, bytes]], gone: Sequence[str] = ()) -> None:
        """Send refs that moved. While the stream is not ``ready``, the caller joins further changes with these."""
        state = self._expect(stream, FrameType.CHANGED)
        payload = self.codec.payload(Changed(tuple(RefRow(name, target) for name, target in refs), tuple(gone)))
        self._queue(state, iter((Outgoing(FrameType.CHANGED, payload, False),)))

    def send_error(self, stream: int, code: ErrorCode, *, field: str = "", retry_after_ms: int = 0) -> None:
        """Answer with ``code`` and its text, and drop what waits on ``stream``. A stream that has ended is left alone."""
        if self._v1 is not None and not self.is_closed:
            self._v1.send_error(stream, code, field)
            return
        if self.is_closed or self._streams.pop(stream, None) is None:
            return
        self._put_error(stream, code, field=field, retry_after_ms=retry_after_ms)

    def _expect(self, number: int, kind: FrameType) -> Stream:
        self._need_open()
        state = self._stream(number)
        if kind not in FRAMES[state.opener].answers:
            raise WireError(f"{FRAMES[kind].name} does not answer {FRAMES[state.opener].name}")
        return state

    def _answer(self, state: Stream, kind: FrameType, payload: bytes) -> None:
        if len(payload) > self.limits.frame_bytes:
            raise WireError(f"an answer of {len(payload)} bytes, {self.limits.frame_bytes} were agreed")
        last = Outgoing(kind, payload, True)
        if state.pending is None:
            self._queue(state, iter((last,)))
            return
        waiting = state.pending

        def then() -> Iterator[Outgoing]:
            yield from waiting
            yield last

        state.pending = then()
        self._flush(state)

    def _sent_last(self, state: Stream) -> None:
        self._streams.pop(state.number, None)

    # The end

    def shut_down(self) -> None:
        """Take no more requests, and tell the peer; open streams may finish. ``is_drained`` says when they have."""
        if self.is_closed or self._is_stopping:
            return
        self._is_stopping = True
        if self.is_open and self._v1 is None:
            self._put_error(0, "shutting_down")

    @property
    def is_drained(self) -> bool:
        """True if the machine was shut down and has no open streams."""
        return self._is_stopping and not self.open_streams

    @property
    def open_streams(self) -> int:
        return len(self._streams) if self._v1 is None else len(self._v1.streams)

    def is_stream_open(self, stream: int) -> bool:
        return stream in self._streams if self._v1 is None else stream in self._v1.streams

    def ready(self, stream: int) -> bool:
        """Return whether the next chunk may be sent; version 1 has no credit, so there only ``buffered`` limits it."""
        return self.is_stream_open(stream) if self._v1 is not None else super().ready(stream)

    def _fail(self, error: ProtocolError, events: list[Event]) -> None:
        if self._v1 is None:
            super()._fail(error, events)
            return
        self._v1.put_fatal(error.wire_code)
        self._close(error.wire_code, error.wrong, events)

    def abort_streams(self) -> list[int]:
        """Abort all open streams with an ERROR; return their numbers."""
        numbers = sorted(self._streams if self._v1 is None else self._v1.streams)
        for number in numbers:
            self.send_error(number, "shutting_down")
        return numbers


def _changes_something(body: Any) -> bool:
    """Return whether a request of a type that may also only read asks for a change."""
    if isinstance(body, Have):
        return bool(body.offered)
    return isinstance(body, ObjectsPut) or (isinstance(body, RefsRequest) and body.update is not None)
