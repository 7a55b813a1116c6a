"""The common part of both sides of a connection: frames from bytes in any split, streams with their windows, liveness,
orderly end.

Rules:

* a header is checked before a byte of its payload is awaited: known type, known flags, agreed size, right sender, right place;
* received and unread bytes are at most one frame and the last input of the transport; bytes waiting to be sent are within the credit,
  one item a stream, plus answers of fixed size, which are bounded as well;
* a peer that breaks the rules receives the code once, and everything that it sends afterwards is ignored;
* time is passed in as ``now`` (seconds of a monotonic clock); ``next_deadline`` says when to call ``tick``.
"""

from __future__ import annotations

__all__ = ["Connection", "Stream", "refusal_bytes"]

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from periplus.context.wire.error_codes import ERRORS, ErrorCode, ProtocolError, WireError, message_of
from periplus.context.wire.events import Closed, Event, Ponged
from periplus.context.wire.flow_control import Bucket, Window
from periplus.context.wire.frames import COUNTED, FRAMES, HEADER_BYTES, PREFACE, FrameType, Header, read_header
from periplus.context.wire.limits import Limits, Policy
from periplus.context.wire.object_parts import Assembler
from periplus.context.wire.payload_codec import Codec
from periplus.context.wire.payloads import Credit, ErrorReport, Ping, Pong

_GRANT_REFILL: Final = 2.0


class Outgoing(NamedTuple):
    """A frame to be sent as soon as there is credit for it."""

    kind: FrameType
    payload: bytes
    is_last: bool


class Stream:
    """One side's state of a stream: its credit and what waits for it, the window for the peer, and partly received
    items.
    """

    __slots__ = ("assembler", "body", "head", "incoming", "is_cancelled", "joined", "joined_cost", "number", "offered", "opener",
                 "outgoing", "pending")  # fmt: skip

    def __init__(self, number: int, opener: FrameType, body: Any) -> None:
        self.number = number
        self.opener = opener
        self.body = body
        self.outgoing: Window | None = None
        self.incoming: Window | None = None
        self.pending: Iterator[Outgoing] | None = None
        self.head: Outgoing | None = None
        self.assembler: Assembler | None = None
        self.joined: list[Any] = []
        self.joined_cost = 0
        self.offered: set[bytes] | None = None
        self.is_cancelled = False


