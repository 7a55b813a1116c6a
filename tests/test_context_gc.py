"""What no ref reaches is parked, what is parked is still had, and nothing that anybody needs is ever removed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from context_contract import contents, digest_of, plain, root_of
from periplus.base.clock import FixedClock
from periplus.base.errors import DamageError, LockTimeoutError, NotFoundError, UsageError
from periplus.base.files import Files
from periplus.base.process.locks import Lock
from periplus.context.model import Atom, Context
from periplus.context.stores.disk_store import DiskStore
from periplus.context.stores.garbage_collection import GRACE_MS, PRUNE_AGE_MIN_MS, PRUNE_AGE_MS, collect
from periplus.context.stores.object_folder import FolderObjects
from periplus.context.stores.refs import MemoryRefs
from periplus.objects.store import ObjectStore
from support import Stop, StoppingFiles

pytestmark = pytest.mark.quick

MANY = 2 + 2 + 9  # records, pages and long contents of what no ref reaches
DAY_MS = 24 * 3_600_000


@pytest.fixture
def clock():
    """A clock that starts a week from now: what a test writes is old by then."""
    return FixedClock(time.time_ns() // 1_000_000 + 7 * DAY_MS)


def open_store(folder, clock, files=None) -> DiskStore:
    return DiskStore(str(folder / "store"), files, clock)


def files_of(folder: Path, part: str) -> set[str]:
    return {path.name for path in (folder / "store" / part).glob("*/*")}


def history(store: DiskStore):
    """main over a shared root; a branch that no ref names, with pages and long contents of its own."""
    root = store.commit(root_of(*range(1, 700)))
    main = store.commit(Context(root, (plain(1000),)))
    aside = store.commit(
        Context(root, tuple(Atom(f"aside {n} " * (600 if n < 9 else 1)) for n in range(300)), removed=(digest_of(3),))
    )
    last = store.commit(Context(aside, (plain(2000),)))
    store.set_ref("main", main)
    return root, main, aside, last


def test_what_no_ref_reaches_is_parked_and_the_rest_stays(tmp_path, clock):
    store = open_store(tmp_path, clock)
    root, main, aside, last = history(store)
    before = store.expand(last)
    everything = files_of(tmp_path, "objects")
    report = store.gc()
    assert report.parked == MANY
    assert report.parked == len(files_of(tmp_path, "parked"))
    assert files_of(tmp_path, "objects") | files_of(tmp_path, "parked") == everything
    assert report.parked_bytes > 0
    assert (report.restored, report.pruned) == (0, 0)
    assert "atom 1000" in contents(store.expand(main))
    assert store.gc().parked == 0
    store.close()
    # Whoever asks for what is parked has it, and it is back.
    store = open_store(tmp_path, clock)
    assert store.expand(last) == before
    assert store.has(aside)
    assert store.has(root)
    assert not files_of(tmp_path, "parked")
    store.close()


def test_young_objects_and_what_they_stand_on_are_left_alone(tmp_path):
    clock = FixedClock(time.time_ns() // 1_000_000 + 1000)
    store = open_store(tmp_path, clock)
    *_, last = history(store)
    report = store.gc()
    assert report.parked == 0
    assert report.young == MANY
    clock.advance(GRACE_MS + 60_000)
    young = store.commit(Context(last, (plain(3000),)))
    for path in (tmp_path / "store" / "objects").glob("*/*"):
        if young.hex().startswith(path.parent.name + path.name[:10]):
            os.utime(path, ns=(clock.now_ms() * 1_000_000,) * 2)
    assert store.gc().parked == 0
    clock.advance(GRACE_MS + 60_000)
    assert store.gc().parked == MANY + 1
    store.close()


def test_pruning_takes_an_age_and_looks_again(tmp_path, clock):
    store = open_store(tmp_path, clock)
    _, main, aside, last = history(store)
    store.gc()
    with pytest.raises(UsageError, match="prune"):
        store.gc(prune_after_ms=PRUNE_AGE_MIN_MS - 1)
    assert store.gc(prune_after_ms=PRUNE_AGE_MS).pruned == 0
    clock.advance(PRUNE_AGE_MS + 1)
    store.set_ref("aside", aside)  # brings it back
    report = store.gc(prune_after_ms=PRUNE_AGE_MS)
    assert report.pruned == 1  # the record of the last; what it stands on is needed
    assert report.pruned_bytes > 0
    assert not files_of(tmp_path, "parked")
    with pytest.raises(NotFoundError):
        store.context(last)
    assert store.header(aside).live == 998
    assert len(store.expand(aside).entries) == 998
    assert len(store.expand(main).entries) == 700
    store.close()


def test_what_is_not_of_contexts_or_needed_by_others_is_not_touched(tmp_path, clock):
    folder = tmp_path / "store"
    store = open_store(tmp_path, clock)
    *_, aside, last = history(store)
    foreign = [store.source.put(data) for data in (b"a trail's content", b"PPLS\x02\x01 no context", b"PPC", b"")]
    store.close()
    objects = FolderObjects(
        ObjectStore(str(folder / "objects"), Files()),
        str(folder),
        Files(),
        ObjectStore(str(folder / "parked"), Files()),
    )
    needs = {aside, foreign[0], b"\x07" * 32}
    report = collect(objects, MemoryRefs(), None, clock, needed=lambda: needs)
    assert all(objects.store.has(digest) for digest in foreign)
    assert objects.store.has(aside)
    assert not objects.store.has(last)
    assert report.parked == 2  # main's record and the last: their root is below what is needed


def test_a_hole_below_a_ref_refuses_the_collection(tmp_path, clock):
    store = open_store(tmp_path, clock)
    root, main, *_ = history(store)
    store.source.store.remove(root)
    store.close()
    store = open_store(tmp_path, clock)
    with pytest.raises(DamageError, match=root.hex()):
        store.gc()
    assert not files_of(tmp_path, "parked")
    assert store.refs() == {"main": main}
    store.close()


def test_one_collection_runs_at_a_time(tmp_path, clock):
    store = open_store(tmp_path, clock)
    history(store)
    with Lock(str(tmp_path / "store" / "gc.lock")).holding(1), pytest.raises(LockTimeoutError):
        store.gc(patience_s=0.01)
    store.close()


class _BusyRefs(MemoryRefs):
    """Sets a ref when the refs have been read once: as somebody does who commits while the collection runs."""

    def __init__(self, target: bytes) -> None:
        super().__init__()
        self._target = target
        self._asked = 0

    def all(self) -> dict[str, bytes]:
        self._asked += 1
        found = super().all()
        if self._asked == 1:
            self.change("new", None, self._target)
        return found


def test_a_ref_that_is_set_meanwhile_keeps_all_that_it_needs(tmp_path, clock):
    store = open_store(tmp_path, clock)
    *_, last = history(store)
    before = store.expand(last)
    store.close()
    folder = tmp_path / "store"
    objects = FolderObjects(
        ObjectStore(str(folder / "objects"), Files()),
        str(folder),
        Files(),
        ObjectStore(str(folder / "parked"), Files()),
    )
    report = collect(objects, _BusyRefs(last), None, clock, prune_after_ms=PRUNE_AGE_MIN_MS)
    assert report.restored == MANY + 4  # the shared root too, not main
    store = open_store(tmp_path, clock)
    assert all(store.source.store.has(digest) for digest in _closure(store, last))
    assert store.expand(last) == before
    store.close()


def _closure(store, head: bytes) -> set[bytes]:
    from periplus.context.stores.garbage_collection import reached_from

    return reached_from(store.source, [head])


def test_a_commit_onto_what_is_parked_brings_it_back(tmp_path, clock):
    committer = open_store(tmp_path, clock)
    *_, last = history(committer)
    collector = open_store(tmp_path, clock)
    collector.gc()
    assert len(files_of(tmp_path, "parked")) == MANY
    head = committer.commit(Context(last, (plain(4000),)))  # it still believes that its base is here
    committer.set_ref("late", head)
    report = collector.gc()
    assert report.parked == 0
    assert not files_of(tmp_path, "parked")
    assert contents(open_store(tmp_path, clock).expand(head)).count("atom 4000") == 1
    committer.close()
    collector.close()


def test_a_collection_that_stops_anywhere_loses_nothing(tmp_path, clock):
    def small(store):
        root = store.commit(root_of(1, 2))
        main = store.commit(Context(root, (plain(3),)))
        aside = store.commit(Context(root, (Atom("long " * 1000),)))
        store.set_ref("main", main)
        return main, aside

    stops = 0
    for at in range(400):
        folder = tmp_path / str(at)
        store = open_store(folder, clock)
        main, aside = small(store)
        wanted = [store.expand(digest) for digest in (main, aside)]
        store.close()
        files = StoppingFiles(at)
        stopping = open_store(folder, clock, files)
        try:
            stopping.gc()
        except Stop:
            stops += 1
        stopping.close()
        store = open_store(folder, clock)
        store.gc()
        assert store.refs() == {"main": main}
        assert [store.expand(digest) for digest in (main, aside)] == wanted
        store.close()
        if len(files.calls) <= at:
            break
    assert stops > 8


class ParkedAtOnce(Files):
    """Whatever is brought back from ``parked`` is parked again before anybody looks, ``times`` times."""

    times = 0

    def replace(self, source: str, target: str) -> None:
        super().replace(source, target)
        if self.times and f"{os.sep}parked{os.sep}" in source:
            self.times -= 1
            super().replace(target, source)


@pytest.mark.parametrize("times", [1, 2, 5])
def test_an_object_that_is_parked_again_as_soon_as_it_is_back_is_still_had(tmp_path, clock, times):
    files = ParkedAtOnce()
    objects = FolderObjects(
        ObjectStore(str(tmp_path / "objects"), files),
        str(tmp_path),
        files,
        ObjectStore(str(tmp_path / "parked"), files),
    )
    digest = objects.put(b"had " * 900)
    assert objects.park(digest, clock.now_ms())
    files.times = times
    assert objects.has(digest)
    objects.settle()  # what was put before it was parked
    assert objects.park(digest, clock.now_ms())
    files.times = times
    assert objects.get(digest) == b"had " * 900
    assert files.times == 0


class BroughtBackFirst(ObjectStore):
    """Somebody else brings an object back just before it is looked for here."""

    do = None

    def paths_of(self, digest: bytes) -> list[str]:
        do, self.do = self.do, None
        if do is not None:
            do(digest)
        return super().paths_of(digest)


def test_an_object_that_another_brings_back_between_two_looks_is_had(tmp_path, clock):
    files, parked = Files(), BroughtBackFirst(str(tmp_path / "parked"), Files())
    objects, other = (
        FolderObjects(ObjectStore(str(tmp_path / "objects"), files), str(tmp_path), files, one)
        for one in (parked, ObjectStore(parked.root, files))
    )
    digest = objects.put(b"had " * 900)
    assert objects.park(digest, clock.now_ms())
    parked.do = other.restore
    assert objects.has(digest)
    objects.settle()
    assert objects.park(digest, clock.now_ms())
    parked.do = other.restore
    assert objects.get(digest) == b"had " * 900


COLLECTS = """
import sys, time
from periplus.context.stores.disk_store import DiskStore
store = DiskStore(sys.argv[1])
rounds = 0
print("ready", flush=True)
while not os.path.exists(sys.argv[2]):
    store.gc(grace_ms=0)
    rounds += 1
