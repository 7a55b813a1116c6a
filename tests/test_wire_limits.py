"""What hostile and broken peers get: an ERROR of the table, nothing allocated, others' streams as they were."""

from __future__ import annotations

import tracemalloc
from hashlib import sha256

import msgspec
import pytest

from periplus.base.errors import DamageError, NotFoundError
from periplus.context.wire import (
    ERRORS,
    Cancelled,
    ChunkCame,
    Closed,
    Failed,
    Limits,
    Policy,
    RemoteError,
    Requested,
    ServerMachine,
    WireError,
    code_of,
    error_of,
)
from periplus.context.wire import payloads as p
from periplus.context.wire.frames import HEADER_BYTES, PREFACE, FrameType, frame_header, read_header
from periplus.context.wire.payload_codec import Codec
from wire_support import Answerer, ClientMachine, Pipe, blob, chunk, digest, opened

pytestmark = pytest.mark.quick

SMALL = Limits(frame_bytes=4_096, window_bytes=8_192, window_frames=2)
pack = msgspec.msgpack.encode


def frame(kind, stream, value, *, flags=0):
    payload = value if isinstance(value, bytes) else pack(value)
    return frame_header(len(payload), kind, flags, stream) + payload


def frames_of(data):
    found, at = [], len(PREFACE) if data.startswith(PREFACE) else 0
    while at < len(data):
        header = read_header(data, at)
        found.append(
            (FrameType(header.kind), header.stream, data[at + HEADER_BYTES : at + HEADER_BYTES + header.length])
        )
        at += HEADER_BYTES + header.length
    return found


def told(machine):
    """The (stream, code) of each ERROR that waits to be sent."""
    return [
        (stream, msgspec.msgpack.decode(payload)["code"])
        for kind, stream, payload in frames_of(machine.data_to_send())
        if kind == FrameType.ERROR
    ]


def server(**options):
    return opened(**options).server


def ended(machine, data, code, now=0.0):
    events = machine.receive(data, now)
    assert [type(event) for event in events[-1:]] == [Closed], events
    assert (events[-1].code, events[-1].by_peer) == (code, False), events[-1]
    assert machine.is_closed
    assert machine.receive(data, now) == []
    return events


# The handshake


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n", b"PERIPLUS/3\n", b"PERIPLUS/2\r\n", b"\x00", b"\xff" * 50, b"\x16\x03\x01"]
)
def test_what_is_not_the_protocol_is_told_so(garbage):
    machine = ServerMachine(0.0)
    ended(machine, garbage, "unsupported_version")
    answer = machine.data_to_send()
    assert answer.startswith(PREFACE)
    assert b'"unsupported_version"' in answer
    client = ClientMachine(0.0)
    assert client.receive(garbage, 0.0)[-1].code == "unsupported_version"


def test_a_handshake_that_never_ends():
    for sent in (b"", PREFACE[:5], PREFACE, PREFACE + frame_header(500, 0, 0, 0) + b"{"):
        machine = ServerMachine(100.0)
        assert machine.receive(sent, 105.0) == []
        assert machine.next_deadline() == 110.0  # trickling bytes do not move it
        assert machine.tick(109.9) == []
        assert machine.tick(110.0)[0].code == "handshake_timeout"
        assert machine.is_closed
        assert machine.next_deadline() is None


def test_a_handshake_is_bounded_before_it_is_read():
    machine = ServerMachine(0.0)
    ended(machine, PREFACE + frame_header(16_385, 0, 0, 0), "frame_too_large")
    for first in (FrameType.PING, FrameType.REFS, FrameType.CREDIT):
        machine = ServerMachine(0.0)
        ended(machine, PREFACE + frame_header(0, first, 0, 0 if first == FrameType.PING else 1), "protocol")


