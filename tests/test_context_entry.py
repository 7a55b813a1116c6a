"""Contexts whose objects came from elsewhere: nothing in them is believed that ``commit`` would not have said."""

from __future__ import annotations

from hashlib import sha256

import pytest

from context_contract import digest_of, plain, root_of
from periplus.base.clock import FixedClock
from periplus.base.errors import NotFoundError, UsageError
from periplus.context.model import Context, Molecule
from periplus.context.records import record
from periplus.context.stores.disk_store import DiskStore
from periplus.context.stores.library import KNOWN_FOR_MS, ContextLibrary
from periplus.context.stores.memory_store import MemoryObjects, MemoryStore
from periplus.context.stores.refs import MemoryRefs

pytestmark = pytest.mark.quick


def foreign(store, context: Context, *, depth: int, live: int) -> bytes:
    """Put a context as a peer may send it, whatever it says."""
    encoded = record.encode(context, depth=depth, live=live)
    for _, data in encoded.objects:
        store.source.put(data)
    return encoded.digest


@pytest.fixture(params=["memory", "disk"])
def store(request, tmp_path):
    store = MemoryStore() if request.param == "memory" else DiskStore(str(tmp_path / "store"))
    yield store
    store.close()


def refused(store, digest: bytes, match: str, kind: type[Exception] = UsageError) -> None:
    with pytest.raises(kind, match=match):
        store.set_ref("main", digest)
    assert store.refs() == {}
    with pytest.raises(UsageError, match="base" if kind is NotFoundError else match):
        store.commit(Context(digest, (plain(77),)))


def test_what_is_true_is_taken_in(store):
    root = foreign(store, root_of(1, 2), depth=0, live=2)
    child = foreign(store, Context(root, (plain(3), plain(1, 9)), removed=(digest_of(2),)), depth=1, live=2)
    store.set_ref("main", child)
    assert store.refs() == {"main": child}
    assert store.commit(Context(root, (plain(3), plain(1, 9)), removed=(digest_of(2),))) == child


@pytest.mark.parametrize(
    ("change", "depth", "live", "match"),
    [
        ({"atoms": (plain(3),)}, 2, 3, "^depth: .* says 2, it is 1"),
        ({"atoms": (plain(3),)}, 1, 2, "^live: .* says 2, it is 3"),
        ({"atoms": (plain(1, 9),)}, 1, 3, "^live: .* says 3, it is 2"),
        ({"removed": (digest_of(9),)}, 1, 1, r"^removed\[0\]"),
        ({"molecules": (Molecule((digest_of(9),)),)}, 1, 2, r"^molecules\[0\]\.atoms\[0\]"),
        ({"removed": (digest_of(1),), "molecules": (Molecule((digest_of(1),)),)}, 1, 1, r"^molecules\[0\]\.atoms\[0\]"),
    ],
)
def test_what_is_not_true_is_refused_by_field(store, change, depth, live, match):
    root = store.commit(root_of(1, 2))
    refused(store, foreign(store, Context(root, **change), depth=depth, live=live), match)


def test_a_lie_far_below_is_found(store):
    head = foreign(store, root_of(1, 2), depth=0, live=3)
    for number in range(5):
        head = foreign(store, Context(head, (plain(10 + number),)), depth=number + 1, live=number + 3)
    refused(store, head, "^live: .* says 3, it is 2")


def test_what_is_merged_has_to_be_true_too(store):
    root = store.commit(root_of(1))
    aside = foreign(store, Context(root, (plain(2),)), depth=1, live=9)
    refused(store, foreign(store, Context(root, (plain(3),), merged=(aside,)), depth=2, live=2), "^live")


def test_what_is_not_here_is_named(store):
    root = record.encode(root_of(1), depth=0, live=1).digest
    child = foreign(store, Context(root, (plain(2),)), depth=1, live=2)
    refused(store, child, root.hex(), NotFoundError)
    paged = record.encode(Context(atoms=tuple(plain(number) for number in range(600))), depth=0, live=600)
    for digest, data in paged.objects[:-1]:
        store.source.put(data)
        assert digest
    refused(store, paged.digest, paged.objects[-1][0].hex(), NotFoundError)


def test_identities_that_are_not_those_of_the_atoms_are_found(store):
    encoded = record.encode(Context(atoms=tuple(plain(number) for number in range(300))), depth=0, live=300)
    objects = dict(encoded.objects)
    lying, page = next((digest, data) for digest, data in objects.items() if data[:4] == b"PPCP" and data[5] == 1)
    place = 400 + page[400:].index(next(d for d in map(digest_of, range(300)) if page.find(d) > 400))
    changed = bytearray(page)
    changed[place + 31] ^= 1
    new = sha256(changed).digest()
    body = encoded.objects[0][1][:-32].replace(lying, new)
    digest = store.source.put(body + sha256(body).digest())
    store.source.put(bytes(changed))
    for other, data in objects.items():
        if other not in (lying, encoded.digest):
            store.source.put(data)
    with pytest.raises(UsageError, match=r"another one|canonical"):
        store.set_ref("main", digest)
    assert store.refs() == {}


@pytest.mark.slow
def test_a_large_lie_is_found_in_parts(tmp_path):
    store = DiskStore(str(tmp_path / "store"))
    atoms = tuple(plain(number, number % 1000) for number in range(66_000))
    root = store.commit(root_of(1))
    refused(store, foreign(store, Context(root, atoms), depth=1, live=66_001), "^live: .* says 66,001, it is 66,000")
    true = foreign(store, Context(root, atoms), depth=1, live=66_000)
    store.set_ref("main", true)
    small = store.commit(Context(true, (plain(70_000), plain(5)), removed=(digest_of(7),)))
    assert store.header(small).live == 66_000
    store.close()


def test_what_is_known_is_looked_for_again_after_a_while():
    clock, objects = FixedClock(), MemoryObjects()
    store = ContextLibrary(objects, MemoryRefs(), clock=clock)
    root = store.commit(root_of(1))
    child = store.commit(Context(root, (plain(2),)))
    objects._objects.pop(root)
    assert store.has(child)  # it has just been seen
    clock.advance(KNOWN_FOR_MS + 1)
    assert not store.has(child)
    store = ContextLibrary(objects, MemoryRefs(), clock=clock)
    with pytest.raises(UsageError, match=f"base: .*{root.hex()}"):
        store.commit(Context(child, (plain(3),)))
