"""Version 1 peers on a socket: served by short hashes, with the forms that they know."""

from __future__ import annotations

import json
import socket
import struct

import pytest

from context_server_support import ServerThread, atoms
from periplus.context.model import Atom, Context
from periplus.context.stores.disk_store import DiskStore
from periplus.context.v1_names import atom_alias, context_alias, context_alias_of
from periplus.server.listeners import Endpoint

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


def streamed(peer, form):
    """The chunks that answer a STREAM."""
    peer.ask(STREAM, form)
    chunks = []
    while (answer := peer.answer())[0] == 0x82:
        chunks.append(answer[1])
    assert answer == (0x83, {"status": "complete"})
    return chunks


def contents(form):
    return [atom["content"] for atom in form["atoms"]]


def files_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "cache" not in path.parts}


def test_a_delta_is_expanded_over_its_base_and_not_kept(peer, folder):
    _, ack = peer.asks(PUSH, push_of([Atom("one"), Atom("two"), Atom("three")]))
    root = ack["hash"]
    before = files_of(folder)
    delta = push_of(
        [], root, delta_atoms=[form_of(Atom("two"), relevance_score=1.0), form_of(Atom("low"), relevance_score=0.1)],
        removed_hashes=[atom_alias(Atom("one")), "f" * 16],
    )  # fmt: skip
    kind, form = peer.asks(EXPAND, {"context": delta, "relevance_threshold": 0.2})
    child = context_alias(root, map(atom_alias, (Atom("two"), Atom("low"))))
    assert kind == 0x81
    assert contents(form) == ["two", "three"]
    assert form["expansion_path"] == [root, child]
    assert form["type_summary"] == {"String": 2}
    assert form["total_tokens"] == 2
    chunks = streamed(peer, {"context": delta})
    assert [contents(chunk) for chunk in chunks] == [["two", "three", "low"]]
    assert peer.asks(EXPAND, {"context": child})[0] == 0xFF
    assert files_of(folder) == before


@pytest.mark.parametrize("base_size", [0, 37])
def test_a_delta_comes_as_it_would_if_it_had_been_pushed(peer, folder, base_size):
    base = None
    if base_size:
        _, ack = peer.asks(PUSH, push_of(atoms(base_size)))
        base = ack["hash"]
    given = [form_of(atom, relevance_score=place % 7 / 7) for place, atom in enumerate(atoms(23, first=30))]
    own = Atom("only in a molecule")
    molecules = [{"atoms": [form_of(own), atom_alias(atoms(1, first=30)[0])], "relations": {"r": [[0, 1]]}}]
    removed = [atom_alias(atom) for atom in atoms(5)] if base else []
    delta = push_of([], base, delta_atoms=given, delta_molecules=molecules, removed_hashes=removed)
    told, chunks = peer.asks(EXPAND, {"context": delta}), streamed(peer, {"context": delta, "relevance_threshold": 0.3})
    _, ack = peer.asks(PUSH, delta)
    assert told == peer.asks(EXPAND, {"context": ack["hash"]})
    assert told[0] == 0x81
    assert chunks == streamed(peer, {"context": ack["hash"], "relevance_threshold": 0.3})
    assert {len(chunk["atoms"]) for chunk in chunks[:-1]} == {10}
    relevance = [atom["relevance"] for chunk in chunks for atom in chunk["atoms"]]
    assert relevance == sorted(relevance, reverse=True)
    assert min(relevance) >= 0.3


def test_an_empty_delta_and_a_wrong_one_are_answered(peer, folder):
    kind, form = peer.asks(EXPAND, {"context": push_of([])})
    assert (kind, form["atoms"], form["expansion_path"]) == (0x81, [], [context_alias(None, [])])
    assert contents(streamed(peer, {"context": push_of([])})[0]) == []
    for wrong, field in [
        (push_of([], delta_atoms=[{"type_sig": "String"}]), "context.delta_atoms[0].content"),
        (push_of([], removed_hashes=["x"]), "context.removed_hashes[0]"),
        (push_of([], base="x"), "context.base_hash"),
        ([], "context"),
    ]:
        for kind in (EXPAND, STREAM):
            assert peer.asks(kind, {"context": wrong}) == (
                0xFF, {"error": f"The request is not of the form of version 1: {field}."},
            )  # fmt: skip
    assert peer.asks(EXPAND, {"context": push_of([Atom("x")], "0" * 16)})[0] == 0xFF
    assert "atoms[1]" in peer.asks(STREAM, {"context": push_of([Atom("x"), Atom("x")])})[1]["error"]
    same = [Atom("24d6a28bf2f2f216"), Atom("873949c414909b65")]
    _, ack = peer.asks(PUSH, push_of(same))
    kind, form = peer.asks(EXPAND, {"context": push_of([], ack["hash"], removed_hashes=[atom_alias(same[0])])})
    assert "more than one" in form["error"]