def test_hello_is_checked():
    for wrong in (b"{}", b'{"versions":[]}', b'{"versions":[1,3]}', b'{"encodings":["cbor"]}', b'{"limits":{"frame_bytes":1}}',
                  b'{"unknown":1}', b"[]", b'{"token":5}', b"[" * 9_000):  # fmt: skip
        machine = ServerMachine(0.0)
        events = machine.receive(PREFACE + frame(FrameType.HELLO, 0, wrong), 0.0)
        if wrong == b"{}":  # all by default
            assert machine.is_open
            assert machine.limits == Limits()
        else:
            assert events[-1].code in {"protocol", "unsupported_version"}
    again = server()
    ended(again, frame(FrameType.HELLO, 0, b"{}"), "protocol")


def test_a_server_that_agrees_to_what_was_not_offered():
    for wrong in (
        p.Welcome(3),
        p.Welcome(encoding="json"),
        p.Welcome(capabilities=("zstd",)),
        p.Welcome(limits=Limits(streams=65)),
    ):
        client = ClientMachine(0.0, encodings=("msgpack",), capabilities=())
        ended(client, PREFACE + frame(FrameType.WELCOME, 0, msgspec.json.encode(wrong)), "protocol")


def test_version_1_is_refused_where_a_token_is_needed():
    machine = ServerMachine(0.0, authority=lambda token: True)
    ended(machine, b"\x01", "unauthorized")
    assert machine.data_to_send()[0] == 0xFF
    ended(ServerMachine(0.0, serve_v1=False), b"\x02", "unsupported_version")


# Frames


def test_a_frame_too_large_is_refused_by_its_header():
    ended(server(limits=SMALL), frame_header(4_097, FrameType.REFS, 0, 1), "frame_too_large")
    ended(server(), frame_header(2**32 - 1, FrameType.PING, 0, 0), "frame_too_large")


@pytest.mark.parametrize(("header", "what"), [
    ((0, 0x0D, 0, 1), "unknown type"), ((0, 0x42, 0, 0), "unknown type"), ((0, FrameType.PING, 2, 0), "unknown flags"),
    ((0, FrameType.PING, 0x80, 0), "unknown flags"), ((0, FrameType.STREAM_CHUNK, 0, 1), "not for this side"),
    ((0, FrameType.PING, 0, 1), "on stream 1"), ((0, FrameType.REFS, 0, 0), "on stream 0"), ((0, FrameType.CANCEL, 0, 0), "on stream 0"),
    ((0, FrameType.CREDIT, 0, 9), "CREDIT"), ((0, FrameType.CANCEL, 0, 9), "is impossible"),
])  # fmt: skip
def test_headers_that_cannot_be(header, what):
    machine = server()
    events = machine.receive(frame_header(*header), 0.0)
    assert events[-1].code == "protocol"
    assert what in events[-1].detail


def test_payloads_that_cannot_be():
    whole = msgspec.to_builtins(p.RefsRequest(), builtin_types=(bytes,))
    digests = {"digests": [b"x" * 31], "credit_frames": 0, "credit_bytes": 0}
    for kind, value in (
        (FrameType.REFS, {**whole, "more": 1}),
        (FrameType.REFS, {name: whole[name] for name in reversed(whole)}),
        (FrameType.REFS, {name: value for name, value in whole.items() if name != "limit"}),
        (FrameType.REFS, {**whole, "limit": 0}),
        (FrameType.REFS, {**whole, "limit": True}),
        (FrameType.REFS, b"\xdb\xff\xff\xff\xff"),
        (FrameType.REFS, b""),
        (FrameType.REFS, pack(whole) + b"\x00"),
        (FrameType.OBJECTS, {"kind": "get", **digests}),
        (FrameType.OBJECTS, {"kind": "take", **digests}),
        (FrameType.OBJECTS, b"\x91" * 4_000),
    ):
        ended(server(), frame(kind, 1, value), "protocol")


