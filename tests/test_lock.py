"""The writers' lock as processes meet it: killed, stopped and greedy holders, twenty who wait, threads, forks."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from periplus.base.errors import EnvironmentFailure, LockTimeoutError
from periplus.base.files import Files
from periplus.base.process.locks import Lock
from support import WRITER, item, make_store, open_journal

pytestmark = pytest.mark.quick


def put(number, text):
    return lambda transaction: transaction.put("note", item(number, "not"), {"text": text})


def forked(work):
    """A process that does ``work``; ends with 0, or with 1 where that raised."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def path(tmp_path):
    return os.fspath(tmp_path / "lock")


@pytest.fixture
def held(path):
    """A process that holds the lock until it is killed."""
    reader, writer = os.pipe()

    def hold():
        with Lock(path).holding():
            os.write(writer, b"x")
            signal.pause()

    pid = forked(hold)
    os.read(reader, 1)
    yield pid
    try:
        os.kill(pid, signal.SIGKILL)  # where a test ended before it did
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass
    for fd in (reader, writer):
        os.close(fd)


def test_a_holder_that_stands_still_is_named_after_the_patience_and_keeps_the_lock(path, held):
    os.kill(held, signal.SIGSTOP)
    os.waitpid(held, os.WUNTRACED)
    with pytest.raises(LockTimeoutError, match=rf"written by {held} .*not free within 0\.2 s") as late:
        Lock(path).holding(0.2).__enter__()
    assert "reading needs no lock" in late.value.safe
    os.kill(held, signal.SIGKILL)
    assert ended(held) == -signal.SIGKILL
    with Lock(path).holding(0.5):
        pass


def test_who_waits_goes_on_when_the_holder_is_killed(path, held):
    with ThreadPoolExecutor() as pool:
        waiting = threading.Event()

        def take():
            with Lock(path).holding(30, waiting.set):
                return time.monotonic()

        taken = pool.submit(take)
        assert waiting.wait(30)
        os.kill(held, signal.SIGKILL)
        assert ended(held) == -signal.SIGKILL
        taken.result()


class Told:
    """A clock that goes on by what is slept, and by an hour where the process is stopped."""

    HOUR_S = 3600.0

    def __init__(self, patch):
        self.now_s = self.slept_s = 0.0
        patch.setattr(time, "monotonic", lambda: self.now_s)
        patch.setattr(time, "sleep", self.sleep)

    def sleep(self, seconds):
        self.now_s += seconds
        self.slept_s += seconds

    def stop(self):
        self.now_s += self.HOUR_S


@pytest.mark.parametrize("stopped_at", [None, 1, 7, 200])
def test_patience_is_the_time_in_which_the_waiter_ran(path, held, monkeypatch, stopped_at):
    """As by Ctrl-Z, or where a container with all its writers is paused: the holder stood still, too, and is not called hung for it."""
    looks = []
    with monkeypatch.context() as patch:
        clock = Told(patch)

        def look():
            looks.append(clock.now_s)
            if len(looks) == stopped_at:
                clock.stop()

        with pytest.raises(LockTimeoutError, match=f"written by {held} "):
            Lock(path).holding(30.0, look).__enter__()
    assert clock.slept_s == pytest.approx(30.0), "as long as he was to wait, whether he was stopped or not"
    assert clock.now_s == pytest.approx(30.0 + (clock.HOUR_S if stopped_at else 0.0))


def test_a_mutation_waits_for_five_seconds_where_nobody_says_how_long(tmp_path, monkeypatch):
    root = make_store(tmp_path)
    with open_journal(root) as journal, open_journal(root) as other, other.writing(), monkeypatch.context() as patch:
        clock = Told(patch)
        with pytest.raises(LockTimeoutError, match=r"not free within 5 s"):
            journal.mutate(put(1, "late"), WRITER)
    assert clock.slept_s == pytest.approx(5.0)


def test_who_was_stopped_while_he_waited_goes_on_waiting(path, held):
    """By a real signal: he stands still, and by his clock an hour is gone when he wakes up; the holder is there as before."""
    reader, writer = os.pipe()

    def take():
        now, gone, calls = time.monotonic, [0.0], []
        time.monotonic = lambda: now() + gone[0]

        def look():
            calls.append(None)
            if len(calls) == 2:
                os.kill(os.getpid(), signal.SIGSTOP)
                gone[0] = Told.HOUR_S
            elif len(calls) == 4:  # once more behind the look that found the hour gone
                os.write(writer, b"x")

        with Lock(path).holding(600.0, look):
            pass

    waiter = forked(take)
    os.waitpid(waiter, os.WUNTRACED)
    os.kill(waiter, signal.SIGCONT)
    os.close(writer)
    assert os.read(reader, 1) == b"x", "he gave up"
    os.kill(held, signal.SIGKILL)
    assert ended(held) == -signal.SIGKILL
    assert ended(waiter) == 0
    os.close(reader)