print(rounds, flush=True)
"""


def test_commits_beside_a_collection_without_any_grace_lose_nothing(tmp_path):
    """The worst case on purpose: whatever no ref reaches at the moment is parked at once, again and again."""
    folder, stop = tmp_path / "store", tmp_path / "stop"
    store = DiskStore(str(folder))
    base = store.commit(root_of(1))
    store.set_ref("main", base)
    collector = subprocess.Popen(
        [sys.executable, "-c", "import os" + COLLECTS, folder, stop], stdout=subprocess.PIPE, text=True
    )
    try:
        assert collector.stdout.readline() == "ready\n"
        wanted = {"atom 1"}
        for step in range(15):
            aside = store.commit(Context(base, (plain(step % 3 + 500),)))  # of which nothing comes
            head = store.commit(Context(base, (plain(100 + step), Atom("shared " * 800))))
            head = store.commit(Context(head, (plain(200 + step),)))
            assert aside != head
            store.set_ref("main", head, expected=base)
            wanted |= {f"atom {100 + step}", f"atom {200 + step}", "shared " * 800}
            base = head
    finally:
        stop.write_text("")
        out, _ = collector.communicate(timeout=120)
    assert collector.returncode == 0
    assert int(out) > 0
    store.close()
    store = DiskStore(str(folder))
    head = store.refs()["main"]
    assert set(contents(store.expand(head))) == wanted
    assert all(store.source.store.has(digest) for digest in _closure(store, head))
    store.close()