def test_atoms_that_cannot_be():
    """By a server: numbers out of range, one field too many, too many atoms, types ten thousand deep, origins of nobody."""
    good = ["content", "String", 0, 500_000, "", []]
    rows = {"context": digest("c")}
    base = {"chunk_id": 0, "start": 0, "atoms": [good], "origins": [digest(1)], "origin_of": [], "cumulative_tokens": 0,
            "progress_millionths": 0, "is_final": False, "proof": b"", "more": False, "molecules": [], "broken": [], "over": []}  # fmt: skip
    deep = "List[" * 10_000 + "Int" + "]" * 10_000
    for change in (
        {"atoms": [[*good[:3], 1_000_001, "", []]]}, {"atoms": [[*good[:3], -1, "", []]]}, {"atoms": [[*good, 1]]},
        {"atoms": [["c", "String", 1 << 62, 5, "", []]]}, {"atoms": [good[:5]]}, {"atoms": [["c", deep, 0, 5, "", []]]},
        {"atoms": [["c", "String", 0, float("nan"), "", []]]}, {"atoms": [good] * 65}, {"origins": []}, {"origin_of": [0]},
        {"origins": [digest(1), digest(2)]}, {"origins": [digest(1), digest(2)], "origin_of": [2]}, {"progress_millionths": 1_000_001},
    ):  # fmt: skip
        pipe = opened(client={"limits": Limits(atoms=64)})
        stream = pipe.client.request(p.StreamRequest(rows["context"]))
        assert isinstance(pipe.client.receive(frame(FrameType.STREAM_CHUNK, stream, base), 0.0)[0], ChunkCame)
        ended(pipe.client, frame(FrameType.STREAM_CHUNK, stream, {**base, **change}), "protocol")


def test_nothing_is_allocated_because_a_number_says_so():
    tracemalloc.start()
    for payload in (b"\xdd\x7f\xff\xff\xff", b"\xc6\x7f\xff\xff\xff", b"\xdf\x7f\xff\xff\xff", b"\xdb\x7f\xff\xff\xff"):
        ended(server(), frame(FrameType.PUSH_CONTEXT, 1, payload), "protocol")
    machine = server()
    part = p.ObjectPart(digest(1), 0, 64 << 20, b"x")
    machine.receive(frame(FrameType.OBJECTS, 1, p.ObjectsPut((part,))), 0.0)
    assert machine.held_bytes == 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


def test_packed_frames_are_measured_before_they_are_unpacked():
    zstandard = pytest.importorskip("zstandard")
    good = pack(p.RefsRequest())
    packer = zstandard.ZstdCompressor()
    bomb = packer.compress(bytes(50 << 20))
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(good)
    liar = bytearray(packer.compress(bytes(200)))
    liar[5] = 100  # the size in its header
    for payload, code in (
        (bomb, "frame_too_large"), (unsized, "frame_too_large"), (bytes(liar), "protocol"), (good, "protocol"), (b"", "protocol"),
        (packer.compress(good) + b"more", "protocol"), (packer.compress(good)[:-3], "protocol"),
    ):  # fmt: skip
        ended(server(), frame(FrameType.REFS, 1, payload, flags=1), code)
    machine = server()
    assert isinstance(machine.receive(frame(FrameType.REFS, 1, packer.compress(good), flags=1), 0.0)[0], Requested)
    ended(server(capabilities=()), frame(FrameType.REFS, 1, packer.compress(good), flags=1), "protocol")
    ended(ServerMachine(0.0), PREFACE + frame(FrameType.HELLO, 0, packer.compress(b"{}"), flags=1), "protocol")


def test_packed_frames_say_the_same():
    pytest.importorskip("zstandard")
    sizes = {}
    for compress in (True, False):
        pipe = opened(compress=compress)
        stream = pipe.client.request(p.StreamRequest(digest("c")))
        big = chunk(0, 40, size=400, final=True)
        pipe.to_client.clear()
        pipe.pump(lambda server, event, big=big: server.send_chunk(event.stream, big))
        assert pipe.client_events[0].chunk == big
        assert pipe.client_events[0].stream == stream
        sizes[compress] = len(pipe.to_client)
        assert pipe.client_events[0].size_bytes == len(encoded(big))
    assert sizes[True] * 3 < sizes[False]


def encoded(one):
    codec = Codec()
    codec.agree("msgpack", unpacks=False, packs=False)
    return codec.payload(p.payload_of_chunk(one))


# Streams


