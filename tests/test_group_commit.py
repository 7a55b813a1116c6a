"""One sync for what several wrote: who leads, who follows, who is killed, what a failed sync and a damaged map do."""

from __future__ import annotations

import errno
import os
import signal
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from periplus.base.errors import OutcomeUnknownError
from periplus.base.files import Files
from periplus.base.process.locks import Lock
from periplus.journal.care.doctor import examine
from support import WRITER, item, make_store, open_journal

USED_BYTES = 128
BELLS = range(2048, 2048 + 64)


def put(number, text, **options):
    return lambda transaction: transaction.put("note", item(number, "not"), {"text": text}, **options)


@pytest.fixture
def root(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        journal.mutate(put(1, "first"), WRITER)
    return root


class GatedFiles(Files):
    """Every sync of a segment says that it has begun, then waits until it may go on; it may fail then."""

    def __init__(self, error=0):
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.error = error
        self.syncs = 0

    def sync_data(self, fd):
        self.syncs += 1
        self.begun.set()
        assert self.may_end.wait(30)
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        super().sync_data(fd)


class CountingFiles(Files):
    def __init__(self):
        self.syncs = 0

    def sync_data(self, fd):
        self.syncs += 1
        super().sync_data(fd)


def mutated(root, files, fn, key=""):
    """What a writer of its own, with a journal of its own, got: a receipt or the error."""
    with open_journal(root, files) as journal:
        try:
            return journal.mutate(fn, WRITER, key=key)
        except OutcomeUnknownError as error:
            return error


def wait_for_records(root, count):
    with open_journal(root) as journal:
        while journal.end().next_seq <= count:
            journal.refresh()


def durable_word(root):
    return struct.unpack_from("<Q", Path(root, "journal", "flush").read_bytes(), 11 * 8)[0] >> 16


def check_whole(root, count):
    with open_journal(root) as journal:
        assert journal.damage is None
        assert [entry.record.seq for _, entry in journal.entries(journal.lineage)] == list(range(1, count + 1))
        assert journal.mutate(put(99, "goes on"), WRITER).first_seq == count + 1
        assert examine(journal).exit_code in (0, 1)


def test_a_sync_covers_what_was_written_before_it_began_and_nothing_else(root):
    leader, others = GatedFiles(), [CountingFiles(), CountingFiles()]
    with ThreadPoolExecutor() as pool:
        first = pool.submit(mutated, root, leader, put(2, "leads"))
        assert leader.begun.wait(30)
        rest = [pool.submit(mutated, root, files, put(3 + n, "follows")) for n, files in enumerate(others)]
        wait_for_records(root, 4)
        assert not any(future.done() for future in rest)
        assert durable_word(root) == 1
        leader.may_end.set()
        assert sorted(future.result().first_seq for future in [first, *rest]) == [2, 3, 4]
    assert leader.syncs == 1
    assert sum(files.syncs for files in others) == 1, "one of the two led for both"
    assert durable_word(root) == 4
    check_whole(root, 4)


def test_a_mutation_builds_on_a_version_that_is_not_durable_yet(root):
    leader = GatedFiles()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(mutated, root, leader, put(1, "second"))
        assert leader.begun.wait(30)
        wait_for_records(root, 2)
        with open_journal(root) as journal:
            version = journal.get("note", item(1, "not")).version
        second = pool.submit(mutated, root, CountingFiles(), put(1, "third", expect=version))
        wait_for_records(root, 3)
        leader.may_end.set()
        assert first.result().versions == (version,)
        assert second.result().first_seq == 3
    with open_journal(root) as journal:
        entity = journal.get("note", item(1, "not"))
        assert (entity.value, entity.parents, entity.rev) == ({"text": "third"}, (version,), 3)


def test_a_failed_sync_is_unknown_to_all_who_waited_for_it_each_with_his_key(root):
    leader, others = GatedFiles(errno.EIO), [CountingFiles(), CountingFiles()]
    with ThreadPoolExecutor() as pool:
        first = pool.submit(mutated, root, leader, put(2, "leads"), "k-0")
        assert leader.begun.wait(30)
        rest = [
            pool.submit(mutated, root, files, put(3 + n, "follows"), f"k-{n + 1}") for n, files in enumerate(others)
        ]
        wait_for_records(root, 4)
        leader.may_end.set()
        found = [future.result() for future in [first, *rest]]
    assert [(type(error), error.key) for error in found] == [(OutcomeUnknownError, f"k-{n}") for n in range(3)]
    assert [files.syncs for files in others] == [0, 0], "nobody syncs that segment again"
    for number in range(3):
        assert mutated(root, Files(), put(2 + number, "again"), f"k-{number}").repeated
    check_whole(root, 4)
    with open_journal(root) as journal:
        assert journal.reader(journal.lineage).segments() == [1, 2]
        assert journal.get("note", item(3, "not")).value == {"text": "follows"}


class HangingFiles(Files):
    """Says through a pipe that it came to ``phase`` of a mutation, and hangs there for ever."""

    def __init__(self, phase, pipe):
        self.phase, self.pipe = phase, pipe

    def _reach(self, phase):
        if phase == self.phase:
            os.write(self.pipe, b"x")
            threading.Event().wait()

    def write(self, fd, data):
        self._reach("before the write")
        written = super().write(fd, data)
        self._reach("after the write")
        return written

    def sync_data(self, fd):
        self._reach("before the sync")
        super().sync_data(fd)
        self._reach("after the sync")

    def pwrite(self, fd, data, offset):
        self._reach("before the mark")
        written = super().pwrite(fd, data, offset)
        self._reach("after the mark")
        return written


def hanging_child(root, phase):
    """The id of a process that hangs at ``phase`` of its mutation."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            mutated(root, HangingFiles(phase, writer), put(2, "killed"), "k")
        finally:
            os._exit(1)
    os.close(writer)
    assert os.read(reader, 1) == b"x"
    os.close(reader)
    return child


def killed(child):
    os.kill(child, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(
    "phase", [f"{when} the {what}" for what in ("write", "sync", "mark") for when in ("before", "after")]
)
def test_a_writer_that_is_killed_in_any_phase_holds_nobody_up(root, phase):
    child = hanging_child(root, phase)
    files = CountingFiles()
    with ThreadPoolExecutor() as pool:
        follower = pool.submit(mutated, root, files, put(3, "follows"))
        if "write" not in phase:
            wait_for_records(root, 3)
        killed(child)
        receipt = follower.result()
    assert receipt.first_seq == (2 if phase == "before the write" else 3)
    assert files.syncs == 1, "not acknowledged by the word of one who was killed"
    again = mutated(root, CountingFiles(), put(2, "killed"), "k")
    assert again.repeated == (phase != "before the write")
    check_whole(root, 3)


@pytest.mark.slow
def test_a_leader_that_stands_still_is_not_waited_for_for_ever(root):
    child = hanging_child(root, "before the sync")
    files = CountingFiles()
    try:
        assert mutated(root, files, put(3, "follows")).first_seq == 3
        assert files.syncs == 1
        assert durable_word(root) == 3
    finally:
        killed(child)
    check_whole(root, 3)


def unsynced(root):
    """Leave a record behind that was written under the key ``k`` and never synced."""
    killed(hanging_child(root, "before the sync"))
    return Path(root, "journal", "flush")


@pytest.mark.slow
def test_a_byte_of_the_map_changed_at_rest_acknowledges_nothing_and_loses_nothing(root):
    path = unsynced(root)
    whole = path.read_bytes()
    assert any(whole[:USED_BYTES])
    assert not any(whole[USED_BYTES : BELLS.start] + whole[BELLS.stop :])
    store = {found: found.read_bytes() for found in Path(root, "journal").rglob("*") if found.is_file()}
    for offset in [*range(USED_BYTES), *BELLS]:
        for change in (0x01, 0x80, 0xFF):
            for found, data in store.items():
                found.write_bytes(data)
            changed = bytearray(whole)
            changed[offset] ^= change
            path.write_bytes(changed)
            files = CountingFiles()
            receipt = mutated(root, files, put(2, "killed"), "k")
            assert (receipt.repeated, receipt.last_seq, files.syncs) == (True, 2, 1), f"byte {offset}"
            assert durable_word(root) >= 1
    check_whole(root, 2)


@pytest.mark.parametrize("what", ["missing", "empty", "short", "folder", "random", "pipe", "of another lineage"])
def test_a_map_that_is_none_holds_nobody_up(root, tmp_path, what):
    path = unsynced(root)
    data = path.read_bytes()
    path.unlink()
    if what == "of another lineage":
        other = make_store(tmp_path / "other")
        with open_journal(other) as journal:
            for number in range(2):
                journal.mutate(put(number, "x"), WRITER)
        path.write_bytes(Path(other, "journal", "flush").read_bytes())
    elif what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    elif what != "missing":
        path.write_bytes({"empty": b"", "short": data[:90], "random": os.urandom(len(data))}[what])
    files = CountingFiles()
    assert mutated(root, files, put(2, "killed"), "k").repeated
    assert files.syncs == 1
    with open_journal(root) as first, open_journal(root) as second:
        for number in range(3):
            first.mutate(put(3, f"first {number}"), WRITER)
            second.mutate(put(3, f"second {number}"), WRITER)
    check_whole(root, 8)


def wait_for_sleep(path):
    """Until a follower, a thread of ours, sleeps at a bell of the map: for 2 ms at least, in which he does not look at it."""

    def sleeping_at(task):
        try:
            words = Path(task, "syscall").read_text().split()
        except OSError:
            return 0  # it has just ended
        return int(words[1], 16) if len(words) > 1 else 0  # of a futex: where it is

    def is_asleep():
        mapped = [
            line.split()[0].split("-") for line in Path("/proc/self/maps").read_text().splitlines() if str(path) in line
        ]
        places = [sleeping_at(task) for task in Path("/proc/self/task").iterdir()]
        return any(int(first, 16) <= place < int(end, 16) for first, end in mapped for place in places)

    until = time.monotonic() + 30
    while not is_asleep():
        assert time.monotonic() < until


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="only Linux tells who sleeps where")
@pytest.mark.parametrize("what", ["changed", "cut short", "replaced"])
def test_a_map_that_is_damaged_under_a_follower_sends_him_to_the_journal(root, what):
    leader, files = GatedFiles(), CountingFiles()
    path = Path(root, "journal", "flush")
    with ThreadPoolExecutor() as pool:
        first = pool.submit(mutated, root, leader, put(2, "leads"))
        assert leader.begun.wait(30)
        second = pool.submit(mutated, root, files, put(3, "follows"))
        wait_for_records(root, 3)
        wait_for_sleep(path)  # what is cut off between a look at the file's size and a look at the map ends the process
        if what == "cut short":
            os.truncate(path, 0)
        elif what == "replaced":
            path.with_suffix(".new").write_bytes(path.read_bytes())
            os.replace(path.with_suffix(".new"), path)
        else:
            with path.open("r+b") as file:
                file.seek(8 * 8)
                file.write(os.urandom(8))
        if what != "replaced":  # who waits on a file that nobody else has any more leads when the first is done
            assert second.result().first_seq == 3
            assert files.syncs == 1
        leader.may_end.set()
        assert first.result().first_seq == 2
        assert second.result().first_seq == 3
    check_whole(root, 3)


def test_a_map_of_an_earlier_boot_is_not_believed(root):
    path = unsynced(root)
    with path.open("r+b") as file:  # as if the machine had said "durable" of what it then lost
        file.write(b"PPLSFLU1" + bytes(32))
    files = CountingFiles()
    assert mutated(root, files, put(2, "killed"), "k").repeated
    assert files.syncs == 1


def test_a_forked_child_does_not_lead_for_its_killed_parent(tmp_path):
    path = os.fspath(tmp_path / "flush")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        lock = Lock(path, is_guard=False)
        lock.try_take()
        grandchild = os.fork()
        if not grandchild:  # by itself: what a fork has to give up is given up then
            os.write(writer, f"{os.getpid()}\n".encode())
        threading.Event().wait()
    grandchild = int(os.read(reader, 20))
    lock = Lock(path, is_guard=False)
    assert not lock.try_take()
    killed(child)
    try:
        os.kill(grandchild, 0)
        assert lock.try_take()
        lock.release()
    finally:
        os.kill(grandchild, signal.SIGKILL)
        lock.close()
        os.close(reader)
        os.close(writer)


def test_a_replaced_segment_is_never_acknowledged_by_the_sync_of_another(root):
    """A checkout put another file in the segment's place after our write and before somebody else's."""
    leader = GatedFiles()
    with open_journal(root) as journal:
        path = Path(journal.reader(journal.lineage).path_of(1))
    before = path.read_bytes()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(mutated, root, leader, put(2, "lost"), "k")
        assert leader.begun.wait(30)
        path.with_suffix(".new").write_bytes(before)
        os.replace(path.with_suffix(".new"), path)
        files = CountingFiles()
        second = pool.submit(mutated, root, files, put(3, "kept"))
        wait_for_records(root, 2)
        leader.may_end.set()
        assert isinstance(first.result(), OutcomeUnknownError)
        assert second.result().first_seq == 2
    with open_journal(root) as journal:
        assert journal.get("note", item(2, "not")) is None
        assert journal.get("note", item(3, "not")).value == {"text": "kept"}
    check_whole(root, 2)


def test_under_the_policy_never_there_is_no_sync_and_no_map(tmp_path):
    root = make_store(tmp_path)
    config = Path(root, "config.toml")
    config.write_text(config.read_text().replace('sync = "mutation"', 'sync = "never"'))
    files = CountingFiles()
    assert mutated(root, files, put(1, "x")).first_seq == 1
    assert files.syncs == 0
    assert not Path(root, "journal", "flush").exists()


def test_observations_without_a_sync_are_covered_by_the_next_one(root):
    files = CountingFiles()
    with open_journal(root, files) as journal:
        journal.mutate(lambda transaction: transaction.observe({"tool": "ls"}), WRITER, durable=False)
        assert (files.syncs, durable_word(root), journal.durable_end()) == (0, 1, 1)
        journal.mutate(put(2, "x"), WRITER)
        assert (files.syncs, durable_word(root), journal.durable_end()) == (1, 3, 3)
    with open_journal(root) as journal:
        assert journal.durable_end() == 3


def test_what_waits_for_a_sync_is_not_read_again_by_each_mutation(root, monkeypatch):
    """There is nothing to derive from it yet; the more waited, the longer each took: 50 ms of four thousand."""
    with open_journal(root) as journal:
        journal.mutate(put(1, "x"), WRITER)
        with monkeypatch.context() as patch:
            patch.setattr(journal._projector, "run", lambda *_, **__: pytest.fail("nothing is to be derived"))
            for number in range(3):
                journal.mutate(lambda t, number=number: t.observe({"saw": number}), WRITER, durable=False)
        journal.mutate(put(2, "y"), WRITER)
        assert journal.unindexed() == []
        assert [entry.next_seq - 1 for entry in journal.index.watermarks().values()] == [journal.end().next_seq - 1]


def test_where_nobody_syncs_an_observation_is_derived_from_at_once(root):
    """It counts as acknowledged there."""
    config = Path(root, "config.toml")
    config.write_text(config.read_text().replace('sync = "mutation"', 'sync = "never"'))
    with open_journal(root) as journal:
        journal.mutate(lambda transaction: transaction.observe({"tool": "ls"}), WRITER, durable=False)
        assert (
            [entry.next_seq - 1 for entry in journal.index.watermarks().values()] == [2] == [journal.end().next_seq - 1]
        )
