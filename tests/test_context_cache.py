"""What is kept of expansions is derived: lost or damaged in whatever way, it is made anew and never believed."""

from __future__ import annotations

import os
import random
import shutil
from math import log2
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_contract import digest_of, plain
from periplus.context.model import Context, Molecule
from periplus.context.stores.delta_runs import visible_rows
from periplus.context.stores.disk_store import DiskStore
from periplus.context.stores.library import ContextLibrary
from periplus.context.stores.memory_store import MemoryObjects
from periplus.context.stores.refs import MemoryRefs
from periplus.context.stores.snapshots import MemoryCache, StoredRun

pytestmark = pytest.mark.quick

SMALL = 16  # the weight from which deltas are large, in these tests


def open_store(folder: Path) -> DiskStore:
    return DiskStore(str(folder), large_weight=SMALL)


def grow(store, seed: int = 1, deltas: int = 60) -> list[bytes]:
    """A chain with removals, annotations anew, molecules, and some large deltas; all its contexts."""
    chance = random.Random(seed)
    there: set[int] = set()
    heads: list[bytes] = []
    for step in range(deltas):
        gone = chance.sample(sorted(there), min(len(there), chance.choice([0, 0, 1, 2]))) if heads else []
        numbers = chance.sample(range(400), 40 if step % 17 == 5 else chance.randint(0, 3))
        numbers = [number for number in numbers if number not in gone]
        there = (there - set(gone)) | set(numbers)
        members = tuple(digest_of(number) for number in chance.sample(sorted(there), min(len(there), 3)))
        molecules = (Molecule(members, {"with": ((0, len(members) - 1),)}),) if members and step % 7 == 0 else ()
        atoms = tuple(plain(number, chance.randrange(5), time_ms=step) for number in numbers)
        heads.append(
            store.commit(
                Context(heads[-1] if heads else None, atoms, molecules, tuple(digest_of(number) for number in gone))
            )
        )
    return heads


def plainly(store, heads):
    """The same expansions from the objects alone."""
    other = ContextLibrary(store.source, MemoryRefs(), large_weight=1 << 40)
    return [other.expand(head) for head in heads]


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("grown") / "store"
    store = open_store(folder)
    heads = grow(store)
    wanted = plainly(store, heads[::12] + heads[-1:])
    store.set_ref("main", heads[-1])
    store.close()
    kept = sorted(path.name.rpartition(".")[2] for path in (folder / "cache").iterdir())
    assert {"run", "set"} <= set(kept)
    return folder, heads, wanted


@pytest.fixture
def grown_copy(grown, tmp_path):
    folder, heads, wanted = grown
    shutil.copytree(folder, tmp_path / "store")
    return tmp_path / "store", heads, wanted