def test_stream_numbers_only_rise():
    machine = server()
    refs = p.RefsRequest()
    assert machine.receive(frame(FrameType.REFS, 5, refs), 0.0) == [Requested(5, refs)]
    machine.send_refs(5, [])
    for number in (5, 4):
        again = server()
        again.receive(frame(FrameType.REFS, 5, refs), 0.0)
        again.send_refs(5, [])
        ended(again, frame(FrameType.REFS, number, refs), "protocol")
    still = server()
    still.receive(frame(FrameType.REFS, 5, refs), 0.0)
    ended(still, frame(FrameType.REFS, 5, refs), "protocol")


def test_too_many_streams_harm_no_open_one():
    machine = server(limits=Limits(streams=2))
    for number in (1, 2, 3):
        machine.receive(frame(FrameType.STREAM_REQUEST, number, p.StreamRequest(digest("c"))), 0.0)
    assert told(machine) == [(3, "too_many_streams")]
    machine.send_chunk(2, chunk(0))
    assert machine.open_streams == 2
    pipe = opened(limits=Limits(streams=1))
    pipe.client.request(p.RefsRequest())
    with pytest.raises(WireError, match="1 streams are open"):
        pipe.client.request(p.RefsRequest())


def test_late_frames_are_dropped_and_early_ones_are_not():
    machine = server()
    machine.receive(frame(FrameType.STREAM_REQUEST, 7, p.StreamRequest(digest("c"))), 0.0)
    machine.send_end(7, p.StreamEnd())
    machine.data_to_send()
    for late in (
        frame(FrameType.CREDIT, 7, p.Credit(1, 1)),
        frame(FrameType.CANCEL, 7, p.Cancel()),
        frame(FrameType.OBJECTS, 6, b"?"),
    ):
        assert machine.receive(late, 0.0) == []
        assert machine.data_to_send() == b""
    ended(machine, frame(FrameType.CANCEL, 8, p.Cancel()), "protocol")


def test_frames_after_the_end_of_a_stream_are_an_error_to_the_client():
    pipe = opened(limits=SMALL)
    stream = pipe.client.request(p.StreamRequest(digest("c")))
    pipe.pump(lambda server, event: server.send_end(event.stream, p.StreamEnd()))
    ended(pipe.client, frame(FrameType.STREAM_CHUNK, stream, p.payload_of_chunk(chunk(0))), "protocol")


def test_answers_to_another_question_are_an_error():
    for answer in (p.Ack(), p.RefsResponse(), p.QueryResponse(), p.Proof("inclusion")):
        kinds = {
            p.Ack: FrameType.ACK,
            p.RefsResponse: FrameType.REFS_RESPONSE,
            p.QueryResponse: FrameType.QUERY_RESPONSE,
            p.Proof: FrameType.PROOF,
        }
        pipe = opened()
        stream = pipe.client.request(p.StreamRequest(digest("c")))
        ended(pipe.client, frame(kinds[type(answer)], stream, answer), "protocol")
    machine = server()
    machine.receive(frame(FrameType.REFS, 1, p.RefsRequest()), 0.0)
    with pytest.raises(WireError, match="does not answer"):
        machine.send_chunk(1, chunk(0))
    with pytest.raises(WireError, match="not open"):
        machine.send_refs(2, [])


def test_cancelled_streams_drop_what_still_comes_and_end_once():
    pipe = opened(limits=SMALL)
    stream = pipe.client.request(p.StreamRequest(digest("c")))
    pipe.client.cancel(stream)
    late = frame(FrameType.STREAM_CHUNK, stream, p.payload_of_chunk(chunk(0)))
    assert pipe.client.receive(late, 0.0) == []
    assert pipe.client.receive(frame(FrameType.STREAM_END, stream, p.StreamEnd()), 0.0) == [
        Failed(stream, "cancelled", "", True, 0)
    ]
    ended(pipe.client, late, "protocol")


# Windows


