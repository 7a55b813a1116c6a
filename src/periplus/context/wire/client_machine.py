"""The client's half of a connection: requests go out, answers come back as events by stream.

A stream is open from its request to the frame that ends it, even if it is cancelled in between: until then its frames
are counted for the window and dropped. Afterwards any frame for it is a protocol error. So neither side has to remember
more streams than agreed.
"""

from __future__ import annotations

__all__ = ["ClientMachine"]

from collections.abc import Iterable, Iterator
from typing import Any, Final

from periplus.context.model import Chunk
from periplus.context.wire.connection import Connection, Outgoing, Stream
from periplus.context.wire.error_codes import ProtocolError, RemoteError, WireError
from periplus.context.wire.events import (
    Acknowledged,
    Answered,
    ChunkCame,
    Closed,
    CreditCame,
    Ended,
    Event,
    Failed,
    ObjectCame,
    Opened,
    ShuttingDown,
)
from periplus.context.wire.flow_control import Window
from periplus.context.wire.frames import FRAMES, STREAM_MAX, FrameType, Header
from periplus.context.wire.limits import Limits, Policy, agreed
from periplus.context.wire.object_parts import Assembler, object_frames
from periplus.context.wire.payload_codec import Encoding, has_zstd
from periplus.context.wire.payloads import (
    Cancel,
    Credit,
    ErrorReport,
    ExpandRequest,
    ExpandResponse,
    Have,
    Hello,
    ObjectsGet,
    ObjectsPut,
    Ping,
    Prove,
    PushContext,
    QueryRequest,
    QueryResponse,
    RefsRequest,
    Request,
    StreamChunk,
    StreamRequest,
    Want,
    Watch,
    Welcome,
    check_rows,
    chunk_of,
)

_VERSION: Final = 2
_CAPABILITIES: Final = ("prove", "push", "watch", "zstd")
_OPENERS: Final[dict[type[Any], FrameType]] = {
    ExpandRequest: FrameType.EXPAND_REQUEST,
    StreamRequest: FrameType.STREAM_REQUEST,
    QueryRequest: FrameType.QUERY_REQUEST,
    PushContext: FrameType.PUSH_CONTEXT,
    Have: FrameType.HAVE,
    ObjectsGet: FrameType.OBJECTS,
    ObjectsPut: FrameType.OBJECTS,
    Prove: FrameType.PROVE,
    RefsRequest: FrameType.REFS,
    Watch: FrameType.WATCH,
}


