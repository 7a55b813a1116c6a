"""Streams: the expansion in chunks, no chunk over a limit, nothing read before it is asked for."""

from __future__ import annotations

import gc
import random
import weakref
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_streams import CountingStore, entries_of, head_of, history, some_atom
from periplus.base.errors import DamageError, UsageError
from periplus.base.text.token_estimate import estimate_tokens
from periplus.context.model import Atom, ChunkLimits, Context, annotation_record, atom_digest, order_key
from periplus.context.stores.disk_store import DiskStore
from periplus.context.stores.library import ContextLibrary
from periplus.context.stores.memory_store import MemoryObjects, MemoryStore
from periplus.context.stores.refs import MemoryRefs
from periplus.context.streams.chunks import ChunkCutter, Columns, Tallies, atom_bytes, merge_sorted_runs

SHAPES = st.lists(
    st.tuples(st.sampled_from([0, 1, 5, 60, 300]), st.sampled_from([0, 1, 20, 150])), min_size=1, max_size=6
)
LIMITS = st.builds(
    ChunkLimits,
    st.sampled_from([1, 7, 64, 10_000]),
    st.sampled_from([8, 100, 4_000]),
    st.sampled_from([600, 3_000, 1 << 20]),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    shape=SHAPES,
    limits=LIMITS,
    seed=st.integers(0, 10**6),
    padding=st.sampled_from([0, 400]),
    large_weight=st.sampled_from([8, 64, 1_024]),
)
def test_the_chunks_are_the_expansion_within_the_limits(shape, limits, seed, padding, large_weight):
    store = ContextLibrary(
        MemoryObjects(), MemoryRefs(), large_weight=large_weight
    )  # a small one makes runs of few atoms, merged and kept
    digest = history(store, random.Random(seed), shape, universe=400, padding=padding)[-1]
    expansion = store.expand(digest).entries
    stream = store.stream(digest, limits=limits)
    chunks = list(stream)
    over = {one.digest: one for chunk in chunks for one in chunk.over}
    assert [entry for entry in expansion if entry.digest not in over] == entries_of(chunks)
    tokens = place = 0
    for number, chunk in enumerate(chunks):
        own = [entry.atom for entry in chunk.entries]
        tokens += sum(estimate_tokens(atom.content) for atom in own)
        assert (chunk.chunk_id, chunk.start, chunk.cumulative_tokens) == (number, place, tokens)
        assert len(own) + len(chunk.over) <= limits.atoms
        assert sum(estimate_tokens(atom.content) for atom in own) <= limits.tokens
        assert sum(map(atom_bytes, own)) <= limits.size_bytes
        place += len(own) + len(chunk.over)
        assert chunk.progress_millionths == (place * 1_000_000 // len(expansion) if expansion else 1_000_000)
        assert chunk.is_final == (number == len(chunks) - 1)
    for entry in expansion:
        is_over = estimate_tokens(entry.atom.content) > limits.tokens or atom_bytes(entry.atom) > limits.size_bytes
        assert is_over == (entry.digest in over)
        if is_over:
            named = over[entry.digest]
            assert (named.origin, named.annotation) == (entry.origin, annotation_record(entry.digest, entry.atom))
    head = head_of([annotation_record(entry.digest, entry.atom) for entry in expansion])
    assert stream.end == (len(expansion), tokens, len(chunks), head)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(shape=SHAPES, seed=st.integers(0, 10**6), prove=st.booleans(), data=st.data())
def test_a_stream_can_be_taken_up_at_any_chunk(shape, seed, prove, data):
    store = MemoryStore()
    digest = history(store, random.Random(seed), shape, universe=400)[-1]
    limits = ChunkLimits(7, 200, 4_000)
    whole = store.stream(digest, limits=limits, prove=prove)
    chunks = list(whole)
    resume = data.draw(st.integers(0, len(chunks) - 1))
    again = store.stream(digest, limits=limits, resume=resume, prove=prove)
    assert list(again) == chunks[resume:]
    assert again.end == whole.end
    with pytest.raises(UsageError, match=f"there is no chunk {len(chunks)}"):
        next(store.stream(digest, limits=limits, resume=len(chunks), prove=prove))


@pytest.mark.parametrize("prove", [False, True])
@pytest.mark.parametrize(
    ("changed", "field"),
    [({"atoms": 0}, "limits.atoms"), ({"tokens": -1}, "limits.tokens"), ({"size_bytes": 0}, "limits.size_bytes")],
)
def test_limits_below_one_are_refused_by_name(prove, changed, field):
    store = MemoryStore()
    digest = store.commit(Context())
    with pytest.raises(UsageError, match=field):
        store.stream(digest, limits=ChunkLimits(**changed), prove=prove)
    with pytest.raises(UsageError, match="resume"):
        store.stream(digest, resume=-1, prove=prove)


@pytest.mark.parametrize("prove", [False, True])
def test_an_atom_that_no_chunk_can_hold_is_named_and_the_rest_comes(prove):
    store = MemoryStore()
    best = Atom("word " * 5_000, relevance=1_000_000, source="the best", tags=("long",))
    others = [Atom(f"atom {number}", relevance=1_000 * number) for number in range(100)]
    digest = store.commit(Context(atoms=(best, *others)))
    for limits in (ChunkLimits(tokens=500), ChunkLimits(size_bytes=5_000)):
        chunks = list(store.stream(digest, limits=limits, prove=prove))
        assert [one.digest for one in chunks[0].over] == [atom_digest(best)]
        assert chunks[0].start + len(chunks[0].entries) + 1 == (chunks[1].start if len(chunks) > 1 else 101)
        assert len(entries_of(chunks)) == 100
        assert chunks[-1].is_final
    with pytest.raises(UsageError, match=f"even name atom {atom_digest(best).hex()}"):
        list(store.stream(digest, limits=ChunkLimits(size_bytes=100), prove=prove))


@pytest.mark.parametrize("prove", [False, True])
def test_the_stream_of_nothing_is_one_final_chunk(prove):
    store = MemoryStore()
    digest = store.commit(Context())
    stream = store.stream(digest, prove=prove)
    assert stream.end is None
    (chunk,) = stream
    assert (chunk.entries, chunk.is_final, chunk.progress_millionths) == ((), True, 1_000_000)
    assert stream.end == (0, 0, 1, head_of([]))


def big(store, count, chosen, base=None, *, first=0):
    atoms = tuple(some_atom(number, chosen) for number in range(first, first + count))
    return store.commit(Context(base, atoms))


@pytest.mark.slow
def test_who_stops_after_one_chunk_has_opened_what_it_lies_in():
    store = CountingStore()
    chosen = random.Random(5)
    digest = big(store, 20_000, chosen)
    store.counted.opened = 0
    stream = store.stream(digest)
    next(stream)
    assert store.counted.opened <= 3, "the record, the index of its pages and a page"
    stream.close()
    for number in range(1, 5):
        digest = big(store, 4_000, chosen, digest, first=18_000 + 3_000 * number)
    next(store.stream(digest))
    store.counted.opened = 0
    next(store.stream(digest))
    assert store.counted.opened <= 5 * 3, "of each of the five large deltas its index and a page, maybe two"
    store.counted.opened = 0
    assert len(list(store.stream(digest))) > 100
    assert store.counted.opened > 100


def test_long_contents_are_opened_for_the_atoms_that_are_read():
    store = CountingStore()
    digest = store.commit(Context(atoms=tuple(Atom(f"{number} {'y' * 6_000}") for number in range(1_200))))
    store.counted.opened = 0
    next(store.stream(digest, limits=ChunkLimits(atoms=3)))
    assert store.counted.opened <= 40, "one block of contents, not all of the page"


@pytest.mark.slow
def test_ten_thousand_small_deltas_on_a_large_root_cost_one_chunk():
    store = CountingStore()
    chosen = random.Random(9)
    digest = big(store, 5_000, chosen)
    with store.batch():
        for number in range(10_000):
            digest = store.commit(Context(digest, (some_atom(100_000 + number, chosen),)))
    list(store.stream(digest, limits=ChunkLimits(atoms=100)))
    store.counted.opened = 0
    next(store.stream(digest))
    assert store.counted.opened <= 3, "what the small deltas come to is known; of the root a page"


@pytest.mark.slow
def test_a_closed_stream_lets_go_of_all_it_held():
    store = MemoryStore()
    digest = big(store, 2_000, random.Random(1))
    for prove in (False, True):
        stream = store.stream(digest, prove=prove)
        chunk = next(stream)
        generator = weakref.ref(stream._chunks)
        stream.close()
        stream.close()
        with pytest.raises(StopIteration):
            next(stream)
        assert stream.end is None
        assert chunk.entries
        del stream
        gc.collect()
        assert generator() is None


@pytest.mark.parametrize("damage", ["cut off", "a changed byte", "gone"])
def test_a_cache_that_is_damaged_in_the_middle_of_a_stream_changes_nothing(tmp_path, damage):
    chosen = random.Random(2)
    with_cache = DiskStore(str(tmp_path / "store"), large_weight=64)
    digest = history(with_cache, chosen, [(300, 0)] + [(20, 5)] * 30, universe=600)[-1]
    limits = ChunkLimits(atoms=5)
    expected = list(with_cache.stream(digest, limits=limits))
    stream = with_cache.stream(digest, limits=limits)
    chunks = [next(stream) for _ in range(10)]
    damaged = 0
    for path in (tmp_path / "store" / "cache").rglob("*.run"):
        damaged += 1
        data = bytearray(path.read_bytes())
        if damage == "gone":
            path.unlink()
            continue
        for at in range(0, len(data) - 4_000, 64):  # the footer was read already
            data[at] ^= 1
        with path.open("r+b") as file:
            file.write(data)
            if damage == "cut off":
                file.truncate(len(data) // 8)
    assert damaged
    assert chunks + list(stream) == expected
    with_cache.close()


class Listed:
    """A run over columns."""

    def __init__(self, atoms, per_page=3, removed=()):
        rows = sorted((order_key(atom_digest(atom), atom), atom) for atom in atoms)
        self._rows = rows
        self._per_page = per_page
        self._present = {key[2] for key, _ in rows}
        self._removed = set(removed)
        self.opened = 0

    def pages(self):
        for start in range(0, len(self._rows), self._per_page):
            yield self._rows[start][0], lambda start=start: self._open(start)

    def _open(self, start):
        self.opened += 1
        rows = self._rows[start : start + self._per_page]
        return Columns([atom for _, atom in rows], [key[2] for key, _ in rows], [b"o" * 32] * len(rows))

    def state(self, identity):
        return True if identity in self._present else False if identity in self._removed else None

    def unspoken(self, digests):
        places = [at for at, digest in enumerate(digests) if self.state(digest) is None]
        return None if len(places) == len(digests) else places


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    deltas=st.lists(
        st.dictionaries(st.integers(0, 30), st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=20), max_size=5
    ),
    removed=st.lists(st.sets(st.integers(0, 30), max_size=8), max_size=5),
    per_page=st.integers(1, 5),
)
def test_runs_are_merged_into_what_a_dict_comes_to(deltas, removed, per_page):
    plain: dict[bytes, Atom] = {}
    runs = []
    for number, delta in enumerate(deltas):
        gone = {atom_digest(Atom(str(one))) for one in (removed[number] if number < len(removed) else ())}
        atoms = [Atom(str(key), relevance=relevance, time_ms=time) for key, (relevance, time) in delta.items()]
        for one in gone:
            plain.pop(one, None)
        plain |= {atom_digest(atom): atom for atom in atoms}
        runs.insert(0, Listed(atoms, per_page, gone))
    expected = sorted(plain.items(), key=lambda item: order_key(*item))
    found = [pair for columns in merge_sorted_runs(runs) for pair in zip(columns.digests, columns.atoms, strict=True)]
    assert found == expected


def test_pages_are_opened_when_the_merge_reaches_them():
    near = Listed([Atom(f"near {number}", relevance=900_000 + number) for number in range(30)])
    far = Listed([Atom(f"far {number}", relevance=number) for number in range(30)])
    coming = merge_sorted_runs([near, far])
    next(coming)
    assert (near.opened, far.opened) == (1, 0)
    for _ in range(9):
        next(coming)
    assert (near.opened, far.opened) == (10, 0)
    next(coming)
    assert far.opened == 1


def test_threads_that_stream_at_once_get_what_one_gets():
    chosen = random.Random(6)
    store = MemoryStore()
    digest = big(store, 3_000, chosen)
    digest = store.commit(Context(digest, tuple(some_atom(number, chosen) for number in range(0, 3_000, 10))))
    expected = []
    for _ in range(3):
        store._tallies = Tallies()  # nothing is known of any page
        limits = ChunkLimits(atoms=chosen.choice((5, 11, 64)))
        with ThreadPoolExecutor(4) as pool:
            streams = [store.stream(digest, limits=limits) for _ in range(4)]
            found = list(pool.map(list, streams))
        assert all(chunks == found[0] for chunks in found)
        expected.append((entries_of(found[0]), streams[0].end.head, streams[0].end.tokens))
        assert len({stream.end for stream in streams}) == 1
    assert expected[0] == expected[1] == expected[2]
    records = [annotation_record(entry.digest, entry.atom) for entry in expected[0][0]]
    assert expected[0][1] == head_of(records)


def test_a_record_with_another_number_of_atoms_is_damage():
    atoms = [Atom(str(number)) for number in range(5)]
    columns = Columns(atoms, [atom_digest(atom) for atom in atoms], [b"o" * 32] * 5)
    for live in (4, 6, 0):
        with pytest.raises(DamageError, match=f"says {live} atoms"):
            list(ChunkCutter(live, ChunkLimits()).cut([columns]))


def test_what_a_limit_counts_is_no_less_than_what_messagepack_takes():
    for atom in (
        Atom(""),
        Atom("漢字 😀" * 50, "List[String]", -62_135_596_800_000, 1_000_000, "s" * 4_096, tuple("abc")),
        Atom("x" * 70_000, "T" * 300, 253_402_300_799_999, 0, "", tuple(f"{'t' * 250}{at:02}" for at in range(64))),
    ):
        assert len(msgspec.msgpack.encode((atom_digest(atom), atom, bytes(32)))) <= atom_bytes(atom)
