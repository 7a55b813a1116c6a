"""What may happen to a context server and its clients: readers that do not read, floods, half connections, kills."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import time

import pytest

from context_certificates import make_certificate
from context_server_support import PATIENCE_S, RawClient, ServerProcess, atoms, fill
from periplus.base.errors import EnvironmentFailure, NotFoundError, PeriplusError
from periplus.context.model import DEFAULT_LIMITS, Context
from periplus.context.remotes.address import Trust
from periplus.context.remotes.local_peer import LocalPeer
from periplus.context.remotes.remote_store import RemoteStore
from periplus.context.remotes.transfer import transfer
from periplus.context.stores.disk_store import DiskStore
from periplus.context.streams.chunk_proof import ChunkVerifier
from periplus.context.wire import ChunkCame, Closed, Failed
from periplus.context.wire.error_codes import RemoteError
from periplus.context.wire.payloads import RefsRequest, StreamRequest

MIB = 1 << 20
READERS = 100


def is_served(server, head, live):
    """Whether somebody else gets all of a stream meanwhile."""
    remote = server.client()
    count = sum(len(chunk.entries) for chunk in remote.stream(head))
    remote.close()
    return count == live


def wait_until_alone(server):
    """Until nobody is connected but whoever asks: what a client closes, the server sees closed in its own time."""
    until_s = time.monotonic() + PATIENCE_S
    while server.stats()["connections"]["open"] > 1:
        assert time.monotonic() < until_s


# Readers that do not read


def has_chunk(events):
    return any(isinstance(event, ChunkCame) for event in events)


@pytest.mark.slow
def test_a_hundred_slow_readers_cost_one_window_each(tmp_path):
    head = fill(tmp_path / "served", 8_000, 0, size=600)
    with ServerProcess(tmp_path / "served") as server:
        assert is_served(server, head, 8_000)
        whole = server.stats()["chunks"]
        readers = [RawClient(server.address).shake_hands() for _ in range(READERS)]
        before = server.memory_bytes()
        for reader in readers:
            reader.machine.request(StreamRequest(head))
            reader.send()
        for reader in readers:  # each gets something, and reads no more than that
            reader.read_until(has_chunk)
        assert is_served(server, head, 8_000)
        held = server.memory_bytes() - before
        document = server.stats()
        assert document["requests"]["open"] == READERS
        assert document["chunks"] <= 2 * whole + 16 * READERS
        assert held < READERS * MIB
        # they go on, slowly: what they hold does not grow
        for _ in range(3):
            for reader in readers:
                came = [event for event in reader.events if isinstance(event, ChunkCame)]
                for event in came:
                    reader.machine.grant(event.stream, event.frames, event.size_bytes)
                reader.events.clear()
                reader.read_until(has_chunk)
        assert is_served(server, head, 8_000)
        assert server.memory_bytes() - before < READERS * MIB
        for reader in readers:
            reader.close()
        wait_until_alone(server)
        document = server.stats()
        assert document["requests"]["open"] == 0
        assert document["errors"] == {}
        server.stop()
        assert server.errors == ""


@pytest.mark.slow
def test_readers_that_died_without_a_word_cost_nothing_after_the_timeout(tmp_path):
    head = fill(tmp_path / "served", 8_000, 0, size=600)
    with ServerProcess(tmp_path / "served", wire={"idle_ms": 5_000}) as server:
        readers = [RawClient(server.address) for _ in range(20)]
        for reader in readers:
            reader.shake_hands()
            reader.machine.request(StreamRequest(head))
            reader.read_until(has_chunk)
        for reader in readers:
            assert any(isinstance(event, Closed) for event in reader.read_to_the_end())
            reader.close()
        wait_until_alone(server)
        document = server.stats()
        assert document["requests"]["open"] == 0
        assert document["errors"] == {"idle_timeout": len(readers)}
        assert is_served(server, head, 8_000)
        server.stop()
        assert server.errors == ""


@pytest.mark.slow
def test_a_flood_is_answered_with_refusals_and_starves_nobody(tmp_path):
    head = fill(tmp_path / "served", 3_000, 0, size=200)
    policy = {"request_burst": 100}
    with ServerProcess(tmp_path / "served", policy=policy, wire={"request_rate": 50}) as server:
        flood = RawClient(server.address).shake_hands()
        before = server.memory_bytes()
        sent = 0
        flood.socket.settimeout(2)
        try:
            for _ in range(400):  # it never reads, until the server reads no more of it either
                for _ in range(60):
                    number = flood.machine.request(RefsRequest())
                    flood.machine._streams.pop(number)  # nor does it wait for an answer
                    sent += 1
                flood.send()
        except TimeoutError:
            pass
        assert is_served(server, head, 3_000)
        assert server.memory_bytes() - before < 32 * MIB
        document = server.stats()
        assert document["requests"]["by_type"]["RefsRequest"] < 2_000 < sent
        flood.close()
        assert is_served(server, head, 3_000)
        server.stop()
        assert server.errors == ""


def test_more_streams_than_agreed_are_refused_one_by_one(tmp_path):
    head = fill(tmp_path / "served", 3_000, 0)
    with ServerProcess(tmp_path / "served", wire={"streams": 4}) as server:
        client = RawClient(server.address).shake_hands()
        client.machine.limits = client.machine.limits.__class__(streams=64)
        for _ in range(6):
            client.machine.request(StreamRequest(head, credit_frames=1))
        events = client.read_until(lambda events: sum(isinstance(event, Failed) for event in events) == 2)
        assert [event.code for event in events if isinstance(event, Failed)] == ["too_many_streams"] * 2
        client.close()
        server.stop()


# Half connections


BEGINNINGS = [
    b"",
    b"PERI",
    b"PERIPLUS/2\n",
    b"PERIPLUS/2\n" + struct.pack(">IBBI", 500, 0, 0, 0) + b'{"ver',
    b"\x02\x00",
]


@pytest.mark.slow
@pytest.mark.parametrize("beginning", BEGINNINGS, ids=["nothing", "preface", "no hello", "half a hello", "half of v1"])
def test_a_handshake_that_never_ends_is_ended(tmp_path, beginning):
    head = fill(tmp_path / "served", 10, 0)
    limits = {"connections": 6}
    with ServerProcess(tmp_path / "served", limits=limits, policy={"handshake_s": 4.0}) as server:
        held = []
        for _ in range(5):
            held.append(RawClient(server.address))
            held[-1].socket.sendall(beginning)
        assert is_served(server, head, 10)
        for one in held:
            one.socket.settimeout(PATIENCE_S)
            while one.socket.recv(4_096):
                pass  # up to its end, which the server makes
            one.close()
        wait_until_alone(server)
        assert is_served(server, head, 10)
        server.stop()
        assert server.errors == ""


@pytest.mark.slow
def test_a_handshake_of_tls_that_never_ends_is_ended(tmp_path):
    files = make_certificate(tmp_path)
    head = fill(tmp_path / "served", 10, 0)
    endpoints = [
        {"certificate_file": files.certificate, "key_file": files.key},
        {"path": str(tmp_path / "served" / "contexts.sock")},
    ]
    with ServerProcess(tmp_path / "served", *endpoints, policy={"handshake_s": 4.0}) as server:
        held = [socket.create_connection((server.address.host, server.address.port)) for _ in range(5)]
        held[0].sendall(b"PERIPLUS/2\n")
        near = RemoteStore(server.addresses[1])
        assert near.refs() == {"main": head}
        for one in held:
            one.settimeout(PATIENCE_S)
            while one.recv(4_096):
                pass
            one.close()
        near.refs()
        near.close()
        wait_until_alone(server)
        assert server.stats()["connections"]["refused"] == {"tls": 5}
        server.stop()
        assert server.errors == ""


def test_more_connections_than_allowed_are_refused_and_room_comes_again(tmp_path):
    head = fill(tmp_path / "served", 10, 0)
    with ServerProcess(tmp_path / "served", limits={"connections": 3}) as server:
        held = [RawClient(server.address).shake_hands() for _ in range(3)]
        late = server.client()
        with pytest.raises((EnvironmentFailure, RemoteError)):  # told so, or closed before it could be read
            late.refs()
        late.close()
        for one in held:
            one.close()
        remote = server.client()
        until_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                assert remote.refs() == {"main": head}
                break
            except (EnvironmentFailure, RemoteError):
                assert time.monotonic() < until_s
        assert server.stats()["connections"]["refused"]["connections"] >= 1
        remote.close()
        server.stop()


def test_a_connection_in_its_handshake_counts_as_one(tmp_path):
    files = make_certificate(tmp_path)
    head = fill(tmp_path / "served", 10, 0)
    endpoint = {"certificate_file": files.certificate, "key_file": files.key}
    with ServerProcess(tmp_path / "served", endpoint, limits={"connections": 4}) as server:
        held = [socket.create_connection((server.address.host, server.address.port)) for _ in range(2)]
        clients = [server.client(trust=Trust(files.authority)) for _ in range(2)]
        for client in clients:
            assert client.refs() == {"main": head}
        for one in (*clients, *held):
            one.close()
        server.stop()
        assert server.errors == ""


@pytest.mark.parametrize("is_open", [False, True])
def test_a_frame_that_is_too_large_costs_nothing(tmp_path, is_open):
    fill(tmp_path / "served", 10, 0)
    with ServerProcess(tmp_path / "served") as server:
        client = RawClient(server.address)
        if is_open:
            client.shake_hands()
        else:
            client.socket.sendall(b"PERIPLUS/2\n")
        before = server.memory_bytes()
        client.socket.sendall(struct.pack(">IBBI", 0xFFFFFFF0, 0x07 if is_open else 0, 0, 1 if is_open else 0))
        data = b""
        while piece := client.socket.recv(4_096):
            data += piece
        assert b"frame_too_large" in data
        assert server.memory_bytes() - before < 4 * MIB
        client.close()
        assert server.stop()["errors"] == {"frame_too_large": 1}


def test_noise_is_no_reason_to_end(tmp_path):
    head = fill(tmp_path / "served", 10, 0)
    with ServerProcess(tmp_path / "served") as server:
        for noise in (b"GET / HTTP/1.1\r\n\r\n", bytes(5_000), b"\xff" * 5_000, b"PERIPLUS/3\n", b"STATS"):
            client = RawClient(server.address)
            client.socket.sendall(noise)
            client.socket.shutdown(socket.SHUT_WR)
            client.read_to_the_end()
            client.close()
        assert is_served(server, head, 10)
        server.stop()
        assert server.errors == ""


# The end of a server


@pytest.mark.slow
def test_when_a_server_stops_streams_finish_within_the_grace(tmp_path):
    head = fill(tmp_path / "served", 8_000, 0, size=600)
    with ServerProcess(tmp_path / "served", limits={"grace_s": 50.0}) as server:
        remote = server.client()
        chunks = remote.stream(head)
        got = [next(chunks)]
        other = RawClient(server.address).shake_hands()
        server.process.send_signal(signal.SIGTERM)
        other.read_to_the_end()  # who has nothing open is let go
        assert any(type(event).__name__ == "ShuttingDown" for event in other.events)
        other.close()
        with pytest.raises(EnvironmentFailure):
            RemoteStore(server.address).refs()
        got += chunks
        assert sum(len(chunk.entries) for chunk in got) == 8_000
        assert server.process.wait(PATIENCE_S) == 0
        assert not os.path.exists(server.address.path)
        remote.close()


def test_streams_that_do_not_finish_are_told(tmp_path):
    head = fill(tmp_path / "served", 8_000, 0, size=600)
    with ServerProcess(tmp_path / "served", limits={"grace_s": 0.2}) as server:
        client = RawClient(server.address).shake_hands()
        client.machine.request(StreamRequest(head))
        client.read_until(lambda events: any(isinstance(event, ChunkCame) for event in events))
        server.process.send_signal(signal.SIGTERM)
        events = client.read_to_the_end()
        failed = [event for event in events if isinstance(event, Failed)]
        assert [(event.code, event.is_retryable) for event in failed] == [("shutting_down", True)]
        assert server.process.wait(PATIENCE_S) == 0
        client.close()


# Kills


@pytest.mark.slow
def test_a_server_that_is_killed_in_mid_stream_is_gone_on_from_by_another(tmp_path):
    head = fill(tmp_path / "served", 6_000, 3, size=600)
    verifier = ChunkVerifier(head)
    chunks = []
    with ServerProcess(tmp_path / "served") as server:
        remote = server.client()
        stream = remote.stream(head, prove=True)
        for chunk in stream:
            verifier.feed(chunk)
            chunks.append(chunk)
            if len(chunks) == 5:
                server.kill()
                break

        def read_on():
            for chunk in stream:
                verifier.feed(chunk)
                chunks.append(chunk)

        with pytest.raises(EnvironmentFailure) as caught:
            read_on()
        assert "repeat" in caught.value.mend
        assert not chunks[-1].is_final
    with ServerProcess(tmp_path / "served") as server:  # on the socket that the dead one left
        rest = remote.stream(head, resume=verifier.next_chunk, prove=True)
        for chunk in rest:
            verifier.feed(chunk)
            chunks.append(chunk)
        verifier.finish(rest.end)
        assert sum(len(chunk.entries) for chunk in chunks) == remote.header(head).live
        remote.close()


def sound_objects(folder):
    """How many objects are there; each is what its name says."""
    objects = DiskStore(str(folder)).source.store
    digests = list(objects.digests())
    assert all(objects.check(digest) is None for digest in digests)
    return len(digests)


class KillingPeer(LocalPeer):
    """Has somebody killed after so many objects were read from it."""

    def __init__(self, library, after, kill):
        super().__init__(library)
        self.left, self.kill = after, kill

    def objects(self, digests):
        for pair in super().objects(digests):
            self.left -= 1
            if self.left == 0:
                self.kill()
            yield pair


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 12, 24])
def test_of_a_push_that_a_killed_server_had_half_nothing_is_seen(tmp_path, after):
    head = fill(tmp_path / "local", 6_000, 0, size=600)
    old = fill(tmp_path / "served", 10, 0)
    local = DiskStore(str(tmp_path / "local"))
    with ServerProcess(tmp_path / "served") as server:
        remote = server.client()
        with pytest.raises(EnvironmentFailure):
            transfer(KillingPeer(local, after, server.kill), remote, head)
    store = DiskStore(str(tmp_path / "served"))
    assert store.refs() == {"main": old}
    assert not store.has(head)
    with pytest.raises(NotFoundError):
        store.set_ref("other", head)
    kept = sound_objects(tmp_path / "served")
    with ServerProcess(tmp_path / "served") as server:
        done = transfer(LocalPeer(local), remote, head)
        assert done.sent <= done.listed - (kept - 1)
        remote.set_ref("other", head, expected=None)
        remote.close()
    assert store.refs() == {"main": old, "other": head}
    assert store.expand(head) == local.expand(head)
    store.close()
    local.close()


CLIENT = textwrap.dedent("""
    import os, signal, sys
    from periplus.context.remotes.address import parse_address
    from periplus.context.remotes.local_peer import LocalPeer
    from periplus.context.stores.disk_store import DiskStore
    from periplus.context.remotes.transfer import transfer
    from periplus.context.remotes.remote_store import RemoteStore

    class Peer(LocalPeer):
        def objects(self, digests):
            for number, pair in enumerate(super().objects(digests)):
                if number == 14:
                    os.kill(os.getpid(), signal.SIGKILL)
                yield pair

    transfer(Peer(DiskStore(sys.argv[1])), RemoteStore(parse_address(sys.argv[2])), bytes.fromhex(sys.argv[3]))