def test_a_sender_that_ignores_the_window_is_found_out():
    pipe = opened(limits=SMALL)
    stream = pipe.client.request(p.StreamRequest(digest("c"), credit_frames=1))
    one = frame(FrameType.STREAM_CHUNK, stream, p.payload_of_chunk(chunk(0)))
    assert len(pipe.client.receive(one, 0.0)) == 1
    ended(pipe.client, one, "flow_control")
    machine = server(limits=SMALL)
    data = b"x" * 3_800
    parts = [p.ObjectPart(sha256(data * 9).digest(), 0, len(data) * 9, data)]
    machine.receive(frame(FrameType.OBJECTS, 1, p.ObjectsPut(tuple(parts))), 0.0)
    for place in range(
        1, 8
    ):  # the machine gives back what an unfinished object took: it holds the bytes, and they are bounded
        part = p.ObjectPart(parts[0].digest, place * len(data), len(data) * 9, data)
        assert machine.receive(frame(FrameType.OBJECTS, 1, p.ObjectsPut((part,))), 0.0) == []
    small = [
        frame(FrameType.OBJECTS, 2, p.ObjectsPut((p.ObjectPart(blob(1)[0], 0, 100, blob(1)[1]),))) for _ in range(3)
    ]
    machine.receive(small[0], 0.0)
    machine.receive(small[1], 0.0)
    ended(machine, small[2], "flow_control")


def test_a_window_cannot_be_blown_up():
    for credit in (p.Credit(2**40, 0), p.Credit(0, 2**40), p.Credit(1, 0), p.Credit(0, 1)):
        machine = server(limits=SMALL)
        machine.receive(frame(FrameType.STREAM_REQUEST, 1, p.StreamRequest(digest("c"))), 0.0)
        ended(machine, frame(FrameType.CREDIT, 1, credit), "flow_control")
    machine = server()
    machine.receive(frame(FrameType.REFS, 1, p.RefsRequest()), 0.0)
    ended(machine, frame(FrameType.CREDIT, 1, p.Credit(1, 1)), "flow_control")


@pytest.mark.parametrize(("body", "field"), [
    (p.StreamRequest(digest("c"), credit_frames=3), "credit_frames"), (p.StreamRequest(digest("c"), credit_bytes=100), "credit_bytes"),
    (p.StreamRequest(digest("c"), credit_bytes=1 << 30), "credit_bytes"), (p.StreamRequest(digest("c"), atoms=4_097), "atoms"),
    (p.QueryRequest(digest("c"), limit=4_097), "limit"), (p.Have(), "offered"), (p.Have((digest(1),), (digest(2),)), "offered"),
    (p.StreamRequest(digest("c"), filter=p.Filter("List[" * 500 + "Int" + "]" * 500)), "filter.type"),
    (p.ObjectsGet(()), "digests"), (p.PushContext(digest("c"), force=True), "ref"),
])  # fmt: skip
def test_requests_over_a_limit_are_refused_by_field(body, field):
    pipe = opened(limits=SMALL)
    stream = pipe.client.request(p.RefsRequest())
    number = stream + 1
    kind = {p.StreamRequest: FrameType.STREAM_REQUEST, p.QueryRequest: FrameType.QUERY_REQUEST, p.Have: FrameType.HAVE,
            p.ObjectsGet: FrameType.OBJECTS, p.PushContext: FrameType.PUSH_CONTEXT}[type(body)]  # fmt: skip
    assert pipe.server.receive(frame(kind, number, body), 0.0) == []
    assert not pipe.server.is_closed
    ((_, _, payload),) = [one for one in frames_of(pipe.server.data_to_send()) if one[1] == number]
    report = msgspec.msgpack.decode(payload, type=p.ErrorReport)
    assert (report.code, report.field, report.request) == ("bad_request", field, number)


def test_a_type_of_many_fields_is_wide_and_not_deep():
    machine = server(limits=SMALL)
    wide = "Record[" + ", ".join(f"f{place:03}[Int]" for place in range(100)) + "]"
    machine.receive(frame(FrameType.STREAM_REQUEST, 1, p.StreamRequest(digest("c"), filter=p.Filter(wide))), 0.0)
    assert machine.is_stream_open(1)


