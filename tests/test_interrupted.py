"""An exception of a signal's handler may come between any two calls of a mutation: what follows is as if it had not run.

Python looks for signals when a function begins, behind a call and when a loop goes back. An exception is raised at these
places, one after the other, in a process that goes on then: its view has all that the journal has, its next mutation and
those of others are made, and no entity has two heads.
"""

from __future__ import annotations

import dis
import os
import sys
from types import CodeType

import pytest

import periplus
from periplus.base.files import Files
from periplus.base.process.locks import Lock
from periplus.journal.care.doctor import examine
from periplus.journal.storage.group_commit import FlushMap
from support import WRITER, item, make_store, open_journal

SOURCES = os.path.dirname(periplus.__file__)
# In a generator's end, or a finalizer, it is told and goes no further.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
LOOKS = ("CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD")


class Interrupted(BaseException):
    """What the handler raises."""


class Interrupts:
    """Raises at place number ``at``, from 1, within the block; ``is_raised`` says whether there were that many."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.is_raised = False
        self._is_left = False
        self._places: dict[CodeType, dict[int, bool]] = {}

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._begins)
        return self

    def __exit__(self, kind, *_):
        sys.settrace(self._before)
        return kind is Interrupted

    def _look(self) -> None:
        self.at -= 1
        if self.at == 0:
            self.is_raised = True
            sys.settrace(None)
            raise Interrupted

    def _begins(self, frame, event, argument):
        self._is_left = False
        if not frame.f_code.co_filename.startswith(SOURCES):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self._look()
        return self._goes_on

    def _goes_on(self, frame, event, argument):
        if event == "opcode":
            is_always = self._places_of(frame.f_code).get(frame.f_lasti)
            if is_always or (is_always is False and not self._is_left):
                self._look()
        # A call of Python's own kind ends without a look; not so one that C makes, as of a class.
        self._is_left = event == "return" and frame.f_code.co_name != "__init__"
        return self._goes_on

    def _places_of(self, code: CodeType) -> dict[int, bool]:
        """By place: whether there is a look whatever was called."""
        if code not in self._places:
            places, before = {}, ""
            for one in dis.get_instructions(code):
                if before in LOOKS:
                    places[one.offset] = before == "CALL_FUNCTION_EX"
                before = one.opname
            self._places[code] = places
        return self._places[code]


def put(number, text):
    return lambda transaction: transaction.put("note", item(number, "not"), {"text": text})


def several(text):
    def fn(transaction):
        transaction.put("note", item(2, "not"), {"text": text})
        transaction.put("decision", item(3), {"text": text})
        transaction.observe({"text": text})

    return fn


def shown(journal):
    return {one.item_id: one.version for one in journal.entities()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "step"),
    [
        (lambda journal, text: journal.mutate(put(1, text), WRITER, project=False), 9),
        (lambda journal, text: journal.mutate(put(2, text), WRITER, project=False), 9),  # the other's
        (lambda journal, text: journal.mutate(several(text), WRITER, key=text, project=False), 23),
        (lambda journal, text: journal.mutate(put(1, text), WRITER), 53),
        (lambda journal, text: (journal.refresh(), shown(journal)), 17),
    ],
    ids=["own", "other's", "batch", "projected", "read"],
)
def test_a_mutation_that_is_interrupted_anywhere(tmp_path, work, step):
    root = make_store(tmp_path)
    at, is_raised = 1, True
    with open_journal(root) as journal, open_journal(root) as other:
        journal.mutate(put(1, "first"), WRITER)  # what is imported for the first time is not what is looked at
        for number in range(3):
            journal.mutate(put(1, f"{number}"), WRITER, project=False)
            other.mutate(put(2, f"{number}"), WRITER, project=False)
        while is_raised:
            other.mutate(put(2, f"other {at}"), WRITER, project=False)
            other.mutate(put(4, f"other {at}"), WRITER, project=False)
            with Interrupts(at) as found:
                work(journal, f"interrupted {at}")
            is_raised = found.is_raised
            other.mutate(put(5, f"{at}"), WRITER, project=False, patience_s=0.5)
            journal.mutate(put(6, f"{at}"), WRITER, project=at % 2 > 0, patience_s=0.5)
            journal.refresh()
            with open_journal(root) as fresh:
                assert shown(journal) == shown(fresh), at
                assert fresh.contested() == [] == journal.contested(), at
            at += step
        journal.project()
    with open_journal(root) as journal:
        assert examine(journal).exit_code == 0
    assert at > 10 * step


@pytest.mark.parametrize("is_tried", [True, False])
def test_a_lock_that_was_being_taken_or_given_back_is_held_by_nobody(tmp_path, is_tried):
    lock, other = Lock(str(tmp_path / "lock")), Lock(str(tmp_path / "lock"))
    at, is_raised = 1, True
    while is_raised:
        with Interrupts(at) as found:
            if not is_tried:
                with lock.holding(0.0):
                    pass
            elif lock.try_take():  # what is taken so is given back by whoever is not interrupted
                sys.settrace(None)
                lock.release()
        is_raised = found.is_raised
        with other.holding(0.0):
            pass
        with lock.holding(0.0):
            pass
        at += 1
    lock.close()
    other.close()
    assert at > 4  # how many places there are is the version of Python's affair


def test_a_lock_that_was_being_made_is_taken_apart_in_silence(tmp_path):
    told, before = [], sys.unraisablehook
    sys.unraisablehook = told.append
    try:
        for at in range(1, 100):
            with Interrupts(at) as interrupts:
                Lock(os.fspath(tmp_path / "lock"))
            if not interrupts.is_raised:
                break
    finally:
        sys.unraisablehook = before
    assert 1 < at < 99
    assert [one.exc_type for one in told if one.exc_type is not Interrupted] == []


def test_closing_a_lock_that_guards_nothing_waits_for_nobody(tmp_path):
    lock = Lock(str(tmp_path / "lock"), is_guard=False)
    assert lock.try_take()
    lock.close()
    assert lock.try_take()
    lock.release()


@pytest.mark.slow
def test_a_map_that_was_being_opened_or_closed_has_all_of_its_parts(tmp_path):
    at, is_raised = 1, True
    while is_raised:
        flush = FlushMap(str(tmp_path / "flush"), "lin_0000000000000000", Files())
        with Interrupts(at) as found:
            flush.attach(1, 1, 1)
            flush.close()
            flush.attach(1, 1, 1)
        is_raised = found.is_raised
        flush.ring()
        assert not flush.is_anybody_hungry()
        assert flush.attach(1, 1, 1)[0] > 0
        assert flush.listen() is not None
        flush.close()
        at += 1
    assert at > 10


@pytest.mark.slow
def test_a_close_that_is_interrupted_anywhere_is_finished_by_the_next(tmp_path):
    root = make_store(tmp_path)
    at, is_raised = 1, True
    with open_journal(root) as journal:  # what a process opens once and keeps is opened
        journal.mutate(several("first"), WRITER)
    files = sorted(os.listdir("/proc/self/fd"))
    while is_raised:
        journal = open_journal(root)
        for _ in range(3):
            journal.mutate(several(f"before {at}"), WRITER)
        with Interrupts(at) as interrupts:
            journal.close()
        is_raised = interrupts.is_raised
        journal.close()
        assert sorted(os.listdir("/proc/self/fd")) == files, at
        at += 1
    assert at > 20
