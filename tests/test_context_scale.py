"""Large contexts and long chains: in bounded memory, without recursion, and what was committed in parts is what is committed at once.

With PERIPLUS_EXHAUSTIVE a million atoms and chains of 100,000 deltas; without, the same tests on fewer.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from context_contract import contents, digest_of, plain, root_of
from periplus.base.errors import EnvironmentFailure, UsageError
from periplus.context.model import Atom, Context, atom_digest
from periplus.context.records import record
from periplus.context.stores.disk_store import DiskStore
from periplus.context.stores.memory_store import MemoryStore
from support import PEAK, Stop, StoppingFiles

pytestmark = pytest.mark.quick

EXHAUSTIVE = "PERIPLUS_EXHAUSTIVE" in os.environ
ATOMS = 1_000_000 if EXHAUSTIVE else 100_000
DELTAS = 100_000 if EXHAUSTIVE else 10_000
PEAK_MAX = (
    96 << 20
)  # of a process that keeps a context of any number of atoms, or commits on one; Python alone takes a fifth


def many(count: int, seed: int = 3) -> list[Atom]:
    chance = random.Random(seed)
    return [
        Atom(f"{n} " * (2000 if n % 97 == 5 else 1), relevance=chance.randrange(9), time_ms=chance.randrange(3))
        for n in chance.sample(range(10 * count), count)
    ]


# Atoms that come one by one


@pytest.mark.parametrize("held", [1, 7, 100, 256, 1000])
def test_atoms_that_come_one_by_one_make_the_same_context(tmp_path, held):
    store = DiskStore(str(tmp_path / "store"))
    atoms = many(700)
    digest = store.commit_atoms(iter(atoms), Context(metadata={"from": "a file"}), held_max=held)
    assert digest == record.encode(Context(atoms=tuple(atoms), metadata={"from": "a file"}), depth=0, live=700).digest
    assert len(store.expand(digest).entries) == 700
    over = many(300, 9)
    gone = tuple(atom_digest(atom) for atom in atoms[:5] if atom not in over)
    rest = Context(digest, removed=gone)
    child = store.commit_atoms(over, rest, held_max=held)
    other = MemoryStore()
    assert other.commit_atoms(atoms, Context(metadata={"from": "a file"})) == digest
    assert other.commit(Context(digest, tuple(over), removed=gone)) == child
    assert store.expand(child) == other.expand(child)
    small = store.commit(Context(child, (plain(1),)))
    assert store.header(small).live == store.header(child).live + 1
    store.close()


@pytest.mark.parametrize(
    ("atoms", "rest", "field"),
    [
        ([*(plain(n) for n in range(400)), plain(7, 3)], Context(), "twice"),
        ([*(plain(n) for n in range(400)), plain(500, 1_000_001)], Context(), "atoms[400].relevance"),
        ([*(plain(n) for n in range(350)), plain(500), plain(500)], Context(), "atoms[351]: the same content and type as atoms[350]"),
        ([*(plain(n) for n in range(400)), "no atom"], Context(), "atoms[400]"),
        ([plain(n) for n in range(400)], Context(b"\7" * 32), "base"),
        ([plain(n) for n in range(400)], Context(removed=(digest_of(1),)), "removed[0]"),
        ([plain(n) for n in range(400)], Context(atoms=(plain(1),)), "atoms"),
        ([plain(n) for n in range(400)], Context(metadata={"x": 0.5}), "metadata"),
    ],
    ids=["twice", "range", "same part", "kind", "base", "removed", "atoms beside", "metadata"],
)  # fmt: skip
def test_what_is_wrong_with_one_of_them_is_named_and_nothing_kept(tmp_path, atoms, rest, field):
    store = DiskStore(str(tmp_path / "store"))
    with pytest.raises(UsageError) as caught:
        store.commit_atoms(iter(atoms), rest, held_max=100)
    assert field in str(caught.value)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    store.close()


def test_what_is_added_cannot_be_removed_with_it(tmp_path):
    store = DiskStore(str(tmp_path / "store"))
    base = store.commit(root_of(1, 2))
    with pytest.raises(UsageError, match=r"removed\[0\]"):
        store.commit_atoms((plain(n) for n in range(400)), Context(base, removed=(digest_of(2),)), held_max=100)
    store.close()


@pytest.mark.slow
def test_it_may_stop_at_every_call_while_atoms_come(tmp_path):
    start = tmp_path / "start"
    store = DiskStore(str(start))
    base = store.commit(root_of(1, 2))
    store.set_ref("main", base)
    store.close()
    stops = at = 0
    while True:
        folder = tmp_path / str(at)
        shutil.copytree(start, folder)
        files = StoppingFiles(at, 0.5)
        store = DiskStore(str(folder), files)
        try:
            store.set_ref("main", store.commit_atoms(many(300), Context(base), held_max=120))
        except Stop:
            stops += 1
        store.close()
        store = DiskStore(str(folder))
        target = store.refs()["main"]
        assert len(store.expand(target).entries) == (2 if target == base else 302)
        after = store.commit_atoms(many(300), Context(base), held_max=120)
        assert target in (base, after)
        store.gc()
        assert not [path for path in Path(folder).rglob("*.tmp") if path.parent.name == "cache"]
        store.close()
        shutil.rmtree(folder)
        if len(files.calls) <= at:
            break
        at += 1
    assert stops > 20


def test_without_room_for_parts_nothing_is_kept(tmp_path):
    from faulty_files import Fault, FaultyFiles

    class Full(FaultyFiles):
        def write(self, fd, data):
            raise OSError(28, "No space left on device")

    store = DiskStore(str(tmp_path / "store"), Full(Fault(1 << 60)))
    with pytest.raises(EnvironmentFailure):
        store.commit_atoms(many(300), held_max=120)
    store.close()


# In bounded memory

KEEP = (
    PEAK
    + """
