"""Conversations that are recorded, kept as golden files, and fed to fresh machines in every split.

A conversation is a list of steps, each what the client does next; between two steps bytes go to and fro until both are silent.
"""

from __future__ import annotations

import json
import struct

from periplus.context.wire import ChunkCame, Limits, ObjectCame, ServerMachine
from periplus.context.wire import payloads as p
from wire_support import Answerer, ClientMachine, blob, digest

SMALL = Limits(frame_bytes=4_096, window_bytes=8_192, window_frames=2)


def grant_back(client, event):
    if isinstance(event, ChunkCame | ObjectCame):
        client.grant(event.stream, event.frames, event.size_bytes)


class Conversation:
    """Version 2. ``steps`` are called with the client."""

    def __init__(self, name, steps, *, encoding="msgpack", limits=SMALL, **answers):
        self.name = name
        self.steps = [lambda client: None, *steps]
        self.encoding = encoding
        self.limits = limits
        self.answers = answers
        self.capabilities = ("prove", "push", "watch")  # not zstd: its bytes are another library's promise

    def client(self):
        return ClientMachine(
            0.0, limits=self.limits, encodings=(self.encoding,), capabilities=self.capabilities, agent="golden client"
        )

    def server(self):
        return ServerMachine(0.0, agent="golden server")

    def answerer(self):
        return Answerer(**self.answers)

    def record(self):
        client, server, answerer = self.client(), self.server(), self.answerer()
        transfers, client_events, server_events = [], [], []
        for step in self.steps:
            step(client)
            transfers.append(["step", ""])
            while True:
                up, down = client.data_to_send(), server.data_to_send()
                if not up and not down:
                    break
                transfers += [[way, data.hex()] for way, data in (("up", up), ("down", down)) if data]
                for event in server.receive(up, 0.0):
                    server_events.append(event)
                    answerer(server, event)
                for event in client.receive(down, 0.0):
                    client_events.append(event)
                    grant_back(client, event)
        return transfers, client_events, server_events

    def replay_server(self, transfers, cut):
        """The events of a server that gets the recorded bytes of the client, each transfer in the pieces that ``cut`` makes of it."""
        server, answerer, events = self.server(), self.answerer(), []
        start = 0
        for way, data in transfers:
            if way != "up":
                continue
            for piece in cut(data, start):
                for event in server.receive(piece, 0.0):
                    events.append(event)
                    answerer(server, event)
                server.data_to_send()
            start += len(data)
        return events

    def replay_client(self, transfers, cut):
        client, events, steps = self.client(), [], iter(self.steps)
        start = 0
        for way, data in transfers:
            if way == "step":
                next(steps)(client)
            elif way == "up":
                client.data_to_send()
            else:
                for piece in cut(data, start):
                    for event in client.receive(piece, 0.0):
                        events.append(event)
                        grant_back(client, event)
                start += len(data)
        return events


def v1_frame(kind, sequence, form):
    payload = form if isinstance(form, bytes) else json.dumps(form, separators=(",", ":")).encode()
    return struct.pack(">BIH", kind, sequence, len(payload)) + payload


def v1_frames(data):
    """Of what a server sent: (type, sequence, form)."""
    frames, at = [], 0
    while at < len(data):
        kind, sequence, length = struct.unpack_from(">BIH", data, at)
        frames.append((kind, sequence, json.loads(data[at + 7 : at + 7 + length])))
        at += 7 + length
    return frames


class OldConversation(Conversation):
    """Version 1: ``steps`` are bytes."""

    def __init__(self, name, steps):
        super().__init__(name, [])
        self.steps = steps

    def record(self):
        server, answerer = self.server(), self.answerer()
        transfers, events = [], []
        for data in self.steps:
            transfers.append(["up", data.hex()])
            for event in server.receive(data, 0.0):
                events.append(event)
                answerer(server, event)
            transfers.append(["down", server.data_to_send().hex()])
        return transfers, [], events


def _upload(client):
    stream = client.open_upload()
    client.send_objects(stream, [blob(20), blob(21, 6_000)], is_final=True)


def end(client):
    client.fail("cancelled")


def cancel_last(client):
    client.cancel(client._highest)


V1_ATOM = {
    "content": "the old way", "type_sig": {"name": "List", "kind": "ARROW", "parameters": [{"name": "String", "kind": "STAR"}]},
    "timestamp": "2024-01-02T03:04:05.678", "source_hash": "abc", "relevance_score": 1.5,
}  # fmt: skip
V1_PUSH = {
    "base_hash": None, "delta_atoms": [V1_ATOM, {**V1_ATOM, "content": "2", "timestamp": "2024-01-02T03:04:05+02:00", "relevance_score": 0.25}],
    "delta_molecules": [{"atoms": ["a" * 16, V1_ATOM], "relations": {"next": [[0, 1]]}, "molecule_type": "Pair", "metadata": {"w": 0.5}}],
    "removed_hashes": ["b" * 16], "compression_metadata": {"ratio": 0.75, "n": 3},
}  # fmt: skip
CONVERSATIONS = [
    Conversation("requests", [
        lambda c: c.request(p.RefsRequest(prefix="m")),
        lambda c: c.request(p.RefsRequest(update=p.RefUpdate("main", digest(1), digest(2)))),
        lambda c: (c.request(p.ExpandRequest(digest("c"))), c.request(p.QueryRequest(digest("c"), "auth", p.Filter("List[String]", 5))), c.ping(b"1")),
        lambda c: c.request(p.Prove("inclusion", digest("c"), digest("a"))),
        lambda c: c.request(p.PushContext(digest("new"), "main", digest("main"), expected_any=False)),
        lambda c: c.request(p.Watch("m")),
        cancel_last,
    ]),
    Conversation("stream", [lambda c: c.request(p.StreamRequest(digest("c"), atoms=3, prove=True)), cancel_last], chunks=4),
    Conversation("stream_json", [lambda c: c.request(p.StreamRequest(digest("c"), resume=1))], encoding="json", chunks=3),
    Conversation("objects", [
        lambda c: c.request(p.Have(wanted=(digest("head"),), known=(digest("old"),))),
        lambda c: c.request(p.ObjectsGet((blob(1)[0], blob(7, 5_000)[0]))),
        lambda c: c.request(p.ObjectsGet((digest("nowhere"),))),
        lambda c: c.request(p.Have(offered=(blob(20)[0], blob(21, 6_000)[0]))),
        _upload,
        end,
    ], objects=dict([blob(1), blob(7, 5_000)])),
    OldConversation("v1", [
        v1_frame(1, 7, {"context": "a" * 16, "relevance_threshold": 0.0}),
        v1_frame(1, 8, {"context": "e" * 16}),
        v1_frame(1, 9, {"context": "0" * 16}) + v1_frame(2, 10, {"context": "f" * 16}),
        v1_frame(2, 11, {"context": "a" * 16, "relevance_threshold": 0.5}),
        v1_frame(3, 12, {"type": "List[String]", "text": "auth", "min_relevance": 0.5, "max_age_seconds": 60, "limit": 2}),
        v1_frame(4, 13, V1_PUSH),
        v1_frame(4, 14, {"delta_atoms": [{"content": 5}]}) + v1_frame(2, 15, b"{nonsense") + v1_frame(3, 16, {"min_relevance": "much"}),
        v1_frame(9, 17, {}),
    ]),
]  # fmt: skip
