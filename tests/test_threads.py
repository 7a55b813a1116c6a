"""Threads of one process: a journal each, and one that is handed to another thread."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from periplus.base.errors import LockTimeoutError, PeriplusError, UsageError
from periplus.base.process.locks import LOCK_PATIENCE_S
from periplus.journal.care.doctor import examine
from periplus.journal.history.cursors import Reader
from periplus.journal.history.follow import follow
from periplus.journal.index.connection import ClosedError, WrongThreadError
from support import WRITER, item, make_store, open_journal


def put(number, text):
    return lambda t: t.put("note", item(number, "not"), {"text": text})


def in_thread(work):
    """What ``work`` raises in a thread of its own, or None."""
    raised = []

    def run():
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    return raised[0] if raised else None


@pytest.mark.parametrize(
    "use",
    [
        lambda journal: journal.mutate(put(1, "of another thread"), WRITER),
        lambda journal: journal.mutate(put(1, "of another thread"), WRITER, key="with-a-key"),
        lambda journal: journal.get("note", item(1, "not")),
        lambda journal: journal.get("decision", item(77)),
        lambda journal: list(journal.entities()),
        lambda journal: journal.refresh(),
        lambda journal: journal.project(),
        lambda journal: journal.roll(),
        lambda journal: journal.writing(),
        lambda journal: Reader(journal, "me").look(),
        lambda journal: next(follow(journal, {}, wait=lambda _: True)),
        lambda journal: journal.close(),
    ],
    ids=[
        "mutate",
        "with a key",
        "get",
        "get none",
        "entities",
        "refresh",
        "project",
        "roll",
        "writing",
        "cursor",
        "follow",
        "close",
    ],
)
def test_another_thread_is_told_and_nothing_happens(tmp_path, use):
    with open_journal(make_store(tmp_path)) as journal:
        for number in range(4):
            journal.mutate(put(number, "of the first thread"), WRITER, project=False)
        files = len(os.listdir("/proc/self/fd"))
        error = in_thread(lambda: use(journal))
        assert isinstance(error, WrongThreadError)
        assert isinstance(error, UsageError)
        assert isinstance(error, sqlite3.ProgrammingError)
        assert "each thread" in error.mend
        assert len(os.listdir("/proc/self/fd")) == files
        assert journal.mutate(put(9, "goes on"), WRITER).first_seq == 5
        assert journal.get("note", item(1, "not")).value == {"text": "of the first thread"}


@pytest.mark.parametrize(
    "use",
    [
        lambda journal: journal.mutate(put(1, "too late"), WRITER),
        lambda journal: journal.mutate(put(1, "too late"), WRITER, key="with-a-key"),
        lambda journal: journal.get("note", item(1, "not")),
        lambda journal: list(journal.entities()),
    ],
    ids=["mutate", "with a key", "get", "entities"],
)
def test_a_journal_that_was_closed_says_so(tmp_path, use):
    root = make_store(tmp_path)
    files = len(os.listdir("/proc/self/fd"))
    journal = open_journal(root)
    for number in range(4):
        journal.mutate(put(number, "of before"), WRITER, project=False)
    journal.close()
    with pytest.raises(ClosedError):
        use(journal)
    journal.close()
    assert len(os.listdir("/proc/self/fd")) == files
    with open_journal(root) as journal:
        assert journal.end().next_seq == 5


def test_threads_with_a_journal_each_lose_nothing_and_leave_nothing_open(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:  # what a process opens once and keeps is opened
        journal.mutate(put(0, "first"), WRITER)
    files = len(os.listdir("/proc/self/fd"))
    said: list[tuple[int, str]] = []
    seen: list[int] = []

    def write(name):
        for part in range(3):
            with open_journal(root) as journal:
                for number in range(8):
                    key = f"{name}-{part}-{number}"
                    receipt = journal.mutate(put(number, key), WRITER, key=key, project=number % 3 == 0)
                    said.append((receipt.first_seq, key))

    def watch():
        with open_journal(root) as journal:
            for found in follow(journal, {}, wait=threading.Event().wait, timeout_s=60):
                seen.extend(row.seq for row in found.records)
                if len(seen) > 4 * 24:
                    return

    errors: list[BaseException | None] = []
    works = [*(lambda name=name: write(name) for name in "abcd"), watch]
    threads = [threading.Thread(target=lambda work=work: errors.append(in_thread(work))) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert errors == [None] * 5
    assert len(os.listdir("/proc/self/fd")) == files
    with open_journal(root) as journal:
        keys = {entry.record.seq: entry.record.key for _, entry in journal.entries(journal.lineage)}
        assert sorted(keys) == list(range(1, 98))
        assert all(keys[seq] == key for seq, key in said)
        assert len(said) == 96
        assert seen == sorted(keys)
        assert examine(journal).exit_code == 0
    assert Path(root).is_dir()


def test_a_mark_that_lags_keeps_no_record_from_who_reads(tmp_path):
    """The leader of a sync marks his own record, and covers those that others wrote meanwhile: the flush map knows."""
    root = make_store(tmp_path)
    mark = Path(root, "journal", "durable")
    with open_journal(root) as journal:
        journal.mutate(put(1, "the leader's"), WRITER)
        lagging = mark.read_bytes()
        for number in range(2, 5):
            journal.mutate(put(number, "covered"), WRITER)
    mark.write_bytes(lagging)
    with open_journal(root) as journal:
        assert journal.durable_end() == 4
        found = next(follow(journal, {}, wait=lambda _: True))
        assert [row.seq for row in found.records] == [1, 2, 3, 4]
    flush = Path(root, "journal", "flush")
    data = bytearray(flush.read_bytes())
    data[88] ^= 1  # a word that is not what was written is not believed
    flush.write_bytes(data)
    mark.write_bytes(lagging)
    with open_journal(root) as journal:
        assert journal.durable_end() == 1


@pytest.fixture
def bounded():
    """Who waits for himself is woken by an exception."""

    def late(*_):
        raise AssertionError("it waits for itself")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 20)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def within(journal, call):
    """What ``call`` raises in the function of a mutation, which goes on; as a signal's handler is called within it."""
    raised = []

    def fn(transaction):
        put(8, "of the outer one")(transaction)
        with pytest.raises(PeriplusError) as told:
            call()
        raised.append(told.value)

    journal.mutate(fn, WRITER)
    return raised[0]


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("warm", [0, 4], ids=["first", "later"])
def test_a_call_within_a_mutation_that_would_wait_for_itself_is_refused_at_once(tmp_path, warm):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        for number in range(warm):
            journal.mutate(put(number, "of before"), WRITER, project=False)
        begun_s = time.monotonic()
        told = within(journal, lambda: journal.mutate(put(9, "of the inner one"), WRITER))
        assert isinstance(told, LockTimeoutError)
        assert time.monotonic() - begun_s < LOCK_PATIENCE_S  # who waits, waits for that at least
        closing = within(journal, journal.close)
        assert isinstance(closing, UsageError)
        assert "within a call" in closing.wrong
        assert journal.get("note", item(9, "not")) is None
        assert journal.mutate(put(9, "behind it"), WRITER).repeated is False
    with open_journal(root) as journal:
        assert journal.get("note", item(8, "not")).value == {"text": "of the outer one"}
        assert journal.get("note", item(9, "not")).value == {"text": "behind it"}


def test_a_handler_that_closes_does_not_wait_for_what_it_interrupted(tmp_path):
    """The journal waits for a lock that another one holds: whoever is told to end then must not hang."""
    with open_journal(make_store(tmp_path)) as journal, open_journal(journal.layout.root) as other:
        told = []

        def closing(*_):
            assert not told, "it waits for itself"
            told.append(None)
            try:
                journal.close()
            except UsageError as error:
                told[0] = error
                raise

        before = signal.signal(signal.SIGALRM, closing)
        try:
            with other.writing():
                signal.setitimer(signal.ITIMER_REAL, 0.05, 20)
                with pytest.raises(UsageError):
                    journal.mutate(put(1, "never"), WRITER)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert isinstance(told[0], UsageError)
        assert journal.mutate(put(2, "goes on"), WRITER).first_seq == 1


def test_who_waits_for_its_own_process_is_told_so(tmp_path):
    with open_journal(make_store(tmp_path)) as journal, open_journal(journal.layout.root) as other:
        told = within(journal, lambda: other.mutate(put(9, "of the inner one"), WRITER, patience_s=0.05))
        assert isinstance(told, LockTimeoutError)
        assert "This process holds it" in told.mend
