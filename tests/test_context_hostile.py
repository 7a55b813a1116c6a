"""What comes from elsewhere and would cost more than it brought: refused by what it says, before it is paid for."""

from __future__ import annotations

import struct
import tracemalloc
from hashlib import sha256

import msgspec
import pytest

from context_server_support import PATIENCE_S, RawClient, ServerThread, atoms, fill
from periplus.base.encoding.container import KIND_CONTEXT, pack, unpack
from periplus.base.errors import DamageError, FormatError, NotFoundError, UsageError
from periplus.context.model import DEFAULT_LIMITS, Atom, ChunkLimits, Context, Molecule, atom_digest
from periplus.context.records import layout
from periplus.context.records.pages import decode_atoms, encode_atoms
from periplus.context.records.record import Prepared, encode
from periplus.context.remotes.local_peer import LocalPeer
from periplus.context.remotes.remote_store import RemoteStore
from periplus.context.remotes.transfer import WALKED_PER_REST, transfer
from periplus.context.stores.disk_store import DiskStore
from periplus.context.stores.memory_store import MemoryStore
from periplus.context.streams.chunk_proof import ChunkProof, ChunkVerifier
from periplus.context.v1_names import atom_alias
from periplus.context.validation import REPEATED_BYTES_MAX, prepare
from periplus.context.wire import Answered, Closed, Failed, Limits
from periplus.context.wire.error_codes import RemoteError
from periplus.context.wire.frames import FrameType, frame_header
from periplus.context.wire.payloads import ErrorReport, ExpandRequest, Have, RefsRequest, StreamRequest, Watch
from periplus.context.wire.v1_payloads import V1Push
from periplus.journal import Writer
from periplus.project import Project
from periplus.project.care.redaction import redact_project
from periplus.project.context_store.library import ProjectLibrary
from periplus.server.context_server import ServerLimits
from periplus.server.listeners import Endpoint
from periplus.server.quota import OBJECT_OVERHEAD_BYTES
from periplus.server.request_handlers import REST, Bench, answers
from periplus.server.request_handlers_v1 import answers_v1
from periplus.server.short_hashes import ATOMS_PER_REST

pytestmark = pytest.mark.quick