import sys, json
from periplus.context.stores.disk_store import DiskStore
from periplus.context.model import Atom, Context, atom_digest
folder, count = sys.argv[1], int(sys.argv[2])
def atom(n):
    return Atom(f"atom {n} says in a sentence of some length what it has to say", relevance=n * 7919 % 1_000_001, time_ms=n)
store = DiskStore(folder)
digest = store.commit_atoms(map(atom, range(count)))
store.set_ref("main", digest)
print(json.dumps({"peak": peak_bytes(), "live": store.header(digest).live}))
"""
)
GO_ON = (
    KEEP.partition("store = ")[0]
    + """
read = []
store = DiskStore(folder)
get = store.source.get
store.source.get = lambda digest: (read.append(digest), get(digest))[1]
base = store.refs()["main"]
for step in range(3):
    gone = atom_digest(atom(count // 2 + step))
    base = store.commit(Context(base, (Atom(f"new {step}"), atom(step)), removed=(gone,)))
store.set_ref("main", base)
rows = store.ordered_rows(base)
first = [next(rows).atom.relevance for _ in range(64)]
print(json.dumps({"peak": peak_bytes(), "live": store.header(base).live, "read": len(read), "best": first[0]}))
"""
)
WALK = (
    KEEP.partition("store = ")[0]
    + """
store = DiskStore(folder)
last, rows = None, 0
for row in store.ordered_rows(store.refs()["main"]):
    assert last is None or last < row.key
    last, rows = row.key, rows + 1
print(json.dumps({"peak": peak_bytes(), "rows": rows}))
"""
)

TAKE_IN = (
    KEEP.partition("store = ")[0]
    + """
store = DiskStore(folder)
store.set_ref("main", bytes.fromhex(sys.argv[3]))
print(json.dumps({"peak": peak_bytes(), "live": store.header(store.refs()["main"]).live}))
"""
)


def run(code: str, folder: Path, *more: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(ATOMS), *more], capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_any_number_of_atoms_is_kept_and_gone_on_from_in_bounded_memory(tmp_path):
    folder = tmp_path / "store"
    kept = run(KEEP, folder)
    assert kept["live"] == ATOMS
    assert kept["peak"] < PEAK_MAX
    on = run(GO_ON, folder)
    assert on["live"] == ATOMS
    assert on["peak"] < PEAK_MAX
    assert on["read"] < 30  # of all the pages the first ones, of all the records the last
    walked = run(WALK, folder)
    assert walked["rows"] == ATOMS
    assert walked["peak"] < PEAK_MAX
    store = DiskStore(str(folder))
    head = store.refs()["main"].hex()
    store.close()
    for name in ("refs", "cache"):
        shutil.rmtree(folder / name)  # what is left came from elsewhere, for all that the store knows
    taken = run(TAKE_IN, folder, head)
    assert taken["live"] == ATOMS
    assert taken["peak"] < PEAK_MAX


# Long chains


def grow(store, deltas: int) -> bytes:
    head = None
    for number in range(deltas):
        gone = (digest_of(number - 1000),) if number % 3 == 0 and number >= 1000 else ()
        head = store.commit(Context(head, (plain(number, number % 1000),), removed=gone))
    return head


def judge_chain(store, head: bytes, deltas: int) -> None:
    gone = {number - 1000 for number in range(1000, deltas) if number % 3 == 0}
    live = sorted((-(number % 1000), digest_of(number), number) for number in range(deltas) if number not in gone)
    assert contents(store.expand(head)) == [f"atom {number}" for _, _, number in live]
    header = store.header(head)
    assert (header.depth, header.live) == (deltas - 1, len(live))


@pytest.mark.slow
def test_a_long_chain_expands_with_what_is_kept_and_without(tmp_path):
    store = MemoryStore()
    head = grow(store, DELTAS)
    store.set_ref("main", head)
    judge_chain(store, head, DELTAS)
    from periplus.context.stores.library import ContextLibrary
    from periplus.context.stores.refs import MemoryRefs

    bare = ContextLibrary(store.source, MemoryRefs())
    judge_chain(bare, head, DELTAS)
    other = ContextLibrary(store.source, MemoryRefs())
    other.set_ref("main", head)  # every delta is checked, from the root up
    assert other.refs() == {"main": head}


@pytest.mark.slow
def test_a_long_chain_in_a_folder_is_synced_once(tmp_path):
    deltas = DELTAS if EXHAUSTIVE else 2_000
    store = DiskStore(str(tmp_path / "store"))
    with store.batch():
        head = grow(store, deltas)
    store.set_ref("main", head)
    judge_chain(store, head, deltas)
    store.close()
    again = DiskStore(str(tmp_path / "store"))
    judge_chain(again, again.refs()["main"], deltas)
    again.close()
    shutil.rmtree(tmp_path / "store" / "cache")
    again = DiskStore(str(tmp_path / "store"))
    judge_chain(again, head, deltas)
    again.close()