def test_one_item_waits_on_a_stream_and_no_more():
    pipe = opened(limits=SMALL)
    stream = pipe.client.request(p.StreamRequest(digest("c"), credit_frames=1))
    pipe.pump()
    machine = pipe.server
    machine.send_chunk(stream, chunk(0))
    machine.send_chunk(stream, chunk(1))
    assert not machine.ready(stream)
    with pytest.raises(WireError, match="wait until it is ready"):
        machine.send_chunk(stream, chunk(2))
    machine.send_end(stream, p.StreamEnd(2))
    assert machine.is_stream_open(stream)
    pipe.pump()
    first = pipe.client_events[0]
    pipe.client.grant(stream, first.frames, first.size_bytes)
    pipe.pump()
    assert [type(event).__name__ for event in pipe.client_events] == ["ChunkCame", "ChunkCame", "Ended"]


# Objects


@pytest.mark.parametrize(("parts", "detail"), [
    ([(1, 0, 100, b"y" * 100)], "does not have the digest"), ([(1, 1, 100, b"y")], "out of its place"), ([(1, 0, 5, b"y" * 6)], "out of its place"),
    ([(1, 0, 100, b"y"), (2, 0, 100, b"y")], "mixed"), ([(1, 0, 100, b"y"), (1, 1, 99, b"y")], "mixed"), ([(1, 0, 100, b"")], "empty"),
    ([(1, 0, (64 << 20) + 1, b"y")], "larger than was agreed"),
])  # fmt: skip
def test_objects_that_are_not_what_they_say(parts, detail):
    rows = tuple(p.ObjectPart(blob(number)[0], *rest) for number, *rest in parts)
    events = ended(server(), frame(FrameType.OBJECTS, 1, p.ObjectsPut(rows)), "protocol")
    assert detail in events[-1].detail
    pipe = opened()
    stream = pipe.client.request(p.ObjectsGet((blob(1)[0], blob(2)[0])))
    events = ended(pipe.client, frame(FrameType.OBJECTS_SENT, stream, p.ObjectsSent(rows)), "protocol")
    assert detail in events[-1].detail


def test_objects_that_were_not_asked_for_or_do_not_all_come():
    def part(number):
        return p.ObjectPart(blob(number)[0], 0, 100, blob(number)[1])

    for sent in (p.ObjectsSent((part(3),)), p.ObjectsSent((part(2),)), p.ObjectsSent((part(1),), is_final=True),
                 p.ObjectsSent((part(1), part(2), part(2)))):  # fmt: skip
        pipe = opened()
        stream = pipe.client.request(p.ObjectsGet((blob(1)[0], blob(2)[0])))
        ended(pipe.client, frame(FrameType.OBJECTS_SENT, stream, sent), "protocol")
    half = p.ObjectsPut((p.ObjectPart(blob(1)[0], 0, 100, b"y"),), is_final=True)
    ended(server(), frame(FrameType.OBJECTS, 1, half), "protocol")


def test_want_names_only_what_was_offered():
    for digests in ((digest(3),), (digest(1), digest(1))):
        pipe = opened()
        stream = pipe.client.request(p.Have(offered=(digest(1), digest(2))))
        ended(pipe.client, frame(FrameType.WANT, stream, p.Want(digests)), "protocol")


def test_what_came_in_part_is_bounded_over_all_streams():
    machine = server(policy=Policy(assembly_bytes_max=10_000))
    data = b"x" * 4_000
    for stream in (1, 2):
        machine.receive(
            frame(FrameType.OBJECTS, stream, p.ObjectsPut((p.ObjectPart(digest(stream), 0, 9_000, data),))), 0.0
        )
    assert machine.held_bytes == 8_000
    ended(machine, frame(FrameType.OBJECTS, 3, p.ObjectsPut((p.ObjectPart(digest(3), 0, 9_000, data),))), "protocol")


