"""The machines of the wire protocol, talking to each other: every request, every answer, flow control, limits, the end."""

from __future__ import annotations

import pytest

from periplus.context.model import BrokenMolecule, Expansion, Molecule
from periplus.context.wire import (
    Acknowledged,
    Answered,
    Cancelled,
    ChunkCame,
    ClientMachine,
    Closed,
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
    WireError,
    token_authority,
)
from periplus.context.wire import payloads as p
from wire_support import Answerer, Pipe, blob, chunk, digest, expansion, opened

pytestmark = pytest.mark.quick

SMALL = Limits(frame_bytes=4_096, window_bytes=8_192, window_frames=2)


def ask(pipe, body, answerer=None):
    stream = pipe.client.request(body)
    pipe.pump(answerer or Answerer())
    return stream


@pytest.mark.parametrize("encoding", ["msgpack", "json"])
def test_the_handshake_agrees_on_the_least_of_both(encoding):
    pipe = Pipe(
        ClientMachine(0.0, limits=Limits(streams=3, frame_bytes=65_536), encodings=(encoding,), agent="a client"),
        ServerMachine(0.0, limits=Limits(streams=9, window_frames=5), capabilities=("prove",), agent="a server"),
    )
    pipe.pump()
    limits = Limits(streams=3, frame_bytes=65_536, window_frames=5)
    assert pipe.client_events == [Opened(2, ("prove",), limits, "a server")]
    assert pipe.server_events == [Opened(2, ("prove",), limits, "a client")]


def test_a_token_opens_and_anything_else_does_not():
    for token, is_right in (("secret", True), ("secre", False), ("", False), ("secret ", False), ("\ud800", False)):
        try:
            client = ClientMachine(0.0, token=token)
        except WireError:
            continue
        pipe = Pipe(client, ServerMachine(0.0, authority=token_authority("other", "secret")))
        pipe.pump()
        assert pipe.client.is_open is is_right
        if not is_right:
            assert pipe.client_events == [Closed("unauthorized", True, "the server ended the connection")]
            assert pipe.server_events[-1].code == "unauthorized"
            assert b"secre" not in pipe.to_client


@pytest.mark.parametrize("encoding", ["msgpack", "json"])
def test_every_request_has_its_answer(encoding):
    pipe = opened(client={"encodings": (encoding,)})
    context = digest("context")
    whole = expansion(context)
    stream = ask(pipe, p.ExpandRequest(context))
    answer = pipe.client_events.pop()
    assert isinstance(answer, Answered)
    assert answer.stream == stream
    assert answer.is_last
    assert p.expansion_of(context, answer.body) == whole
    for body, kind in (
        (p.QueryRequest(context, "text"), p.QueryResponse),
        (p.Prove("inclusion", context, digest("atom")), p.Proof),
        (p.RefsRequest(), p.RefsResponse),
        (p.Have(offered=(digest(1),)), p.Want),
        (p.Have(wanted=(digest(1),)), p.Want),
        (p.Watch(), p.Changed),
    ):
        stream = ask(pipe, body)
        answer = pipe.client_events.pop()
        assert (type(answer.body), answer.stream) == (kind, stream)
        assert answer.is_last is (kind is not p.Changed)
    ask(pipe, p.PushContext(context, "main"))
    assert pipe.client_events.pop().ack == p.Ack(context)
    assert pipe.client_events == []
    assert pipe.client.open_streams == pipe.server.open_streams == 1  # the one that watches


def test_a_stream_gives_the_chunks_that_were_sent():
    pipe = opened(limits=SMALL)
    answerer = Answerer(chunks=7)
    stream = pipe.client.request(p.StreamRequest(digest("c"), resume=2))
    came = []
    while True:
        pipe.pump(answerer)
        assert len(pipe.client_events) <= 3  # two frames of credit, and the end
        if not pipe.client_events:
            break
        for event in pipe.client_events:
            came.append(event)
            if isinstance(event, ChunkCame):
                pipe.client.grant(stream, event.frames, event.size_bytes)
        pipe.client_events.clear()
    assert [event.chunk for event in came[:-1]] == [chunk(n, final=n == 6, proof=b"proof") for n in range(2, 7)]
    assert came[-1] == Ended(stream, p.StreamEnd(7, 21, 21, b"head"))
    assert pipe.client.open_streams == pipe.server.open_streams == 0


def test_a_chunk_and_a_proof_larger_than_a_frame_travel_in_parts():
    pipe = opened(limits=SMALL)
    stream = pipe.client.request(p.StreamRequest(digest("c")))
    big = chunk(0, 9, size=1_500, final=True, proof=bytes(range(256)) * 40)

    def answer(server, event):
        if isinstance(event, Requested):
            server.send_chunk(stream, big)
            assert not server.ready(stream)
            server.send_end(stream, p.StreamEnd(1))

    pipe.pump(answer)
    came, end = pipe.client_events
    assert (came.chunk, end) == (big, Ended(stream, p.StreamEnd(1)))


