"""Client and server through a pipe that cuts at random, against a plain model of what must have come and what may be under way."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from periplus.context.wire import (
    Acknowledged,
    Answered,
    Cancelled,
    ChunkCame,
    CreditCame,
    Ended,
    Failed,
    Limits,
    ObjectCame,
    Opened,
    Ponged,
    Requested,
    ServerMachine,
    ShuttingDown,
    UploadEnded,
)
from periplus.context.wire import payloads as p
from wire_support import ClientMachine, blob, chunk, digest

LIMITS = Limits(frame_bytes=4_096, window_frames=3, window_bytes=8_192, streams=5)
PHASES = (Phase.explicit, Phase.generate)  # a failure is worth seeing at once; shrinking one takes minutes
ROUNDS = 400 if os.environ.get("PERIPLUS_EXHAUSTIVE") else 40


class Sent:
    """What the model knows of a stream."""

    def __init__(self, kind):
        self.kind = kind
        self.sent = []  # by the server (or by the client, for an upload), in order
        self.came = []
        self.unused = []  # what came and was not granted again: (frames, bytes)
        self.is_cancelled = False
        self.is_over = False
        self.ends_with = None


class Wire(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.client = ClientMachine(0.0, limits=LIMITS)
        self.server = ServerMachine(0.0)
        self.up, self.down = bytearray(), bytearray()
        self.streams = {}
        self.pings = []
        self.is_stopping = False
        self.collect()
        self.carry_all()
        assert self.client.is_open

    # The pipe

    def collect(self):
        self.up += self.client.data_to_send()
        self.down += self.server.data_to_send()

    def carry_all(self):
        self.collect()
        while self.up or self.down:
            self.carry("up", len(self.up))
            self.carry("down", len(self.down))
            self.collect()

    def carry(self, way, count):
        pipe = self.up if way == "up" else self.down
        data = bytes(pipe[:count])
        del pipe[:count]
        if way == "up":
            for event in self.server.receive(data, 0.0):
                self.on_server(event)
        else:
            for event in self.client.receive(data, 0.0):
                self.on_client(event)
        self.collect()

    def on_server(self, event):
        match event:
            case Requested(stream, body):
                kept = self.streams[stream]
                if not self.server.is_stream_open(stream):  # cancelled with the same bytes
                    assert kept.is_cancelled
                elif isinstance(body, p.RefsRequest):
                    self.server.send_refs(stream, [("main", digest(stream))])
                elif isinstance(body, p.ObjectsGet):
                    kept.sent = [blob(number, size) for number, size in kept.wanted]
                    self.server.send_objects(stream, iter(kept.sent))
            case ObjectCame(stream, name, data, frames, size_bytes):
                self.streams[stream].came.append((name, data))
                self.server.grant(stream, frames, size_bytes)
            case UploadEnded(stream):
                kept = self.streams[stream]
                assert kept.came == kept.sent
                if self.server.is_stream_open(stream):
                    self.server.send_ack(stream, objects=len(kept.came))
            case Cancelled(stream):
                assert self.streams[stream].is_cancelled
            case CreditCame() | Opened() | Ponged():
                pass
            case _:
                raise AssertionError(event)

    def on_client(self, event):
        match event:
            case ChunkCame(stream, one, frames, size_bytes):
                kept = self.streams[stream]
                assert not kept.is_cancelled
                kept.came.append(one)
                kept.unused.append((frames, size_bytes))
                assert kept.came == kept.sent[: len(kept.came)]
            case ObjectCame(stream, name, data, frames, size_bytes):
                kept = self.streams[stream]
                kept.came.append((name, data))
                kept.unused.append((frames, size_bytes))
                assert kept.came == kept.sent[: len(kept.came)]
            case Ended(stream, _):
                kept = self.streams[stream]
                assert kept.came == kept.sent
                self.over(stream)
            case Answered(stream, body):
                assert body.refs == (p.RefRow("main", digest(stream)),)
                self.over(stream)
            case Acknowledged(stream, ack):
                assert ack.objects == len(self.streams[stream].sent)
                self.over(stream)
            case Failed(stream, code):
                kept = self.streams[stream]
                assert code == ("cancelled" if kept.is_cancelled else kept.ends_with)
                self.over(stream)
            case Ponged(token):
                assert token == self.pings.pop(0)
            case ShuttingDown():
                assert self.is_stopping
            case Opened() | CreditCame():
                pass
            case _:
                raise AssertionError(event)

    def over(self, stream):
        assert not self.streams[stream].is_over
        self.streams[stream].is_over = True

    def can_ask(self):
        return self.client.open_streams < self.client.limits.streams and not self.client.is_refusing

    def some(self, data, kind):
        found = [number for number, kept in self.streams.items() if kept.kind == kind and not kept.is_over]
        return data.draw(st.sampled_from(found)) if found else None

    # What the two sides do

    @precondition(lambda self: self.up or self.down)
    @rule(data=st.data())
    def carry_some(self, data):
        way = data.draw(st.sampled_from([way for way in ("up", "down") if getattr(self, way)]))
        self.carry(way, data.draw(st.integers(1, len(getattr(self, way)))))

    @precondition(can_ask)
    @rule(frames=st.integers(0, 3))
    def ask_for_a_stream(self, frames):
        self.open(p.StreamRequest(digest("c"), credit_frames=frames), "chunks")

    @precondition(can_ask)
    @rule()
    def ask_for_refs(self):
        self.open(p.RefsRequest(), "refs")

    @precondition(can_ask)
    @rule(sizes=st.lists(st.sampled_from([0, 1, 300, 4_000, 9_000]), min_size=1, max_size=5))
    def ask_for_objects(self, sizes):
        wanted = list(dict.fromkeys((number, size) for number, size in enumerate(sizes)))
        self.open(p.ObjectsGet(tuple(blob(*one)[0] for one in wanted)), "objects").wanted = wanted

    @precondition(can_ask)
    @rule(sizes=st.lists(st.sampled_from([0, 1, 300, 4_000, 9_000]), max_size=5))
    def upload(self, sizes):
        kept = Sent("upload")
        kept.sent = [blob(number, size) for number, size in enumerate(sizes)]
        number = self.client.open_upload()
        self.streams[number] = kept
        if self.is_stopping:
            kept.ends_with = "shutting_down"
        self.client.send_objects(number, iter(kept.sent), is_final=True)
        self.collect()

    def open(self, body, kind):
        number = self.client.request(body)
        assert number == max(self.streams, default=0) + 1
        kept = self.streams[number] = Sent(kind)
        if self.is_stopping:
            kept.ends_with = "shutting_down"
        self.collect()
        return kept

    @rule(
        data=st.data(),
        atoms=st.integers(0, 8),
        size=st.sampled_from([20, 1_500]),
        proof=st.sampled_from([0, 10, 9_000]),
    )
    def send_a_chunk(self, data, atoms, size, proof):
        ready = [number for number, kept in self.streams.items() if kept.kind == "chunks" and self.server.ready(number)]
        if ready:
            number = data.draw(st.sampled_from(ready))
            one = chunk(len(self.streams[number].sent), atoms, size=size, proof=b"p" * proof)
            self.streams[number].sent.append(one)
            self.server.send_chunk(number, one)
            self.collect()

    @rule(data=st.data())
    def end_a_stream(self, data):
        number = self.some(data, "chunks")
        if number is not None and self.server.is_stream_open(number) and self.streams[number].ends_with is None:
            self.streams[number].ends_with = "end"
            self.server.send_end(number, p.StreamEnd(len(self.streams[number].sent)))
            self.collect()

    @rule(data=st.data())
    def fail_a_stream(self, data):
        number = self.some(data, "chunks")
        if number is not None and self.server.is_stream_open(number) and self.streams[number].ends_with is None:
            self.streams[number].ends_with = "busy"
            self.server.send_error(number, "busy")
            self.collect()

    @rule(data=st.data(), kind=st.sampled_from(["chunks", "objects"]))
    def grant_again(self, data, kind):
        number = self.some(data, kind)
        if number is not None and self.streams[number].unused:
            self.client.grant(number, *self.streams[number].unused.pop())
            self.collect()

    @rule(data=st.data(), kind=st.sampled_from(["chunks", "objects", "upload", "refs"]))
    def cancel(self, data, kind):
        number = self.some(data, kind)
        if number is not None:
            self.client.cancel(number)
            self.streams[number].is_cancelled = True
            self.collect()

    @rule(token=st.binary(max_size=8))
    def ping(self, token):
        self.pings.append(token)
        self.client.ping(token)
        self.collect()

    @precondition(lambda self: len(self.streams) > 6 and not self.is_stopping)
    @rule()
    def shut_down(self):
        self.is_stopping = True
        for number, kept in self.streams.items():  # requests that are on their way will be told
            if (
                not kept.is_over
                and kept.ends_with is None
                and not self.server.is_stream_open(number)
                and number > self.server._highest
            ):
                kept.ends_with = "shutting_down"
        self.server.shut_down()
        self.collect()

    # What always holds

    @invariant()
    def nothing_is_broken(self):
        assert not self.client.is_closed
        assert not self.server.is_closed

    @invariant()
    def memory_is_bounded(self):
        assert self.client.open_streams <= 5
        assert self.server.open_streams <= 5
        assert len(self.down) < 5 * (8_192 + 3 * 64) + 20_000
        for number, kept in self.streams.items():
            under_way = len(kept.came) - len(kept.unused)
            assert under_way >= 0, number

    @invariant()
    def no_window_is_overdrawn(self):
        for machine in (self.client, self.server):
            for stream in machine._streams.values():
                for window in (stream.incoming, stream.outgoing):
                    if window is not None:
                        assert 0 <= window.frames <= 3
                        assert 0 <= window.bytes <= 8_192

    def teardown(self):
        """When all is used up and carried, every stream ends, and both sides know of none."""
        for _ in range(2_000):
            self.carry_all()
            for number, kept in self.streams.items():
                while kept.unused and not kept.is_over:
                    self.client.grant(number, *kept.unused.pop())
                if kept.kind == "chunks" and kept.ends_with is None and self.server.is_stream_open(number):
                    kept.ends_with = "end"
                    self.server.send_end(number, p.StreamEnd())
            self.collect()
            if not self.up and not self.down and all(kept.is_over for kept in self.streams.values()):
                break
        assert all(kept.is_over for kept in self.streams.values()), {
            n: vars(k) for n, k in self.streams.items() if not k.is_over
        }
        assert self.client.open_streams == self.server.open_streams == 0
        assert self.pings == []
        assert not self.is_stopping or self.server.is_drained


TestWire = Wire.TestCase
TestWire.settings = settings(
    max_examples=ROUNDS, stateful_step_count=40, phases=PHASES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=not os.environ.get("PERIPLUS_EXHAUSTIVE"),
)  # fmt: skip
