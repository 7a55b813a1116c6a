"""A process that has a store open is forked: the child opens its own, and what it inherited is of no use to it.

SQLite's locks do not go over to a child, what SQLite notes of them does: a child that took part in its parent's connection to
the index would bring an old log into the file over what others wrote meanwhile.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import contextmanager

import pytest

from periplus.base.errors import UsageError
from periplus.base.process.fork_safety import is_open_in_parent
from periplus.journal.care.doctor import examine
from periplus.journal.index.connection import ForkedError
from support import WRITER, item, make_store, open_journal

PAD = "p" * 500


def write(journal, first, count=40):
    for number in range(first, first + count):
        journal.mutate(
            lambda t, number=number: t.put("note", item(number, "not"), {"text": f"{number}", "pad": PAD}), WRITER
        )


class Child:
    """A fork that runs ``work``, a generator; each step when it is told to."""

    def __init__(self, work):
        go, self._go = os.pipe()
        self._done, done = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            code = 1
            try:
                os.close(self._go)
                for _ in work:
                    os.write(done, b".")
                    os.read(go, 1)
                code = 0
            except BaseException:  # told by the child itself: nobody else sees what ended it
                import traceback

                traceback.print_exc()
                raise
            finally:
                os._exit(code)
        os.close(go)
        os.close(done)

    def wait(self):
        """Until it has come to the next step. It ends by itself if it does not come there."""
        return os.read(self._done, 1) == b"."

    def go_on(self):
        os.write(self._go, b".")

    def end(self):
        os.close(self._go)
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        os.close(self._done)
        return code


def check_sound(root, count):
    with open_journal(root) as journal:
        problems = [problem.what for problem in examine(journal).problems if problem.severity != "note"]
        assert problems == []
        assert journal.end().next_seq == count + 1
        found = {entity.item_id: entity.value["text"] for entity in journal.entities()}
        assert all(int(name[4:]) == int(text) for name, text in found.items())
        assert len(found) == count


@pytest.mark.slow
def test_a_child_that_opens_its_own_keeps_the_index_sound_whatever_its_parent_does(tmp_path):
    root = make_store(tmp_path)
    total = 0
    for turn in range(0, 2000, 1000):

        def work(turn=turn):
            with open_journal(root) as own:
                write(own, turn + 100)
                yield
                write(own, turn + 200)
                own.index.end()
                own.index.db.execute("PRAGMA wal_checkpoint")  # as happens by itself when the log is long
                yield

        with open_journal(root) as journal:
            write(journal, turn, 20)
            child = Child(work())
            assert child.wait()
        # Who closes it last removes it: that was not the last.
        assert os.path.exists(os.path.join(root, "index.sqlite-shm"))
        with open_journal(root) as other:
            write(other, turn + 300)
        child.go_on()
        assert child.wait()
        with open_journal(root) as other:
            write(other, turn + 400)
        child.go_on()
        assert child.end() == 0
        total += 180
        check_sound(root, total)


USES = {
    "mutate": lambda journal: journal.mutate(lambda t: t.put("note", item(9, "not"), {"text": "9"}), WRITER),
    "get": lambda journal: journal.get("note", item(1, "not")),
    "get none": lambda journal: journal.get("decision", item(77)),
    "entities": lambda journal: list(journal.entities()),
    "refresh": lambda journal: journal.refresh(),
    "project": lambda journal: journal.project(),
    "roll": lambda journal: journal.roll(),
    "writing": lambda journal: journal.writing(),
}


def test_what_was_inherited_is_refused_and_may_be_closed(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        write(journal, 1, 5)

        def work():
            for use in USES.values():
                with pytest.raises(ForkedError, match="not by a fork") as caught:
                    use(journal)
                assert isinstance(caught.value, UsageError)
                assert isinstance(caught.value, sqlite3.ProgrammingError)
                assert "each process" in caught.value.mend
            journal.close()
            journal.close()
            with open_journal(root) as own:
                assert not own.index.is_memory
                assert own.get("note", item(3, "not")).value["text"] == "3"
                write(own, 6, 1)
            yield

        child = Child(work())
        child.go_on()
        assert child.end() == 0
        write(journal, 7, 1)
        assert journal.get("note", item(6, "not")).value["text"] == "6"
    check_sound(root, 7)


def test_a_child_forked_within_a_mutation_does_not_write_it_too(tmp_path):
    """It has not got the lock: what it wrote would come between the parent's look at the segment and his write."""
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        write(journal, 1, 3)
        pids: list[int] = []
        codes: list[int] = []

        def fork(transaction):
            transaction.put("note", item(4, "not"), {"text": "4", "pad": PAD})
            pids.append(os.fork())
            if pids[0]:  # it has come to its end before we go on
                codes.append(os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]))

        code = 1
        try:
            receipt = journal.mutate(fork, WRITER)
        except ForkedError:
            code = 0
        finally:
            if pids == [0]:
                os._exit(code)
        assert (receipt.first_seq, codes) == (4, [0])
    check_sound(root, 4)


@contextmanager
def opened_by_another_thread(root):
    is_open, may_close = threading.Event(), threading.Event()

    def hold():
        with open_journal(root) as journal:
            journal.refresh()
            is_open.set()
            may_close.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert is_open.wait(60)
    try:
        yield
    finally:
        may_close.set()
        thread.join()


# A process with threads is forked here, and Python from 3.12 on warns of that.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_where_another_thread_of_the_parent_has_it_open_a_child_is_served_from_memory(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        write(journal, 1, 5)

    def work():
        yield
        assert is_open_in_parent(os.path.join(root, "index.sqlite"))
        with open_journal(root) as own:
            assert own.index.is_memory
            assert own.get("note", item(3, "not")).value["text"] == "3"
            write(own, 6, 40)
            assert len(list(own.entities())) == 65

    with opened_by_another_thread(root):
        child = Child(work())
    with open_journal(root) as other:
        write(other, 46, 20)
    assert child.wait()
    child.go_on()
    assert child.end() == 0
    check_sound(root, 65)