LONG = "x" * (REPEATED_BYTES_MAX // 8)


def same_content(count):
    """Atoms of one long content and a type each, in their order."""
    made = [Atom(LONG, f"Type{place}", relevance=count - place) for place in range(count)]
    return tuple(made), tuple(atom_digest(atom) for atom in made)


def test_a_content_that_many_atoms_have_is_written_and_held_once():
    some, digests = same_content(4)
    page, contents = encode_atoms(digests, some)
    assert len(contents) == 1
    read = decode_atoms(page).whole({sha256(one).digest(): one for one in contents}.__getitem__)
    assert read == list(some)
    assert len({id(atom.content) for atom in read}) == 1


def test_few_bytes_that_stand_for_many_are_refused(tmp_path):
    """A content travels once, however many atoms have it; each of them would have to be held, hashed and sorted."""
    some, digests = same_content(10)
    with pytest.raises(UsageError, match=r"atoms: over .* bytes of contents that other atoms"):
        prepare(Context(atoms=some))
    assert prepare(Context(atoms=some[:9]))  # as much as may be
    store = DiskStore(str(tmp_path))
    pushed = encode(Prepared(Context(atoms=some), digests, ()), depth=0, live=10)
    for _, data in pushed.objects:
        store.source.put(data)
    with pytest.raises(UsageError, match="contents that other atoms"):
        store.set_ref("main", pushed.digest)
    assert store.refs() == {}
    store.close()


def test_a_page_that_is_named_many_times_is_refused_before_it_is_read_as_often(tmp_path):
    many = encode(Context(atoms=atoms(600)), depth=0, live=600)
    removing = encode(Context(removed=tuple(sha256(b"%d" % n).digest() for n in range(9_000))), depth=0, live=0)
    wide = Context(atoms=(some := atoms(40)), molecules=tuple(Molecule((atom_digest(one),)) for one in some))
    molecules = encode(wide, depth=0, live=40)
    store = DiskStore(str(tmp_path))
    for made, section, width in (
        (many, layout.ATOMS, layout.ATOM_ROW),
        (removing, layout.REMOVED, layout.ROW),
        (molecules, layout.MOLECULES, layout.ROW),
    ):
        data = made.objects[0][1]
        sections = {tag: data[start:end] for tag, (start, end) in unpack(data, KIND_CONTEXT).items()}
        rows = sections[section + layout.ROWS]
        sections[section + layout.ROWS] = rows[:width] + rows[:width] + rows[2 * width :]
        for _, one in made.objects:
            store.source.put(one)
        lie = store.source.put(pack(KIND_CONTEXT, sections))
        with pytest.raises(FormatError, match="twice"):
            store.admit(lie)
    store.close()


def test_refs_fit_the_frames_of_whoever_asks_and_watchers_do_not_depend_on_each_other(tmp_path):
    head = fill(tmp_path, 20, 0)
    store = DiskStore(str(tmp_path))
    names = sorted([f"{number:03}/{'n' * 190}" for number in range(40)] + ["main"])
    for name in names:
        if name != "main":
            store.set_ref(name, head)
    server = ServerThread(lambda: DiskStore(str(tmp_path)), Endpoint(path=str(tmp_path / "s")))
    small = RawClient(server.address, limits=Limits(frame_bytes=4_096, window_frames=64)).shake_hands()
    usual = RawClient(server.address).shake_hands()

    def told(client):
        return [row.name for event in client.events if isinstance(event, Answered) for row in event.body.refs]

    for client in (small, usual):
        client.socket.settimeout(PATIENCE_S)
        client.machine.request(Watch())
        client.read_until(lambda _, client=client: len(told(client)) >= len(names))
        assert sorted(told(client)) == names
        client.events.clear()
    small.machine.request(RefsRequest(limit=1_000))
    small.read_until(lambda events: any(isinstance(event, Answered | Failed) for event in events))
    [answer] = [event.body for event in small.events]
    assert answer.has_more
    small.events.clear()
    remote = RemoteStore(server.address, limits=Limits(frame_bytes=4_096))
    assert sorted(remote.refs()) == names
    remote.close()
    after = store.commit(Context(head, atoms(1, first=99)))
    store.set_ref("main", after)
    for client in (small, usual):
        client.read_until(lambda _, client=client: bool(told(client)))
        assert told(client) == ["main"]
        client.close()
    store.close()
    server.stop()
    assert server.errors == []


def test_what_is_asked_and_cancelled_in_one_breath_harms_nothing_else(tmp_path):
    head = fill(tmp_path, 20, 0)
    server = ServerThread(lambda: DiskStore(str(tmp_path)), Endpoint(path=str(tmp_path / "s")))
    client = RawClient(server.address).shake_hands()
    client.socket.settimeout(PATIENCE_S)
    for body in (StreamRequest(head), Watch(), RefsRequest(), ExpandRequest(head)):
        client.machine.cancel(client.machine.request(body))
    last = client.machine.request(RefsRequest())
    client.read_until(lambda events: any(isinstance(event, Answered) and event.stream == last for event in events))
    client.close()
    assert server.stop()["requests"]["cancelled"] == 4
    assert server.errors == []


def test_what_is_no_object_of_contexts_is_not_kept(tmp_path):
    """A collection leaves alone what is not of contexts: whatever else came would stay for ever."""
    fill(tmp_path / "served", 20, 0)
    server = ServerThread(lambda: DiskStore(str(tmp_path / "served")), Endpoint(path=str(tmp_path / "s")))
    remote = RemoteStore(server.address)
    store = DiskStore(str(tmp_path / "other"))
    for data in (b"", b"junk", b"PPC", pack(KIND_CONTEXT + 1, {0: b"a record of others"})):
        one = sha256(data).digest()
        with pytest.raises(UsageError):
            remote.keep([(one, data)])
        assert remote.missing([one]) == [one]
        with pytest.raises(FormatError, match="none of contexts"):
            LocalPeer(store).keep([(one, data)])
        assert store.missing([one]) == [one]
    remote.close()
    store.close()
    assert server.stop()["errors"] == {"bad_request": 4}


def test_codes_that_peers_make_up_are_not_counted_one_by_one(tmp_path):
    fill(tmp_path, 20, 0)
    server = ServerThread(lambda: DiskStore(str(tmp_path)), Endpoint(path=str(tmp_path / "s")))
    for number in range(5):
        client = RawClient(server.address).shake_hands()
        payload = msgspec.msgpack.encode(ErrorReport(f"made up {number}"), order="deterministic")
        client.socket.sendall(frame_header(len(payload), FrameType.ERROR, 0, 0) + payload)
        client.read_to_the_end()
        client.close()
    assert server.stop()["errors"] == {"other": 5}


def test_a_push_of_version_1_with_many_molecules_names_each_atom_once(tmp_path):
    fill(tmp_path, 20, 0)
    server = ServerThread(lambda: DiskStore(str(tmp_path)), Endpoint(path=str(tmp_path / "s")))
    client = RawClient(server.address)
    form = {
        "delta_atoms": [{"content": f"{number}"} for number in range(300)],
        "delta_molecules": [{"atoms": [{"content": f"{number}"}]} for number in range(200, 500)],
    }
    data = msgspec.json.encode(form)
    client.socket.sendall(struct.pack(">BIH", 4, 1, len(data)) + data)
    client.socket.settimeout(PATIENCE_S)
    assert client.socket.recv(65_536)[0] == 0x85
    client.close()
    server.stop()
    store = DiskStore(str(tmp_path))
    [head] = [target for name, target in store.refs().items() if name.startswith("v1/")]
    assert store.header(head).atom_count == 500
    assert store.header(head).molecule_count == 300
    store.close()


def test_a_stream_cannot_go_on_for_ever_with_chunks_that_bring_nothing():
    store = MemoryStore()
    head = store.commit(Context(atoms=atoms(20)))
    first = next(store.stream(head, limits=ChunkLimits(10), prove=True))
    verifier = ChunkVerifier(head)
    verifier.feed(first)
    with pytest.raises(FormatError, match="brings nothing"):
        verifier.feed(first._replace(chunk_id=1, start=10, entries=(), proof=ChunkProof(1, [], []).pack()))
    store.close()


@pytest.mark.slow
def test_many_long_contents_in_many_small_deltas_are_not_held_together(tmp_path):
    """What a push brings is checked delta by delta; folded on the way, contents lie in files and not in memory."""
    count, size = 560, 64 << 10
    writer = DiskStore(str(tmp_path / "from"))
    head = None
    with writer.batch():
        for number in range(count):
            head = writer.commit(Context(head, (Atom(f"{number} " + "x" * size),)))
    store = DiskStore(str(tmp_path / "to"))
    for digest in writer.source.store.digests():
        store.source.put(writer.source.get(digest))
    writer.close()
    tracemalloc.start()
    try:
        store.set_ref("main", head)
        assert sum(1 for _ in store.ordered_rows(head)) == count
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    store.close()
    assert peak < count * size // 2


def test_a_push_of_version_1_holds_no_more_of_its_base_than_it_names(tmp_path):
    head = fill(tmp_path, 5_000, 0)
    store = DiskStore(str(tmp_path))
    bench = Bench(lambda: store)
    given = atoms(5_000)
    gone = atom_alias(given[3])
    found = {}
    rests = sum(1 for _ in bench.aliases.find_below(head, {gone, "0" * 16}, found))
    assert found == {gone: {atom_digest(given[3])}}
    assert rests == 5_000 // ATOMS_PER_REST > 1
    base = bench.aliases.alias_of(head)
    steps = list(answers_v1(bench, 1, V1Push(base, (), (), (gone,), {}, {}), DEFAULT_LIMITS))
    assert len(steps) > rests
    bench.close()
    assert 4_999 in {store.header(target).live for target in store.refs().values()}


def test_what_no_ref_reaches_is_taken_up_to_a_limit_and_counts_no_more_when_one_does(tmp_path):
    fill(tmp_path / "served", 20, 0)
    source = DiskStore(str(tmp_path / "other"))
    heads = [source.commit(Context(atoms=(Atom("y" * 6_000 + str(number)),))) for number in range(8)]
    size = sum(len(source.get(one.digest)) + OBJECT_OVERHEAD_BYTES for one in LocalPeer(source).listing(heads[0], ()))
    limits = ServerLimits(unreferenced_bytes=2 * size, unreferenced_bytes_all=3 * size)
    server = ServerThread(
        lambda: DiskStore(str(tmp_path / "served")), Endpoint(path=str(tmp_path / "s")), limits=limits
    )

    def send(remote, head):
        return transfer(LocalPeer(source), remote, head)

    first, second = RemoteStore(server.address), RemoteStore(server.address)
    send(first, heads[0])
    send(first, heads[1])
    with pytest.raises(RemoteError) as refused:
        send(first, heads[2])
    assert refused.value.wire_code == "too_large"
    assert "unreferenced" in str(refused.value)
    assert send(first, heads[1]).sent == 0  # what is here is not counted again, and the connection goes on
    first.set_ref("one", heads[0])
    send(first, heads[2])  # there is room again
    send(second, heads[3])  # the third in all
    with pytest.raises(RemoteError):
        send(second, heads[4])
    first.close()  # what it left behind lies on the disk all the same
    with pytest.raises(RemoteError):
        send(second, heads[5])
    second.set_ref("two", heads[1])  # brought by another, and reached now
    send(second, heads[6])
    second.close()
    source.close()
    counted = server.stop()["unreferenced"]
    assert (counted["bytes"], counted["bytes_max"], counted["objects"]) == (3 * size, 3 * size, 6)
    assert counted["connection_bytes_max"] == 2 * size


def test_what_is_redacted_is_not_served_from_memory(tmp_path):
    """Neither to who asks again, nor to who was in the middle of a stream."""
    folder = tmp_path / "project"
    folder.mkdir()
    Project.init(str(folder))
    writer = Writer("ada", "who_0000000000000000", "", 1)
    with Project.open(str(folder), writer) as project:
        root = project.root
        library = project.contexts.library
        secret = Atom("the password is open-sesame-42", relevance=999_999)
        first = library.commit(Context(atoms=(secret, *atoms(1_500))))
        head = library.commit(Context(first, atoms(3, first=2_000)))
        library.set_ref("main", head)
    server = ServerThread(lambda: ProjectLibrary(Project(root, writer), owns=True), Endpoint(path=str(tmp_path / "s")))
    remote = RemoteStore(server.address)
    for _ in range(8):  # every worker holds it now
        assert any(entry.atom == secret for entry in remote.expand(head).entries)
    client = RawClient(server.address).shake_hands()
    client.socket.settimeout(PATIENCE_S)
    stream = client.machine.request(StreamRequest(head, atoms=10, credit_frames=1))
    client.read_until(bool)
    with Project.open(str(folder), writer) as project:
        redact_project(project, secret="open-sesame-42", reason="it was said by mistake")
        assert not any("sesame" in entry.atom.content for entry in project.contexts.library.expand(
            project.contexts.table.get("main")).entries)  # fmt: skip
    client.machine.grant(stream, 1, 0)
    client.read_until(lambda events: any(isinstance(event, Failed) for event in events))
    assert client.events[-1].code == "cancelled"
    for _ in range(8):
        with pytest.raises((NotFoundError, DamageError)):
            remote.expand(head)
    after = remote.refs()["main"]
    assert len(remote.expand(after).entries) == 1_503
    client.close()
    remote.close()
    server.stop()


def test_who_finds_no_room_is_told_so(tmp_path):
    fill(tmp_path, 20, 0)
    server = ServerThread(
        lambda: DiskStore(str(tmp_path)), Endpoint(host="127.0.0.1"), limits=ServerLimits(connections=1)
    )
    held = RawClient(server.address).shake_hands()
    late = RawClient(server.address)  # says nothing before it is told
    assert [(event.code, event.by_peer) for event in late.read_to_the_end() if isinstance(event, Closed)] == [
        ("busy", True)
    ]
    late.close()
    held.close()
    server.stop()


@pytest.mark.slow
def test_long_histories_are_walked_with_rests(tmp_path):
    store = DiskStore(str(tmp_path))
    head = None
    chain = []
    with store.batch():
        for number in range(2 * WALKED_PER_REST + 10):
            head = store.commit(Context(head, metadata={"n": number}))
            chain.append(head)
    for target in (LocalPeer(store), LocalPeer(DiskStore(str(tmp_path)))):
        rows = list(target.listing_steps(head, ()))
        assert rows[:2] == [None, None]  # before anything is known
        assert [row.digest for row in rows if row is not None] == chain
        assert [row.digest for row in target.listing(head, ())] == chain
        walk = target.lacking_steps([head, b"1" * 32])
        assert sum(1 for _ in walk) >= 2
        assert target.lacking([head, b"1" * 32]) == [b"1" * 32]
    steps = answers(Bench(lambda: store), 1, Have(offered=(head,)), Limits(), DEFAULT_LIMITS)
    assert sum(step is REST for step in steps) >= 2
    steps = answers(Bench(lambda: store), 1, Have(wanted=(head,)), Limits(), DEFAULT_LIMITS)
    assert sum(step is REST for step in steps) >= 2
    store.close()
