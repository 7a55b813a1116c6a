"""A context store that is stopped, refused by the disk, cut from power or raced by another: before or after, and it goes on."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import random
import shutil
import threading
from pathlib import Path

import pytest

from context_contract import contents, digest_of, plain, root_of
from faulty_files import Fault, FaultyFiles, PowerFiles
from periplus.base.errors import ConflictError, EnvironmentFailure
from periplus.context.model import Atom, Context
from periplus.context.stores.disk_store import DiskStore
from support import Stop, StoppingFiles

EXHAUSTIVE = "PERIPLUS_EXHAUSTIVE" in os.environ
SMALL = 6  # the weight from which deltas are large, in these tests


def open_store(folder: Path, files=None) -> DiskStore:
    return DiskStore(str(folder), files, large_weight=SMALL)


def first_state(folder: Path) -> bytes:
    store = open_store(folder)
    head = store.commit(root_of(*range(1, 5)))
    for number in range(10, 12):
        head = store.commit(Context(head, (plain(number),)))
    store.set_ref("main", head)
    store.close()
    return head


def one_small(store, base):
    return store.commit(Context(base, (plain(50),), removed=(digest_of(2),)))


def one_with_objects(store, base):
    atoms = (*(plain(number) for number in range(100, 380)), Atom("long " * 1000))
    return store.commit(Context(base, atoms))


def many_in_a_batch(store, base):
    with store.batch():
        for number in range(60, 65):
            base = store.commit(Context(base, (plain(number),)))
    return base


def move(store, base, change):
    head = change(store, base)
    store.set_ref("main", head, expected=base)
    return head


CHANGES = {
    "a small commit": one_small,
    "a commit of pages and a long content": one_with_objects,
    "a batch and a snapshot": many_in_a_batch,
}


@pytest.fixture(scope="module", params=list(CHANGES))
def prepared(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("crash") / "store"
    base = first_state(folder)
    copy = folder.with_name("after")
    shutil.copytree(folder, copy)
    store = open_store(copy)
    after = move(store, base, CHANGES[request.param])
    wanted = {base: contents(store.expand(base)), after: contents(store.expand(after))}
    store.close()
    return CHANGES[request.param], folder, base, after, wanted


def judge(folder: Path, change, base, after, wanted, *, acknowledged: bool = False) -> None:
    """The ref stands before or after, all below it is here, and the same change can be made (again)."""
    store = open_store(folder)
    target = store.refs()["main"]
    assert target in (base, after)
    assert not acknowledged or target == after
    assert contents(store.expand(target)) == wanted[target]
    assert store.has(target)
    if target == base:
        assert move(store, base, change) == after
    else:
        assert change(store, base) == after
    assert contents(store.expand(after)) == wanted[after]
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.6] if EXHAUSTIVE else [0.6])
def test_it_may_stop_at_every_call(prepared, share, tmp_path):
    change, start, base, after, wanted = prepared
    calls = stops = 0
    while True:
        folder = tmp_path / str(calls)
        shutil.copytree(start, folder)
        files = StoppingFiles(calls, share)
        store = open_store(folder, files)
        is_done = False
        try:
            move(store, base, change)
            is_done = True
        except Stop:
            stops += 1
        store.close()
        judge(folder, change, base, after, wanted, acknowledged=is_done)
        shutil.rmtree(folder)
        if is_done and len(files.calls) <= calls:
            break
        calls += 1
    assert stops > 8


@pytest.mark.slow
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC] if EXHAUSTIVE else [errno.EIO], ids=errno.errorcode.get)
def test_the_disk_may_refuse_every_call_and_the_same_store_goes_on(prepared, error, tmp_path):
    change, start, base, after, wanted = prepared
    at = failures = 0
    while True:
        folder = tmp_path / str(at)
        shutil.copytree(start, folder)
        files = FaultyFiles(Fault(at, error=error))
        store = open_store(folder, files)
        try:
            move(store, base, change)
        except EnvironmentFailure:
            failures += 1
            target = store.refs()["main"]
            assert target in (base, after)
            if target == base:
                move(store, base, change)
        assert store.refs()["main"] == after
        assert contents(store.expand(after)) == wanted[after]
        store.close()
        judge(folder, change, base, after, wanted, acknowledged=True)
        shutil.rmtree(folder)
        if files.failures == 0:
            break
        at += 1
    assert failures > 4


def test_after_a_sync_that_failed_everything_is_written_again(tmp_path):
    class Watching(FaultyFiles):
        def __init__(self):
            super().__init__()
            self.is_broken = False
            self.made: list[str] = []

        def sync(self, fd):
            if self.is_broken:
                raise OSError(errno.EIO, "Input/output error")
            super().sync(fd)

        def replace(self, source, target):
            self.made.append(target)
            super().replace(source, target)

    files = Watching()
    store = open_store(tmp_path / "store", files)
    files.is_broken = True
    context = Context(atoms=(plain(1),))
    with pytest.raises(EnvironmentFailure):
        store.commit(context)
    files.is_broken = False
    files.made.clear()
    digest = store.commit(context)
    assert [Path(path).name for path in files.made if "objects" in path] == [digest.hex()[2:]]
    store.close()


def test_the_power_may_go_at_any_call(prepared, tmp_path):
    change, start, base, after, wanted = prepared
    chance = random.Random(20261121)
    cuts = 0
    for seed in range(8 if EXHAUSTIVE else 2):
        folder = tmp_path / f"run{seed}"
        shutil.copytree(start, folder)
        files = PowerFiles(str(folder))
        is_done: list[bool] = []

        def cut(_call, files=files, is_done=is_done, seed=seed):
            nonlocal cuts
            if chance.random() > 0.25:
                return
            target = tmp_path / f"disk{seed}.{cuts}"
            files.cut(str(target), chance)
            judge(target, change, base, after, wanted, acknowledged=bool(is_done))
            shutil.rmtree(target)
            cuts += 1

        files.cut_at = cut
        store = open_store(folder, files)
        move(store, base, change)
        is_done.append(True)
        files.cut_at = lambda _call: None
        for _ in range(4):
            target = tmp_path / f"late{seed}.{cuts}"
            files.cut(str(target), chance)
            judge(target, change, base, after, wanted, acknowledged=True)
            cuts += 1
        store.close()
    assert cuts > 8


def race_once(folder: str, number: int, barrier, results) -> None:
    store = DiskStore(folder)
    base = store.refs()["main"]
    mine = store.commit(Context(base, (plain(1000 + number),)))
    barrier.wait(60)
    try:
        store.set_ref("main", mine, expected=base)
        results.put((number, mine.hex()))
    except ConflictError:
        results.put((number, ""))
    barrier.wait(60)
    store.close()


@pytest.mark.slow
def test_of_two_processes_that_set_a_ref_one_wins(tmp_path):
    start = multiprocessing.get_context("spawn")
    folder = str(tmp_path / "store")
    store = DiskStore(folder)
    store.set_ref("main", store.commit(root_of(1)))
    for _ in range(3):
        barrier, results = start.Barrier(2), start.Queue()
        workers = [start.Process(target=race_once, args=(folder, number, barrier, results)) for number in range(2)]
        for worker in workers:
            worker.start()
        answers = [results.get(timeout=120) for _ in workers]
        for worker in workers:
            worker.join(120)
        results.close()
        results.join_thread()
        won = [mine for _, mine in answers if mine]
        assert len(won) == 1
        assert store.refs()["main"].hex() == won[0]
    store.close()


def test_threads_that_go_on_from_each_other_lose_nothing(tmp_path):
    folder = tmp_path / "store"
    store = open_store(folder)
    store.set_ref("main", store.commit(root_of(1)))
    errors: list[BaseException] = []

    def work(name: int, mine: DiskStore) -> None:
        try:
            for step in range(12):
                while True:
                    base = mine.refs()["main"]
                    head = mine.commit(Context(base, (plain(1000 * name + step),)))
                    with contextlib.suppress(ConflictError):
                        mine.set_ref("main", head, expected=base)
                        break
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test has to see it
            errors.append(error)

    shared = open_store(folder)
    stores = [shared, shared, open_store(folder)]
    threads = [threading.Thread(target=work, args=(name, mine)) for name, mine in enumerate(stores, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    head = store.refs()["main"]
    assert store.header(head).depth == 36
    assert sorted(contents(store.expand(head))) == sorted(
        ["atom 1"] + [f"atom {1000 * name + step}" for name in (1, 2, 3) for step in range(12)]
    )
    for one in {*stores, store}:
        one.close()