""")


@pytest.mark.slow
def test_of_a_push_that_a_killed_client_left_half_nothing_is_seen(tmp_path):
    head = fill(tmp_path / "local", 6_000, 0, size=600)
    old = fill(tmp_path / "served", 10, 0)
    with ServerProcess(tmp_path / "served") as server:
        argv = [sys.executable, "-c", CLIENT, str(tmp_path / "local"), str(server.address), head.hex()]
        assert subprocess.run(argv, timeout=PATIENCE_S).returncode == -signal.SIGKILL
        remote = server.client()
        assert remote.refs() == {"main": old}
        assert not remote.has(head)
        with pytest.raises(NotFoundError):
            remote.set_ref("other", head)
        with pytest.raises(PeriplusError):
            remote.adopt(head)
        local = DiskStore(str(tmp_path / "local"))
        done = transfer(LocalPeer(local), remote, head)
        assert 0 < done.sent <= done.listed
        remote.set_ref("other", head)
        assert remote.refs() == {"main": old, "other": head}
        remote.close()
        local.close()
        server.stop()
        assert server.errors == ""


def test_a_context_whose_base_is_not_there_or_that_lies_is_not_taken_in(tmp_path):
    """All of it is checked before a ref can move to it: what it says of itself as well."""
    from periplus.context.records import record

    store = DiskStore(str(tmp_path / "local"))
    base = store.commit(Context(atoms=atoms(5)))
    child = store.commit(Context(base, atoms(1, first=9)))
    store.close()
    lie = record.encode(Context(None, atoms(3)), depth=0, live=77)
    fill(tmp_path / "served", 10, 0)
    with ServerProcess(tmp_path / "served") as server:
        remote = server.client()
        only = DiskStore(str(tmp_path / "local"))
        remote.keep([(child, only.source.get(child))])
        for digest in (child, lie.digest):
            with pytest.raises(NotFoundError):
                remote.adopt(digest)
        remote.keep(list(lie.objects))
        with pytest.raises(PeriplusError, match="live"):
            remote.adopt(lie.digest)
        with pytest.raises(PeriplusError):
            remote.set_ref("other", lie.digest)
        assert list(remote.refs()) == ["main"]
        remote.close()
        only.close()
        server.stop()


@pytest.mark.slow
def test_equal_questions_get_equal_chunks_near_and_far(tmp_path):
    head = fill(tmp_path / "served", 3_000, 4)
    near = DiskStore(str(tmp_path / "served"))
    with ServerProcess(tmp_path / "served") as server:
        far = server.client()
        for limits in (
            DEFAULT_LIMITS,
            DEFAULT_LIMITS._replace(atoms=1_000, tokens=100_000),
            DEFAULT_LIMITS._replace(tokens=50),
        ):
            ours, theirs = near.stream(head, limits=limits, resume=2), far.stream(head, limits=limits, resume=2)
            assert list(ours) == list(theirs)
            assert ours.end == theirs.end
        far.close()
    near.close()