def judge(folder, heads, wanted):
    store = open_store(folder)
    assert [store.expand(head) for head in heads[::12] + heads[-1:]] == wanted
    last = wanted[-1].entries
    rows = list(store.ordered_rows(heads[-1]))
    assert [(row.key[2], row.atom, row.origin) for row in rows] == [tuple(entry) for entry in last]
    for row in rows[:: max(len(rows) // 20, 1)]:
        assert store.context(row.origin).atoms[row.place] == row.atom
    child = Context(heads[-1], (plain(900),), removed=(last[3].digest,))
    digest = store.commit(child)
    assert store.header(digest).live == len(last)
    store.close()


def test_what_is_kept_says_the_same_as_the_objects(grown_copy):
    judge(*grown_copy)


def test_a_cache_that_is_gone_is_made_anew(grown_copy):
    folder, heads, wanted = grown_copy
    shutil.rmtree(folder / "cache")
    judge(folder, heads, wanted)
    assert list((folder / "cache").iterdir())


def flipped(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)


def harms(path: Path, chance: random.Random):
    """Ways in which one file of the cache can be wrong."""
    size = path.stat().st_size
    for place in [0, 7, 8, size - 1, size - 33, size - 40, size - 60, *(chance.randrange(size) for _ in range(6))]:
        yield lambda place=place: flipped(path, place)
    for length in (0, 7, 39, size // 2, size - 1):
        yield lambda length=length: os.truncate(path, length)
    yield path.unlink
    yield lambda: path.write_bytes(path.read_bytes() + b"\0")
    yield lambda: (path.unlink(), path.symlink_to("/dev/zero"))
    yield lambda: (path.unlink(), os.mkfifo(path))
    yield lambda: path.write_bytes(chance.randbytes(size))


@pytest.mark.slow
def test_each_file_of_the_cache_may_be_damaged_in_any_way(grown, tmp_path):
    folder, heads, wanted = grown
    chance = random.Random(7)
    names = sorted(path.name for path in (folder / "cache").iterdir())
    count = 0
    for name in names:
        for number in range(25):
            copy = tmp_path / f"{name}.{number}"
            shutil.copytree(folder / "cache", copy)
            ways = list(harms(copy / name, chance))
            if number >= len(ways):
                shutil.rmtree(copy)
                break
            ways[number]()
            shared = tmp_path / "shared"
            if not shared.exists():
                shutil.copytree(folder, shared)
            shutil.rmtree(shared / "cache")
            shutil.move(copy, shared / "cache")
            store = open_store(shared)
            assert store.expand(heads[-1]) == wanted[-1]
            assert store.expand(heads[12]) == wanted[1]
            store.close()
            count += 1
    assert count > 20 * len(names)


def test_files_that_changed_their_names_are_not_believed(grown_copy):
    folder, heads, wanted = grown_copy
    paths = sorted((folder / "cache").iterdir())
    contents = [path.read_bytes() for path in paths]
    for path, data in zip(paths, contents[1:] + contents[:1], strict=True):
        path.write_bytes(data)
    judge(folder, heads, wanted)


def test_damage_in_the_middle_of_an_iteration_is_not_seen_by_its_reader(grown_copy):
    folder, heads, wanted = grown_copy
    store = open_store(folder)
    rows = store.ordered_rows(heads[-1])
    seen = [next(rows) for _ in range(10)]
    for path in (folder / "cache").iterdir():
        os.truncate(path, 20)
    seen += rows
    assert [row.key[2] for row in seen] == [entry.digest for entry in wanted[-1].entries]
    store.close()


def test_the_damaged_file_is_replaced(grown_copy):
    folder, heads, wanted = grown_copy
    path = folder / "cache" / f"{max((folder / 'cache').glob('*.run'), key=os.path.getsize).name}"
    flipped(path, 20)
    judge(folder, heads, wanted)
    for left in (folder / "cache").glob("*.run"):
        run = StoredRun(str(left))
        list(visible_rows([run]))
        run.close()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 80))
def test_any_chain_is_the_same_with_and_without_a_cache(seed, deltas):
    store = ContextLibrary(MemoryObjects(), MemoryRefs(), large_weight=SMALL)
    heads = grow(store, seed, deltas)
    some = heads[:: max(deltas // 5, 1)] + heads[-1:]
    assert [store.expand(head) for head in some] == plainly(store, some)


class _CountingCache(MemoryCache):
    written = 0

    def keep(self, runs):
        kept = super().keep(runs)
        self.written += kept.weight
        return kept


@pytest.mark.parametrize("deltas", [300, 3000])
def test_each_atom_is_written_into_few_runs_and_few_runs_are_read(deltas):
    cache = _CountingCache()
    store = ContextLibrary(MemoryObjects(), MemoryRefs(), cache, large_weight=SMALL)
    head = None
    for number in range(deltas):
        head = store.commit(Context(head, (plain(number),)))
    total = 2 * deltas
    assert cache.written <= total * (log2(total / SMALL) + 2)
    assert len(store.runs(head)) <= log2(total) + 1


def test_many_large_deltas_are_not_many_runs():
    store = ContextLibrary(MemoryObjects(), MemoryRefs(), large_weight=SMALL)
    head = None
    for step in range(60):
        head = store.commit(Context(head, tuple(plain(20 * step + number) for number in range(20))))
    assert len(store.runs(head)) <= 17
    assert len(store.expand(head).entries) == 1200


def test_a_small_commit_on_a_large_context_reads_next_to_nothing():
    class Counting(MemoryObjects):
        read = 0

        def get(self, digest):
            self.read += 1
            return super().get(digest)

    objects, cache = Counting(), MemoryCache()
    store = ContextLibrary(objects, MemoryRefs(), cache)
    root = store.commit(Context(atoms=tuple(plain(number) for number in range(20_000))))
    store.set_ref("main", root)
    refs = MemoryRefs()
    refs.change("main", None, root)
    again = ContextLibrary(objects, refs, cache)  # another process: nothing but the cache is at hand
    objects.read = 0
    child = again.commit(Context(root, (plain(30_000), plain(5)), removed=(digest_of(7),)))
    assert objects.read <= 3
    assert again.header(child).live == 20_000


def test_two_stores_in_one_folder_share_what_is_kept(tmp_path):
    one, other = open_store(tmp_path / "store"), open_store(tmp_path / "store")
    heads = grow(one, 3)
    assert other.expand(heads[-1]) == one.expand(heads[-1])
    more = other.commit(Context(heads[-1], tuple(plain(1000 + number) for number in range(200))))
    more = other.commit(Context(more, (plain(5000),)))
    assert one.expand(more) == other.expand(more) == plainly(one, [more])[0]
    one.close()
    other.close()
