"""Two machines and the wire between them, without any I/O; a server that answers from a small table; recorded conversations."""

from __future__ import annotations

from hashlib import sha256

from periplus.context.model import Atom, Chunk, Entry, Expansion, Molecule, atom_digest
from periplus.context.wire import (
    CreditCame,
    ObjectCame,
    Requested,
    ServerMachine,
    UploadEnded,
    V1Requested,
    client_machine,
)
from periplus.context.wire import payloads as p
from periplus.context.wire.v1_payloads import V1Expand, V1Query, V1Stream

ClientMachine = client_machine.ClientMachine


def digest(name):
    return sha256(str(name).encode()).digest()


ORIGINS = (digest("origin one"), digest("origin two"))


def entry(number, size=20, origin=0):
    text = f"atom {number} "
    atom = Atom(
        text + "x" * max(0, size - len(text)),
        "String",
        1_700_000_000_000 + number,
        900_000 - number,
        f"source {number}",
        ("t",),
    )
    return Entry(atom_digest(atom), atom, ORIGINS[origin])


def chunk(number, atoms=3, *, size=20, final=False, proof=b""):
    entries = tuple(entry(number * atoms + place, size, place % 2) for place in range(atoms))
    return Chunk(number, number * atoms, entries, (number + 1) * atoms, 1_000_000 if final else 500_000, final, proof)


def blob(number, size=100):
    data = (f"object {number} ".encode() * (size // 9 + 1))[:size]
    return sha256(data).digest(), data


def expansion(context, atoms=4):
    entries = tuple(entry(place, 20, place % 2) for place in range(atoms))
    molecule = Molecule(
        (entries[0].digest, entries[1].digest), {"after": ((0, 1),)}, "Molecule", {"why": "known", "count": 2}
    )
    return Expansion(context, entries, (molecule,), ())


class Pipe:
    """A client and a server with nothing between them but bytes. What either is told is in ``client_events``, ``server_events``."""

    def __init__(self, client=None, server=None, *, now=0.0):
        self.now = now
        self.client = client or ClientMachine(now)
        self.server = server or ServerMachine(now)
        self.client_events, self.server_events = [], []
        self.to_server, self.to_client = bytearray(), bytearray()

    def pump(self, answer=None):
        """Carry bytes until both are silent; ``answer(server, event)`` is called for each event of the server."""
        while True:
            up, down = self.client.data_to_send(), self.server.data_to_send()
            if not up and not down:
                return
            self.to_server += up
            self.to_client += down
            for event in self.server.receive(up, self.now):
                self.server_events.append(event)
                if answer is not None:
                    answer(self.server, event)
            self.client_events += self.client.receive(down, self.now)


def opened(**options):
    """A pipe whose handshake is done and whose events are forgotten."""
    client_options = options.pop("client", {})
    pipe = Pipe(ClientMachine(0.0, **client_options), ServerMachine(0.0, **options))
    pipe.pump()
    assert pipe.client.is_open
    assert pipe.server.is_open
    pipe.client_events.clear()
    pipe.server_events.clear()
    return pipe


class Answerer:
    """A server that answers everything there is, with more chunks and objects than a window holds."""

    def __init__(self, *, chunks=5, proof=b"proof", objects=None):
        self.chunks = chunks
        self.proof = proof
        self.objects = objects if objects is not None else dict(blob(number) for number in range(6))
        self.streaming = {}
        self.kept = {}

    def __call__(self, server, event):
        match event:
            case Requested(stream, body):
                self.on_request(server, stream, body)
            case CreditCame(stream):
                self.go_on(server, stream)
            case ObjectCame(stream, name, data, frames, size_bytes):
                self.kept[name] = data
                server.grant(stream, frames, size_bytes)
            case UploadEnded(stream):
                server.send_ack(stream, objects=len(self.kept))
            case V1Requested(stream, body):
                self.on_v1_request(server, stream, body)

    def on_v1_request(self, server, stream, body):
        context = getattr(body, "context", "")
        if context == "0" * 16:
            server.send_error(stream, "ambiguous", field="context")
        elif context == "f" * 16:
            server.send_error(stream, "not_found", field="context")
        elif isinstance(body, V1Expand):
            size = 70_000 if context == "e" * 16 else 20
            whole = expansion(digest("v1"), 4)
            whole = whole._replace(entries=(*whole.entries, entry(9, size)))
            server.send_expansion(stream, whole, path=("1" * 16, context))
        elif isinstance(body, V1Stream):
            for number in range(3):
                server.send_chunk(stream, chunk(number, 8, final=number == 2))
            server.send_end(stream, p.StreamEnd(3, 24, 24))
        elif isinstance(body, V1Query):
            server.send_query(stream, [entry(1), entry(2)], total=7)
        else:
            server.send_ack(stream)

    def on_request(self, server, stream, body):
        match body:
            case p.ExpandRequest():
                assert server.send_expansion(stream, expansion(body.context))
            case p.StreamRequest():
                self.streaming[stream] = body.resume
                self.go_on(server, stream)
            case p.QueryRequest():
                assert server.send_query(stream, [entry(1), entry(2)], scores=(3, 2), total=9, tokens=5, page_next=2)
            case p.PushContext():
                server.send_ack(stream, digest=body.digest)
            case p.Have():
                wanted = [name for name in body.offered if name not in self.kept] or list(self.objects)
                server.send_want(stream, wanted)
            case p.ObjectsGet():
                if all(name in self.objects for name in body.digests):
                    server.send_objects(stream, ((name, self.objects[name]) for name in body.digests))
                else:
                    server.send_error(stream, "not_found", field="digests")
            case p.Prove():
                server.send_proof(
                    stream, p.Proof("inclusion", 3, 8, 0, digest("root"), b"", (digest(1), digest(2)), b"leaf")
                )
            case p.RefsRequest():
                server.send_refs(stream, [("main", digest("main")), ("other", digest("other"))])
            case p.Watch():
                server.send_changed(stream, [("main", digest("new"))], ["other"])

    def go_on(self, server, stream):
        while stream in self.streaming and server.is_stream_open(stream) and server.ready(stream):
            number = self.streaming[stream]
            self.streaming[stream] += 1
            server.send_chunk(stream, chunk(number, final=number == self.chunks - 1, proof=self.proof))
            if number == self.chunks - 1:  # the end costs no credit and goes behind what waits
                del self.streaming[stream]
                server.send_end(stream, p.StreamEnd(self.chunks, self.chunks * 3, self.chunks * 3, b"head"))
