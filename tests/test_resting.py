"""A journal that is kept open and asked for nothing holds nothing of the index: else its log grows with all that others write."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from index_support import is_held
from mcp_support import Raw, Served
from periplus.agent.episodes import Ended, Requested
from periplus.agent.persistence.run_log import StoreLog
from periplus.base.errors import EnvironmentFailure, NotFoundError
from periplus.journal import Journal
from periplus.journal.care import doctor
from periplus.journal.history.follow import follow
from periplus.journal.index.connection import ClosedError, WrongThreadError
from periplus.memory import Memory
from periplus.project import Project
from support import TYPES, WRITER, item, make_store, open_journal, remove_index


def put(number, text):
    return lambda t: t.put("note", item(number, "not"), {"text": text})


def text_of(journal, number):
    return journal.get("note", item(number, "not")).value["text"]


@pytest.fixture
def root(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        journal.mutate(put(1, "first"), WRITER)
    return root


@pytest.fixture
def two(root):
    with open_journal(root) as ours, open_journal(root) as other:
        yield ours, other


def test_who_rests_holds_no_snapshot_and_who_does_not_holds_one(root, two):
    ours, other = two
    index = os.path.join(root, "index.sqlite")
    assert text_of(ours, 1) == "first"
    other.mutate(put(1, "second"), WRITER)
    other.rest()
    assert is_held(index), "a view stands on its snapshot from one look to the next"
    assert text_of(ours, 1) == "first"
    ours.rest()
    assert not is_held(index)
    assert Path(index + "-wal").stat().st_size == 0
    assert text_of(ours, 1) == "second", "what is asked next is answered as after a look"


def seen_by_a_mutation(journal):
    seen = []
    journal.mutate(lambda t: (seen.append(t.get("note", item(1, "not")).value["text"]), put(2, "beside")(t)), WRITER)
    return seen[0]


LOOKS = {
    "get": lambda journal: text_of(journal, 1),
    "entities": lambda journal: next(journal.entities("note")).value["text"],
    "find": lambda journal: journal.find(item(1, "not")).value["text"],
    "the index": lambda journal: next(
        one for one in journal.index.entities("note") if one.item_id == item(1, "not")
    ).value["text"],
    "a mutation": seen_by_a_mutation,
}


@pytest.mark.parametrize("is_indexed", [True, False], ids=["indexed", "behind the index"])
@pytest.mark.parametrize("look", LOOKS)
def test_whatever_is_asked_first_is_answered_by_what_there_is_then(two, look, is_indexed):
    """Of two versions behind the index the view before knew one: with an index that has both it would show the two side by side."""
    ours, other = two
    other.mutate(put(1, "second"), WRITER, project=False)
    ours.refresh()
    assert text_of(ours, 1) == "second"
    ours.rest()
    other.mutate(put(1, "third"), WRITER, project=is_indexed)
    if look == "the index" and not is_indexed:
        ours.project()
    assert LOOKS[look](ours) == "third"
    assert [head.rev for head in ours.heads_of("note", item(1, "not"))] == [3]


@pytest.mark.parametrize("is_indexed", [True, False], ids=["with another index", "with the same index"])
def test_who_is_in_haste_is_so_behind_a_rest_too(two, is_indexed):
    """The first look would have taken in everything before it asked how much that is."""
    ours, other = two
    ours.rest()
    if is_indexed:
        other.mutate(put(2, "in the index"), WRITER)
    other.mutate(put(1, "second"), WRITER, project=False)
    ours.refresh(0.0)
    assert (ours.is_stale, text_of(ours, 1)) == (True, "first")
    ours.refresh()
    assert (ours.is_stale, text_of(ours, 1)) == (False, "second")


def test_where_nothing_was_written_the_view_stays(two):
    ours, _ = two
    ours.mutate(put(2, "behind the index"), WRITER, project=False)
    overlay = ours._overlay
    ours.rest()
    assert text_of(ours, 2) == "behind the index"
    assert ours._overlay is overlay


def test_an_index_that_was_built_anew_meanwhile_is_opened(root, two):
    ours, other = two
    ours.rest()
    other.mutate(put(1, "second"), WRITER)
    other.renew_derived(is_beside=True)
    assert text_of(ours, 1) == "second"
    assert not ours.index.is_replaced()


def test_within_a_call_that_writes_nothing_is_given_back(two):
    ours, other = two

    def write(transaction):
        ours.rest()
        put(1, "second")(transaction)

    assert ours.mutate(write, WRITER).record_count == 1
    other.refresh()
    assert text_of(other, 1) == "second"


def test_of_a_closed_journal_or_in_another_thread(root):
    journal = open_journal(root)
    caught = []

    def rest():
        try:
            journal.rest()
        except WrongThreadError as error:
            caught.append(error)

    thread = threading.Thread(target=rest)
    thread.start()
    thread.join()
    assert caught
    journal.rest()
    journal.close()
    with pytest.raises(ClosedError):
        journal.rest()
    with open_journal(root) as journal:
        journal.rest()
    assert not is_held(os.path.join(root, "index.sqlite"))


def test_a_store_without_an_index_of_its_own(root):
    """Of a damaged journal what is sound is served from memory."""
    with open_journal(root) as journal:
        journal.mutate(put(2, "second"), WRITER)
        path = Path(journal.reader(journal.lineage).path_of(1))
    path.write_bytes(path.read_bytes().replace(b"second", b"sekond"))
    remove_index(root)
    with open_journal(root) as journal:
        assert journal.damage is not None
        journal.rest()
        assert text_of(journal, 1) == "first"
        assert journal.damage is not None
        with pytest.raises(NotFoundError):
            journal.find(item(2, "not"))


def test_who_follows_rests_while_he_waits(root, two):
    ours, other = two
    held, told = [], []

    def wait(_seconds):
        held.append(is_held(os.path.join(root, "index.sqlite")))
        if len(held) == 1:
            other.mutate(put(2, "comes"), WRITER)
            other.rest()
        return len(held) == 3

    for news in follow(ours, {ours.lineage: 1}, wait=wait):
        told += [record.seq for record in news.records]
    assert (held, told) == ([False] * 3, [2])


@pytest.mark.slow
def test_a_server_that_waits_for_its_next_call_holds_nothing(tmp_path):
    served = Served(tmp_path)
    with Raw(served) as raw:
        raw.shake_hands()
        assert not raw.call(1, "recall", {"question": "anything"}).get("isError")
        with served.project() as project:
            project.remember(Memory("note", "written by somebody else"))
            project.journal.rest()
        assert not is_held(served.folder / ".periplus" / "index.sqlite")
        found = raw.call(2, "recall", {"question": "somebody else"})
        assert "written by somebody else" in found["content"][0]["text"]
        assert raw.end()[0] == 0


def test_an_agent_that_waits_for_the_person_holds_nothing(tmp_path):
    Project.init(os.fspath(tmp_path))
    with Project.open(os.fspath(tmp_path), WRITER) as project:
        log = StoreLog(project, "s1")
        log.append(Requested(turn=1, text="do it"))
        log.append(Ended(turn=1, reason="done"))
        assert not is_held(tmp_path / ".periplus" / "index.sqlite")
        assert [type(one) for one in log.read()] == [Requested, Ended]
        log.close("done")


def test_the_log_is_made_short_again(root):
    """SQLite leaves it as long as it ever was; a snapshot that was held for long would be paid for ever."""
    with Journal(root, TYPES) as journal:
        assert journal.index.db.execute("PRAGMA journal_size_limit").fetchone()[0] == 16 << 20


def test_the_doctor_notes_a_log_that_somebody_keeps_long(root, two, monkeypatch):
    ours, other = two
    assert text_of(ours, 1) == "first"
    other.mutate(put(1, "second"), WRITER)
    monkeypatch.setattr(doctor, "_LOG_BYTES_LONG", 4096)
    log = os.path.join(root, "index.sqlite-wal")
    (told,) = [one for one in doctor.examine(other).problems if one.path == log]
    assert told.severity == "note"
    assert "a process that has the store open holds an old state of it" in told.what


def test_what_was_acknowledged_is_not_missing_where_it_cannot_be_read_again(root, monkeypatch):
    """As where no descriptor is left: the view was begun anew, and what had just been written was said not to be there."""
    with open_journal(root) as journal:

        def fails(*_args, **_more):
            raise EnvironmentFailure("too many open files")

        def fails_midway(*_args, **_more):
            journal._forget()
            fails()

        with monkeypatch.context() as patch:
            patch.setattr(journal, "project", fails_midway)
            patch.setattr(journal, "refresh", fails)
            assert journal.mutate(put(2, "second"), WRITER).last_seq == 2
            for _ in range(2):
                with pytest.raises(EnvironmentFailure):
                    journal.get("note", item(2, "not"))
        assert text_of(journal, 2) == "second"