class Connection:
    """The common half of both machines; it accepts only frames of ``peer_side``."""

    peer_side: str

    def __init__(self, limits: Limits, policy: Policy, now: float) -> None:
        self.limits = limits
        self.policy = policy
        self.codec = Codec()
        self.capabilities: frozenset[str] = frozenset()
        self.is_open = False
        self.is_closed = False
        self._now = now
        self._began_at = now
        self._heard_at = now
        self._input = bytearray()
        self._output: list[bytes] = []
        self._output_bytes = 0
        self._streams: dict[int, Stream] = {}
        self._highest = 0
        self._frames = Bucket(policy.frame_rate, policy.frame_burst)
        self._has_preface = False
        self._sent_preface = False

    # Interface for a transport

    def receive(self, data: bytes | bytearray | memoryview, now: float) -> list[Event]:
        """Return the events of ``data``. They do not depend on how the bytes of a connection are split."""
        self._now = now
        if self.is_closed or not len(data):
            return []
        self._heard_at = now
        self._input += data
        events: list[Event] = []
        try:
            self._read(events)
            self._check_output()
        except ProtocolError as error:
            self._fail(error, events)
        except (
            WireError
        ) as error:  # this side cannot answer: not the fault of the peer, but the connection cannot go on
            self._close("internal", error.wrong, events)
        return events

    def receive_eof(self, now: float) -> list[Event]:
        """Handle the end of input. In the middle of a frame or of a stream it is a protocol error."""
        self._now = now
        if self.is_closed:
            return []
        is_clean = not self._input and not self.open_streams and self.is_open
        self._end()
        detail = "" if is_clean else "the connection ended in the middle of a frame or a stream"
        return [Closed("" if is_clean else "protocol", True, detail)]

    def data_to_send(self) -> bytes:
        """Return all bytes waiting to be sent, and forget them."""
        data = b"".join(self._output)
        self._output.clear()
        self._output_bytes = 0
        return data

    @property
    def buffered(self) -> int:
        """The number of bytes waiting for ``data_to_send``. A producer of chunks should wait while it is high."""
        return self._output_bytes

    @property
    def held_bytes(self) -> int:
        """The number of received bytes without an event yet: of an incomplete frame, and of partly received objects and
        chunks.
        """
        return len(self._input) + self._bytes_in_part()

    def _bytes_in_part(self) -> int:
        return sum([
            stream.joined_cost + (stream.assembler.held_bytes if stream.assembler is not None else 0)
            for stream in self._streams.values()
        ])  # fmt: skip

    def _check_parts(self) -> None:
        if self._bytes_in_part() > self.policy.assembly_bytes_max:
            raise ProtocolError("too much data is partly received")

    @property
    def open_streams(self) -> int:
        return len(self._streams)

    def ready(self, stream: int) -> bool:
        """Return whether ``stream`` is open, has nothing waiting and has credit, so that the next chunk is worth
        making.

        A frame that ends the stream needs no credit and may be sent at once, behind whatever waits.
        """
        state = self._streams.get(stream)
        return (
            state is not None
            and state.pending is None
            and (state.outgoing is None or (state.outgoing.frames > 0 and state.outgoing.bytes > 0))
        )

    def is_stream_open(self, stream: int) -> bool:
        return stream in self._streams

    def next_deadline(self) -> float | None:
        """Return the time of the next ``tick``, on the clock of ``now``; None if none is needed."""
        if self.is_closed:
            return None
        if not self.is_open:
            return self._began_at + self.policy.handshake_s
        return self._heard_at + self.limits.idle_ms / 1_000

    def tick(self, now: float) -> list[Event]:
        """Return the events that the passage of time causes."""
        self._now = now
        events: list[Event] = []
        deadline = self.next_deadline()
        if deadline is not None and now >= deadline:
            code: ErrorCode = "idle_timeout" if self.is_open else "handshake_timeout"
            self._fail(ProtocolError(message_of(code), code), events)
        return events

    def ping(self, token: bytes = b"") -> None:
        """Ask the peer for a sign of life; Ponged returns the token. Raises WireError before the handshake is done."""
        self._need_open()
        self._put(FrameType.PING, 0, Ping(token))

    def grant(self, stream: int, frames: int, size_bytes: int) -> None:
        """Give back credit on ``stream`` for items that were processed. On a stream that has ended this does nothing."""
        state = self._streams.get(stream)
        if (
            self.is_closed
            or state is None
            or state.is_cancelled
            or state.incoming is None
            or not (frames or size_bytes)
        ):
            return
        try:
            state.incoming.grant(frames, size_bytes)
        except ProtocolError as error:
            raise WireError("more was granted than the window may have") from error
        self._put(FrameType.CREDIT, stream, Credit(frames, size_bytes))

    def close(self) -> None:
        """End the connection without an ERROR; waiting bytes can still be sent."""
        self._end()

    # Receiving

    def _read(self, events: list[Event]) -> None:
        position = 0
        buffer = self._input
        try:
            if not self._has_preface:
                if not self._read_preface():
                    return
                position = len(PREFACE)
            while not self.is_closed and len(buffer) - position >= HEADER_BYTES:
                header = read_header(buffer, position)
                self._check_header(header)
                end = position + HEADER_BYTES + header.length
                if len(buffer) < end:
                    break
                payload = bytes(memoryview(buffer)[position + HEADER_BYTES : end])
                position = end
                self._on_frame(header, payload, events)
        finally:
            if position:
                del buffer[:position]

    def _check_output(self) -> None:
        if self._output_bytes > self.policy.output_bytes_max:
            raise ProtocolError("the peer sends requests and does not read the answers", "flow_control")

    def _read_preface(self) -> bool:
        got = bytes(self._input[: len(PREFACE)])
        if not PREFACE.startswith(got):
            raise ProtocolError("the peer does not speak version 2 of the protocol", "unsupported_version")
        if len(got) < len(PREFACE):
            return False
        self._has_preface = True
        return True

    def _check_header(self, header: Header) -> None:
        size_max = (
            self.limits.frame_bytes if self.is_open else min(self.policy.handshake_bytes_max, self.limits.frame_bytes)
        )
        if header.length > size_max:
            raise ProtocolError(f"a frame of {header.length} bytes, {size_max} are allowed", "frame_too_large")
        row = FRAMES[header.kind]
        if row.sender not in (self.peer_side, "both"):
            raise ProtocolError(f"{row.name} is not for this side to receive")
        if (row.place == "connection" and header.stream) or (
            not header.stream and row.place not in ("connection", "anywhere")
        ):
            raise ProtocolError(f"{row.name} on stream {header.stream}")
        is_handshake = header.kind in (FrameType.HELLO, FrameType.WELCOME)
        if is_handshake == self.is_open and header.kind != FrameType.ERROR:
            raise ProtocolError(f"{row.name} {'after' if self.is_open else 'before'} the handshake")

    def _on_frame(self, header: Header, payload: bytes, events: list[Event]) -> None:
        raise NotImplementedError

    def _value(self, header: Header, payload: bytes) -> Any:
        return self.codec.value(header.kind, self.codec.unpacked(payload, header.flags, self.limits.frame_bytes))

    def _on_shared(self, header: Header, payload: bytes, events: list[Event]) -> bool:
        """Handle PING, PONG and CREDIT, which both sides share; return whether the frame was one of them."""
        kind = header.kind
        if kind not in (FrameType.PING, FrameType.PONG, FrameType.CREDIT):
            return False
        self._take_frame()
        value = self._value(header, payload)
        if kind == FrameType.PING:
            self._put(FrameType.PONG, 0, Pong(value.token))
        elif kind == FrameType.PONG:
            events.append(Ponged(value.token))
        else:
            self._on_credit(header.stream, value, events)
        return True

    def _on_credit(self, number: int, credit: Credit, events: list[Event]) -> None:
        raise NotImplementedError

    def _take_frame(self) -> None:
        if not self._frames.take(self._now):
            raise ProtocolError("too many frames in too short a time", "rate_limited")

    def _spend_incoming(self, state: Stream, size_bytes: int) -> None:
        if state.incoming is None:
            raise ProtocolError("more was sent than the window allows", "flow_control", stream=state.number)
        state.incoming.spend(size_bytes)

    # Sending

    def _put(self, kind: FrameType, stream: int, value: msgspec.Struct) -> None:
        self._put_payload(kind, stream, self.codec.payload(value))

    def _put_payload(self, kind: FrameType, stream: int, payload: bytes) -> None:
        if not self._sent_preface:
            self._sent_preface = True
            self._put_bytes(PREFACE)
        frame = self.codec.frame(kind, stream, payload)
        self._put_bytes(frame)

    def _put_bytes(self, data: bytes) -> None:
        self._output.append(data)
        self._output_bytes += len(data)

    def _queue(self, state: Stream, frames: Iterator[Outgoing]) -> None:
        """Send ``frames`` as far as the credit goes, and the rest when credit comes. At most one item a stream waits."""
        if state.pending is not None:
            raise WireError(f"stream {state.number} still has something to send; wait until it is ready")
        state.pending = frames
        self._flush(state)

    def _flush(self, state: Stream) -> None:
        """Send what waits, as far as the credit goes. An exception of its source ends it and is raised to the caller."""
        try:
            self._flush_frames(state)
        except BaseException:  # on any failure: close the source and re-raise
            state.head = state.pending = None
            raise

    def _flush_frames(self, state: Stream) -> None:
        while state.pending is not None:
            if state.head is None:
                state.head = next(state.pending, None)
                if state.head is None:
                    state.pending = None
                    return
            kind, payload, is_last = state.head
            if len(payload) > self.limits.frame_bytes:
                raise WireError(f"a payload of {len(payload)} bytes, {self.limits.frame_bytes} were agreed")
            if kind in COUNTED:
                if state.outgoing is None or not state.outgoing.has_room(len(payload)):
                    return
                state.outgoing.spend(len(payload))
                self._frames.refill(_GRANT_REFILL)
            state.head = None
            self._put_payload(kind, state.number, payload)
            if is_last:
                state.pending = None
                self._sent_last(state)

    def _sent_last(self, state: Stream) -> None:
        """Handle that the last frame of our half of the stream was sent."""

    def _stream(self, number: int) -> Stream:
        state = self._streams.get(number)
        if state is None:
            raise WireError(f"stream {number} is not open")
        return state

    def _need_open(self) -> None:
        if self.is_closed:
            raise WireError("the connection is closed")
        if not self.is_open:
            raise WireError("the handshake is not done")

    # The end

    def _put_error(
        self, number: int, code: ErrorCode, *, field: str = "", request: int | None = None, retry_after_ms: int = 0
    ) -> None:
        row = ERRORS[code]
        about = number if request is None else request
        self._put(
            FrameType.ERROR, number, ErrorReport(code, row.message, row.is_retryable, about, field, retry_after_ms)
        )

    def _fail(self, error: ProtocolError, events: list[Event]) -> None:
        self._put_error(0, error.wire_code, request=error.stream)
        self._close(error.wire_code, error.wrong, events)

    def _close(self, code: str, detail: str, events: list[Event]) -> None:
        self._end()
        events.append(Closed(code, False, detail))

    def _end(self) -> None:
        self.is_closed = True
        self._input.clear()
        self._streams.clear()


def refusal_bytes(code: ErrorCode) -> bytes:
    """Return the bytes with which a side refuses a connection before it reads: the preface, and an ERROR in the form of
    the handshake.
    """
    codec = Codec()
    row = ERRORS[code]
    report = ErrorReport(code, row.message, row.is_retryable)
    return PREFACE + codec.frame(FrameType.ERROR, 0, codec.payload(report))
