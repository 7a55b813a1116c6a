"""Version 1 peers on a socket: served by short hashes, with the forms that they know."""

from __future__ import annotations

import json
import socket
import struct

import pytest

from context_server_support import ServerThread, atoms
from periplus.context.alias import atom_alias, context_alias, context_alias_of
from periplus.context.disk import DiskStore
from periplus.context.model import Atom, Context
from periplus.server.listening import Endpoint

pytestmark = pytest.mark.quick

EXPAND, STREAM, QUERY, PUSH = 1, 2, 3, 4


class OldPeer:
    """Speaks version 1 on a socket of its own."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(60)
        self._socket.connect(path)
        self._file = self._socket.makefile("rb")
        self._sequence = 0

    def ask(self, kind, form):
        self._sequence += 1
        payload = json.dumps(form).encode()
        self._socket.sendall(struct.pack(">BIH", kind, self._sequence, len(payload)) + payload)

    def answer(self):
        kind, sequence, length = struct.unpack(">BIH", self._file.read(7))
        assert sequence == self._sequence
        return kind, json.loads(self._file.read(length))

    def asks(self, kind, form):
        self.ask(kind, form)
        return self.answer()

    def close(self):
        self._file.close()
        self._socket.close()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "served"


@pytest.fixture
def peer(folder):
    folder.mkdir()
    server = ServerThread(lambda: DiskStore(str(folder)), Endpoint(path=str(folder / "contexts.sock")))
    peer = OldPeer(server.address.path)
    yield peer
    peer.close()
    server.stop()
    assert server.errors == []


def form_of(atom, **more):
    return {
        "content": atom.content,
        "type_sig": {"name": atom.type, "kind": "STAR", "parameters": [], "constraints": []},
        "timestamp": "2024-05-01T10:00:00+00:00",
        "source_hash": "",
        "relevance_score": 0.5,
    } | more


def push_of(given, base=None, **more):
    return {
        "base_hash": base,
        "delta_atoms": [form_of(atom) for atom in given],
        "delta_molecules": [],
        "removed_hashes": [],
        "compression_metadata": {},
    } | more


def test_what_an_old_peer_pushes_it_finds_by_the_old_hash(peer, folder):
    given = [Atom("b first"), Atom("a second"), Atom("c third")]
    kind, ack = peer.asks(PUSH, push_of(given))
    root = context_alias(None, map(atom_alias, given))
    assert (kind, ack) == (0x85, {"hash": root})
    more = [Atom("d fourth")]
    kind, ack = peer.asks(PUSH, push_of(more, root, removed_hashes=[atom_alias(given[1])]))
    child = context_alias(root, map(atom_alias, more))
    assert ack == {"hash": child}
    kind, form = peer.asks(EXPAND, {"context": child, "relevance_threshold": 0.0})
    assert kind == 0x81
    assert {atom["content"] for atom in form["atoms"]} == {"b first", "c third", "d fourth"}
    assert form["expansion_path"] == [root, child]
    store = DiskStore(str(folder))
    assert sorted(name.rpartition("/")[0] for name in store.refs()) == sorted([f"v1/{root}", f"v1/{child}"])
    store.close()


def test_contexts_of_others_have_old_hashes_too(peer, folder):
    store = DiskStore(str(folder))
    root = store.commit(Context(atoms=atoms(25)))
    head = store.commit(Context(root, atoms(1, first=50)))
    store.set_ref("main", head)
    alias = context_alias_of(store.context(head), context_alias_of(store.context(root), None))
    peer.ask(STREAM, {"context": alias})
    chunks = []
    while (answer := peer.answer())[0] == 0x82:
        chunks.append(answer[1])
    assert answer == (0x83, {"status": "complete"})
    assert [len(chunk["atoms"]) for chunk in chunks] == [10, 10, 6]
    assert [chunk["is_final"] for chunk in chunks] == [False, False, True]
    assert [atom["content"] for chunk in chunks for atom in chunk["atoms"]] == [
        entry.atom.content for entry in store.expand(head).entries
    ]
    kind, found = peer.asks(QUERY, {"text": "atom 50", "limit": 3})
    assert kind == 0x84
    assert found["atoms"][0]["content"].strip() == "atom 50"
    store.close()


def test_an_old_hash_of_two_contexts_is_refused(peer):
    """Deltas that differ in their removals only had one hash in version 1."""
    given = [Atom("one"), Atom("two")]
    _, ack = peer.asks(PUSH, push_of(given))
    root = ack["hash"]
    hashes = {peer.asks(PUSH, push_of([], root, removed_hashes=[atom_alias(atom)]))[1]["hash"] for atom in given}
    assert len(hashes) == 1
    kind, form = peer.asks(EXPAND, {"context": hashes.pop()})
    assert kind == 0xFF
    assert "more than one" in form["error"]


def test_what_is_not_there_or_too_large_is_told(peer, folder):
    assert peer.asks(EXPAND, {"context": "0" * 16})[0] == 0xFF
    assert peer.asks(PUSH, push_of([Atom("x")], "0" * 16))[0] == 0xFF
    kind, form = peer.asks(PUSH, push_of([Atom("x")], removed_hashes=["1" * 16]))
    assert kind == 0xFF
    store = DiskStore(str(folder))
    head = store.commit(Context(atoms=atoms(300, 500)))
    store.set_ref("main", head)
    kind, form = peer.asks(EXPAND, {"context": context_alias_of(store.context(head), None)})
    assert kind == 0xFF
    assert "ask for a stream" in form["error"]
    assert list(store.refs()) == ["main"]
    store.close()


def test_colliding_short_hashes_stay_two_atoms(peer, folder):
    given = [Atom("24d6a28bf2f2f216"), Atom("873949c414909b65")]
    assert atom_alias(given[0]) == atom_alias(given[1])
    _, ack = peer.asks(PUSH, push_of(given))
    kind, form = peer.asks(EXPAND, {"context": ack["hash"]})
    assert len(form["atoms"]) == 2
    kind, form = peer.asks(PUSH, push_of([], ack["hash"], removed_hashes=[atom_alias(given[0])]))
    assert kind == 0xFF
    assert "more than one" in form["error"]


def test_where_a_token_is_needed_no_old_peer_is_served(tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    endpoint = Endpoint(path=str(folder / "contexts.sock"), token="correct horse battery")
    server = ServerThread(lambda: DiskStore(str(folder)), endpoint)
    peer = OldPeer(server.address.path)
    assert peer._socket.send(struct.pack(">BIH", EXPAND, 0, 2) + b"{}") > 0
    kind, form = peer.answer()
    assert kind == 0xFF
    assert "token" in form["error"]
    assert peer._file.read() == b""
    peer.close()
    assert server.stop()["errors"] == {"unauthorized": 1}


def test_what_an_old_peer_pushes_is_checked_as_any_other(peer, folder):
    kind, form = peer.asks(PUSH, push_of([Atom("x"), Atom("x")]))
    assert kind == 0xFF
    assert "atoms[1]" in form["error"]
    store = DiskStore(str(folder))
    assert store.refs() == {}
    store.close()