def test_whoever_opens_and_closes_the_file_beside_the_holder_frees_nothing(path):
    """As a library might that reads every file: a lock of POSIX's own would end there."""
    with Lock(path).holding():
        for _ in range(2):
            Path(path).read_bytes()
            with open(path, "r+b"):
                pass
        with pytest.raises(LockTimeoutError):
            Lock(path).holding(0.0).__enter__()

        def take():
            with Lock(path).holding(0.0):
                pass

        assert ended(forked(take)) == 1
    assert ended(forked(take)) == 0


def test_the_holder_is_named_though_another_wrote_its_name_before(path):
    """Who takes the lock again and again writes its text but once a second, and at once where another's stands there."""
    mine, other = Lock(path), Lock(path)
    with mine.holding():
        first = Path(path).read_text()
    with mine.holding():
        assert Path(path).read_text() == first
    Path(path).write_text("somebody else".ljust(199) + "\n")
    with mine.holding(), pytest.raises(LockTimeoutError, match=f"written by {os.getpid()} "):
        other.holding(0.0).__enter__()
    os.truncate(path, 0)
    with mine.holding(), pytest.raises(LockTimeoutError, match=f"written by {os.getpid()} "):
        other.holding(0.0).__enter__()


@pytest.mark.slow
def test_of_twenty_writers_nobody_starves(tmp_path):
    root = make_store(tmp_path)

    def work(base):
        with open_journal(root) as journal:
            for number in range(20):
                journal.mutate(put(base + number % 5, f"{number}"), WRITER, project=False)

    writers = [forked(lambda base=base: work(base)) for base in range(0, 2000, 100)]
    assert [ended(pid) for pid in writers] == [0] * 20, "each got the lock within its patience, twenty times"
    with open_journal(root) as journal:
        assert [entry.record.seq for _, entry in journal.entries(journal.lineage)] == list(range(1, 401))


def test_a_holder_that_was_stopped_validates_anew_and_readers_never_wait(tmp_path):
    """Stopped before its write, with the lock; meanwhile somebody puts another file in the segment's place."""
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        journal.mutate(put(1, "first"), WRITER)
        path = Path(journal.reader(journal.lineage).path_of(1))
    reader, writer = os.pipe()

    class Pausing(Files):
        def write(self, fd, data):
            raise AssertionError("it writes to a file that is not the one it looked at")

    def work():
        with open_journal(root, Pausing()) as journal:

            def slow(transaction):
                put(2, "from the past")(transaction)
                os.write(writer, b"x")
                os.kill(os.getpid(), signal.SIGSTOP)

            with pytest.raises(Exception, match="changed while the lock was held"):
                journal.mutate(slow, WRITER)

    pid = forked(work)
    os.read(reader, 1)
    os.waitpid(pid, os.WUNTRACED)
    with open_journal(root) as journal:  # reading takes no lock
        assert journal.get("note", item(1, "not")).value == {"text": "first"}
        with pytest.raises(LockTimeoutError, match=f"written by {pid} "):
            journal.mutate(put(3, "waits"), WRITER, patience_s=0.05)
    with path.open("ab") as file:
        file.write(b"x" * 50)
    os.kill(pid, signal.SIGCONT)
    assert ended(pid) == 0
    with open_journal(root) as journal:
        assert journal.mutate(put(3, "goes on"), WRITER).first_seq == 2
    for fd in (reader, writer):
        os.close(fd)


def test_a_disk_that_does_not_say_which_file_the_lock_is_keeps_nobody_out_later(tmp_path, monkeypatch):
    lock, look = Lock(os.fspath(tmp_path / "lock")), os.stat

    def failing(path, **how):
        if path == lock.path:
            raise OSError(5, "Input/output error", path)
        return look(path, **how)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", failing)
        with pytest.raises(EnvironmentFailure, match="cannot look at the lock"), lock.holding(1):
            pass
    with Lock(lock.path).holding(1):
        pass
    with lock.holding(1):
        pass