def test_a_source_that_fails_ends_its_stream_alone():
    pipe = opened(limits=SMALL)

    def objects():
        yield blob(1, 3_800)
        yield blob(2, 3_800)
        yield blob(3, 3_800)
        yield blob(4, 3_800)
        raise DamageError("object 5 is damaged at /secret/place")

    wanted = (blob(1, 3_800)[0], blob(2, 3_800)[0], blob(3, 3_800)[0], blob(4, 3_800)[0], digest(5))
    stream = pipe.client.request(p.ObjectsGet(wanted))
    other = pipe.client.request(p.StreamRequest(digest("c")))

    def answer(server, event):
        if isinstance(event, Requested) and event.stream == stream:
            server.send_objects(stream, objects())

    pipe.pump(answer)
    for event in list(pipe.client_events):
        pipe.client.grant(stream, event.frames, event.size_bytes)
    pipe.pump()
    assert pipe.client_events[-1] == Failed(stream, "damaged", "", False, 0)
    assert [event.detail for event in pipe.server_events if isinstance(event, Failed)] == [
        "object 5 is damaged at /secret/place"
    ]
    assert b"secret" not in pipe.to_client
    assert pipe.client.is_stream_open(other)


# Time and rates


@pytest.mark.parametrize(("ours", "theirs"), [(10, 1_000), (1_000, 10)])
def test_requests_are_limited_in_time_and_the_peer_is_told_when(ours, theirs):
    """The rate that was agreed, which is the lesser."""
    machine = server(
        limits=Limits(request_rate=ours), policy=Policy(request_burst=3), client={"limits": Limits(request_rate=theirs)}
    )
    for number in range(1, 6):
        machine.receive(frame(FrameType.REFS, number, p.RefsRequest()), 0.0)
        if machine.is_stream_open(number):
            machine.send_refs(number, [])
    reports = [
        msgspec.msgpack.decode(payload)
        for kind, _, payload in frames_of(machine.data_to_send())
        if kind == FrameType.ERROR
    ]
    assert [(one["code"], one["request"], one["is_retryable"]) for one in reports] == [
        ("rate_limited", 4, True),
        ("rate_limited", 5, True),
    ]
    wait = reports[0]["retry_after_ms"] / 1_000
    assert 0.09 < wait < 0.11
    assert machine.receive(frame(FrameType.REFS, 6, p.RefsRequest()), wait) == [Requested(6, p.RefsRequest())]


@pytest.mark.parametrize("flood", [
    frame(FrameType.PING, 0, p.Ping()), frame(FrameType.REFS, 1, p.RefsRequest(limit=5)), frame(FrameType.CREDIT, 1, p.Credit(0, 0)),
], ids=["ping", "refused requests", "credit"])  # fmt: skip
def test_a_flood_ends_the_connection_with_bounded_output(flood):
    machine = server(policy=Policy(request_burst=1, frame_rate=10, frame_burst=50))
    machine.receive(frame(FrameType.STREAM_REQUEST, 1, p.StreamRequest(digest("c"))), 0.0)
    events = []
    for number in range(2, 200):
        data = flood if flood[4] != FrameType.REFS else frame(FrameType.REFS, number, p.RefsRequest())
        events += machine.receive(data, 0.0)
    assert events[-1] == Closed("rate_limited", False, "too many frames in too short a time")
    assert machine.buffered < 20_000


def test_a_peer_that_does_not_read_is_sent_away():
    machine = server(policy=Policy(output_bytes_max=2_000))
    events = []
    for _ in range(200):
        events += machine.receive(frame(FrameType.PING, 0, p.Ping(b"x" * 64)), 0.0)
    assert [event.code for event in events] == ["flow_control"]
    assert machine.buffered < 3_000


def test_silence_ends_the_connection_and_signs_of_life_keep_it():
    limits = Limits(idle_ms=30_000)
    pipe = opened(limits=limits)
    assert pipe.server.next_deadline() == 30.0
    assert pipe.client.next_deadline() == 10.0
    for now in range(10, 300, 10):
        pipe.now = float(now)
        assert pipe.client.tick(pipe.now) == []
        pipe.pump()
        assert pipe.server.tick(pipe.now) == []
    assert pipe.server.tick(320.0)[0].code == "idle_timeout"
    assert pipe.client.tick(319.9) == []
    assert pipe.client.tick(320.0)[0].code == "idle_timeout"