def test_objects_travel_both_ways_whole_and_in_parts():
    pipe = opened(limits=SMALL)
    objects = dict(blob(number, size) for number, size in enumerate((0, 1, 100, 3_900, 4_096, 50_000, 7)))
    answerer = Answerer(objects=objects)
    stream = pipe.client.request(p.ObjectsGet(tuple(objects)))
    came = {}
    while pipe.client.is_stream_open(stream):
        pipe.pump(answerer)
        for event in pipe.client_events:
            if isinstance(event, ObjectCame):
                came[event.digest] = event.data
                pipe.client.grant(stream, event.frames, event.size_bytes)
        pipe.client_events.clear()
    assert came == objects
    stream = pipe.client.open_upload()
    pipe.client.send_objects(stream, objects.items(), is_final=True)
    pipe.pump(answerer)
    assert answerer.kept == objects
    assert pipe.client_events[-1] == Acknowledged(stream, p.Ack(None, len(objects)))
    assert UploadEnded(stream) in pipe.server_events


def test_cancel_frees_the_stream_on_both_sides():
    pipe = opened(limits=SMALL)
    answerer = Answerer(chunks=100)
    stream = ask(pipe, p.StreamRequest(digest("c")), answerer)
    assert len(pipe.client_events) == 2
    pipe.client.cancel(stream)
    pipe.client.cancel(stream)
    pipe.client_events.clear()
    pipe.pump(answerer)
    assert pipe.client_events == [Failed(stream, "cancelled", "", True, 0)]
    assert Cancelled(stream) in pipe.server_events
    assert pipe.client.open_streams == pipe.server.open_streams == 0
    pipe.client.grant(stream, 1, 1)
    assert pipe.client.data_to_send() == b""


def test_shutting_down_lets_streams_finish_and_refuses_new_ones():
    pipe = opened(limits=SMALL)
    answerer = Answerer(chunks=4)
    stream = ask(pipe, p.StreamRequest(digest("c")), answerer)
    pipe.server.shut_down()
    late = pipe.client.request(p.RefsRequest())
    pipe.pump(answerer)
    assert ShuttingDown() in pipe.client_events
    assert Failed(late, "shutting_down", "", True, 0) in pipe.client_events
    with pytest.raises(WireError, match="shutting down"):
        pipe.client.request(p.RefsRequest())
    assert not pipe.server.is_drained
    for event in pipe.client_events:
        if isinstance(event, ChunkCame):
            pipe.client.grant(stream, event.frames, event.size_bytes)
    pipe.pump(answerer)
    assert pipe.client_events[-1] == Ended(stream, p.StreamEnd(4, 12, 12, b"head"))
    assert pipe.server.is_drained


def test_streams_that_cannot_finish_are_told():
    pipe = opened(limits=SMALL)
    stream = ask(pipe, p.StreamRequest(digest("c")), Answerer(chunks=100))
    pipe.server.shut_down()
    assert pipe.server.abort_streams() == [stream]
    pipe.pump()
    assert pipe.client_events[-1] == Failed(stream, "shutting_down", "", True, 0)


def test_ping_brings_its_token_back():
    pipe = opened()
    pipe.client.ping(b"one")
    pipe.server.ping(b"two")
    pipe.pump()
    assert (pipe.client_events, pipe.server_events) == ([Ponged(b"one")], [Ponged(b"two")])


@pytest.mark.parametrize("encoding", ["msgpack", "json"])
def test_an_expansion_that_fits_no_frame_comes_in_chunks_with_its_molecules(encoding):
    pipe = opened(limits=SMALL, client={"encodings": (encoding,)})
    context = digest("c")
    molecules = tuple(
        Molecule((digest(n), digest(n + 1)), {"of": ((0, 1),)}, "Pair", {"text": "m" * 300, "n": n}) for n in range(40)
    )
    entries = tuple(entry for number in range(20) for entry in chunk(number).entries)
    whole = Expansion(context, entries, molecules, (BrokenMolecule(digest("broken"), (digest("lost"),)),))
    work = []

    def answer(server, event):
        if isinstance(event, Requested):
            assert not server.send_expansion(event.stream, whole)
            work.extend(lambda n=n: server.send_chunk(event.stream, chunk(n)) for n in range(20))
            work.append(lambda: server.send_molecules(event.stream, 20, whole))
        while work and server.ready(event.stream):
            work.pop(0)()
            if not work:
                server.send_end(event.stream, p.StreamEnd(21, 60, 60, b""))

    stream = pipe.client.request(p.ExpandRequest(context))
    came, parts = [], []
    while pipe.client.is_stream_open(stream):
        pipe.pump(answer)
        assert pipe.client_events
        for event in pipe.client_events:
            if isinstance(event, ChunkCame):
                came += event.chunk.entries
                parts.append(p.expansion_of(context, p.ExpandResponse(molecules=event.molecules, broken=event.broken)))
                pipe.client.grant(stream, event.frames, event.size_bytes)
        pipe.client_events.clear()
    assert tuple(came) == entries
    assert parts[-1] == Expansion(context, (), molecules, whole.broken)
    assert all(part.molecules == () for part in parts[:-1])
