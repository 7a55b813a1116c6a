"""What is read again and again: pages held in memory within their room, and sets asked for a page at a time."""

import random
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.context.model import Atom, Context
from periplus.context.stores.digest_sets import BLOCK_DIGESTS, FenceBuilder, LazySet, SortedDigests, indices_not_in
from periplus.context.stores.disk_store import DiskStore
from periplus.context.stores.object_cache import ObjectCache

pytestmark = pytest.mark.quick


def counted(objects):
    asked = []

    def get(digest):
        asked.append(digest)
        return objects[digest]

    return get, asked


def test_an_object_is_held_from_its_second_reading_on():
    objects = {sha256(data).digest(): data for data in (b"one", b"two")}
    get, asked = counted(objects)
    lately = ObjectCache(get, 100)
    for digest, data in objects.items():
        assert [lately.get(digest) for _ in range(5)] == [data] * 5
        assert asked.count(digest) == 2
    lately.clear()
    assert [lately.get(digest), len(asked)] == [data, 5]


def test_no_more_is_held_than_there_is_room_for_and_a_part_of_what_is_too_much_is_still_held():
    chosen = random.Random(4)
    objects = {sha256(data).digest(): data for data in (chosen.randbytes(100) for _ in range(400))}
    get, asked = counted(objects)
    lately = ObjectCache(get, 20_000)
    for _ in range(6):  # from the front to the end, as streams read
        asked.clear()
        for digest, data in objects.items():
            assert lately.get(digest) == data
        assert sum(map(len, lately._held.values())) == lately._size <= 20_000
        assert sorted(lately._order) == sorted(lately._held)
    assert 200 <= len(asked) < 360


def test_what_is_too_large_for_the_room_is_not_held():
    data = bytes(1_000)
    get, asked = counted({b"large": data})
    lately = ObjectCache(get, 4_000)
    assert [lately.get(b"large") for _ in range(4)] == [data] * 4
    assert len(asked) == 4


def in_a_set(digests):
    maker = FenceBuilder(0)
    data = b"".join(maker.blocks(iter(sorted(digests))))
    return SortedDigests(lambda offset, length: data[offset : offset + length], maker.fence(), ValueError)


@given(st.sets(st.integers(0, 40)), st.lists(st.integers(0, 40), max_size=30), st.sampled_from([0, 7, 8, 31]))
@settings(max_examples=200, deadline=None)
def test_a_set_says_of_many_digests_what_it_says_of_each(there, asked, byte):
    """Also of digests that are alike in the first eight bytes, or in all but the last."""

    def digest(number):
        return bytes(byte) + bytes([number]) + b"\xff" * (31 - byte)

    members, wanted = {digest(number) for number in there}, [digest(number) for number in asked]
    found = in_a_set(members)
    assert found.places_of(wanted) == [place for place, one in enumerate(wanted) if one in members]
    assert [one in found for one in wanted] == [one in members for one in wanted]
    left = [place for place, one in enumerate(wanted) if one not in members]
    for those in (found, LazySet(lambda: found), frozenset(members), dict.fromkeys(members), sorted(members)):
        places = indices_not_in(wanted, those)
        assert (list(range(len(wanted))) if places is None else places) == left
    assert indices_not_in(wanted, frozenset(), ()) is None


def test_a_set_of_several_blocks_finds_all_of_them_and_nothing_else():
    members = [sha256(b"%d" % number).digest() for number in range(3 * BLOCK_DIGESTS + 5)]
    others = [sha256(b"other %d" % number).digest() for number in range(2_000)]
    found = in_a_set(members)
    assert found.places_of(others + members) == list(range(len(others), len(others) + len(members)))


def test_a_stream_is_the_same_the_third_time_though_its_pages_and_its_head_are_held(tmp_path):
    chosen = random.Random(2)
    store = DiskStore(str(tmp_path / "store"), large_weight=300)
    first = [Atom(f"atom {number}", relevance=chosen.randrange(1_000)) for number in range(2_000)]
    root = store.commit(Context(atoms=tuple(first)))
    again = tuple(Atom(f"atom {number}", relevance=2_000 + number) for number in range(0, 2_000, 3))
    top = store.commit(Context(root, (*again, Atom("on top"))))
    found = []
    for _ in range(3):
        stream = store.stream(top)
        found.append((list(stream), stream.end))
    proved = store.stream(top, prove=True)
    assert sum(len(chunk.entries) for chunk in proved) == 2_001
    assert found[0] == found[1] == found[2]
    assert proved.end.head == found[0][1].head
    assert proved.end.atoms == found[0][1].atoms == 2_001
    store.close()