def test_the_connection_ends_in_the_middle():
    pipe = opened()
    assert pipe.server.receive_eof(0.0) == [Closed("", True, "")]
    pipe = opened()
    pipe.client.request(p.RefsRequest())
    assert pipe.client.receive_eof(0.0)[0].code == "protocol"
    assert pipe.client.receive_eof(0.0) == []
    pipe = opened()
    pipe.server.receive(frame_header(10, FrameType.PING, 0, 0), 0.0)
    assert pipe.server.receive_eof(0.0)[0].code == "protocol"


# Errors


def test_what_a_peer_is_told_comes_from_the_table():
    assert code_of(NotFoundError("/secret")) == "not_found"
    assert code_of(ValueError("secret")) == "internal"
    pipe = opened()
    for code, row in ERRORS.items():
        if row.is_fatal:
            continue
        stream = pipe.client.request(p.RefsRequest())
        pipe.pump(lambda server, event, code=code: server.send_error(event.stream, code, field="atoms[3].type"))
        assert pipe.client_events.pop() == Failed(stream, code, "atoms[3].type", row.is_retryable, 0)
        assert isinstance(error_of(code), Exception)
    assert isinstance(error_of("something new"), RemoteError)
    assert "something new" not in str(error_of("something new"))


def test_capabilities_that_were_not_agreed():
    pipe = Pipe(ClientMachine(0.0), ServerMachine(0.0, capabilities=()))
    pipe.pump()
    for body in (p.PushContext(digest(1)), p.Prove("inclusion", digest(1)), p.Watch()):
        with pytest.raises(RemoteError, match="does not offer"):
            pipe.client.request(body)
    for number, (kind, body) in enumerate((
        (FrameType.PUSH_CONTEXT, p.PushContext(digest(1))), (FrameType.PROVE, p.Prove("inclusion", digest(1))), (FrameType.WATCH, p.Watch()),
        (FrameType.OBJECTS, p.ObjectsPut()), (FrameType.HAVE, p.Have((digest(1),))), (FrameType.REFS, p.RefsRequest(update=p.RefUpdate("m"))),
    ), 1):  # fmt: skip
        assert pipe.server.receive(frame(kind, number, body), 0.0) == []
        assert told(pipe.server)[0][1] == "unsupported"


def test_cancel_is_told_once_and_frees_everything():
    machine = server(limits=SMALL)
    for number in range(1, 200):
        machine.receive(frame(FrameType.STREAM_REQUEST, number, p.StreamRequest(digest("c"))), 0.0)
        machine.send_chunk(number, chunk(0, 9, size=300))
        assert machine.receive(frame(FrameType.CANCEL, number, p.Cancel()), 0.0) == [Cancelled(number)]
        machine.send_error(number, "internal")
        assert machine.open_streams == 0
        assert told(machine) == [(number, "cancelled")]


def test_answerer_is_whole():
    """The server of the tests answers all that the table has, so that conversations have every frame."""
    kinds = set()
    pipe = opened()
    answerer = Answerer(chunks=1)
    for body in (p.ExpandRequest(digest(1)), p.StreamRequest(digest(1)), p.QueryRequest(digest(1)), p.PushContext(digest(1)),
                 p.Have(wanted=(digest(1),)), p.ObjectsGet((blob(1)[0],)), p.Prove("inclusion"), p.RefsRequest(), p.Watch()):  # fmt: skip
        pipe.client.request(body)
    pipe.to_client.clear()
    pipe.pump(answerer)
    kinds = {kind for kind, _, _ in frames_of(bytes(pipe.to_client))}
    assert kinds == {
        FrameType.EXPAND_RESPONSE, FrameType.STREAM_CHUNK, FrameType.STREAM_END, FrameType.QUERY_RESPONSE, FrameType.ACK, FrameType.WANT,
        FrameType.OBJECTS_SENT, FrameType.PROOF, FrameType.REFS_RESPONSE, FrameType.CHANGED,
    }  # fmt: skip