class ClientMachine(Connection):
    """The client's machine. It starts with its HELLO ready to be sent; requests are possible after ``Opened``."""

    peer_side = "server"

    def __init__(
        self,
        now: float,
        *,
        limits: Limits | None = None,
        policy: Policy | None = None,
        token: str = "",
        encodings: tuple[Encoding, ...] = ("msgpack", "json"),
        capabilities: Iterable[str] = _CAPABILITIES,
        agent: str = "periplus",
        compress: bool = True,
    ) -> None:
        super().__init__(limits or Limits(request_rate=1_000_000), policy or Policy(), now)  # the server sets the rate
        self._offered = tuple(sorted(set(capabilities) - (set() if has_zstd() else {"zstd"})))
        self._encodings = encodings
        self._compress = compress
        self._sent_at = now
        self.is_refusing = False
        self._put(
            FrameType.HELLO,
            0,
            Hello((_VERSION,), encodings, self._offered, self.limits, token, agent),
        )

    # Requests

    def request(self, body: Request) -> int:
        """Send a request; return the number of the stream for the answer.

        Raises WireError before the handshake is done, if too many streams are open or if the server is shutting down,
        RemoteError if ``body`` needs a capability that was not agreed.
        """
        self._need_open()
        kind = _OPENERS[type(body)]
        needs = FRAMES[kind].needs
        if self.is_refusing:
            raise WireError("the server is shutting down")
        if len(self._streams) >= self.limits.streams:
            raise WireError(f"{self.limits.streams} streams are open, which is the agreed maximum")
        if needs and needs not in self.capabilities:
            raise RemoteError("unsupported", f"the server does not offer {needs!r}")
        if self._highest >= STREAM_MAX:
            raise WireError("this connection has no stream numbers left; begin another")
        payload = self.codec.payload(body)
        if len(payload) > self.limits.frame_bytes:
            raise WireError(f"a request of {len(payload)} bytes, {self.limits.frame_bytes} were agreed")
        number = self._highest = self._highest + 1
        state = self._streams[number] = Stream(number, kind, body)
        if isinstance(body, ObjectsPut):
            state.outgoing = self._window(0, 0)
            self._queue(state, iter((Outgoing(kind, payload, False),)))
            return number
        if isinstance(body, ExpandRequest | StreamRequest | Have | ObjectsGet | Watch):
            state.incoming = self._window(body.credit_frames, body.credit_bytes)
        if isinstance(body, ObjectsGet):
            state.assembler = Assembler(self.limits.object_bytes, body.digests)
        self._put_payload(kind, number, payload)
        return number

    def _window(self, frames: int, size_bytes: int) -> Window:
        limits = self.limits
        return Window(
            frames or limits.window_frames, size_bytes or limits.window_bytes,
            frames_max=limits.window_frames, bytes_max=limits.window_bytes,
        )  # fmt: skip

    def open_upload(self) -> int:
        """Begin an upload: call ``send_objects`` when the stream is ``ready``, then ``end_upload``."""
        return self.request(ObjectsPut())

    def send_objects(self, stream: int, objects: Iterable[tuple[bytes, bytes]], *, is_final: bool = False) -> None:
        """Send ``objects`` (digest and bytes), read as the credit allows; with ``is_final`` they are the last ones."""
        self._queue(self._upload(stream), self._object_frames(objects, is_final=is_final))

    def end_upload(self, stream: int) -> None:
        """End the upload; Acknowledged follows when all objects are stored. Raises WireError while objects wait."""
        self.send_objects(stream, (), is_final=True)

    def _upload(self, number: int) -> Stream:
        self._need_open()
        state = self._stream(number)
        if not isinstance(state.body, ObjectsPut) or state.is_cancelled or state.outgoing is None:
            raise WireError(f"stream {number} brings no objects, or no more")
        return state

    def _object_frames(self, objects: Iterable[tuple[bytes, bytes]], *, is_final: bool) -> Iterator[Outgoing]:
        for parts in object_frames(objects, self.codec, self.limits):
            yield Outgoing(FrameType.OBJECTS, self.codec.payload(ObjectsPut(parts)), False)
        if is_final:
            yield Outgoing(FrameType.OBJECTS, self.codec.payload(ObjectsPut((), is_final=True)), True)

    def _sent_last(self, state: Stream) -> None:
        state.outgoing = None

    def cancel(self, stream: int) -> None:
        """Cancel ``stream``. Only Failed with code ``cancelled`` follows, and then its number is free."""
        state = self._streams.get(stream)
        if self.is_closed or state is None or state.is_cancelled:
            return
        state.is_cancelled = True
        state.pending = state.head = state.assembler = None
        state.joined, state.joined_cost = [], 0
        self._put(FrameType.CANCEL, stream, Cancel())

    def fail(self, code: str = "") -> None:
        """End the connection; with ``code`` the server receives the reason."""
        if code and not self.is_closed:
            self._put(FrameType.ERROR, 0, ErrorReport(code))
        self._end()

    # Time

    def _put_payload(self, kind: FrameType, stream: int, payload: bytes) -> None:
        self._sent_at = self._now
        super()._put_payload(kind, stream, payload)

    def next_deadline(self) -> float | None:
        deadline = super().next_deadline()
        if deadline is None or not self.is_open:
            return deadline
        return min(deadline, self._sent_at + self.limits.idle_ms / 3_000)

    def tick(self, now: float) -> list[Event]:
        """Ping the server before it would time out; end the connection if the server is silent."""
        self._now = now
        deadline = super().next_deadline()
        if deadline is not None and self.is_open and now < deadline:
            if now >= self._sent_at + self.limits.idle_ms / 3_000:
                self._put(FrameType.PING, 0, Ping())
            return []
        return self._expire(now)

    def _expire(self, now: float) -> list[Event]:
        deadline = super().next_deadline()
        if deadline is None or now < deadline:
            return []
        events: list[Event] = []
        code = "idle_timeout" if self.is_open else "handshake_timeout"
        self._end()
        events.append(Closed(code, False, "the server did not respond in time"))
        return events

    # Receiving

    def _on_frame(self, header: Header, payload: bytes, events: list[Event]) -> None:
        kind = header.kind
        if kind == FrameType.WELCOME:
            self._on_welcome(self._value(header, payload), events)
        elif kind == FrameType.ERROR:
            self._on_error(header, self._value(header, payload), events)
        elif not self._on_shared(header, payload, events):
            self._on_answer(header, payload, events)

    def _take_frame(self) -> None:
        """Do not limit the frames of a server, which sends only what was requested."""

    def _on_welcome(self, welcome: Welcome, events: list[Event]) -> None:
        if (
            welcome.version != _VERSION
            or welcome.encoding not in self._encodings
            or not set(welcome.capabilities) <= set(self._offered)
            or agreed(self.limits, welcome.limits) != welcome.limits
        ):
            raise ProtocolError("the server agrees to what was not offered")
        self.limits = welcome.limits
        self.capabilities = frozenset(welcome.capabilities)
        self.codec.agree(welcome.encoding, unpacks="zstd" in self.capabilities, packs=self._compress)
        self.is_open = True
        events.append(Opened(_VERSION, tuple(sorted(self.capabilities)), self.limits, welcome.agent))

    def _on_error(self, header: Header, report: ErrorReport, events: list[Event]) -> None:
        if not header.stream:
            if report.code == "shutting_down":
                self.is_refusing = True
                events.append(ShuttingDown())
                return
            self._end()
            events.append(Closed(report.code, True, "the server ended the connection"))
            return
        self._open_stream(header)
        self._finish(header.stream, report, events)

    def _open_stream(self, header: Header) -> Stream:
        state = self._streams.get(header.stream)
        if state is None:
            raise ProtocolError(f"{FRAMES[header.kind].name} on stream {header.stream}, which is not open")
        return state

    def _finish(self, number: int, report: ErrorReport | None, events: list[Event]) -> bool:
        """End a stream; return whether it was cancelled or failed, so that no further event follows."""
        state = self._streams.pop(number)
        if state.is_cancelled:
            events.append(Failed(number, "cancelled", "", True, 0))
            return True
        if report is not None:
            events.append(Failed(number, report.code, report.field, report.is_retryable, report.retry_after_ms))
            return True
        return False

    def _on_answer(self, header: Header, payload: bytes, events: list[Event]) -> None:
        state = self._open_stream(header)
        row = FRAMES[header.kind]
        if row.type not in FRAMES[state.opener].answers:
            raise ProtocolError(f"{row.name} does not answer {FRAMES[state.opener].name}")
        data = self.codec.unpacked(payload, header.flags, self.limits.frame_bytes)
        if row.is_counted:
            self._spend_incoming(state, len(data))
        if state.is_cancelled and row.ends != "final":
            if row.ends == "always":
                self._finish(header.stream, None, events)
            return
        value = self.codec.value(header.kind, data)
        is_last = row.ends == "always" or (row.ends == "final" and value.is_final)
        if is_last and state.joined:
            raise ProtocolError("a stream ends within a chunk")
        if isinstance(value, ExpandResponse | QueryResponse | StreamChunk):
            check_rows(value, self.limits)
        if is_last and state.is_cancelled:
            self._finish(header.stream, None, events)
        elif not state.is_cancelled:
            self._tell(state, row.type, value, len(data), is_last=is_last, events=events)

    def _tell(
        self, state: Stream, kind: FrameType, value: Any, size_bytes: int, *, is_last: bool, events: list[Event]
    ) -> None:
        number = state.number
        if kind == FrameType.STREAM_CHUNK:
            self._on_chunk(state, value, size_bytes, events)
        elif kind == FrameType.OBJECTS_SENT:
            self._on_objects(state, value, size_bytes, events)
        elif kind == FrameType.STREAM_END:
            events.append(Ended(number, value))
        elif kind == FrameType.ACK:
            if state.outgoing is not None and isinstance(state.body, ObjectsPut):
                raise ProtocolError("an upload is acknowledged before it has ended")
            events.append(Acknowledged(number, value))
        else:
            self._check_answer(state, value)
            events.append(Answered(number, value, is_last, size_bytes))
        if is_last:
            self._streams.pop(number, None)

    def _check_answer(self, state: Stream, value: Any) -> None:
        if isinstance(value, Want) and value.sizes and len(value.sizes) != len(value.digests):
            raise ProtocolError("WANT has not as many sizes as objects")
        if isinstance(value, Want) and isinstance(state.body, Have) and state.body.offered:
            if state.offered is None:
                state.offered = set(state.body.offered)
            offered = state.offered
            for digest in value.digests:
                if digest not in offered:
                    raise ProtocolError("WANT names what was not offered, or twice")
                offered.discard(digest)
        if isinstance(value, QueryResponse) and value.scores and len(value.scores) != len(value.atoms):
            raise ProtocolError("QUERY_RESPONSE has not as many scores as atoms")

    def _on_chunk(self, state: Stream, value: StreamChunk, size_bytes: int, events: list[Event]) -> None:
        if (value.molecules or value.broken) and state.opener != FrameType.EXPAND_REQUEST:
            raise ProtocolError("molecules in a stream of chunks")
        if not value.more and not state.joined:
            events.append(ChunkCame(state.number, chunk_of(value), 1, size_bytes, value.molecules, value.broken))
            return
        joined: list[StreamChunk] = state.joined
        state.joined_cost += size_bytes
        if joined and (value.chunk_id != joined[0].chunk_id or value.start != joined[-1].start + len(joined[-1].atoms)):
            raise ProtocolError("the parts of two chunks are mixed")
        joined.append(value)
        if state.joined_cost > self.limits.object_bytes + self.limits.window_bytes:
            raise ProtocolError("a chunk is larger than was agreed")
        self._check_parts()
        if value.more:
            self.grant(state.number, 1, size_bytes)
            return
        state.joined, state.joined_cost = [], 0
        pieces = [chunk_of(part) for part in joined]
        chunk = Chunk(
            value.chunk_id,
            pieces[0].start,
            tuple([entry for piece in pieces for entry in piece.entries]),
            value.cumulative_tokens,
            value.progress_millionths,
            value.is_final,
            b"".join([piece.proof for piece in pieces]),
            tuple([row for piece in pieces for row in piece.over]),
        )
        molecules = tuple([row for part in joined for row in part.molecules])
        broken = tuple([row for part in joined for row in part.broken])
        events.append(ChunkCame(state.number, chunk, 1, size_bytes, molecules, broken))

    def _on_objects(self, state: Stream, value: Any, size_bytes: int, events: list[Event]) -> None:
        assembler = state.assembler
        if assembler is None:
            raise ProtocolError("objects came that were not asked for")
        whole = assembler.feed(value.parts)
        self._check_parts()
        last = len(whole) - 1
        for place, (digest, data) in enumerate(whole):
            events.append(ObjectCame(state.number, digest, data, *((1, size_bytes) if place == last else (0, 0))))
        if value.is_final:
            assembler.finish()
            events.append(Ended(state.number, None))
        elif not whole:
            self.grant(state.number, 1, size_bytes)

    def _on_credit(self, number: int, credit: Credit, events: list[Event]) -> None:
        state = self._streams.get(number)
        if state is None:
            raise ProtocolError(f"CREDIT on stream {number}, which is not open")
        if state.is_cancelled or (state.outgoing is None and isinstance(state.body, ObjectsPut)):
            return
        if state.outgoing is None:
            raise ProtocolError("CREDIT on a stream that needs none", "flow_control")
        state.outgoing.grant(credit.frames, credit.bytes)
        self._flush(state)
        events.append(CreditCame(number))
