"""A context server and its clients, each in a process of its own, over the sockets that people use."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from context_certificates import make_certificate
from context_contract import ContextContract
from context_proxy import Proxy
from context_server_support import ServerProcess, ServerThread, atoms, fill
from periplus.base.errors import EnvironmentFailure, FormatError, NotFoundError, RefusedError
from periplus.context.model import Atom, Context, Molecule, annotation_record, atom_digest
from periplus.context.remotes.address import Trust
from periplus.context.remotes.async_client import ContextClient
from periplus.context.remotes.context_proof import check_consistency, check_inclusion
from periplus.context.remotes.local_peer import LocalPeer
from periplus.context.remotes.remote_store import RemoteStore
from periplus.context.remotes.transfer import clone, transfer
from periplus.context.selection.filters import Query
from periplus.context.stores.disk_store import DiskStore
from periplus.context.stores.memory_store import MemoryStore
from periplus.context.wire import RemoteError
from periplus.journal import Writer
from periplus.merkle import leaf_hash, root_of
from periplus.project import Project
from periplus.project.context_store.library import ProjectLibrary
from periplus.server.listeners import Endpoint

EXAMPLE = Path(__file__).parents[1] / "docs" / "examples" / "context_client.py"
TOKEN = "correct horse battery staple"
ADA = Writer("ada", "who_0000000000000000", "", 1)


def tls_endpoint(served, **more):
    return {"host": "127.0.0.1", "token": TOKEN, "certificate_file": served.certificate, "key_file": served.key} | more


class ServedStore(RemoteStore):
    """A remote store, with the server of the store that it is."""

    def __init__(self, folder):
        folder.mkdir()
        self.server = ServerThread(lambda: DiskStore(str(folder)), Endpoint(path=str(folder / "contexts.sock")))
        super().__init__(self.server.address)

    def close(self):
        super().close()
        document = self.server.stop()
        assert self.server.errors == []
        assert document["connections"]["open"] == document["requests"]["open"] == 0


class TestRemoteStore(ContextContract):
    """What holds for every store holds for one behind a Unix socket."""

    EXAMPLES = 15

    def make_store(self, tmp_path):
        return ServedStore(tmp_path / "served")


@pytest.fixture
def served(tmp_path):
    head = fill(tmp_path / "served")
    with ServerProcess(tmp_path / "served") as server:
        server.head = head
        yield server


def test_over_tcp_with_tls_and_a_token(tmp_path):
    files = make_certificate(tmp_path)
    head = fill(tmp_path / "served")
    with ServerProcess(tmp_path / "served", tls_endpoint(files)) as server:
        assert server.address.scheme == "tls"
        for trust in (Trust(ca_file=files.authority), Trust(fingerprint=files.fingerprint)):
            remote = server.client(token=TOKEN, trust=trust)
            assert remote.refs() == {"main": head}
            assert sum(len(chunk.entries) for chunk in remote.stream(head, prove=True)) == remote.header(head).live
            remote.close()
        server.stop()


@pytest.mark.parametrize("token", ["", "wrong horse battery staple", TOKEN[:-1]])
def test_without_the_token_nothing_is_told(tmp_path, token):
    fill(tmp_path / "served", 10)
    with ServerProcess(tmp_path / "served", {"token": TOKEN}) as server:
        remote = server.client(token=token)
        with pytest.raises(RefusedError, match="token"):
            remote.refs()
        assert server.stop()["errors"] == {"unauthorized": 1}


def test_a_replaced_certificate_is_told_and_nothing_is_sent(tmp_path):
    files, others = make_certificate(tmp_path), make_certificate(tmp_path, "other")
    fill(tmp_path / "served", 10)
    with ServerProcess(tmp_path / "served", tls_endpoint(others)) as server:
        pinned = server.client(token=TOKEN, trust=Trust(fingerprint=files.fingerprint))
        with pytest.raises(RefusedError, match="another certificate than the pinned one") as caught:
            pinned.refs()
        assert others.fingerprint.hex() in caught.value.wrong
        assert "token" in caught.value.safe
        with pytest.raises(RefusedError, match="not signed by"):
            server.client(token=TOKEN, trust=Trust(ca_file=files.authority)).refs()

        async def ask(trust):
            async with ContextClient(server.address, token=TOKEN, trust=trust):
                raise AssertionError

        for trust, told in ((Trust(fingerprint=files.fingerprint), "another"), (Trust(files.authority), "not signed")):
            with pytest.raises(RefusedError, match=told):
                asyncio.run(ask(trust))
        document = server.stop()
        assert document["bytes"]["in"] == 0
        assert document["requests"]["total"] == 0


def test_a_server_with_tls_asked_without_it_and_the_other_way_round_is_told_by_its_right_name(tmp_path):
    endpoints = ({"host": "127.0.0.1"}, tls_endpoint(make_certificate(tmp_path)))
    with ServerProcess(tmp_path / "served", *endpoints) as server:
        for address in server.addresses:
            other = address._replace(scheme={"tcp": "tls", "tls": "tcp"}[address.scheme])
            with contextlib.closing(RemoteStore(other)) as client, pytest.raises(EnvironmentFailure) as caught:
                client.refs()
            assert f"name it as {address}" in caught.value.mend


def test_a_name_that_the_certificate_does_not_have_is_refused(tmp_path):
    files = make_certificate(tmp_path, host="192.0.2.1")
    with (
        ServerProcess(tmp_path / "served", tls_endpoint(files)) as server,
        pytest.raises(RefusedError, match="not signed"),
    ):
        server.client(token=TOKEN, trust=Trust(files.authority)).refs()


def test_the_asynchronous_client_asks_the_same(served):
    async def ask():
        async with ContextClient(served.address) as client:
            refs = await client.refs()
            expansion = await client.expand(served.head)
            header, context = await client.header(served.head), await client.context(served.head)
            entries = []
            async for chunk in client.stream(served.head, prove=True):
                entries += chunk.entries
            await client.set_ref("other", served.head, expected=None)
            with pytest.raises(NotFoundError):
                await client.header(bytes(32))
            return refs, expansion, header, context, entries

    refs, expansion, header, context, entries = asyncio.run(ask())
    store = DiskStore(str(served.folder))
    assert refs == {"main": served.head}
    assert expansion == store.expand(served.head)
    assert (header, context) == (store.header(served.head), store.context(served.head))
    assert entries == list(expansion.entries)
    assert store.refs() == {"main": served.head, "other": served.head}
    store.close()


@pytest.mark.slow
def test_many_calls_at_once_on_one_connection(served):
    async def ask():
        async with ContextClient(served.address) as client:

            async def read(skip):
                count = 0
                async for chunk in client.stream(served.head, resume=skip):
                    count += len(chunk.entries)
                return count

            return await asyncio.gather(*[read(skip % 12) for skip in range(60)])  # more than streams were agreed

    counts = asyncio.run(ask())
    counts = counts[:12]
    assert counts[0] == 3_000 + 15 - 5
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) == 12


def test_who_watches_is_told_what_moves(served):
    async def ask():
        store = DiskStore(str(served.folder))
        new = store.commit(Context(served.head, atoms(1, first=90_000)))
        async with ContextClient(served.address) as client:
            seen = client.watch("ma")
            assert await anext(seen) == ({"main": served.head}, ())
            store.set_ref("elsewhere", new)  # by another process, and not watched
            store.set_ref("main", new)
            assert await anext(seen) == ({"main": new}, ())
            await client.set_ref("main", None)
            assert await anext(seen) == ({}, ("main",))
            await seen.aclose()
        store.close()

    asyncio.run(asyncio.wait_for(ask(), 60))


def test_refs_are_listed_while_a_query_takes_long(tmp_path):
    head = fill(tmp_path, 20, 0)
    asked, gate = threading.Event(), threading.Event()

    class Slow(DiskStore):
        """A store that takes its time for what a query reads."""

        def stream(self, *given, **more):
            asked.set()
            gate.wait(60)
            return super().stream(*given, **more)

    async def ask(address):
        async with ContextClient(address) as searching, ContextClient(address) as other:
            query = asyncio.create_task(searching.query(head, Query("atom")))
            await asyncio.to_thread(asked.wait, 60)
            try:
                async with asyncio.timeout(20):
                    refs = await other.refs()
            finally:
                gate.set()
            return refs, (await query).total

    server = ServerThread(lambda: Slow(str(tmp_path)), Endpoint(path=str(tmp_path / "contexts.sock")))
    assert asyncio.run(ask(server.address)) == ({"main": head}, 20)
    server.stop()


def test_a_query_that_goes_through_much_lets_what_others_push_in_between(tmp_path):
    head = fill(tmp_path, 3_000, 0)
    reached, is_answered = threading.Event(), threading.Event()

    class Long(DiskStore):
        """A store whose context has no end before the other peer has its answer."""

        def stream(self, *given, **more):
            while True:
                for chunk in super().stream(*given, **more):
                    yield chunk
                    reached.set()
                if is_answered.is_set():
                    return

    async def ask(address):
        async with ContextClient(address) as searching, ContextClient(address) as other:
            query = asyncio.create_task(searching.query(head, Query("nowhere")))
            await asyncio.to_thread(reached.wait, 60)
            try:
                async with asyncio.timeout(20):
                    await other.set_ref("aside", head)
            finally:
                is_answered.set()
            return (await query).total

    server = ServerThread(lambda: Long(str(tmp_path)), Endpoint(path=str(tmp_path / "contexts.sock")))
    assert asyncio.run(ask(server.address)) == 0
    server.stop()


def test_a_payload_over_65535_bytes_travels(tmp_path):
    store = DiskStore(str(tmp_path / "served"))
    head = store.commit(Context(atoms=(*atoms(2, 100_000), *atoms(1, 3_000_000, first=5))))
    store.set_ref("main", head)
    with ServerProcess(tmp_path / "served") as server:
        remote = server.client()
        assert remote.expand(head) == store.expand(head)
        assert remote.context(head) == store.context(head)
        remote.close()
    store.close()


def test_who_may_only_read_changes_nothing(tmp_path):
    head = fill(tmp_path / "served", 10)
    with ServerProcess(tmp_path / "served", can_push=False) as server:
        remote = server.client()
        assert remote.refs() == {"main": head}
        for ask in (
            lambda: remote.set_ref("main", None),
            lambda: remote.commit(Context(head, atoms(1, first=500))),
            lambda: remote.adopt(head),
        ):
            with pytest.raises(RefusedError):
                ask()
        assert remote.refs() == {"main": head}
        remote.close()


def test_the_example_of_the_documentation_reads_what_the_budget_affords(tmp_path):
    files = make_certificate(tmp_path)
    head = fill(tmp_path / "served", 500, 1)
    (tmp_path / "token").write_text(TOKEN + "\n")
    with ServerProcess(tmp_path / "served", tls_endpoint(files)) as server:
        argv = [sys.executable, str(EXAMPLE), str(server.address), "main", "300", str(tmp_path / "token")]
        done = subprocess.run([*argv, files.authority], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        store = DiskStore(str(tmp_path / "served"))
        whole = [entry.atom.content for entry in store.expand(head).entries]
        store.close()
        lines = done.stdout.splitlines()
        assert 64 <= len(lines) < len(whole)
        assert [line.split(maxsplit=2)[2].strip() for line in lines] == [text.strip() for text in whole[: len(lines)]]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)  # trusting the machine's authorities
        assert done.returncode == 1
        assert "not signed by" in done.stderr
    assert len(EXAMPLE.read_text().splitlines()) <= 36


@pytest.mark.slow
def test_clients_keep_the_pace_that_was_agreed(tmp_path):
    """More calls than the server takes in the time are slower, and none is refused."""
    head = fill(tmp_path / "served", 10)
    with ServerProcess(tmp_path / "served", wire={"request_rate": 100}, policy={"request_burst": 30}) as server:
        remote = server.client()
        begun_s = time.monotonic()
        for _ in range(125):
            assert remote.refs() == {"main": head}
        assert time.monotonic() - begun_s > 0.9
        remote.close()

        async def ask():
            async with ContextClient(server.address) as client:
                return await asyncio.gather(*[client.refs() for _ in range(60)])

        assert asyncio.run(ask()) == [{"main": head}] * 60
        document = server.stop()
        assert document["errors"] == {}
        assert document["requests"]["by_type"] == {"RefsRequest": 185}


# Transfers


def test_a_store_that_is_moved_from_beneath_its_server_is_not_answered_for(tmp_path):
    shop, away, socket = tmp_path / "shop", tmp_path / "away", str(tmp_path / "contexts.sock")
    shop.mkdir()

    def made(text):
        Project.init(str(shop))
        with Project.open(str(shop), ADA) as project:
            library = project.contexts.library
            head = library.commit(Context(atoms=(Atom(text),)))
            library.set_ref("main", head)
            return head

    root = shop / ".periplus"
    first = made("the first")
    server = ServerThread(lambda: ProjectLibrary(Project(str(root), ADA), owns=True), Endpoint(path=socket))
    with contextlib.closing(RemoteStore(server.address)) as client:
        assert client.refs() == {"main": first}
        assert client.expand(first).entries
        root.rename(away)
        asked = (client.refs, lambda: client.expand(first), lambda: client.commit(Context(atoms=(Atom("lost"),))))
        for ask in asked:
            with pytest.raises(RemoteError, match="its log says why"):
                ask()
        assert not root.exists()
        other = made("another")
        assert client.refs() == {"main": other}
        with pytest.raises(NotFoundError):
            client.expand(first)
        shutil.rmtree(root)
        away.rename(root)
        second = client.commit(Context(first, (Atom("more"),)))
        client.set_ref("main", second, expected=first)
    server.stop()
    assert {"config.toml" in str(error) for error in server.errors} == {True}
    with Project.open(str(shop), ADA) as project:
        assert project.contexts.resolve("main") == second
        assert project.examine().problems == []


@pytest.mark.slow
def test_a_chain_of_pulls_over_three_machines(tmp_path):
    """A to B over TLS, B to C over a Unix socket: C has what A has, and trusts neither."""
    files = make_certificate(tmp_path)
    head = fill(tmp_path / "a")
    with (
        ServerProcess(tmp_path / "a", tls_endpoint(files)) as a,
        ServerProcess(tmp_path / "b") as b,
    ):
        from_a = a.client(token=TOKEN, trust=Trust(files.authority))
        store_b = DiskStore(str(tmp_path / "b"))
        refs, _ = clone(from_a, LocalPeer(store_b))
        store_b.set_ref("main", refs["main"])
        store_c = DiskStore(str(tmp_path / "c"))
        from_b = b.client()
        refs, done = clone(from_b, LocalPeer(store_c))
        store_c.set_ref("main", refs["main"])
        assert refs == {"main": head}
        assert done[0].sent == done[0].listed > 0
        store_a = DiskStore(str(tmp_path / "a"))
        assert store_c.expand(head) == store_a.expand(head)
        # and something new goes the same way, alone
        new = store_a.commit(Context(head, atoms(2, first=70_000)))
        again = transfer(from_a, LocalPeer(store_b), new, known=list(store_b.refs().values()))
        assert (again.listed, again.sent) == (1, 1)
        store_b.set_ref("main", new)
        last = transfer(from_b, LocalPeer(store_c), new, known=list(store_c.refs().values()))
        assert (last.listed, last.sent) == (1, 1)
        assert store_c.expand(new) == store_a.expand(new)
        for store in (store_a, store_b, store_c, from_a, from_b):
            store.close()


def test_pushing_sends_only_what_lacks(served, tmp_path):
    local = DiskStore(str(tmp_path / "local"))
    remote = served.client()
    clone(remote, LocalPeer(local))
    new = local.commit(Context(local.commit(Context(served.head, atoms(400, first=50_000))), atoms(2, first=60_000)))
    sent = transfer(LocalPeer(local), remote, new)
    assert sent.sent == sent.listed == 4  # two records and two pages
    assert transfer(LocalPeer(local), remote, new).sent == 0
    remote.set_ref("main", new, expected=served.head)
    assert remote.refs() == {"main": new}
    assert remote.expand(new) == local.expand(new)
    remote.close()
    local.close()


@pytest.mark.slow
def test_a_pull_that_is_cut_off_goes_on_where_it_was(tmp_path):
    head = fill(tmp_path / "served", 12_000, 3, size=300)
    local = DiskStore(str(tmp_path / "local"))
    with ServerProcess(tmp_path / "served") as server, Proxy(server.address) as proxy:
        remote = RemoteStore(proxy.address)
        for _ in range(4):
            proxy.heal()
            proxy.cut_after(600_000)
            with pytest.raises(EnvironmentFailure) as caught:
                transfer(remote, LocalPeer(local), head, known=[])
            assert "repeat the command" in caught.value.mend
            assert local.refs() == {}
            assert not local.has(head)
        assert proxy.cuts == 4
        proxy.heal()
        proxy.reset_counts()
        done = transfer(remote, LocalPeer(local), head, known=[])
        whole = proxy.to_client
        assert 0 < done.sent < done.listed
        local.set_ref("main", head)
        fresh = DiskStore(str(tmp_path / "fresh"))
        proxy.reset_counts()
        all_of_it = transfer(remote, LocalPeer(fresh), head, known=[])
        assert all_of_it.listed == all_of_it.sent == done.listed
        assert whole < proxy.to_client - 4 * 200_000  # what had come before did not come again
        assert local.expand(head) == fresh.expand(head)
        for store in (local, fresh, remote):
            store.close()


@pytest.mark.slow
def test_a_push_over_tls_that_is_cut_off_shows_nothing_and_goes_on_where_it_was(tmp_path):
    head = fill(tmp_path / "local", 12_000, 3, size=300)
    local = DiskStore(str(tmp_path / "local"))
    files = make_certificate(tmp_path)
    endpoints = (tls_endpoint(files), {"path": str(tmp_path / "served" / "contexts.sock")})
    with ServerProcess(tmp_path / "served", *endpoints) as server, Proxy(server.address) as proxy:
        remote = RemoteStore(proxy.address, token=TOKEN, trust=Trust(files.authority))
        near = RemoteStore(server.addresses[1])
        proxy.cut_after(200_000)  # packed, all of it is twice that
        with pytest.raises(EnvironmentFailure):
            transfer(LocalPeer(local), remote, head)
        kept = sum(path.is_file() for path in (tmp_path / "served" / "objects").rglob("*"))
        assert near.refs() == {}
        assert not near.has(head)
        with pytest.raises(NotFoundError):
            near.set_ref("main", head)
        proxy.heal()
        proxy.reset_counts()
        done = transfer(LocalPeer(local), remote, head)
        assert 0 < done.sent <= done.listed - kept
        remote.set_ref("main", head)
        assert near.refs() == {"main": head}
        fresh = MemoryStore()
        transfer(near, LocalPeer(fresh), head, known=[])
        assert fresh.expand(head) == local.expand(head)
        for store in (local, remote, near):
            store.close()


def test_stats_tell_what_was_done(served):
    remote = served.client()
    remote.refs()
    list(remote.stream(served.head))
    with pytest.raises(NotFoundError):
        remote.header(bytes(32))
    document = served.stats()
    assert document["schema"] == "periplus/context-server-stats/1"
    assert document["connections"]["open"] == 2
    assert document["requests"]["by_type"] == {"ObjectsGet": 1, "RefsRequest": 1, "StreamRequest": 1}
    assert document["chunks"] > 40
    assert document["errors"] == {"not_found": 1}
    assert document["bytes"]["out"] > 100_000
    remote.close()
    assert served.stop()["connections"]["open"] == 0
    json.dumps(document)


def knowing(store):
    """A context with molecules, one of which broke, an atom that no chunk holds, removals, and more atoms than a chunk has."""
    known = atoms(300)
    digests = [atom_digest(atom) for atom in known]
    pairs = [Molecule((digests[n], digests[n + 1]), {"then": ((0, 1),)}) for n in range(0, 8, 2)]
    root = store.commit(Context(atoms=(*known, Atom("y" * 2_000_000)), molecules=tuple(pairs)))
    below = store.commit(Context(root, removed=(digests[0], digests[299])))
    return store.commit(
        Context(below, atoms=(Atom("late", relevance=5),), molecules=(Molecule((digests[9], digests[10])),))
    )


def test_an_expansion_is_proved_where_that_is_asked_for(tmp_path):
    store = DiskStore(str(tmp_path / "served"))
    head = knowing(store)
    plain = store.commit(Context(atoms=atoms(20)))
    expected = {each: store.expand(each) for each in (head, plain)}
    store.close()
    assert expected[head].molecules
    assert expected[head].broken
    endpoint = {"host": "127.0.0.1", "port": 0}
    with ServerProcess(tmp_path / "served", endpoint) as server, Proxy(server.address) as proxy:
        near = server.client()
        for each, whole in expected.items():
            for prove in (False, True):
                found = near.expand(each, prove=prove)
                assert (list(found.entries), found.molecules, found.broken) == (
                    list(whole.entries), whole.molecules, whole.broken)  # fmt: skip

        near.close()

        async def asked():
            async with ContextClient(server.address) as client:
                return await client.expand(head, prove=True)

        assert asyncio.run(asked()).molecules == expected[head].molecules
        proxy.garbling = (b"atom 7", b"atom 8")  # what came is a context, but none that was asked for
        remote = RemoteStore(proxy.address)
        assert list(remote.expand(plain).entries) != list(expected[plain].entries)
        with pytest.raises(FormatError):
            remote.expand(plain, prove=True)
        remote.close()


def test_an_atom_is_proved_to_be_of_a_context_and_no_changed_proof_is_believed(served):
    import msgspec

    remote = served.client()
    expansion = remote.expand(served.head)
    for entry in (expansion.entries[0], expansion.entries[1_500], expansion.entries[-1]):
        proof = remote.prove_atom(entry.origin, entry.digest)
        assert proof.leaf == annotation_record(entry.digest, entry.atom)
        for name in ("root", "leaf", "record"):
            value = getattr(proof, name)
            changed = msgspec.structs.replace(proof, **{name: value[:-1] + bytes([value[-1] ^ 1])})
            with pytest.raises(FormatError):
                check_inclusion(changed, entry.origin, entry.digest)
        for changed in (
            msgspec.structs.replace(proof, index=proof.index + 1),
            msgspec.structs.replace(proof, size=proof.size + 1),
            msgspec.structs.replace(proof, path=(*proof.path, bytes(32))),
        ):
            with pytest.raises(FormatError):
                check_inclusion(changed, entry.origin, entry.digest)
        with pytest.raises(FormatError):
            check_inclusion(proof, served.head[::-1], entry.digest)
    with pytest.raises(NotFoundError):
        remote.prove_atom(served.head, bytes(32))
    root = expansion.entries[-1].origin
    leaves = [leaf_hash(annotation_record(atom_digest(atom), atom)) for atom in remote.context(root).atoms]
    for size in (1, 256, 700, len(leaves)):
        proof = remote.prove_first(root, size)
        assert proof.root == root_of(leaves[:size])
        with pytest.raises(FormatError):
            check_consistency(msgspec.structs.replace(proof, root=bytes(32)), root)
    remote.close()
